/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Halves as the float32s that they are, two at a time: a pair is 32 bits, so that no vector has to
 * be taken apart or put together, and what is done to the upper half is done to the lower one
 * shifted up. Without a branch, for loops that become vectors; unlike float_bits.h this is the
 * CPU's arithmetic, and wants it to round to nearest and to keep denormals.
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

/* The bits of a result: of all that are NaN the same, whatever the CPU makes of two of them. */
INC_ELEMENT uint32_t inc_native_bits(float x)
{
	return x != x ? inc_float_formats[INC_FLOAT32].nan : inc_float_as_bits(x);
}

/* One or the other by a mask: of a choice the compiler makes a branch, and a loop with that
 * does not become vectors. */
INC_ELEMENT uint32_t inc_choose(int chosen, uint32_t one, uint32_t other)
{
	uint32_t mask = 0 - (uint32_t)chosen;

	return (one & mask) | (other & ~mask);
}

/* The upper half of a pair. */
INC_ELEMENT float inc_open_bfloat16(uint32_t pair)
{
	return inc_bits_as_float(pair & 0xffff0000);
}

/* x rounded to nearest, ties to even: the upper half has it, the lower one is worthless. */
INC_ELEMENT uint32_t inc_close_bfloat16(float x)
{
	uint32_t bits = inc_float_as_bits(x);
	uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);

	return x != x ? inc_float_formats[INC_FLOAT32].nan : rounded;
}

/* What exponent fields of float16 lack to be float32's. */
#define INC_FLOAT16_REBIAS (112 << 23)

INC_ELEMENT float inc_open_float16(uint32_t pair)
{
	int32_t magnitude = (int32_t)(pair & 0x7fff0000);
	uint32_t moved = (uint32_t)(magnitude >> 3) + INC_FLOAT16_REBIAS;
	/* a denormal's bits, under those of 2^-14: what they add to it is what it is */
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
	/* beside 0.5 a float32's last bit is a denormal's */
	float small = inc_bits_as_float((uint32_t)magnitude) + 0.5f;

	half = inc_choose(magnitude < 0x38800000,
			  inc_float_as_bits(small) - inc_float_as_bits(0.5f), half);
	half = inc_choose(magnitude >= 0x47800000, 0x7c00, half);
	half |= inc_choose(magnitude > 0x7f800000, 0x0200, 0);
	return half << 16 | inc_choose(magnitude > 0x7f800000, 0, bits & 0x80000000);
}

#endif
