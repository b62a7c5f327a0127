/* SPDX-License-Identifier: BSD-2-Clause */
/* Converts floating-point numbers to integers and back: vectors in blocks, infinities and NaN. */
#include <errno.h>
#include <string.h>
#include "lib/reduce/float_bits.h"
#include "lib/reduce/floats.h"
#include "lib/reduce/fp_mode.h"
#include "lib/reduce/kernels.h"

/* The head of a block has (e + bias) / step, rounded up, if the values of the block are below 2^e.
 * The form with one pass accepts exponents from -bias to max. */
static const struct {
	int32_t bias, step, max;
	unsigned int bits; /* most bits of an integer */
} heads_of[INC_N_FLOATS] = {
#define _(NAME, ...) [INC_##NAME] = {126, 1, 128, 30},
	INC_NARROW_FLOATS(_)
#undef _
		[INC_FLOAT64] = {1016, 8, 1024, 62},
};

/* Returns the address of element i of a vector of floats. */
static const void *at(const struct inc_fixed *f, const void *values, size_t i)
{
	return (const uint8_t *)values + i * inc_float_size(f->type);
}

/* Returns the bits of element i of a vector of floats. */
static uint64_t bits_at(const struct inc_fixed *f, const void *values, size_t i)
{
	uint64_t long_bits;
	uint32_t wide;
	uint16_t narrow;

	switch (inc_float_size(f->type)) {
	case sizeof(long_bits):
		memcpy(&long_bits, at(f, values, i), sizeof(long_bits));
		return long_bits;
	case sizeof(wide):
		memcpy(&wide, at(f, values, i), sizeof(wide));
		return wide;
	default:
		memcpy(&narrow, at(f, values, i), sizeof(narrow));
		return narrow;
	}
}

static void set_bits(const struct inc_fixed *f, void *values, size_t i, uint64_t bits)
{
	uint16_t narrow = (uint16_t)bits;
	uint32_t wide = (uint32_t)bits;
	uint8_t *to = (uint8_t *)values + i * inc_float_size(f->type);

	switch (inc_float_size(f->type)) {
	case sizeof(bits):
		memcpy(to, &bits, sizeof(bits));
		break;
	case sizeof(wide):
		memcpy(to, &wide, sizeof(wide));
		break;
	default:
		memcpy(to, &narrow, sizeof(narrow));
	}
}

size_t inc_float_size(enum inc_float type)
{
	static const uint8_t bytes[INC_N_FLOATS] = {
#define _(NAME, name, bits, mantissa_bits) [INC_##NAME] = (bits) / 8,
		INC_FLOATS(_)
#undef _
	};

	return bytes[type];
}

int64_t inc_float_nan_key(enum inc_float type, enum inc_operator op)
{
	int64_t least = INT64_MIN >> (64 - 8 * inc_float_size(type));

	return op == INC_OPERATOR_MIN ? least : -1 - least;
}

void inc_float_to_order(enum inc_float type, enum inc_operator op, void *keys, const void *values,
			size_t count)
{
	inc_kernels()->floats[type]->to_order(keys, values, count, inc_float_nan_key(type, op));
}

void inc_float_from_order(enum inc_float type, void *values, const void *keys, size_t count)
{
	inc_kernels()->floats[type]->from_order(values, keys, count);
}

void inc_float_divide(enum inc_float type, void *dst, const void *src, size_t count,
		      uint32_t divisor)
{
	inc_fp_mode mode = inc_fp_get();

	/* only a float64 is divided by the CPU's arithmetic */
	inc_fp_set(INC_FP_DEFAULT);
	inc_kernels()->floats[type]->divide(dst, src, count, divisor);
	inc_fp_set(mode);
}

size_t inc_fixed_bytes(enum inc_float type)
{
	return type == INC_FLOAT64 ? sizeof(int64_t) : sizeof(int32_t);
}

int inc_fixed_min_exponent(enum inc_float type)
{
	return -heads_of[type].bias;
}

int inc_fixed_max_exponent(enum inc_float type)
{
	return heads_of[type].max;
}

