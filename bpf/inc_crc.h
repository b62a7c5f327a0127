/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC-32 of the ICRC. States here carry no initial and no final xor.
 *
 * Long runs go without a table (Chorba, arXiv 2412.16398): modulo the CRC-32 polynomial
 * x^0 = x^-145 + x^-183 + x^-211 + x^-300, so a word can be taken out by xoring it,
 * shifted, into the words 2 to 5 places on. The five words left over go through tables.
 */
#ifndef INC_CRC_H
#define INC_CRC_H

#include "bpf/inc_maps.h"

#define INC_CRC_MAX_LEN (INC_BUF_HDR + INC_MAX_PAYLOAD)

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

/* The state after len more zero bytes; len is a multiple of 4, below 4096. */
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

/*
 * One word out: the word at hand, plus what the words 2 to 5 places before it, already
 * taken out, leave for it:
 *   o2 << 17 ^ o2 << 55 ^ o3 << 19 ^ o4 << 44 ^ o3 >> 47 ^ o3 >> 9 ^ o4 >> 45 ^ o5 >> 20
 * The shifts are nested, which saves a copy for each; the compiler would undo that. The
 * result takes the place of o5.
 */
#define INC_TAKE_OUT(word, o2, o3, o4, o5)     \
	do {                                   \
		__u64 t = (o3) >> 2 ^ (o4), u; \
		inc_opaque(t);                 \
		t = t >> 25 ^ (o5);            \
		inc_opaque(t);                 \
		t = t >> 11 ^ (o3);            \
		inc_opaque(t);                 \
		(o5) = (word) ^ t >> 9;        \
		t = (o4) << 25 ^ (o3);         \
		inc_opaque(t);                 \
		u = (o2) << 38;                \
		inc_opaque(u);                 \
		t = t << 2 ^ (o2);             \
		inc_opaque(t);                 \
		t ^= u;                        \
		inc_opaque(t);                 \
		(o5) ^= t << 17;               \
		inc_opaque(o5);                \
	} while (0)

/*
 * CRC state over len bytes of a row from offset off, from a start state. off is at least
 * that of hdr and at most that of payload; len is a multiple of 4, at most
 * INC_CRC_MAX_LEN. A function of its own, so that the verifier walks it once; the index of
 * what follows the loop is computed apart from the loop's, so that all ways out of it
 * look the same to the verifier.
 */
__noinline __u32 inc_crc_row(struct inc_buf *row, __u32 off, __u32 len, __u32 state)
{
	__u64 o1 = 0, o2 = 0, o3 = 0, o4 = 0, o5 = 0;
	__u32 words, rest, at = 0;
	const __u8 *p;

	if (!row || off > offsetof(struct inc_buf, payload) || len > INC_CRC_MAX_LEN)
		return 0;
	inc_opaque(off);
	if (off < offsetof(struct inc_buf, hdr))
		return 0;
	inc_opaque(len);
	p = (const __u8 *)row + off;
	words = len >> 3;
	rest = words;

#define W(i) (*(const __u64 *)(p + (__u64)(i)*8))
	if (words > 5) {
		__u32 end = (words - 6) / 5 * 5 + 1;

		rest = (words - 6) % 5 + 5;
		at = words - rest;
		o1 = W(0) ^ state;
		state = 0;
		for (__u32 i = 1; i < end && i <= INC_CRC_MAX_LEN / 8 - 5; i += 5) {
			INC_TAKE_OUT(W(i), o2, o3, o4, o5);
			INC_TAKE_OUT(W(i + 1), o1, o2, o3, o4);
			INC_TAKE_OUT(W(i + 2), o5, o1, o2, o3);
			INC_TAKE_OUT(W(i + 3), o4, o5, o1, o2);
			INC_TAKE_OUT(W(i + 4), o3, o4, o5, o1);
		}
	}
	inc_opaque(at);
	if (at > INC_CRC_MAX_LEN / 8 - 8) /* never: rest is at least 5 */
		return 0;
	p += (__u64)at * 8;
	/* rest is 5 to 9 here (or all there is): what exceeds five words is taken out, too; the
	 * last five get what is left for them, but stay: they are the remainder */
	for (int k = 0; k < 9; k++) {
		__u64 out = o5;

		if (!rest)
			break;
		INC_TAKE_OUT(W(0), o2, o3, o4, out);
		o5 = o4;
		o4 = o3;
		o3 = o2;
		o2 = o1;
		if (rest > 5) {
			o1 = out;
		} else {
			state = inc_crc_word64(state, out);
			o1 = 0;
		}
		p += 8;
		rest--;
	}
	if (len & 4)
		state = inc_crc_word(state, W(0));
#undef W
	return state;
}

#endif
