/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Converts halves to float32 and back, two at a time. A pair is 32 bits, so that no vector has to
 * be split or joined. The functions work on the upper half of a pair. For the lower half the caller
 * shifts the pair up. The functions have no branch, so that loops become vectors. Unlike
 * float_bits.h, they use the CPU's arithmetic, which must round to nearest and keep denormals.
 */
#ifndef INC_HALF_BITS_H
#define INC_HALF_BITS_H

#include <stdint.h>
#include <string.h>
#include "lib/reduce/float_bits.h"

INC_ELEMENT float inc_bits_as_float(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

INC_ELEMENT uint32_t inc_float_as_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

/* Returns the bits of a computed float32. Every NaN gets the same bits, because CPUs differ in
 * which NaN they make of two. */
INC_ELEMENT uint32_t inc_native_bits(float x)
{
	return x != x ? inc_float_formats[INC_FLOAT32].nan : inc_float_as_bits(x);
}

/* Returns the bits of a computed float64 likewise. */
INC_ELEMENT uint64_t inc_native_bits64(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return x != x ? inc_wide_formats[INC_FLOAT64].nan : bits;
}

/* Returns `one` if chosen is 1, or `other` if it is 0. It uses a mask and no choice (?:), because
 * the compiler would make a branch of that, and a loop with a branch does not become vectors. */
INC_ELEMENT uint32_t inc_choose(int chosen, uint32_t one, uint32_t other)
{
	uint32_t mask = 0 - (uint32_t)chosen;

	return (one & mask) | (other & ~mask);
}

/* Converts the bfloat16 in the upper half of a pair to a float32. */
INC_ELEMENT float inc_open_bfloat16(uint32_t pair)
{
	return inc_bits_as_float(pair & 0xffff0000);
}

/* Rounds x to a bfloat16, to nearest, ties to even. The result is in the upper half, and the lower
 * half is undefined. */
INC_ELEMENT uint32_t inc_close_bfloat16(float x)
{
	uint32_t bits = inc_float_as_bits(x);
	uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);

	return x != x ? inc_float_formats[INC_FLOAT32].nan : rounded;
}

/* Difference between the exponent biases of float32 and float16, in float32's exponent field. */
#define INC_FLOAT16_REBIAS (112 << 23)

INC_ELEMENT float inc_open_float16(uint32_t pair)
{
	int32_t magnitude = (int32_t)(pair & 0x7fff0000);
	uint32_t moved = (uint32_t)(magnitude >> 3) + INC_FLOAT16_REBIAS;
	/* the denormal's bits are put below those of 2^-14, so the sum exceeds 2^-14 by the
	 * denormal's value */
	float small = inc_bits_as_float(moved + (1 << 23)) - 0x1p-14f;

	moved += inc_choose(magnitude >= 0x7c000000, INC_FLOAT16_REBIAS, 0);
	moved = inc_choose(magnitude < 0x04000000, inc_float_as_bits(small), moved);
	return inc_bits_as_float(moved | (pair & 0x80000000));
}

INC_ELEMENT uint32_t inc_close_float16(float x)
{
	uint32_t bits = inc_float_as_bits(x);
	int32_t magnitude = (int32_t)(bits & INT32_MAX);
	uint32_t odd = (uint32_t)magnitude >> 13 & 1;
	uint32_t half = ((uint32_t)magnitude + 0xfff + odd - INC_FLOAT16_REBIAS) >> 13;
	/* in a float32 near 0.5 the last bit has the value of the smallest denormal, so the sum is
	 * rounded to it */
	float small = inc_bits_as_float((uint32_t)magnitude) + 0.5f;

	half = inc_choose(magnitude < 0x38800000,
			  inc_float_as_bits(small) - inc_float_as_bits(0.5f), half);
	half = inc_choose(magnitude >= 0x47800000, 0x7c00, half);
	half |= inc_choose(magnitude > 0x7f800000, 0x0200, 0);
	return half << 16 | inc_choose(magnitude > 0x7f800000, 0, bits & 0x80000000);
}

#endif
