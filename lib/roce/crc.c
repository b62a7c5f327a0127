/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the instructions for CRC-32, once for this CPU. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <isa-l/crc.h>
#include "lib/roce/crc.h"

const char *const inc_crc_set_names[INC_N_CRC_SETS] = {
	[INC_CRC_ISAL] = "isa-l",
	[INC_CRC_PMULL] = "pmull",
	[INC_CRC_CLMUL256] = "clmul256",
	[INC_CRC_CLMUL512] = "clmul512",
};

static const struct inc_crc_kernels *const sets[INC_N_CRC_SETS] = {
#ifdef __x86_64__
	[INC_CRC_CLMUL256] = &inc_crc_clmul256,
	[INC_CRC_CLMUL512] = &inc_crc_clmul512,
#elif defined(__aarch64__)
	[INC_CRC_PMULL] = &inc_crc_pmull,
#endif
};

/* index of the set of CRC functions that this CPU uses; -1: not chosen yet. Threads that choose at
 * the same time choose the same set. */
static atomic_int chosen = -1;

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

/* isa-l leaves the upper halves of vector registers dirty. Until they are clean, each transition
 * between AVX code and SSE code, which all our code is, costs the CPU some 80 ns. */
__attribute__((target("avx"))) static void zero_uppers(void)
{
	_mm256_zeroupper();
}

static void clean_uppers(void)
{
	if (__builtin_cpu_supports("avx"))
		zero_uppers();
}
#else
static void clean_uppers(void)
{
}
#endif

static bool has(enum inc_crc_set set)
{
	return set == INC_CRC_ISAL || (sets[set] && sets[set]->usable());
}

enum inc_crc_set inc_crc_set(void)
{
	int set = atomic_load_explicit(&chosen, memory_order_relaxed);

	if (set >= 0)
		return set;
	for (set = INC_N_CRC_SETS - 1; !has(set); set--)
		;
	atomic_store_explicit(&chosen, set, memory_order_relaxed);
	return set;
}

int inc_crc_use(enum inc_crc_set set)
{
	if (!has(set))
		return -ENOTSUP;
	atomic_store_explicit(&chosen, set, memory_order_relaxed);
	return 0;
}

static uint32_t update_by_isal(uint32_t state, const uint8_t *data, size_t len)
{
	/* isa-l, like zlib, inverts the state before and after, so invert it here once more */
	state = ~crc32_gzip_refl(~state, data, len);
	clean_uppers();
	return state;
}

uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len)
{
	const struct inc_crc_kernels *kernels = sets[inc_crc_set()];

	if (len < INC_CRC_LEAST || !kernels)
		return update_by_isal(state, data, len);
	return kernels->update(state, data, len);
}

uint32_t inc_crc32_copy(uint32_t state, void *to, const void *data, size_t len)
{
	const struct inc_crc_kernels *kernels = sets[inc_crc_set()];

	if (len >= INC_CRC_COPY_LEAST && kernels)
		return kernels->copy(state, to, data, len);
	if (len)
		memcpy(to, data, len);
	return inc_crc32_update(state, data, len);
}
