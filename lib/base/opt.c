/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Parses a command line by a program's table. A long option is "--name value" or "--name=value",
 * with its whole name. Letters are "-n 4", "-n4" or, without values, "-jk". Options and arguments
 * may be mixed unless the table ends with INC_OPT_REST.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include "lib/base/opt_priv.h"
#include "lib/base/stdout.h"

struct parser {
	const struct inc_program *program;
	const struct inc_command *command; /* command that was given; NULL: none yet */
	struct inc_opt_set set;
	bool given[INC_OPT_MAX];
	char *settings;
	char **words; /* the words not yet parsed, ended by a NULL */
	bool ended;   /* all further words are arguments, even if they begin with a dash */
	bool dashes;  /* a "--" has been seen, so a second "--" is an argument */
	bool done;    /* --help or --version has been printed */
};

static const struct inc_opt help_option[] = {
	{.name = "help", .letter = 'h', .help = "print this text", .kind = INC_KIND_HELP}, {}};
static const struct inc_opt version_option[] = {
	{.name = "version", .help = "print the release", .kind = INC_KIND_VERSION}, {}};

static void collect(struct inc_opt_set *set, const struct inc_opt *options, size_t offset)
{
	for (; options && options->kind != INC_KIND_END; options++) {
		assert(set->count < INC_OPT_MAX);
		set->opt[set->count] = options;
		set->offset[set->count++] = offset;
	}
}

void inc_opt_collect(struct inc_opt_set *set, const struct inc_program *program,
		     const struct inc_command *command)
{
	const struct inc_opt_group *groups = command ? command->groups : program->groups;

	set->count = 0;
	for (unsigned int i = 0; i < INC_OPT_GROUPS; i++)
		collect(set, groups[i].options, groups[i].offset);
	collect(set, help_option, 0);
	collect(set, command ? NULL : version_option, 0);
}

bool inc_opt_shares_table(const struct inc_program *program)
{
	struct inc_opt_set set;

	inc_opt_collect(&set, program, NULL);
	for (unsigned int i = 0; i < set.count; i++)
		if (set.opt[i]->kind == INC_KIND_COMMAND)
			return true;
	return false;
}

static const struct inc_command *find_command(const struct inc_program *program, const char *word)
{
	const struct inc_command *c;

	for (c = program->commands; c && c->name; c++)
		if (!strcmp(c->name, word))
			return c;
	return NULL;
}

/* Carries out entry i of the table, which the command line has: stores its value, or prints help or
 * the version. The parameter value is NULL if the option has none, and said is the option as the
 * user wrote it. */
static int take_entry(struct parser *p, unsigned int i, const char *said, const char *value)
{
	const struct inc_opt *opt = p->set.opt[i];

	p->given[i] = true;
	if (opt->kind == INC_KIND_HELP) {
		inc_opt_help(p->program, p->command);
		p->done = true;
		return 0;
	}
	if (opt->kind == INC_KIND_VERSION) {
		printf("%s " INC_RELEASE "%s%s\n", p->program->name, p->program->version ? " " : "",
		       p->program->version ?: "");
		p->done = true;
		return 0;
	}
	return inc_opt_take(opt, said, value, p->settings + p->set.offset[i] + opt->offset);
}

static bool is_called(const struct inc_opt *opt, const char *name)
{
	return (opt->name && !strcmp(opt->name, name)) || (opt->alias && !strcmp(opt->alias, name));
}

/* --help=READER prints the table in the format of another program. False: no such reader. */
static bool print_for(const struct inc_program *program, const char *reader)
{
	static const struct {
		const char *name;
		void (*print)(const struct inc_program *program);
	} readers[] = {{"man", inc_opt_man}, {"bash", inc_opt_bash}, {"zsh", inc_opt_zsh}};

	for (size_t i = 0; i < sizeof(readers) / sizeof(readers[0]); i++) {
		if (!strcmp(reader, readers[i].name)) {
			readers[i].print(program);
			return true;
		}
	}
	return false;
}

/* Parses "--name", "--name=value" or "--name value". */
static int take_long(struct parser *p)
{
	char *word = *p->words++, *value = strchr(word, '=');
	const struct inc_opt *opt;
	unsigned int i;

	/* error messages name the option without its value */
	if (value)
		*value++ = 0;
	for (i = 0; i < p->set.count; i++)
		if (is_called(p->set.opt[i], word + 2))
			break;
	if (i == p->set.count)
		return inc_usage("unknown option '%s'", word);
	opt = p->set.opt[i];
	if (opt->kind == INC_KIND_HELP && value && !p->command && print_for(p->program, value)) {
		p->done = true;
		return 0;
	}
	if (!inc_opt_has_value(opt))
		return value ? inc_usage("%s takes no value", word) : take_entry(p, i, word, NULL);
	if (!value && !*p->words)
		return inc_usage("%s needs a value", word);
	return take_entry(p, i, word, value ? value : *p->words++);
}

