/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A rank with closed standard streams. None of the library's descriptors may be 0, 1 or 2, because
 * text that is printed to stderr would go into a connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "selftests/fakes/controller.h"

#define LIMIT_S 60
#define RANK    "rank" /* argument with which this program runs as the rank */

/* Exit codes of the process that runs as the rank. */
enum { FINE, NO_GROUP, NO_COMMUNICATOR, TOOK_A_PLACE };

static int run_rank(const char *controller)
{
	INCCL_OPTS(inccl_group_opts, opts, .job = "t", .controller = controller, .world_size = 1,
		   .address = "127.0.0.1");
	INCCL_OPTS(inccl_communicator_opts, soft, .transport = INCCL_TRANSPORT_SOFT);
	struct inccl_communicator *comm;
	struct inccl_group *group;
	int fd;

	setenv("INCCL_DEBUG", "1", 1);
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	if (inccl_group_create(&opts, &group))
		return NO_GROUP;
	if (inccl_communicator_create(group, &soft, &comm))
		return NO_COMMUNICATOR;
	for (fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			return TOOK_A_PLACE;
	inccl_communicator_destroy(comm);
	inccl_group_destroy(group);
	return FINE;
}

static void closed_streams(void **state)
{
	const char *const answers[] = {JOINED, CONN("5", "1024", "512"), STARTED,
				       "{\"type\":\"D\",\"communicator\":12}\n", NULL};
	char controller[32];
	struct fake_controller f;
	int status;
	pid_t pid;

	fake_controller_start(&f, answers, false);
	snprintf(controller, sizeof(controller), "127.0.0.1:%u", f.port);
	pid = fork();
	if (!pid) {
		execl("/proc/self/exe", "test_descriptors", RANK, controller, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	fake_controller_stop(&f);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), FINE);
	assert_non_null(strstr(f.received, "\"bye\""));
	assert_null(strstr(f.received, "inccl:"));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(closed_streams)};

	alarm(LIMIT_S);
	if (argc == 3 && !strcmp(argv[1], RANK))
		return run_rank(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
