/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 by 512-bit carry-less multiplications (crc_fold.h). */
#include "lib/roce/crc.h"

#ifdef __x86_64__
#define INC_TARGET __attribute__((target("avx512f,avx512vl,pclmul,vpclmulqdq")))
#define VEC        64
#include "lib/roce/crc_x86.h"

typedef __m512i vec;

INC_INLINE vec load(const uint8_t *p)
{
	return _mm512_loadu_si512(p);
}

INC_INLINE void store(uint8_t *p, vec v)
{
	_mm512_storeu_si512(p, v);
}

INC_INLINE vec add(vec a, vec b)
{
	return _mm512_xor_si512(a, b);
}

INC_INLINE vec fold(vec v, unsigned int bytes)
{
	const vec k = _mm512_broadcast_i32x4(key_of(bytes));

	return add(_mm512_clmulepi64_epi128(v, k, 0x00), _mm512_clmulepi64_epi128(v, k, 0x11));
}

INC_INLINE vec of_state(uint32_t state)
{
	return _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state));
}

INC_INLINE part to_part(vec v)
{
	part x = _mm512_extracti32x4_epi32(v, 0);

	x = part_add(part_fold(x), _mm512_extracti32x4_epi32(v, 1));
	x = part_add(part_fold(x), _mm512_extracti32x4_epi32(v, 2));
	return part_add(part_fold(x), _mm512_extracti32x4_epi32(v, 3));
}

#include "lib/roce/crc_loop.h"

static bool usable(void)
{
	return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("vpclmulqdq");
}

const struct inc_crc_kernels inc_crc_clmul512 = {usable, update, copy};
#endif
