/* SPDX-License-Identifier: BSD-2-Clause */
/* Powers of two, for the sizes of rings and windows. n: 1 to 2^31. */
#ifndef INC_POW2_H
#define INC_POW2_H

#include <stdint.h>

/* The smallest power of two that is at least n. */
static inline uint32_t inc_pow2_up(uint32_t n)
{
	return n > 1 ? 1u << (32 - __builtin_clz(n - 1)) : 1;
}

/* The largest power of two that is at most n. */
static inline uint32_t inc_pow2_down(uint32_t n)
{
	return 1u << (31 - __builtin_clz(n));
}

#endif
