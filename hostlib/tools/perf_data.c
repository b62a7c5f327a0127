/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include "lib/conf/comm_conf.h"
#include "lib/proto/desc.h"
#include "hostlib/tools/perf_data.h"

#define GUARD 0x5a

static inline bool is_logical(enum inccl_op op)
{
	return op == INCCL_LAND || op == INCCL_LOR || op == INCCL_LXOR;
}

/* Returns element i of a rank's vector. For logical operators about every second one is 0. */
static inline uint64_t operand(enum inccl_op op, uint32_t rank, uint64_t i, uint32_t iter)
{
	const uint64_t v = perf_value(rank, i, iter);

	return is_logical(op) && v >> 40 & 1 ? 0 : v;
}

#define DEFINE(NAME, name, ...)                                                                   \
	static void fill_##name(void *data, size_t count, enum inccl_op op, uint32_t rank,        \
				uint32_t iter)                                                    \
	{                                                                                         \
		name##_t *x = data;                                                               \
                                                                                                  \
		for (size_t i = 0; i < count; i++)                                                \
			x[i] = (name##_t)operand(op, rank, i, iter);                              \
	}                                                                                         \
                                                                                                  \
	static inline name##_t combine_##name(enum inccl_op op, name##_t a, name##_t b)           \
	{                                                                                         \
		switch (op) {                                                                     \
		case INCCL_SUM:                                                                   \
		case INCCL_AVG:                                                                   \
			return (name##_t)((uint64_t)a + (uint64_t)b);                             \
		case INCCL_PROD:                                                                  \
			return (name##_t)((uint64_t)a * (uint64_t)b);                             \
		case INCCL_MIN:                                                                   \
			return a < b ? a : b;                                                     \
		case INCCL_MAX:                                                                   \
			return a > b ? a : b;                                                     \
		case INCCL_AND:                                                                   \
			return a & b;                                                             \
		case INCCL_OR:                                                                    \
			return a | b;                                                             \
		case INCCL_XOR:                                                                   \
			return a ^ b;                                                             \
		case INCCL_LAND:                                                                  \
			return a && b;                                                            \
		case INCCL_LOR:                                                                   \
			return a || b;                                                            \
		case INCCL_LXOR:                                                                  \
			return !a != !b;                                                          \
		case INCCL_MINLOC:                                                                \
		case INCCL_MAXLOC:                                                                \
			break;                                                                    \
		}                                                                                 \
		return 0;                                                                         \
	}                                                                                         \
                                                                                                  \
	/* op is a constant for SUM and AVG, so that their loops have no branch for it */         \
	static inline __attribute__((always_inline))                                              \
	uint64_t wrong_##name(const struct perf_piece *p, enum inccl_op op)                       \
	{                                                                                         \
		const name##_t *x = p->data;                                                      \
		uint64_t wrong = 0;                                                               \
                                                                                                  \
		for (size_t i = 0; i < p->count; i++) {                                           \
			name##_t want = (name##_t)operand(op, p->first, p->offset + i, p->iter);  \
                                                                                                  \
			for (uint32_t r = 1; r < p->ranks; r++)                                   \
				want = combine_##name(op, want,                                   \
						      (name##_t)operand(op, p->first + r,         \
									p->offset + i, p->iter)); \
			if (p->reduced && is_logical(op))                                         \
				want = want != 0;                                                 \
			if (op == INCCL_AVG)                                                      \
				want = want / (int64_t)p->ranks;                                  \
			wrong += x[i] != want;                                                    \
		}                                                                                 \
		return wrong;                                                                     \
	}                                                                                         \
                                                                                                  \
	static uint64_t count_wrong_##name(const struct perf_piece *p)                            \
	{                                                                                         \
		switch (p->op) {                                                                  \
		case INCCL_SUM:                                                                   \
			return wrong_##name(p, INCCL_SUM);                                        \
		case INCCL_AVG:                                                                   \
			return wrong_##name(p, INCCL_AVG);                                        \
		default:                                                                          \
			return wrong_##name(p, p->op);                                            \
		}                                                                                 \
	}

INC_DTYPES(DEFINE)

/* Values with an index: the values are few, so that several ranks have the same one, and any of
 * them may have the lowest index. */
static int64_t index_value(uint32_t rank, uint64_t i, uint32_t iter)
{
	return (int64_t)(perf_value(rank, i, iter) >> 40 & 3) - 1;
}

static int32_t index_of(uint32_t rank, uint64_t i, uint32_t iter)
{
	return (int32_t)perf_value(rank, i, iter);
}

/* Writes an element with an index. */
static void put_index(enum inccl_dtype dtype, void *element, int64_t value, int32_t index)
{
	const size_t size = inccl_dtype_size(dtype) / 2;
	const int32_t narrow = (int32_t)value;
	const float narrow_float = (float)value;
	const double wide_float = (double)value;

	memset(element, 0, 2 * size);
	memcpy(element,
	       dtype == INCCL_INT32_INDEX     ? (const void *)&narrow
	       : dtype == INCCL_FLOAT32_INDEX ? (const void *)&narrow_float
	       : dtype == INCCL_INT64_INDEX   ? (const void *)&value
					      : (const void *)&wide_float,
	       size);
	memcpy((char *)element + size, &index, sizeof(index));
}

static void fill_index(const struct perf_call *call, uint32_t iter)
{
	const size_t size = inccl_dtype_size(call->dtype);

	for (size_t i = 0; i < call->send_count; i++)
		put_index(call->dtype, (char *)call->send + i * size,
			  index_value(call->rank, i, iter), index_of(call->rank, i, iter));
}

static uint64_t count_wrong_index(enum inccl_dtype dtype, const struct perf_piece *p)
{
	const size_t size = inccl_dtype_size(dtype);
	uint64_t wrong = 0;
	char want[16];

	for (size_t i = 0; i < p->count; i++) {
		int64_t value = index_value(p->first, p->offset + i, p->iter), v;
		int32_t index = index_of(p->first, p->offset + i, p->iter), k;

		for (uint32_t r = 1; r < p->ranks; r++) {
			v = index_value(p->first + r, p->offset + i, p->iter);
			k = index_of(p->first + r, p->offset + i, p->iter);
			if (p->op == INCCL_MAXLOC ? v < value : v > value)
				continue;
			index = v != value || k < index ? k : index;
			value = v;
		}
		put_index(dtype, want, value, index);
		wrong += memcmp((const char *)p->data + i * size, want, size) != 0;
	}
	return wrong;
}

static bool is_index(enum inccl_dtype dtype)
{
	return dtype >= INCCL_INT32_INDEX;
}

static const struct {
	void (*fill)(void *data, size_t count, enum inccl_op op, uint32_t rank, uint32_t iter);
	uint64_t (*count_wrong)(const struct perf_piece *piece);
} types[] = {
#define _(NAME, name, ...) [INCCL_##NAME] = {fill_##name, count_wrong_##name},
	INC_DTYPES(_)
#undef _
};

static size_t recv_bytes(const struct perf_call *call)
{
	return call->recv_count * inccl_dtype_size(call->dtype);
}

/* Whether a guard follows the result. With --in-place, more of this rank's input may follow
 * instead. */
static bool is_guarded(const struct perf_call *call)
{
	return !call->opts->in_place || call->recv_count >= call->send_count;
}

void perf_fill(const struct perf_call *call, uint32_t iter)
{
	const enum inccl_dtype dtype = call->dtype;

	memset(call->recv, ~GUARD, recv_bytes(call));
	if (is_guarded(call))
		memset((char *)call->recv + recv_bytes(call), GUARD, PERF_GUARD_BYTES);
	if (is_index(dtype))
		fill_index(call, iter);
	else if (dtype >= INCCL_FLOAT32)
		perf_float_fill(dtype, call->send, call->send_count, call->op, call->rank, iter);
	else
		types[dtype].fill(call->send, call->send_count, call->op, call->rank, iter);
}

void perf_fill_unchecked(const struct perf_call *call)
{
	const enum inccl_dtype dtype = call->dtype;

	/* Floats are 0 if results replace the input, because others would grow to infinity, and
	 * sums of infinities need one exchange more. */
	if (call->opts->in_place && dtype >= INCCL_FLOAT32)
		memset(call->send, 0, call->send_count * inccl_dtype_size(dtype));
}

static uint64_t verify_guard(const struct perf_call *call)
{
	const unsigned char *guard = (unsigned char *)call->recv + recv_bytes(call);
	uint64_t wrong = 0;

	for (size_t i = 0; is_guarded(call) && i < PERF_GUARD_BYTES; i++)
		wrong += guard[i] != GUARD;
	return wrong;
}

static uint64_t count_wrong(const struct perf_call *call, const struct perf_piece *piece)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	const enum inccl_dtype dtype = call->dtype;
	struct perf_bound bound;

	if (is_index(dtype))
		return count_wrong_index(dtype, piece);
	if (dtype < INCCL_FLOAT32)
		return types[dtype].count_wrong(piece);
	inccl_communicator_info(call->opts->job.comm, &info);
	bound = (struct perf_bound){
		.native = !strcmp(info.floats, inc_float_forms[INC_FLOATS_NATIVE]),
		.float_bits = info.float_bits,
		.block = call->opts->float_block,
		/* A sum is rounded once at each switch on its path. A path has fewer switches than
		 * there are ranks, because each switch adds at least one rank's vector. */
		.roundings = job_one_switch(&info) ? 1 : call->ranks,
	};
	return perf_float_count_wrong(dtype, piece, &bound);
}

/* Adds the result to a hash. The algorithm is FNV-1a, but on eight bytes at a time. */
uint64_t perf_hash(const struct perf_call *call, uint64_t hash)
{
	const unsigned char *p = call->recv;
	size_t left = recv_bytes(call);

	while (left) {
		const size_t n = left < sizeof(hash) ? left : sizeof(hash);
		uint64_t word = 0;

		memcpy(&word, p, n);
		hash = (hash ^ word) * 1099511628211u;
		p += n;
		left -= n;
	}
	return hash;
}

uint64_t perf_verify(const struct perf_call *call, uint32_t iter)
{
	const struct perf_opts *opts = call->opts;
	const size_t block_bytes = call->count * inccl_dtype_size(call->dtype);
	struct perf_piece p = {.data = call->recv,
			       .count = call->recv_count,
			       .ranks = call->ranks,
			       .iter = iter,
			       .op = call->op,
			       .reduced = perf_collective(opts->collective)->has_op};
	uint64_t wrong = verify_guard(call);

	switch (opts->collective) {
	case INCCL_REDUCE_SCATTER:
		p.offset = call->rank * call->count;
		return wrong + count_wrong(call, &p);
	case INCCL_BROADCAST:
		p.first = opts->root;
		p.ranks = 1;
		return wrong + count_wrong(call, &p);
	case INCCL_ALL_GATHER:
		p.count = call->count;
		p.ranks = 1;
		for (p.first = 0; p.first < call->ranks; p.first++) {
			p.data = (char *)call->recv + p.first * block_bytes;
			wrong += count_wrong(call, &p);
		}
		return wrong;
	default:
		return wrong + count_wrong(call, &p);
	}
}
