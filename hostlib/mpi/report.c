// SPDX-License-Identifier: BSD-2-Clause
/* Counts calls, bytes and seconds by path and size, the choices between the paths, and the calls
 * that MPI serves for a reason. INCCL_MPI_REPORT prints them as two tables. Any thread of the
 * program may be the caller. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "hostlib/mpi/front.h"

const char *const front_kind_names[FRONT_COUNTED_KINDS] = {
	"Allreduce", "Reduce",         "Bcast",
	"Barrier",   "Reduce_scatter", "Reduce_scatter_block",
	"Allgather", "Allgatherv",     "Iallreduce",
	"Ireduce",   "Ibcast",         "Ibarrier",
};

static const char *const path_names[FRONT_PATHS] = {"switch", "MPI"};

static const char *const reasons[FRONT_REASONS] = {
	[FRONT_NONBLOCKING] = "nonblocking",
	[FRONT_TYPE] = "a type that libinccl lacks",
	[FRONT_OPERATOR] = "an operator that libinccl lacks for the type",
	[FRONT_PRODUCT] = "PROD of floats, for which all switches must be in termination mode",
	[FRONT_NOTHING] = "no elements",
	[FRONT_LARGE] = "more than MPI counts by an int",
	[FRONT_BLOCKS] = "blocks of different sizes",
	[FRONT_UNEVEN] = "large blocks, and hosts have different numbers of ranks",
	[FRONT_ARGUMENTS] = "arguments that MPI may refuse",
	[FRONT_FIRST] = "the communicator is new",
	[FRONT_INTER] = "an intercommunicator",
	[FRONT_ONE_RANK] = "a communicator of one rank",
	[FRONT_FOREIGN] = "a communicator with ranks of another MPI_COMM_WORLD",
	[FRONT_ONE_HOST] = "all ranks of the communicator run on one host",
	[FRONT_NO_GROUP] = "the communicator could not use the switch",
	[FRONT_LOST] = "the communicator has lost the switch",
};

struct figures {
	uint64_t calls, bytes;
	double took_s;
	uint64_t chosen;  /* trials that have chosen this path */
	double typical_s; /* the median of the last trial, on its slowest rank */
};

static struct figures figures[FRONT_KINDS][FRONT_PATHS][FRONT_CLASSES];
static uint64_t reason_calls[FRONT_COUNTED_KINDS][FRONT_REASONS];
/* protects both, because several threads may call MPI */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

unsigned int front_class(size_t bytes)
{
	const unsigned int n = bytes ? 64 - __builtin_clzll(bytes) : 0;

	return n < FRONT_CLASSES ? n : FRONT_CLASSES - 1;
}

void front_count(enum front_kind kind, enum front_path path, size_t bytes, double took_s)
{
	struct figures *f = &figures[kind][path][front_class(bytes)];

	pthread_mutex_lock(&lock);
	f->calls++;
	f->bytes += bytes;
	f->took_s += took_s;
	pthread_mutex_unlock(&lock);
}

void front_count_reason(enum front_kind kind, enum front_reason reason)
{
	pthread_mutex_lock(&lock);
	reason_calls[kind][reason]++;
	pthread_mutex_unlock(&lock);
}

void front_count_choice(enum front_kind kind, unsigned int class, enum front_path path,
			const double typical_s[FRONT_PATHS])
{
	pthread_mutex_lock(&lock);
	figures[kind][path][class].chosen++;
	for (int p = 0; p < FRONT_PATHS; p++)
		figures[kind][p][class].typical_s = typical_s[p];
	pthread_mutex_unlock(&lock);
}

/* Prints a row of a class of sizes. Its last columns have what trials have found: "set" where
 * INCCL_MPI_CHOICE has chosen, and a dash where no trial has ended. */
static void print_row(int kind, int path, int size)
{
	const struct figures *f = &figures[kind][path][size];
	const uint64_t trials = f->chosen + figures[kind][!path][size].chosen;
	char typical[24] = "-", chosen[48] = "-";

	if (!f->calls)
		return;
	if (trials) {
		snprintf(typical, sizeof(typical), "%.1f", f->typical_s * 1e6);
		snprintf(chosen, sizeof(chosen), "%llu of %llu", (unsigned long long)f->chosen,
			 (unsigned long long)trials);
	} else if (front_fixed >= 0) {
		snprintf(chosen, sizeof(chosen), "set");
	}
	fprintf(stderr, "%-20s %-7s %14llu %10llu %14llu %12.6f %12s %10s\n",
		front_kind_names[kind], path_names[path], 1ull << size,
		(unsigned long long)f->calls, (unsigned long long)f->bytes, f->took_s, typical,
		chosen);
}

static void print_reasons(void)
{
	bool any = false;

	for (int kind = 0; kind < FRONT_COUNTED_KINDS; kind++)
		for (int reason = 0; reason < FRONT_REASONS; reason++) {
			if (!reason_calls[kind][reason])
				continue;
			if (!any)
				fprintf(stderr, "%-20s %10s  %s\n", "call", "by MPI", "because of");
			any = true;
			fprintf(stderr, "%-20s %10llu  %s\n", front_kind_names[kind],
				(unsigned long long)reason_calls[kind][reason], reasons[reason]);
		}
}

void front_report(void)
{
	const char *wanted = getenv("INCCL_MPI_REPORT");
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank || !wanted || wanted[0] != '1')
		return;
	fprintf(stderr, "inccl: calls of rank 0\n%-20s %-7s %14s %10s %14s %12s %12s %10s\n",
		"call", "path", "bytes below", "calls", "bytes", "seconds", "median us", "chosen");
	for (int kind = 0; kind < FRONT_KINDS; kind++)
		for (int size = 0; size < FRONT_CLASSES; size++)
			for (int path = 0; path < FRONT_PATHS; path++)
				print_row(kind, path, size);
	print_reasons();
}
