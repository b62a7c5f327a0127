/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that the sets of x86 share (crc_fold.h). */
#ifndef INC_CRC_X86_H
#define INC_CRC_X86_H

#include <immintrin.h>
#include <stdint.h>
#include "lib/roce/crc_fold.h"

INC_INLINE __m128i key_of(unsigned int bytes)
{
	switch (bytes) {
#define _(bytes, first, second) \
	case bytes:             \
		return _mm_set_epi64x(second, first);
		INC_CRC_KEYS(_)
#undef _
	}
	__builtin_unreachable();
}

typedef __m128i part;

INC_INLINE part part_of(uint64_t first, uint64_t second)
{
	return _mm_set_epi64x((long long)second, (long long)first);
}

INC_INLINE part part_load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)p);
}

INC_INLINE void part_store(uint8_t *p, part x)
{
	_mm_storeu_si128((__m128i *)p, x);
}

INC_INLINE part part_add(part a, part b)
{
	return _mm_xor_si128(a, b);
}

INC_INLINE part part_fold(part x)
{
	const part k = key_of(16);

	return part_add(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11));
}

INC_INLINE part part_pick(part x, const uint8_t *indices)
{
	return _mm_shuffle_epi8(x, part_load(indices));
}

/* Returns the CRC state of a part. Multiplications reduce its 128 bits to 96 and then 64 bits.
 * Barrett's method finds their remainder, because it multiplies by the inverse of P in place of a
 * division. */
INC_INLINE uint32_t part_end(part x)
{
	const part low = _mm_set_epi32(0, 0, 0, -1);
	const part p = _mm_set_epi64x(INC_CRC_INVERSE, INC_CRC_P);
	part t;

	x = part_add(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, key_of(16), 0x10));
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), _mm_set_epi64x(0, INC_CRC_KEY_64), 0x00);
	x = part_add(_mm_srli_si128(x, 4), t);
	t = _mm_clmulepi64_si128(_mm_and_si128(x, low), p, 0x10);
	t = _mm_clmulepi64_si128(_mm_and_si128(t, low), p, 0x00);
	return (uint32_t)_mm_extract_epi32(part_add(x, t), 1);
}

#endif
