// SPDX-License-Identifier: BSD-2-Clause
/* What each rank's result must be. Called from the ranks' tasks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/hostlib/float_data.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"
#include "tree_priv.h"

/* --- float_data.c speaks to cmocka; here what it finds ends the run --- */

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

/* --- what is expected --- */

static void reduce(struct tree_call *call, unsigned int i)
{
	const uint32_t desc = INC_DESC(INC_COLL_ALLREDUCE, call->op, call->dtype, 0, 0);
	const size_t bytes = tree_send_bytes(call, 0);
	unsigned int r;

	if (tree_reduces_floats(call)) {
		tree_native_reduce(call, i);
		return;
	}
	memcpy(call->expected, tree.rank[0].call[i].given, bytes);
	for (r = 1; r < tree.n_ranks; r++)
		ref_operate(desc, false, call->expected, tree.rank[r].call[i].given, bytes);
}

static void expect(struct tree_call *call, unsigned int i)
{
	const size_t bytes = call->block_bytes;
	unsigned int r;

	call->known = UINT32_MAX;
	switch (call->what) {
	case INCCL_ALLREDUCE:
	case INCCL_REDUCE:
	case INCCL_REDUCE_SCATTER:
		reduce(call, i);
		break;
	case INCCL_BROADCAST:
		memcpy(call->expected, tree.rank[call->root].call[i].given, bytes);
		break;
	case INCCL_ALL_GATHER:
		for (r = 0; r < tree.n_ranks; r++)
			memcpy(call->expected + r * bytes, tree.rank[r].call[i].given, bytes);
		break;
	case INCCL_BARRIER:
		break;
	}
}

/* The first one's floats must be good ones; the others' must be the same. */
static void check_floats(const struct tree_rank *rank, struct tree_call *call, unsigned int i,
			 unsigned int block)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	const void *of_rank[RANKS_MOST];
	struct float_given given = {.dtype = call->dtype, .of_rank = of_rank};
	const uint8_t *got = rank->call[i].recv;
	unsigned int r;
	size_t k;

	sim_require(!inccl_communicator_info(tree_comm_of(rank, i), &info),
		    "no facts of the communicator");
	for (r = 0; r < tree.n_ranks; r++)
		of_rank[r] = tree.rank[r].call[i].given;
	given.ranks = tree.n_ranks;
	given.count = tree_send_bytes(call, 0) / inccl_dtype_size(call->dtype);
	given.block = call->scaled ? 0 : call->float_block ?: 64;
	given.bits = info.float_bits;
	for (k = 0; k < call->count; k++)
		float_check(&given, call->op, block * call->count + k,
			    float_bits(call->dtype, got, k));
	memcpy(call->expected + block * call->block_bytes, got, call->block_bytes);
	call->known |= 1u << block;
}

/* Where nothing is put in its place, what was given stands as it was. */
static void check_given(const struct tree_rank *rank, unsigned int i)
{
	const struct tree_call *call = &tree.call[i];
	const uint8_t *send = rank->call[i].send, *given = rank->call[i].given;
	const size_t bytes = tree_send_bytes(call, rank->number);
	const uint8_t *from = rank->call[i].recv;
	const size_t recvs = tree_recv_bytes(call, rank->number);
	size_t k;

	for (k = 0; k < bytes; k++)
		sim_require(send[k] == given[k] ||
				    (call->in_place && &send[k] >= from && &send[k] < from + recvs),
			    "rank %u, call %u: what was given has changed", rank->number, i);
}

void tree_check_result(struct tree_rank *rank, unsigned int number)
{
	struct tree_call *call = &tree.call[number];
	const size_t bytes = tree_recv_bytes(call, rank->number);
	const unsigned int block = call->what == INCCL_REDUCE_SCATTER ? rank->number : 0;
	const uint8_t *expected = call->expected + block * call->block_bytes;
	size_t i = 0;

	if (!(call->known >> block & 1) && bytes) {
		if (tree_reduces_floats(call) && tree.floats == INC_FLOATS_FIXED)
			check_floats(rank, call, number, block);
		else
			expect(call, number);
	}
	while (i < bytes && rank->call[number].recv[i] == expected[i])
		i++;
	sim_require(i == bytes, "rank %u, call %u: byte %zu of %zu is wrong", rank->number, number,
		    i, bytes);
	check_given(rank, number);
	sim_hash_bytes(rank->call[number].recv, bytes);
}
