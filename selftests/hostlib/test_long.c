/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long collectives whose data has another form on the wire than in the caller's vector. They must
 * need no more memory than short ones, and splitting them must not change the result. The library
 * is built without sanitizers, because the tests limit the address space too tightly for
 * sanitizers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "hostlib/src/coll/coll.h"
#include "lib/proto/desc.h"
#include "selftests/fakes/switch.h"
#include "selftests/fakes/transport.h"

/* The limit of memory beside a window that inccl.h promises. malloc() may reserve all of it at
 * once. */
#define BOUND_BYTES (2 << 20)
#define PAYLOAD     2048
#define WINDOW      64 /* number of packets */

static struct fake_switch sw;
static struct inccl_communicator *comm;

/* Sets up rank 0 of a job of this size. Its contributions return to it unchanged. */
static void up(unsigned int ranks, enum inccl_byte_order order)
{
	fake_switch_up(&sw, &(struct fake_switch_conf){.ranks = ranks,
						       .window = WINDOW,
						       .message_packets = 1,
						       .byte_order = order});
	comm = sw.rank[0].comm;
	fake_transport_begin(comm, PAYLOAD);
}

static void down(void)
{
	fake_transport_end();
	fake_switch_down(&sw);
}

static void *memory(size_t bytes, int protection)
{
	void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static size_t address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t pages = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%zu", &pages), 1);
	fclose(f);
	return pages * 4096;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMITED() skip() /* sanitizers reserve the whole address space */
#else
#define LIMITED()
#endif

/* Limits the process to `more` further bytes of address space; 0: no limit. */
static void limit(size_t more)
{
	struct rlimit l;

	assert_int_equal(getrlimit(RLIMIT_AS, &l), 0);
	l.rlim_cur = more ? address_space() + more : l.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_AS, &l), 0);
}

/* Element i as a float16 from 1 to 2. The sum of a single rank does not change it. */
static uint16_t half(size_t i)
{
	return 0x3c00 + (i * 2654435761u >> 7) % 1024;
}

/* Sums 256 MiB of float16, which are twice as large on the wire. */
static void float16_sum(void **state)
{
	const size_t count = (size_t)128 << 20;
	uint16_t *values = memory(count * sizeof(*values), PROT_READ | PROT_WRITE);
	size_t i;

	LIMITED();
	up(1, INCCL_ORDER_LITTLE);
	for (i = 0; i < count; i++)
		values[i] = half(i);
	limit(BOUND_BYTES + (WINDOW + 1) * PAYLOAD);
	assert_int_equal(
		inccl_allreduce(comm, values, values, count, INCCL_FLOAT16, INCCL_SUM, NULL), 0);
	limit(0);
	for (i = 0; i < count && values[i] == half(i); i++)
		;
	assert_int_equal(i, count);
	assert_int_equal(fake_transport_bytes(INC_OPERATOR_SUM), count * sizeof(int32_t));
	down();
	munmap(values, count * sizeof(*values));
}

/* Makes the largest agreement on exponents before a sum, which has an exponent for each element. */
static void block_of_one(void **state)
{
	const size_t count = (size_t)4 << 20;
	INCCL_OPTS(inccl_collective_opts, opts, .float_block = 1);
	uint16_t *values = memory(count * sizeof(*values), PROT_READ | PROT_WRITE);
	size_t i;

	LIMITED();
	up(1, INCCL_ORDER_NETWORK);
	for (i = 0; i < count; i++)
		values[i] = half(i);
	limit(BOUND_BYTES + (WINDOW + 1) * PAYLOAD);
	assert_int_equal(
		inccl_allreduce(comm, values, values, count, INCCL_FLOAT16, INCCL_SUM, &opts), 0);
	limit(0);
	for (i = 0; i < count && values[i] == half(i); i++)
		;
	assert_int_equal(i, count);
	down();
	munmap(values, count * sizeof(*values));
}

/* Runs a collective with the largest possible count, on a rank that receives no result. The rank's
 * vector has 4 GiB, but is never written. */
