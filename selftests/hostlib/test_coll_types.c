/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Integers of every type, in collectives whose blocks do not end with a packet; values with an
 * index, and complex numbers. Then wrong arguments, and the largest possible ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <complex.h>
#include <errno.h>
#include <string.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "lib/proto/desc.h"
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

static void unfit(enum inccl_dtype dtype, enum inccl_op op, int error, const char *text)
{
	char why[256] = "";
	INCCL_OPTS(inccl_collective_opts, opts, .error = why, .error_size = sizeof(why));

	assert_int_equal(inccl_allreduce(sw.rank[0].comm, buffers[0].send, buffers[0].recv, 1,
					 dtype, op, &opts),
			 error);
	if (!strstr(why, text))
		fail_msg("%s", why);
}

/* Values with an index have two operators, which no other type has. */
static void refused_indices(void **state)
{
	fake_switch_up(&sw,
		       &(struct fake_switch_conf){.ranks = 1, .window = 3, .message_packets = 1});
	unfit(INCCL_INT32, INCCL_MINLOC, -EOPNOTSUPP,
	      "minloc of int32: minloc and maxloc are for values with an index");
	unfit(INCCL_FLOAT32, INCCL_MAXLOC, -EOPNOTSUPP, "maxloc of float32: minloc and");
	unfit(INCCL_FLOAT64_INDEX, INCCL_MAX, -EOPNOTSUPP, "max of float64_index: minloc and");
	unfit(INCCL_INT32_INDEX, INCCL_SUM, -EOPNOTSUPP, "sum of int32_index: minloc and");
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

/* ---- buffers at any address ------------------------------------------------------------------ */

/* Writes a rank's elements. All types have these values exactly. */
static void put_any(enum inccl_dtype dtype, uint8_t *array, unsigned int rank)
{
	for (size_t i = 0; i < TYPED_COUNT; i++) {
		const int value = value_of(rank, i);
		const double wide = value;
		const float narrow = (float)value;

		if (inccl_is_index(dtype))
			put_indexed(dtype, array, i, value, index_of(rank, i));
		else if (dtype == INCCL_FLOAT64)
			memcpy(array + i * sizeof(wide), &wide, sizeof(wide));
		else if (dtype == INCCL_FLOAT32)
			memcpy(array + i * sizeof(narrow), &narrow, sizeof(narrow));
		else
			put(dtype, array, i, value + 2);
	}
}

static void check_any(enum inccl_dtype dtype, enum inccl_op op, const uint8_t *recv)
{
	if (inccl_is_index(dtype)) {
		check_indexed(dtype, op, recv);
		return;
	}
	for (size_t i = 0; i < TYPED_COUNT; i++) {
		double wide, sum = 0;
		float narrow;

		for (unsigned int r = 0; r < sw.conf.ranks; r++)
			sum += value_of(r, i) + (inccl_is_float(dtype) ? 0 : 2);
		if (dtype == INCCL_FLOAT64)
			memcpy(&wide, recv + i * sizeof(wide), sizeof(wide));
		else if (dtype == INCCL_FLOAT32)
			memcpy(&narrow, recv + i * sizeof(narrow), sizeof(narrow)), wide = narrow;
		else
			wide = (double)get(dtype, recv, i);
		assert_true(wide == (op == INCCL_AVG ? (double)(int)(sum / sw.conf.ranks) : sum));
	}
}

/* The buffers of rank 1 alone are at odd addresses. If it alone refused the call, the other ranks
 * would wait for it. */
static void odd_on_one_rank(enum inccl_dtype dtype, enum inccl_op op)
{
	struct inccl_request *requests[FAKE_SWITCH_RANKS];

	for (unsigned int r = 0; r < sw.conf.ranks; r++) {
		uint8_t *send = (uint8_t *)buffers[r].send + (r == 1);

		put_any(dtype, send, r);
		assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, send,
						       (uint8_t *)buffers[r].recv + (r == 1),
						       TYPED_COUNT, dtype, op, NULL, &requests[r]),
				 0);
	}
	fake_switch_finish(&sw, requests);
	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		check_any(dtype, op, (uint8_t *)buffers[r].recv + (r == 1));
}

