/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A test program for derived groups. It runs on every rank of a job, whose environment names the
 * rank. It checks every element against sums that are computed without the library. Exit code 0, or
 * 1 with an error message.
 *
 *   derive parts ROUNDS	collectives run at once on a communicator, its halves by
 *			neighbours and by parity (there in reverse order) and its
 *			duplicate; prints "parts"
 *   derive survive	computes until ranks are lost, then with the remaining ones;
 *			prints "computes", later "survived as RANK of SIZE after MS ms"
 *   derive grow SIZE	the job begins with SIZE ranks and grows by the others, until it
 *			has as many as the environment says; prints "grew to SIZE"
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/include/inccl.h"
#include "lib/base/clock.h"

#define ELEMENTS  900
#define PARTS     4
#define TRY_MS    20
#define TRIES     1000
#define SURVIVORS 50 /* number of collectives after the loss of a rank */

/* A communicator, and the numbers that its ranks have in the job, in the communicator's order. */
struct part {
	struct inccl_communicator *comm;
	int n;
	int rank[16];
	int32_t data[ELEMENTS];
};

static struct inccl_group *group;
static char error[512];
static int rank, size;

static void fail(const char *what, int err)
{
	fprintf(stderr, "rank %d: %s: %s (%s)\n", rank, what, error, inccl_strerror(err));
	exit(1);
}

static void check(int err, const char *what)
{
	if (err)
		fail(what, err);
}

static uint32_t give(int of, uint32_t round, int i, uint32_t k)
{
	return (of + 1) * 2654435761u + round * 40503u + i * 69069u + k;
}

/* Checks the order of the part's ranks: each rank broadcasts its number in the job. */
static void check_ranks(struct part *p)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	inccl_communicator_info(p->comm, &info);
	if (info.world_size != p->n || p->rank[info.rank] != rank) {
		fprintf(stderr, "rank %d: is %d of %d\n", rank, info.rank, info.world_size);
		exit(1);
	}
	for (int root = 0; root < p->n; root++) {
		int32_t who = rank, told = -1;

		check(inccl_broadcast(p->comm, &who, &told, 1, INCCL_INT32, root, NULL),
		      "broadcast");
		if (told != p->rank[root]) {
			fprintf(stderr, "rank %d: %d is %d\n", rank, root, told);
			exit(1);
		}
	}
}

/* Runs an AllReduce on all parts at once. */
static int exchange(struct part *parts, int n, uint32_t round)
{
	struct inccl_request *request[PARTS];
	int err, first = 0;

	for (int i = 0; i < n; i++) {
		for (uint32_t k = 0; k < ELEMENTS; k++)
			parts[i].data[k] = give(rank, round, i, k);
		err = inccl_allreduce_start(parts[i].comm, parts[i].data, parts[i].data, ELEMENTS,
					    INCCL_INT32, INCCL_SUM, NULL, &request[i]);
		if (err)
			return err;
	}
	for (int i = 0; i < n; i++) {
		err = inccl_wait(request[i], -1);
		first = first ? first : err;
	}
	for (int i = 0; i < n && !first; i++) {
		for (uint32_t k = 0; k < ELEMENTS; k++) {
			uint32_t want = 0;

			for (int r = 0; r < parts[i].n; r++)
				want += give(parts[i].rank[r], round, i, k);
			if ((uint32_t)parts[i].data[k] == want)
				continue;
			fprintf(stderr, "rank %d: part %d round %u element %u is %u, not %u\n",
				rank, i, round, k, (uint32_t)parts[i].data[k], want);
			exit(1);
		}
	}
	return first;
}

static void all_ranks(struct part *p)
{
	p->n = 0;
	for (int r = 0; r < size; r++)
		p->rank[p->n++] = r;
}

static int parts(const char *rounds)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .window = 16, .error = error,
		   .error_size = sizeof(error));
	struct part part[PARTS] = {{0}};

	check(inccl_group_create(NULL, &group), "group");
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	check(inccl_communicator_create(group, &opts, &part[0].comm), "communicator");
	check(inccl_communicator_split(part[0].comm, rank / 2, 0, &opts, &part[1].comm), "split");
	check(inccl_communicator_split(part[0].comm, rank % 2, -rank, &opts, &part[2].comm),
	      "split");
	check(inccl_communicator_duplicate(part[0].comm, NULL, &part[3].comm), "duplicate");
	all_ranks(&part[0]);
	all_ranks(&part[3]);
	for (int r = 0; r < size; r++) {
		if (r / 2 == rank / 2)
			part[1].rank[part[1].n++] = r;
		if ((size - 1 - r) % 2 == rank % 2)
			part[2].rank[part[2].n++] = size - 1 - r;
	}
	for (int i = 0; i < PARTS; i++)
		check_ranks(&part[i]);
	for (int round = 0; round < atoi(rounds); round++)
		check(exchange(part, PARTS, round), "allreduce");
	/* destroys the parent communicator and its group first, because the parts do not need
	 * them */
	check(inccl_communicator_destroy(part[0].comm), "destroy");
	check(inccl_group_destroy(group), "group");
	check(exchange(part + 1, PARTS - 1, 0), "allreduce of the parts alone");
	for (int i = 1; i < PARTS; i++)
		check(inccl_communicator_destroy(part[i].comm), "destroy");
	puts("parts");
	return 0;
}