int inc_fixed_init(struct inc_fixed *f, enum inc_float type, uint32_t block, uint32_t world,
		   struct inc_err *err)
{
	if (!block)
		return inc_err_set(err, EINVAL, "fixed point: blocks of 0 elements");
	if (!world || world > INC_MAX_RANKS)
		return inc_err_set(err, EINVAL, "fixed point: %u ranks are not 1 to %u", world,
				   INC_MAX_RANKS);
	*f = (struct inc_fixed){
		.type = type, .block = block, .world = world, .bits = heads_of[type].bits};
	while (world >> 1) {
		f->bits--;
		world >>= 1;
	}
	return 0;
}

size_t inc_fixed_blocks(const struct inc_fixed *f, size_t count)
{
	return count / f->block + (count % f->block > 0);
}

/* Returns how many of the `count` elements from number `first` on are in the block of the first
 * one. */
static size_t run_of(const struct inc_fixed *f, size_t first, size_t count)
{
	size_t left = f->block - first % f->block;

	return left < count ? left : count;
}

/* Returns the exponent for the head of a block, whose largest finite magnitude is given. */
static uint8_t head_exponent(const struct inc_fixed *f, uint64_t magnitude)
{
	const struct inc_wide_format *format = &inc_wide_formats[f->type];
	const int32_t bias = heads_of[f->type].bias, step = heads_of[f->type].step;
	uint64_t mantissa = inc_wide_mantissa(format, magnitude);
	int32_t exponent;

	if (!mantissa)
		return 0;
	exponent = inc_wide_top_bit(mantissa) + 1 + inc_wide_exponent(format, magnitude);
	return (uint8_t)(exponent < -bias ? 0 : (exponent + bias + step - 1) / step);
}

/* Returns the exponent that a block's head has. */
static int32_t exponent_of(const struct inc_fixed *f, const struct inc_fixed_head *head)
{
	return head->exponent * heads_of[f->type].step - heads_of[f->type].bias;
}

void inc_fixed_heads(const struct inc_fixed *f, struct inc_fixed_head *heads, const void *values,
		     size_t count)
{
	const struct inc_float_kernels *k = inc_kernels()->floats[f->type];
	size_t i, n;

	for (i = 0; i < count; i += n, heads++) {
		bool special;

		n = run_of(f, i, count - i);
		heads->exponent = head_exponent(f, k->scan(at(f, values, i), n, &special));
		heads->special = special;
	}
}

bool inc_fixed_special(const struct inc_fixed_head *heads, size_t blocks)
{
	size_t i;

	for (i = 0; i < blocks; i++)
		if (heads[i].special)
			return true;
	return false;
}

void inc_fixed_kinds(const struct inc_fixed *f, uint8_t *kinds, const void *values, size_t count)
{
	const struct inc_wide_format *format = &inc_wide_formats[f->type];
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t bits = bits_at(f, values, i), magnitude = bits & (format->sign - 1);

		if (magnitude < format->inf)
			kinds[i] = 0;
		else if (magnitude > format->inf)
			kinds[i] = INC_FIXED_NAN;
		else
			kinds[i] = bits & format->sign ? INC_FIXED_NEGATIVE : INC_FIXED_POSITIVE;
	}
}

/* Returns the bits of the smallest positive number of the format that is at least 2^exponent. */
static uint64_t limit_of(const struct inc_wide_format *format, int32_t exponent)
{
	return inc_wide_round(format, 1, exponent) > 0 ? inc_wide_round(format, 1, exponent) : 1;
}

/* Fills err with the first of n values that does not become an integer, because its magnitude is at
 * least limit. */
static int refuse(const struct inc_fixed *f, const void *values, int32_t exponent, bool special,
		  uint64_t limit, size_t first, size_t n, struct inc_err *err)
{
	const struct inc_wide_format *format = &inc_wide_formats[f->type];
	size_t i;

	for (i = 0; i < n; i++) {
		uint64_t bits = bits_at(f, values, i), magnitude = bits & (format->sign - 1);
		uint64_t wide;
		double value;

		if (magnitude < limit || (special && magnitude >= format->inf))
			continue;
		if (magnitude >= format->inf)
			return inc_err_set(err, ERANGE, "element %zu is %s", first + i,
					   magnitude > format->inf ? "NaN" : "infinite");
		wide = inc_wide_round(&inc_wide_formats[INC_FLOAT64],
				      inc_wide_mantissa(format, magnitude),
				      inc_wide_exponent(format, magnitude));
		memcpy(&value, &wide, sizeof(value));
		return inc_err_set(err, ERANGE, "element %zu, %s%g, is not below 2^%d", first + i,
				   bits & format->sign ? "-" : "", value, exponent);
	}
	return 0;
}