static void two_thousand_million(void **state)
{
	const size_t count = INT32_MAX, section = INCCL_FLOATS_PIECE;
	const size_t sections = (count + section - 1) / section;
	const uint16_t *zeros = memory(count * sizeof(*zeros), PROT_READ);
	const size_t heads = (count + 63) / 64;

	LIMITED();
	up(2, INCCL_ORDER_LITTLE);
	limit(BOUND_BYTES + (WINDOW + 1) * PAYLOAD);
	assert_int_equal(inccl_reduce(comm, zeros, NULL, count, INCCL_FLOAT16, INCCL_SUM, 1, NULL),
			 0);
	limit(0);
	assert_int_equal(fake_transport_bytes(INC_OPERATOR_SUM), count * sizeof(int32_t));
	/* each section has 16 bytes of parameters in addition to the exponents */
	assert_int_equal(fake_transport_bytes(INC_OPERATOR_MAX), sections * 16 + heads * 2);
	down();
	munmap((void *)zeros, count * sizeof(*zeros));
}

/* A ReduceScatter in the other byte order, or with MIN of floats, must convert the contribution.
 * The contribution is longer than the block that the rank receives, so the converted data does not
 * fit into that block. */
static void reduce_scatter(void **state)
{
	const size_t count = (size_t)8 << 20;
	static const struct {
		enum inccl_dtype dtype;
		enum inccl_op op;
		enum inccl_byte_order order;
	} ways[] = {
		{INCCL_INT32, INCCL_SUM, INCCL_ORDER_NETWORK},
		{INCCL_FLOAT32, INCCL_MIN, INCCL_ORDER_LITTLE},
		{INCCL_FLOAT32, INCCL_MAX, INCCL_ORDER_NETWORK},
	};
	uint32_t *send = memory(2 * count * sizeof(*send), PROT_READ | PROT_WRITE);
	uint32_t *recv = memory(count * sizeof(*recv), PROT_READ | PROT_WRITE);
	size_t i;

	LIMITED();
	for (i = 0; i < 2 * count; i++)
		send[i] = i * 2654435761u >> 1 & 0x3fffffff;
	for (unsigned int k = 0; k < sizeof(ways) / sizeof(*ways); k++) {
		up(2, ways[k].order);
		memset(recv, 0xff, count * sizeof(*recv));
		limit(BOUND_BYTES + (WINDOW + 1) * PAYLOAD);
		assert_int_equal(inccl_reduce_scatter(comm, send, recv, count, ways[k].dtype,
						      ways[k].op, NULL),
				 0);
		limit(0);
		assert_memory_equal(recv, send, count * sizeof(*recv));
		down();
	}
	munmap(send, 2 * count * sizeof(*send));
	munmap(recv, count * sizeof(*recv));
}

/* If there is no memory, a collective sends nothing and changes nothing, and the communicator
 * remains usable. */
static void no_memory(void **state)
{
	const size_t count = (size_t)2 << 20;
	char why[128] = "";
	INCCL_OPTS(inccl_collective_opts, opts, .float_block = 1, .error = why,
		   .error_size = sizeof(why));
	uint16_t *values = memory(count * sizeof(*values), PROT_READ | PROT_WRITE);
	void **rest = NULL, **more;
	size_t i;

	LIMITED();
	up(1, INCCL_ORDER_LITTLE);
	for (i = 0; i < count; i++)
		values[i] = half(i);
	limit(1);
	/* uses up the free memory in the heaps of all threads, too */
	while ((more = malloc(64 << 10))) {
		*more = rest;
		rest = more;
	}
	assert_int_equal(
		inccl_allreduce(comm, values, values, count, INCCL_FLOAT16, INCCL_SUM, &opts),
		-ENOMEM);
	limit(0);
	for (; rest; rest = more) {
		more = *rest;
		free(rest);
	}
	assert_non_null(strstr(why, "no memory"));
	assert_null(inccl_communicator_error(comm));
	assert_int_equal(
		fake_transport_bytes(INC_OPERATOR_MAX) + fake_transport_bytes(INC_OPERATOR_SUM), 0);
	for (i = 0; i < count && values[i] == half(i); i++)
		;
	assert_int_equal(i, count);
	assert_int_equal(
		inccl_allreduce(comm, values, values, count, INCCL_FLOAT16, INCCL_SUM, &opts), 0);
	down();
	munmap(values, count * sizeof(*values));
}

