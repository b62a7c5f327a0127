/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a collective is on the wire: the descriptor in the immediate data, and who gets what of
 * it. For the XDP programs and for user space.
 */
#ifndef INC_PROTO_DESC_H
#define INC_PROTO_DESC_H

#include <linux/types.h>

/*
 * Collective descriptor: the 32 bits of immediate data (host order) in the
 * first packet of a collective, and in every later immediate of the same one.
 *
 *   31..29 collective   28..26 operator   25..22 data type
 *   21..14 root rank    13..0  sequence number of the collective, modulo 2^14
 */
enum inc_collective {
	INC_COLL_ALLREDUCE = 0,
	INC_COLL_REDUCE = 1,
	INC_COLL_BROADCAST = 2,
	INC_COLL_BARRIER = 3,
};

enum inc_operator {
	INC_OPERATOR_SUM = 0,
};

enum inc_dtype {
	INC_DTYPE_INT32 = 0,
};

#define INC_DESC_SEQ_MASK 0x3fffu
#define INC_DESC(coll, op, dtype, root, seq)                                           \
	(((__u32)(coll)&7) << 29 | ((__u32)(op)&7) << 26 | ((__u32)(dtype)&15) << 22 | \
	 ((__u32)(root)&255) << 14 | ((__u32)(seq)&INC_DESC_SEQ_MASK))
#define INC_DESC_COLL(d)  ((__u32)(d) >> 29)
#define INC_DESC_OP(d)    ((__u32)(d) >> 26 & 7)
#define INC_DESC_DTYPE(d) ((__u32)(d) >> 22 & 15)
#define INC_DESC_ROOT(d)  ((__u32)(d) >> 14 & 255)
#define INC_DESC_SEQ(d)   ((__u32)(d)&INC_DESC_SEQ_MASK)

/* Does the rank receive data of this collective, or a packet of length 0? */
static inline __attribute__((always_inline)) _Bool inc_child_gets(__u32 desc, __u32 rank)
{
	__u32 coll = INC_DESC_COLL(desc);

	if (coll == INC_COLL_REDUCE)
		return INC_DESC_ROOT(desc) == rank;
	return coll != INC_COLL_BARRIER;
}

#endif
