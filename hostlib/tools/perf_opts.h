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
/* most words in an option, which is more than there are types or operators */
#define PERF_MAX_WORDS    32
#define PERF_MAX_TOGETHER 1024

struct perf_opts {
	struct job job;
	enum inccl_collective collective;
	uint32_t ops, dtypes; /* sets of operators and of types: bit n stands for number n */
	unsigned int root;
	unsigned int float_block; /* number of elements that share an exponent in a sum of floats */
	uint64_t min, max;        /* smallest and largest size of the vector in bytes */
	unsigned int factor;
	uint64_t sizes[PERF_MAX_SIZES]; /* all sizes of the vector that are measured, in bytes */
	unsigned int nsizes;
	long iters, warmup;
	unsigned int pause_ms; /* pause before each iteration in ms; 0: none */
	/* Number of collectives that an iteration starts before it waits for the first of them. */
	unsigned int together;
	bool check, json, stats, in_place;
	unsigned int split; /* number of parts into which --split divides the ranks; 0: no split */
	/* This rank's part. After the split job.comm is the communicator of the part, and `whole`
	 * that of all ranks. */
	unsigned int color;
	struct inccl_communicator *whole;
};

/* Whether the set contains this number, as one of its bits. */
static inline bool perf_has(uint32_t set, unsigned int number)
{
	return set >> number & 1;
}

/* Whether more than one type, or more than one operator, is measured. */
static inline bool perf_several(const struct perf_opts *opts)
{
	return __builtin_popcount(opts->dtypes) > 1 || __builtin_popcount(opts->ops) > 1;
}

/* Reads the command line. Returns -1 if the program shall continue, else its exit code. */
int perf_parse(struct perf_opts *opts, int argc, char **argv);

#endif
