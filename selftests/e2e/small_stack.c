/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes all calls of libinccl on a thread whose stack is as small as inccl.h allows. It runs on
 * every rank of a job, whose environment names the rank. Prints how many bytes of the stack were
 * used. Exit code 0, or 1 with the call that failed. The page below the stack cannot be accessed,
 * so a stack that is too small ends the program by SIGSEGV.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "hostlib/include/inccl.h"

/* number of elements in the longest collective, which needs more than a window */
#define ELEMENTS 100000
#define PAINT    0xa5

/* Sanitizers make stack frames larger, and store some of their own state on the stack. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STACK_BYTES (16 * INCCL_MIN_STACK_BYTES)
#else
#define STACK_BYTES INCCL_MIN_STACK_BYTES
#endif

static int32_t send[ELEMENTS], recv[ELEMENTS];
static float floats[ELEMENTS] __attribute__((aligned(8)));
static char error[256];

static void check(const char *what, int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, inccl_strerror(err), error);
	exit(1);
}

#define CHECK(call) check(#call, call)

static void log_line(void *ctx, const char *line)
{
	(void)ctx;
	(void)line;
}

static void collectives(struct inccl_communicator *comm, int size)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	const size_t block = ELEMENTS / size;
	INCCL_OPTS(inccl_collective_opts, bounded, .float_exponent = &(int){100});
	struct inccl_request *request;

	CHECK(inccl_allreduce(comm, send, recv, ELEMENTS, INCCL_INT32, INCCL_SUM, NULL));
	CHECK(inccl_allreduce(comm, floats, floats, ELEMENTS, INCCL_FLOAT32, INCCL_SUM, NULL));
	CHECK(inccl_allreduce(comm, floats, floats, ELEMENTS, INCCL_FLOAT32, INCCL_MAX, NULL));
	CHECK(inccl_allreduce(comm, floats, floats, ELEMENTS / 2, INCCL_FLOAT64, INCCL_SUM,
			      &bounded));
	CHECK(inccl_allreduce(comm, floats, floats, ELEMENTS / 2, INCCL_FLOAT64, INCCL_AVG, NULL));
	CHECK(inccl_allreduce(comm, floats, floats, ELEMENTS / 4, INCCL_FLOAT64_INDEX, INCCL_MAXLOC,
			      NULL));
	CHECK(inccl_allreduce(comm, send, recv, ELEMENTS, INCCL_INT32, INCCL_LXOR, NULL));
	CHECK(inccl_reduce(comm, send, recv, ELEMENTS, INCCL_INT32, INCCL_MIN, 0, NULL));
	CHECK(inccl_broadcast(comm, send, recv, ELEMENTS, INCCL_INT32, 0, NULL));
	CHECK(inccl_reduce_scatter(comm, send, recv, block, INCCL_INT32, INCCL_SUM, NULL));
	CHECK(inccl_all_gather(comm, send, recv, block, INCCL_INT32, NULL));
	CHECK(inccl_barrier_start(comm, NULL, &request));
	while (inccl_test(request) == -EAGAIN)
		;
	CHECK(inccl_allreduce_start(comm, send, recv, ELEMENTS, INCCL_INT32, INCCL_SUM, NULL,
				    &request));
	CHECK(inccl_wait(request, -1));
	CHECK(inccl_communicator_info(comm, &info));
	check("error", inccl_communicator_error(comm) != NULL);
}

static void *all_calls(void *arg)
{
	INCCL_OPTS(inccl_group_opts, opts, .log = log_line, .error = error,
		   .error_size = sizeof(error));
	INCCL_OPTS(inccl_communicator_opts, comm_opts, .error = error, .error_size = sizeof(error));
	struct inccl_communicator *comm, *twin, *part;
	struct inccl_group *group, *rest;

	CHECK(inccl_group_create(&opts, &group));
	CHECK(inccl_communicator_create(group, &comm_opts, &comm));
	CHECK(inccl_communicator_duplicate(comm, &comm_opts, &twin));
	CHECK(inccl_communicator_split(comm, 0, 0, &comm_opts, &part));
	collectives(comm, inccl_group_size(group));
	CHECK(inccl_group_shrink(group, NULL, &rest));
	CHECK(inccl_communicator_destroy(part));
	CHECK(inccl_communicator_destroy(twin));
	CHECK(inccl_communicator_destroy(comm));
	CHECK(inccl_group_destroy(rest));
	CHECK(inccl_group_destroy(group));
	return arg;
}

int main(void)
{
	const size_t page = sysconf(_SC_PAGESIZE), bytes = STACK_BYTES;
	uint8_t *stack = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;
	size_t unused = 0;

	if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE)) {
		perror("stack");
		return 1;
	}
	stack += page;
	memset(stack, PAINT, bytes);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, stack, bytes) ||
	    pthread_create(&thread, &attr, all_calls, NULL)) {
		fprintf(stderr, "no thread with a stack of %zu bytes\n", bytes);
		return 1;
	}
	pthread_join(thread, NULL);
	while (unused < bytes && stack[unused] == PAINT)
		unused++;
	printf("%zu of %zu bytes\n", bytes - unused, bytes);
	return 0;
}