/* Converts n values with the same exponent to fixed point. first: index of the first value in the
 * vector, for error messages. */
static int put_run(const struct inc_fixed *f, void *fixed, const void *values, int32_t exponent,
		   bool special, size_t first, size_t n, struct inc_err *err)
{
	const struct inc_float_kernels *k = inc_kernels()->floats[f->type];
	uint64_t limit = limit_of(&inc_wide_formats[f->type], exponent);
	int32_t shift = (int32_t)f->bits - exponent;
	bool infinite;

	/* Scan all values before the first is converted. If fixed is values, an error could not
	 * name a value that was overwritten. And in a special block an infinity would hide a finite
	 * value that does not fit. */
	if (special || fixed == values) {
		if (k->scan(values, n, &infinite) >= limit || (infinite && !special))
			return refuse(f, values, exponent, special, limit, first, n, err);
		k->put(fixed, values, n, shift);
		return 0;
	}
	if (k->put(fixed, values, n, shift) < limit)
		return 0;
	return refuse(f, values, exponent, special, limit, first, n, err);
}

static void get_run(const struct inc_fixed *f, void *values, const void *sums, int32_t exponent,
		    size_t n, uint32_t divisor)
{
	const struct inc_float_kernels *k = inc_kernels()->floats[f->type];

	if (divisor == 1)
		k->get(values, sums, n, exponent - (int32_t)f->bits);
	else
		k->get_mean(values, sums, n, exponent - (int32_t)f->bits, divisor);
}

int inc_fixed_put(const struct inc_fixed *f, void *fixed, const void *values,
		  const struct inc_fixed_head *heads, size_t first, size_t count,
		  struct inc_err *err)
{
	size_t i, n;
	int ret;

	for (i = 0; i < count; i += n) {
		const struct inc_fixed_head *head = &heads[(first + i) / f->block];

		n = run_of(f, first + i, count - i);
		ret = put_run(f, (uint8_t *)fixed + i * inc_fixed_bytes(f->type), at(f, values, i),
			      exponent_of(f, head), head->special, first + i, n, err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Sets the results of elements that are not finite, by their kinds. */
static void set_special(const struct inc_fixed *f, void *values, const uint8_t *kinds, size_t first,
			size_t n)
{
	const struct inc_wide_format *format = &inc_wide_formats[f->type];
	size_t i;

	for (i = first; i < first + n; i++) {
		uint8_t kind = kinds ? kinds[i] : INC_FIXED_NAN;

		if (kind == INC_FIXED_POSITIVE)
			set_bits(f, values, i, format->inf);
		else if (kind == INC_FIXED_NEGATIVE)
			set_bits(f, values, i, format->inf | format->sign);
		else if (kind)
			set_bits(f, values, i, format->nan);
	}
}

void inc_fixed_get(const struct inc_fixed *f, void *values, const void *sums,
		   const struct inc_fixed_head *heads, const uint8_t *kinds, size_t first,
		   size_t count, uint32_t divisor)
{
	size_t i, n;

	for (i = 0; i < count; i += n) {
		const struct inc_fixed_head *head = &heads[(first + i) / f->block];

		n = run_of(f, first + i, count - i);
		get_run(f, (uint8_t *)values + i * inc_float_size(f->type),
			(const uint8_t *)sums + i * inc_fixed_bytes(f->type), exponent_of(f, head),
			n, divisor);
		if (head->special)
			set_special(f, values, kinds, i, n);
	}
}

int inc_fixed_put_scaled(const struct inc_fixed *f, void *fixed, const void *values, int exponent,
			 size_t first, size_t count, struct inc_err *err)
{
	if (exponent < inc_fixed_min_exponent(f->type) ||
	    exponent > inc_fixed_max_exponent(f->type))
		return inc_err_set(err, EINVAL, "fixed point: exponent %d is not %d to %d",
				   exponent, inc_fixed_min_exponent(f->type),
				   inc_fixed_max_exponent(f->type));
	return put_run(f, fixed, values, exponent, false, first, count, err);
}

void inc_fixed_get_scaled(const struct inc_fixed *f, void *values, const void *sums, int exponent,
			  size_t count, uint32_t divisor)
{
	get_run(f, values, sums, exponent, count, divisor);
}
