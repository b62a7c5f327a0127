/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Computes the CRC-32 of the ICRC. CRC states in this file have no initial and no final xor.
 *
 * Modulo the CRC-32 polynomial x^0 = x^-145 + x^-183 + x^-211 + x^-300 (Chorba, arXiv 2412.16398).
 * So a bit can be removed from a message if it is xored into the places 145, 183, 211 and 300 bits
 * further on, which needs no table. The same holds for the 8th power of x, so a byte can be
 * removed by xoring it into the places as many bytes further on. A long run takes three steps:
 *
 * 1. By bytes, while 300 bytes follow: a word is xored into four places unchanged.
 *
 * 2. By bits, while five words follow: a word is shifted and xored into the words 2 to 5 places
 * on.
 *
 * 3. Two of the last five words are removed in the same way, by relations that do not reach beyond
 * the last word. The last three words go through tables.
 *
 * The row is only read. Each word collects what the removed words before it add to it; step 1
 * stores the removed words in a buffer of its own.
 *
 * The speed follows the number of instructions, most of all where two threads share a core. So
 * loops are unrolled, and what adds nothing to a word is left out where the place of the word is
 * constant.
 */
#ifndef INC_CRC_H
#define INC_CRC_H

#include "bpf/inc_maps.h"

#define INC_CRC_MAX_LEN (INC_BUF_HDR + INC_MAX_PAYLOAD)

#define INC_FOLD_REACH 300
/* Numbers of bytes that step 1 removes: INC_FOLD_START at first if so many are left, then
 * INC_FOLD_ROUND in each round, and then single blocks of INC_FOLD_BLOCK. */
#define INC_FOLD_BLOCK 32
#define INC_FOLD_START 320
#define INC_FOLD_ROUND 128
#define INC_FOLD_MIN   (INC_FOLD_REACH + INC_FOLD_BLOCK)
#define INC_LAST_WORDS 5 /* number of words that step 3 processes */
/* Numbers of words left for step 2. After step 1 at least INC_BEHIND_WORDS are left. If step 1 has
 * not run, at most INC_SHORT_WORDS are left, which include the last words for step 3. */
#define INC_BEHIND_WORDS (INC_FOLD_REACH / 8 - INC_LAST_WORDS)
#define INC_SHORT_WORDS  ((INC_FOLD_MIN - 4) / 8)

struct inc_fold {
	/* zeros in front of the removed words, because step 1 looks back INC_FOLD_REACH bytes from
	 * the first word, where it has removed nothing */
	__u8 before[INC_FOLD_REACH + 4];
	__u8 taken[INC_CRC_MAX_LEN - INC_FOLD_REACH];
	__u8 behind[INC_FOLD_BLOCK]; /* room for zeros after the last removed word */
};

/* Key 0: the words that step 1 has removed from the current run, 2 KB. Writer: inc_crc_row(),
 * each CPU in its own. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct inc_fold);
} inc_fold SEC(".maps");

/* Reads table k of the CRC tables at the index that is in bits 2 to 9 of `at`. All tables share one
 * base register. */
#define INC_CRC_ENTRY(tables, k, at) \
	(*(const volatile __u32 *)((tables) + ((at)&0xff << 2) + sizeof(inc_crc_table[0]) * (k)))

static __always_inline __u32 inc_crc_word(__u32 state, __u32 word)
{
	const volatile __u8 *t = (const volatile __u8 *)inc_crc_table;

	inc_opaque(t);
	state ^= word;
	return INC_CRC_ENTRY(t, 3, state << 2) ^ INC_CRC_ENTRY(t, 2, state >> 6) ^
	       INC_CRC_ENTRY(t, 1, state >> 14) ^ INC_CRC_ENTRY(t, 0, state >> 22);
}

