/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Combines the contributions in rows into one row, element by element, by the operator and type of
 * a descriptor.
 *
 * The sum of 32-bit numbers in the host's order combines up to four rows at a time. All other
 * operations combine two rows, eight bytes at a time: a word of lanes, one element each. Numbers
 * in network order are converted by reversing a whole word, which also reverses the order of the
 * lanes. That does not matter, because the result is reversed again.
 */
#ifndef INC_OPERATE_H
#define INC_OPERATE_H

#include "lib/proto/desc.h"
#include "bpf/inc_maps.h"

#define INC_SUM_ROWS 4 /* number of rows that one pass sums at most */
#define INC_SUM_STEP 8 /* number of elements that one round sums */

/* Returns element i of a sum of rows: adds up the elements p[0][i] to p[rows - 1][i]. rows: a
 * constant in each caller. */
static __always_inline __u32 inc_sum_element(__u32 *const p[INC_SUM_ROWS], __u32 rows, __u32 i)
{
	__u32 sum = 0;

#pragma unroll
	for (__u32 k = 0; k < INC_SUM_ROWS; k++)
		if (k < rows)
			sum += p[k][i];
	return sum;
}

/* Writes the sum of the rows to dst->payload, dst->len bytes with their pad. The ones' complement
 * sum of these goes to dst->csum, so that one pass serves the UDP checksums of all copies. dst may
 * be one of the rows. */
static __always_inline void inc_sum_pass(struct inc_buf *dst, __u32 *const p[INC_SUM_ROWS],
					 __u32 rows)
{
	/* verifier 6.1: `at` is bounded by a mask. A comparison of it would narrow `whole` as
	 * well. The verifier would then follow a branch that never runs, with bounds that
	 * contradict each other, and reject the program. */
	__u32 words = (dst->len + 3) / 4, whole = words & ~(INC_SUM_STEP - 1u);
	__u32 at = words & (INC_MAX_PAYLOAD / 4 - INC_SUM_STEP), rest = words & (INC_SUM_STEP - 1);
	__u32 *x = (__u32 *)dst->payload;
	__u64 csum = 0;

	inc_opaque(at);
	inc_opaque(rest);
	for (__u32 i = 0; i < whole && i <= INC_MAX_PAYLOAD / 4 - INC_SUM_STEP; i += INC_SUM_STEP) {
#pragma unroll
		for (__u32 k = 0; k < INC_SUM_STEP; k++) {
			__u32 sum = inc_sum_element(p, rows, i + k);

			x[i + k] = sum;
			csum += sum;
		}
	}
	for (__u32 k = 0; k < INC_SUM_STEP - 1 && k < rest; k++) {
		__u32 sum = inc_sum_element(p, rows, at + k);

		x[at + k] = sum;
		csum += sum;
	}
	csum = (csum & 0xffffffff) + (csum >> 32);
	dst->csum = (csum & 0xffffffff) + (csum >> 32);
}

/* Sums up to four rows of 32-bit numbers in the host's order. A NULL ends the list of rows. */
__noinline int inc_sum_int32(struct inc_buf *dst, struct inc_buf *a, struct inc_buf *b,
			     struct inc_buf *c, struct inc_buf *d)
{
	__u32 *p[INC_SUM_ROWS] = {};

	if (!dst || !a)
		return 0;
	p[0] = (__u32 *)a->payload;
	if (!b) {
		inc_sum_pass(dst, p, 1);
		return 0;
	}
	p[1] = (__u32 *)b->payload;
	if (!c) {
		inc_sum_pass(dst, p, 2);
		return 0;
	}
	p[2] = (__u32 *)c->payload;
	if (!d) {
		inc_sum_pass(dst, p, 3);
		return 0;
	}
	p[3] = (__u32 *)d->payload;
	inc_sum_pass(dst, p, 4);
	return 0;
}

/* How two words of elements are combined. A lane is the bits of one element in a word. */
enum inc_method {
	INC_SECOND, /* the result is the second word */
	INC_ADD,    /* each lane of the result is the sum of the two lanes */
	INC_CHOOSE, /* each lane of the result is the smaller or the larger of the two lanes */
	INC_AND,
	INC_OR,
	INC_XOR,
	/* multiply: each lane of the result is the product of two lanes of 8, 16, 32 or 64 bits */
	INC_TIMES_8,
	INC_TIMES_16,
	INC_TIMES_32,
	INC_TIMES_64,
};

/*
 * The lanes of an element type, and whether an operator chooses the larger of two.
 *
 * verifier 6.1: tables, because the verifier does not know the values in them. With known values it
 * would walk a loop again for each value.
 */
struct inc_lanes {
	__u64 top;   /* mask of the highest bit of each lane */
	__u64 sign;  /* the same mask if the type has a sign, else 0 */
	__u32 below; /* number of bits of a lane without its highest bit */
};

/* The mask of the highest bit of each lane, for elements of so many bytes. All ones, divided by one
 * lane of ones, is a mask of the lowest bits, which is then shifted. */
