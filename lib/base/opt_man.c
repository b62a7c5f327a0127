/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --help=man prints the parts of a program's man page that its table has, in the macros of man(7).
 * docs/man/Makefile joins these parts to the rest of the page, which is written by hand.
 */
#include <ctype.h>
#include <string.h>
#include "lib/base/opt_priv.h"

/* Prints text with the characters escaped that mean something to roff. Empty lines divide
 * paragraphs. */
static void text(const char *s)
{
	static const struct {
		char c;
		const char *roff;
	} marks[] = {{'-', "\\-"},   {'\\', "\\e"},  {'\'', "\\(aq"},
		     {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
	bool begins = true;

	for (; *s; s++) {
		size_t i;

		if (s[0] == '\n') {
			fputs(s[1] == '\n' ? "\n.PP\n" : "\n.br\n", stdout);
			s += s[1] == '\n';
			begins = true;
			continue;
		}
		if (begins && *s == '.')
			fputs("\\&", stdout);
		begins = false;
		for (i = 0; i < sizeof(marks) / sizeof(marks[0]) && marks[i].c != *s; i++)
			;
		if (i < sizeof(marks) / sizeof(marks[0]))
			fputs(marks[i].roff, stdout);
		else
			putchar(*s);
	}
}

static void paragraph(const char *s)
{
	text(s);
	putchar('\n');
}

static void in_font(char font, const char *s)
{
	printf("\\f%c", font);
	text(s);
	fputs("\\fR", stdout);
}

static void print_option(const struct inc_opt *opt)
{
	char value[128], help[1024], letter[2] = {opt->letter};

	inc_opt_value_name(value, sizeof(value), opt);
	inc_opt_help_text(help, sizeof(help), opt);
	puts(".TP");
	if (opt->letter) {
		fputs("\\fB\\-", stdout);
		text(letter);
		fputs("\\fR, ", stdout);
	}
	if (opt->name) {
		fputs("\\fB\\-\\-", stdout);
		text(opt->name);
		fputs(*value ? "\\fR " : "\\fR", stdout);
	}
	if (*value)
		in_font(opt->kind == INC_KIND_TERM ? 'B' : 'I', value);
	putchar('\n');
	paragraph(help);
}

static void print_options(const struct inc_opt_set *set)
{
	for (unsigned int i = 0; i < set->count; i++) {
		const struct inc_opt *opt = set->opt[i];

		if (opt->kind == INC_KIND_HEADING) {
			puts(".PP");
			paragraph(opt->help);
		} else if (!inc_opt_is_argument(opt) || opt->help) {
			print_option(opt);
		}
	}
}

static void print_form(const char *name, const char *command, const char *form, bool first)
{
	fputs("\\fB", stdout);
	text(name);
	if (command) {
		putchar(' ');
		text(command);
	}
	fputs("\\fR ", stdout);
	text(form);
	putchar('\n');
}

static void print_commands(const struct inc_program *program)
{
	const bool shared = inc_opt_shares_table(program);
	const struct inc_command *c;
	struct inc_opt_set set;

	puts(".SH COMMANDS");
	for (c = program->commands; c->name; c++) {
		if (shared) {
			puts(".TP");
			in_font('B', c->name);
			putchar('\n');
			paragraph(c->help);
			continue;
		}
		fputs(".SS ", stdout);
		paragraph(c->name);
		paragraph(c->help);
		inc_opt_collect(&set, program, c);
		set.count--; /* do not print --help, because the program's own list has it */
		print_options(&set);
	}
}

void inc_opt_man(const struct inc_program *program)
{
	struct inc_opt_set set;

	fputs(".TH ", stdout);
	for (const char *p = program->name; *p; p++)
		putchar(toupper((unsigned char)*p));
	printf(" %u \"\" INC \"%s\"\n.SH NAME\n", program->man_section,
	       program->man_section == 8 ? "System Administration" : "User Commands");
	text(program->name);
	fputs(" \\- ", stdout);
	paragraph(program->brief);
	puts(".SH SYNOPSIS\n.nf");
	inc_opt_forms(program, print_form);
	puts(".fi");
	puts(".SH DESCRIPTION");
	paragraph(program->about);
	if (program->commands)
		print_commands(program);
	puts(".SH OPTIONS");
	inc_opt_collect(&set, program, NULL);
	print_options(&set);
	if (program->notes) {
		puts(".SH NOTES");
		paragraph(program->notes);
	}
	puts(".SH EXIT STATUS");
	paragraph(inc_opt_exits(program));
}
