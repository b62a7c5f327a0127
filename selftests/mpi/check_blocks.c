// SPDX-License-Identifier: BSD-2-Clause
/* The types and operators of the MPI program `check`. Also its calls of Reduce_scatter, Allgather,
 * nonblocking collectives, and what the library under test does not touch. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/mpi/check.h"
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

#define NO_OP ((struct op){"-", MPI_OP_NULL, 0})

/* calls of a new communicator which the library leaves to MPI; it begins with the 17th */
#define CALLS_ALONE 12

static const struct type ints = {"int", MPI_INT, INTEGER, 4};

const struct type types[] = {
	{"int", MPI_INT, INTEGER, 4},
	{"unsigned", MPI_UNSIGNED, INTEGER, 4},
	{"long", MPI_LONG, INTEGER, 8},
	{"uint64_t", MPI_UINT64_T, INTEGER, 8},
	{"short", MPI_SHORT, INTEGER, 2},
	{"uint16_t", MPI_UINT16_T, INTEGER, 2},
	{"signed char", MPI_SIGNED_CHAR, INTEGER, 1},
	{"unsigned char", MPI_UNSIGNED_CHAR, INTEGER, 1},
	{"float", MPI_FLOAT, FLOAT, 4},
	{"double", MPI_DOUBLE, DOUBLE, 8},
	{"2int", MPI_2INT, PAIR_INT, 8},
	{"float and int", MPI_FLOAT_INT, PAIR_FLOAT, 8},
	{"double and int", MPI_DOUBLE_INT, PAIR_DOUBLE, 16},
	{"bool", MPI_C_BOOL, LOGICAL, 1},
	/* COMMON_TYPES end here */
	{"unsigned long", MPI_UNSIGNED_LONG, INTEGER, 8},
	{"long long", MPI_LONG_LONG, INTEGER, 8},
	{"unsigned long long", MPI_UNSIGNED_LONG_LONG, INTEGER, 8},
	{"int8_t", MPI_INT8_T, INTEGER, 1},
	{"uint8_t", MPI_UINT8_T, INTEGER, 1},
	{"int16_t", MPI_INT16_T, INTEGER, 2},
	{"int32_t", MPI_INT32_T, INTEGER, 4},
	{"uint32_t", MPI_UINT32_T, INTEGER, 4},
	{"int64_t", MPI_INT64_T, INTEGER, 8},
	{"unsigned short", MPI_UNSIGNED_SHORT, INTEGER, 2},
	{"MPI_Aint", MPI_AINT, NUMBER, sizeof(MPI_Aint)},
	{"MPI_Offset", MPI_OFFSET, NUMBER, sizeof(MPI_Offset)},
	{"MPI_Count", MPI_COUNT, NUMBER, sizeof(MPI_Count)},
	{"byte", MPI_BYTE, BITS, 1},
	{"float complex", MPI_C_FLOAT_COMPLEX, COMPLEX_FLOAT, 8},
	{"double complex", MPI_C_DOUBLE_COMPLEX, COMPLEX_DOUBLE, 16},
	{"long and int", MPI_LONG_INT, PAIR_LONG, 16},
	{"INTEGER", MPI_INTEGER, NUMBER, 4},
	{"INTEGER*4", MPI_INTEGER4, NUMBER, 4},
	{"INTEGER*8", MPI_INTEGER8, NUMBER, 8},
	{"REAL", MPI_REAL, FLOAT, 4},
	{"REAL*4", MPI_REAL4, FLOAT, 4},
	{"REAL*8", MPI_REAL8, DOUBLE, 8},
	{"DOUBLE PRECISION", MPI_DOUBLE_PRECISION, DOUBLE, 8},
	{"LOGICAL", MPI_LOGICAL, LOGICAL, 4},
	{"COMPLEX", MPI_COMPLEX, COMPLEX_FLOAT, 8},
	{"DOUBLE COMPLEX", MPI_DOUBLE_COMPLEX, COMPLEX_DOUBLE, 16},
	{"2 INTEGERs", MPI_2INTEGER, PAIR_INT, 8},
};
const size_t n_types = LENGTH(types);

