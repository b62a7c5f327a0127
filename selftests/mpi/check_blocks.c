// SPDX-License-Identifier: BSD-2-Clause
/* Reduce_scatter, Allgather and nonblocking collectives, for the MPI program `check`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/mpi/check.h"

#define NO_OP ((struct op){"-", MPI_OP_NULL, 0})

static const struct type ints = {"int", MPI_INT, INTEGER, 4};

/* Makes a call by MPI and one by the library under test. counts NULL: each rank has @each */
static void reduce_scatter(MPI_Comm comm, const struct type *t, const struct op *o, int each,
			   const int *counts, bool in_place)
{
	const void *send = in_place ? MPI_IN_PLACE : input;
	const int mine = counts ? counts[rank_in(comm)] : each;
	int total = 0;

	for (int r = 0; r < ranks; r++)
		total += counts ? counts[r] : each;
	fill(input, t, total, o);
	memset(own, 0, (size_t)total * t->size);
	if (in_place)
		memcpy(own, input, (size_t)total * t->size);
	memset(expected, 0, (size_t)mine * t->size);
	if (counts) {
		PMPI_Reduce_scatter(input, expected, counts, t->type, o->op, comm);
		MPI_Reduce_scatter(send, mine || in_place ? own : NULL, counts, t->type, o->op,
				   comm);
	} else {
		PMPI_Reduce_scatter_block(input, expected, each, t->type, o->op, comm);
		MPI_Reduce_scatter_block(send, own, each, t->type, o->op, comm);
	}
	calls++;
	judge(counts ? "Reduce_scatter" : "Reduce_scatter_block", t, o, mine);
}

void check_reduce_scatters(MPI_Comm comm, const struct type *t, const struct op *o, int each)
{
	int *counts = calloc(ranks, sizeof(*counts));

	/* with and without blocks of the same size, and some of nothing */
	for (int r = 0; r < ranks; r++)
		counts[r] = calls & 1 || each < 3 ? each : r % 3 * each / 2;
	reduce_scatter(comm, t, o, each, NULL, calls & 1);
	reduce_scatter(comm, t, o, each, counts, calls & 2);
	free(counts);
}

/* Each rank gives @count ints, in place, or as pairs of ints with gaps on some ranks. */
static void allgather(MPI_Comm comm, int count, bool in_place, bool with_gaps)
{
	const size_t bytes = (size_t)count * ranks * sizeof(int);
	int *values = (int *)own, *from = (int *)input;
	MPI_Datatype gaps;

	PMPI_Type_vector(count, 1, 2, MPI_INT, &gaps);
	PMPI_Type_commit(&gaps);
	fill(input, &ints, 2 * count, &NO_OP);
	memset(own, 0, bytes);
	with_gaps &= rank % 2;
	for (int i = 0; i < count && !with_gaps; i++)
		from[i] = from[2 * i];
	PMPI_Allgather(from, with_gaps ? 1 : count, with_gaps ? gaps : MPI_INT, expected, count,
		       MPI_INT, comm);
	for (int i = 0; in_place && i < count; i++)
		values[rank_in(comm) * count + i] = from[with_gaps ? 2 * i : i];
	MPI_Allgather(in_place ? MPI_IN_PLACE : from, with_gaps ? 1 : count,
		      with_gaps ? gaps : MPI_INT, own, count, MPI_INT, comm);
	calls++;
	if (memcmp(own, expected, bytes))
		complain("Allgather", &ints, "-", count, in_place);
	PMPI_Type_free(&gaps);
}

