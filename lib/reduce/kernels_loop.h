/* SPDX-License-Identifier: BSD-2-Clause */
/* Macros for the loops of the kernels_*.h files. */
#ifndef INC_REDUCE_KERNELS_LOOP_H
#define INC_REDUCE_KERNELS_LOOP_H

#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"

/* Types of an element at any address. */
#define _(NAME, name, bytes, has_sign) typedef name##_t name##_any __attribute__((aligned(1)));
INC_DTYPES(_)
#undef _

/* Tells the compiler that no iteration of a loop depends on what another one has stored, even in
 * place. Without this the compiler checks for overlaps before every loop. */
#ifdef __clang__
#define INC_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define INC_UNROLLED    _Pragma("clang loop unroll(full)")
#else
#define INC_INDEPENDENT _Pragma("GCC ivdep")
#define INC_UNROLLED    _Pragma("GCC unroll 8")
#endif
#define INC_LOOP static inline __attribute__((always_inline))
/* A loop over the sources of a fold. Its number n is a compile-time constant at each use. The loop
 * must be unrolled, or the loop around it is not vectorized. The unroll factor 8 is
 * INC_FOLD_MOST. */
#define INC_FOR_SOURCES(j, first, n) INC_UNROLLED for (unsigned int j = (first); j < (n); j++)
#define INC_SOURCES(type, from, src, n)  \
	const type *from[INC_FOLD_MOST]; \
	INC_FOR_SOURCES (j, 0, n)        \
	from[j] = (src)[j]
#define INC_FOR_EACH(count) INC_INDEPENDENT for (size_t i = 0; i < (count); i++)

#endif
