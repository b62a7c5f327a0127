/* SPDX-License-Identifier: BSD-2-Clause */
/* --help: prints a program's table as text of 80 columns. */
#include <stdarg.h>
#include <string.h>
#include "lib/base/opt_priv.h"

#define WIDTH    80
#define HELP_AT  30 /* column where the help of an option begins */
#define TEXT_MAX 1024

static void add(char *text, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add(char *text, size_t size, const char *fmt, ...)
{
	size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + len, size - len, fmt, ap);
	va_end(ap);
}

/* Prints the words of text, wrapped to WIDTH, and ends the line. column: where the cursor stands.
 * indent: where further lines begin. */
static void wrap(const char *text, unsigned int column, unsigned int indent)
{
	while (*text) {
		size_t n = strcspn(text, " \n");

		if (column > indent && column + 1 + n > WIDTH) {
			putchar('\n');
			column = 0;
		}
		if (n && column < indent)
			column += printf("%*s", (int)(indent - column), "");
		else if (n && column > indent)
			column += printf(" ");
		column += printf("%.*s", (int)n, text);
		text += n;
		if (*text == '\n') {
			putchar('\n');
			column = 0;
		}
		text += *text != 0;
	}
	putchar('\n');
}

void inc_opt_value_name(char *text, size_t size, const struct inc_opt *opt)
{
	const struct inc_opt_word *w;

	*text = 0;
	if (opt->value || opt->kind != INC_KIND_WORD) {
		add(text, size, "%s", opt->value ? opt->value : "");
		return;
	}
	for (w = opt->words; w->word; w++)
		add(text, size, "%s%s", *text ? "|" : "", w->word);
}

void inc_opt_help_text(char *text, size_t size, const struct inc_opt *opt)
{
	*text = 0;
	add(text, size, "%s", opt->help ? opt->help : "");
	if (opt->preset)
		add(text, size, " (default %s)", opt->preset);
	if (opt->alias)
		add(text, size, " (also --%s)", opt->alias);
	if (opt->kind == INC_KIND_LIST && !inc_opt_is_argument(opt))
		add(text, size, " (repeatable)");
}

const char *inc_opt_exits(const struct inc_program *program)
{
	return program->exits ? program->exits : "0 ok, 1 failure, 2 wrong command line.";
}

/* Makes a usage line: required options, "[OPTIONS]" for the others, then the arguments. */
static void make_form(char *text, size_t size, const struct inc_opt_set *set)
{
	char value[128];
	unsigned int i, shown = 0, options = 0;

	*text = 0;
	for (i = 0; i < set->count; i++) {
		if (!set->opt[i]->name)
			continue;
		options++;
		if (!set->opt[i]->required)
			continue;
		inc_opt_value_name(value, sizeof(value), set->opt[i]);
		add(text, size, "%s--%s %s", *text ? " " : "", set->opt[i]->name, value);
		shown++;
	}
	/* do not print "[OPTIONS]" for --help alone */
	if (options > shown + 1)
		add(text, size, "%s[OPTIONS]", *text ? " " : "");
	for (i = 0; i < set->count; i++) {
		const struct inc_opt *opt = set->opt[i];
		bool many = opt->kind == INC_KIND_LIST || opt->kind == INC_KIND_REST;

		if (inc_opt_is_argument(opt))
			add(text, size, "%s%s%s%s%s%s", *text ? " " : "", opt->required ? "" : "[",
			    opt->kind == INC_KIND_REST ? "-- " : "", opt->value, many ? "..." : "",
			    opt->required ? "" : "]");
	}
}

static void one_form(const struct inc_program *program, const struct inc_command *command,
		     inc_opt_print_form print, bool first)
{
	struct inc_opt_set set;
	char form[256];

	inc_opt_collect(&set, program, command);
	make_form(form, sizeof(form), &set);
	print(program->name, command ? command->name : NULL, form, first);
}

void inc_opt_forms(const struct inc_program *program, inc_opt_print_form print)
{
	const struct inc_command *c;
	const char *const *form;
	bool first = true;

	for (form = program->forms; form && *form; form++, first = false)
		print(program->name, NULL, *form, first);
	if (!program->forms && !inc_opt_needs_command(program)) {
		one_form(program, NULL, print, true);
		first = false;
	}
	for (c = program->commands; c && c->name && !inc_opt_shares_table(program); c++) {
		one_form(program, c, print, first);
		first = false;
	}
}

static void print_form(const char *name, const char *command, const char *form, bool first)
{
	printf("%s %s%s%s%s%s\n", first ? "usage:" : "      ", name, command ? " " : "",
	       command ? command : "", *form ? " " : "", form);
}

static void print_option(const struct inc_opt *opt)
{
	char left[256] = "", value[128], help[TEXT_MAX];
	unsigned int column;

	inc_opt_value_name(value, sizeof(value), opt);
	inc_opt_help_text(help, sizeof(help), opt);
	if (opt->kind == INC_KIND_TERM)
		add(left, sizeof(left), "        %s", value);
	else if (inc_opt_is_argument(opt))
		add(left, sizeof(left), "  %s", value);
	else if (opt->letter)
		add(left, sizeof(left), "  -%c, --%s%s%s", opt->letter, opt->name,
		    *value ? " " : "", value);
	else
		add(left, sizeof(left), "      --%s%s%s", opt->name, *value ? " " : "", value);
	column = printf("%s", left);
	if (column + 2 > HELP_AT) {
		putchar('\n');
		column = 0;
	}
	wrap(help, column, HELP_AT);
}

/* Prints the options. Arguments without a help text are in the usage line only. */
static void print_options(const struct inc_opt_set *set)
{
	for (unsigned int i = 0; i < set->count; i++) {
		const struct inc_opt *opt = set->opt[i];

		if (opt->kind == INC_KIND_HEADING) {
			putchar('\n');
			wrap(opt->help, 0, 0);
		} else if (!inc_opt_is_argument(opt) || opt->help) {
			print_option(opt);
		}
	}
}

static void print_commands(const struct inc_program *program)
{
	const bool shared = inc_opt_shares_table(program);
	const struct inc_command *c;
	struct inc_opt_set set;

	if (!program->commands)
		return;
	puts("\nCommands:");
	for (c = program->commands; c->name; c++) {
		if (!shared && c != program->commands)
			putchar('\n');
		wrap(c->help, printf("  %s", c->name), HELP_AT);
		if (shared)
			continue;
		inc_opt_collect(&set, program, c);
		set.count--; /* do not print --help, because the program's own list has it */
		print_options(&set);
	}
}

void inc_opt_help(const struct inc_program *program, const struct inc_command *command)
{
	struct inc_opt_set set;

	if (command)
		one_form(program, command, print_form, true);
	else
		inc_opt_forms(program, print_form);
	putchar('\n');
	wrap(command ? command->help : program->about, 0, 0);
	if (!command)
		print_commands(program);
	putchar('\n');
	inc_opt_collect(&set, program, command);
	print_options(&set);
	if (command)
		return;
	putchar('\n');
	if (program->notes) {
		wrap(program->notes, 0, 0);
		putchar('\n');
	}
	fputs("Exit codes:", stdout);
	wrap(inc_opt_exits(program), strlen("Exit codes:"), 0);
}
