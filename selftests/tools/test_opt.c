/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The command line parser (lib/base/opt.h), with option tables of the test. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/opt.h"

struct shared {
	bool loud;
	uint64_t bytes;
};

struct settings {
	bool flag;
	unsigned int number;
	long lengthy;
	uint64_t huge;
	const char *text, *first, *second;
	int word;
	struct inc_opt_list list, rest_of_arguments;
	char **command;
	unsigned int pad; /* padding that makes a wrong offset of the group visible */
	struct shared shared;
	unsigned int checked;
};

static const struct inc_opt_word words[] = {{"red", 3}, {"green", 7}, {}};

static int not_bad(const char *text, struct inc_err *err)
{
	return strcmp(text, "bad") ? 0 : inc_err_set(err, EINVAL, "'%s' is bad", text);
}

static int take_twice(void *member, const char *text, struct inc_err *err)
{
	uint64_t v;
	int ret = inc_opt_number(text, 0, 100, &v, err);

	if (!ret)
		*(long *)member = 2 * v;
	return ret;
}

static const struct inc_opt shared_options[] = {
	{.name = "loud", .letter = 'l', INC_OPT_FLAG(struct shared, loud)},
	{.name = "bytes", .value = "SIZE", .preset = "2K", INC_OPT_SIZE(struct shared, bytes)},
	{},
};

#define COMMON                                                                                \
	{.name = "flag", .letter = 'f', INC_OPT_FLAG(struct settings, flag)},                 \
		{.name = "number",                                                            \
		 .letter = 'n',                                                               \
		 .value = "N",                                                                \
		 .preset = "5",                                                               \
		 INC_OPT_NUMBER(struct settings, number, 1, 9)},                              \
		{.name = "twice",                                                             \
		 .value = "N",                                                                \
		 INC_OPT_TAKE(struct settings, lengthy, take_twice)},                         \
		{.name = "huge",                                                              \
		 .alias = "vast",                                                             \
		 .value = "N",                                                                \
		 INC_OPT_NUMBER(struct settings, huge, 0, UINT64_MAX)},                       \
		{.name = "text",                                                              \
		 .letter = 't',                                                               \
		 .value = "TEXT",                                                             \
		 INC_OPT_TEXT(struct settings, text, not_bad)},                               \
		{.name = "word", INC_OPT_WORD(struct settings, word, words)},                 \
	{                                                                                     \
		.name = "list", .value = "TEXT", INC_OPT_LIST(struct settings, list, not_bad) \
	}

static const struct inc_opt mixed_options[] = {
	COMMON,
	{.value = "FIRST", .required = true, INC_OPT_TEXT(struct settings, first, not_bad)},
	{.value = "SECOND", INC_OPT_TEXT(struct settings, second, NULL)},
	{},
};

static const struct inc_opt rest_options[] = {
	COMMON,
	{.value = "FIRST", .required = true, INC_OPT_TEXT(struct settings, first, NULL)},
	{.value = "CMD", .required = true, INC_OPT_REST(struct settings, command)},
	{},
};

static const struct inc_opt named_options[] = {
	{.name = "flag", .letter = 'f', .required = true, INC_OPT_FLAG(struct settings, flag)},
	{.value = "FIRST",
	 .required = true,
	 INC_OPT_LIST(struct settings, rest_of_arguments, not_bad)},
	{},
};

static int check(void *settings)
{
	struct settings *s = settings;

	s->checked++;
	return s->number == 9 ? inc_usage("nine") : 0;
}

static const struct inc_command commands[] = {
	{.name = "one", .help = "the first", .groups = {{named_options, 0}}}, {}};

static const struct inc_opt word_options[] = {
	{.name = "flag", INC_OPT_FLAG(struct settings, flag)},
	{.value = "COMMAND", .required = true, INC_OPT_COMMAND},
	{},
};

