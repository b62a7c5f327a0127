/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A collective on the wire: the descriptor in the immediate data, and the rules about which ranks
 * send and receive data. XDP programs and user space use this header.
 */
#ifndef INC_PROTO_DESC_H
#define INC_PROTO_DESC_H

#include <linux/types.h>

/*
 * Collective descriptor: the 32 bits of immediate data (host order) in the
 * first packet of a collective, and in every later immediate of the same one.
 *
 *   31..29 collective   28..24 operator   23..19 data type
 *   18..7  root rank    6..0   sequence number of the collective, modulo 2^7
 */
/* The collectives: _(NAME, name) */
#define INC_COLLECTIVES(_)                                                                   \
	_(ALLREDUCE, allreduce)                                                              \
	_(REDUCE, reduce)                                                                    \
	_(BROADCAST, broadcast)                                                              \
	_(BARRIER, barrier)                                                                  \
	/* on the wire: a Reduce, or a Broadcast, of each rank's block, one after another */ \
	_(REDUCE_SCATTER, reducescatter)                                                     \
	_(ALL_GATHER, allgather)

enum inc_collective {
#define _(NAME, name) INC_COLL_##NAME,
	INC_COLLECTIVES(_)
#undef _
		INC_N_COLLECTIVES
};

/* The operators: _(NAME, name) */
#define INC_OPERATORS(_) \
	_(SUM, sum)      \
	_(MIN, min)      \
	_(MAX, max)      \
	_(PROD, prod)    \
	_(AND, and)      \
	_(OR, or)        \
	_(XOR, xor)

/*
 * Operators that a switch computes as another one: _(NAME, name, the other one). Each has its own
 * number, so that the switch detects ranks that want different results. The ranks divide a sum for
 * AVG. For LAND, LOR and LXOR they send 1 for each element that is not 0.
 */
#define INC_GUISE_OPERATORS(_) \
	_(AVG, avg, SUM)       \
	_(LAND, land, AND)     \
	_(LOR, lor, OR)        \
	_(LXOR, lxor, XOR)

#define INC_WIRE_OPERATORS(_) INC_OPERATORS(_) INC_GUISE_OPERATORS(_)

enum inc_operator {
#define _(NAME, name, ...) INC_OPERATOR_##NAME,
	INC_OPERATORS(_)
#undef _
		INC_N_OPERATORS,
	/* makes the next enumerator, which is the first operator of INC_GUISE_OPERATORS, equal to
	 * INC_N_OPERATORS */
	INC_OPERATOR_BEFORE_GUISES = INC_N_OPERATORS - 1,
#define _(NAME, name, ...) INC_OPERATOR_##NAME,
	INC_GUISE_OPERATORS(_)
#undef _
		INC_N_WIRE_OPERATORS,
};

/* The element types, one row each: _(NAME, name, size in bytes, 1 if the type has a sign) */
#define INC_DTYPES(_)           \
	_(INT32, int32, 4, 1)   \
	_(UINT32, uint32, 4, 0) \
	_(INT64, int64, 8, 1)   \
	_(UINT64, uint64, 8, 0) \
	_(INT16, int16, 2, 1)   \
	_(UINT16, uint16, 2, 0) \
	_(INT8, int8, 1, 1)     \
	_(UINT8, uint8, 1, 0)

/*
 * Types that an XDP switch treats as the integer of the same size and sign. Each has its own
 * number, so that the switch detects ranks whose descriptors differ. FLOAT32 to FLOAT64 are floats
 * that are only passed on, or that hosts have mapped to integers with the same order (MIN, MAX).
 * Types with INDEX are values with an index for MINLOC and MAXLOC, which hosts have mapped to
 * integers with the same order (docs/floats.md). One of 16 bytes is two integers of 8 bytes, of
 * which the first is compared before the second. Only MIN and MAX reduce such elements.
 * AGREED, FIXED and FIXED64 are the two passes of a sum of floats (docs/floats.md): the sum's
 * exponents and its elements, which are FIXED64 for float64. The rows have the columns of
 * INC_DTYPES.
 */
#define INC_GUISES(_)                          \
	_(FLOAT32, float32, 4, 1)              \
	_(FLOAT16, float16, 2, 1)              \
	_(BFLOAT16, bfloat16, 2, 1)            \
	_(FLOAT64, float64, 8, 1)              \
	_(INT32_INDEX, int32_index, 8, 1)      \
	_(FLOAT32_INDEX, float32_index, 8, 1)  \
	_(INT64_INDEX, int64_index, 16, 1)     \
	_(FLOAT64_INDEX, float64_index, 16, 1) \
	_(AGREED, agreed, 1, 0)                \
	_(FIXED, fixed, 4, 1)                  \
	_(FIXED64, fixed64, 8, 1)

#define INC_WIRE_DTYPES(_) INC_DTYPES(_) INC_GUISES(_)