static __always_inline __u32 inc_crc_word64(__u32 state, __u64 word)
{
	const volatile __u8 *t = (const volatile __u8 *)inc_crc_table;
	__u32 low = (__u32)word ^ state, high = word >> 32;

	inc_opaque(t);
	return INC_CRC_ENTRY(t, 3, high << 2) ^ INC_CRC_ENTRY(t, 2, high >> 6) ^
	       INC_CRC_ENTRY(t, 1, high >> 14) ^ INC_CRC_ENTRY(t, 0, high >> 22) ^
	       INC_CRC_ENTRY(t, 7, low << 2) ^ INC_CRC_ENTRY(t, 6, low >> 6) ^
	       INC_CRC_ENTRY(t, 5, low >> 14) ^ INC_CRC_ENTRY(t, 4, low >> 22);
}

/* Advances a CRC state over len zero bytes. len: a multiple of 4, below 4096. */
static __always_inline __u32 inc_crc_shift(__u32 state, __u32 len)
{
	len >>= 2;
#pragma unroll
	for (int p = 0; p < 10; p++)
		if (len >> p & 1)
			state = inc_shift_table[p][0][state & 0xff] ^
				inc_shift_table[p][1][state >> 8 & 0xff] ^
				inc_shift_table[p][2][state >> 16 & 0xff] ^
				inc_shift_table[p][3][state >> 24];
	return state;
}

#define INC_WORD(p, at) (*(const __u64 *)((p) + (at)))

/* Progress of a run of step 2: the five words removed last, of which o1 is the very last, and the
 * start state. The state is 0 once the first word includes it. */
struct inc_run {
	__u64 o1, o2, o3, o4, o5;
	__u64 state;
};

/* Returns a ^ (c ^ (b ^ a >> 2) >> 25) >> 11, which is the part of inc_add_left() that is shifted
 * right. */
static __always_inline __u64 inc_right_words(__u64 a, __u64 b, __u64 c)
{
	__u64 t = a >> 2 ^ b;

	inc_opaque(t);
	t = t >> 25 ^ c;
	inc_opaque(t);
	t = t >> 11 ^ a;
	inc_opaque(t);
	return t;
}

/*
 * Adds to a word what the removed words 2 to 5 places before it add, by bits: o2 << 17 ^ o2 << 55 ^
 * o3 << 19 ^ o4 << 44 ^ o3 >> 47 ^ o3 >> 9 ^ o4 >> 45 ^ o5 >> 20. The shifts are nested, which
 * saves a copy for each, and inc_opaque() stops the compiler from undoing that. o2 comes last,
 * because it is known last. Only four instructions follow one another from there to the result.
 */
static __always_inline __u64 inc_add_left(__u64 word, __u64 o2, __u64 o3, __u64 o4, __u64 o5)
{
	__u64 t, u;

	inc_opaque(word);
	t = inc_right_words(o3, o4, o5) >> 9 ^ word;
	inc_opaque(t);
	u = o4 << 25 ^ o3;
	inc_opaque(u);
	u = u << 2 ^ o2;
	inc_opaque(u);
	u = u << 17 ^ t;
	inc_opaque(u);
	u ^= o2 << 55;
	inc_opaque(u);
	return u;
}

/* Stores the word that step 2 removes now as the run's latest removed word, and shifts the four
 * before it by one place. */
static __always_inline void inc_taken(struct inc_run *run, __u64 out)
{
	run->o5 = run->o4;
	run->o4 = run->o3;
	run->o3 = run->o2;
	run->o2 = run->o1;
	run->o1 = out;
}

static __always_inline __u64 inc_add_left_next(const struct inc_run *run, __u64 word)
{
	return inc_add_left(word, run->o2, run->o3, run->o4, run->o5);
}

/* Returns what the words that step 1 has removed add to the word at address q + k, by bytes. The
 * removed words are stored from q + from up to q + to. The numbers k, from and to are constants in
 * each caller. */
static __always_inline __u64 inc_folded(const __u8 *q, int k, int from, int to)
{
	__u64 word = 0;

#define INC_FOLDED(reach)                               \
	if (k - (reach) > from - 8 && k - (reach) < to) \
	word ^= INC_WORD(q, k - (reach))
	INC_FOLDED(145);
	INC_FOLDED(183);
	INC_FOLDED(211);
	INC_FOLDED(INC_FOLD_REACH);
#undef INC_FOLDED
	return word;
}

