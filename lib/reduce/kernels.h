/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops behind operate.h and floats.h, a table for each instruction set. They are the same C
 * (kernels_int.h, kernels_float.h, kernels_native.h). lib/room.mk compiles them once for each set
 * and type, by INC_SET and INC_TYPE (part_int.c, part_float.c, set.c). operate.c chooses a set, and
 * tests run all of them.
 */
#ifndef INC_REDUCE_KERNELS_H
#define INC_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"
#include "lib/reduce/many.h"

/* dst[i] = src[0][i] op src[1][i] op ..., in this order. n: 2, 4 or INC_FOLD_MOST, a loop for
 * each. */
#define INC_FOLD_MOST 8
typedef void (*inc_fold)(void *dst, const void *const *src, unsigned int n, size_t count);

/*
 * More sources take several folds, of blocks that stay in the first-level cache. What is between
 * two folds of halves is float32s, in an order of the loop's own: as long as it is, it has not been
 * rounded to a half. Which ends of a fold are such a part: src[0], dst, or both.
 */
enum inc_fold_ends {
	INC_FOLD_FROM_PART = 1,
	INC_FOLD_TO_PART = 2,
	INC_FOLD_N_ENDS = 4,
};
/* Folds of halves take a multiple of so many elements. */
#define INC_FOLD_STEP 8

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
	inc_fold sum[INC_FOLD_N_ENDS], prod[INC_FOLD_N_ENDS];
};

struct inc_int_kernels {
	inc_fold reduce[INC_N_OPERATORS];
	void (*divide)(void *dst, const void *src, size_t count, uint32_t divisor);
};

struct inc_kernels {
	const char *name;
	bool (*usable)(void); /* Does this CPU run it? */
	const struct inc_int_kernels *ints[INC_N_DTYPES];
	/* The bytes of each element the other way round; by the logarithm of its size. */
	void (*swap[4])(void *dst, const void *src, size_t count);
	const struct inc_float_kernels *floats[INC_N_FLOATS];
};

/* The sets: generic runs on any CPU of this architecture, the others on x86 CPUs that have their
 * instructions. Elsewhere they are not compiled. */
#define INC_REDUCE_SET(set) extern const struct inc_kernels inc_kernels_##set;
INC_REDUCE_SET(generic)
INC_REDUCE_SET(avx2)
INC_REDUCE_SET(avx512)
#undef INC_REDUCE_SET

/* All that were compiled, the best first; the last one is usable everywhere. NULL ends them. */
extern const struct inc_kernels *const inc_kernel_sets[];

/* The first usable one. */
const struct inc_kernels *inc_kernels(void);

/* The integer that wins under MIN or MAX. */
int32_t inc_float_nan_key(enum inc_float type, enum inc_operator op);

/* inc_reduce_many() (many.h) by this set. */
int inc_reduce_many_by(const struct inc_kernels *k, const struct inc_reduction *r, void *dst,
		       const void *const *src, unsigned int n, size_t count);

#endif
