/* SPDX-License-Identifier: BSD-2-Clause */
/* The floats that inccl-perf sends (perf_data.h). */
#include <math.h>
#include <string.h>
#include "lib/reduce/floats.h"
#include "hostlib/tools/perf_data.h"

#define DOUBLE_BIAS     1023
#define DOUBLE_MANTISSA 52

struct format {
	unsigned int bytes;
	unsigned int mantissa_bits;
	int bias;
};

static struct format format_of(enum inccl_dtype dtype)
{
	static const struct format formats[] = {
#define _(NAME, name, bits, mantissa) \
	[INC_##NAME] = {(bits) / 8, mantissa, (1 << ((bits) - (mantissa)-2)) - 1},
		INC_FLOATS(_)
#undef _
	};

	return formats[dtype - INCCL_FLOAT32];
}

/* Returns element i of a rank's vector of floats. It has 8 significant bits, which every type can
 * represent, and sums of such numbers are exact in double. It is 0, or between 2^-4 and 2^10 in
 * size; factors are so close to 1 that no product overflows its type. */
static double number(enum inccl_op op, uint32_t rank, uint64_t i, uint32_t iter)
{
	static const double powers[] = {0x1p-4, 0x1p-3, 0x1p-2, 0x1p-1, 1, 0x1p1, 0x1p2, 0x1p3};
	uint64_t v = perf_value(rank, i, iter);

	if (op == INCCL_PROD)
		return (v >> 40 & 1 ? -1 : 1) * (1 + (double)(v >> 32 & 1) / 128);
	return ((int)(v >> 32 & 0xff) - 128) * powers[v >> 40 & 7];
}

/* Converts a value of number() to the bits of its type. The type has enough bits for it, and it is
 * a normal number there, so the bits of the double only move. */
static uint64_t encode(const struct format *f, double v)
{
	const uint64_t sign = 1ull << (8 * f->bytes - 1);
	uint64_t bits;

	if (v == 0)
		return 0;
	memcpy(&bits, &v, sizeof(bits));
	bits &= INT64_MAX;
	bits -= (uint64_t)(DOUBLE_BIAS - f->bias) << DOUBLE_MANTISSA;
	return (v < 0 ? sign : 0) | bits >> (DOUBLE_MANTISSA - f->mantissa_bits);
}

/* Converts the bits of a float to double. Infinities and NaN become large numbers, which are wrong
 * in any result. */
static double decode(const struct format *f, uint64_t bits)
{
	const uint64_t sign = 1ull << (8 * f->bytes - 1);
	const uint64_t size = bits & (sign - 1);
	uint64_t wide = size << (DOUBLE_MANTISSA - f->mantissa_bits);
	double v;

	if (size >> f->mantissa_bits) {
		wide += (uint64_t)(DOUBLE_BIAS - f->bias) << DOUBLE_MANTISSA;
		memcpy(&v, &wide, sizeof(v));
	} else {
		v = ldexp(size, 1 - f->bias - (int)f->mantissa_bits);
	}
	return bits & sign ? -v : v;
}

static uint64_t bits_at(const struct format *f, const void *data, size_t i)
{
	if (f->bytes == 8)
		return ((const uint64_t *)data)[i];
	return f->bytes == 4 ? ((const uint32_t *)data)[i] : ((const uint16_t *)data)[i];
}

void perf_float_fill(enum inccl_dtype dtype, void *data, size_t count, enum inccl_op op,
		     uint32_t rank, uint32_t iter)
{
	const struct format f = format_of(dtype);

	for (size_t i = 0; i < count; i++)
		if (f.bytes == 8)
			((uint64_t *)data)[i] = encode(&f, number(op, rank, i, iter));
		else if (f.bytes == 4)
			((uint32_t *)data)[i] = (uint32_t)encode(&f, number(op, rank, i, iter));
		else
			((uint16_t *)data)[i] = (uint16_t)encode(&f, number(op, rank, i, iter));
}

/* Returns the largest element, over all ranks, of the block with element i. The last block is
 * treated as a whole one, which can only widen its bound. */
static double largest(const struct perf_piece *p, uint64_t i, unsigned int block)
{
	const uint64_t first = i / block * block;
	double most = 0, v;

	for (uint32_t r = 0; r < p->ranks; r++)
		for (uint64_t k = first; k < first + block; k++) {
			v = fabs(number(p->op, p->first + r, k, p->iter));
			most = v > most ? v : most;
		}
	return most;
}

static double ulp_at(const struct format *f, uint64_t bits)
{
	return fabs(decode(f, bits + 1) - decode(f, bits));
}

/* Returns by how much a result may differ from the exact one, if switches add floats as integers.
 * most is the largest element of its block. */
static double fixed_bound(const struct perf_piece *p, const struct format *f, double most,
			  uint64_t got, unsigned int float_bits)
{
	/* the integers of float64 have 32 bits more, and its exponents are multiples of 8 */
	const int bits = (int)float_bits + (f->bytes == 8 ? 32 - 7 : 0);
	const double rounding = ldexp(most, -bits);

	/* the factor allows for the exact average, which is itself rounded to double */
	return ((p->op == INCCL_AVG ? 1 : p->ranks) * rounding + ulp_at(f, got) / 2) *
	       (1 + 0x1p-30);
}

/* Returns by how much a result may differ from the exact one, if switches add floats natively. want
 * is the exact result, and all the sum of the absolute values, or the product. */
static double native_bound(const struct perf_piece *p, const struct format *f, double want,
			   double all, uint64_t got, unsigned int roundings)
{
	const bool half = f->bytes < 4;
	/* relative error of one rounding to a type of 16 bits; 0 for others */
	const double own = half ? 0.5 / (1u << f->mantissa_bits) : 0;
	/* that of one step; a product of float64 is compared with one that has been rounded, too */
	const double step = f->bytes < 8 ? 0x1p-24 : 0x1p-52;
	double bound = (p->ranks - 1) * step * all + (roundings - 1) * own * all;

	if (p->op == INCCL_AVG)
		bound = bound / p->ranks + own * fabs(want);
	if (half || p->op == INCCL_AVG)
		bound += ulp_at(f, got) / 2;
	return bound * (1 + 0x1p-10);
}

/* Returns the exact element i of a result. *all receives the sum of the absolute values of what it
 * combines, or their product. */
static double exact(const struct perf_piece *p, size_t i, double *all)
{
	double want = number(p->op, p->first, p->offset + i, p->iter), v;

	*all = fabs(want);
	for (uint32_t r = 1; r < p->ranks; r++) {
		v = number(p->op, p->first + r, p->offset + i, p->iter);
		if (p->op == INCCL_MIN)
			want = v < want ? v : want;
		else if (p->op == INCCL_MAX)
			want = v > want ? v : want;
		else if (p->op == INCCL_PROD)
			want *= v;
		else
			want += v;
		*all = p->op == INCCL_PROD ? fabs(want) : *all + fabs(v);
	}
	return p->op == INCCL_AVG ? want / p->ranks : want;
}

uint64_t perf_float_count_wrong(enum inccl_dtype dtype, const struct perf_piece *p,
				const struct perf_bound *b)
{
	const struct format f = format_of(dtype);
	double want, all, most = 0, bound;
	uint64_t wrong = 0, got;

	for (size_t i = 0; i < p->count; i++) {
		want = exact(p, i, &all);
		got = bits_at(&f, p->data, i);
		if (p->ranks == 1 || p->op == INCCL_MIN || p->op == INCCL_MAX) {
			wrong += got != encode(&f, want);
			continue;
		}
		if (!b->native && (!i || (p->offset + i) % b->block == 0))
			most = largest(p, p->offset + i, b->block);
		bound = b->native ? native_bound(p, &f, want, all, got, b->roundings)
				  : fixed_bound(p, &f, most, got, b->float_bits);
		wrong += !(fabs(decode(&f, got) - want) <= bound);
	}
	return wrong;
}
