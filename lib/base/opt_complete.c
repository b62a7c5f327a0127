/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --help=bash and --help=zsh print a program's table as a completion file of that shell. `make`
 * writes the files (docs/completion/Makefile), so a new option is completed without another line of
 * text.
 */
#include <string.h>
#include "lib/base/opt_priv.h"

/* Returns the words that an option accepts, divided by blanks. The text is empty if the option
 * accepts any value. */
static void value_words(char *text, size_t size, const struct inc_opt *opt)
{
	inc_opt_value_name(text, size, opt);
	if (!strchr(text, '|')) {
		*text = 0;
		return;
	}
	for (; *text; text++)
		if (*text == '|')
			*text = ' ';
}

/* Prints a program's name so that it can be part of the name of a shell function. */
static void print_function(const char *name)
{
	putchar('_');
	for (; *name; name++)
		putchar(*name == '-' ? '_' : *name);
}

/* ---- bash ---- */

static void bash_names(const struct inc_opt *opt, const char *between)
{
	const char *gap = "";

	if (opt->letter) {
		printf("-%c", opt->letter);
		gap = between;
	}
	if (opt->name) {
		printf("%s--%s", gap, opt->name);
		gap = between;
	}
	if (opt->alias)
		printf("%s--%s", gap, opt->alias);
}

/* Prints the patterns of a shell's case: options with a value, each with the words that it
 * accepts. */
static void bash_values(const struct inc_opt_set *set)
{
	char words[256];

	puts("\tcase $prev in");
	for (unsigned int i = 0; i < set->count; i++) {
		const struct inc_opt *opt = set->opt[i];

		if ((!opt->name && !opt->letter) || !inc_opt_has_value(opt))
			continue;
		value_words(words, sizeof(words), opt);
		fputs("\t", stdout);
		bash_names(opt, " | ");
		if (*words)
			printf(") COMPREPLY=($(compgen -W '%s' -- \"$cur\")); return ;;\n", words);
		else
			puts(") return ;;");
	}
	puts("\tesac");
}

static void bash_words(const struct inc_opt_set *set, const struct inc_command *commands)
{
	const char *gap = "";

	fputs("\twords='", stdout);
	for (unsigned int i = 0; i < set->count; i++) {
		if (!set->opt[i]->name && !set->opt[i]->letter)
			continue;
		fputs(gap, stdout);
		bash_names(set->opt[i], " ");
		gap = " ";
	}
	for (; commands && commands->name; commands++) {
		printf("%s%s", gap, commands->name);
		gap = " ";
	}
	puts("'");
}

static void bash_table(const struct inc_program *program, const struct inc_command *command)
{
	struct inc_opt_set set;

	inc_opt_collect(&set, program, command);
	bash_values(&set);
	bash_words(&set, command ? NULL : program->commands);
}

void inc_opt_bash(const struct inc_program *program)
{
	const struct inc_command *c = program->commands;

	printf("# bash completion of %s, printed by %s --help=bash\n", program->name,
	       program->name);
	print_function(program->name);
	puts("()\n{\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words "
	     "i\n"
	     "\tCOMPREPLY=()\n"
	     "\t# readline divides --option=value at the '='\n"
	     "\tif [[ $cur == '=' ]]; then\n\t\tcur=\n"
	     "\telif [[ $prev == '=' ]]; then\n\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n\tfi\n"
	     "\t# behind a -- stands the command line of another program\n"
	     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	     "\t\t[[ ${COMP_WORDS[i]} != -- ]] || return 0\n\tdone");
	if (c && !inc_opt_shares_table(program)) {
		puts("\tif ((COMP_CWORD > 1)); then\n\tcase ${COMP_WORDS[1]} in");
		for (; c->name; c++) {
			printf("\t%s)\n", c->name);
			bash_table(program, c);
			puts("\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n\treturn ;;");
		}
		puts("\tesac\n\tfi");
	}
	bash_table(program, NULL);
	puts("\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n}");
	fputs("complete -o default -F ", stdout);
	print_function(program->name);
	printf(" %s\n", program->name);
}

