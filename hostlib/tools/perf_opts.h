/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of inccl-perf. */
#ifndef INCCL_TOOLS_PERF_OPTS_H
#define INCCL_TOOLS_PERF_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inccl.h"
#include "hostlib/tools/job.h"

#define PERF_MAX_SIZES       256
#define PERF_MAX_FLOAT_BLOCK (1 << 20)
#define PERF_MAX_WORDS       32 /* types and operators have numbers below this */

struct perf_opts {
	struct job job;
	enum inccl_collective collective;
	uint32_t ops, dtypes; /* sets, by number */
	unsigned int root;
	unsigned int float_block; /* elements of a sum of floats with one exponent */
	uint64_t min, max;        /* bytes */
	unsigned int factor;
	uint64_t sizes[PERF_MAX_SIZES]; /* bytes */
	unsigned int nsizes;
	long iters, warmup;
	bool check, json, stats, in_place;
	unsigned int split; /* parts that the ranks are split into; 0: they are not */
	/* With split, once it is done: job.comm is that of this rank's part. */
	unsigned int color;
	struct inccl_communicator *whole;
};

/* Is the number in the set? */
static inline bool perf_has(uint32_t set, unsigned int number)
{
	return set >> number & 1;
}

/* Of types or operators. */
static inline bool perf_several(const struct perf_opts *opts)
{
	return __builtin_popcount(opts->dtypes) > 1 || __builtin_popcount(opts->ops) > 1;
}

/* Reads the command line; -1: go on, else the exit code. */
int perf_parse(struct perf_opts *opts, int argc, char **argv);

#endif
