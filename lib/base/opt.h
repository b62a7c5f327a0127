/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line of a program as one table. The table is used to parse the command line, to
 * check its values and to print --help. It also yields the middle of the man page (--help=man, for
 * docs/man/Makefile) and the completion files of shells (--help=bash, --help=zsh, for
 * docs/completion/Makefile).
 *
 * A program describes its options in a struct inc_program, and reads its command line with
 * inc_opt_parse(). That stores the values in a struct of the program, which is called the settings.
 * An error in the command line is reported in one line on stderr, and the program ends with 2.
 */
#ifndef INC_OPT_H
#define INC_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

/* The value of a constant as a string literal, for help texts and presets. */
#define INC_STR_(x) #x
#define INC_STR(x)  INC_STR_(x)

enum inc_opt_kind {
	INC_KIND_END, /* the empty entry that ends a table */
	INC_KIND_HEADING,
	INC_KIND_TERM,
	INC_KIND_FLAG,
	INC_KIND_NUMBER,
	INC_KIND_SIZE,
	INC_KIND_TEXT,
	INC_KIND_WORD,
	INC_KIND_TAKE,
	INC_KIND_LIST,
	INC_KIND_COMMAND,
	INC_KIND_REST,
	INC_KIND_HELP,
	INC_KIND_VERSION,
};

/* One of the words that an option accepts, and the number of the word. Lists of words end with an
 * empty one. */
struct inc_opt_word {
	const char *word;
	int value;
};

/* The values that the command line has for a repeatable option. inc_opt_list_free() frees the
 * array. */
struct inc_opt_list {
	const char **text;
	unsigned int count;
};

/* Checks a value. Returns 0, or -EINVAL and a sentence that quotes the value. The option's name
 * is put before the sentence. */
typedef int (*inc_opt_check)(const char *text, struct inc_err *err);

/*
 * Describes an option. An entry without name and letter is an argument. Arguments are taken in the
 * order of the table. The last line of an entry is one of the INC_OPT_* macros below, which gives
 * the kind of value and the member of the settings that receives it.
 */
struct inc_opt {
	const char *name; /* name of the option without its dashes */
	char letter;      /* short form of the option; 0: none */
	/* name of the value in --help, such as "FILE"; NULL for INC_OPT_WORD: --help shows the list
	 * of words */
	const char *value;
	/* help text, which --help and the man page wrap; a newline in it breaks a line */
	const char *help;
	const char *preset; /* default value, which --help prints; NULL: none */
	const char *alias;  /* another name of the option, such as an older one; NULL: none */
	bool required;

	enum inc_opt_kind kind;
	size_t offset; /* offset in the settings of the member that receives the value */
	size_t size;   /* size of that member if the value is a number */
	uint64_t min, max;
	const struct inc_opt_word *words;
	inc_opt_check check; /* check of the value; NULL: the option accepts any text */
	int (*take)(void *member, const char *text, struct inc_err *err);
};

/* The offset of a member; does not compile if the member has another type. */
#define INC_OPT_AT(s, m, type) .offset = offsetof(s, m) + _Generic(&((s *)0)->m, type * : 0)

/* An option without a value, which sets its bool member to true. */
#define INC_OPT_FLAG(s, m) .kind = INC_KIND_FLAG, INC_OPT_AT(s, m, bool)
/* A decimal number without sign or blanks. Its member may have any integer type. */
#define INC_OPT_NUMBER(s, m, least, most)                                                        \
	.kind = INC_KIND_NUMBER, .min = (least), .max = (most),                                  \
	.offset = offsetof(s, m) +                                                               \
		  _Generic(((s *)0)->m, int : 0, unsigned int : 0, long : 0, unsigned long : 0), \
	.size = sizeof(((s *)0)->m)
/* A number of bytes with an optional suffix K, M or G (of 1024), for a uint64_t member. */
#define INC_OPT_SIZE(s, m) .kind = INC_KIND_SIZE, INC_OPT_AT(s, m, uint64_t)
/* The text itself, if the check accepts it. */
#define INC_OPT_TEXT(s, m, look) \
	.kind = INC_KIND_TEXT, .check = (look), INC_OPT_AT(s, m, const char *)
/* One of the words in a list. Its number goes to an int or enum member. */
#define INC_OPT_WORD(s, m, list)                \
	.kind = INC_KIND_WORD, .words = (list), \
	.offset = offsetof(s, m) + 0 * sizeof(char[sizeof(((s *)0)->m) == sizeof(int) ? 1 : -1])