/* ---- zsh ---- */

/* Prints text inside '...' of a _arguments specification, where brackets and colons are escaped. */
static void zsh_text(const char *s)
{
	for (; *s; s++) {
		if (*s == '\'')
			fputs("'\\''", stdout);
		else if (*s == '\n')
			putchar(' ');
		else if (strchr("[]:\\", *s))
			printf("\\%c", *s);
		else
			putchar(*s);
	}
}

/* Prints ":VALUE:(words)", or completion of files if the option accepts any value. */
static void zsh_value(const struct inc_opt *opt)
{
	char name[128], words[256];

	inc_opt_value_name(name, sizeof(name), opt);
	value_words(words, sizeof(words), opt);
	putchar(':');
	zsh_text(name);
	if (*words)
		printf(":(%s)", words);
	else
		fputs(":_default", stdout);
}

static void zsh_name(const struct inc_opt *opt, const char *dashes, const char *name)
{
	char help[1024];
	const bool many = opt->kind == INC_KIND_LIST || opt->kind == INC_KIND_TAKE;

	inc_opt_help_text(help, sizeof(help), opt);
	/* a '=' after a long name makes zsh accept both "--name value" and "--name=value" */
	printf("\t\t'%s%s%s%s[", many ? "*" : "", dashes, name,
	       inc_opt_has_value(opt) ? dashes[1] ? "=" : "+" : "");
	zsh_text(help);
	putchar(']');
	if (inc_opt_has_value(opt))
		zsh_value(opt);
	puts("' \\");
}

static void zsh_argument(const struct inc_opt *opt)
{
	const bool many = opt->kind == INC_KIND_LIST;

	if (opt->kind == INC_KIND_REST) {
		puts("\t\t'*:::command:_normal' \\");
		return;
	}
	printf("\t\t'%s:", many ? "*" : "");
	if (opt->kind == INC_KIND_COMMAND) {
		puts("command:->commands' \\");
		return;
	}
	zsh_text(opt->value);
	puts(":_default' \\");
}

static void zsh_table(const struct inc_program *program, const struct inc_command *command)
{
	struct inc_opt_set set;

	inc_opt_collect(&set, program, command);
	puts("\t_arguments -s -C \\");
	for (unsigned int i = 0; i < set.count; i++) {
		const struct inc_opt *opt = set.opt[i];
		char letter[2] = {opt->letter};

		if (opt->letter)
			zsh_name(opt, "-", letter);
		if (opt->name)
			zsh_name(opt, "--", opt->name);
		if (opt->alias)
			zsh_name(opt, "--", opt->alias);
		if (inc_opt_is_argument(opt))
			zsh_argument(opt);
	}
	puts("\t\t&& return 0");
}

void inc_opt_zsh(const struct inc_program *program)
{
	const bool own = program->commands && !inc_opt_shares_table(program);
	const struct inc_command *c;

	printf("#compdef %s\n# zsh completion of %s, printed by %s --help=zsh\n", program->name,
	       program->name, program->name);
	puts("local state line context\nlocal -A opt_args");
	if (program->commands) {
		puts("local -a commands=(");
		for (c = program->commands; c->name; c++) {
			printf("\t'%s:", c->name);
			zsh_text(c->help);
			puts("'");
		}
		puts(")");
	}
	if (own) {
		puts("if ((CURRENT > 2)); then\n\tcase $words[2] in");
		for (c = program->commands; c->name; c++) {
			printf("\t%s)\n\tshift words\n\t((CURRENT--))\n", c->name);
			zsh_table(program, c);
			puts("\treturn 1 ;;");
		}
		puts("\tesac\nelse\n\t_describe command commands\nfi");
	}
	zsh_table(program, NULL);
	if (program->commands)
		puts("[[ $state != commands ]] || _describe command commands");
}