static const struct inc_program mixed = {.name = "mixed",
					 .groups = {{mixed_options, 0},
						    {shared_options,
						     offsetof(struct settings, shared)}},
					 .check = check},
				rest = {.name = "rest", .groups = {{rest_options, 0}}},
				optional = {.name = "optional",
					    .groups = {{mixed_options, 0}},
					    .commands = commands},
				needed = {.name = "needed", .about = "-", .commands = commands},
				anywhere = {.name = "anywhere",
					    .about = "-",
					    .groups = {{word_options, 0}},
					    .commands = commands};

#define MAX_WORDS 20

static struct settings s;
static const struct inc_command *command;

/* Parses a command line that is split at blanks; "_" is an empty word. The copy of the line is
 * static, because settings point into it. */
static int parse(const struct inc_program *program, const char *line)
{
	static char text[256];
	static char *argv[MAX_WORDS];
	int argc = 0;

	inc_opt_list_free(&s.list);
	inc_opt_list_free(&s.rest_of_arguments);
	memset(&s, 0, sizeof(s));
	snprintf(text, sizeof(text), "program %s", line);
	for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
		argv[argc++] = strcmp(word, "_") ? word : word + 1;
	argv[argc] = NULL;
	return inc_opt_parse(program, argc, argv, &s, &command);
}

static void test_values(void **state)
{
	assert_int_equal(parse(&mixed, "a"), -1);
	assert_int_equal(s.number, 5);
	assert_int_equal(s.shared.bytes, 2048);
	assert_int_equal(s.checked, 1);
	assert_null(s.second);
	assert_int_equal(parse(&mixed,
			       "--number 3 --huge 18446744073709551615 --twice 8 --word green "
			       "--text=x=y --bytes 1M -l a"),
			 -1);
	assert_int_equal(s.number, 3);
	assert_true(s.huge == UINT64_MAX);
	assert_int_equal(s.lengthy, 16);
	assert_int_equal(s.word, 7);
	assert_string_equal(s.text, "x=y");
	assert_int_equal(s.shared.bytes, 1 << 20);
	assert_true(s.shared.loud);
	assert_int_equal(parse(&mixed, "--huge 7 --vast 8 a"), -1);
	assert_int_equal(s.huge, 8);
	assert_int_equal(parse(&mixed, "--list a --list b c"), -1);
	assert_int_equal(s.list.count, 2);
	assert_string_equal(s.list.text[1], "b");
	assert_int_equal(parse(&mixed, "--text _ a"), -1);
	assert_string_equal(s.text, "");
	assert_int_equal(parse(&mixed, "--text --flag a"), -1);
	assert_string_equal(s.text, "--flag");
}

static void test_letters_and_order(void **state)
{
	assert_int_equal(parse(&mixed, "-fln7 a -t x b"), -1);
	assert_true(s.flag && s.shared.loud);
	assert_int_equal(s.number, 7);
	assert_string_equal(s.text, "x");
	assert_string_equal(s.first, "a");
	assert_string_equal(s.second, "b");
	assert_int_equal(parse(&mixed, "-n 3 - -- --flag"), -1);
	assert_string_equal(s.first, "-");
	assert_string_equal(s.second, "--flag");
	assert_false(s.flag);
	assert_int_equal(parse(&mixed, "-- -- -n"), -1);
	assert_string_equal(s.first, "--");
	assert_string_equal(s.second, "-n");
}

static void test_wrong(void **state)
{
	static const char *const lines[] = {"_x --nonsense",
					    "--num 3 a",
					    "--numbers 3 a",
					    "-z a",
					    "--flag=1 a",
					    "a --number",
					    "a -n",
					    "-n0 a",
					    "-n 10 a",
					    "--number= a",
					    "--word blue a",
					    "--word _ a",
					    "--twice 101 a",
					    "bad",
					    "--text bad a",
					    "--list bad a",
					    "",
					    "a b c",
					    "-n 9 a",
					    "--bytes 2T a",
					    "--help=1 a",
					    "--bytes 1KK a",
					    "--huge -1 a",
					    "--vast -1 a",
					    "- -n",
					    "--huge 18446744073709551616 a",
					    "--=3 a"};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (parse(&mixed, lines[i]) != 2)
			fail_msg("'%s' was taken", lines[i]);
}

