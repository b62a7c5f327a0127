/* SPDX-License-Identifier: BSD-2-Clause */
#include <math.h>
#include "selftests/reduce/exact.h"

#define UNIT_EXPONENT (-1200)

#define SIGNIFICANT 54

void exact_add(struct exact *e, long double value, int32_t factor)
{
	int exponent;
	/* the significant bits of the value, as an integer */
	int64_t integer = (int64_t)ldexpl(frexpl(value, &exponent), SIGNIFICANT);
	int place = exponent - SIGNIFICANT - UNIT_EXPONENT;
	__int128 wide;

	if (!integer)
		return;
	/* shifts out the bits below the unit, which are zeros */
	for (; place < 0; place++)
		integer /= 2;
	wide = (__int128)integer * factor * ((__int128)1 << place % 32);
	e->limb[place / 32] += (int64_t)(wide % ((__int128)1 << 32));
	wide /= (__int128)1 << 32;
	e->limb[place / 32 + 1] += (int64_t)(wide % ((__int128)1 << 32));
	wide /= (__int128)1 << 32;
	e->limb[place / 32 + 2] += (int64_t)(wide % ((__int128)1 << 32));
	e->limb[place / 32 + 3] += (int64_t)(wide / ((__int128)1 << 32));
}

/* Propagates carries. Then all limbs except the last are 0 to 2^32 - 1, and the last has the
 * sign. */
static void carry(struct exact *e)
{
	int i;

	for (i = 0; i < EXACT_LIMBS - 1; i++) {
		int64_t low = e->limb[i] & 0xffffffff;

		e->limb[i + 1] += (e->limb[i] - low) / ((int64_t)1 << 32);
		e->limb[i] = low;
	}
}

bool exact_not_positive(struct exact e)
{
	bool zero = true;
	int i;

	carry(&e);
	for (i = 0; i < EXACT_LIMBS; i++)
		zero = zero && !e.limb[i];
	return zero || e.limb[EXACT_LIMBS - 1] < 0;
}

void exact_absolute(struct exact *e)
{
	int i;

	carry(e);
	if (e->limb[EXACT_LIMBS - 1] >= 0)
		return;
	for (i = 0; i < EXACT_LIMBS; i++)
		e->limb[i] = -e->limb[i];
}