#define MOST (3 * INCCL_FLOATS_PIECE + 1000)

static uint64_t given[2 * MOST], taken[MOST];
static int64_t sums[2 * MOST];
static struct inc_fixed_head heads[2 * MOST];
static uint8_t kinds[2 * MOST];

/* Fills the contribution with random bits. Some parts of the vector may have infinities and NaN. */
static void fill_wildly(enum inccl_dtype dtype, size_t count)
{
	const uint32_t calm = inccl_dtype_size(dtype) >= 4 ? 0xbfffffff : 0xbfff;
	uint32_t x = 2463534242u;

	for (size_t i = 0; i < count; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		x &= i / 100000 % 2 ? UINT32_MAX : calm;
		if (dtype == INCCL_FLOAT32)
			((uint32_t *)given)[i] = x;
		else if (dtype == INCCL_FLOAT64)
			given[i] = (uint64_t)x << 32 | x * 2654435761u;
		else
			((uint16_t *)given)[i] = x;
	}
}

/* Computes the result of the whole vector at once by lib/reduce. count: number of contributed
 * elements. */
static void *whole(enum inc_float type, uint32_t block, uint32_t ranks, size_t count, void *values)
{
	struct inc_fixed fixed;
	struct inc_err err;

	assert_int_equal(inc_fixed_init(&fixed, type, block, ranks, &err), 0);
	inc_fixed_heads(&fixed, heads, given, count);
	inc_fixed_kinds(&fixed, kinds, given, count);
	assert_int_equal(inc_fixed_put(&fixed, sums, given, heads, 0, count, &err), 0);
	inc_fixed_get(&fixed, values, sums, heads, kinds, 0, count, 1);
	return values;
}

static void same_bits_of(enum inccl_dtype dtype, uint32_t block, unsigned int ranks, bool in_place)
{
	const size_t size = inccl_dtype_size(dtype), count = ranks * MOST;
	INCCL_OPTS(inccl_collective_opts, opts, .float_block = block);
	void *want = malloc(count * size), *got = in_place ? given : taken;

	assert_non_null(want);
	fill_wildly(dtype, count);
	whole((enum inc_float)(dtype - INCCL_FLOAT32), block, ranks, count, want);
	up(ranks, block % 2 ? INCCL_ORDER_NETWORK : INCCL_ORDER_LITTLE);
	if (ranks == 1)
		assert_int_equal(inccl_allreduce(comm, given, got, MOST, dtype, INCCL_SUM, &opts),
				 0);
	else
		assert_int_equal(
			inccl_reduce_scatter(comm, given, got, MOST, dtype, INCCL_SUM, &opts), 0);
	down();
	assert_memory_equal(got, want, MOST * size);
	free(want);
}

/* The result has the same bits as that of the whole vector. The block sizes divide a section, do
 * not divide it, or are larger than a section. */
static void same_bits(void **state)
{
	static const uint32_t blocks[] = {64,
					  1,
					  7,
					  100003,
					  INCCL_FLOATS_PIECE,
					  INCCL_FLOATS_PIECE + 1,
					  2 * INCCL_FLOATS_PIECE + 7,
					  UINT32_MAX};

	for (unsigned int i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
		same_bits_of(INCCL_FLOAT32, blocks[i], 1, i % 2);
		same_bits_of(INCCL_FLOAT16, blocks[i], 1, i % 2 == 0);
		same_bits_of(INCCL_BFLOAT16, blocks[i], 2, i % 2);
		same_bits_of(INCCL_FLOAT32, blocks[i], 2, i % 2 == 0);
		same_bits_of(INCCL_FLOAT64, blocks[i], 1 + i % 2, i % 2);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(float16_sum),
		cmocka_unit_test(block_of_one),
		cmocka_unit_test(two_thousand_million),
		cmocka_unit_test(reduce_scatter),
		cmocka_unit_test(no_memory),
		cmocka_unit_test(same_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