/* Removes len bytes at *p, and stores the removed words at *q. Afterwards both point behind these
 * bytes. The first word is xored with state. If first is true, the run begins here, so no earlier
 * word adds anything. Each caller gives constants for len and first. */
static __always_inline void inc_take(const __u8 **p, __u8 **q, int len, bool first, __u64 state)
{
#pragma unroll
	for (int k = 0; k < len; k += 8) {
		__u64 word = INC_WORD(*p, k) ^ inc_folded(*q, k, first ? 0 : -INC_CRC_MAX_LEN, len);

		*(__u64 *)(*q + k) = k ? word : word ^ state;
	}
	*p += len;
	*q += len;
}

/*
 * Step 1: removes len bytes of the row from offset off, a multiple of INC_FOLD_BLOCK; state is
 * xored into the first word.
 *
 * verifier 6.1: a function of its own, which the verifier walks once. Inside inc_crc_row() it
 * would walk all that follows again for every number of rounds, more than a million instructions.
 */
__noinline int inc_take_blocks(struct inc_buf *row, struct inc_fold *fold, __u32 off, __u32 len,
			       __u32 state)
{
	const __u8 *p;
	__u32 i;
	__u8 *q;

	if (!row || !fold || off > offsetof(struct inc_buf, payload))
		return 0;
	p = (const __u8 *)row + off;
	q = fold->taken;
	if (len >= INC_FOLD_START) {
		inc_take(&p, &q, INC_FOLD_START, true, state);
		i = INC_FOLD_START;
	} else {
		inc_take(&p, &q, INC_FOLD_BLOCK, true, state);
		i = INC_FOLD_BLOCK;
	}
	for (; i + INC_FOLD_ROUND <= len && i <= sizeof(fold->taken) - INC_FOLD_ROUND;
	     i += INC_FOLD_ROUND)
		inc_take(&p, &q, INC_FOLD_ROUND, false, 0);
	/* verifier 6.1: less than a round is left, and it would follow more blocks after each
	 * round */
	for (__u32 k = 1; k < INC_FOLD_ROUND / INC_FOLD_BLOCK && i < len; k++) {
		inc_take(&p, &q, INC_FOLD_BLOCK, false, 0);
		i += INC_FOLD_BLOCK;
	}
	return 0;
}

/* Step 2 where step 1 came first, which ended at p in the data and at q in the buffer of removed
 * words. Removes the INC_BEHIND_WORDS words that are always left after step 1, with what the words
 * removed by step 1 add to them. */
static __always_inline void inc_take_behind(const __u8 *p, __u8 *q, struct inc_run *run)
{
#pragma unroll
	for (int k = 0; k < INC_FOLD_BLOCK; k += 8)
		*(__u64 *)(q + k) = 0;
#pragma unroll
	for (int k = 0; k < INC_BEHIND_WORDS * 8; k += 8) {
		__u64 word = INC_WORD(p, k) ^ inc_folded(q, k, -INC_CRC_MAX_LEN, 0);

		/* the first two words of a run have no removed word 2 or more places before them */
		inc_taken(run, k < 16 ? word : inc_add_left_next(run, word));
	}
}

/* Step 2 without step 1. It removes words in groups of five, so that no removed word has to be
 * shifted. */
static __always_inline void inc_take_fives(const __u8 *p, __u32 words, struct inc_run *run)
{
	for (__u32 i = 0; i < words && i <= INC_SHORT_WORDS - 5; i += 5) {
		run->o5 = inc_add_left(INC_WORD(p, 0) ^ run->state, run->o2, run->o3, run->o4,
				       run->o5);
		run->o4 = inc_add_left(INC_WORD(p, 8), run->o1, run->o2, run->o3, run->o4);
		run->o3 = inc_add_left(INC_WORD(p, 16), run->o5, run->o1, run->o2, run->o3);
		run->o2 = inc_add_left(INC_WORD(p, 24), run->o4, run->o5, run->o1, run->o2);
		run->o1 = inc_add_left(INC_WORD(p, 32), run->o3, run->o4, run->o5, run->o1);
		run->state = 0;
		p += 40;
	}
}