/* A value of any form. A function parses the text into the member, which may have any type. */
#define INC_OPT_TAKE(s, m, function) \
	.kind = INC_KIND_TAKE, .take = (function), .offset = offsetof(s, m)
/* Like INC_OPT_TAKE, for a function that sets several members or none. It receives the whole struct
 * of the table. */
#define INC_OPT_TAKE_WHOLE(function) .kind = INC_KIND_TAKE, .take = (function)
/* Texts of a repeatable option, in a struct inc_opt_list. */
#define INC_OPT_LIST(s, m, look) \
	.kind = INC_KIND_LIST, .check = (look), INC_OPT_AT(s, m, struct inc_opt_list)
/* An argument: the name of one of the program's commands. */
#define INC_OPT_COMMAND .kind = INC_KIND_COMMAND
/* The last argument, which is all further words, options or not, after "--" or after another
 * argument. They stay in argv, and a NULL ends them. */
#define INC_OPT_REST(s, m) .kind = INC_KIND_REST, INC_OPT_AT(s, m, char **)

/* Two entries that are no options, because --help only prints them: a heading above the options
 * that follow, and an item of a list with its text. */
#define INC_OPT_HEADING(text)                            \
	{                                                \
		.kind = INC_KIND_HEADING, .help = (text) \
	}
#define INC_OPT_TERM(term, text)                                       \
	{                                                              \
		.kind = INC_KIND_TERM, .value = (term), .help = (text) \
	}

/* A table, and the offset in a program's settings of the struct that the table fills. With that
 * offset several programs can share a table. */
struct inc_opt_group {
	/* the table, which ends with an empty entry; NULL: there is no group */
	const struct inc_opt *options;
	size_t offset;
};

#define INC_OPT_GROUPS 4

/* A command. A command with a table of its own is the first word: PROGRAM COMMAND [OPTIONS]. If
 * the program's own table has an INC_OPT_COMMAND, all commands share that table. */
struct inc_command {
	const char *name;
	const char *help;
	struct inc_opt_group groups[INC_OPT_GROUPS];
	/* checks the command's options together, like `check` of struct inc_program */
	int (*check)(void *settings);
	/* anything that the program wants to store with the command; option parsing does not use
	 * it */
	const void *own;
};

struct inc_program {
	const char *name;
	unsigned int man_section;
	/* half a sentence about the program, for the top of the man page */
	const char *brief;
	/* description of the program: paragraphs, with an empty line between them */
	const char *about;
	/* forms of the usage line, ended by a NULL; NULL: --help makes one from the table */
	const char *const *forms;
	struct inc_opt_group groups[INC_OPT_GROUPS];
	/* list of commands, ended by an empty one; NULL: none */
	const struct inc_command *commands;
	const char *notes; /* further paragraphs of --help, after the options */
	/* description of the exit codes; NULL: 0 ok, 1 failure, 2 wrong command line */
	const char *exits;
	/* text that --version prints behind the program's name and the release; NULL: none */
	const char *version;
	/* checks the options together. Returns 0, or -EINVAL after inc_usage(). NULL: no check */
	int (*check)(void *settings);
};

/*
 * Stores presets, then the values of the command line, in settings. Returns -1 if the program
 * shall go on. Otherwise --help, --version or an error message has been printed, and the exit code
 * is returned, and *command stays as it was. *command becomes the command that was given. It is
 * NULL if the program has no commands, or runs without one.
 */
int inc_opt_parse(const struct inc_program *program, int argc, char **argv, void *settings,
		  const struct inc_command **command);

void inc_opt_list_free(struct inc_opt_list *list);

/* Prints "program: text (see --help)" on stderr and returns -EINVAL. */
int inc_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Parsers of values, for checks of the programs' own. They return 0, or -EINVAL and the reason. */
int inc_opt_number(const char *text, uint64_t min, uint64_t max, uint64_t *out,
		   struct inc_err *err);
/* Parses seconds, "1" or "0.25". */
int inc_opt_seconds(const char *text, double min, double max, double *out, struct inc_err *err);
/* Parses bytes, with an optional suffix K, M or G. *end becomes the first character after the
 * size. */
int inc_opt_size(const char *text, const char **end, uint64_t *out);
/* Accepts any text as a path, except the empty one. */
int inc_path_check(const char *text, struct inc_err *err);

#endif
