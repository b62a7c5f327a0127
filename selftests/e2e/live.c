/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * live SECONDS PAUSE_MS MORE [PACKETS]: runs on every rank of a job, like a long-lived process of a
 * host. Each cycle has some collectives, whose elements are checked against sums computed without
 * the library, and then a pause. Every MORE-th cycle (0: none) creates a further communicator for
 * one collective. Rank 0 prints "N collectives" ten times a second. It stops all ranks together
 * when its time is over, or at SIGTERM. At the end each rank prints "N bad packets". PACKETS:
 * packets per message; 0, the default: as many as the library chooses. Exit code 0, or 1 with an
 * error message. The program has one thread of its own. test_endurance measures its resources.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "hostlib/include/inccl.h"
#include "lib/base/clock.h"

#define ELEMENTS 16384 /* number of elements of a collective, which are 64 KiB */
#define TIMES    8     /* number of collectives between two pauses */
#define SAY_NS   (100 * INC_NSEC_PER_MSEC)

static volatile sig_atomic_t asked;
static struct inccl_group *group;
static char error[512];
/* data of a collective; rank 0 sets the last element in the last collective */
static int32_t data[ELEMENTS + 1];
static uint32_t collectives;
static int rank, size;

static void on_term(int number)
{
	(void)number;
	asked = 1;
}

static void check(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, what, error, inccl_strerror(err));
	exit(1);
}

static uint32_t give(int of, uint32_t k)
{
	return (of + 1) * 2654435761u + collectives * 40503u + k;
}

/* Runs a collective. last: rank 0 wants it to be the last one. Returns whether rank 0 wants
 * that. */
static int allreduce(struct inccl_communicator *comm, int last)
{
	int err;

	for (uint32_t k = 0; k < ELEMENTS; k++)
		data[k] = give(rank, k);
	data[ELEMENTS] = last;
	err = inccl_allreduce(comm, data, data, ELEMENTS + 1, INCCL_INT32, INCCL_SUM, NULL);
	if (err)
		snprintf(error, sizeof(error), "%s", inccl_communicator_error(comm) ?: "");
	check(err, "allreduce");
	for (uint32_t k = 0; k < ELEMENTS; k++) {
		uint32_t want = 0;

		for (int r = 0; r < size; r++)
			want += give(r, k);
		if ((uint32_t)data[k] == want)
			continue;
		fprintf(stderr, "rank %d: collective %u element %u is %u, not %u\n", rank,
			collectives, k, (uint32_t)data[k], want);
		exit(1);
	}
	collectives++;
	return data[ELEMENTS];
}

static void one_more(struct inccl_communicator *comm, const struct inccl_communicator_opts *opts)
{
	struct inccl_communicator *other;

	check(inccl_communicator_duplicate(comm, opts, &other), "duplicate");
	allreduce(other, 0);
	check(inccl_communicator_destroy(other), "destroy");
}

/* Runs until rank 0's time is over. The ranks do not start at the same instant, so only rank 0's
 * clock counts. */
static void live(struct inccl_communicator *comm, const struct inccl_communicator_opts *opts,
		 uint64_t seconds, uint32_t pause_ms, uint32_t more)
{
	uint64_t end_at_ns = inc_now_ns() + seconds * INC_NSEC_PER_SEC, said_at_ns = 0;
	struct timespec pause = inc_timespec_of_ns(pause_ms * INC_NSEC_PER_MSEC);

	for (uint32_t cycle = 0;; cycle++) {
		int over = rank == 0 && (asked || inc_now_ns() >= end_at_ns);

		for (int i = 1; i < TIMES; i++)
			allreduce(comm, 0);
		if (more && cycle % more == 0)
			one_more(comm, opts);
		over = allreduce(comm, over);
		if (rank == 0 && (over || inc_now_ns() - said_at_ns > SAY_NS)) {
			printf("%u collectives\n", collectives);
			fflush(stdout);
			said_at_ns = inc_now_ns();
		}
		if (over)
			return;
		nanosleep(&pause, NULL);
	}
}

static void print_bad_packets(struct inccl_communicator *comm)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	inccl_communicator_info(comm, &info);
	printf("%llu bad packets\n", (unsigned long long)info.bad_packets);
}

static int usage(void)
{
	fprintf(stderr, "usage: live SECONDS PAUSE_MS MORE [PACKETS]\n");
	return 2;
}

int main(int argc, char **argv)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .error = error, .error_size = sizeof(error));
	struct sigaction action = {.sa_handler = on_term};
	struct inccl_communicator *comm;

	if (argc < 4 || argc > 5 || atoi(argv[1]) < 1 || atoi(argv[2]) < 0 || atoi(argv[3]) < 0)
		return usage();
	opts.message_packets = argc == 5 ? atoi(argv[4]) : 0;
	sigaction(SIGTERM, &action, NULL);
	check(inccl_group_create(NULL, &group), "group");
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	check(inccl_communicator_create(group, &opts, &comm), "communicator");
	live(comm, &opts, atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
	print_bad_packets(comm);
	check(inccl_communicator_destroy(comm), "destroy");
	check(inccl_group_destroy(group), "group");
	return 0;
}
