// SPDX-License-Identifier: BSD-2-Clause
/*
 * An MPI program that compares the collectives of the library under test with MPI's own, which
 * mpi_alone() calls. test_mpi starts this program by inc-lab mpirun. Rank 0 prints how many calls
 * were made, how many gave a wrong result, and a hash of all results.
 *
 * With `where`, each rank prints its host name and address. With `all`, it calls each collective by
 * type, operator, count, in place or not. With `some`, each type and operator has one count. With
 * `until FILE`, loops go on until FILE exists, and a while longer. With `few N`, there are N loops.
 * With `isend`, an AllReduce runs while large messages are under way. With `threads`, several
 * threads have a communicator each. With `others`, calls pass through the library, and with `huge`
 * an AllReduce has more than 2^31 bytes. With `abort N`, one rank calls MPI_Abort instead of its
 * Nth AllReduce, or of MPI_Finalize if N is -1.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "selftests/mpi/check.h"

#define HASH_START   0xcbf29ce484222325ull
#define THREADS      3
#define THREAD_CALLS 100
#define MIN_LOOPS    40 /* loops of check until, after FILE exists */

struct pair_double {
	double value;
	int index;
};
struct pair_float {
	float value;
	int index;
};
struct pair_int {
	int value, index;
};
struct pair_long {
	long value;
	int index;
};

int rank, ranks;
bool every;
unsigned long calls, wrong;
uint8_t *input, *own, *expected;
static uint64_t all_hash = HASH_START;

static uint64_t hash(uint64_t h, const void *data, size_t bytes)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < bytes; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

/* A number that depends on rank, element and call. */
static uint32_t draw(size_t i, unsigned long salt)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull ^ (rank + 1) * 0xbf58476d1ce4e5b9ull ^
		     (salt + 1) * 0x94d049bb133111ebull;

	x ^= x >> 31;
	x *= 0xd6e8feb86659fd93ull;
	return x >> 32;
}

/* Whether MPI mistakes the sign of a type in MIN and MAX: MPICH 4.0 takes unsigned numbers for
 * signed ones, and Open MPI 4.1 takes MPI_Offset for an unsigned one. */
static bool mistakes_sign(const struct type *t)
{
#ifdef MPICH_VERSION
	return t->name[0] == 'u';
#else
	return t->type == MPI_OFFSET;
#endif
}

/* Whether the order of the operands changes a float. */
static bool is_exact(const struct op *o)
{
	return strcmp(o->name, "SUM") && strcmp(o->name, "PROD");
}

/* Writes number i of a type, of random bits or of r. */
static void fill_integer(uint8_t *to, const struct type *t, int i, const struct op *o, uint32_t r)
{
	for (int k = 0; k < t->size; k++)
		to[k] = draw(i * 8 + k, calls);
	if (o->name[0] == 'M' && mistakes_sign(t))
		to[t->size - 1] &= 0x7f;
	/* sums of short integers must not overflow, because Open MPI's saturate on some CPUs */
	if (!is_exact(o) && t->size < 4) {
		memset(to, 0, t->size);
		to[0] = 1 + (r % 2 && rank < 6);
	}
}

void fill(uint8_t *to, const struct type *t, int count, const struct op *o)
{
	const bool small = o->name[0] == 'P';

	memset(to, 0, (size_t)count * t->size);
	for (int i = 0; i < count; i++) {
		const uint32_t r = draw(i, calls);
		/* products of floats must stay in range, and zeros of both signs occur in pairs */
		const double x =
			small ? 0.75 + r % 512 / 1024.0
			      : ((int)(r % 2001) - 1000) * ldexp(1, (int)(r >> 16) % 8 - 4);
		const double few = (r & 3) == 3 ? -0.0 : r & 3;

		switch (t->kind) {
		case INTEGER:
		case NUMBER:
		case BITS:
			fill_integer(to + i * t->size, t, i, o, r);
			break;
		case LOGICAL:
			to[i * t->size] = r & 1;
			break;
		case FLOAT:
			((float *)to)[i] = x;
			break;
		case DOUBLE:
			((double *)to)[i] = x;
			break;
		case COMPLEX_FLOAT:
			((float *)to)[2 * i] = x;
			((float *)to)[2 * i + 1] = -x / 2;
			break;
		case COMPLEX_DOUBLE:
			((double *)to)[2 * i] = x;
			((double *)to)[2 * i + 1] = -x / 2;
			break;
		case PAIR_INT:
			((struct pair_int *)to)[i] = (struct pair_int){r % 3, rank * 7 % 5};
			break;
		case PAIR_FLOAT:
			((struct pair_float *)to)[i] = (struct pair_float){few, rank * 7 % 5};
			break;
		case PAIR_DOUBLE:
			((struct pair_double *)to)[i].value = few;
			((struct pair_double *)to)[i].index = rank * 7 % 5;
			break;
		case PAIR_LONG:
			((struct pair_long *)to)[i].value = r % 3 - 1L;
			((struct pair_long *)to)[i].index = rank * 7 % 5;
			break;
		}
	}
}

