/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops for x86 CPUs with AVX-512: F, BW, CD, DQ and VL, and F16C. */
#if defined(__x86_64__) || defined(__i386__)
#define INC_TARGET             \
	__attribute__((target( \
		"avx512f,avx512bw,avx512cd,avx512dq,avx512vl,f16c,prefer-vector-width=512")))
#define INC_F16C
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_native.h"

static bool usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
	       __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && has_f16c();
}

const struct inc_kernels inc_kernels_avx512 = {.name = "avx512",
					       .usable = usable,
					       INC_SWAP_ROW INC_DTYPES(INC_REDUCE_ROW)
						       INC_FLOATS(INC_FLOAT_ROW)};
#endif
