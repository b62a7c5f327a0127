/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * remode DIRECTORY MODE...: runs on every rank of a job. For the n-th MODE it waits for the file
 * DIRECTORY/n. Then it creates a communicator, which must be in that mode, and computes on all that
 * exist, at once. It adds integers, and floats with exact sums, which have the same bits in every
 * mode. Prints "n works" each time. At the end it destroys them, the oldest first, while the others
 * continue to compute. Exit code 0, or 1 with an error message.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "hostlib/include/inccl.h"

#define MAX_COMMS 8
#define ELEMENTS  40000 /* number of elements of a collective, which are several messages */
#define ROUNDS    5

static struct inccl_group *group;
static struct inccl_communicator *comm[MAX_COMMS];
static int32_t integers[MAX_COMMS][ELEMENTS];
static float floats[MAX_COMMS][ELEMENTS];
static int rank, size;

static void check(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, inccl_strerror(err));
	exit(1);
}

static uint32_t part(int of, int n, uint32_t round, uint32_t k)
{
	return (of + 1) * 2654435761u + n * 40503u + round * 69069u + k;
}

/* An element of a rank's contribution. Sums of these floats are exact. */
static float float_part(int of, int n, uint32_t round, uint32_t k)
{
	return part(of, n, round, k) % 65536;
}

static void expect(int n, uint32_t round)
{
	for (uint32_t k = 0; k < ELEMENTS; k++) {
		uint32_t sum = 0;
		float float_sum = 0;

		for (int r = 0; r < size; r++) {
			sum += part(r, n, round, k);
			float_sum += float_part(r, n, round, k);
		}
		if ((uint32_t)integers[n][k] == sum &&
		    !memcmp(&floats[n][k], &float_sum, sizeof(float_sum)))
			continue;
		fprintf(stderr, "rank %d: communicator %d element %u is %u and %a, not %u and %a\n",
			rank, n, k, (uint32_t)integers[n][k], floats[n][k], sum, float_sum);
		exit(1);
	}
}

/* Runs collectives on the communicators [first, end) at once. */
static void exchange(int first, int end, uint32_t round)
{
	struct inccl_request *request[MAX_COMMS][2];

	for (int n = first; n < end; n++) {
		for (uint32_t k = 0; k < ELEMENTS; k++) {
			integers[n][k] = part(rank, n, round, k);
			floats[n][k] = float_part(rank, n, round, k);
		}
		check(inccl_allreduce_start(comm[n], integers[n], integers[n], ELEMENTS,
					    INCCL_INT32, INCCL_SUM, NULL, &request[n][0]),
		      "start");
		check(inccl_allreduce_start(comm[n], floats[n], floats[n], ELEMENTS, INCCL_FLOAT32,
					    INCCL_SUM, NULL, &request[n][1]),
		      "start of floats");
	}
	for (int n = first; n < end; n++) {
		check(inccl_wait(request[n][0], -1), "wait");
		check(inccl_wait(request[n][1], -1), "wait for floats");
		expect(n, round);
	}
}

static void make(int n, const char *mode)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024);

	check(inccl_communicator_create(group, &opts, &comm[n]), "communicator");
	check(inccl_communicator_info(comm[n], &info), "info");
	if (!strcmp(info.mode, mode))
		return;
	fprintf(stderr, "rank %d: communicator %d is in mode %s, not %s\n", rank, n, info.mode,
		mode);
	exit(1);
}

static void wait_for_file(const char *directory, int n)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	char path[4096];

	snprintf(path, sizeof(path), "%s/%d", directory, n);
	while (access(path, F_OK))
		nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	const int modes = argc - 2;

	if (modes < 1 || modes > MAX_COMMS) {
		fprintf(stderr, "usage: remode DIRECTORY MODE... (%d at most)\n", MAX_COMMS);
		return 2;
	}
	check(inccl_group_create(NULL, &group), "group");
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	for (int n = 0; n < modes; n++) {
		wait_for_file(argv[1], n);
		make(n, argv[2 + n]);
		for (uint32_t round = 0; round < ROUNDS; round++)
			exchange(0, n + 1, n * ROUNDS + round);
		printf("%d works\n", n);
		fflush(stdout);
	}
	for (int n = 0; n < modes; n++) {
		exchange(n, modes, modes * ROUNDS + n);
		check(inccl_communicator_destroy(comm[n]), "destroy");
	}
	check(inccl_group_destroy(group), "end of the group");
	printf("done\n");
	return 0;
}
