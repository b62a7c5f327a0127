/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops for x86 CPUs with AVX2. */
#if defined(__x86_64__) || defined(__i386__)
#define INC_TARGET __attribute__((target("avx2")))
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_int.h"

static bool usable(void)
{
	return __builtin_cpu_supports("avx2");
}

const struct inc_kernels inc_kernels_avx2 = {
	.name = "avx2", .usable = usable, INC_DTYPES(INC_REDUCE_ROW) INC_FLOATS(INC_FLOAT_ROW)};
#endif
