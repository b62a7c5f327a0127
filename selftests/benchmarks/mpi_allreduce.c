/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A competitor that the benchmark measures for comparison with the switch: MPI_Allreduce (SUM of
 * float32) on the same hosts and links. competitors.py and mpi.py start this program on every host.
 * Rank 0 prints one JSON object per size. It has the median time of a call, the mean time, the CPU
 * time of all ranks per call, and how many CPUs of its machine were idle. inccl-perf measures the
 * mean, too. All hosts of a lab are on this machine, so a figure without idle CPUs shows their
 * limit.
 *
 * WARMUP calls of each size are not timed. ITERATIONS is a number of calls or, as in "0.5s", a
 * number of seconds. With seconds, the ranks agree on a number of calls while they measure, so a
 * job of several sizes needs a single start.
 *
 * "loop CALLS" calls MPI_Allreduce of one float so often, in parts. Rank 0 prints the CPU time that
 * a call took in the fastest part, in which no other program has disturbed the process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <mpi.h>

/* bounds of the number of calls that fill a number of seconds */
#define FEWEST 5
#define MOST   100000
/* The ranks agree again after so many times as many calls, because the first may be unusual. */
#define AGREE_AGAIN 4
/* parts of a loop */
#define PARTS 100

/* The use of CPUs during measure(). */
struct use {
	double cpu_s;     /* CPU time of this rank */
	double idle_cpus; /* number of CPUs of the machine that were idle on average */
};

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

/* The time for which the CPUs of this machine have been idle, summed up; 0: it is not known. */
static double idle_s(void)
{
	FILE *f = fopen("/proc/stat", "re");
	unsigned long long idle_ticks = 0;

	if (f && fscanf(f, "cpu %*u %*u %*u %llu", &idle_ticks) != 1)
		idle_ticks = 0;
	if (f)
		fclose(f);
	return (double)idle_ticks / sysconf(_SC_CLK_TCK);
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
		   const struct iterations *iterations, double *took_s, struct use *use)
{
	int number = iterations->number, agree_at = FEWEST, i;
	double sum_s = 0, since_s = 0, idle_since_s = 0;

	for (i = -warmup; i < number; i++) {
		double start_s;

		if (!i) {
			use->cpu_s = cpu_s();
			since_s = MPI_Wtime();
			idle_since_s = idle_s();
		}
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
	use->cpu_s = cpu_s() - use->cpu_s;
	use->idle_cpus = (idle_s() - idle_since_s) / (MPI_Wtime() - since_s);
	return number;
}

/* use: with the CPU time of all ranks */
static void print(size_t bytes, int ranks, double *took_s, int number, const struct use *use)
{
	double sum_s = 0;
	int i;

	for (i = 0; i < number; i++)
		sum_s += took_s[i];
	qsort(took_s, number, sizeof(*took_s), by_value);
	printf("{\"bytes\":%zu,\"ranks\":%d,\"iterations\":%d,\"time_us\":%.1f,\"mean_us\":%.1f,"
	       "\"hosts_cpu_us\":%.1f,\"idle_cpus\":%.2f}\n",
	       bytes, ranks, number, took_s[number / 2] * 1e6, sum_s * 1e6 / number,
	       use->cpu_s * 1e6 / number, use->idle_cpus);
	fflush(stdout);
}

static int run(size_t bytes, int warmup, const struct iterations *iterations)
{
	const size_t count = bytes / sizeof(float);
	float *send = malloc(bytes), *sum = malloc(bytes);
	double *took_s = calloc(iterations->number, sizeof(*took_s));
	struct use use = {};
	double all_s = 0;
	int rank, ranks, number, ret = -1;
	size_t k;

	if (!send || !sum || !took_s)
		goto out;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (k = 0; k < count; k++)
		send[k] = rank + 1;
	number = measure(send, sum, count, warmup, iterations, took_s, &use);
	PMPI_Reduce(&use.cpu_s, &all_s, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
	use.cpu_s = all_s;
	ret = check(sum, count, ranks);
	if (!rank && !ret)
		print(bytes, ranks, took_s, number, &use);
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

static void loop(int calls)
{
	float one = 1, sum;
	double best_s = 0;
	int rank, part, i;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (part = 0; part < PARTS; part++) {
		double took_s = cpu_s();

		for (i = 0; i < calls / PARTS; i++)
			MPI_Allreduce(&one, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		took_s = cpu_s() - took_s;
		if (!part || took_s < best_s)
			best_s = took_s;
	}
	if (!rank)
		printf("{\"cpu_ns\":%.2f}\n", best_s * 1e9 / (calls / PARTS));
}

int main(int argc, char **argv)
{
	struct iterations iterations;
	int ret = 0, i;

	if (argc == 3 && !strcmp(argv[1], "loop") && atoi(argv[2]) >= PARTS) {
		MPI_Init(&argc, &argv);
		loop(atoi(argv[2]));
		MPI_Finalize();
		return 0;
	}
	if (argc < 4 || atoi(argv[1]) < 0 || read_iterations(argv[2], &iterations)) {
		fprintf(stderr, "usage: mpi_allreduce WARMUP ITERATIONS|SECONDSs BYTES... | loop "
				"CALLS (under mpirun)\n");
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
