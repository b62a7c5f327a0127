/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 states (wire.h). isa-l takes 16 bytes a multiplication, or 64 where there is AVX-512. CPUs
 * between the two can take 32, which it does not know: long runs are folded to 16 bytes here, whose
 * CRC is that of all before them, and isa-l does these and the rest.
 */
#include <string.h>
#include <isa-l/crc.h>
#include "lib/roce/wire.h"

static uint32_t update(uint32_t state, const void *data, size_t len)
{
	/* isa-l inverts on the way in and out, as zlib does */
	return ~crc32_gzip_refl(~state, data, len);
}

#ifdef __x86_64__
#include <immintrin.h>

#define FOLDED  128 /* bytes a round */
#define FOLDING __attribute__((target("avx2,vpclmulqdq,pclmul")))

/* What 16 bytes are multiplied by to stand n bits further on: reflected, x^(n + 32) for their first
 * half and x^(n - 32) for the other, modulo the polynomial. */
static const uint64_t by_1024[2] = {0x1e88ef372, 0x14a7fe880};
static const uint64_t by_512[2] = {0x154442bd4, 0x1c6e41596};
static const uint64_t by_256[2] = {0x0f1da05aa, 0x15a546366};
static const uint64_t by_128[2] = {0x1751997d0, 0x0ccaa009e};

FOLDING static __m256i pair_of(const uint64_t by[2])
{
	return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)by));
}

FOLDING static __m256i load(const uint8_t *at)
{
	return _mm256_loadu_si256((const __m256i *)at);
}

/* v moved onto what lies so much further on. */
FOLDING static __m256i fold(__m256i v, __m256i by, __m256i onto)
{
	__m256i low = _mm256_clmulepi64_epi128(v, by, 0x00);
	__m256i high = _mm256_clmulepi64_epi128(v, by, 0x11);

	return _mm256_xor_si256(_mm256_xor_si256(low, high), onto);
}

/* len: FOLDED or more. */
FOLDING static uint32_t update_folding(uint32_t state, const uint8_t *at, size_t len)
{
	__m256i by = pair_of(by_1024), a = load(at), b = load(at + 32), c = load(at + 64),
		d = load(at + 96);
	__m128i first, last, by_16;
	uint8_t rest[16 + FOLDED];

	a = _mm256_xor_si256(a, _mm256_zextsi128_si256(_mm_cvtsi32_si128(state)));
	for (at += FOLDED, len -= FOLDED; len >= FOLDED; at += FOLDED, len -= FOLDED) {
		a = fold(a, by, load(at));
		b = fold(b, by, load(at + 32));
		c = fold(c, by, load(at + 64));
		d = fold(d, by, load(at + 96));
	}
	by = pair_of(by_512);
	c = fold(a, by, c);
	d = fold(b, by, d);
	d = fold(c, pair_of(by_256), d);
	first = _mm256_castsi256_si128(d);
	last = _mm256_extracti128_si256(d, 1);
	by_16 = _mm_loadu_si128((const __m128i *)by_128);
	last = _mm_xor_si128(last, _mm_clmulepi64_si128(first, by_16, 0x00));
	last = _mm_xor_si128(last, _mm_clmulepi64_si128(first, by_16, 0x11));
	_mm_storeu_si128((__m128i *)rest, last);
	memcpy(rest + 16, at, len);
	return update(0, rest, 16 + len);
}

static bool can_fold(void)
{
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx2") &&
	       !__builtin_cpu_supports("avx512f");
}
#else
#define FOLDED 128

static uint32_t update_folding(uint32_t state, const uint8_t *at, size_t len)
{
	return update(state, at, len);
}

static bool can_fold(void)
{
	return false;
}
#endif

uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len)
{
	/* what is shorter than two rounds gains nothing */
	return len >= 2 * FOLDED && can_fold() ? update_folding(state, data, len)
					       : update(state, data, len);
}
