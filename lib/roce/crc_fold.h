/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 by folding, as crc_loop.h does it for each set of instructions. A source defines
 * INC_TARGET, which lets a function use the set's instructions. It includes this header, defines
 * the names below, and includes crc_loop.h.
 *
 *	vec, VEC	a vector of 128-bit parts, and its bytes
 *	load, store	read and write one vec at any address
 *	add		exclusive or
 *	fold		moves each part of a vec forward by some bytes (INC_CRC_KEYS)
 *	of_state	a vec with the state in the first four bytes, and 0 in the others
 *	to_part		folds all parts of a vec into the last one
 *	part		one part; part_load() and the like do the same with it
 *	part_of		a part of two 64-bit numbers, the first of which has the first bytes
 *	part_fold	moves a part forward by 16 bytes
 *	part_pick	the bytes of a part at 16 indices; 0 where an index is above 127
 *	part_end	the state after the bytes of a part
 *
 * The CRC of data is the remainder of a polynomial P, with the data as coefficients. A part that is
 * d bits in front of another one has the same remainder if it is multiplied by x^d mod P and added
 * to the other one. INC_CRC_LANES vectors are folded side by side, because a multiplication takes
 * several cycles until its result is there.
 */
#ifndef INC_CRC_FOLD_H
#define INC_CRC_FOLD_H

#include <stddef.h>
#include <stdint.h>
#include "lib/roce/crc.h"

/* Multipliers that move a 128-bit part of the data forward by so many bytes: one for its first
 * half, and one for its second half. They are x^(8 * bytes + 32) and x^(8 * bytes - 32) mod P,
 * bit-reversed and shifted left by one. */
#define INC_CRC_KEYS(_)                    \
	_(16, 0x1751997d0, INC_CRC_KEY_96) \
	_(32, 0x0f1da05aa, 0x15a546366)    \
	_(64, 0x154442bd4, 0x1c6e41596)    \
	_(128, 0x1e88ef372, 0x14a7fe880)   \
	_(256, 0x11542778a, 0x1322d1430)

/* Constants in the form of INC_CRC_KEYS: x^96 and x^64 mod P; P itself; and the quotient of x^64 by
 * P. */
#define INC_CRC_KEY_96  0x0ccaa009e
#define INC_CRC_KEY_64  0x163cd6124
#define INC_CRC_P       0x1db710641
#define INC_CRC_INVERSE 0x1f7011641

#define INC_INLINE INC_TARGET static inline __attribute__((always_inline))

#endif
