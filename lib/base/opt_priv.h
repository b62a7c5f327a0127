/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of the option tables share. */
#ifndef INC_OPT_PRIV_H
#define INC_OPT_PRIV_H

#include <stdbool.h>
#include <stdio.h>
#include "lib/base/opt.h"

#define INC_OPT_MAX 64 /* limit of entries of one command line, headings included */

/* The entries that a command line may use: those of its command's tables, or of the program's
 * tables if there is no such command. Then comes --help, and --version if there is no
 * such command. */
struct inc_opt_set {
	const struct inc_opt *opt[INC_OPT_MAX];
	/* for each entry: offset in the settings of the struct that the entry's table fills */
	size_t offset[INC_OPT_MAX];
	unsigned int count;
};

/* Fills set. command NULL: set has the entries of the program itself. */
void inc_opt_collect(struct inc_opt_set *set, const struct inc_program *program,
		     const struct inc_command *command);

/* Whether the program's own table has an INC_OPT_COMMAND. */
bool inc_opt_shares_table(const struct inc_program *program);

/* Whether the command line must begin with a command that has a table of its own. */
static inline bool inc_opt_needs_command(const struct inc_program *program)
{
	return program->commands && !program->groups[0].options;
}

static inline bool inc_opt_is_argument(const struct inc_opt *opt)
{
	return !opt->name && !opt->letter && opt->kind != INC_KIND_HEADING &&
	       opt->kind != INC_KIND_TERM;
}

static inline bool inc_opt_has_value(const struct inc_opt *opt)
{
	return opt->kind != INC_KIND_FLAG && opt->kind != INC_KIND_HELP &&
	       opt->kind != INC_KIND_VERSION;
}

/* opt_value.c: parses a text into the option's member. said: the option as the user wrote it, for
 * error messages. */
int inc_opt_take(const struct inc_opt *opt, const char *said, const char *text, void *member);

/* opt_help.c and opt_man.c: print help. command NULL: print the help of the whole program. */
void inc_opt_help(const struct inc_program *program, const struct inc_command *command);
void inc_opt_man(const struct inc_program *program);
/* opt_complete.c: print completion files. */
void inc_opt_bash(const struct inc_program *program);
void inc_opt_zsh(const struct inc_program *program);

/* opt_help.c: calls print for each form of the command line, from which --help makes its usage
 * lines and the man page its SYNOPSIS. command: name of the command that the form is for; NULL:
 * none. */
typedef void (*inc_opt_print_form)(const char *name, const char *command, const char *form,
				   bool first);
void inc_opt_forms(const struct inc_program *program, inc_opt_print_form print);
/* Writes the name of the option's value. For an option with words that is their list ("auto|soft"),
 * else the name in the table. */
void inc_opt_value_name(char *text, size_t size, const struct inc_opt *opt);
/* Writes the help text of an option, and after it the preset, the alias, and "(repeatable)". */
void inc_opt_help_text(char *text, size_t size, const struct inc_opt *opt);
const char *inc_opt_exits(const struct inc_program *program);

#endif