void check_equal_buffers(MPI_Comm comm)
{
#ifdef OPEN_MPI
	int *sums = (int *)own, *all = (int *)expected, *values = (int *)input;
	const int own_rank = rank_in(comm), total = ranks * (ranks + 1) / 2;

	for (int block = 1; block <= MAX_COUNT / ranks; block += MAX_COUNT / ranks - 1) {
		for (int i = 0; i < block * ranks; i++)
			values[i] = all[i] = own_rank + 1;
		sums[0] = own_rank + 1;
		MPI_Allgather(own_rank ? values : all, block, MPI_INT, all, block, MPI_INT, comm);
		MPI_Allreduce(own_rank ? values : sums, sums, 1, MPI_INT, MPI_SUM, comm);
		MPI_Reduce_scatter_block(values, own_rank ? sums + 1 : values, block, MPI_INT,
					 MPI_SUM, comm);
		calls += 3;
		for (int r = 0; r < ranks; r++)
			if (all[r * block] != r + 1 || all[r * block + block - 1] != r + 1)
				complain("Allgather into its buffer", &ints, "-", block, r);
		if (sums[0] != total || (own_rank ? sums + 1 : values)[block - 1] != total)
			complain("reductions into their buffers", &ints, "SUM", block, 0);
	}
#endif
}

/* The receive buffer has the blocks in the reverse order, with gaps between them, or as they come.
 * Counts differ if @more is not 0. */
static void allgatherv(MPI_Comm comm, int count, int more, bool dense)
{
	int *counts = calloc(ranks, sizeof(int)), *at = calloc(ranks, sizeof(int));
	const int own_rank = rank_in(comm);
	size_t total = 0;

	for (int r = 0; r < ranks; r++) {
		counts[r] = count + (r ? 0 : more);
		at[r] = dense ? (int)total : (ranks - 1 - r) * (count + more + 3);
		total += counts[r];
	}
	if (!dense)
		total = (size_t)ranks * (count + more + 3);
	fill(input, &ints, counts[own_rank], &NO_OP);
	memset(own, 0x5a, total * sizeof(int));
	memset(expected, 0x5a, total * sizeof(int));
	PMPI_Allgatherv(input, counts[own_rank], MPI_INT, expected, counts, at, MPI_INT, comm);
	MPI_Allgatherv(input, counts[own_rank], MPI_INT, own, counts, at, MPI_INT, comm);
	calls++;
	if (memcmp(own, expected, total * sizeof(int)))
		complain("Allgatherv", &ints, "-", count, more);
	free(counts);
	free(at);
}

void check_allgathers(MPI_Comm comm)
{
	const int most = MAX_BYTES / (int)sizeof(int) / ranks - 16;
	const int counts[] = {0, 1, 3, 1000, 16384 / ranks, 16384 / ranks + 1, most};

	for (size_t i = 0; i < LENGTH(counts); i++) {
		for (int how = 0; how < 4; how++)
			/* the input has room for two ints for each that a rank gives */
			allgather(comm, counts[i], how & 1, how & 2);
		allgatherv(comm, counts[i], 0, false);
		allgatherv(comm, counts[i], 0, true);
		allgatherv(comm, counts[i] / 2, counts[i] / 2, false);
	}
}

/* Nonblocking collectives and messages are under way while blocking collectives begin and end. All
 * requests are in one array, and ranks wait or test for them. */
void check_nonblocking(MPI_Comm comm)
{
	const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
	const long sum = (long)ranks * (ranks - 1) / 2;

	for (int i = 0; i < 20; i++) {
		const int root = i % ranks;
		int mine = rank + i, all = -1, least = -1, largest = -1, got = -1, done = 0;
		int given = rank == root ? i : -1;
		MPI_Request requests[6];
		MPI_Status statuses[6];

		MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, comm, &requests[0]);
		MPI_Irecv(&got, 1, MPI_INT, left, i, comm, &requests[1]);
		MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, comm);
		MPI_Ibcast(&given, 1, MPI_INT, root, comm, &requests[2]);
		MPI_Isend(&mine, 1, MPI_INT, right, i, comm, &requests[3]);
		MPI_Barrier(comm);
		MPI_Ibarrier(comm, &requests[4]);
		MPI_Ireduce(&mine, &largest, 1, MPI_INT, MPI_MAX, root, comm, &requests[5]);
		if (i & 1)
			MPI_Waitall(6, requests, statuses);
		while (!(i & 1) && !done)
			MPI_Testall(6, requests, &done, statuses);
		calls += 6;
		if (all != sum + (long)i * ranks || least != i || given != i || got != left + i ||
		    (rank == root && largest != ranks - 1 + i))
			complain("nonblocking collectives", &ints, "-", 1, i);
	}
}