static void test_rest(void **state)
{
	assert_int_equal(parse(&rest, "-f a cmd -f --help"), -1);
	assert_string_equal(s.first, "a");
	assert_string_equal(s.command[0], "cmd");
	assert_string_equal(s.command[2], "--help");
	assert_null(s.command[3]);
	assert_int_equal(parse(&rest, "-- a -- -x -- y"), -1);
	assert_string_equal(s.command[0], "-x");
	assert_string_equal(s.command[1], "--");
	assert_int_equal(parse(&rest, "a -- --"), -1);
	assert_string_equal(s.command[0], "--");
	assert_int_equal(parse(&rest, "a"), 2);
	assert_int_equal(parse(&rest, "a --"), 2);
	assert_int_equal(parse(&rest, "-f"), 2);
}

static void test_commands(void **state)
{
	assert_int_equal(parse(&needed, "one -f a b"), -1);
	assert_ptr_equal(command, &commands[0]);
	assert_int_equal(s.rest_of_arguments.count, 2);
	assert_int_equal(parse(&needed, "one a"), 2);
	assert_int_equal(parse(&needed, "one -f"), 2);
	assert_int_equal(parse(&needed, "one --number 3 -f a"), 2);
	assert_int_equal(parse(&needed, "two"), 2);
	assert_int_equal(parse(&needed, "-f one a"), 2);
	assert_int_equal(parse(&needed, ""), 2);
	assert_int_equal(parse(&optional, "-f x"), -1);
	assert_null(command);
	assert_int_equal(parse(&optional, "one -f x"), -1);
	assert_non_null(command);
	assert_int_equal(parse(&anywhere, "--flag one"), -1);
	assert_ptr_equal(command, &commands[0]);
	assert_int_equal(parse(&anywhere, "one --flag"), -1);
	assert_true(s.flag);
	assert_int_equal(parse(&anywhere, "two"), 2);
	assert_int_equal(parse(&anywhere, "one one"), 2);
	assert_int_equal(parse(&anywhere, "--flag"), 2);
	/* help is a word for --help in programs that need a command, and an argument in others */
	assert_int_equal(parse(&needed, "help"), 0);
	assert_int_equal(parse(&needed, "help one"), 0);
	assert_int_equal(parse(&anywhere, "help"), 0);
	assert_int_equal(parse(&optional, "help"), parse(&optional, "other"));
}

static void test_sizes(void **state)
{
	static const char *const wrong[] = {"", "x", "-1", "+1", " 1", "K", "2T", "1025G"};
	const char *end;
	uint64_t v;

	assert_int_equal(inc_opt_size("3,4", &end, &v), 0);
	assert_int_equal(v, 3);
	assert_string_equal(end, ",4");
	assert_int_equal(inc_opt_size("1024G", &end, &v), 0);
	assert_true(v == 1ull << 40);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!inc_opt_size(wrong[i], &end, &v) && !*end)
			fail_msg("'%s' was taken", wrong[i]);
}

static void test_seconds(void **state)
{
	static const char *const wrong[] = {"",    "x",   "-1",  "+1",   " 1", "1s",   "nan",
					    "inf", "0x1", "1e1", "10.1", ".",  "0.24", "1.2.3"};
	struct inc_err err;
	double v = 0;

	assert_int_equal(inc_opt_seconds("0.25", 0.25, 10, &v, &err), 0);
	assert_true(v == 0.25);
	assert_int_equal(inc_opt_seconds("10", 0.25, 10, &v, &err), 0);
	assert_true(v == 10);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (!inc_opt_seconds(wrong[i], 0.25, 10, &v, &err))
			fail_msg("'%s' was taken", wrong[i]);
	assert_true(v == 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),   cmocka_unit_test(test_letters_and_order),
		cmocka_unit_test(test_wrong),    cmocka_unit_test(test_rest),
		cmocka_unit_test(test_commands), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_seconds),
	};
	int ret;

	ret = cmocka_run_group_tests_name("opt", tests, NULL, NULL);
	inc_opt_list_free(&s.list);
	inc_opt_list_free(&s.rest_of_arguments);
	return ret ? 1 : 0;
}
