/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The CPU with the last contribution of a slot compares the contributions and combines them. */
#ifndef INC_REDUCE_H
#define INC_REDUCE_H

#include "lib/proto/desc.h"
#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_operate.h"

/* Returns the mask of the only child that may send data, if the collective has one rank as its
 * source. It is 0 if no child may, or if all children send. */
static __always_inline __u32 inc_root_mask(const struct inc_comm_cfg *comm, __u32 desc)
{
	__u32 child_plus_1 = inc_root_gives(desc) ? inc_root_child_plus_1(comm, desc) : 0;

	return child_plus_1 ? 1u << ((child_plus_1 - 1) & 31) : 0;
}

/*
 * Compares the descriptors and lengths of the children's contributions to one chunk. Returns a mask
 * of the children that differ from the first one. Writes the descriptor, the length of the
 * contributions, and the mask of children that sent data to result. It also writes how the partial
 * sum goes to a parent, which is as one message with the descriptor, whatever messages the children
 * use. That message requests an ACK if a child did, and its flags have the byte order.
 *
 * verifier 6.1: both masks and the length grow in the row. In registers the verifier would follow
 * each of their values, child by child.
 */
__noinline __u32 inc_compare(struct inc_buf *result, __u32 comm_id, __u32 slot)
{
	struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm_id);
	volatile __u32 *givers, *differ, *len;
	__u32 desc = 0;
	volatile __u8 *flags;

	if (!result || !comm)
		return ~0u;
	givers = &result->givers;
	differ = &result->differ;
	flags = &result->flags;
	len = &result->len;
	*givers = 0;
	*len = 0;
	*differ = 0;
	*flags = inc_comm_order(comm);
	for (__u32 c = 0; c < INC_MAX_CHILDREN; c++) {
		struct inc_buf *row;

		if (c >= comm->children)
			break;
		row = inc_kept_row(comm, c, slot);
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
		if (!*len)
			*len = row->len;
		if (row->len != *len)
			*differ |= 1u << c;
		*givers |= 1u << c;
	}
	*differ |= inc_out_of_step(desc, comm->full_mask, *givers, inc_root_mask(comm, desc));
	result->desc = desc;
	result->opcode = INC_OP_SEND_ONLY_IMM;
	return *differ;
}

/*
 * The rows of a slot that are reduced: those of the children, and the result row.
 *
 * verifier 6.1: functions that reduce some of the rows are callbacks of bpf_loop(). It walks them
 * once or a few times, and a loop of C once for each child.
 */
struct inc_slot_rows {
	const struct inc_comm_cfg *comm;
	struct inc_buf *result;
	__u32 slot;
};

/* Returns the child's row, or NULL if there is no such child. */
static __always_inline struct inc_buf *inc_child_row(const struct inc_slot_rows *r, __u32 child)
{
	return child < r->comm->children ? inc_kept_row(r->comm, child, r->slot) : NULL;
}

/* Adds the rows of the next children to the sum so far. */
static long inc_sum_more(__u32 round, struct inc_slot_rows *r)
{
	__u32 child = INC_SUM_ROWS + (INC_SUM_ROWS - 1) * round;

	inc_sum_int32(r->result, r->result, inc_child_row(r, child), inc_child_row(r, child + 1),
		      inc_child_row(r, child + 2));
	return 0;
}

/* Sums the rows of all children, which have 32-bit numbers in the host's order. It sums four rows
 * in the first pass, and the sum so far with three more in each further pass. */
static __always_inline void inc_sum_all(struct inc_slot_rows *r)
{
	inc_sum_int32(r->result, inc_child_row(r, 0), inc_child_row(r, 1), inc_child_row(r, 2),
		      inc_child_row(r, 3));
	/* each round adds three rows, and the last one may add fewer */
	_Static_assert(INC_SUM_ROWS == 4, "inc_sum_more() names the rows of a round");
	if (r->comm->children > INC_SUM_ROWS)
		bpf_loop((r->comm->children - 2) / (INC_SUM_ROWS - 1), inc_sum_more, r, 0);
}

/* Combines the row of a child with those before it, block by block, if the child has sent data. */
static long inc_operate_child(__u32 child, struct inc_slot_rows *r)
{
	__u32 bit = 1u << (child & 31), givers = r->result->givers;
	bool copy = !(givers & (bit - 1)), be = r->comm->flags & INC_COMM_F_NET_ORDER;
	struct inc_buf *row;

	if (!(givers & bit))
		return 0;
	row = inc_kept_row(r->comm, child, r->slot);
	for (__u32 at = 0; at < INC_OPERATE_WORDS && at * 8 < r->result->len;
	     at += INC_OPERATE_BLOCK)
		inc_operate_block(r->result, row, at, copy, be);
	return 0;
}

/* Combines the rows of the children that sent data, one at a time. */
static __always_inline void inc_operate_some(struct inc_slot_rows *r)
{
	bpf_loop(r->comm->children, inc_operate_child, r, 0);
	inc_end_row(r->result);
}

/* Whether inc_sum_all() can reduce the contributions. */
static __always_inline bool inc_is_plain_sum(const struct inc_comm_cfg *comm, __u32 desc)
{
#define _(NAME, name, bytes, sign) | (__u32)((bytes) == 4) << INC_DTYPE_##NAME
	const __u32 of_four_bytes = 0 INC_WIRE_DTYPES(_);
#undef _

	return (INC_DESC_OP(desc) == INC_OPERATOR_SUM || INC_DESC_OP(desc) == INC_OPERATOR_AVG) &&
	       of_four_bytes >> INC_DESC_DTYPE(desc) & 1 && !(comm->flags & INC_COMM_F_NET_ORDER);
}

/* Fills the result row of a complete slot. Returns the mask of children that differ; if it is
 * not 0, the row is not a result. */
__noinline __u32 inc_reduce(__u32 comm_id, __u32 slot, __u64 r)
{
	struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm_id);
	struct inc_slot_rows rows = {.comm = comm, .slot = slot};
	struct inc_buf *result;
	__u32 differ, givers;

	if (!comm)
		return ~0u;
	result = rows.result = inc_sum_row(comm, slot);
	if (!result)
		return ~0u;
	/* invalidate the row's chunk number during the reduction, so that the slow path reads the
	 * row neither as the old nor as the new chunk */
	inc_publish64(&result->r, ~0ull);
	differ = inc_compare(result, comm_id, slot);
	if (differ)
		return differ;
	givers = result->givers;
	result->csum = 0;
	if (givers == comm->full_mask && inc_is_plain_sum(comm, result->desc))
		inc_sum_all(&rows);
	else if (givers)
		inc_operate_some(&rows);
	result->crc = inc_crc_row(result, offsetof(struct inc_buf, payload),
				  result->len + inc_pad(result->len), 0);
	inc_count_add(INC_CTR_X_SUM_BYTES, (__u64)result->len * __builtin_popcount(givers));
	inc_publish64(&result->r, r);
	return 0;
}

#endif
