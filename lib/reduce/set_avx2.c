/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops for x86 CPUs with AVX2 and F16C. */
#if defined(__x86_64__) || defined(__i386__)
#define INC_TARGET __attribute__((target("avx2,f16c")))
#define INC_F16C
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_native.h"

static bool usable(void)
{
	return __builtin_cpu_supports("avx2") && has_f16c();
}

const struct inc_kernels inc_kernels_avx2 = {.name = "avx2",
					     .usable = usable,
					     INC_SWAP_ROW INC_DTYPES(INC_REDUCE_ROW)
						     INC_FLOATS(INC_FLOAT_ROW)};
#endif