#define INC_LANE_BYTES(bytes) ((bytes) < 8 ? (bytes) : 8)
#define INC_TOPS(bytes)       (~0ull / (~0ull >> (64 - 8 * (bytes))) << (8 * (bytes)-1))
static const struct inc_lanes inc_lanes_of[32] = {
#define _(NAME, name, bytes, has_sign)                                    \
	[INC_DTYPE_##NAME] = {                                            \
		.top = INC_TOPS(INC_LANE_BYTES(bytes)),                   \
		.sign = (has_sign) ? INC_TOPS(INC_LANE_BYTES(bytes)) : 0, \
		.below = 8 * INC_LANE_BYTES(bytes) - 1,                   \
	},
	INC_WIRE_DTYPES(_)
#undef _
};
static const __u64 inc_takes_larger[32] = {[INC_OPERATOR_MAX] = ~0ull};

/* Adds two words lane by lane. The highest bits are added without carry, so that no carry leaves
 * its lane. */
static __always_inline __u64 inc_add_lanes(const struct inc_lanes *l, __u64 a, __u64 b)
{
	return ((a & ~l->top) + (b & ~l->top)) ^ ((a ^ b) & l->top);
}

/*
 * Returns a mask of the lanes in which a is below b.
 *
 * It has no branch, because the verifier would follow both ways for every lane. First, the highest
 * bit of each lane in `less` is set if the lane of a is below that of b. That holds if the highest
 * bits decide it, or if they are equal and the rest of a is below the rest of b. With their signs
 * inverted, signed numbers have the order of unsigned ones.
 */
static __always_inline __u64 inc_lanes_below(const struct inc_lanes *l, __u64 a, __u64 b)
{
	__u64 x = a ^ l->sign, y = b ^ l->sign;
	__u64 fits = (x | l->top) - (y & ~l->top);
	__u64 less = ((~x & y) | (~(x ^ y) & ~fits)) & l->top;

	return less | (less - (less >> l->below));
}

/* Chooses the smaller of each two lanes, or the larger one: larger is all ones or 0. */
static __always_inline __u64 inc_choose_lanes(const struct inc_lanes *l, __u64 larger, __u64 a,
					      __u64 b)
{
	return b ^ ((a ^ b) & (inc_lanes_below(l, a, b) ^ larger));
}

/* Multiplies two words lane by lane. bits: the bits of a lane, a constant in each caller. */
static __always_inline __u64 inc_times_lanes(__u32 bits, __u64 a, __u64 b)
{
	__u64 product = 0;

	if (bits == 64)
		return a * b;
#pragma unroll
	for (__u32 at = 0; at < 64; at += bits)
		product |= ((a >> at) * (b >> at) & ((1ull << bits) - 1)) << at;
	return product;
}

/* Returns a word in the host's order. be: it is in network order; a constant in each caller. */
static __always_inline __u64 inc_host_word(bool be, __u64 word)
{
	return be ? __builtin_bswap64(word) : word;
}

/* Combines two words. how: the method. be: the numbers are in network order. Both are constants in
 * each caller. */
static __always_inline __u64 inc_operate_word(enum inc_method how, bool be, __u32 desc, __u64 a,
					      __u64 b)
{
	const struct inc_lanes *l = &inc_lanes_of[INC_DESC_DTYPE(desc)];
	__u64 word;

	if (be) {
		a = __builtin_bswap64(a);
		b = __builtin_bswap64(b);
	}
	switch (how) {
	case INC_ADD:
		word = inc_add_lanes(l, a, b);
		break;
	case INC_CHOOSE:
		word = inc_choose_lanes(l, inc_takes_larger[INC_DESC_OP(desc)], a, b);
		break;
	case INC_AND:
		word = a & b;
		break;
	case INC_OR:
		word = a | b;
		break;
	case INC_XOR:
		word = a ^ b;
		break;
	case INC_TIMES_8:
		word = inc_times_lanes(8, a, b);
		break;
	case INC_TIMES_16:
		word = inc_times_lanes(16, a, b);
		break;
	case INC_TIMES_32:
		word = inc_times_lanes(32, a, b);
		break;
	case INC_TIMES_64:
		word = inc_times_lanes(64, a, b);
		break;
	default:
		word = b;
	}
	return be ? __builtin_bswap64(word) : word;
}

#define INC_OPERATE_WORDS (INC_MAX_PAYLOAD / 8)
#define INC_OPERATE_BLOCK 32 /* number of words that one call of inc_operate_block() combines */
#define INC_OPERATE_STEP  4  /* number of words that one round combines */

/* A block of words in two rows. The combined words go to the first one. */
struct inc_block {
	__u64 *dst;
	const __u64 *src;
	__u32 words; /* number of words that are left from this block on */
	__u32 desc;
};

/* Combines the words of a block. It processes INC_OPERATE_STEP words at a time, so it may write a
 * few words more. */
