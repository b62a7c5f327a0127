/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The data of inccl-perf --check: they depend on rank, position and iteration, so that a stale,
 * misplaced or doubled chunk cannot pass for a right one, and what becomes of them is worked out
 * on the spot, element by element. A guard behind the vectors catches overruns.
 */
#ifndef INCCL_TOOLS_PERF_DATA_H
#define INCCL_TOOLS_PERF_DATA_H

#include <stdint.h>
#include "hostlib/tools/perf_coll.h"

#define PERF_GUARD_BYTES 64

/* What this rank gives in an iteration, and what must not stay where the result belongs. */
void perf_fill(const struct perf_call *call, uint32_t iter);
/* How many elements of the result, or behind it, are wrong. */
uint64_t perf_verify(const struct perf_call *call, uint32_t iter);

#endif
