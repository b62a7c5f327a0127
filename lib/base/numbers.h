/* SPDX-License-Identifier: BSD-2-Clause */
/* Small functions of numbers: the smaller and the larger of two, powers of two for the sizes of
 * rings and windows, and the most frequent of several. */
#ifndef INC_NUMBERS_H
#define INC_NUMBERS_H

#include <stdint.h>

/* The smaller of two numbers. */
static inline unsigned int inc_min(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* The smaller of two numbers that may have more than 32 bits, of which inc_min() would lose some.
 */
static inline uint64_t inc_min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The larger of two numbers. */
static inline unsigned int inc_max(unsigned int a, unsigned int b)
{
	return a > b ? a : b;
}

/* The smallest power of two that is at least n. n: 1 to 2^31 */
static inline uint32_t inc_pow2_up(uint32_t n)
{
	return n > 1 ? 1u << (32 - __builtin_clz(n - 1)) : 1;
}

/* The largest power of two that is at most n. n: 1 to 2^31 */
static inline uint32_t inc_pow2_down(uint32_t n)
{
	return 1u << (31 - __builtin_clz(n));
}

/* The place of the first among those numbers that occur most often. The numbers are kinds of
 * events. A list that is full drops the event at this place, so that no kind displaces another. */
static inline unsigned int inc_most_frequent(const uint8_t *numbers, unsigned int n)
{
	unsigned int count[UINT8_MAX + 1] = {}, first = 0, i;

	for (i = 0; i < n; i++)
		count[numbers[i]]++;
	for (i = 0; i < n; i++)
		if (count[numbers[i]] > count[numbers[first]])
			first = i;
	return first;
}

#endif
