/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 by 256-bit carry-less multiplications (crc_fold.h). */
#include "lib/roce/crc.h"

#ifdef __x86_64__
#define INC_TARGET __attribute__((target("avx2,pclmul,vpclmulqdq")))
#define VEC        32
#include "lib/roce/crc_x86.h"

typedef __m256i vec;

INC_INLINE vec load(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)p);
}

INC_INLINE void store(uint8_t *p, vec v)
{
	_mm256_storeu_si256((__m256i *)p, v);
}

INC_INLINE vec add(vec a, vec b)
{
	return _mm256_xor_si256(a, b);
}

INC_INLINE vec fold(vec v, unsigned int bytes)
{
	const vec k = _mm256_broadcastsi128_si256(key_of(bytes));

	return add(_mm256_clmulepi64_epi128(v, k, 0x00), _mm256_clmulepi64_epi128(v, k, 0x11));
}

INC_INLINE vec of_state(uint32_t state)
{
	return _mm256_set_epi32(0, 0, 0, 0, 0, 0, 0, (int)state);
}

INC_INLINE part to_part(vec v)
{
	return part_add(part_fold(_mm256_castsi256_si128(v)), _mm256_extracti128_si256(v, 1));
}

#include "lib/roce/crc_loop.h"

static bool usable(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

const struct inc_crc_kernels inc_crc_clmul256 = {usable, update, copy};
#endif
