// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "collective.h"
#include "lib/proto/desc.h"
#include "selftests/hostlib/float_data.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"

/* Most packets of a call with floats, because sums of floats take long to check, and native sums
 * even longer. */
#define FLOAT_PACKETS_MOST 4
#define NATIVE_BYTES_MOST  1024
/* number of elements that share an exponent, if a call does not name another number */
#define ELEMENTS_OF_BLOCK 64

/* --- choice --- */

static bool reduces(const struct collective *c)
{
	return c->what == INCCL_ALLREDUCE || c->what == INCCL_REDUCE ||
	       c->what == INCCL_REDUCE_SCATTER;
}

/* Are the elements values with an index? */
static bool is_indexed(const struct collective *c)
{
	return c->dtype >= INCCL_INT32_INDEX;
}

bool collective_reduces_floats(const struct collective *c)
{
	return c->dtype >= INCCL_FLOAT32 && !is_indexed(c) && reduces(c);
}

static bool is_logical(const struct collective *c)
{
	return c->op == INCCL_LAND || c->op == INCCL_LOR || c->op == INCCL_LXOR;
}

static bool has_blocks(const struct collective *c)
{
	return c->what == INCCL_REDUCE_SCATTER || c->what == INCCL_ALL_GATHER;
}

size_t collective_all_bytes(const struct collective *c)
{
	return c->block_bytes * (has_blocks(c) ? c->ranks : 1);
}

static void draw_kind(struct rng *rng, const struct collective_limits *limits, struct collective *c)
{
	static const enum inccl_op int_ops[] = {INCCL_SUM,  INCCL_MIN, INCCL_MAX, INCCL_PROD,
						INCCL_AND,  INCCL_OR,  INCCL_XOR, INCCL_AVG,
						INCCL_LAND, INCCL_LOR, INCCL_LXOR};
	static const enum inccl_op float_ops[] = {INCCL_SUM, INCCL_AVG, INCCL_MIN, INCCL_MAX,
						  INCCL_PROD};
	static const unsigned int float_blocks[] = {0, 1, 3, 16};

	c->what = rng_chance(rng, 500) ? INCCL_ALLREDUCE : rng_below(rng, INCCL_ALL_GATHER + 1);
	c->root = rng_below(rng, c->ranks);
	c->dtype = rng_below(rng, (rng_chance(rng, 400) ? INCCL_FLOAT64_INDEX : INCCL_UINT8) + 1);
	c->op = int_ops[rng_below(rng, sizeof(int_ops) / sizeof(*int_ops))];
	if (collective_reduces_floats(c))
		c->op = float_ops[rng_below(rng, limits->native ? 5 : 4)];
	else if (is_indexed(c) && reduces(c))
		c->op = rng_below(rng, 2) ? INCCL_MINLOC : INCCL_MAXLOC;
	c->mode = INCCL_MODE_SENDRECV;
	if (limits->writes && rng_chance(rng, 300))
		c->mode = INCCL_MODE_WRITE;
	c->in_place = rng_chance(rng, 300);
	c->float_block = float_blocks[rng_below(rng, 4)];
	c->special = rng_chance(rng, 300);
	c->scaled = !c->special && rng_chance(rng, 300);
}

void collective_draw(struct rng *rng, const struct collective_limits *limits, struct collective *c)
{
	uint32_t packets = rng_chance(rng, 300) ? COLLECTIVE_PACKETS : 4;
	size_t element, most;

	*c = (struct collective){.ranks = limits->ranks};
	draw_kind(rng, limits, c);
	element = inccl_dtype_size(c->dtype);
	if (collective_reduces_floats(c) && packets > FLOAT_PACKETS_MOST)
		packets = FLOAT_PACKETS_MOST;
	most = packets * limits->payload;
	if (collective_reduces_floats(c) && limits->native && most > NATIVE_BYTES_MOST)
		most = NATIVE_BYTES_MOST;
	c->block_bytes = 1 + rng_below(rng, most);
	if (has_blocks(c))
		c->block_bytes = c->block_bytes / c->ranks + 1;
	c->count = (c->block_bytes + element - 1) / element;
	if (c->what == INCCL_BARRIER)
		c->count = 0;
	c->block_bytes = c->count * element;
}

const char *collective_name(const struct collective *c)
{
	static const char *const names[] = {"AllReduce", "Reduce",        "Broadcast",
					    "Barrier",   "ReduceScatter", "AllGather"};

	return names[c->what];
}

/* --- data of the ranks --- */

