/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * threads [ROUNDS [MODE]]: does everything at once that inccl.h allows threads to do. It runs on
 * every rank of a job, whose environment names the rank. It checks every element against sums that
 * are computed without the library. Prints "N collectives". Exit code 0, or 1 with an error
 * message.
 *
 * Two threads share communicator 0, and each waits for its own requests. One thread uses
 * communicator 1 for blocking calls in the form of RDMA WRITE (not in MODE sendrecv), and recreates
 * it again and again. One thread has several requests in progress on communicator 2 and calls
 * inccl_test(). One thread reads the state of all communicators all the time.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "hostlib/include/inccl.h"

#define COMMS 3
/* number of elements in the largest collective, which are several packets, the last of them
 * short */
#define ELEMENTS 700
#define FLIGHT   4
/* all ranks must run the same number of rounds, because each collective needs all of them */
#define ROUNDS   2000
#define RENEWALS 12

static enum inccl_mode renewal_mode = INCCL_MODE_WRITE;
static struct inccl_group *group;
static struct inccl_communicator *comm[COMMS];
/* lock of comm[i]; the thread that recreates comm[i] locks it for writing */
static pthread_rwlock_t alive[COMMS];
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static uint32_t sequence; /* number of collectives on communicator 0; protected by `order` */
static atomic_uint collectives, lines, looks;
static atomic_bool done;
static int rank, size;
static uint32_t rounds = ROUNDS;

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %d: %s: %s\n", rank, what, inccl_strerror(err));
	exit(1);
}

static void log_line(void *ctx, const char *line)
{
	(void)ctx;
	lines += line[0] != 0;
}

static uint32_t part(int of, uint32_t channel, uint32_t n, uint32_t i)
{
	return (of + 1) * 2654435761u + channel * 40503u + n * 69069u + i * 17u;
}

static uint32_t length(uint32_t n)
{
	return 1 + n * 37 % ELEMENTS;
}

static void fill(int32_t *data, uint32_t channel, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < length(n); i++)
		data[i] = part(rank, channel, n, i);
}

static void check(const int32_t *data, uint32_t channel, uint32_t n)
{
	uint32_t i, want;
	int r;

	for (i = 0; i < length(n); i++) {
		for (want = 0, r = 0; r < size; r++)
			want += part(r, channel, n, i);
		if ((uint32_t)data[i] != want) {
			fprintf(stderr,
				"rank %d: channel %u collective %u element %u is %u, not %u\n",
				rank, channel, n, i, (uint32_t)data[i], want);
			exit(1);
		}
	}
	collectives++;
}

/* Numbers and starts a collective under one lock, so that all ranks start the same collectives in
 * the same order. Each thread then waits for its own request. */
static void *share(void *arg)
{
	int32_t data[ELEMENTS];
	struct inccl_request *request;
	uint32_t n;
	int err;

	for (;;) {
		pthread_mutex_lock(&order);
		n = sequence;
		if (n == rounds) {
			pthread_mutex_unlock(&order);
			return arg;
		}
		sequence++;
		fill(data, 0, n);
		err = inccl_allreduce_start(comm[0], data, data, length(n), INCCL_INT32, INCCL_SUM,
					    NULL, &request);
		pthread_mutex_unlock(&order);
		if (err)
			fail("start", err);
		while ((err = inccl_wait(request, n % 3 ? -1 : 1)) == -EAGAIN)
			;
		if (err)
			fail("wait", err);
		check(data, 0, n);
	}
}

static void make(int i)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8);
	int err = inccl_communicator_create(group, &opts, &comm[i]);

	if (err)
		fail("communicator", err);
}

