/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of one instruction set, INC_SET (lib/Makefile compiles this once for each). */
#include <string.h>
#include "lib/reduce/kernels.h"
#include "lib/reduce/kernels_float.h"
#include "lib/reduce/kernels_int.h"
#include "lib/reduce/kernels_loop.h"
#include "lib/reduce/kernels_target.h"

#define INC_SWAP_KERNEL(bits)                                                        \
	INC_TARGET static void swap_##bits(void *dst, const void *src, size_t count) \
	{                                                                            \
		uint##bits##_any *to = dst;                                          \
		const uint##bits##_any *from = src;                                  \
                                                                                     \
		INC_FOR_EACH(count)                                                  \
		to[i] = __builtin_bswap##bits(from[i]);                              \
	}
INC_SWAP_KERNEL(16)
INC_SWAP_KERNEL(32)
INC_SWAP_KERNEL(64)

#define INC_TRUTH_KERNEL(bits)                                                        \
	INC_TARGET static void truth_##bits(void *dst, const void *src, size_t count) \
	{                                                                             \
		uint##bits##_any *to = dst;                                           \
		const uint##bits##_any *from = src;                                   \
                                                                                      \
		INC_FOR_EACH(count)                                                   \
		to[i] = from[i] != 0;                                                 \
	}
INC_TRUTH_KERNEL(8)
INC_TRUTH_KERNEL(16)
INC_TRUTH_KERNEL(32)
INC_TRUTH_KERNEL(64)

INC_TARGET static void swap_8(void *dst, const void *src, size_t count)
{
	memmove(dst, src, count);
}

#define _(NAME, name, bytes, has_sign) extern const struct inc_int_kernels INC_OF_SET(name);
INC_DTYPES(_)
#undef _
#define _(NAME, name, bits, mantissa_bits) extern const struct inc_float_kernels INC_OF_SET(name);
INC_FLOATS(_)
#undef _

const struct inc_kernels INC_OF_SET(kernels) = {
	.name = INC_SET_NAME,
	.usable = usable,
	.swap = {swap_8, swap_16, swap_32, swap_64},
	.truth = {truth_8, truth_16, truth_32, truth_64},
#define _(NAME, name, bytes, has_sign) .ints[INC_DTYPE_##NAME] = &INC_OF_SET(name),
	INC_DTYPES(_)
#undef _
#define _(NAME, name, bits, mantissa_bits) .floats[INC_##NAME] = &INC_OF_SET(name),
		INC_FLOATS(_)
#undef _
			.index = {INC_INDEX_TABLE(INT32, int32), INC_INDEX_TABLE(FLOAT32, float32),
				  INC_INDEX_TABLE(INT64, int64), INC_INDEX_TABLE(FLOAT64, float64)},
	.pairs = {min_pair, max_pair},
};
