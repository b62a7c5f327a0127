/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that forks while it is a rank of a job, whose environment names the rank. The child
 * destroys all objects that it has inherited, and exits normally. The parent then continues as a
 * rank. Prints "went on". Exit code 0, or 1 with an error message.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hostlib/include/inccl.h"

static char error[256];

static void check(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, inccl_strerror(err), error);
	exit(1);
}

#define CHECK(call) check(#call, call)

static void sum(struct inccl_communicator *comm, int size)
{
	int32_t data[1000], i;

	for (i = 0; i < 1000; i++)
		data[i] = i;
	CHECK(inccl_allreduce(comm, data, data, 1000, INCCL_INT32, INCCL_SUM, NULL));
	for (i = 0; i < 1000; i++)
		check("sum", data[i] != i * size);
}

int main(void)
{
	INCCL_OPTS(inccl_group_opts, opts, .error = error, .error_size = sizeof(error));
	struct inccl_communicator *comm, *twin;
	struct inccl_group *group;
	int status, size;
	pid_t pid;

	CHECK(inccl_group_create(&opts, &group));
	CHECK(inccl_communicator_create(group, NULL, &comm));
	CHECK(inccl_communicator_duplicate(comm, NULL, &twin));
	size = inccl_group_size(group);
	sum(comm, size);
	pid = fork();
	check("fork", pid < 0);
	if (!pid) {
		CHECK(inccl_communicator_destroy(twin));
		CHECK(inccl_communicator_destroy(comm));
		CHECK(inccl_group_destroy(group));
		return 0;
	}
	check("waitpid", waitpid(pid, &status, 0) != pid);
	check("child", status);
	sum(comm, size);
	sum(twin, size);
	CHECK(inccl_communicator_destroy(twin));
	CHECK(inccl_communicator_destroy(comm));
	CHECK(inccl_group_destroy(group));
	printf("went on\n");
	return 0;
}