static void *renew(void *arg)
{
	INCCL_OPTS(inccl_collective_opts, shape, .mode = renewal_mode);
	int32_t send[ELEMENTS], recv[ELEMENTS];
	uint32_t n, life;
	int err;

	for (life = 0; life < RENEWALS; life++) {
		for (n = life; n < life + rounds / 20; n++) {
			fill(send, 1, n);
			err = inccl_allreduce(comm[1], send, recv, length(n), INCCL_INT32,
					      INCCL_SUM, &shape);
			if (err)
				fail("allreduce", err);
			check(recv, 1, n);
		}
		err = inccl_barrier(comm[1], NULL);
		if (err)
			fail("barrier", err);
		pthread_rwlock_wrlock(&alive[1]);
		err = inccl_communicator_destroy(comm[1]);
		if (err)
			fail("destroy", err);
		make(1);
		pthread_rwlock_unlock(&alive[1]);
	}
	return arg;
}

static void pause_briefly(void)
{
	const struct timespec pause = {.tv_nsec = 100000};

	nanosleep(&pause, NULL);
}

/* Threads that call inccl_test() without a pause occupy every CPU of a small machine. Linux can
 * divide CPU time by session first, so the switch's daemon would wait up to 100 ms for each turn.
 * Therefore this thread pauses. */
static void *poll_many(void *arg)
{
	struct inccl_request *request[FLIGHT] = {NULL};
	static int32_t data[FLIGHT][ELEMENTS];
	uint32_t n, end = rounds, looks_here = 0;
	int err;

	for (n = 0; n < end + FLIGHT; n++) {
		uint32_t k = n % FLIGHT;

		if (request[k]) {
			while ((err = inccl_test(request[k])) == -EAGAIN)
				if (++looks_here % 64 == 0)
					pause_briefly();
			if (err)
				fail("test", err);
			request[k] = NULL;
			check(data[k], 2, n - FLIGHT);
		}
		if (n >= end)
			continue;
		fill(data[k], 2, n);
		err = inccl_allreduce_start(comm[2], data[k], data[k], length(n), INCCL_INT32,
					    INCCL_SUM, NULL, &request[k]);
		if (err)
			fail("start", err);
	}
	return arg;
}

static void *look(void *arg)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	int i;

	while (!done) {
		for (i = 0; i < COMMS; i++) {
			pthread_rwlock_rdlock(&alive[i]);
			if (inccl_communicator_info(comm[i], &info) || info.world_size != size ||
			    inccl_communicator_error(comm[i]) ||
			    inccl_communicator_failed_rank(comm[i]) != -1) {
				fprintf(stderr, "rank %d: communicator %d has failed: %s\n", rank,
					i, inccl_communicator_error(comm[i]) ?: "no error");
				exit(1);
			}
			pthread_rwlock_unlock(&alive[i]);
		}
		if (inccl_group_error(group))
			fail(inccl_group_error(group), 0);
		looks++;
		/* without pauses this thread would starve the other threads on a single CPU */
		pause_briefly();
	}
	return arg;
}

int main(int argc, char **argv)
{
	void *(*const run[])(void *) = {share, share, renew, poll_many, look};
	pthread_t thread[sizeof(run) / sizeof(run[0])];
	int i, err, n = sizeof(run) / sizeof(run[0]);
	char error[256] = "";
	INCCL_OPTS(inccl_group_opts, opts, .log = log_line, .error = error,
		   .error_size = sizeof(error));

	if (argc > 1)
		rounds = strtoul(argv[1], NULL, 0);
	if (argc > 2 && !strcmp(argv[2], "sendrecv"))
		renewal_mode = INCCL_MODE_SENDRECV;
	err = inccl_group_create(&opts, &group);
	if (err)
		fail(error, err);
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	for (i = 0; i < COMMS; i++) {
		make(i);
		pthread_rwlock_init(&alive[i], NULL);
	}
	for (i = 0; i < n; i++)
		if (pthread_create(&thread[i], NULL, run[i], NULL))
			fail("thread", -EAGAIN);
	for (i = 0; i < n; i++) {
		done = i == n - 1;
		pthread_join(thread[i], NULL);
	}
	for (i = 0; i < COMMS; i++) {
		err = inccl_communicator_destroy(comm[i]);
		if (err)
			fail("destroy", err);
	}
	err = inccl_group_destroy(group);
	if (err)
		fail("group", err);
	printf("%u collectives, %u looks, %u lines\n", collectives, looks, lines);
	return 0;
}