enum inc_dtype {
#define _(NAME, name, bytes, sign) INC_DTYPE_##NAME,
	INC_DTYPES(_)
#undef _
		INC_N_DTYPES,
	/* makes the next enumerator, which is the first type of INC_GUISES, equal to
	 * INC_N_DTYPES */
	INC_DTYPE_BEFORE_GUISES = INC_N_DTYPES - 1,
#define _(NAME, name, bytes, sign) INC_DTYPE_##NAME,
	INC_GUISES(_)
#undef _
		INC_N_WIRE_DTYPES,
	/*
	 * Floats that a switch shall add as floats: float32, float16, bfloat16, float64. Only
	 * switches and hosts that have agreed on native floats accept these numbers. To all others
	 * they are unknown types, so that no end takes one form of floats for another. Inside a
	 * program the four are INC_DTYPE_FLOAT32 to INC_DTYPE_FLOAT64, and inc_desc_to_wire()
	 * converts them.
	 */
	INC_DTYPE_NATIVE = INC_N_WIRE_DTYPES,
	INC_N_NATIVES = INC_DTYPE_FLOAT64 - INC_DTYPE_FLOAT32 + 1,
	INC_N_INDEX_TYPES = INC_DTYPE_FLOAT64_INDEX - INC_DTYPE_INT32_INDEX + 1,
};

#define INC_PAIR_BYTES 16 /* size of the elements that are two integers */

/* limit of the ranks of a communicator, because 12 bits of a descriptor name the root */
#define INC_MAX_RANKS     4096
#define INC_DESC_SEQ_MASK 0x7fu
#define INC_DESC(coll, op, dtype, root, seq)                                            \
	(((__u32)(coll)&7) << 29 | ((__u32)(op)&31) << 24 | ((__u32)(dtype)&31) << 19 | \
	 ((__u32)(root) & (INC_MAX_RANKS - 1)) << 7 | ((__u32)(seq)&INC_DESC_SEQ_MASK))
#define INC_DESC_COLL(d)  ((__u32)(d) >> 29)
#define INC_DESC_OP(d)    ((__u32)(d) >> 24 & 31)
#define INC_DESC_DTYPE(d) ((__u32)(d) >> 19 & 31)
#define INC_DESC_ROOT(d)  ((__u32)(d) >> 7 & (INC_MAX_RANKS - 1))
#define INC_DESC_SEQ(d)   ((__u32)(d)&INC_DESC_SEQ_MASK)

_Static_assert(INC_N_COLLECTIVES <= 8 && INC_N_WIRE_OPERATORS <= 32 &&
		       INC_DTYPE_NATIVE + INC_N_NATIVES <= 32,
	       "the descriptor has room for all");

/* Bytes of an element, a power of two; 0 for an unknown type. The constant has 3 bits for each
 * type: twice the bytes are 1 shifted by them. */
static inline __attribute__((always_inline)) __u32 inc_element_bytes(__u32 desc)
{
	const __u32 dtype = INC_DESC_DTYPE(desc);

	_Static_assert(INC_N_WIRE_DTYPES <= 21, "3 bits for each type are one word");
#define _(NAME, name, bytes, sign) | (__u64)(__builtin_ctz(bytes) + 1) << 3 * INC_DTYPE_##NAME
	return dtype < INC_N_WIRE_DTYPES ? (1u << ((0ull INC_WIRE_DTYPES(_)) >> 3 * dtype & 7)) >> 1
					 : 0;
#undef _
}

/* Returns the operator by which a switch computes an operator of a descriptor. */
static inline __attribute__((always_inline)) enum inc_operator
inc_operator_computed(enum inc_operator op)
{
	switch (op) {
#define _(NAME, name, as)         \
	case INC_OPERATOR_##NAME: \
		return INC_OPERATOR_##as;
		INC_GUISE_OPERATORS(_)
#undef _
	default:
		return op;
	}
}

/* Whether the operator is computed as AND, OR or XOR, which work on bits. These do not exist for
 * floats, and do not depend on the byte order. */
static inline __attribute__((always_inline)) _Bool inc_bitwise(enum inc_operator op)
{
	op = inc_operator_computed(op);
	return op == INC_OPERATOR_AND || op == INC_OPERATOR_OR || op == INC_OPERATOR_XOR;
}

/* Whether all ranks must send data in this collective, all the same amount. In other collectives
 * only some ranks send data. */
static inline __attribute__((always_inline)) _Bool inc_all_give(__u32 desc)
{
	switch (INC_DESC_COLL(desc)) {
	case INC_COLL_ALLREDUCE:
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return 1;
	default:
		return 0;
	}
}

/* Whether the collective reduces floats. In other collectives floats are only passed on, like any
 * data. */
static inline __attribute__((always_inline)) _Bool inc_reduces_floats(__u32 desc)
{
	return inc_all_give(desc) && INC_DESC_DTYPE(desc) >= INC_DTYPE_FLOAT32 &&
	       INC_DESC_DTYPE(desc) < INC_DTYPE_FLOAT32 + INC_N_NATIVES;
}