/* Whether two results are the same: bit by bit, or within the bound of a sum of floats. The values
 * are below 8000, so each part is rounded by 2^-14 of that in the worst case that is allowed. */
static bool same(const struct type *t, const void *result, const void *right, int i, bool exact)
{
	const double sizes = 16000.0 * ranks * ranks;

	if (t->kind == COMPLEX_FLOAT || t->kind == COMPLEX_DOUBLE) {
		const struct type part = {t->name, t->type,
					  t->kind == COMPLEX_FLOAT ? FLOAT : DOUBLE, t->size / 2};

		return same(&part, result, right, 2 * i, exact) &&
		       same(&part, result, right, 2 * i + 1, exact);
	}
	if (t->kind == PAIR_LONG) {
		const struct pair_long *a = result, *b = right;

		return a[i].value == b[i].value && a[i].index == b[i].index;
	}
	if (t->kind == PAIR_DOUBLE) {
		const struct pair_double *a = result, *b = right;

		return a[i].value == b[i].value && a[i].index == b[i].index;
	}
	if (t->kind == PAIR_FLOAT) {
		const struct pair_float *a = result, *b = right;

		return a[i].value == b[i].value && a[i].index == b[i].index;
	}
	if (t->kind == FLOAT && !exact)
		return fabs((double)((const float *)result)[i] - ((const float *)right)[i]) <=
		       sizes * ldexp(1, -24);
	if (t->kind == DOUBLE && !exact)
		return fabs(((const double *)result)[i] - ((const double *)right)[i]) <=
		       sizes * ldexp(1, -50);
	return !memcmp((const char *)result + (size_t)i * t->size,
		       (const char *)right + (size_t)i * t->size, t->size);
}

int rank_in(MPI_Comm comm)
{
	int own_rank;

	PMPI_Comm_rank(comm, &own_rank);
	return own_rank;
}

void complain(const char *what, const struct type *t, const char *op, int count, int i)
{
	if (!wrong)
		fprintf(stderr, "check: rank %d: %s of %d %s by %s: element %d\n", rank, what,
			count, t->name, op, i);
	wrong++;
}

/* All ranks must have the same bits of all results up to now. */
static void expect_equal(const char *name)
{
	uint64_t hashes[2] = {all_hash, ~all_hash};

	PMPI_Allreduce(MPI_IN_PLACE, hashes, 2, MPI_UINT64_T, MPI_MIN, mpi_alone(MPI_COMM_WORLD));
	if (hashes[0] != ~hashes[1]) {
		fprintf(stderr, "check: rank %d: not all ranks have the same results: %s\n", rank,
			name);
		wrong++;
	}
}

void judge(const char *what, const struct type *t, const struct op *o, int count)
{
	for (int i = 0; i < count; i++)
		if (!same(t, own, expected, i, is_exact(o))) {
			complain(what, t, o->name, count, i);
			return;
		}
}

static void check_reduction(MPI_Comm comm, const struct type *t, const struct op *o, int count,
			    bool in_place, int root)
{
	const bool gets = root < 0 || root == rank;
	const size_t bytes = (size_t)count * t->size;

	fill(input, t, count, o);
	memset(own, 0, bytes);
	memset(expected, 0, bytes);
	if (in_place && gets)
		memcpy(own, input, bytes);
	if (root < 0) {
		PMPI_Allreduce(input, expected, count, t->type, o->op, mpi_alone(comm));
		MPI_Allreduce(in_place ? MPI_IN_PLACE : input, own, count, t->type, o->op, comm);
		all_hash = hash(all_hash, own, bytes);
	} else {
		PMPI_Reduce(input, expected, count, t->type, o->op, root, mpi_alone(comm));
		MPI_Reduce(in_place && gets ? MPI_IN_PLACE : input, own, count, t->type, o->op,
			   root, comm);
	}
	calls++;
	judge(root < 0 ? "Allreduce" : "Reduce", t, o, count);
}

