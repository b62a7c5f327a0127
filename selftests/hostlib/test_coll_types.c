/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Integers of every type, in collectives whose blocks do not end with a packet; values with an
 * index, and complex numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <complex.h>
#include <errno.h>
#include <string.h>
#include "selftests/fakes/switch.h"
#include "selftests/reduce/numbers.h"

#define TYPED_COUNT 75

static struct fake_switch sw;

static struct buffers {
	int64_t send[FAKE_SWITCH_RANKS * TYPED_COUNT], recv[FAKE_SWITCH_RANKS * TYPED_COUNT];
} buffers[FAKE_SWITCH_RANKS];

/* put() and get() write and read element i of an array. The values that they are given fit into
 * every type. */
static void put(enum inccl_dtype dtype, void *array, size_t i, int64_t value)
{
	const size_t size = inccl_dtype_size(dtype);

	memcpy((uint8_t *)array + i * size, &value, size);
}

static int64_t get(enum inccl_dtype dtype, const void *array, size_t i)
{
	const size_t size = inccl_dtype_size(dtype);
	int64_t value = 0;

	memcpy(&value, (const uint8_t *)array + i * size, size);
	/* sign-extends the value */
	if (inccl_dtype_name(dtype)[0] != 'u' && size < 8)
		value = (int64_t)((uint64_t)value << (64 - 8 * size)) >> (64 - 8 * size);
	return value;
}

static int64_t small(enum inccl_dtype dtype, unsigned int rank, size_t i)
{
	int64_t v = (int64_t)((i + rank) % 11);

	return inccl_dtype_name(dtype)[0] == 'u' ? 2 * v : 2 * v - 11;
}

/* Runs collectives whose blocks have an odd number of elements. Each block must be at its place for
 * every size of type. The mean must be the quotient that C computes from the sum. */
static void typed(enum inccl_dtype dtype)
{
	const unsigned int ranks = sw.conf.ranks;
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	struct buffers *b;
	unsigned int r, k;
	int64_t all;
	size_t i;

	for (r = 0; r < ranks; r++)
		for (i = 0; i < ranks * TYPED_COUNT; i++)
			put(dtype, buffers[r].send, i, small(dtype, r, i));
	for (r = 0; r < ranks; r++)
		assert_int_equal(inccl_reduce_scatter_start(sw.rank[r].comm, buffers[r].send,
							    buffers[r].recv, TYPED_COUNT, dtype,
							    INCCL_AVG, NULL, &requests[r]),
				 0);
	fake_switch_finish(&sw, requests);
	for (r = 0; r < ranks; r++)
		for (i = 0; i < TYPED_COUNT; i++) {
			for (all = 0, k = 0; k < ranks; k++)
				all += small(dtype, k, r * TYPED_COUNT + i);
			assert_int_equal(get(dtype, buffers[r].recv, i), all / (int64_t)ranks);
		}
	for (r = 0; r < ranks; r++)
		assert_int_equal(inccl_all_gather_start(sw.rank[r].comm, buffers[r].send,
							buffers[r].recv, TYPED_COUNT, dtype, NULL,
							&requests[r]),
				 0);
	fake_switch_finish(&sw, requests);
	for (r = 0; r < ranks; r++)
		for (b = &buffers[r], i = 0; i < ranks * TYPED_COUNT; i++)
			assert_int_equal(get(dtype, b->recv, i),
					 small(dtype, i / TYPED_COUNT, i % TYPED_COUNT));
}

/* Logical operators of numbers that are 0 or not, of which each rank sends 0 or 1. */
static void logical(enum inccl_dtype dtype)
{
	static const enum inccl_op ops[] = {INCCL_LAND, INCCL_LOR, INCCL_LXOR};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	const unsigned int ranks = sw.conf.ranks;
	int64_t want, v;

	for (unsigned int o = 0; o < 3; o++) {
		for (unsigned int r = 0; r < ranks; r++)
			for (size_t i = 0; i < TYPED_COUNT; i++)
				put(dtype, buffers[r].send, i, i >> r & 1 ? small(dtype, r, i) : 0);
		for (unsigned int r = 0; r < ranks; r++)
			assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, buffers[r].send,
							       buffers[r].recv, TYPED_COUNT, dtype,
							       ops[o], NULL, &requests[r]),
					 0);
		fake_switch_finish(&sw, requests);
		for (size_t i = 0; i < TYPED_COUNT; i++) {
			want = get(dtype, buffers[0].send, i) != 0;
			for (unsigned int r = 1; r < ranks; r++) {
				v = get(dtype, buffers[r].send, i) != 0;
				want = o == 0 ? want & v : o == 1 ? want | v : want ^ v;
			}
			for (unsigned int r = 0; r < ranks; r++)
				assert_int_equal(get(dtype, buffers[r].recv, i), want);
		}
	}
}

