/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Tests inccl-perf --check, on which other tests rely. For every collective, type and operator it
 * must accept a correct result. It must find each element that is wrong, stale, misplaced, or
 * written after the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/src/internal.h"
#include "hostlib/tools/perf_data.h"
#include "lib/reduce/floats.h"
#include "selftests/reduce/numbers.h"

#define RANKS 3
#define COUNT 150 /* number of elements in all; each block has 50 */
#define OWN   1
#define ROOT  1
#define ITER  4

static uint64_t given[RANKS][2 * COUNT + PERF_GUARD_BYTES / 8];
static uint64_t send_memory[2 * COUNT + PERF_GUARD_BYTES / 8],
	recv_memory[2 * COUNT + PERF_GUARD_BYTES / 8];
/* Functions of an endpoint that has a name and figures but no channel, because the communicator
 * sends nothing. */
static void no_figures(const struct inc_channel *ch, struct inc_channel_figures *out)
{
	*out = (struct inc_channel_figures){};
}

static void no_device_figures(const struct inc_channel_device *dev,
			      struct inc_channel_device_figures *out)
{
	*out = (struct inc_channel_device_figures){};
}

static const struct inc_channel_ops no_channel = {
	.name = "soft", .figures = no_figures, .device_figures = no_device_figures};
static struct inccl_endpoint endpoint = {.ops = &no_channel};
static struct inccl_group group = {.rank = OWN, .world_size = RANKS};
static struct inccl_communicator comm = {.group = &group,
					 .ep = &endpoint,
					 .lock = PTHREAD_MUTEX_INITIALIZER,
					 .tree = "s0 of 1 switch"};

static bool is_index(const struct perf_call *call)
{
	return call->dtype >= INCCL_INT32_INDEX;
}

static bool is_float(const struct perf_call *call)
{
	return call->dtype >= INCCL_FLOAT32 && !is_index(call);
}

static int64_t integer(enum inccl_dtype dtype, const void *data, size_t i)
{
	const size_t size = inccl_dtype_size(dtype);
	uint64_t v = 0;

	memcpy(&v, (const uint8_t *)data + i * size, size);
	if (inccl_dtype_name(dtype)[0] != 'u' && size < 8 && v >> (8 * size - 1))
		v |= UINT64_MAX << 8 * size;
	return (int64_t)v;
}

