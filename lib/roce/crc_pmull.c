/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 by arm64's 128-bit carry-less multiplication (crc_fold.h). */
#include "lib/roce/crc.h"

#ifdef __aarch64__
#include <arm_neon.h>
#include <sys/auxv.h>
#define INC_TARGET __attribute__((target("+crypto")))
#define VEC        16
#include "lib/roce/crc_fold.h"

typedef uint64x2_t vec;

INC_INLINE vec load(const uint8_t *p)
{
	return vreinterpretq_u64_u8(vld1q_u8(p));
}

INC_INLINE void store(uint8_t *p, vec v)
{
	vst1q_u8(p, vreinterpretq_u8_u64(v));
}

INC_INLINE vec add(vec a, vec b)
{
	return veorq_u64(a, b);
}

INC_INLINE vec multiply(uint64_t a, uint64_t b)
{
	return vreinterpretq_u64_p128(vmull_p64(a, b));
}

INC_INLINE vec fold(vec v, unsigned int bytes)
{
	switch (bytes) {
#define _(bytes, first, second)                                   \
	case bytes:                                               \
		return add(multiply(vgetq_lane_u64(v, 0), first), \
			   multiply(vgetq_lane_u64(v, 1), second));
		INC_CRC_KEYS(_)
#undef _
	}
	__builtin_unreachable();
}

INC_INLINE vec of_state(uint32_t state)
{
	return vsetq_lane_u64(state, vdupq_n_u64(0), 0);
}

typedef vec part;

INC_INLINE part to_part(vec v)
{
	return v;
}

INC_INLINE part part_of(uint64_t first, uint64_t second)
{
	return vcombine_u64(vcreate_u64(first), vcreate_u64(second));
}

INC_INLINE part part_load(const uint8_t *p)
{
	return load(p);
}

INC_INLINE void part_store(uint8_t *p, part x)
{
	store(p, x);
}

INC_INLINE part part_add(part a, part b)
{
	return add(a, b);
}

INC_INLINE part part_fold(part x)
{
	return fold(x, 16);
}

INC_INLINE part part_pick(part x, const uint8_t *indices)
{
	return vreinterpretq_u64_u8(vqtbl1q_u8(vreinterpretq_u8_u64(x), vld1q_u8(indices)));
}

/* As that of crc_x86.h. */
INC_INLINE uint32_t part_end(part x)
{
	uint64_t rest, t;

	x = add(vextq_u64(x, vdupq_n_u64(0), 1), multiply(vgetq_lane_u64(x, 0), INC_CRC_KEY_96));
	rest = vgetq_lane_u64(x, 0) >> 32 | vgetq_lane_u64(x, 1) << 32;
	rest ^= vgetq_lane_u64(multiply((uint32_t)vgetq_lane_u64(x, 0), INC_CRC_KEY_64), 0);
	t = vgetq_lane_u64(multiply((uint32_t)rest, INC_CRC_INVERSE), 0);
	t = vgetq_lane_u64(multiply((uint32_t)t, INC_CRC_P), 0);
	return (rest ^ t) >> 32;
}

#include "lib/roce/crc_loop.h"

static bool usable(void)
{
	return getauxval(AT_HWCAP) & HWCAP_PMULL;
}

const struct inc_crc_kernels inc_crc_pmull = {usable, update, copy};
#endif