static void put_indexed(enum inccl_dtype dtype, void *array, size_t i, int value, int32_t index)
{
	const size_t size = inccl_dtype_size(dtype);
	union indexed e = {};

	if (size == 16)
		e.int64.padding = 99; /* it may be anything */
	if (dtype == INCCL_INT32_INDEX)
		e.int32.value = value;
	else if (dtype == INCCL_FLOAT32_INDEX)
		e.float32.value = (float)value;
	else if (dtype == INCCL_INT64_INDEX)
		e.int64.value = value;
	else
		e.float64.value = value;
	if (size == 16)
		e.int64.index = index;
	else
		e.int32.index = index;
	memcpy((uint8_t *)array + i * size, &e, size);
}

/* The value and the index of a rank's element. Several ranks have the same value, and any of them
 * may have the lowest index. */
static int value_of(unsigned int rank, size_t i)
{
	return (int)((i * 7 + rank * (i % 3)) % 5) - 2;
}

static int32_t index_of(unsigned int rank, size_t i)
{
	return (int32_t)((rank + i) % FAKE_SWITCH_RANKS) - 1;
}

static void check_indexed(enum inccl_dtype dtype, enum inccl_op op, const void *recv)
{
	const size_t size = inccl_dtype_size(dtype);
	uint8_t want[16];

	for (size_t i = 0; i < TYPED_COUNT; i++) {
		unsigned int best = 0;

		for (unsigned int r = 1; r < sw.conf.ranks; r++) {
			const int a = value_of(r, i), b = value_of(best, i);

			if (a == b ? index_of(r, i) < index_of(best, i)
				   : (a > b) == (op == INCCL_MAXLOC))
				best = r;
		}
		put_indexed(dtype, want, 0, value_of(best, i), index_of(best, i));
		if (size == 16)
			memset(want + 12, 0, 4);
		assert_memory_equal((const uint8_t *)recv + i * size, want, size);
	}
}

/* The switch compares keys. Broadcast passes the elements on as they are, with their padding. */
static void indexed(enum inccl_dtype dtype)
{
	const unsigned int ranks = sw.conf.ranks;
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	const size_t bytes = TYPED_COUNT * inccl_dtype_size(dtype);

	for (enum inccl_op op = INCCL_MINLOC; op <= INCCL_MAXLOC; op++) {
		for (unsigned int r = 0; r < ranks; r++) {
			for (size_t i = 0; i < TYPED_COUNT; i++)
				put_indexed(dtype, buffers[r].send, i, value_of(r, i),
					    index_of(r, i));
			assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, buffers[r].send,
							       buffers[r].recv, TYPED_COUNT, dtype,
							       op, NULL, &requests[r]),
					 0);
		}
		fake_switch_finish(&sw, requests);
		for (unsigned int r = 0; r < ranks; r++)
			check_indexed(dtype, op, buffers[r].recv);
	}
	for (unsigned int r = 0; r < ranks; r++)
		assert_int_equal(inccl_broadcast_start(sw.rank[r].comm, buffers[r].send,
						       buffers[r].recv, TYPED_COUNT, dtype, 1, NULL,
						       &requests[r]),
				 0);
	fake_switch_finish(&sw, requests);
	for (unsigned int r = 0; r < ranks; r++)
		assert_memory_equal(buffers[r].recv, buffers[1].send, bytes);
}

