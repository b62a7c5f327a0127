/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Integers of every type, in collectives whose blocks do not end with a packet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "selftests/fakes/switch.h"

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

static void every_integer_type(void **state)
{
	struct fake_switch_conf conf = {.ranks = 3, .window = 3, .message_packets = 1};

	for (conf.byte_order = INCCL_ORDER_LITTLE; conf.byte_order <= INCCL_ORDER_NETWORK;
	     conf.byte_order++) {
		fake_switch_up(&sw, &conf);
		for (enum inccl_dtype dtype = 0; dtype < INCCL_FLOAT32; dtype++)
			typed(dtype), logical(dtype);
		fake_switch_down(&sw);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_integer_type),
	};

	return cmocka_run_group_tests_name("collectives, types", tests, NULL, NULL);
}