#define INTEGERS   (1u << INTEGER | 1u << NUMBER)
#define ARITHMETIC (INTEGERS | 1u << FLOAT | 1u << DOUBLE)
#define COMPLEXES  (1u << COMPLEX_FLOAT | 1u << COMPLEX_DOUBLE)
#define BITWISE    (INTEGERS | 1u << BITS)
#define LOGICALS   (1u << INTEGER | 1u << LOGICAL)
#define PAIRS      (1u << PAIR_INT | 1u << PAIR_FLOAT | 1u << PAIR_DOUBLE | 1u << PAIR_LONG)

const struct op ops[] = {
	{"SUM", MPI_SUM, ARITHMETIC | COMPLEXES},
	{"PROD", MPI_PROD, ARITHMETIC},
	{"MIN", MPI_MIN, ARITHMETIC},
	{"MAX", MPI_MAX, ARITHMETIC},
	{"BAND", MPI_BAND, BITWISE},
	{"BOR", MPI_BOR, BITWISE},
	{"BXOR", MPI_BXOR, BITWISE},
	{"LAND", MPI_LAND, LOGICALS},
	{"LOR", MPI_LOR, LOGICALS},
	{"LXOR", MPI_LXOR, LOGICALS},
	{"MINLOC", MPI_MINLOC, PAIRS},
	{"MAXLOC", MPI_MAXLOC, PAIRS},
};
const size_t n_ops = LENGTH(ops);

MPI_Comm mpi_alone(MPI_Comm comm)
{
	static __thread MPI_Comm copy;
	static __thread unsigned int uses;
	int same = MPI_UNEQUAL;

	if (!getenv("CHECK_COMPONENT"))
		return comm;
	if (uses)
		PMPI_Comm_compare(comm, copy, &same);
	if (same != MPI_CONGRUENT || uses > CALLS_ALONE) {
		if (uses)
			PMPI_Comm_free(&copy);
		PMPI_Comm_dup(comm, &copy);
		uses = 0;
	}
	uses++;
	return copy;
}

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
		PMPI_Reduce_scatter(input, expected, counts, t->type, o->op, mpi_alone(comm));
		MPI_Reduce_scatter(send, mine || in_place ? own : NULL, counts, t->type, o->op,
				   comm);
	} else {
		PMPI_Reduce_scatter_block(input, expected, each, t->type, o->op, mpi_alone(comm));
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
		       MPI_INT, mpi_alone(comm));
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
	PMPI_Allgatherv(input, counts[own_rank], MPI_INT, expected, counts, at, MPI_INT,
			mpi_alone(comm));
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

/* ---- calls that pass through ---- */

static void expect_int(const char *what, int found, int want)
{
	calls++;
	if (found != want)
		complain(what, &ints, "-", 1, found);
}

static void add_ints(void *in, void *out, int *n, MPI_Datatype *type)
{
	int size;

	PMPI_Type_size(*type, &size);
	for (int i = 0; i < *n * size / (int)sizeof(int); i++)
		((int *)out)[i] += ((int *)in)[i];
}

static void check_own_operator(MPI_Comm comm, int sum)
{
	int three[] = {rank, 2 * rank, 3 * rank}, all[3] = {0};
	long double exact = rank, total = 0;
	MPI_Datatype vector;
	MPI_Op add;

	MPI_Op_create(add_ints, 1, &add);
	MPI_Type_contiguous(3, MPI_INT, &vector);
	MPI_Type_commit(&vector);
	MPI_Allreduce(three, all, 3, MPI_INT, add, comm);
	expect_int("an own operator", all[0] + all[1] + all[2], 6 * sum);
	MPI_Allreduce(three, all, 1, vector, add, comm);
	expect_int("an own operator and type", all[0] + all[1] + all[2], 6 * sum);
	MPI_Allreduce(&exact, &total, 1, MPI_LONG_DOUBLE, MPI_SUM, comm);
	expect_int("long double", (int)total, sum);
	MPI_Type_free(&vector);
	MPI_Op_free(&add);
}

/* The odd and the even ranks have a communicator of both. */
static void check_intercommunicator(void)
{
	const int size = (ranks + !(rank % 2)) / 2, others = ranks - size;
	const int first = !(rank % 2); /* of the others */
	int sum, given, *all = calloc(ranks, sizeof(int));
	MPI_Comm half, both;

	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
	MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, first, 7, &both);
	for (int i = 0; i < 20; i++) {
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, both);
		expect_int("Allreduce between groups", sum, others * (first + others - 1));
		given = i;
		MPI_Bcast(&given, 1, MPI_INT,
			  !rank           ? MPI_ROOT
			  : rank % 2 == 0 ? MPI_PROC_NULL
					  : 0,
			  both);
		MPI_Allgather(&given, 1, MPI_INT, all, 1, MPI_INT, both);
		expect_int("Allgather between groups", all[others - 1], i);
		MPI_Barrier(both);
	}
	MPI_Comm_free(&both);
	MPI_Comm_free(&half);
	free(all);
}

