/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test program for inccl_fallback.h, which runs on every rank of a job:
 *
 *	fallback DIRECTORY CALLS [LATE_MS|file|derived]
 *
 * The ranks have a framework of their own: sockets in DIRECTORY, by which rank 0 gathers and gives.
 * They make so many calls of all kinds, with pauses of random length, and check every element
 * against sums that are computed without the library. Rank 1 makes its call number LATE_CALL so
 * much later, or once DIRECTORY/go exists. With "derived" no rank is late, and they use a duplicate
 * of their communicator, which owns its group. Each rank prints "begins" after its first call. At
 * the end it prints its calls, the wrong elements, the calls of the framework and the reason of the
 * loss. The exit code is 0 if all results are right, otherwise 1.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "hostlib/include/inccl_fallback.h"

#define MAX_RANKS  16
#define KEEP_BYTES 16384
/* 1 call in PAUSE_ONE_IN is followed by a pause of up to PAUSE_US */
#define PAUSE_ONE_IN 4
#define PAUSE_US     3000
#define LATE_CALL    50

static int rank, ranks;
static int sock[MAX_RANKS]; /* rank 0: of each other rank. Others: [0] is that of rank 0 */
static unsigned int repeated;
static char error[512];

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, what, inccl_strerror(err), error);
	exit(1);
}

/* ---- the framework ---- */

static void transfer(int fd, void *data, size_t bytes, ssize_t (*fn)(int, void *, size_t, int))
{
	for (size_t at = 0; at < bytes;) {
		ssize_t n = fn(fd, (char *)data + at, bytes - at, MSG_NOSIGNAL);

		if (n <= 0)
			fail("the framework's socket", -errno);
		at += n;
	}
}

static ssize_t give(int fd, void *data, size_t bytes, int flags)
{
	return send(fd, data, bytes, flags);
}

static int gather(void *context, const void *mine, void *all, size_t bytes)
{
	memcpy((char *)all + rank * bytes, mine, bytes);
	if (rank) {
		transfer(sock[0], (void *)mine, bytes, give);
		transfer(sock[0], all, ranks * bytes, recv);
		return 0;
	}
	for (int r = 1; r < ranks; r++)
		transfer(sock[r], (char *)all + r * bytes, bytes, recv);
	for (int r = 1; r < ranks; r++)
		transfer(sock[r], all, ranks * bytes, give);
	return 0;
}

static void meet(const char *directory)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), other;

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/framework", directory);
	if (rank) {
		while (connect(fd, (struct sockaddr *)&at, sizeof(at)))
			usleep(1000);
		sock[0] = fd;
		transfer(fd, &rank, sizeof(rank), give);
		return;
	}
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, MAX_RANKS))
		fail("the framework's listener", -errno);
	for (int r = 1; r < ranks; r++) {
		int conn = accept(fd, NULL, NULL);

		transfer(conn, &other, sizeof(other), recv);
		sock[other] = conn;
	}
}

/* A Broadcast after which the root does not wait for the others. Rank 0 passes the data on. */
static void broadcast(const struct inccl_fallback_call *c)
{
	const size_t bytes = c->count * sizeof(uint32_t);

	if (rank == c->root)
		memmove(c->recv, c->send, bytes);
	else
		transfer(sock[rank ? 0 : c->root], c->recv, bytes, recv);
	if (rank && rank == c->root)
		transfer(sock[0], c->recv, bytes, give);
	for (int r = 1; !rank && r < ranks; r++)
		if (r != c->root)
			transfer(sock[r], c->recv, bytes, give);
}

/* A Reduce after which only the root has waited for the others. Rank 0 adds. */
static void reduce(const struct inccl_fallback_call *c)
{
	const size_t bytes = c->count * sizeof(uint32_t);
	uint32_t *sum = malloc(bytes), *part = malloc(bytes);

	if (!sum || !part)
		fail("malloc", -ENOMEM);
	memcpy(sum, c->send, bytes);
	if (rank)
		transfer(sock[0], sum, bytes, give);
	for (int r = 1; !rank && r < ranks; r++) {
		transfer(sock[r], part, bytes, recv);
		for (size_t i = 0; i < c->count; i++)
			sum[i] += part[i];
	}
	if (!rank && c->root)
		transfer(sock[c->root], sum, bytes, give);
	else if (!rank)
		memcpy(c->recv, sum, bytes);
	else if (rank == c->root)
		transfer(sock[0], c->recv, bytes, recv);
	free(sum);
	free(part);
}

/* Gathers all contributions, and computes the result of this rank. */
static void gather_and_compute(const struct inccl_fallback_call *c)
{
	const size_t n = c->count * (c->collective == INCCL_REDUCE_SCATTER ? ranks : 1);
	const size_t first = c->collective == INCCL_REDUCE_SCATTER ? rank * c->count : 0;
	uint32_t *all = calloc(n * ranks, sizeof(*all)), *out = c->recv;

	if (!all)
		fail("calloc", -ENOMEM);
	gather(NULL, c->send, all, n * sizeof(*all));
	for (size_t i = 0; i < c->count; i++) {
		uint32_t sum = 0;

		for (int r = 0; r < ranks; r++)
			sum += all[r * n + first + i];
		for (int r = 0; r < ranks && c->collective == INCCL_ALL_GATHER; r++)
			out[r * n + i] = all[r * n + i];
		if (c->collective != INCCL_ALL_GATHER)
			out[i] = sum;
	}
	free(all);
}