size_t collective_send_bytes(const struct collective *c, unsigned int rank)
{
	if (c->what == INCCL_REDUCE_SCATTER)
		return collective_all_bytes(c);
	return c->what == INCCL_BROADCAST && c->root != (int)rank ? 0 : c->block_bytes;
}

size_t collective_recv_bytes(const struct collective *c, unsigned int rank)
{
	if (c->what == INCCL_ALL_GATHER)
		return collective_all_bytes(c);
	return c->what == INCCL_REDUCE && c->root != (int)rank ? 0 : c->block_bytes;
}

/* Values with an index. They are few and extreme, so that several ranks often have the same one,
 * and so are the indices. The padding is random. */
static void fill_indexed(const struct collective *c, struct rng *rng, uint8_t *at, size_t size)
{
	static const uint64_t values[][8] = {
		{0, 1, UINT32_MAX, INT32_MAX, 1u << 31, 256, 1 << 16, 1 << 24},
		/* zeros, 1, -1, infinities, a denormal, a NaN with a sign and a payload */
		{0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 1, 0xff800003},
		{0, 1, UINT64_MAX, INT64_MAX, 1ull << 63, 256, 1ull << 32, 1ull << 56},
		{0, 1ull << 63, 0x3ff0000000000000, 0xbff0000000000000, 0x7ff0000000000000,
		 0xfff0000000000000, 1, 0xfff0000000000003},
	};
	static const int32_t indices[] = {0, 1, -1, 256, INT32_MAX, INT32_MIN, -256, 1 << 24};
	const size_t element = inccl_dtype_size(c->dtype), half = element / 2;
	const uint64_t *few = values[c->dtype - INCCL_INT32_INDEX];

	for (; size; at += element, size -= element) {
		const uint64_t word = rng_next(rng), any = rng_next(rng);

		/* values that are not special are the most frequent ones */
		memcpy(at, &few[word & (c->special ? 7 : 3)], half);
		memcpy(at + half, &any, half);
		memcpy(at + half, &indices[word >> 3 & 7], sizeof(*indices));
	}
}

void collective_fill(const struct collective *c, uint64_t seed, uint8_t *at, size_t size)
{
	const bool extreme = c->special && (c->op == INCCL_MIN || c->op == INCCL_MAX);
	const size_t n_elements = size / inccl_dtype_size(c->dtype);
	struct rng rng = {.state = seed};
	uint64_t word;
	size_t n;

	if (collective_reduces_floats(c) && extreme) {
		float_fill_any(c->dtype, at, n_elements, rng_next(&rng));
		return;
	}
	if (collective_reduces_floats(c)) {
		float_fill(c->dtype, at, n_elements, rng_next(&rng), c->special);
		return;
	}
	if (is_indexed(c)) {
		fill_indexed(c, &rng, at, size);
		return;
	}
	for (; size; at += n, size -= n) {
		word = rng_next(&rng);
		if (is_logical(c) && word & 1)
			word = 0;
		n = size < sizeof(word) ? size : sizeof(word);
		memcpy(at, &word, n);
	}
}

static uint8_t *room(size_t bytes)
{
	uint8_t *at = malloc(bytes + 1);

	sim_require(at, "no memory");
	memset(at, 0xa5, bytes);
	return at;
}

void collective_make(const struct collective *c, unsigned int rank, uint64_t seed,
		     struct collective_buffers *b)
{
	const size_t sends = collective_send_bytes(c, rank);
	const size_t recvs = collective_recv_bytes(c, rank);
	const size_t own = rank * c->block_bytes;

	b->room[0] = room(sends > recvs ? sends : recvs);
	b->room[1] = c->in_place ? NULL : room(recvs);
	b->send = sends ? b->room[0] : NULL;
	b->recv = recvs ? b->room[!c->in_place] : NULL;
	if (c->in_place && c->what == INCCL_ALL_GATHER)
		b->send += own;
	if (c->in_place && c->what == INCCL_REDUCE_SCATTER)
		b->recv += own;
	b->given = room(sends);
	collective_fill(c, seed, b->given, sends);
	if (sends)
		memcpy(b->send, b->given, sends);
}

void collective_renew(const struct collective *c, unsigned int rank,
		      const struct collective_buffers *b)
{
	const size_t sends = collective_send_bytes(c, rank);
	const size_t recvs = collective_recv_bytes(c, rank);

	if (recvs)
		memset(b->recv, 0xa5, recvs);
	if (sends)
		memcpy(b->send, b->given, sends);
}

void collective_free(struct collective_buffers *b)
{
	free(b->given);
	free(b->room[0]);
	free(b->room[1]);
	*b = (struct collective_buffers){};
}

/* --- a rank's call --- */

