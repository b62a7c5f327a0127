/* SPDX-License-Identifier: BSD-2-Clause */
/* Chooses the loops for this CPU, and has the integer loops under their public names. */
#include <stdatomic.h>
#include <string.h>
#include "lib/reduce/kernels.h"
#include "lib/reduce/operate.h"

const struct inc_kernels *const inc_kernel_sets[] = {
#if defined(__x86_64__) || defined(__i386__)
	&inc_kernels_avx512, &inc_kernels_avx2,
#endif
	&inc_kernels_generic, NULL};

/* Chooses the CPU's set of loops in the first call. Threads that call this at the same time choose
 * the same set. */
const struct inc_kernels *inc_kernels(void)
{
	static const struct inc_kernels *_Atomic chosen;
	const struct inc_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);
	unsigned int i;

	if (k)
		return k;
	for (i = 0; !inc_kernel_sets[i]->usable(); i++)
		;
	atomic_store_explicit(&chosen, inc_kernel_sets[i], memory_order_relaxed);
	return inc_kernel_sets[i];
}

const char *inc_reduce_set(void)
{
	return inc_kernels()->name;
}

void inc_reduce(enum inc_operator op, enum inc_dtype type, void *dst, const void *a, const void *b,
		size_t count)
{
	inc_kernels()->ints[type]->reduce[op](dst, (const void *const[]){a, b}, 2, count);
}

void inc_reduce_divide(enum inc_dtype type, void *dst, const void *src, size_t count,
		       uint32_t divisor)
{
	inc_kernels()->ints[type]->divide(dst, src, count, divisor);
}

void inc_reduce_swap(void *dst, const void *src, size_t count, size_t bytes)
{
	inc_kernels()->swap[__builtin_ctzll(bytes)](dst, src, count);
}

void inc_index_to_keys(enum inc_dtype type, bool largest, void *keys, const void *elements,
		       size_t count)
{
	inc_kernels()->index[type - INC_DTYPE_INT32_INDEX].to_keys(keys, elements, count, largest);
}

void inc_index_from_keys(enum inc_dtype type, bool largest, void *elements, const void *keys,
			 size_t count)
{
	inc_kernels()->index[type - INC_DTYPE_INT32_INDEX].from_keys(elements, keys, count,
								     largest);
}

void inc_index_swap(enum inc_dtype type, void *dst, const void *src, size_t count)
{
	const uint8_t *from = src;
	uint8_t *to = dst;
	size_t i;

	if (type == INC_DTYPE_INT32_INDEX || type == INC_DTYPE_FLOAT32_INDEX) {
		inc_reduce_swap(dst, src, 2 * count, sizeof(uint32_t));
		return;
	}
	for (i = 0; i < count * INC_PAIR_BYTES; i += INC_PAIR_BYTES) {
		inc_reduce_swap(to + i, from + i, 1, sizeof(uint64_t));
		inc_reduce_swap(to + i + 8, from + i + 8, 1, sizeof(uint32_t));
		memcpy(to + i + 12, from + i + 12, sizeof(uint32_t));
	}
}

void inc_reduce_truth(void *dst, const void *src, size_t count, size_t bytes)
{
	inc_kernels()->truth[__builtin_ctzll(bytes)](dst, src, count);
}
