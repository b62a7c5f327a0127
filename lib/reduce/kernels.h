/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops behind operate.h and floats.h, a table for each instruction set. They are the same C
 * (kernels_int.h, kernels_float.h), compiled once for each; operate.c chooses, tests run all.
 */
#ifndef INC_REDUCE_KERNELS_H
#define INC_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"

/* Magnitudes are an element's bits without the sign: they have the order of the numbers, with
 * infinity and then NaN above all. */
struct inc_float_kernels {
	void (*to_order)(void *keys, const void *values, size_t count, int32_t nan_key);
	void (*from_order)(void *values, const void *keys, size_t count);
	/* The largest finite magnitude; *special: is there any other? */
	uint32_t (*scan)(const void *values, size_t count, bool *special);
	/* fixed[i] = values[i] * 2^shift, where that fits. Returns the largest magnitude of
	 * all. */
	uint32_t (*put)(void *fixed, const void *values, size_t count, int32_t shift);
	/* values[i] = sums[i] * 2^exponent */
	void (*get)(void *values, const void *sums, size_t count, int32_t exponent);
	/* The same, divided. */
	void (*get_mean)(void *values, const void *sums, size_t count, int32_t exponent,
			 uint32_t divisor);
	void (*divide)(void *dst, const void *src, size_t count, uint32_t divisor);
};

struct inc_kernels {
	const char *name;
	bool (*usable)(void); /* Does this CPU run it? */
	void (*reduce[INC_N_OPERATORS][INC_N_DTYPES])(void *dst, const void *a, const void *b,
						      size_t count);
	void (*divide[INC_N_DTYPES])(void *dst, const void *src, size_t count, uint32_t divisor);
	struct inc_float_kernels floats[INC_N_FLOATS];
};

extern const struct inc_kernels inc_kernels_generic; /* for any CPU of this architecture */
#if defined(__x86_64__) || defined(__i386__)
extern const struct inc_kernels inc_kernels_avx2, inc_kernels_avx512;
#endif

/* All that were compiled, the best first; the last one is usable everywhere. NULL ends them. */
extern const struct inc_kernels *const inc_kernel_sets[];

/* The first usable one. */
const struct inc_kernels *inc_kernels(void);

#endif
