/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: MPI_Allreduce (SUM of
 * float32) on the same hosts and links. selftests/benchmarks/mpi starts this program on every host.
 * Rank 0 prints one JSON object per size with the median time of a call, as inccl-perf measures it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <mpi.h>

/* all calls of one size together move about so many bytes, but there are at least three calls */
#define MOST_BYTES (32l << 20)

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Checks that every element is 1 + 2 + ... + ranks. */
static int check(const float *sum, size_t count, int ranks)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (sum[i] != (float)(ranks * (ranks + 1) / 2)) {
			fprintf(stderr, "mpi_allreduce: element %zu is %g\n", i, sum[i]);
			return -1;
		}
	return 0;
}

static int iterations(size_t bytes)
{
	const size_t n = MOST_BYTES / bytes;

	return n < 3 ? 3 : n > 200 ? 200 : n;
}

static int run(size_t bytes)
{
	const size_t count = bytes / sizeof(float);
	const int iters = iterations(bytes);
	float *send = malloc(bytes), *sum = malloc(bytes);
	double *took_s = calloc(iters, sizeof(*took_s));
	int rank, ranks, i, ret = -1;
	size_t k;

	if (!send || !sum || !took_s)
		goto out;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (k = 0; k < count; k++)
		send[k] = rank + 1;
	for (i = -2; i < iters; i++) { /* negative rounds warm up */
		const double start_s = MPI_Wtime();

		MPI_Allreduce(send, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (i >= 0)
			took_s[i] = MPI_Wtime() - start_s;
	}
	ret = check(sum, count, ranks);
	qsort(took_s, iters, sizeof(*took_s), by_value);
	if (!rank && !ret)
		printf("{\"bytes\":%zu,\"ranks\":%d,\"time_us\":%.1f}\n", bytes, ranks,
		       took_s[iters / 2] * 1e6);
out:
	free(send);
	free(sum);
	free(took_s);
	return ret;
}

int main(int argc, char **argv)
{
	int ret = 0, i;

	for (i = 1; i < argc && atol(argv[i]) >= (long)sizeof(float); i++)
		;
	if (argc < 2 || i < argc) {
		fprintf(stderr, "usage: mpi_allreduce BYTES... (under mpirun)\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	for (i = 1; i < argc && !ret; i++)
		ret = run(atol(argv[i]));
	if (ret)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return 0;
}