static bool is_less(enum inccl_dtype dtype, int64_t a, int64_t b)
{
	return inccl_dtype_name(dtype)[0] == 'u' ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t combine(const struct perf_call *call, int64_t a, int64_t b)
{
	switch (call->op) {
	case INCCL_MIN:
		return is_less(call->dtype, a, b) ? a : b;
	case INCCL_MAX:
		return is_less(call->dtype, a, b) ? b : a;
	case INCCL_PROD:
		return (int64_t)((uint64_t)a * (uint64_t)b);
	case INCCL_AND:
		return a & b;
	case INCCL_OR:
		return a | b;
	case INCCL_XOR:
		return a ^ b;
	case INCCL_LAND:
		return a && b;
	case INCCL_LOR:
		return a || b;
	case INCCL_LXOR:
		return (a != 0) != (b != 0);
	default:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	}
}

/* put_integer() and put_float() write element `to` of the result, which is the reduction of element
 * `from` of all ranks. */
static void put_integer(const struct perf_call *call, size_t to, size_t from)
{
	const enum inccl_dtype dtype = call->dtype;
	const size_t size = inccl_dtype_size(dtype);
	int64_t v = integer(dtype, given[0], from);

	for (unsigned int r = 1; r < RANKS; r++)
		v = combine(call, v, integer(dtype, given[r], from));
	if (call->op == INCCL_AVG) {
		/* the sum wraps to the size of the type */
		v = (int64_t)((uint64_t)v << (64 - 8 * size));
		if (inccl_dtype_name(dtype)[0] == 'u')
			v = (int64_t)(((uint64_t)v >> (64 - 8 * size)) / RANKS);
		else
			v = (v >> (64 - 8 * size)) / RANKS;
	}
	memcpy((uint8_t *)call->recv + to * size, &v, size);
}

static void put_float(const struct perf_call *call, size_t to, size_t from)
{
	const enum inc_float type = (enum inc_float)(call->dtype - INCCL_FLOAT32);
	long double v = float_value(type, float_bits(type, given[0], from)), x;

	for (unsigned int r = 1; r < RANKS; r++) {
		x = float_value(type, float_bits(type, given[r], from));
		if (call->op == INCCL_MIN)
			v = x < v ? x : v;
		else if (call->op == INCCL_MAX)
			v = x > v ? x : v;
		else if (call->op == INCCL_PROD)
			v *= x;
		else
			v += x;
	}
	if (call->op == INCCL_AVG)
		v /= RANKS;
	set_float_bits(type, call->recv, to, float_nearest(type, v));
}

static double index_value(enum inccl_dtype dtype, const uint8_t *at)
{
	switch (dtype) {
	case INCCL_INT32_INDEX:
		return *(const int32_t *)at;
	case INCCL_FLOAT32_INDEX:
		return *(const float *)at;
	case INCCL_INT64_INDEX:
		return (double)*(const int64_t *)at;
	default:
		return *(const double *)at;
	}
}

static void put_index(const struct perf_call *call, size_t to, size_t from)
{
	const size_t size = inccl_dtype_size(call->dtype);
	const uint8_t *best = (const uint8_t *)given[0] + from * size, *at;
	double a, b;

	for (unsigned int r = 1; r < RANKS; r++) {
		at = (const uint8_t *)given[r] + from * size;
		a = index_value(call->dtype, at);
		b = index_value(call->dtype, best);
		if (a == b ? *(const int32_t *)(at + size / 2) < *(const int32_t *)(best + size / 2)
			   : (a > b) == (call->op == INCCL_MAXLOC))
			best = at;
	}
	memcpy((uint8_t *)call->recv + to * size, best, size);
}

/* Computes the collective's result from given[]. */
static void carry_out(const struct perf_call *call)
{
	const size_t size = inccl_dtype_size(call->dtype), bytes = call->count * size;
	size_t i;

	switch (call->opts->collective) {
	case INCCL_BROADCAST:
		memcpy(call->recv, given[ROOT], bytes);
		return;
	case INCCL_ALL_GATHER:
		for (i = 0; i < RANKS; i++)
			memcpy((uint8_t *)call->recv + i * bytes, given[i], bytes);
		return;
	default:
		break;
	}
	for (i = 0; i < call->recv_count; i++) {
		size_t from =
			i +
			(call->opts->collective == INCCL_REDUCE_SCATTER ? OWN * call->count : 0);

		if (is_index(call))
			put_index(call, i, from);
		else if (is_float(call))
			put_float(call, i, from);
		else
			put_integer(call, i, from);
	}
}

/* Changes element i of the result by more than any rounding error. */
static void spoil(const struct perf_call *call, size_t i)
{
	const enum inc_float type = (enum inc_float)(call->dtype - INCCL_FLOAT32);
	uint8_t *at = (uint8_t *)call->recv + i * inccl_dtype_size(call->dtype);
	long double v;

	if (!is_float(call)) {
		*at ^= 1;
		return;
	}
	v = float_value(type, float_bits(type, call->recv, i));
	v += v > 4 || v < -4 ? v / 64 : 0.0625L;
	set_float_bits(type, call->recv, i, float_nearest(type, v));
}

static void check(const struct perf_opts *opts, enum inccl_dtype dtype, enum inccl_op op)
{
	const size_t size = inccl_dtype_size(dtype);
	struct perf_call call = {
		.opts = opts, .rank = OWN, .ranks = RANKS, .dtype = dtype, .op = op};
	uint8_t kept[16];
	size_t i;

	perf_place(&call, COUNT, send_memory, recv_memory);
	/* only the root of a Broadcast has data, so each rank's data is made as if that rank were
	 * the root */
	for (call.rank = 0; call.rank < RANKS; call.rank++) {
		perf_place(&call, COUNT, given[call.rank], recv_memory);
		call.send_count = opts->collective == INCCL_REDUCE_SCATTER ? COUNT : call.count;
		perf_fill(&call, ITER);
	}
	call.rank = OWN;
	perf_place(&call, COUNT, send_memory, recv_memory);
	perf_fill(&call, ITER);
	assert_true(perf_verify(&call, ITER) >= call.recv_count - call.recv_count / 20);
	carry_out(&call);
	if (perf_verify(&call, ITER))
		fail_msg("%s of %s by %s: %llu of a right result are wrong",
			 inccl_collective_name(opts->collective), inccl_dtype_name(dtype),
			 inccl_op_name(op), (unsigned long long)perf_verify(&call, ITER));
	assert_true(perf_verify(&call, ITER + 1) > 0);
	for (i = 0; i < call.recv_count; i += 7) {
		memcpy(kept, (uint8_t *)call.recv + i * size, size);
		spoil(&call, i);
		if (perf_verify(&call, ITER) != 1)
			fail_msg("%s of %s by %s: element %zu is wrong, and %llu are counted",
				 inccl_collective_name(opts->collective), inccl_dtype_name(dtype),
				 inccl_op_name(op), i,
				 (unsigned long long)perf_verify(&call, ITER));
		memcpy((uint8_t *)call.recv + i * size, kept, size);
	}
	((uint8_t *)call.recv)[call.recv_count * size] ^= 1;
	assert_int_equal(perf_verify(&call, ITER), 1);
}

static void every_kind_of(enum inc_float_form form)
{
	static const enum inccl_collective which[] = {INCCL_ALLREDUCE, INCCL_REDUCE,
						      INCCL_BROADCAST, INCCL_REDUCE_SCATTER,
						      INCCL_ALL_GATHER};
	static const unsigned int blocks[] = {INC_FIXED_BLOCK, 1, 7, 1000};
	struct perf_opts opts = {.job.comm = &comm, .root = ROOT};

	comm.native_floats = form == INC_FLOATS_NATIVE;
	for (unsigned int c = 0; c < 5; c++)
		for (enum inccl_dtype d = 0; d <= INCCL_FLOAT64_INDEX; d++)
			for (enum inccl_op op = 0; op <= INCCL_MAXLOC; op++) {
				opts.collective = which[c];
				opts.float_block = blocks[(c + d + op) % 4];
				if ((d >= INCCL_INT32_INDEX) != (op >= INCCL_MINLOC))
					continue;
				if (!inccl_dtype_size(d) || !inccl_op_name(op) ||
				    (d >= INCCL_FLOAT32 && d < INCCL_INT32_INDEX &&
				     op > INCCL_MAX && op != INCCL_AVG &&
				     !(op == INCCL_PROD && comm.native_floats)))
					continue;
				check(&opts, d, op);
			}
}

static void every_kind(void **state)
{
	every_kind_of(INC_FLOATS_FIXED);
}

static void floats_as_they_are(void **state)
{
	every_kind_of(INC_FLOATS_NATIVE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind),
		cmocka_unit_test(floats_as_they_are),
	};

	/* with another process number the group would count as that of a forked child */
	group.maker = getpid();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
