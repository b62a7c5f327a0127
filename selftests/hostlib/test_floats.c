/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Floats in collectives of up to four ranks in one process, with a test switch that adds integers.
 * Covers every type, operator and reducing collective, compared with exact arithmetic.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include "selftests/hostlib/float_data.h"
#include "selftests/fakes/switch.h"

#define MOST  1000
#define GUARD 8

static struct fake_switch sw;

/* One collective of floats that all ranks run. */
struct run {
	enum inccl_collective collective;
	enum inccl_dtype dtype;
	enum inccl_op op;
	size_t count;
	unsigned int float_block; /* option float_block of the ranks; 0: the default */
	int root;
	bool scaled, special, in_place;
	enum inccl_mode mode;
};

static struct buffers {
	uint64_t given[FAKE_SWITCH_RANKS *
		       MOST]; /* copy of the send buffers, made before the call */
	uint64_t send[FAKE_SWITCH_RANKS * MOST];
	uint64_t recv[MOST + GUARD];
	void *got;
} buffers[FAKE_SWITCH_RANKS];

/* How many elements a rank contributes. The next functions return how many it receives, and from
 * which index on. */
static size_t given_count(const struct run *run)
{
	return run->collective == INCCL_REDUCE_SCATTER ? sw.conf.ranks * run->count : run->count;
}

static size_t got_count(const struct run *run, unsigned int rank)
{
	return run->collective == INCCL_REDUCE && run->root != (int)rank ? 0 : run->count;
}

static size_t got_first(const struct run *run, unsigned int rank)
{
	return run->collective == INCCL_REDUCE_SCATTER ? rank * run->count : 0;
}

static void fill(const struct run *run, unsigned int rank)
{
	const size_t count = given_count(run), size = inccl_dtype_size(run->dtype);
	struct buffers *b = &buffers[rank];
	const uint32_t seed = rank + 1 + 10 * (uint32_t)run->count;

	memset(b->recv, 0x5a, sizeof(b->recv));
	if (run->op == INCCL_MIN || run->op == INCCL_MAX)
		float_fill_any(run->dtype, b->given, count, seed);
	else
		float_fill(run->dtype, b->given, count, seed, run->special);
	memcpy(b->send, b->given, count * size);
	b->got = run->in_place ? (uint8_t *)b->send + got_first(run, rank) * size
			       : (uint8_t *)b->recv;
	if (!got_count(run, rank))
		b->got = NULL;
}

static struct inccl_request *start(const struct run *run, unsigned int rank)
{
	struct inccl_communicator *comm = sw.rank[rank].comm;
	const int exponent = FLOAT_BELOW;
	INCCL_OPTS(inccl_collective_opts, opts, .mode = run->mode, .float_block = run->float_block,
		   .float_exponent = run->scaled ? &exponent : NULL);
	struct inccl_request *req = NULL;
	struct buffers *b = &buffers[rank];
	int ret;

	if (run->collective == INCCL_ALLREDUCE)
		ret = inccl_allreduce_start(comm, b->send, b->got, run->count, run->dtype, run->op,
					    &opts, &req);
	else if (run->collective == INCCL_REDUCE)
		ret = inccl_reduce_start(comm, b->send, b->got, run->count, run->dtype, run->op,
					 run->root, &opts, &req);
	else
		ret = inccl_reduce_scatter_start(comm, b->send, b->got, run->count, run->dtype,
						 run->op, &opts, &req);
	assert_int_equal(ret, 0);
	return req;
}

static void verify(const struct run *run, unsigned int rank)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	const size_t size = inccl_dtype_size(run->dtype), gets = got_count(run, rank);
	const void *of_rank[FAKE_SWITCH_RANKS];
	struct float_given given = {.dtype = run->dtype,
				    .of_rank = of_rank,
				    .ranks = sw.conf.ranks,
				    .count = given_count(run),
				    .block = run->scaled ? 0 : run->float_block ?: 64};
	struct buffers *b = &buffers[rank];
	const uint8_t *recv = (uint8_t *)b->recv, *send = (uint8_t *)b->send;
	size_t i;

	for (unsigned int r = 0; r < sw.conf.ranks; r++)
		of_rank[r] = buffers[r].given;
	assert_int_equal(inccl_communicator_info(sw.rank[rank].comm, &info), 0);
	given.bits = info.float_bits;
	for (i = 0; i < gets; i++)
		float_check(&given, run->op, got_first(run, rank) + i,
			    float_bits(run->dtype, b->got, i));
	for (i = 0; i < given_count(run) * size; i++)
		if (!gets || &send[i] < (uint8_t *)b->got ||
		    &send[i] >= (uint8_t *)b->got + gets * size)
			assert_int_equal(send[i], ((uint8_t *)b->given)[i]);
	for (i = b->got == b->recv ? gets * size : 0; i < sizeof(b->recv); i++)
		assert_int_equal(recv[i], 0x5a);
}