static __always_inline int inc_operate_pass(const struct inc_block *w, enum inc_method how, bool be)
{
	for (__u32 i = 0; i < w->words && i <= INC_OPERATE_BLOCK - INC_OPERATE_STEP;
	     i += INC_OPERATE_STEP)
#pragma unroll
		for (__u32 k = i; k < i + INC_OPERATE_STEP; k++)
			w->dst[k] = inc_operate_word(how, be, w->desc, w->dst[k], w->src[k]);
	return 0;
}

static __always_inline int inc_operate_either(const struct inc_block *w, enum inc_method how,
					      bool be)
{
	return be ? inc_operate_pass(w, how, true) : inc_operate_pass(w, how, false);
}

/* Chooses the smaller or the larger of each two elements of two words. If the first words are
 * equal, the second ones decide. Like inc_operate_pass() otherwise. */
static __always_inline int inc_choose_pass(const struct inc_block *w, bool be)
{
	const struct inc_lanes *l = &inc_lanes_of[INC_DESC_DTYPE(w->desc)];
	__u64 larger = inc_takes_larger[INC_DESC_OP(w->desc)];
	const __u64 *a = w->dst, *b = w->src;

	/* two words in a round, because the stack has no room for the registers of more */
	for (__u32 k = 0; k < w->words && k < INC_OPERATE_BLOCK; k += 2) {
		__u64 a0 = inc_host_word(be, a[k]), a1 = inc_host_word(be, a[k + 1]);
		__u64 b0 = inc_host_word(be, b[k]), b1 = inc_host_word(be, b[k + 1]);
		__u64 take_a = inc_lanes_below(l, a0, b0) |
			       (inc_lanes_below(l, a1, b1) & ~inc_lanes_below(l, b0, a0));

		take_a ^= larger;
		w->dst[k] = b[k] ^ ((a[k] ^ b[k]) & take_a);
		w->dst[k + 1] = b[k + 1] ^ ((a[k + 1] ^ b[k + 1]) & take_a);
	}
	return 0;
}

static __always_inline int inc_choose(const struct inc_block *w, bool be)
{
	if (inc_element_bytes(w->desc) != INC_PAIR_BYTES)
		return inc_operate_either(w, INC_CHOOSE, be);
	return be ? inc_choose_pass(w, true) : inc_choose_pass(w, false);
}

static __always_inline int inc_multiply(const struct inc_block *w, bool be)
{
	switch (inc_element_bytes(w->desc)) {
	case 1:
		return inc_operate_pass(w, INC_TIMES_8, false);
	case 2:
		return inc_operate_either(w, INC_TIMES_16, be);
	case 4:
		return inc_operate_either(w, INC_TIMES_32, be);
	default:
		return inc_operate_either(w, INC_TIMES_64, be);
	}
}

/*
 * Combines a block of a row with that of dst by dst->desc. The block begins at word `at`, and the
 * rows end after dst->len bytes. With `copy` set, the row's block is copied instead. With `be` set,
 * the numbers are in network order. inc_end_row() clears the rest of the last word.
 *
 * verifier 6.1: it walks every round of a loop. This function is global, so it walks the rounds of
 * one block, and not those of a whole row.
 */
__noinline int inc_operate_block(struct inc_buf *dst, struct inc_buf *row, __u32 at, bool copy,
				 bool be)
{
	struct inc_block w;

	if (!dst || !row || at > INC_OPERATE_WORDS - INC_OPERATE_BLOCK)
		return 0;
	w.dst = (__u64 *)dst->payload + at;
	w.src = (const __u64 *)row->payload + at;
	w.words = (dst->len + 7) / 8 - at;
	w.desc = dst->desc;
	if (copy)
		return inc_operate_pass(&w, INC_SECOND, false);
	switch (INC_DESC_OP(w.desc)) {
	case INC_OPERATOR_SUM:
	case INC_OPERATOR_AVG:
		return inc_operate_either(&w, INC_ADD, be);
	case INC_OPERATOR_MIN:
	case INC_OPERATOR_MAX:
		return inc_choose(&w, be);
	case INC_OPERATOR_AND:
	case INC_OPERATOR_LAND:
		return inc_operate_pass(&w, INC_AND, false);
	case INC_OPERATOR_OR:
	case INC_OPERATOR_LOR:
		return inc_operate_pass(&w, INC_OR, false);
	case INC_OPERATOR_XOR:
	case INC_OPERATOR_LXOR:
		return inc_operate_pass(&w, INC_XOR, false);
	case INC_OPERATOR_PROD:
	default: /* impossible, because inc_desc_known() has rejected other operators */
		return inc_multiply(&w, be);
	}
}

/* Clears the pad of a combined row, because it was combined from pads and ICRCs, and computes the
 * checksum of the row. */
static __always_inline void inc_end_row(struct inc_buf *row)
{
	__u32 at = row->len & (INC_MAX_PAYLOAD - 4), odd = row->len & 3;

	if (odd)
		*(__u32 *)(row->payload + at) &= (1u << odd * 8) - 1;
	inc_sum_int32(row, row, NULL, NULL, NULL);
}

#endif