/* Returns w << a ^ w << b ^ w << c. The shifts a, b and c are constants in descending order. */
static __always_inline __u64 inc_left3(__u64 w, int a, int b, int c)
{
	__u64 t = w << (a - b) ^ w;

	inc_opaque(t);
	t = t << (b - c) ^ w;
	inc_opaque(t);
	return t << c;
}

static __always_inline __u64 inc_right3(__u64 w, int a, int b, int c)
{
	__u64 t = w >> (a - b) ^ w;

	inc_opaque(t);
	t = t >> (b - c) ^ w;
	inc_opaque(t);
	return t >> c;
}

/*
 * Removes the first two of the last five words, by bits. Modulo the CRC's polynomial x^0 is the sum
 * of x^-96, x^-128, x^-139, x^-142, x^-190 and x^-239. That removes the first word and changes the
 * other four. It is also the sum of x^-68, x^-84, x^-92, x^-93, x^-124 and x^-161. That removes the
 * second word and changes the last three.
 */
static __always_inline void inc_take_two(__u64 w[INC_LAST_WORDS])
{
	__u64 t;

	w[1] ^= w[0] << 32;
	w[2] ^= inc_left3(w[0], 62, 14, 11) ^ w[0] >> 32 ^ w[0];
	w[3] ^= inc_right3(w[0], 53, 50, 2) ^ w[0] << 47;
	w[4] ^= w[0] >> 17;
	inc_opaque(w[1]);
	t = inc_left3(w[1], 56, 25, 24) ^ w[1] << 16 ^ w[1];
	w[2] ^= t << 4;
	t = inc_right3(w[1], 56, 40, 32) ^ w[1] >> 31 ^ w[1];
	w[3] ^= t >> 4 ^ w[1] << 33;
	w[4] ^= w[1] >> 31;
}

/* Step 3: processes the words at p, with what step 2 adds to them and the result of step 1, stored
 * at z. Step 2 adds less to each further word, because it has removed none of these words. So the
 * terms for w[2] to w[4] are those of inc_add_left() without the words that were not removed. */
static __always_inline __u32 inc_last_words(const __u8 *p, const __u8 *z, struct inc_run *run)
{
	__u64 w[INC_LAST_WORDS], o1 = run->o1, o2 = run->o2, o3 = run->o3, t;

	w[0] = inc_add_left_next(run, INC_WORD(p, 0) ^ INC_WORD(z, 0) ^ run->state);
	w[1] = inc_add_left(INC_WORD(p, 8) ^ INC_WORD(z, 8), o1, o2, o3, run->o4);
	t = inc_right_words(o1, o2, o3);
	w[2] = o2 << 25 ^ o1;
	inc_opaque(w[2]);
	w[2] = w[2] << 19 ^ t >> 9 ^ INC_WORD(p, 16) ^ INC_WORD(z, 16);
	w[3] = o1 << 44 ^ (o1 >> 25 ^ o2) >> 20 ^ INC_WORD(p, 24) ^ INC_WORD(z, 24);
	w[4] = o1 >> 20 ^ INC_WORD(p, 32) ^ INC_WORD(z, 32);
	inc_take_two(w);
	run->state = 0;
	return inc_crc_word64(inc_crc_word64(inc_crc_word64(0, w[2]), w[3]), w[4]);
}

/* The CRC of a run that is too short for the three steps. */
static __always_inline __u32 inc_few_words(const __u8 *p, __u32 words, __u32 len, __u32 state)
{
	for (int k = 0; k < INC_LAST_WORDS - 1 && words; k++, words--, p += 8)
		state = inc_crc_word64(state, INC_WORD(p, 0));
	return len & 4 ? inc_crc_word(state, *(const __u32 *)p) : state;
}

/*
 * Returns the CRC state after len bytes of a row from offset off, from a start state. The offset is
 * at least that of hdr and at most that of payload. The length is a multiple of 4, at most
 * INC_CRC_MAX_LEN. The function is global and not inline, so that the verifier walks it only once.
 */