static void check_neighbours(int sum)
{
	const int round = 1;
	int two[2] = {-1, -1}, all = -1;
	MPI_Request request;
	MPI_Comm ring;

	MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &round, 0, &ring);
	MPI_Neighbor_allgather(&rank, 1, MPI_INT, two, 1, MPI_INT, ring);
	expect_int("the left neighbour", two[0], (rank + ranks - 1) % ranks);
	expect_int("the right neighbour", two[1], (rank + 1) % ranks);
	request = MPI_REQUEST_NULL;
#if MPI_VERSION >= 4
	MPI_Allreduce_init(&rank, &all, 1, MPI_INT, MPI_SUM, ring, MPI_INFO_NULL, &request);
#elif defined(OMPI_HAVE_MPI_EXT_PCOLLREQ)
	MPIX_Allreduce_init(&rank, &all, 1, MPI_INT, MPI_SUM, ring, MPI_INFO_NULL, &request);
#endif
	for (int i = 0; i < 3 && request != MPI_REQUEST_NULL; i++) {
		all = -1;
		MPI_Start(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		expect_int("a persistent Allreduce", all, sum);
	}
	if (request != MPI_REQUEST_NULL)
		MPI_Request_free(&request);
	MPI_Comm_free(&ring);
}

/* Only the ranks of a group call MPI_Comm_create_group. */
static void check_created_group(void)
{
	MPI_Group world, even;
	const int n = (ranks + 1) / 2;
	int range[][3] = {{0, 2 * (n - 1), 2}}, sum;
	MPI_Comm comm;

	if (rank % 2)
		return;
	MPI_Comm_group(MPI_COMM_WORLD, &world);
	MPI_Group_range_incl(world, 1, range, &even);
	MPI_Comm_create_group(MPI_COMM_WORLD, even, 3, &comm);
	for (int i = 0; i < 20; i++) {
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
		expect_int("Allreduce of a created group", sum, n * (n - 1));
	}
	MPI_Comm_free(&comm);
	MPI_Group_free(&even);
	MPI_Group_free(&world);
}

static void check_bottom(void)
{
	int values[2], *all = calloc(2 * ranks, sizeof(int)), two = 2;
	MPI_Datatype there;
	MPI_Aint at;

	MPI_Get_address(values, &at);
	MPI_Type_create_hindexed(1, &two, &at, MPI_INT, &there);
	MPI_Type_commit(&there);
	for (int root = 0; root < ranks; root++) {
		values[0] = values[1] = rank;
		MPI_Bcast(MPI_BOTTOM, 1, there, root, MPI_COMM_WORLD);
		expect_int("Bcast from MPI_BOTTOM", values[0] + values[1], 2 * root);
		values[1] = rank;
		MPI_Allgather(MPI_BOTTOM, 1, there, all, 2, MPI_INT, MPI_COMM_WORLD);
		expect_int("Allgather from MPI_BOTTOM", all[2 * ranks - 1], ranks - 1);
	}
	MPI_Type_free(&there);
	free(all);
}

void check_others(void)
{
	const int sum = ranks * (ranks - 1) / 2;

	check_own_operator(MPI_COMM_WORLD, sum);
	check_intercommunicator();
	check_neighbours(sum);
	check_created_group();
	check_bottom();
}

/* An Allreduce in place of more than 2^31 bytes. */
void check_huge(void)
{
	const int n = (1 << 29) + 5;
	int *values = malloc((size_t)n * sizeof(int));

	for (int i = 0; i < n; i++)
		values[i] = i ^ rank;
	MPI_Allreduce(MPI_IN_PLACE, values, n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	calls++;
	for (int i = 0; i < n; i++) {
		int most = i;

		for (int r = 1; r < ranks; r++)
			most = (i ^ r) > most ? i ^ r : most;
		if (values[i] != most) {
			complain("a huge Allreduce", &ints, "MAX", n, i);
			break;
		}
	}
	free(values);
}