static void carry_out(const struct run *run)
{
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	unsigned int r;

	for (r = 0; r < sw.conf.ranks; r++) {
		fill(run, r);
		requests[r] = start(run, r);
	}
	fake_switch_finish(&sw, requests);
	for (r = 0; r < sw.conf.ranks; r++)
		verify(run, r);
	/* all ranks must have results with the same bits */
	for (r = 1; run->collective == INCCL_ALLREDUCE && r < sw.conf.ranks; r++)
		assert_memory_equal(buffers[r].got, buffers[0].got,
				    run->count * inccl_dtype_size(run->dtype));
}

/* Runs all collectives and counts of one type and operator, with alternating options. */
static void all_ways(struct run *run)
{
	static const size_t counts[] = {0, 1, 63, 64, 65, 257, MOST};
	static const enum inccl_collective which[] = {INCCL_ALLREDUCE, INCCL_REDUCE,
						      INCCL_REDUCE_SCATTER};
	static const unsigned int blocks[] = {0, 1, 7, 4096};
	unsigned int way = 0;

	for (unsigned int c = 0; c < 3; c++)
		for (unsigned int i = 0; i < sizeof(counts) / sizeof(*counts); i++, way++) {
			run->collective = which[c];
			run->count = counts[i];
			run->root = way % sw.conf.ranks;
			run->float_block = blocks[way % 4];
			run->in_place = way % 2;
			run->mode = way % 3 ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV;
			run->special = way % 5 < 2;
			run->scaled = false;
			carry_out(run);
			if (run->op != INCCL_SUM && run->op != INCCL_AVG)
				continue;
			run->special = false;
			run->scaled = true;
			carry_out(run);
		}
}

static void all_of(const struct fake_switch_conf *conf)
{
	static const enum inccl_op ops[] = {INCCL_SUM, INCCL_AVG, INCCL_MIN, INCCL_MAX};

	fake_switch_up(&sw, conf);
	for (enum inccl_dtype dtype = INCCL_FLOAT32; dtype <= INCCL_FLOAT64; dtype++)
		for (unsigned int o = 0; o < 4; o++) {
			struct run run = {.dtype = dtype, .op = ops[o]};

			all_ways(&run);
		}
	fake_switch_down(&sw);
}

static void one_rank(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 1, .window = 7, .message_packets = 1});
}

static void two_ranks_one_packet_at_a_time(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 2, .window = 1, .message_packets = 1});
}

static void three_ranks_network_order(void **state)
{
	all_of(&(struct fake_switch_conf){
		.ranks = 3, .window = 5, .message_packets = 1, .byte_order = INCCL_ORDER_NETWORK});
}

static void four_ranks_messages_of_four(void **state)
{
	all_of(&(struct fake_switch_conf){.ranks = 4, .window = 8, .message_packets = 4});
}

/* Collectives that do not reduce must forward every bit pattern unchanged. */
static void carried_as_they_are(void **state)
{
	const struct fake_switch_conf conf = {
		.ranks = 3, .window = 4, .message_packets = 1, .byte_order = INCCL_ORDER_NETWORK};
	struct inccl_request *requests[FAKE_SWITCH_RANKS];
	uint64_t gathered[FAKE_SWITCH_RANKS][3 * 75];
	const size_t count = 75;

	fake_switch_up(&sw, &conf);
	for (enum inccl_dtype dtype = INCCL_FLOAT32; dtype <= INCCL_FLOAT64; dtype++) {
		const size_t bytes = count * inccl_dtype_size(dtype);

		for (unsigned int r = 0; r < conf.ranks; r++) {
			float_fill_any(dtype, buffers[r].send, count, r + 1);
			assert_int_equal(inccl_broadcast_start(sw.rank[r].comm, buffers[r].send,
							       buffers[r].recv, count, dtype, 1,
							       NULL, &requests[r]),
					 0);
		}
		fake_switch_finish(&sw, requests);
		for (unsigned int r = 0; r < conf.ranks; r++)
			assert_memory_equal(buffers[r].recv, buffers[1].send, bytes);
		for (unsigned int r = 0; r < conf.ranks; r++)
			assert_int_equal(inccl_all_gather_start(sw.rank[r].comm, buffers[r].send,
								gathered[r], count, dtype, NULL,
								&requests[r]),
					 0);
		fake_switch_finish(&sw, requests);
		for (unsigned int r = 0; r < conf.ranks; r++)
			for (unsigned int k = 0; k < conf.ranks; k++)
				assert_memory_equal((uint8_t *)gathered[r] + k * bytes,
						    buffers[k].send, bytes);
	}
	fake_switch_down(&sw);
}