static void check_bcast(MPI_Comm comm, int bytes, int root)
{
	static const struct type byte = {"bytes", MPI_BYTE, INTEGER, 1};

	fill(input, &byte, bytes, &(struct op){"-", MPI_OP_NULL, 0});
	memcpy(expected, input, bytes);
	PMPI_Bcast(expected, bytes, MPI_BYTE, root, mpi_alone(comm));
	/* a program may give bytes that it can only read */
	mprotect(input, MAX_BYTES, rank_in(comm) == root ? PROT_READ : PROT_READ | PROT_WRITE);
	MPI_Bcast(input, bytes, MPI_BYTE, root, comm);
	mprotect(input, MAX_BYTES, PROT_READ | PROT_WRITE);
	calls++;
	if (memcmp(input, expected, bytes))
		complain("Bcast", &byte, "-", bytes, -1);
}

/* The root has every second element of an array, and the others have them one behind the other. */
static void check_strided_bcast(MPI_Comm comm, int count, int root)
{
	static const struct type type = {"strided ints", MPI_INT, INTEGER, 4};
	MPI_Datatype strided;
	int *values = (int *)input;

	PMPI_Type_vector(count, 1, 2, MPI_INT, &strided);
	PMPI_Type_commit(&strided);
	for (int i = 0; i < 2 * count; i++)
		values[i] = rank == root ? 1000 + i : -1;
	if (rank % 2 == root % 2)
		MPI_Bcast(values, 1, strided, root, comm);
	else
		MPI_Bcast(values, count, MPI_INT, root, comm);
	calls++;
	for (int i = 0; i < count; i++)
		if (values[rank % 2 == root % 2 ? 2 * i : i] != 1000 + 2 * i) {
			complain("Bcast", &type, "-", count, i);
			break;
		}
	PMPI_Type_free(&strided);
}

/* The root has a matrix, and the others get it transposed. The type of the transposed one has the
 * size and the extents of the matrix. */
static void check_transposed_bcast(MPI_Comm comm, int n, int root)
{
	static const struct type type = {"transposed ints", MPI_INT, INTEGER, 4};
	MPI_Datatype column, transposed;
	int *values = (int *)input;

	PMPI_Type_vector(n, 1, n, MPI_INT, &column);
	PMPI_Type_create_hvector(n, 1, sizeof(int), column, &transposed);
	PMPI_Type_commit(&transposed);
	for (int i = 0; i < n * n; i++)
		values[i] = rank == root ? 1000 + i : -1;
	if (rank == root)
		MPI_Bcast(values, n * n, MPI_INT, root, comm);
	else
		MPI_Bcast(values, 1, transposed, root, comm);
	calls++;
	for (int i = 0; i < n * n && rank != root; i++)
		if (values[i % n * n + i / n] != 1000 + i) {
			complain("Bcast", &type, "-", n * n, i);
			break;
		}
	PMPI_Type_free(&column);
	PMPI_Type_free(&transposed);
}

/* MPI itself reports a root that does not exist. */
static void check_wrong_root(MPI_Comm comm)
{
	static const struct type type = {"wrong root", MPI_INT, INTEGER, 4};
	int *values = (int *)input;

	PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
	if (MPI_Bcast(values, 1, MPI_INT, ranks, comm) == MPI_SUCCESS ||
	    MPI_Reduce(values, values + 1, 1, MPI_INT, MPI_SUM, -1, comm) == MPI_SUCCESS)
		complain("Bcast or Reduce", &type, "-", 1, 0);
	PMPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL);
}

static void check_type(size_t t, size_t o)
{
	static const int counts[] = {0, 1, 3, 257};
	const int n = LENGTH(counts) * 2, one = (t + o) % n;
	const bool all = every && t < COMMON_TYPES;
	const bool complex = types[t].kind == COMPLEX_FLOAT || types[t].kind == COMPLEX_DOUBLE;

	for (int i = all ? 0 : one; i < (all ? n : one + 1); i++) {
		check_reduction(MPI_COMM_WORLD, &types[t], &ops[o], counts[i / 2], i & 1, -1);
		check_reduction(MPI_COMM_WORLD, &types[t], &ops[o], counts[i / 2], i & 1,
				(t + o + i / 2) % ranks);
		if (all || one % 3 == 0)
			check_reduce_scatters(MPI_COMM_WORLD, &types[t], &ops[o], counts[i / 2]);
	}
	/* beyond the window for results: the first operator, and the last with the last types */
	if (o ? o != n_ops - 1 || t + 4 <= COMMON_TYPES || t >= COMMON_TYPES
	      : t >= COMMON_TYPES && !complex)
		return;
	for (int k = all ? 0 : t % 4; k < (all ? 4 : (int)t % 4 + 1); k++)
		check_reduction(MPI_COMM_WORLD, &types[t], &ops[o], MAX_COUNT, k & 1,
				k & 2 ? (int)t % ranks : -1);
	check_reduce_scatters(MPI_COMM_WORLD, &types[t], &ops[o], MAX_COUNT / ranks);
}

