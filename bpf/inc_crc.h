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
 * 3. The last five words go through tables.
 *
 * The row is only read. Each word collects what the removed words before it add to it; step 1
 * stores the removed words in a buffer of its own.
 */
#ifndef INC_CRC_H
#define INC_CRC_H

#include "bpf/inc_maps.h"

#define INC_CRC_MAX_LEN (INC_BUF_HDR + INC_MAX_PAYLOAD)

#define INC_FOLD_REACH 300
#define INC_FOLD_BLOCK 32 /* number of bytes that step 1 removes in one round */
#define INC_FOLD_MIN   (INC_FOLD_REACH + INC_FOLD_BLOCK)
#define INC_LAST_WORDS 5 /* number of words that step 3 processes */
/* Words for step 2. After step 1 there are at least INC_BEHIND_WORDS. Without step 1 there are at
 * most INC_SHORT_WORDS, and the words of step 3 count as well. */
#define INC_BEHIND_WORDS (INC_FOLD_REACH / 8 - INC_LAST_WORDS)
#define INC_SHORT_WORDS  ((INC_FOLD_MIN - 4) / 8)

struct inc_fold {
	/* zeros, because step 1 has removed no word before the first */
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

static __always_inline __u32 inc_crc_word(__u32 state, __u32 word)
{
	state ^= word;
	return inc_crc_table[3][state & 0xff] ^ inc_crc_table[2][state >> 8 & 0xff] ^
	       inc_crc_table[1][state >> 16 & 0xff] ^ inc_crc_table[0][state >> 24];
}

static __always_inline __u32 inc_crc_word64(__u32 state, __u64 word)
{
	word ^= state;
	return inc_crc_table[7][word & 0xff] ^ inc_crc_table[6][word >> 8 & 0xff] ^
	       inc_crc_table[5][word >> 16 & 0xff] ^ inc_crc_table[4][word >> 24 & 0xff] ^
	       inc_crc_table[3][word >> 32 & 0xff] ^ inc_crc_table[2][word >> 40 & 0xff] ^
	       inc_crc_table[1][word >> 48 & 0xff] ^ inc_crc_table[0][word >> 56];
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

/*
 * Returns what the removed words 2 to 5 places before a word add to it, by bits: o2 << 17 ^ o2 <<
 * 55 ^ o3 << 19 ^ o4 << 44 ^ o3 >> 47 ^ o3 >> 9 ^ o4 >> 45 ^ o5 >> 20. The shifts are nested,
 * which saves a copy for each, and inc_opaque() stops the compiler from undoing that. Callers
 * compute this before they load the word itself, because BPF has no register to spare.
 */
static __always_inline __u64 inc_left(__u64 o2, __u64 o3, __u64 o4, __u64 o5)
{
	__u64 t = o3 >> 2 ^ o4, u;

	inc_opaque(t);
	t = t >> 25 ^ o5;
	inc_opaque(t);
	t = t >> 11 ^ o3;
	inc_opaque(t);
	t >>= 9;
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

/* Shifts the removed words of the run by one place, and adds the word removed now. */
static __always_inline void inc_taken(struct inc_run *run, __u64 out)
{
	run->o5 = run->o4;
	run->o4 = run->o3;
	run->o3 = run->o2;
	run->o2 = run->o1;
	run->o1 = out;
}

static __always_inline __u64 inc_left_next(const struct inc_run *run)
{
	return inc_left(run->o2, run->o3, run->o4, run->o5);
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
	__u64 first = state;
	const __u8 *p;
	__u8 *q;

	if (!row || !fold || off > offsetof(struct inc_buf, payload))
		return 0;
	p = (const __u8 *)row + off;
	q = fold->taken;
	for (__u32 i = 0; i < len && i <= sizeof(fold->taken) - INC_FOLD_BLOCK;
	     i += INC_FOLD_BLOCK) {
#pragma unroll
		for (int k = 0; k < INC_FOLD_BLOCK; k += 8) {
			*(__u64 *)(q + k) = INC_WORD(p, k) ^ INC_WORD(q, k - 145) ^
					    INC_WORD(q, k - 183) ^ INC_WORD(q, k - 211) ^
					    INC_WORD(q, k - 300) ^ first;
			first = 0;
		}
		p += INC_FOLD_BLOCK;
		q += INC_FOLD_BLOCK;
	}
	return 0;
}

/* Step 2 after step 1, which ended at p and, in the buffer, at q. Removes the words that are
 * always there, with what step 1 adds to them. */
static __always_inline void inc_take_behind(const __u8 *p, __u8 *q, struct inc_run *run)
{
#pragma unroll
	for (int k = 0; k < INC_FOLD_BLOCK; k += 8)
		*(__u64 *)(q + k) = 0;
#pragma unroll
	for (int k = 0; k < INC_BEHIND_WORDS * 8; k += 8) {
		__u64 word = inc_left_next(run) ^ INC_WORD(p, k) ^ INC_WORD(q, k - 300);

		if (k < 145)
			word ^= INC_WORD(q, k - 145);
		if (k < 183)
			word ^= INC_WORD(q, k - 183);
		if (k < 211)
			word ^= INC_WORD(q, k - 211);
		inc_taken(run, word);
	}
}

/* Step 2 without step 1. It removes words in groups of five, so that no removed word has to be
 * shifted. */
static __always_inline void inc_take_fives(const __u8 *p, __u32 words, struct inc_run *run)
{
	for (__u32 i = 0; i < words && i <= INC_SHORT_WORDS - 5; i += 5) {
		run->o5 =
			inc_left(run->o2, run->o3, run->o4, run->o5) ^ INC_WORD(p, 0) ^ run->state;
		run->o4 = inc_left(run->o1, run->o2, run->o3, run->o4) ^ INC_WORD(p, 8);
		run->o3 = inc_left(run->o5, run->o1, run->o2, run->o3) ^ INC_WORD(p, 16);
		run->o2 = inc_left(run->o4, run->o5, run->o1, run->o2) ^ INC_WORD(p, 24);
		run->o1 = inc_left(run->o3, run->o4, run->o5, run->o1) ^ INC_WORD(p, 32);
		run->state = 0;
		p += 40;
	}
}

/* Step 3: processes the words at p, with what step 2 adds to them and the result of step 1,
 * stored at z. */
static __always_inline __u32 inc_last_words(const __u8 *p, const __u8 *z, struct inc_run *run)
{
	__u32 state = run->state;

	run->state = 0;
#pragma unroll
	for (int k = 0; k < INC_LAST_WORDS * 8; k += 8) {
		state = inc_crc_word64(state, inc_left_next(run) ^ INC_WORD(p, k) ^ INC_WORD(z, k));
		inc_taken(run, 0);
	}
	return state;
}

/* The CRC of a run that is too short for the three steps. */
static __always_inline __u32 inc_few_words(const __u8 *p, __u32 words, __u32 len, __u32 state)
{
	for (int k = 0; k < INC_LAST_WORDS - 1 && words; k++, words--, p += 8)
		state = inc_crc_word64(state, INC_WORD(p, 0));
	return len & 4 ? inc_crc_word(state, *(const __u32 *)p) : state;
}

/*
 * CRC state over len bytes of a row from offset off, from a start state. The offset is at least
 * that of hdr and at most that of payload. The length is a multiple of 4, at most INC_CRC_MAX_LEN.
 * It is a function of its own, so that the verifier walks it once.
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
		/* this address may be before the member `taken` */
		last_z = (const __u8 *)fold + offsetof(struct inc_fold, taken) - INC_FOLD_REACH +
			 (words - INC_LAST_WORDS) * 8;
	} else {
		at = (words - INC_LAST_WORDS) / 5 * 5;
		inc_take_fives(start, at, &run);
		/* verifier 6.1: the condition is always true, but the verifier does not follow the
		 * division */
		inc_opaque(at);
		if (at > INC_SHORT_WORDS - 5)
			return 0;
		p = start + at * 8;
		z = fold->before;
		more = words - INC_LAST_WORDS - at;
		last_z = fold->before;
	}
	/* step 2 for the words after the first INC_BEHIND_WORDS, except the last five */
	for (__u32 k = 0; k < 4 && k < more; k++) {
		inc_taken(&run, inc_left_next(&run) ^ INC_WORD(p, k * 8) ^ INC_WORD(z, k * 8) ^
					run.state);
		run.state = 0;
	}
	state = inc_last_words(last, last_z, &run);
	if (len & 4)
		state = inc_crc_word(state, *(const __u32 *)(last + INC_LAST_WORDS * 8) ^
						    *(const __u32 *)(last_z + INC_LAST_WORDS * 8));
	return state;
}

#endif