static void refused(enum inccl_dtype dtype, enum inccl_op op, int offset, int error,
		    const char *text)
{
	char why[256] = "";
	INCCL_OPTS(inccl_collective_opts, opts, .error = why, .error_size = sizeof(why));

	assert_int_equal(inccl_allreduce(sw.rank[0].comm, (uint8_t *)buffers[0].send + offset,
					 (uint8_t *)buffers[0].recv + offset, 1, dtype, op, &opts),
			 error);
	if (!strstr(why, text))
		fail_msg("%s", why);
}

/* Values with an index have two operators, which no other type has. They are aligned as in C. */
static void refused_indices(void **state)
{
	fake_switch_up(&sw,
		       &(struct fake_switch_conf){.ranks = 1, .window = 3, .message_packets = 1});
	refused(INCCL_INT32, INCCL_MINLOC, 0, -EOPNOTSUPP,
		"minloc of int32: minloc and maxloc are for values with an index");
	refused(INCCL_FLOAT32, INCCL_MAXLOC, 0, -EOPNOTSUPP, "maxloc of float32: minloc and");
	refused(INCCL_FLOAT64_INDEX, INCCL_MAX, 0, -EOPNOTSUPP, "max of float64_index: minloc and");
	refused(INCCL_INT32_INDEX, INCCL_SUM, 0, -EOPNOTSUPP, "sum of int32_index: minloc and");
	refused(INCCL_INT32_INDEX, INCCL_MINLOC, 2, -EINVAL, "is not aligned to 4 bytes");
	refused(INCCL_INT64_INDEX, INCCL_MINLOC, 4, -EINVAL, "is not aligned to 8 bytes");
	fake_switch_silent(&sw);
	fake_switch_down(&sw);
}

/* The log has the caller's names, and not those of the wire. */
static void logged_names(void **state)
{
	fake_switch_up(&sw,
		       &(struct fake_switch_conf){.ranks = 2, .window = 3, .message_packets = 1});
	indexed(INCCL_FLOAT64_INDEX);
	assert_true(fake_switch_logged(&sw, "allreduce (minloc of float64_index): "));
	fake_switch_down(&sw);
}

/* A sum of complex numbers is a sum of twice as many floats. */
static void complex_sum(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 3, .window = 3, .message_packets = 1};
	double _Complex *send[FAKE_SWITCH_RANKS], *recv[FAKE_SWITCH_RANKS];
	struct inccl_request *requests[FAKE_SWITCH_RANKS];

	fake_switch_up(&sw, &conf);
	for (unsigned int r = 0; r < conf.ranks; r++) {
		send[r] = (double _Complex *)buffers[r].send;
		recv[r] = (double _Complex *)buffers[r].recv;
		for (size_t i = 0; i < TYPED_COUNT; i++)
			send[r][i] = CMPLX((double)i + r, -(double)(i * r));
		assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, send[r], recv[r],
						       2 * TYPED_COUNT, INCCL_FLOAT64, INCCL_SUM,
						       NULL, &requests[r]),
				 0);
	}
	fake_switch_finish(&sw, requests);
	for (unsigned int r = 0; r < conf.ranks; r++)
		for (size_t i = 0; i < TYPED_COUNT; i++)
			assert_true(recv[r][i] == CMPLX(3.0 * (double)i + 3, -3.0 * (double)i));
	fake_switch_down(&sw);
}

static void every_integer_type(void **state)
{
	struct fake_switch_conf conf = {.ranks = 3, .window = 3, .message_packets = 1};

	for (conf.byte_order = INCCL_ORDER_LITTLE; conf.byte_order <= INCCL_ORDER_NETWORK;
	     conf.byte_order++) {
		fake_switch_up(&sw, &conf);
		for (enum inccl_dtype dtype = 0; dtype < INCCL_FLOAT32; dtype++)
			typed(dtype), logical(dtype);
		for (enum inccl_dtype dtype = INCCL_INT32_INDEX; dtype <= INCCL_FLOAT64_INDEX;
		     dtype++)
			indexed(dtype);
		fake_switch_down(&sw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_integer_type),
		cmocka_unit_test(refused_indices),
		cmocka_unit_test(logged_names),
		cmocka_unit_test(complex_sum),
	};

	return cmocka_run_group_tests_name("collectives, types", tests, NULL, NULL);
}
