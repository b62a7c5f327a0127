// SPDX-License-Identifier: BSD-2-Clause
/* Counts calls, bytes and seconds by path and size, for the table of INCCL_MPI_REPORT. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "hostlib/mpi/front.h"

const char *const front_kind_names[FRONT_KINDS] = {
	"Allreduce", "Reduce",     "Bcast", "Barrier", "Reduce_scatter", "Reduce_scatter_block",
	"Allgather", "Allgatherv",
};

static const char *const path_names[FRONT_PATHS] = {"switch", "MPI"};

struct figures {
	uint64_t calls, bytes;
	double took_s;
};

static struct figures figures[FRONT_KINDS][FRONT_PATHS][FRONT_CLASSES];
/* protects figures, because several threads may call MPI */
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

void front_report(void)
{
	const char *wanted = getenv("INCCL_MPI_REPORT");
	int rank;

	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank || !wanted || wanted[0] != '1')
		return;
	fprintf(stderr, "inccl: calls of rank 0\n%-20s %-7s %14s %10s %14s %12s\n", "call", "path",
		"bytes below", "calls", "bytes", "seconds");
	for (int kind = 0; kind < FRONT_KINDS; kind++)
		for (int size = 0; size < FRONT_CLASSES; size++)
			for (int path = 0; path < FRONT_PATHS; path++) {
				const struct figures *f = &figures[kind][path][size];

				if (f->calls)
					fprintf(stderr, "%-20s %-7s %14llu %10llu %14llu %12.6f\n",
						front_kind_names[kind], path_names[path],
						1ull << size, (unsigned long long)f->calls,
						(unsigned long long)f->bytes, f->took_s);
			}
}
