/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: MPI_Allreduce (SUM of
 * float32) on the same hosts and links. competitors.py starts this program on every host.
 * Rank 0 prints one JSON object per size with the median time of a call, the mean time, which is
 * what inccl-perf measures, and the CPU time of all ranks per call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <mpi.h>

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

/* The CPU time that all threads of this process have used. */
static double cpu_s(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return used.tv_sec + used.tv_nsec / 1e9;
}

static int run(size_t bytes, int warmup, int iters)
{
	const size_t count = bytes / sizeof(float);
	float *send = malloc(bytes), *sum = malloc(bytes);
	double *took_s = calloc(iters, sizeof(*took_s));
	double mine_s = 0, all_s = 0, sum_s = 0;
	int rank, ranks, i, ret = -1;
	size_t k;

	if (!send || !sum || !took_s)
		goto out;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (k = 0; k < count; k++)
		send[k] = rank + 1;
	for (i = -warmup; i < iters; i++) {
		double start_s;

		if (!i)
			mine_s = cpu_s();
		start_s = MPI_Wtime();
		MPI_Allreduce(send, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (i < 0)
			continue;
		took_s[i] = MPI_Wtime() - start_s;
		sum_s += took_s[i];
	}
	mine_s = cpu_s() - mine_s;
	MPI_Reduce(&mine_s, &all_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	ret = check(sum, count, ranks);
	qsort(took_s, iters, sizeof(*took_s), by_value);
	if (!rank && !ret)
		printf("{\"bytes\":%zu,\"ranks\":%d,\"time_us\":%.1f,\"mean_us\":%.1f,"
		       "\"hosts_cpu_us\":%.1f}\n",
		       bytes, ranks, took_s[iters / 2] * 1e6, sum_s * 1e6 / iters,
		       all_s * 1e6 / iters);
out:
	free(send);
	free(sum);
	free(took_s);
	return ret;
}

int main(int argc, char **argv)
{
	int ret = 0, i;

	if (argc < 4 || atoi(argv[1]) < 0 || atoi(argv[2]) < 1) {
		fprintf(stderr, "usage: mpi_allreduce WARMUP ITERATIONS BYTES... (under mpirun)\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	for (i = 3; i < argc && !ret; i++)
		ret = run(atol(argv[i]), atoi(argv[1]), atoi(argv[2]));
	if (ret)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return 0;
}
