/* SPDX-License-Identifier: BSD-2-Clause */
/* The loops of crc_fold.h, after the functions that they need. */
#ifndef INC_CRC_LOOP_H
#define INC_CRC_LOOP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "lib/roce/crc_fold.h"

#define NO 0x80 /* an index above 127, for which part_pick() gives 0 */

/* Indices for part_pick() that move the bytes of a part. The 16 indices from number n on move them
 * by 16 - n to the end, or by n - 16 to the beginning. The other bytes become zeros. */
static const uint8_t moves[48] = {NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
				  0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
				  NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO};

/* Adds the last bytes of the data to the part x, which has all bytes before. There are n of them,
 * fewer than 16, and they end at `end`. Together they are 16 + n bytes, of which the first n are
 * folded into the other 16. */
INC_INLINE part add_rest(part x, const uint8_t *end, size_t n)
{
	const part rest = part_pick(part_pick(part_load(end - 16), moves + 32 - n), moves + n);
	const part first = part_pick(x, moves + n), others = part_pick(x, moves + 16 + n);

	return part_add(part_fold(first), part_add(others, rest));
}

/* Reads one vec of the data, and copies it to `to`, unless that is NULL. */
INC_INLINE vec take(uint8_t *to, const uint8_t *p, size_t at)
{
	const vec v = load(p + at);

	if (to)
		store(to + at, v);
	return v;
}

/* Folds whole vecs from `at` on, as long as there are INC_CRC_LANES of them. The lanes have names,
 * because a compiler keeps the elements of an array in memory. Returns the last lane, into which
 * the others are folded. */
INC_INLINE vec fold_lanes(uint32_t state, uint8_t *to, const uint8_t *p, size_t len, size_t *at)
{
	const size_t step = INC_CRC_LANES * VEC;
	vec a = add(take(to, p, 0), of_state(state));
	vec b = take(to, p, VEC), c = take(to, p, 2 * VEC), d = take(to, p, 3 * VEC);

	for (*at = step; *at + step <= len; *at += step) {
		a = add(fold(a, step), take(to, p, *at));
		b = add(fold(b, step), take(to, p, *at + VEC));
		c = add(fold(c, step), take(to, p, *at + 2 * VEC));
		d = add(fold(d, step), take(to, p, *at + 3 * VEC));
	}
	b = add(fold(a, VEC), b);
	c = add(fold(b, VEC), c);
	return add(fold(c, VEC), d);
}

/* Returns the CRC state after 4 to 15 bytes. These are the last bytes of a part that begins with
 * zeros, because zeros at the beginning do not change a remainder. */
INC_INLINE uint32_t crc_of_few(uint32_t state, const uint8_t *p, size_t len)
{
	const unsigned int zeros = 16 - (unsigned int)len;
	const unsigned __int128 before = (unsigned __int128)state << 8 * zeros;
	uint64_t first = 0, last, a;
	uint32_t c, d;

	if (len >= 8) {
		memcpy(&a, p, sizeof(a));
		memcpy(&last, p + len - sizeof(last), sizeof(last));
		first = zeros < 8 ? a << 8 * zeros : 0;
	} else {
		memcpy(&c, p, sizeof(c));
		memcpy(&d, p + len - sizeof(d), sizeof(d));
		last = (uint64_t)d << 32 | (uint64_t)c << 8 * (zeros - 8);
	}
	return part_end(part_of(first ^ (uint64_t)before, last ^ (uint64_t)(before >> 64)));
}

/* Returns the CRC state after len bytes, at least 16. to: where the bytes are copied; NULL:
 * nowhere. Each caller has a constant NULL or never NULL, so the compiler makes a loop for each. */
INC_INLINE uint32_t crc_of(uint32_t state, uint8_t *to, const uint8_t *p, size_t len)
{
	size_t at = 0;
	part x = part_of(state, 0), next;
	vec v;

	if (len >= INC_CRC_LANES * VEC) {
		v = fold_lanes(state, to, p, len, &at);
		for (; at + VEC <= len; at += VEC)
			v = add(fold(v, VEC), take(to, p, at));
		x = to_part(v);
	} else {
		x = part_add(x, part_load(p));
		if (to)
			part_store(to, part_load(p));
		at = 16;
	}
	for (; at + 16 <= len; at += 16) {
		next = part_load(p + at);
		if (to)
			part_store(to + at, next);
		x = part_add(part_fold(x), next);
	}
	if (at == len)
		return part_end(x);
	if (to)
		part_store(to + len - 16, part_load(p + len - 16));
	return part_end(add_rest(x, p + len, len - at));
}

INC_TARGET static uint32_t update(uint32_t state, const uint8_t *data, size_t len)
{
	return len < 16 ? crc_of_few(state, data, len) : crc_of(state, NULL, data, len);
}

INC_TARGET static uint32_t copy(uint32_t state, uint8_t *to, const uint8_t *data, size_t len)
{
	return crc_of(state, to, data, len);
}

#endif
