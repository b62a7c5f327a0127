/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets the CPU's arithmetic to the defaults of IEEE 754, independent of the calling thread: round
 * to nearest, keep denormals, no traps. It does nothing on architectures other than x86 and arm64.
 */
#ifndef INC_FP_MODE_H
#define INC_FP_MODE_H

#if defined(__SSE__)
#include <xmmintrin.h>
#define INC_FP_DEFAULT 0x1f80u

typedef unsigned int inc_fp_mode;

static inline inc_fp_mode inc_fp_get(void)
{
	return _mm_getcsr();
}

static inline void inc_fp_set(inc_fp_mode mode)
{
	_mm_setcsr(mode);
}
#elif defined(__aarch64__)
#define INC_FP_DEFAULT 0u

typedef unsigned long inc_fp_mode;

static inline inc_fp_mode inc_fp_get(void)
{
	inc_fp_mode mode;

	__asm__ volatile("mrs %0, fpcr" : "=r"(mode));
	return mode;
}

static inline void inc_fp_set(inc_fp_mode mode)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(mode));
}
#else
#define INC_FP_DEFAULT 0

typedef int inc_fp_mode;

static inline inc_fp_mode inc_fp_get(void)
{
	return INC_FP_DEFAULT;
}

static inline void inc_fp_set(inc_fp_mode mode)
{
}
#endif

#endif