static int start(const struct collective *c, struct inccl_communicator *comm,
		 const struct collective_buffers *b, const struct inccl_collective_opts *opts,
		 struct inccl_request **request)
{
	switch (c->what) {
	case INCCL_ALLREDUCE:
		return inccl_allreduce_start(comm, b->send, b->recv, c->count, c->dtype, c->op,
					     opts, request);
	case INCCL_REDUCE:
		return inccl_reduce_start(comm, b->send, b->recv, c->count, c->dtype, c->op,
					  c->root, opts, request);
	case INCCL_BROADCAST:
		return inccl_broadcast_start(comm, b->send, b->recv, c->count, c->dtype, c->root,
					     opts, request);
	case INCCL_BARRIER:
		return inccl_barrier_start(comm, opts, request);
	case INCCL_REDUCE_SCATTER:
		return inccl_reduce_scatter_start(comm, b->send, b->recv, c->count, c->dtype, c->op,
						  opts, request);
	case INCCL_ALL_GATHER:
		return inccl_all_gather_start(comm, b->send, b->recv, c->count, c->dtype, opts,
					      request);
	}
	return -EOPNOTSUPP;
}

int collective_start(const struct collective *c, struct inccl_communicator *comm,
		     const struct collective_buffers *b, struct inccl_request **request)
{
	static const int below = FLOAT_BELOW;
	const struct inccl_collective_opts opts = {.sz = sizeof(opts),
						   .mode = c->mode,
						   .float_block = c->float_block,
						   .float_exponent = c->scaled ? &below : NULL};

	return start(c, comm, b, &opts, request);
}

/* --- float_data.c reports errors to cmocka; here they fail the run --- */

static char found[256];

void print_error(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(found, sizeof(found), format, ap);
	va_end(ap);
}

void _fail(const char *file, int line)
{
	sim_fail("%s", found);
}

void _assert_true(LargestIntegralType result, const char *expression, const char *file, int line)
{
	sim_require(result, "a float: not %s", expression);
}

void _assert_int_equal(LargestIntegralType a, LargestIntegralType b, const char *file, int line)
{
	sim_require(a == b, "a float is 0x%llx, not 0x%llx", (unsigned long long)a,
		    (unsigned long long)b);
}

/* --- the expected results --- */

/* Makes each element 1 if it is not 0. */
static void make_truth(uint8_t *at, size_t element, size_t bytes)
{
	size_t i, b;

	for (i = 0; i < bytes; i += element) {
		uint8_t any = 0;

		for (b = 0; b < element; b++) {
			any |= at[i + b];
			at[i + b] = 0;
		}
		at[i] = any != 0;
	}
}

/* Divides each element by the number of ranks. */
static void make_mean(const struct collective *c, uint8_t *at, size_t bytes)
{
	const size_t element = inccl_dtype_size(c->dtype), unused = 64 - 8 * element;
	const bool has_sign = inccl_dtype_name(c->dtype)[0] == 'i';
	uint64_t v;

	for (; bytes; at += element, bytes -= element) {
		v = 0;
		memcpy(&v, at, element);
		if (has_sign)
			v = (uint64_t)(((int64_t)(v << unused) >> unused) / (int64_t)c->ranks);
		else
			v /= c->ranks;
		memcpy(at, &v, element);
	}
}

/* --- values with an index --- */

/* The float type of the values, or that of integers: UINT8. */
static enum inccl_dtype float_of(const struct collective *c)
{
	return c->dtype == INCCL_FLOAT32_INDEX   ? INCCL_FLOAT32
	       : c->dtype == INCCL_FLOAT64_INDEX ? INCCL_FLOAT64
						 : INCCL_UINT8;
}

static bool has_nan(const struct collective *c, const uint8_t *element)
{
	const enum inccl_dtype type = float_of(c);

	return type != INCCL_UINT8 && isnan(float_value(type, float_bits(type, element, 0)));
}

/* Compares the values of two elements. Returns a number below 0, 0, or a number above 0. */
static int compare_values(const struct collective *c, const uint8_t *a, const uint8_t *b)
{
	const enum inccl_dtype type = float_of(c);
	int64_t x = 0, y = 0;
	double v, w;

	if (type == INCCL_UINT8) {
		const size_t half = inccl_dtype_size(c->dtype) / 2, unused = 64 - 8 * half;

		memcpy(&x, a, half);
		memcpy(&y, b, half);
		x = (int64_t)((uint64_t)x << unused) >> unused;
		y = (int64_t)((uint64_t)y << unused) >> unused;
		return (x > y) - (x < y);
	}
	v = float_value(type, float_bits(type, a, 0));
	w = float_value(type, float_bits(type, b, 0));
	/* -0 is below +0 */
	return v == w ? !signbit(v) - !signbit(w) : (v > w) - (v < w);
}