/* Parses "-jk", "-n4" or "-n 4". */
static int take_letters(struct parser *p)
{
	const char *at = *p->words++ + 1;
	char said[3] = "-";
	unsigned int i;
	int ret = 0;

	while (*at && !ret && !p->done) {
		said[1] = *at++;
		for (i = 0; i < p->set.count; i++)
			if (p->set.opt[i]->letter == said[1])
				break;
		if (i == p->set.count)
			return inc_usage("unknown option '%s'", said);
		if (inc_opt_has_value(p->set.opt[i])) {
			if (!*at && !*p->words)
				return inc_usage("%s needs a value", said);
			return take_entry(p, i, said, *at ? at : *p->words++);
		}
		ret = take_entry(p, i, said, NULL);
	}
	return ret;
}

static int take_argument(struct parser *p)
{
	const struct inc_opt *opt;
	unsigned int i;

	for (i = 0; i < p->set.count; i++) {
		opt = p->set.opt[i];
		if (inc_opt_is_argument(opt) && (!p->given[i] || opt->kind == INC_KIND_LIST))
			break;
	}
	if (i == p->set.count && !p->command && inc_opt_needs_command(p->program))
		return inc_usage("'%s' is no command", *p->words);
	if (i == p->set.count)
		return inc_usage("unexpected argument '%s'", *p->words);
	p->given[i] = true;
	if (opt->kind == INC_KIND_REST) {
		*(char ***)(p->settings + p->set.offset[i] + opt->offset) = p->words;
		while (*p->words)
			p->words++;
		return 0;
	}
	if (opt->kind == INC_KIND_COMMAND) {
		p->command = find_command(p->program, *p->words);
		return p->command ? (p->words++, 0) : inc_usage("'%s' is no command", *p->words);
	}
	return take_entry(p, i, opt->value, *p->words++);
}

static bool has_rest(const struct parser *p)
{
	for (unsigned int i = 0; i < p->set.count; i++)
		if (p->set.opt[i]->kind == INC_KIND_REST)
			return true;
	return false;
}

static int take_words(struct parser *p)
{
	const bool rest = has_rest(p);
	int ret = 0;

	while (*p->words && !ret && !p->done) {
		const char *word = *p->words;

		if (!p->dashes && !strcmp(word, "--")) {
			p->dashes = p->ended = true;
			p->words++;
		} else if (!p->ended && !strncmp(word, "--", 2)) {
			ret = take_long(p);
		} else if (!p->ended && word[0] == '-' && word[1]) {
			ret = take_letters(p);
		} else {
			ret = take_argument(p);
			/* in "NODE -- CMD" a "--" may also stand right before the command line of
			 * INC_OPT_REST */
			p->ended = p->ended || rest;
			p->dashes = p->dashes && !rest;
		}
	}
	return ret;
}

static int take_presets(struct parser *p)
{
	int ret = 0;

	for (unsigned int i = 0; i < p->set.count && !ret; i++) {
		const struct inc_opt *opt = p->set.opt[i];

		if (opt->preset)
			ret = inc_opt_take(opt, opt->name ? opt->name : opt->value, opt->preset,
					   p->settings + p->set.offset[i] + opt->offset);
	}
	return ret;
}

static int check_required(const struct parser *p)
{
	const bool own = p->command && !inc_opt_shares_table(p->program);

	for (unsigned int i = 0; i < p->set.count; i++) {
		const struct inc_opt *opt = p->set.opt[i];

		if (opt->required && !p->given[i])
			return inc_usage("%s%s%s%s is missing", own ? p->command->name : "",
					 own ? ": " : "", opt->name ? "--" : "",
					 opt->name ? opt->name : opt->value);
	}
	if (!p->command && inc_opt_needs_command(p->program))
		return inc_usage("COMMAND is missing");
	return 0;
}

/* Flushes what --help or --version has printed. Returns the exit code: 0, or 1 if the output could
 * not be written. */
static int end_printing(void)
{
	struct inc_err err;

	if (!inc_stdout_flush(&err))
		return 0;
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, err.msg);
	return 1;
}

/* Whether the first word asks for help as a command of other programs does. */
static bool is_help(const struct inc_program *program, const char *word)
{
	return !strcmp(word, "help") &&
	       (inc_opt_needs_command(program) || inc_opt_shares_table(program)) &&
	       !find_command(program, word);
}

int inc_opt_parse(const struct inc_program *program, int argc, char **argv, void *settings,
		  const struct inc_command **command)
{
	struct parser p = {.program = program, .settings = settings, .words = argv + (argc > 0)};
	int (*check)(void *);
	int ret;

	if (*p.words && is_help(program, *p.words)) {
		inc_opt_help(program, p.words[1] ? find_command(program, p.words[1]) : NULL);
		return end_printing();
	}
	if (*p.words && !inc_opt_shares_table(program)) {
		p.command = find_command(program, *p.words);
		p.words += p.command != NULL;
	}
	inc_opt_collect(&p.set, program, p.command);
	ret = take_presets(&p) ?: take_words(&p);
	if (p.done)
		return end_printing();
	ret = ret ?: check_required(&p);
	check = p.command && p.command->check ? p.command->check : program->check;
	if (!ret && check)
		ret = check(settings);
	if (command)
		*command = p.command;
	return ret ? 2 : -1;
}
