/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC-32 of the ICRC. States here carry no initial and no final xor.
 *
 * Long runs fold 64-bit words without a table (Chorba, arXiv 2412.16398): modulo the
 * CRC-32 polynomial x^0 = x^-145 + x^-183 + x^-211 + x^-300, so a word can be xored,
 * shifted, into the words 2 to 5 places on and then counts as zero. What is left after
 * the last whole step, five words and their corrections, goes through tables.
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

/* One fold: the word leaves, its corrections land 2, 3, 4 and 5 words on. due is the
 * correction due to this word, plus2 to plus4 those of later ones; due comes back as the
 * correction of the word five on. */
#define INC_FOLD(word, due, plus2, plus3, plus4)                                                  \
	do {                                                                                      \
		__u64 w = (word) ^ (due);                                                         \
		(plus2) ^= w << 17 ^ w << 55;                                                     \
		(plus3) ^= w >> 47 ^ w >> 9 ^ w << 19;                                            \
		(plus4) ^= w >> 45 ^ w << 44;                                                     \
		(due) = w >> 20;                                                                  \
	} while (0)

/*
 * CRC state over len bytes of a row from offset off, from a start state. off is at least
 * that of hdr and at most that of payload; len is a multiple of 4, at most
 * INC_CRC_MAX_LEN. A function of its own, so that the verifier walks it once.
 */
__noinline __u32 inc_crc_row(struct inc_buf *row, __u32 off, __u32 len, __u32 state)
{
	__u64 n1, n2 = 0, n3 = 0, n4 = 0, n5 = 0;
	__u32 words, i = 0;
	const __u8 *p;

	if (!row || off > offsetof(struct inc_buf, payload) || len > INC_CRC_MAX_LEN)
		return 0;
	inc_opaque(off);
	if (off < offsetof(struct inc_buf, hdr))
		return 0;
	inc_opaque(len);
	p = (const __u8 *)row + off;
	words = len >> 3;

#define W(k) (*(const __u64 *)(p + (__u64)(i + (k)) * 8))
	if (words >= 10) {
		n1 = state;
		state = 0;
		for (; i + 10 <= words && i < INC_CRC_MAX_LEN / 8; i += 5) {
			INC_FOLD(W(0), n1, n3, n4, n5);
			INC_FOLD(W(1), n2, n4, n5, n1);
			INC_FOLD(W(2), n3, n5, n1, n2);
			INC_FOLD(W(3), n4, n1, n2, n3);
			INC_FOLD(W(4), n5, n2, n3, n4);
		}
	} else {
		n1 = 0;
	}
	/* the corrections outstanding count for the next five words, the rest have none */
	for (int k = 0; k < 10; k++) {
		if (i >= words || i >= INC_CRC_MAX_LEN / 8)
			break;
		state = inc_crc_word64(state, W(0) ^ n1);
		n1 = n2;
		n2 = n3;
		n3 = n4;
		n4 = n5;
		n5 = 0;
		i++;
	}
	if (len & 4 && i < INC_CRC_MAX_LEN / 8)
		state = inc_crc_word(state, W(0));
#undef W
	return state;
}

#endif
