/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * churn CYCLES LIVE: runs on every rank of a job and keeps LIVE communicators. In each cycle there
 * is a collective on all of them at once, checked against sums that it knows without the library;
 * then the oldest is destroyed and a new one made. Prints "N collectives"; exit code 0, or 1 with
 * what was wrong.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "hostlib/include/inccl.h"

#define MAX_LIVE 16
#define ELEMENTS 300 /* two packets */

static struct inccl_group *group;
static struct inccl_communicator *comm[MAX_LIVE];
static int32_t data[MAX_LIVE][ELEMENTS];
static int rank, size;

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, inccl_strerror(err));
	exit(1);
}

static void make(uint32_t i)
{
	char error[512] = "";
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 4, .error = error, .error_size = sizeof(error));
	int err = inccl_communicator_create(group, &opts, &comm[i]);

	if (err) {
		fprintf(stderr, "rank %d: %s\n", rank, error);
		fail("communicator", err);
	}
}

static uint32_t part(int of, uint32_t cycle, uint32_t i, uint32_t k)
{
	return (of + 1) * 2654435761u + cycle * 40503u + i * 69069u + k;
}

static void check(uint32_t cycle, uint32_t i)
{
	for (uint32_t k = 0; k < ELEMENTS; k++) {
		uint32_t want = 0;

		for (int r = 0; r < size; r++)
			want += part(r, cycle, i, k);
		if ((uint32_t)data[i][k] != want) {
			fprintf(stderr,
				"rank %d: cycle %u communicator %u element %u is %u, not %u\n",
				rank, cycle, i, k, (uint32_t)data[i][k], want);
			exit(1);
		}
	}
}

static void exchange(uint32_t cycle, uint32_t live)
{
	struct inccl_request *request[MAX_LIVE];
	int err;

	for (uint32_t i = 0; i < live; i++) {
		for (uint32_t k = 0; k < ELEMENTS; k++)
			data[i][k] = part(rank, cycle, i, k);
		err = inccl_allreduce_start(comm[i], data[i], data[i], ELEMENTS, INCCL_INT32,
					    INCCL_SUM, NULL, &request[i]);
		if (err)
			fail("start", err);
	}
	for (uint32_t i = 0; i < live; i++) {
		err = inccl_wait(request[i], -1);
		if (err)
			fail("wait", err);
		check(cycle, i);
	}
}

int main(int argc, char **argv)
{
	uint32_t cycles = argc == 3 ? atoi(argv[1]) : 0, live = argc == 3 ? atoi(argv[2]) : 0;
	int err;

	if (!cycles || !live || live > MAX_LIVE) {
		fprintf(stderr, "usage: churn CYCLES LIVE (1 to %d)\n", MAX_LIVE);
		return 2;
	}
	err = inccl_group_create(NULL, &group);
	if (err)
		fail("group", err);
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	for (uint32_t i = 0; i < live; i++)
		make(i);
	for (uint32_t cycle = 0; cycle < cycles; cycle++) {
		exchange(cycle, live);
		err = inccl_communicator_destroy(comm[cycle % live]);
		if (err)
			fail("destroy", err);
		make(cycle % live);
	}
	printf("%u collectives\n", cycles * live);
	for (uint32_t i = 0; i < live; i++)
		inccl_communicator_destroy(comm[i]);
	inccl_group_destroy(group);
	return 0;
}
