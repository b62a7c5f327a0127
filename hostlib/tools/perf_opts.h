/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of inccl-perf. */
#ifndef INCCL_TOOLS_PERF_OPTS_H
#define INCCL_TOOLS_PERF_OPTS_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/tools/job.h"

#define PERF_MAX_SIZES 256

struct perf_opts {
	struct job job;
	enum inccl_collective collective;
	enum inccl_op op;
	enum inccl_dtype dtype;
	unsigned int root;
	uint64_t min, max; /* bytes */
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

/* Reads the command line; -1: go on, else the exit code. */
int perf_parse(struct perf_opts *opts, int argc, char **argv);

#endif