static void check_types(void)
{
	for (size_t t = 0; t < n_types; t++) {
		/* MPI may lack a type of Fortran */
		for (size_t o = 0; o < n_ops && types[t].type != MPI_DATATYPE_NULL; o++)
			if (ops[o].kinds & 1u << types[t].kind)
				check_type(t, o);
		expect_equal(types[t].name);
	}
}

static void check_bcasts(MPI_Comm comm)
{
	static const int bytes[] = {0, 1, 3, 1024, 65536, 65537, 1000003};
	const int step = every       ? 1
			 : ranks > 4 ? 5
				     : 3; /* which meets ranks at each place of a host */

	for (size_t b = 0; b < LENGTH(bytes); b++)
		for (int root = every ? 0 : b % step; root < ranks; root += step)
			check_bcast(comm, bytes[b], root);
	check_strided_bcast(comm, 1000, ranks - 1);
	check_strided_bcast(comm, 50000, ranks / 2);
	check_transposed_bcast(comm, 3, 0);
	check_transposed_bcast(comm, 200, ranks - 1);
	check_wrong_root(comm);
}

/* The ranks of a host do not follow each other in this communicator. */
static void check_mixed(void)
{
	MPI_Comm mixed;

	MPI_Comm_split(MPI_COMM_WORLD, 0, rank * 5 % ranks, &mixed);
	for (int i = 0; i < 10; i++)
		check_reduce_scatters(mixed, &types[i % 2], &ops[0],
				      i < 7 ? 10 : MAX_COUNT / ranks);
	check_allgathers(mixed);
	MPI_Comm_free(&mixed);
}

/* Communicators that are made of others, of which some are never freed. */
static void check_communicators(void)
{
	MPI_Comm dup, half, again;
	const int loops =
		every ? 40 : 24; /* more than the calls before a communicator has a group */
	int size, part, sum;

	PMPI_Comm_dup(MPI_COMM_WORLD, &dup);
	for (int i = 0; i < loops; i++)
		check_reduction(dup, &types[i % 10], &ops[0], 100 + i, i & 1, -1);
	for (int k = 0; k < 2; k++) {
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
		MPI_Comm_size(half, &size);
		MPI_Comm_rank(half, &part);
		for (int i = 0; i < loops; i++) {
			MPI_Allreduce(&part, &sum, 1, MPI_INT, MPI_SUM, half);
			MPI_Barrier(half);
			calls++;
			if (sum != size * (size - 1) / 2)
				complain("Allreduce", &types[0], "split", 1, 0);
		}
		if (!k)
			MPI_Comm_free(&half);
	}
	MPI_Comm_dup(dup, &again);
	MPI_Comm_free(&dup);
	check_bcasts(again);
	check_allgathers(again);
	check_nonblocking(again);
}

static void *one_thread(void *arg)
{
	MPI_Comm comm = *(MPI_Comm *)arg;
	long sum, bad = 0;

	for (long i = 0; i < THREAD_CALLS; i++) {
		long part = rank * i;

		MPI_Allreduce(&part, &sum, 1, MPI_LONG, MPI_SUM, comm);
		bad += sum != i * ranks * (ranks - 1) / 2;
	}
	return (void *)bad;
}

static void check_threads(void)
{
	pthread_t thread[THREADS];
	MPI_Comm comm[THREADS];
	void *bad;

	for (int i = 0; i < THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comm[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, one_thread, &comm[i]);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], &bad);
		calls += THREAD_CALLS;
		wrong += (long)bad;
	}
	/* MPI_Finalize must cope with the others, in whatever order each rank first used them */
	MPI_Comm_free(&comm[0]);
}