/* Does the element of `from` take the place of the one of `into`? A NaN wins. Among equal values
 * the lowest index wins. */
static bool wins(const struct collective *c, const uint8_t *from, const uint8_t *into)
{
	const size_t half = inccl_dtype_size(c->dtype) / 2;
	const bool nan = has_nan(c, from), other = has_nan(c, into);
	int32_t index[2];
	int order;

	if (nan != other)
		return nan;
	order = nan ? 0 : compare_values(c, from, into);
	if (order)
		return (order > 0) == (c->op == INCCL_MAXLOC);
	memcpy(&index[0], from + half, sizeof(*index));
	memcpy(&index[1], into + half, sizeof(*index));
	return index[0] < index[1];
}

/* In a result each NaN is the quiet one, and the padding is 0. */
static void find_index(const struct collective *c, const uint8_t *const given[], uint8_t *expected)
{
	const size_t element = inccl_dtype_size(c->dtype), half = element / 2;
	const size_t bytes = collective_send_bytes(c, 0);
	uint64_t nan;
	size_t i;

	for (i = 0; i < bytes; i += element) {
		unsigned int best = 0, r;

		for (r = 1; r < c->ranks; r++)
			if (wins(c, given[r] + i, given[best] + i))
				best = r;
		memset(expected + i, 0, element);
		memcpy(expected + i, given[best] + i, half + sizeof(int32_t));
		if (!has_nan(c, given[best] + i))
			continue;
		nan = float_nan(float_of(c));
		memcpy(expected + i, &nan, half);
	}
}

static void reduce(const struct collective *c, const uint8_t *const given[],
		   const struct collective_tree *tree, uint8_t *expected)
{
	const uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, c->op, c->dtype, 0, 0);
	const size_t bytes = collective_send_bytes(c, 0);
	uint8_t *part;
	unsigned int r;

	if (collective_reduces_floats(c)) {
		collective_native(c, given, tree, expected);
		return;
	}
	if (is_indexed(c)) {
		find_index(c, given, expected);
		return;
	}
	part = room(bytes);
	for (r = 0; r < c->ranks; r++) {
		memcpy(r ? part : expected, given[r], bytes);
		if (is_logical(c))
			make_truth(r ? part : expected, inccl_dtype_size(c->dtype), bytes);
		if (r)
			ref_operate(desc, false, expected, part, bytes);
	}
	if (c->op == INCCL_AVG)
		make_mean(c, expected, bytes);
	free(part);
}

void collective_expect(const struct collective *c, const uint8_t *const given[],
		       const struct collective_tree *tree, uint8_t *expected)
{
	unsigned int r;

	switch (c->what) {
	case INCCL_ALLREDUCE:
	case INCCL_REDUCE:
	case INCCL_REDUCE_SCATTER:
		reduce(c, given, tree, expected);
		break;
	case INCCL_BROADCAST:
		memcpy(expected, given[c->root], c->block_bytes);
		break;
	case INCCL_ALL_GATHER:
		for (r = 0; r < c->ranks; r++)
			memcpy(expected + r * c->block_bytes, given[r], c->block_bytes);
		break;
	case INCCL_BARRIER:
		break;
	}
}

void collective_check_floats(const struct collective *c, const uint8_t *const given[],
			     unsigned int rank, unsigned int bits, const uint8_t *got)
{
	const unsigned int block = c->what == INCCL_REDUCE_SCATTER ? rank : 0;
	const struct float_given all = {
		.dtype = c->dtype,
		.of_rank = (const void *const *)given,
		.ranks = c->ranks,
		.count = collective_send_bytes(c, 0) / inccl_dtype_size(c->dtype),
		.block = c->scaled ? 0 : c->float_block ?: ELEMENTS_OF_BLOCK,
		.bits = bits,
	};
	size_t k;

	for (k = 0; k < c->count; k++)
		float_check(&all, c->op, block * c->count + k, float_bits(c->dtype, got, k));
}

bool collective_is_unchanged(const struct collective *c, unsigned int rank,
			     const struct collective_buffers *b)
{
	const size_t bytes = collective_send_bytes(c, rank);
	const size_t recvs = collective_recv_bytes(c, rank);
	size_t k;

	for (k = 0; k < bytes; k++) {
		const uint8_t *at = &b->send[k];

		if (*at != b->given[k] && !(c->in_place && at >= b->recv && at < b->recv + recvs))
			return false;
	}
	return true;
}