static void words(void **state)
{
	static const char *const names[] = {"float32", "float16", "bfloat16", "float64"};
	static const size_t sizes[] = {4, 2, 2, 8};
	enum inccl_dtype dtype;

	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(inccl_dtype_parse(names[i], &dtype), 0);
		assert_int_equal(dtype, INCCL_FLOAT32 + i);
		assert_string_equal(inccl_dtype_name(dtype), names[i]);
		assert_int_equal(inccl_dtype_size(dtype), sizes[i]);
	}
	/* the numbers between integer and float types, and after the last type, are no types */
	for (dtype = INCCL_UINT8 + 1; dtype < INCCL_FLOAT32; dtype++)
		assert_true(!inccl_dtype_name(dtype) && !inccl_dtype_size(dtype));
	assert_null(inccl_dtype_name(INCCL_FLOAT64_INDEX + 1));
}

static struct inccl_request *start_scaled(unsigned int rank, const double *values, size_t count,
					  enum inccl_op op, int exponent)
{
	INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = &exponent);
	struct inccl_request *req = NULL;

	assert_int_equal(inccl_allreduce_start(sw.rank[rank].comm, values, buffers[rank].recv,
					       count, INCCL_FLOAT64, op, &opts, &req),
			 0);
	return req;
}

/* Numbers at both ends of an exponent of the caller's: the largest ones below the limit, and the
 * smallest ones that a unit of 61 bits has. These sums are exact, or infinite. */
static void ends_of_float64(void **state)
{
	static const int exponents[] = {-1016, -1015, 0, 1023, 1024};
	struct inccl_request *requests[2];

	fake_switch_up(&sw,
		       &(struct fake_switch_conf){.ranks = 2, .window = 4, .message_packets = 1});
	for (unsigned int i = 0; i < 5; i++) {
		const int e = exponents[i];
		/* the limit itself is infinite if the exponent is 1024 */
		const double top = ldexp(1 - 0x1p-53, e), unit = ldexp(1, e - 61);
		const double least = unit > 0 ? unit : 0x1p-1074;
		const double given[2][5] = {{top, -top, top, least, -0.0},
					    {top, -top, -top, 2 * least, -0.0}};
		const double sum[] = {2 * top, -2 * top, 0, 3 * least, 0};
		const double mean[] = {top, -top, 0, 3 * least / 2, 0};

		for (unsigned int o = 0; o < 2; o++) {
			for (unsigned int r = 0; r < 2; r++)
				requests[r] =
					start_scaled(r, given[r], 5, o ? INCCL_AVG : INCCL_SUM, e);
			fake_switch_finish(&sw, requests);
			for (unsigned int r = 0; r < 2; r++)
				assert_memory_equal(buffers[r].recv, o ? mean : sum, sizeof(sum));
		}
	}
	fake_switch_down(&sw);
}

/* Exponents beyond the ends are rejected. Two that differ by 256 are different. */
static void exponents_of_float64(void **state)
{
	static const struct {
		int exponent;
		const char *text;
	} wrong[] = {{1025, "float_exponent 1025: want -1016 to 1024"},
		     {-1017, "float_exponent -1017: want -1016 to 1024"}};
	static const double values[4] = {1, 2, 3, 4};
	struct inccl_request *requests[2];
	char why[256] = "";
	int ret[2] = {-EAGAIN, -EAGAIN};

	fake_switch_up(&sw,
		       &(struct fake_switch_conf){.ranks = 2, .window = 4, .message_packets = 1});
	for (unsigned int i = 0; i < 2; i++) {
		INCCL_OPTS(inccl_collective_opts, opts, .float_exponent = &wrong[i].exponent,
			   .error = why, .error_size = sizeof(why));

		assert_int_equal(inccl_allreduce(sw.rank[0].comm, values, buffers[0].recv, 4,
						 INCCL_FLOAT64, INCCL_SUM, &opts),
				 -EINVAL);
		assert_string_equal(why, wrong[i].text);
	}
	for (unsigned int r = 0; r < 2; r++)
		requests[r] = start_scaled(r, values, 4, INCCL_SUM, 3 + 256 * (int)r);
	while (ret[0] == -EAGAIN || ret[1] == -EAGAIN) {
		fake_switch_serve(&sw);
		for (unsigned int r = 0; r < 2; r++)
			ret[r] = ret[r] == -EAGAIN ? inccl_test(requests[r]) : ret[r];
	}
	for (unsigned int r = 0; r < 2; r++) {
		assert_int_equal(ret[r], -EREMOTEIO);
		sw.rank[r].ended = -EREMOTEIO;
	}
	fake_switch_down(&sw);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(words),
		cmocka_unit_test(one_rank),
		cmocka_unit_test(two_ranks_one_packet_at_a_time),
		cmocka_unit_test(three_ranks_network_order),
		cmocka_unit_test(four_ranks_messages_of_four),
		cmocka_unit_test(carried_as_they_are),
		cmocka_unit_test(ends_of_float64),
		cmocka_unit_test(exponents_of_float64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
