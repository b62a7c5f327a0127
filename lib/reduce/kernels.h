/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The loops behind operate.h and floats.h, with a table of them for each instruction set. All sets
 * have the same C (kernels_int.h, kernels_float.h, kernels_native.h). The build (lib/Makefile)
 * compiles this C once for each set and type, by INC_SET and INC_TYPE (part_int.c, part_float.c,
 * set.c). operate.c chooses a set, and tests run all of them.
 */
#ifndef INC_REDUCE_KERNELS_H
#define INC_REDUCE_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"
#include "lib/reduce/floats.h"
#include "lib/reduce/many.h"

/* A function that folds sources into one vector: dst[i] = src[0][i] op src[1][i] op ..., in this
 * order. n: the number of sources, which is 2, 4 or INC_FOLD_MOST. Each of these has a loop of its
 * own. */
#define INC_FOLD_MOST 8
typedef void (*inc_fold)(void *dst, const void *const *src, unsigned int n, size_t count);

/*
 * Which ends of a fold are parts: src[0], dst, or both. More sources than INC_FOLD_MOST need
 * several folds, of blocks that stay in the first-level cache. Between two folds of halves the
 * result is called a part. It has float32s, not yet rounded to halves, in an internal order of the
 * loop.
 */
enum inc_fold_ends {
	INC_FOLD_FROM_PART = 1,
	INC_FOLD_TO_PART = 2,
	INC_FOLD_N_ENDS = 4,
};
/* A fold of halves processes a multiple of INC_FOLD_STEP elements. */
#define INC_FOLD_STEP 8

/* A magnitude is an element's bits without the sign. Magnitudes have the order of the numbers,
 * with infinity and then NaN above all. */
struct inc_float_kernels {
	void (*to_order)(void *keys, const void *values, size_t count, int64_t nan_key);
	void (*from_order)(void *values, const void *keys, size_t count);
	/* Returns the largest finite magnitude. *special becomes whether any value is not
	 * finite. */
	uint64_t (*scan)(const void *values, size_t count, bool *special);
	/* Sets fixed[i] = values[i] * 2^shift, if that fits. Returns the largest magnitude of all
	 * values. */
	uint64_t (*put)(void *fixed, const void *values, size_t count, int32_t shift);
	/* Sets values[i] = sums[i] * 2^exponent. */
	void (*get)(void *values, const void *sums, size_t count, int32_t exponent);
	/* Sets values[i] = sums[i] * 2^exponent / divisor. */
	void (*get_mean)(void *values, const void *sums, size_t count, int32_t exponent,
			 uint32_t divisor);
	void (*divide)(void *dst, const void *src, size_t count, uint32_t divisor);
	inc_fold sum[INC_FOLD_N_ENDS], prod[INC_FOLD_N_ENDS];
};

/* The loops of the types with an index (operate.h). largest: for MAXLOC. */
struct inc_index_kernels {
	void (*to_keys)(void *keys, const void *elements, size_t count, bool largest);
	void (*from_keys)(void *elements, const void *keys, size_t count, bool largest);
};

struct inc_int_kernels {
	inc_fold reduce[INC_N_OPERATORS];
	void (*divide)(void *dst, const void *src, size_t count, uint32_t divisor);
};

struct inc_kernels {
	const char *name;
	bool (*usable)(void); /* returns whether this CPU can run the set */
	const struct inc_int_kernels *ints[INC_N_DTYPES];
	/* Functions that reverse the bytes of each element. The index in the array is the logarithm
	 * of the element's size. */
	void (*swap[4])(void *dst, const void *src, size_t count);
	/* Functions that set an element to 1 if it is not 0, with the same index. */
	void (*truth[4])(void *dst, const void *src, size_t count);
	const struct inc_float_kernels *floats[INC_N_FLOATS];
	struct inc_index_kernels index[INC_N_INDEX_TYPES];
	/* MIN and MAX of elements that are two int64_t each. count: of int64_t */
	inc_fold pairs[2];
};

/* The instruction sets: generic runs on any CPU of this architecture, the others on x86 CPUs
 * with these instructions. On other architectures only generic is compiled. */
#define INC_REDUCE_SET(set) extern const struct inc_kernels inc_kernels_##set;
INC_REDUCE_SET(generic)
INC_REDUCE_SET(avx2)
INC_REDUCE_SET(avx512)
#undef INC_REDUCE_SET

/* All sets that were compiled, the fastest first, ended by a NULL. The last one runs on every
 * CPU. */
extern const struct inc_kernels *const inc_kernel_sets[];

/* Returns the first set that this CPU can run. */
const struct inc_kernels *inc_kernels(void);

/* Returns the integer key of a NaN, which wins under op (MIN or MAX). */
int64_t inc_float_nan_key(enum inc_float type, enum inc_operator op);

/* Does what inc_reduce_many() (many.h) does, with this set. */
int inc_reduce_many_by(const struct inc_kernels *k, const struct inc_reduction *r, void *dst,
		       const void *const *src, unsigned int n, size_t count);

#endif