/* Whether a descriptor on the wire requests that the switch adds floats as floats. */
static inline __attribute__((always_inline)) _Bool inc_desc_is_native(__u32 desc)
{
	return inc_all_give(desc) && INC_DESC_DTYPE(desc) >= INC_DTYPE_NATIVE &&
	       INC_DESC_DTYPE(desc) < INC_DTYPE_NATIVE + INC_N_NATIVES;
}

/* Converts a descriptor to its form on the wire. native: the ends have agreed on native floats. */
static inline __attribute__((always_inline)) __u32 inc_desc_to_wire(__u32 desc, _Bool native)
{
	const __u32 more = INC_DTYPE_NATIVE - INC_DTYPE_FLOAT32;

	return native && inc_reduces_floats(desc) ? desc + INC_DESC(0, 0, more, 0, 0) : desc;
}

/* Converts a received descriptor to the form inside a program. Returns 0 if the two ends differ
 * in the form of floats. */
static inline __attribute__((always_inline)) _Bool inc_desc_from_wire(__u32 wire, _Bool native,
								      __u32 *desc)
{
	const __u32 more = INC_DTYPE_NATIVE - INC_DTYPE_FLOAT32;

	*desc = inc_desc_is_native(wire) ? wire - INC_DESC(0, 0, more, 0, 0) : wire;
	return inc_desc_to_wire(*desc, native) == wire;
}

/* Whether only ranks behind the connection to the root may send data. */
static inline __attribute__((always_inline)) _Bool inc_root_gives(__u32 desc)
{
	return INC_DESC_COLL(desc) == INC_COLL_BROADCAST ||
	       INC_DESC_COLL(desc) == INC_COLL_ALL_GATHER;
}

/* Whether the root rank matters to the collective. */
static inline __attribute__((always_inline)) _Bool inc_has_root(__u32 desc)
{
	return INC_DESC_COLL(desc) != INC_COLL_ALLREDUCE && INC_DESC_COLL(desc) != INC_COLL_BARRIER;
}

/* Whether a descriptor has a known collective, an element type, and an operator that exists for it,
 * and a message of so many bytes has whole elements. The check of the length limits the pad of a
 * packet, too. */
static inline __attribute__((always_inline)) _Bool inc_desc_known(__u32 desc, __u32 bytes)
{
	__u32 element = inc_element_bytes(desc), op = INC_DESC_OP(desc);

	return INC_DESC_COLL(desc) < INC_N_COLLECTIVES && op < INC_N_WIRE_OPERATORS && element &&
	       !(bytes & (element - 1)) &&
	       (__builtin_expect(element != INC_PAIR_BYTES, 1) || !inc_all_give(desc) ||
		op == INC_OPERATOR_MIN || op == INC_OPERATOR_MAX);
}

/*
 * Finds the children that are out of step although all have sent the same descriptor; returns a
 * bit for each. The parameter all has the children, and givers those that sent data. The parameter
 * root has the child that has the root behind it, if any has. A child is out of step if it sent no
 * data in a collective where all must, because the sum would lack its part. It is also out of step
 * if it sent data and must not.
 */
static inline __attribute__((always_inline)) __u64 inc_out_of_step(__u32 desc, __u64 all,
								   __u64 givers, __u64 root)
{
	if (inc_all_give(desc))
		return givers ? all & ~givers : 0;
	return givers & ~root;
}

/*
 * Whether the ranks behind a connection receive data of this collective, or a packet of length 0.
 * has_root: the root is one of these ranks; ranks: the number of these ranks. A root does not
 * receive what it broadcasts, but ranks that share a child switch with it do.
 */
static inline __attribute__((always_inline)) _Bool inc_ranks_get(__u32 desc, _Bool has_root,
								 __u32 ranks)
{
	switch (INC_DESC_COLL(desc)) {
	case INC_COLL_ALLREDUCE:
		return 1;
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return has_root;
	case INC_COLL_BROADCAST:
	case INC_COLL_ALL_GATHER:
		return !has_root || ranks > 1;
	default:
		return 0;
	}
}

/*
 * Whether a result with this number of bytes from the parent is the right answer to a partial sum
 * of partial_bytes. The parameter ranks is the number of ranks below the switch, and root_below
 * says that the root is one of them.
 */
static inline __attribute__((always_inline)) _Bool
inc_answer_fits(__u32 desc, __u32 bytes, __u32 partial_bytes, _Bool root_below, __u32 ranks)
{
	if (!inc_ranks_get(desc, root_below, ranks))
		return !bytes;
	/* data of a root that is not below this switch may have any number of elements */
	if (inc_root_gives(desc) && !root_below)
		return inc_desc_known(desc, bytes);
	return bytes == partial_bytes;
}

#endif