static int repeat(void *context, const struct inccl_fallback_call *c)
{
	uint8_t all[MAX_RANKS], mine = 0;

	repeated++;
	if (c->collective == INCCL_BARRIER)
		gather(NULL, &mine, all, 1);
	else if (c->collective == INCCL_BROADCAST)
		broadcast(c);
	else if (c->collective == INCCL_REDUCE)
		reduce(c);
	else
		gather_and_compute(c);
	return 0;
}

/* ---- calls ---- */

static uint32_t operand(int of, unsigned int call, size_t i)
{
	return (of + 1) * 2654435761u + call * 40503u + (uint32_t)i * 69069u;
}

static uint32_t wanted(const struct inccl_fallback_call *c, unsigned int call, size_t i)
{
	const size_t at = i + (c->collective == INCCL_REDUCE_SCATTER ? rank * c->count : 0);
	uint32_t sum = 0;

	if (c->collective == INCCL_BROADCAST)
		return operand(c->root, call, i);
	if (c->collective == INCCL_ALL_GATHER)
		return operand(i / c->count, call, i % c->count);
	for (int r = 0; r < ranks; r++)
		sum += operand(r, call, at);
	return sum;
}

static bool is_result(const struct inccl_fallback_call *c)
{
	return c->collective != INCCL_BARRIER && (c->collective != INCCL_REDUCE || c->root == rank);
}

/* Runs a call of a kind and a size that depend on its number. Returns how many elements are
 * wrong. */
static size_t one(struct inccl_fallback *fallback, unsigned int number)
{
	static const size_t counts[] = {1, 257, 0, 3001, 20011};
	const size_t count = counts[number / 6 % 5];
	INCCL_OPTS(inccl_fallback_call, c, .collective = number % 6, .count = count,
		   .dtype = INCCL_INT32, .op = INCCL_SUM, .root = number % ranks);
	const size_t n = count * (c.collective == INCCL_REDUCE_SCATTER ? ranks : 1);
	const size_t m = count * (c.collective == INCCL_ALL_GATHER ? ranks : 1);
	uint32_t *send = calloc(n + 1, sizeof(*send)), *recv = calloc(m + 1, sizeof(*recv));
	size_t wrong = 0;
	int err;

	if (!send || !recv)
		fail("calloc", -ENOMEM);
	for (size_t i = 0; i < n; i++)
		send[i] = operand(rank, number, i);
	c.send = send;
	/* every second AllReduce and Broadcast is in place */
	c.recv = n == m && number / 30 % 2 ? send : recv;
	err = inccl_fallback_run(fallback, &c);
	if (err)
		fail(inccl_fallback_reason(fallback) ?: "inccl_fallback_run()", err);
	for (size_t i = 0; i < m && is_result(&c); i++)
		wrong += ((uint32_t *)c.recv)[i] != wanted(&c, number, i);
	free(send);
	free(recv);
	return wrong;
}

static struct inccl_fallback *start(struct inccl_group **group, bool derived)
{
	INCCL_OPTS(inccl_communicator_opts, comm_opts, .error = error, .error_size = sizeof(error));
	INCCL_OPTS(inccl_fallback_opts, opts, .gather = gather, .repeat = repeat,
		   .keep_bytes = KEEP_BYTES, .error = error, .error_size = sizeof(error));
	struct inccl_fallback *fallback;
	struct inccl_communicator *comm, *first;
	int err;

	err = inccl_group_create(NULL, group);
	if (err)
		fail("inccl_group_create()", err);
	err = inccl_communicator_create(*group, &comm_opts, &comm);
	if (err)
		fail("inccl_communicator_create()", err);
	if (derived) {
		first = comm;
		err = inccl_communicator_duplicate(first, &comm_opts, &comm);
		if (err)
			fail("inccl_communicator_duplicate()", err);
		inccl_communicator_destroy(first);
	}
	err = inccl_fallback_create(comm, &opts, &fallback);
	if (err)
		fail("inccl_fallback_create()", err);
	return fallback;
}

static void be_late(const char *directory, const char *how)
{
	char path[256];

	usleep(atoi(how) * 1000);
	snprintf(path, sizeof(path), "%s/go", directory);
	while (!strcmp(how, "file") && access(path, F_OK))
		usleep(1000);
}

int main(int argc, char **argv)
{
	const unsigned int calls = argc >= 3 ? atoi(argv[2]) : 0;
	const bool derived = argc == 4 && !strcmp(argv[3], "derived");
	struct inccl_fallback *fallback;
	struct inccl_group *group;
	size_t wrong = 0;
	char reason[700];

	rank = atoi(getenv("INCCL_RANK") ?: "-1");
	ranks = atoi(getenv("INCCL_WORLD_SIZE") ?: "0");
	if (!calls || rank < 0 || ranks < 1 || ranks > MAX_RANKS)
		return 2;
	setlinebuf(stdout);
	srand(getpid());
	meet(argv[1]);
	fallback = start(&group, derived);
	for (unsigned int i = 0; i < calls; i++) {
		if (i == LATE_CALL && rank == 1 && argc == 4 && !derived)
			be_late(argv[1], argv[3]);
		wrong += one(fallback, i);
		if (!i)
			printf("begins\n");
		if (rand() % PAUSE_ONE_IN == 0)
			usleep(rand() % PAUSE_US);
	}
	snprintf(reason, sizeof(reason), "%s", inccl_fallback_reason(fallback) ?: "none");
	inccl_fallback_destroy(fallback);
	inccl_group_destroy(group);
	printf("%u calls, %zu wrong, %u seen by the framework: %s\n", calls, wrong, repeated,
	       reason);
	return wrong != 0;
}
