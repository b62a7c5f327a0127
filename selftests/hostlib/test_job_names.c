/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of jobs and machines that are not valid in a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "selftests/fakes/controller.h"

static void keep_log(void *ctx, const char *line)
{
	strncat(ctx, line, 4095 - strlen(ctx));
}

static bool latin1; /* non-ASCII bytes count as letters, as in a locale with ISO-8859-1 */

/* Replaces the C library's table of characters, which isgraph() and similar functions use. The test
 * does not set a locale, because few machines have one with a byte per character. */
const unsigned short **__ctype_b_loc(void)
{
	static unsigned short table[384];
	static const unsigned short *of_latin1 = table + 128;
	const unsigned short **(*next)(void) =
		(const unsigned short **(*)(void))dlsym(RTLD_NEXT, __func__);

	if (!latin1)
		return next();
	memcpy(table, *next() - 128, sizeof(table));
	for (int c = 0xc0; c <= 0xff; c++)
		table[128 + c] = (*next())['e'];
	return &of_latin1;
}

/* A name that is not valid in a message is rejected. The error names the option or variable from
 * which the name comes. */
static void job_names(void **state)
{
	static const char *const wrong[] = {"", "two words", "caf\xe9", "caf\xc3\xa9", "a\tb"};
	char error[256];
	INCCL_OPTS(inccl_group_opts, opts, .controller = "127.0.0.1:1", .world_size = 1,
		   .error = error, .error_size = sizeof(error));
	struct inccl_group *group;

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
}

/* Does isgraph() accept the character? The compiler assumes that the table is constant, so it must
 * not see both states of the table in one function. */
__attribute__((noipa)) static bool is_shown(int c)
{
	return isgraph(c);
}

static void job_names_in_latin1(void **state)
{
	latin1 = true;
	assert_true(is_shown(0xe9));
	job_names(state);
	latin1 = false;
	assert_false(is_shown(0xe9));
}

/* The name of the machine is only for people to read. If it is invalid, the machine can join a
 * group nevertheless. */
static void invalid_host_name(void **state)
{
	static const char name[] = "two words\xe9";
	const char *const answers[] = {JOINED, NULL};
	struct inccl_group *group;
	char error[256], log[4096] = "";
	struct fake_controller f;

	if (unshare(CLONE_NEWUTS) || sethostname(name, sizeof(name) - 1))
		skip();
	if (fake_controller_create(&f, answers, false, &group, error, keep_log, log))
		fail_msg("%s", error);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	assert_non_null(strstr(f.received, "\"host\":\"two?words?\""));
	assert_non_null(strstr(log, "host name 'two words?'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(job_names),
		cmocka_unit_test(job_names_in_latin1),
		cmocka_unit_test(invalid_host_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