__noinline __u32 inc_crc_row(struct inc_buf *row, __u32 off, __u32 len, __u32 state)
{
	__u32 words, at, more, zero = 0;
	struct inc_fold *fold = bpf_map_lookup_elem(&inc_fold, &zero);
	struct inc_run run = {.state = state};
	const __u8 *start, *p, *z, *last, *last_z;

	if (!row || !fold || off > offsetof(struct inc_buf, payload) || len > INC_CRC_MAX_LEN)
		return 0;
	inc_opaque(off);
	if (off < offsetof(struct inc_buf, hdr))
		return 0;
	inc_opaque(len);
	start = (const __u8 *)row + off;
	words = len >> 3;
	inc_opaque(words);
	if (words < INC_LAST_WORDS)
		return inc_few_words(start, words, len, state);
	last = start + (words - INC_LAST_WORDS) * 8;
	if (len >= INC_FOLD_MIN) {
		at = (len - INC_FOLD_REACH) & -INC_FOLD_BLOCK;
		inc_take_blocks(row, fold, off, at, state);
		run.state = 0;
		p = start + at;
		inc_take_behind(p, fold->taken + at, &run);
		p += INC_BEHIND_WORDS * 8;
		z = fold->taken + at + (INC_BEHIND_WORDS * 8 - INC_FOLD_REACH);
		more = words - INC_LAST_WORDS - INC_BEHIND_WORDS - at / 8;
		/* this address of step 1's words may lie before the member `taken`, among the zeros
		 * of the member `before` */
		last_z = (const __u8 *)fold + offsetof(struct inc_fold, taken) - INC_FOLD_REACH +
			 (words - INC_LAST_WORDS) * 8;
	} else {
		at = (words - INC_LAST_WORDS) / 5 * 5;
		inc_take_fives(start, at, &run);
		/* verifier 6.1: the number of words is always within this bound, but the verifier
		 * does not follow the division */
		inc_opaque(at);
		if (at > INC_SHORT_WORDS - 5)
			return 0;
		p = start + at * 8;
		z = fold->before;
		more = words - INC_LAST_WORDS - at;
		last_z = fold->before;
	}
	/* step 2 removes the words behind the first INC_BEHIND_WORDS, but not the last five, which
	 * are for step 3 */
	for (__u32 k = 0; k < 4 && k < more; k++) {
		inc_taken(&run, inc_add_left_next(&run, INC_WORD(p, k * 8) ^ INC_WORD(z, k * 8) ^
								run.state));
		run.state = 0;
	}
	state = inc_last_words(last, last_z, &run);
	if (len & 4)
		state = inc_crc_word(state, *(const __u32 *)(last + INC_LAST_WORDS * 8) ^
						    *(const __u32 *)(last_z + INC_LAST_WORDS * 8));
	return state;
}

/*
 * Copies the packet from its IP header to its ICRC into the row, so that the payload is in
 * row->payload, and checks the ICRC there. A row without a counted contribution may be written
 * before the check, because no program reads it until the contribution's arrival bit is set.
 */
__noinline int inc_load_checked(struct xdp_md *ctx, struct inc_buf *row, __u32 hdr_len,
				__u32 body_len)
{
	__u32 off, icrc;
	__u8 *hdr;

	if (!row || hdr_len > INC_BUF_HDR || body_len > INC_MAX_PAYLOAD)
		return 0;
	/* verifier 6.1: without inc_opaque() the compiler merges both checks of hdr_len into one
	 * check of a difference, from which the verifier learns no bounds */
	inc_opaque(hdr_len);
	if (hdr_len < INC_IP_TO_BTH_LEN)
		return 0;
	inc_opaque(body_len);
	off = offsetof(struct inc_buf, payload) - hdr_len;
	hdr = (__u8 *)row + off;
	if (bpf_xdp_load_bytes(ctx, INC_ETH_LEN, hdr, hdr_len + body_len + INC_ICRC_LEN))
		return 0;
	if (!inc_check_icrc)
		return 1;
	inc_icrc_mask(hdr);
	icrc = ~inc_crc_row(row, off, hdr_len + body_len, INC_ICRC_SEED);
	return icrc == *(__u32 *)(row->payload + body_len);
}

#endif