static void any_address(void **state)
{
	struct fake_switch_conf conf = {.ranks = 3, .window = 3, .message_packets = 1};

	for (conf.byte_order = INCCL_ORDER_LITTLE; conf.byte_order <= INCCL_ORDER_NETWORK;
	     conf.byte_order++) {
		fake_switch_up(&sw, &conf);
		for (enum inccl_dtype dtype = 0; dtype < INCCL_FLOAT32; dtype++) {
			odd_on_one_rank(dtype, INCCL_SUM);
			odd_on_one_rank(dtype, INCCL_AVG);
		}
		odd_on_one_rank(INCCL_FLOAT32, INCCL_SUM);
		odd_on_one_rank(INCCL_FLOAT64, INCCL_SUM);
		for (enum inccl_dtype dtype = INCCL_INT32_INDEX; dtype <= INCCL_FLOAT64_INDEX;
		     dtype++)
			odd_on_one_rank(dtype, INCCL_MAXLOC);
		fake_switch_down(&sw);
	}
}

/* ---- arguments ------------------------------------------------------------------------------ */

/* The explanation of a rejected call. It must be in the caller's error buffer and in the log. */
static char why[256];

static void refused(int ret, int want, const char *sentence)
{
	assert_int_equal(ret, want);
	if (!strstr(why, sentence))
		fail_msg("no '%s' in '%s'", sentence, why);
	assert_true(fake_switch_logged(&sw, sentence));
	assert_true(fake_switch_logged(&sw, " refused: "));
	why[0] = 0;
	fake_switch_reset(&sw);
}

/* Tries wrong buffers of rank 1 of 3. The buffers a and b hold a block of 8 elements for each
 * rank. */
