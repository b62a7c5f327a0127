/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reduce: the last arriver compares and adds up all contributions of the slot. */
#ifndef INC_REDUCE_H
#define INC_REDUCE_H

#include "lib/proto/desc.h"
#include "bpf/inc_contribute.h"
#include "bpf/inc_crc.h"

/* The children that may give something where not all must. */
static __always_inline __u32 inc_root_mask(const struct inc_comm_cfg *comm, __u32 desc)
{
	__u32 child_plus_1 = inc_root_gives(desc) ? inc_root_child_plus_1(comm, desc) : 0;

	return child_plus_1 ? 1u << ((child_plus_1 - 1) & 31) : 0;
}

/*
 * Compares what the children of one chunk called. Returns a mask of those who differ
 * from the first child; leaves in result: desc, the length of those who give, the mask of
 * those who do, and how it goes to a parent: as one message with the descriptor, whatever the
 * children's messages are, which asks for an ACK where a child did.
 *
 * verifier 6.1: both masks grow in the row; in registers it would follow each of the values that
 * they can take, child by child.
 */
__noinline __u32 inc_compare(struct inc_buf *result, __u32 comm_id, __u32 slot)
{
	struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm_id);
	__u32 desc = 0, len = 0;
	volatile __u32 *givers, *differ;
	volatile __u8 *flags;

	if (!result || !comm)
		return ~0u;
	givers = &result->givers;
	differ = &result->differ;
	flags = &result->flags;
	*givers = 0;
	*differ = 0;
	*flags = 0;
	for (__u32 c = 0; c < INC_MAX_CHILDREN; c++) {
		struct inc_buf *row;

		if (c >= comm->children)
			break;
		row = inc_contrib_row(comm, c, slot);
		if (!row)
			return ~0u;
		if (c == 0)
			desc = row->desc;
		*flags |= row->flags & INC_BUF_F_ACKREQ;
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
	/* who gives nothing where all must, or anything where it may not, is out of step: a sum
	 * without its part would be wrong */
	if (inc_all_give(desc))
		*differ |= len ? comm->full_mask & ~*givers : 0;
	else
		*differ |= *givers & ~inc_root_mask(comm, desc);
	result->desc = desc;
	result->len = len;
	result->opcode = INC_OP_SEND_ONLY_IMM;
	return *differ;
}

#define INC_SUM_ROWS 4 /* in one pass, at most */
#define INC_SUM_STEP 8 /* elements in one round */

/* Element i of the sum of rows that each hold one at p[]. rows, be: constants of the caller. */
static __always_inline __u32 inc_sum_element(__u32 *const p[INC_SUM_ROWS], __u32 rows, bool be,
					     __u32 i)
{
	__u32 sum = 0;

#pragma unroll
	for (__u32 k = 0; k < INC_SUM_ROWS; k++)
		if (k < rows)
			sum += be ? __builtin_bswap32(p[k][i]) : p[k][i];
	return be ? __builtin_bswap32(sum) : sum;
}

/*
 * Sums of rows go to dst->payload, dst->len bytes of them, and their ones' complement sum to
 * dst->csum: one pass serves the UDP checksums of all copies. dst may be one of the rows.
 */
static __always_inline void inc_sum_pass(struct inc_buf *dst, __u32 *const p[INC_SUM_ROWS],
					 __u32 rows, bool be)
{
	/* verifier 6.1: at is masked, not compared: from a comparison it learns of whole, too, and
	 * then follows a branch with bounds that contradict each other, where it refuses what
	 * never runs */
	__u32 words = dst->len / 4, whole = words & ~(INC_SUM_STEP - 1u);
	__u32 at = words & (INC_MAX_PAYLOAD / 4 - INC_SUM_STEP), rest = words & (INC_SUM_STEP - 1);
	__u32 *x = (__u32 *)dst->payload;
	__u64 csum = 0;

	inc_opaque(at);
	inc_opaque(rest);
	for (__u32 i = 0; i < whole && i <= INC_MAX_PAYLOAD / 4 - INC_SUM_STEP; i += INC_SUM_STEP) {
#pragma unroll
		for (__u32 k = 0; k < INC_SUM_STEP; k++) {
			__u32 sum = inc_sum_element(p, rows, be, i + k);

			x[i + k] = sum;
			csum += sum;
		}
	}
	for (__u32 k = 0; k < INC_SUM_STEP - 1 && k < rest; k++) {
		__u32 sum = inc_sum_element(p, rows, be, at + k);

		x[at + k] = sum;
		csum += sum;
	}
	csum = (csum & 0xffffffff) + (csum >> 32);
	dst->csum = (csum & 0xffffffff) + (csum >> 32);
}

/* Sums up to four rows in the host's order; NULL ends the list. */
__noinline int inc_sum_int32(struct inc_buf *dst, struct inc_buf *a, struct inc_buf *b,
			     struct inc_buf *c, struct inc_buf *d)
{
	__u32 *p[INC_SUM_ROWS] = {};

	if (!dst || !a)
		return 0;
	p[0] = (__u32 *)a->payload;
	if (!b) {
		inc_sum_pass(dst, p, 1, false);
		return 0;
	}
	p[1] = (__u32 *)b->payload;
	if (!c) {
		inc_sum_pass(dst, p, 2, false);
		return 0;
	}
	p[2] = (__u32 *)c->payload;
	if (!d) {
		inc_sum_pass(dst, p, 3, false);
		return 0;
	}
	p[3] = (__u32 *)d->payload;
	inc_sum_pass(dst, p, 4, false);
	return 0;
}

/* Sums two rows of big-endian elements. */
__noinline int inc_sum_int32_be(struct inc_buf *dst, struct inc_buf *a, struct inc_buf *b)
{
	__u32 *p[INC_SUM_ROWS] = {};

	if (!dst || !a || !b)
		return 0;
	p[0] = (__u32 *)a->payload;
	p[1] = (__u32 *)b->payload;
	inc_sum_pass(dst, p, 2, true);
	return 0;
}

/* The child's row, or NULL where there is no such child. */
static __always_inline struct inc_buf *inc_child_row(const struct inc_comm_cfg *comm, __u32 child,
						     __u32 slot)
{
	return child < comm->children ? inc_contrib_row(comm, child, slot) : NULL;
}

/* All children give, in the host's order: four rows in the first pass, and three with the sum so
 * far in each of the others. */
static __always_inline void inc_sum_all(const struct inc_comm_cfg *comm, struct inc_buf *result,
					__u32 slot)
{
	inc_sum_int32(result, inc_child_row(comm, 0, slot), inc_child_row(comm, 1, slot),
		      inc_child_row(comm, 2, slot), inc_child_row(comm, 3, slot));
	for (__u32 c = 4; c < INC_MAX_CHILDREN && c < comm->children; c += 3)
		inc_sum_int32(result, result, inc_child_row(comm, c, slot),
			      inc_child_row(comm, c + 1, slot), inc_child_row(comm, c + 2, slot));
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
