/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The instruction set for which a source of the loops is compiled. lib/Makefile defines INC_SET as
 * the set's name, and another macro that ends with that name. INC_TARGET lets the compiler use the
 * set's instructions in one function.
 */
#ifndef INC_REDUCE_KERNELS_TARGET_H
#define INC_REDUCE_KERNELS_TARGET_H

#include <stdbool.h>

/* Macros that append the name of the set to a name, and make a string of the name of the set. */
#define INC_OF_SET(name)        INC_OF_SET_(name, INC_SET)
#define INC_OF_SET_(name, set)  INC_OF_SET__(name, set)
#define INC_OF_SET__(name, set) inc_##name##_##set
#define INC_SET_NAME            INC_SET_NAME_(INC_SET)
#define INC_SET_NAME_(set)      INC_SET_NAME__(set)
#define INC_SET_NAME__(set)     #set

#ifdef INC_SET_generic
#define INC_TARGET
#define INC_USABLE true
#else
/* The instruction sets other than generic are for x86 CPUs with AVX2 and F16C, or with AVX-512 F,
 * BW, CD, DQ, VL and F16C. */
#include <cpuid.h>
#define INC_F16C
#ifdef INC_SET_avx2
#define INC_TARGET __attribute__((target("avx2,f16c")))
#define INC_USABLE (__builtin_cpu_supports("avx2") && has_f16c())
#else
/* the preference for vectors of 512 bits; clang has no attribute of functions for it */
#ifdef __clang__
#define INC_PREFERENCE ""
#else
#define INC_PREFERENCE ",prefer-vector-width=512"
#endif
#define INC_TARGET \
	__attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,f16c" INC_PREFERENCE)))
#define INC_USABLE                                                                   \
	(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&  \
	 __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && \
	 __builtin_cpu_supports("avx512vl") && has_f16c())
#endif

/* clang's __builtin_cpu_supports() does not know F16C. */
static inline bool has_f16c(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static inline bool usable(void)
{
	return INC_USABLE;
}

#endif
