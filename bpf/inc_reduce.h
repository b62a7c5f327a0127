/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reduce: the last arriver compares and adds up all contributions of the slot. */
#ifndef INC_REDUCE_H
#define INC_REDUCE_H

#include "lib/proto/desc.h"
#include "bpf/inc_contribute.h"

/*
 * Compares what the children of one chunk called. Returns a mask of those who differ
 * from the first child; leaves in result: desc, the length of those who give, and the mask of
 * those who do. Both masks grow in the row: in registers the verifier would follow each of
 * their values.
 */
__noinline __u32 inc_compare(struct inc_buf *result, __u32 comm_id, __u32 slot)
{
	struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm_id);
	__u32 desc = 0, len = 0;
	volatile __u32 *givers, *differ;

	if (!result || !comm)
		return ~0u;
	givers = &result->givers;
	differ = &result->differ;
	*givers = 0;
	*differ = 0;
	for (__u32 c = 0; c < INC_MAX_CHILDREN; c++) {
		struct inc_buf *row;

		if (c >= comm->children)
			break;
		row = inc_contrib_row(comm, c, slot);
		if (!row)
			return ~0u;
		if (c == 0)
			desc = row->desc;
		if (row->desc != desc) {
			*differ |= 1u << c;
			continue;
		}
		if (!row->len)
			continue;
		if (!len)
			len = row->len;
		if (row->len != len)
			*differ |= 1u << c;
		*givers |= 1u << c;
	}
	/* who gives nothing where all must, or anything where nobody may, is out of step: a sum
	 * without its part would be wrong */
	if (len && INC_DESC_COLL(desc) <= INC_COLL_REDUCE)
		*differ |= comm->full_mask & ~*givers;
	if (INC_DESC_COLL(desc) == INC_COLL_BARRIER)
		*differ |= *givers;
	result->desc = desc;
	result->len = len;
	return *differ;
}

/*
 * Sums of up to four rows go to dst->payload, dst->len bytes of them, and their ones'
 * complement sum to dst->csum: one pass serves the UDP checksums of all copies. dst may be
 * one of the rows; NULL ends the list.
 */
#define INC_SUM_LOOP(expr)                                                                    \
	do {                                                                                  \
		/* at: masked, not compared, or a verifier that ties it to whole walks into a \
		 * branch that cannot be (6.1: bounds that contradict each other) */          \
		__u32 whole = words & ~7u, at = words & (INC_MAX_PAYLOAD / 4 - 8);            \
		__u32 rest = words & 7;                                                       \
		inc_opaque(at);                                                               \
		inc_opaque(rest);                                                             \
		for (__u32 i = 0; i < whole && i <= INC_MAX_PAYLOAD / 4 - 8; i += 8) {        \
			_Pragma("unroll") for (int k = 0; k < 8; k++)                         \
			{                                                                     \
				__u32 v = (expr);                                             \
				x[i + k] = v;                                                 \
				csum += v;                                                    \
			}                                                                     \
		}                                                                             \
		for (__u32 i = at, k = 0; k < 7 && k < rest; k++) {                           \
			__u32 v = (expr);                                                     \
			x[i + k] = v;                                                         \
			csum += v;                                                            \
		}                                                                             \
		csum = (csum & 0xffffffff) + (csum >> 32);                                    \
		dst->csum = (csum & 0xffffffff) + (csum >> 32);                               \
	} while (0)

__noinline int inc_sum_int32(struct inc_buf *dst, struct inc_buf *a, struct inc_buf *b,
			     struct inc_buf *c, struct inc_buf *d)
{
	__u32 *x, *pa, *pb, *pc, *pd, words;
	__u64 csum = 0;

	if (!dst || !a)
		return 0;
	words = dst->len / 4;
	x = (__u32 *)dst->payload;
	pa = (__u32 *)a->payload;
	if (!b) {
		INC_SUM_LOOP(pa[i + k]);
		return 0;
	}
	pb = (__u32 *)b->payload;
	if (!c) {
		INC_SUM_LOOP(pa[i + k] + pb[i + k]);
		return 0;
	}
	pc = (__u32 *)c->payload;
	if (!d) {
		INC_SUM_LOOP(pa[i + k] + pb[i + k] + pc[i + k]);
		return 0;
	}
	pd = (__u32 *)d->payload;
	INC_SUM_LOOP(pa[i + k] + pb[i + k] + pc[i + k] + pd[i + k]);
	return 0;
}

/* The same for two rows of big-endian elements. */
__noinline int inc_sum_int32_be(struct inc_buf *dst, struct inc_buf *a, struct inc_buf *b)
{
	__u32 *x, *pa, *pb, words;
	__u64 csum = 0;

	if (!dst || !a || !b)
		return 0;
	words = dst->len / 4;
	x = (__u32 *)dst->payload;
	pa = (__u32 *)a->payload;
	pb = (__u32 *)b->payload;
	INC_SUM_LOOP(
		__builtin_bswap32(__builtin_bswap32(pa[i + k]) + __builtin_bswap32(pb[i + k])));
	return 0;
}

/* All children give, host order: rows in one pass per three or four of them. */
static __always_inline void inc_sum_all(const struct inc_comm_cfg *comm, struct inc_buf *result,
					__u32 slot)
{
	__u32 n = comm->children;

#define ROW(c) ((c) < n ? inc_contrib_row(comm, c, slot) : NULL)
	inc_sum_int32(result, ROW(0), ROW(1), ROW(2), ROW(3));
	for (__u32 c = 4; c < INC_MAX_CHILDREN; c += 3) {
		if (c >= n)
			break;
		inc_sum_int32(result, result, ROW(c), ROW(c + 1), ROW(c + 2));
	}
#undef ROW
}

/* Some children give: one at a time. */
static __always_inline void inc_sum_some(const struct inc_comm_cfg *comm, struct inc_buf *result,
					 __u32 slot, __u32 givers)
{
	bool first = true;

	for (__u32 c = 0; c < INC_MAX_CHILDREN; c++) {
		struct inc_buf *row;

		if (c >= comm->children)
			break;
		if (!(givers >> c & 1))
			continue;
		row = inc_contrib_row(comm, c, slot);
		if (!row)
			break;
		if (first)
			inc_sum_int32(result, row, NULL, NULL, NULL);
		else if (comm->flags & INC_COMM_F_NET_ORDER)
			inc_sum_int32_be(result, result, row);
		else
			inc_sum_int32(result, result, row, NULL, NULL);
		first = false;
	}
}

/* Fills the result row of a complete slot. Returns the mask of children that called
 * something else, in which case the row is not a result. */
__noinline __u32 inc_reduce(__u32 comm_id, __u32 slot, __u64 r)
{
	struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm_id);
	struct inc_buf *result;
	__u32 differ, givers;

	if (!comm)
		return ~0u;
	result = inc_result_row(comm, slot);
	if (!result)
		return ~0u;
	/* a slow path that reads now sees a row of neither chunk */
	inc_publish64(&result->r, ~0ull);
	differ = inc_compare(result, comm_id, slot);
	if (differ)
		return differ;
	givers = result->givers;
	result->csum = 0;
	if (givers == comm->full_mask && !(comm->flags & INC_COMM_F_NET_ORDER))
		inc_sum_all(comm, result, slot);
	else if (givers)
		inc_sum_some(comm, result, slot, givers);
	result->crc = inc_crc_row(result, offsetof(struct inc_buf, payload), result->len, 0);
	inc_count_add(INC_CTR_X_SUM_BYTES, (__u64)result->len * __builtin_popcount(givers));
	inc_publish64(&result->r, r);
	return 0;
}

#endif
