/* SPDX-License-Identifier: BSD-2-Clause */
/* What a node's INC_TERM_DO_REDUCE asks for. Any thread; nothing kept. */
#ifndef INC_TERM_COMBINE_H
#define INC_TERM_COMBINE_H

#include <stddef.h>
#include <stdint.h>

/*
 * into = source[0] op source[1] op ..., from the first to the last: bytes of elements in the
 * machine's byte order, operator and type those of desc (INC_DESC), as the protocol has them for a
 * switch: AVG is SUM, and what is no integer to the ranks is one here. n: 1 or more. into may be
 * source[0].
 */
void inc_term_combine(uint32_t desc, void *into, const void *const *source, uint32_t n,
		      size_t bytes);

#endif