static void wrong_buffers(struct inccl_communicator *comm, struct inccl_collective_opts *opts)
{
	int32_t a[24], b[24];

	refused(inccl_allreduce(comm, NULL, b, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		"send is NULL, want 32 bytes");
	refused(inccl_allreduce(comm, a, NULL, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		"recv is NULL, want 32 bytes");
	refused(inccl_reduce(comm, NULL, NULL, 8, INCCL_INT32, INCCL_SUM, 0, opts), -EINVAL,
		"send is NULL");
	refused(inccl_reduce(comm, a, NULL, 8, INCCL_INT32, INCCL_SUM, 1, opts), -EINVAL,
		"recv is NULL");
	refused(inccl_broadcast(comm, NULL, b, 8, INCCL_INT32, 1, opts), -EINVAL, "send is NULL");
	refused(inccl_broadcast(comm, a, NULL, 8, INCCL_INT32, 0, opts), -EINVAL, "recv is NULL");
	refused(inccl_reduce_scatter(comm, NULL, b, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		"send is NULL, want 96 bytes");
	refused(inccl_all_gather(comm, a, NULL, 8, INCCL_INT32, opts), -EINVAL,
		"recv is NULL, want 96 bytes");
	refused(inccl_allreduce(comm, (void *)-64, b, 32, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		"has no 128 bytes behind it");
}

/* A collective in place has exactly one valid position of the smaller buffer. Every other overlap
 * of the two buffers is rejected. */
static void wrong_places(struct inccl_communicator *comm, struct inccl_collective_opts *opts)
{
	static const char sentence[] = "overlap, and not as they do in place";
	int32_t a[48], *mid = a + 16;

	refused(inccl_allreduce(comm, mid, mid + 1, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		sentence);
	refused(inccl_allreduce(comm, mid, mid - 7, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		sentence);
	refused(inccl_reduce(comm, mid, mid + 1, 8, INCCL_INT32, INCCL_SUM, 1, opts), -EINVAL,
		sentence);
	refused(inccl_broadcast(comm, mid, mid + 1, 8, INCCL_INT32, 1, opts), -EINVAL, sentence);
	/* in place, the block of rank 1 begins 8 elements into the buffer of all blocks */
	refused(inccl_reduce_scatter(comm, mid, mid, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		sentence);
	refused(inccl_reduce_scatter(comm, mid, mid + 16, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		sentence);
	refused(inccl_reduce_scatter(comm, mid, mid - 7, 8, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		sentence);
	refused(inccl_all_gather(comm, mid, mid, 8, INCCL_INT32, opts), -EINVAL, sentence);
	refused(inccl_all_gather(comm, mid + 16, mid, 8, INCCL_INT32, opts), -EINVAL, sentence);
	refused(inccl_all_gather(comm, mid - 7, mid, 8, INCCL_INT32, opts), -EINVAL, sentence);
}

static void wrong_kinds(struct inccl_communicator *comm, struct inccl_collective_opts *opts)
{
	int32_t a[24] = {0}, b[24];

	refused(inccl_reduce(comm, a, b, 8, INCCL_INT32, INCCL_SUM, 3, opts), -EINVAL,
		"root 3: ranks are 0 to 2");
	refused(inccl_broadcast(comm, a, b, 8, INCCL_INT32, -1, opts), -EINVAL,
		"root -1: ranks are 0 to 2");
	refused(inccl_broadcast(comm, NULL, NULL, 0, INCCL_INT32, 3, opts), -EINVAL, "root 3");
	refused(inccl_allreduce(comm, a, b, 8, (enum inccl_dtype)99, INCCL_SUM, opts), -EOPNOTSUPP,
		"dtype 99 is unknown");
	refused(inccl_reduce_scatter(comm, a, b, 8, INCCL_INT32, (enum inccl_op)99, opts),
		-EOPNOTSUPP, "op 99 is unknown");
	refused(inccl_all_gather(comm, a, b, SIZE_MAX / 8, INCCL_INT32, opts), -EINVAL,
		"are too many");
	refused(inccl_allreduce(comm, a, b, SIZE_MAX / 2, INCCL_INT32, INCCL_SUM, opts), -EINVAL,
		"are too many");
	/* the smallest count that needs more than half of the address space */
	refused(inccl_allreduce(comm, a, b, SIZE_MAX / 8 + 1, INCCL_INT32, INCCL_SUM, opts),
		-EINVAL, "are too many");
	opts->mode = (enum inccl_mode)3;
	refused(inccl_barrier(comm, opts), -EOPNOTSUPP, "mode 3 is unknown");
	opts->mode = INCCL_MODE_DEFAULT;
	opts->timeout_ms = 1u << 31;
	refused(inccl_barrier(comm, opts), -EINVAL, "timeout_ms 2147483648: at most 2147483647");
	opts->timeout_ms = 0;
}

/* A rejected call sends nothing, has no sequence number, and leaves the communicator usable. */
static void wrong_arguments(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 3, .window = 4, .message_packets = 1};
	INCCL_OPTS(inccl_collective_opts, opts, .error = why, .error_size = sizeof(why));
	struct inccl_request *req = (void *)1, *requests[FAKE_SWITCH_RANKS];
	struct {
		struct inccl_collective_opts opts;
		int more;
	} newer = {.opts = {.sz = sizeof(newer)}, .more = 1};

	fake_switch_up(&sw, &conf);
	wrong_buffers(sw.rank[1].comm, &opts);
	wrong_places(sw.rank[1].comm, &opts);
	wrong_kinds(sw.rank[1].comm, &opts);
	assert_int_equal(
		inccl_broadcast_start(sw.rank[1].comm, NULL, NULL, 1, INCCL_INT32, 0, NULL, &req),
		-EINVAL);
	assert_null(req);
	assert_int_equal(
		inccl_broadcast_start(sw.rank[1].comm, NULL, NULL, 1, INCCL_INT32, 0, NULL, NULL),
		-EINVAL);
	assert_int_equal(inccl_reduce(NULL, NULL, NULL, 0, INCCL_INT32, INCCL_SUM, 0, NULL),
			 -EINVAL);
	fake_switch_reset(&sw);
	assert_int_equal(inccl_barrier(sw.rank[1].comm, &newer.opts), -E2BIG);
	assert_true(fake_switch_logged(&sw, "barrier refused: the options"));
	fake_switch_silent(&sw);
	for (unsigned int i = 0; i < conf.ranks; i++)
		assert_int_equal(inccl_barrier_start(sw.rank[i].comm, NULL, &requests[i]), 0);
	fake_switch_finish(&sw, requests);
	assert_int_equal(INC_DESC_SEQ(sw.rank[1].trace[0].desc), 0);
	fake_switch_down(&sw);
}

/* Buffers that are adjacent do not overlap, so they are accepted. */
static void adjacent_buffers(void **state)
{
	const struct fake_switch_conf conf = {.ranks = 2, .window = 4, .message_packets = 1};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	int32_t data[2][16] = {{1}, {[8] = 2}};

	fake_switch_up(&sw, &conf);
	for (unsigned int r = 0; r < conf.ranks; r++)
		assert_int_equal(inccl_allreduce_start(sw.rank[r].comm, data[r] + 8 * r,
						       data[r] + 8 * !r, 8, INCCL_INT32, INCCL_SUM,
						       NULL, &requests[r]),
				 0);
	fake_switch_finish(&sw, requests);
	assert_int_equal(data[0][8], 3);
	assert_int_equal(data[1][0], 3);
	fake_switch_down(&sw);
}

/* A communicator that has failed rejects a collective in place. The contribution must be unchanged,
 * although it had already been converted to a wire of the other byte order. */
static void refused_in_place(void **state)
{
	const struct fake_switch_conf conf = {
		.ranks = 2, .window = 4, .message_packets = 1, .byte_order = INCCL_ORDER_NETWORK};
	struct inccl_communicator *comm;
	int32_t a[4] = {1, 2, 3, 4};
	static const int32_t same[4] = {1, 2, 3, 4};

	fake_switch_up(&sw, &conf);
	comm = sw.rank[1].comm;
	inccl_comm_fail(comm, EIO, -1, "as the test wants it");
	assert_int_equal(inccl_allreduce(comm, a, a, 4, INCCL_INT32, INCCL_SUM, NULL), -EIO);
	assert_memory_equal(a, same, sizeof(a));
	assert_int_equal(inccl_reduce_scatter(comm, a, a + 2, 2, INCCL_INT32, INCCL_SUM, NULL),
			 -EIO);
	assert_memory_equal(a, same, sizeof(a));
	assert_int_equal(inccl_all_gather(comm, a + 2, a, 2, INCCL_INT32, NULL), -EIO);
	assert_memory_equal(a + 2, same + 2, 2 * sizeof(*a));
	assert_int_equal(inccl_broadcast(comm, a, a, 4, INCCL_INT32, 1, NULL), -EIO);
	assert_memory_equal(a + 2, same + 2, 2 * sizeof(*a));
	assert_int_equal(inccl_communicator_destroy(comm), -EIO);
	sw.rank[1].comm = NULL;
	fake_switch_down(&sw);
}

/* Collectives with the largest counts and the largest number of ranks. Their last message must be
 * at the right place. */
static void large_counts(void **state)
{
	const uint64_t count = INT32_MAX, bytes = count * 4;
	struct inccl_group group = {.rank = 4095, .world_size = 4096};
	struct inccl_communicator comm = {.group = &group, .payload = 2048, .message_packets = 64};
	uint8_t *const base = (uint8_t *)(1ul << 32), *const block = base + 4095 * bytes;
	struct inccl_call call = {
		.collective = INCCL_REDUCE_SCATTER, .send = base, .recv = block, .count = count};
	struct inccl_request req = {.comm = &comm, .send = base, .recv = block};
	struct inc_channel_exchange msg;
	struct inccl_plan plan;
	struct inc_err err;

	assert_int_equal(inccl_check_call(&comm, &call, &plan, &err), 0);
	assert_int_equal(plan.send_bytes, 4096 * bytes);
	assert_int_equal(plan.recv_bytes, bytes);
	inccl_segment_request(&req, &plan);
	assert_int_equal(req.block_messages, (bytes + 2047) / 2048);
	assert_int_equal(req.messages, 4096 * req.block_messages);
	inccl_segment_message(&req, req.messages - 1, &msg);
	assert_int_equal(msg.send_len, bytes % 2048);
	assert_ptr_equal((const uint8_t *)msg.send + msg.send_len, base + 4096 * bytes);
	assert_int_equal(msg.recv_len, msg.send_len);
	assert_ptr_equal((uint8_t *)msg.recv + msg.recv_len, block + bytes);
	assert_int_equal(INC_DESC_ROOT(msg.imm), 4095);
	assert_true(msg.last && msg.has_imm);
	inccl_segment_message(&req, 4095 * req.block_messages, &msg);
	assert_true(msg.has_imm);
	assert_ptr_equal(msg.send, block);
	inccl_segment_message(&req, 4095 * req.block_messages - 1, &msg);
	assert_int_equal(INC_DESC_ROOT(msg.imm), 4094);
	assert_int_equal(msg.recv_len, 0);
	/* runs the largest count with long messages, too */
	call.collective = INCCL_ALLREDUCE;
	plan.shape = (struct inccl_shape){.blocks = 1, .send_blocks = 1, .recv_blocks = 1};
	plan.send_bytes = bytes;
	inccl_segment_request(&req, &plan);
	assert_int_equal(req.messages, 1 + (bytes - 2048 + 64 * 2048 - 1) / (64 * 2048));
	inccl_segment_message(&req, req.messages - 1, &msg);
	assert_ptr_equal((const uint8_t *)msg.send + msg.send_len, base + bytes);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_integer_type), cmocka_unit_test(refused_indices),
		cmocka_unit_test(logged_names),       cmocka_unit_test(complex_sum),
		cmocka_unit_test(any_address),        cmocka_unit_test(wrong_arguments),
		cmocka_unit_test(adjacent_buffers),   cmocka_unit_test(refused_in_place),
		cmocka_unit_test(large_counts),
	};

	return cmocka_run_group_tests_name("collectives, types", tests, NULL, NULL);
}