/* Finds the numbers of the remaining ranks in the job: each rank broadcasts its number. */
static void ask_ranks(struct part *p)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	int32_t who = rank, told[16];

	inccl_communicator_info(p->comm, &info);
	check(inccl_all_gather(p->comm, &who, told, 1, INCCL_INT32, NULL), "allgather");
	p->n = info.world_size;
	for (int r = 0; r < p->n; r++)
		p->rank[r] = told[r];
}

static int survive(void)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .error = error, .error_size = sizeof(error));
	INCCL_OPTS(inccl_group_opts, more, .error = error, .error_size = sizeof(error));
	struct inccl_group *rest;
	struct part part = {0};
	uint64_t begun_at_ms;
	int err = 0;

	check(inccl_group_create(NULL, &group), "group");
	rank = inccl_group_rank(group);
	size = inccl_group_size(group);
	all_ranks(&part);
	check(inccl_communicator_create(group, &opts, &part.comm), "communicator");
	for (uint32_t round = 0; !err; round++) {
		err = exchange(&part, 1, round);
		if (round == 10) {
			puts("computes");
			fflush(stdout);
		}
	}
	begun_at_ms = inc_now_ms();
	if (err != -ECONNRESET)
		fail(inccl_communicator_error(part.comm), err);
	check(inccl_group_shrink(group, &more, &rest), "shrink");
	inccl_communicator_destroy(part.comm);
	check(inccl_group_destroy(group), "group");
	check(inccl_communicator_create(rest, &opts, &part.comm), "communicator of those left");
	ask_ranks(&part);
	printf("survived as %d of %d after %llu ms\n", inccl_group_rank(rest),
	       inccl_group_size(rest), (unsigned long long)(inc_now_ms() - begun_at_ms));
	for (uint32_t round = 0; round < SURVIVORS; round++)
		check(exchange(&part, 1, round), "allreduce of those left");
	check(inccl_communicator_destroy(part.comm), "destroy");
	check(inccl_group_destroy(rest), "group");
	return 0;
}

/* Joins the job as a further rank. Retries, because the job may not have begun yet. */
static void join(void)
{
	INCCL_OPTS(inccl_group_opts, opts, .rank = rank, .world_size = size, .join = 1,
		   .error = error, .error_size = sizeof(error));
	const struct timespec pause = {.tv_nsec = TRY_MS * 1000000};
	int err = -ENOENT;

	for (int i = 0; i < TRIES && err == -ENOENT; i++) {
		err = inccl_group_create(&opts, &group);
		if (err)
			nanosleep(&pause, NULL);
	}
	check(err, "join");
}

static void start_and_grow(int from)
{
	INCCL_OPTS(inccl_group_opts, opts, .rank = rank, .world_size = from, .error = error,
		   .error_size = sizeof(error));
	INCCL_OPTS(inccl_group_opts, more, .error = error, .error_size = sizeof(error));
	struct inccl_group *old;
	struct part part = {0};

	check(inccl_group_create(&opts, &old), "group");
	for (int r = 0; r < from; r++)
		part.rank[part.n++] = r;
	check(inccl_communicator_create(old, NULL, &part.comm), "communicator");
	check(exchange(&part, 1, 0), "allreduce before");
	check(inccl_group_grow(old, size, &more, &group), "grow");
	/* growing the group must not disturb the old communicator */
	check(exchange(&part, 1, 1), "allreduce beside");
	check(inccl_communicator_destroy(part.comm), "destroy");
	check(inccl_group_destroy(old), "group");
}

static int grow(int from)
{
	const char *own = getenv("INCCL_RANK"), *all = getenv("INCCL_WORLD_SIZE");
	struct part part = {0};

	rank = own ? atoi(own) : 0;
	size = all ? atoi(all) : 0;
	if (rank < from)
		start_and_grow(from);
	else
		join();
	all_ranks(&part);
	check(inccl_communicator_create(group, NULL, &part.comm), "communicator");
	check_ranks(&part);
	for (uint32_t round = 0; round < SURVIVORS; round++)
		check(exchange(&part, 1, round), "allreduce after");
	check(inccl_communicator_destroy(part.comm), "destroy");
	printf("grew to %d\n", inccl_group_size(group));
	check(inccl_group_destroy(group), "group");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "parts"))
		return parts(argv[2]);
	if (argc == 2 && !strcmp(argv[1], "survive"))
		return survive();
	if (argc == 3 && !strcmp(argv[1], "grow"))
		return grow(atoi(argv[2]));
	fprintf(stderr, "usage: derive parts ROUNDS | survive | grow SIZE\n");
	return 2;
}
