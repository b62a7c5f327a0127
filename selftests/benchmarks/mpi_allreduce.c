/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: MPI_Allreduce (SUM of
 * float32) on the same hosts and links. competitors.py and mpi.py start this program on every host.
 * Rank 0 prints one JSON object per size with the median time of a call, the mean time, which is
 * what inccl-perf measures, and the CPU time of all ranks per call.
 *
 * WARMUP calls of each size are not timed. ITERATIONS is a number of calls or, as in "0.5s", a
 * number of seconds. With seconds, the ranks agree on a number of calls while they measure, so a
 * job of several sizes needs a single start.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <mpi.h>

/* bounds of the number of calls that fill a number of seconds */
#define FEWEST 5
#define MOST   100000
/* The ranks agree again after so many times as many calls, because the first may be unusual. */
#define AGREE_AGAIN 4

struct iterations {
	int number;     /* of calls; the largest number, if seconds are given */
	double seconds; /* 0: a number of calls is given */
};

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

/* Returns the number of calls that take so many seconds on the slowest rank, the same on all ranks.
 * sum_s: time of the calls that are done. The library that is measured does not replace functions
 * of MPI with the prefix P, so this agreement takes no part in its choice. */
static int agree(double seconds, double sum_s, int done)
{
	double slowest_s;

	PMPI_Allreduce(&sum_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (slowest_s >= seconds)
		return done;
	return slowest_s * MOST <= seconds * done ? MOST : seconds * done / slowest_s;
}

/* Calls MPI_Allreduce until enough calls are timed. Returns their number. */
static int measure(const float *send, float *sum, size_t count, int warmup,
		   const struct iterations *iterations, double *took_s, double *used_s)
{
	int number = iterations->number, agree_at = FEWEST, i;
	double sum_s = 0;

	for (i = -warmup; i < number; i++) {
		double start_s;

		if (!i)
			*used_s = cpu_s();
		start_s = MPI_Wtime();
		MPI_Allreduce(send, sum, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		if (i < 0)
			continue;
		took_s[i] = MPI_Wtime() - start_s;
		sum_s += took_s[i];
		if (!iterations->seconds || i + 1 != agree_at)
			continue;
		number = agree(iterations->seconds, sum_s, agree_at);
		agree_at *= AGREE_AGAIN;
	}
	*used_s = cpu_s() - *used_s;
	return number;
}

static void print(size_t bytes, int ranks, double *took_s, int number, double hosts_cpu_s)
{
	double sum_s = 0;
	int i;

	for (i = 0; i < number; i++)
		sum_s += took_s[i];
	qsort(took_s, number, sizeof(*took_s), by_value);
	printf("{\"bytes\":%zu,\"ranks\":%d,\"iterations\":%d,\"time_us\":%.1f,\"mean_us\":%.1f,"
	       "\"hosts_cpu_us\":%.1f}\n",
	       bytes, ranks, number, took_s[number / 2] * 1e6, sum_s * 1e6 / number,
	       hosts_cpu_s * 1e6 / number);
	fflush(stdout);
}

static int run(size_t bytes, int warmup, const struct iterations *iterations)
{
	const size_t count = bytes / sizeof(float);
	float *send = malloc(bytes), *sum = malloc(bytes);
	double *took_s = calloc(iterations->number, sizeof(*took_s));
	double mine_s = 0, all_s = 0;
	int rank, ranks, number, ret = -1;
	size_t k;

	if (!send || !sum || !took_s)
		goto out;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (k = 0; k < count; k++)
		send[k] = rank + 1;
	number = measure(send, sum, count, warmup, iterations, took_s, &mine_s);
	PMPI_Reduce(&mine_s, &all_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	ret = check(sum, count, ranks);
	if (!rank && !ret)
		print(bytes, ranks, took_s, number, all_s);
out:
	free(send);
	free(sum);
	free(took_s);
	return ret;
}

/* Reads a number of calls, or of seconds with an "s" behind it. */
static int read_iterations(const char *text, struct iterations *iterations)
{
	char *end;
	const double value = strtod(text, &end);

	if (!strcmp(end, "s") && value > 0) {
		*iterations = (struct iterations){.number = MOST, .seconds = value};
		return 0;
	}
	*iterations = (struct iterations){.number = atoi(text)};
	return iterations->number < 1 ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct iterations iterations;
	int ret = 0, i;

	if (argc < 4 || atoi(argv[1]) < 0 || read_iterations(argv[2], &iterations)) {
		fprintf(stderr, "usage: mpi_allreduce WARMUP ITERATIONS|SECONDSs BYTES... (under "
				"mpirun)\n");
		return 2;
	}
	MPI_Init(&argc, &argv);
	for (i = 3; i < argc && !ret; i++)
		ret = run(atol(argv[i]), atoi(argv[1]), &iterations);
	if (ret)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return 0;
}
