/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of jobs and machines that no message can carry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "selftests/hostlib/fake.h"

static void keep_log(void *ctx, const char *line)
{
	strncat(ctx, line, 4095 - strlen(ctx));
}

/* A locale in which a byte that is no ASCII is a letter. False where none can be made. */
static bool enter_latin1(char dir[])
{
	char command[256];

	snprintf(command, sizeof(command),
		 "localedef -i en_US -f ISO-8859-1 --no-archive %s/latin1 >/dev/null 2>&1", dir);
	if (system(command) > 255) /* 1: with warnings */
		print_message("localedef fails: the test stays in the C locale\n");
	setenv("LOCPATH", dir, 1);
	return setlocale(LC_ALL, "latin1");
}

/* What no message can carry is refused by the name of the option or variable that has it, in
 * whatever locale the program is. */
static void job_names(void **state)
{
	static const char *const wrong[] = {"", "two words", "caf\xe9", "caf\xc3\xa9", "a\tb"};
	char dir[] = "/tmp/test_api.XXXXXX", command[64], error[256];
	INCCL_OPTS(inccl_group_opts, opts, .controller = "127.0.0.1:1", .world_size = 1,
		   .error = error, .error_size = sizeof(error));
	struct inccl_group *group;
	bool entered;

	assert_non_null(mkdtemp(dir));
	entered = enter_latin1(dir);
	if (entered)
		assert_true(isgraph(0xe9));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		opts.job = wrong[i];
		assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
		assert_non_null(strstr(error, "job '"));
		opts.job = NULL;
		setenv(i % 2 ? "INCCL_JOB" : "SLURM_JOB_ID", wrong[i], 1);
		if (*wrong[i]) {
			assert_int_equal(inccl_group_create(&opts, &group), -EINVAL);
			assert_non_null(strstr(error, i % 2 ? "INCCL_JOB '" : "SLURM_JOB_ID '"));
		}
		unsetenv("INCCL_JOB");
		unsetenv("SLURM_JOB_ID");
	}
	setlocale(LC_ALL, "C");
	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* The machine's name is for people to read, and no reason to do without the machine. */
static void host_name_that_is_no_word(void **state)
{
	static const char name[] = "two words\xe9";
	const char *const answers[] = {JOINED, NULL};
	struct inccl_group *group;
	char error[256], log[4096] = "";
	struct fake f;

	if (unshare(CLONE_NEWUTS) || sethostname(name, sizeof(name) - 1))
		skip();
	if (fake_create(&f, answers, false, &group, error, keep_log, log))
		fail_msg("%s", error);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_stop(&f);
	assert_non_null(strstr(f.heard, "\"host\":\"two?words?\""));
	assert_non_null(strstr(log, "host name 'two words?'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_names),
		cmocka_unit_test(host_name_that_is_no_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