/* Six collectives of the library, and in each tenth loop large ones as well. */
static void one_loop(void)
{
	const struct type *sum = &types[0];
	static int loop;

	check_reduction(MPI_COMM_WORLD, sum, &ops[0], 1 + calls % 999, calls & 1, -1);
	check_reduction(MPI_COMM_WORLD, sum, &ops[2], 257, calls & 2, calls % ranks);
	check_bcast(MPI_COMM_WORLD, 1 + calls % 5000, calls % ranks);
	check_reduce_scatters(MPI_COMM_WORLD, sum, &ops[0], 1 + calls % 99);
	if (loop++ % 10 == 9) {
		check_reduction(MPI_COMM_WORLD, sum, &ops[0], 50001, calls & 4, -1);
		check_bcast(MPI_COMM_WORLD, 200001, calls % ranks);
		check_reduce_scatters(MPI_COMM_WORLD, sum, &ops[0], MAX_COUNT / ranks);
		check_allgathers(MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

static void check_until(const char *path)
{
	int over = 0;

	for (int after = 0; after < MIN_LOOPS; after += over) {
		one_loop();
		if (!over)
			over = !rank && !access(path, F_OK);
		PMPI_Bcast(&over, 1, MPI_INT, 0, mpi_alone(MPI_COMM_WORLD));
		if (!rank && calls / 100 != (calls - 5) / 100) {
			printf("at call %lu\n", calls);
			fflush(stdout);
		}
	}
	expect_equal("until");
}

/* A group is created while a large message is under way. */
static void check_isend(void)
{
	static const struct type ints = {"int", MPI_INT, INTEGER, 4};
	const int n = 16 << 20;
	int *out = calloc(n, sizeof(int)), *in = calloc(n, sizeof(int)), sum;
	MPI_Request requests[2];
	MPI_Status statuses[2];

	out[n - 1] = rank + 1;
	MPI_Irecv(in, n, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, &requests[0]);
	MPI_Isend(out, n, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, &requests[1]);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Waitall(2, requests, statuses);
	calls++;
	if (sum != ranks * (ranks - 1) / 2 || in[n - 1] != (rank + ranks - 1) % ranks + 1)
		complain("Allreduce during an Isend", &ints, "SUM", 1, 0);
	free(in);
	free(out);
}

static void check_abort(int when)
{
	int sum;

	for (int i = 0; when >= 0 || i < 20; i++) {
		if (rank == 1 && i == when)
			MPI_Abort(MPI_COMM_WORLD, 7);
		MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	}
	if (rank == 1)
		MPI_Abort(MPI_COMM_WORLD, 7);
}

static void print_where(void)
{
	const char *addr = getenv("INCCL_ADDR");
	char host[64];

	gethostname(host, sizeof(host));
	printf("rank %d of %d on %s at %s\n", rank, ranks, host, addr ? addr : "?");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	unsigned long all_wrong;
	int level;

	MPI_Init_thread(&argc, &argv,
			strcmp(what, "threads") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	/* pages of its own, which check_bcast() protects */
	input = mmap(NULL, MAX_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	own = malloc(MAX_BYTES);
	expected = malloc(MAX_BYTES);
	if (!strcmp(what, "where")) {
		print_where();
	} else if (!strcmp(what, "all") || !strcmp(what, "some")) {
		every = !strcmp(what, "all");
		check_types();
		check_bcasts(MPI_COMM_WORLD);
		check_allgathers(MPI_COMM_WORLD);
		check_equal_buffers(MPI_COMM_WORLD);
		check_communicators();
		check_mixed();
	} else if (!strcmp(what, "isend")) {
		check_isend();
	} else if (!strcmp(what, "threads")) {
		check_threads();
	} else if (!strcmp(what, "others")) {
		check_others();
	} else if (!strcmp(what, "huge")) {
		check_huge();
	} else if (!strcmp(what, "abort") && argc > 2) {
		check_abort(atoi(argv[2]));
	} else if (!strcmp(what, "few") && argc > 2) {
		for (int i = 0; i < atoi(argv[2]); i++)
			one_loop();
	} else if (!strcmp(what, "until") && argc > 2) {
		check_until(argv[2]);
	} else {
		fprintf(stderr, "usage: check where|all|some|few N|isend|threads|others|huge|abort "
				"N|until FILE\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	PMPI_Reduce(&wrong, &all_wrong, 1, MPI_UNSIGNED_LONG, MPI_SUM, 0,
		    mpi_alone(MPI_COMM_WORLD));
	if (!rank && calls)
		printf("%lu calls, %lu wrong, hash %016llx\n", calls, all_wrong,
		       (unsigned long long)all_hash);
	munmap(input, MAX_BYTES);
	free(own);
	free(expected);
	MPI_Finalize();
	return wrong != 0;
}
