// SPDX-License-Identifier: BSD-2-Clause
/* The collectives of a run: their choice, the data of each rank, how a rank starts one, and the
 * check of its result. Functions of tree.c call this before a run's first event, and the ranks'
 * tasks call it later. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/proto/desc.h"
#include "selftests/hostlib/float_data.h"
#include "selftests/unit/ref_switch.h"
#include "sim.h"
#include "tree_priv.h"

/* Most packets of a call with floats, because sums of floats take long to check, and native sums
 * even longer. */
#define FLOAT_PACKETS_MOST 4
#define NATIVE_BYTES_MOST  1024

/* --- choice of collectives --- */

bool tree_reduces_floats(const struct tree_call *call)
{
	return call->dtype >= INCCL_FLOAT32 &&
	       (call->what == INCCL_ALLREDUCE || call->what == INCCL_REDUCE ||
		call->what == INCCL_REDUCE_SCATTER);
}

static bool has_blocks(const struct tree_call *call)
{
	return call->what == INCCL_REDUCE_SCATTER || call->what == INCCL_ALL_GATHER;
}

static size_t all_bytes(const struct tree_call *call)
{
	return call->block_bytes * (has_blocks(call) ? tree.n_ranks : 1);
}

static void choose_kind(struct tree_call *call)
{
	static const enum inccl_op float_ops[] = {INCCL_SUM, INCCL_AVG, INCCL_MIN, INCCL_MAX,
						  INCCL_PROD};
	static const unsigned int float_blocks[] = {0, 1, 3, 16};

	call->what = sim_chance(500) ? INCCL_ALLREDUCE : sim_below(INCCL_ALL_GATHER + 1);
	call->root = sim_below(tree.n_ranks);
	call->dtype = sim_below((sim_chance(300) ? INCCL_BFLOAT16 : INCCL_UINT8) + 1);
	call->op = sim_below(INCCL_XOR + 1);
	if (tree_reduces_floats(call))
		call->op = float_ops[sim_below(tree.floats == INC_FLOATS_NATIVE ? 5 : 4)];
	call->mode = INCCL_MODE_SENDRECV;
	if (tree.mode == INC_TREE_PASSTHROUGH && sim_chance(300))
		call->mode = INCCL_MODE_WRITE;
	call->in_place = sim_chance(300);
	call->float_block = float_blocks[sim_below(4)];
	call->special = sim_chance(300);
	call->scaled = !call->special && sim_chance(300);
}

static void choose_call(struct tree_call *call)
{
	uint32_t packets = sim_chance(300) ? PACKETS_MOST : 4;
	size_t element, most;

	choose_kind(call);
	element = inccl_dtype_size(call->dtype);
	if (tree_reduces_floats(call) && packets > FLOAT_PACKETS_MOST)
		packets = FLOAT_PACKETS_MOST;
	most = packets * tree.opts.payload;
	if (tree_reduces_floats(call) && tree.floats == INC_FLOATS_NATIVE &&
	    most > NATIVE_BYTES_MOST)
		most = NATIVE_BYTES_MOST;
	call->block_bytes = sim_between(1, most);
	if (has_blocks(call))
		call->block_bytes = call->block_bytes / tree.n_ranks + 1;
	call->count = (call->block_bytes + element - 1) / element;
	if (call->what == INCCL_BARRIER)
		call->count = 0;
	call->block_bytes = call->count * element;
	call->expected = malloc(all_bytes(call) + 1);
	sim_require(call->expected, "no memory");
}

void tree_choose_calls(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_calls; i++)
		choose_call(&tree.call[i]);
}

/* --- data of the ranks --- */

size_t tree_send_bytes(const struct tree_call *call, unsigned int rank)
{
	if (call->what == INCCL_REDUCE_SCATTER)
		return all_bytes(call);
	return call->what == INCCL_BROADCAST && call->root != (int)rank ? 0 : call->block_bytes;
}

size_t tree_recv_bytes(const struct tree_call *call, unsigned int rank)
{
	if (call->what == INCCL_ALL_GATHER)
		return all_bytes(call);
	return call->what == INCCL_REDUCE && call->root != (int)rank ? 0 : call->block_bytes;
}

/* Fills memory with random bytes that follow from the seed. */
static void fill(const struct tree_call *call, uint8_t *at, size_t size)
{
	struct rng rng = {.state = sim_between(0, UINT64_MAX - 1)};
	uint64_t word;
	size_t n;

	if (tree_reduces_floats(call)) {
		float_fill(call->dtype, at, size / inccl_dtype_size(call->dtype), rng_next(&rng),
			   call->special);
		return;
	}
	for (; size; at += n, size -= n) {
		word = rng_next(&rng);
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

static void choose_buffer(struct tree_rank *rank, unsigned int i)
{
	const struct tree_call *call = &tree.call[i];
	const size_t sends = tree_send_bytes(call, rank->number);
	const size_t recvs = tree_recv_bytes(call, rank->number);
	const size_t own = rank->number * call->block_bytes;
	uint8_t **rooms = rank->call[i].room;

	rooms[0] = room(sends > recvs ? sends : recvs);
	rooms[1] = call->in_place ? NULL : room(recvs);
	rank->call[i].send = sends ? rooms[0] : NULL;
	rank->call[i].recv = recvs ? (call->in_place ? rooms[0] : rooms[1]) : NULL;
	if (call->in_place && call->what == INCCL_ALL_GATHER)
		rank->call[i].send += own;
	if (call->in_place && call->what == INCCL_REDUCE_SCATTER)
		rank->call[i].recv += own;
	rank->call[i].given = room(sends);
	fill(call, rank->call[i].given, sends);
	if (sends)
		memcpy(rank->call[i].send, rank->call[i].given, sends);
}

void tree_renew_buffers(struct tree_rank *rank)
{
	unsigned int i;

	for (i = 0; i < tree.n_calls; i++) {
		const size_t sends = tree_send_bytes(&tree.call[i], rank->number);
		const size_t recvs = tree_recv_bytes(&tree.call[i], rank->number);

		if (recvs)
			memset(rank->call[i].recv, 0xa5, recvs);
		if (sends)
			memcpy(rank->call[i].send, rank->call[i].given, sends);
	}
}

void tree_choose_buffers(struct tree_rank *rank)
{
	unsigned int i;

	for (i = 0; i < tree.n_calls; i++)
		choose_buffer(rank, i);
}

void tree_free_buffers(void)
{
	unsigned int r, i;

	for (i = 0; i < tree.n_calls; i++) {
		free(tree.call[i].expected);
		for (r = 0; r < tree.n_ranks; r++) {
			free(tree.rank[r].call[i].given);
			free(tree.rank[r].call[i].room[0]);
			free(tree.rank[r].call[i].room[1]);
		}
	}
}

/* --- a rank's call --- */

static int start(struct tree_rank *rank, unsigned int i, const struct inccl_collective_opts *opts)
{
	const struct tree_call *c = &tree.call[i];
	const uint8_t *send = rank->call[i].send;
	struct inccl_request **request = &rank->call[i].request;
	struct inccl_communicator *comm = tree_comm_of(rank, i);
	uint8_t *recv = rank->call[i].recv;

	switch (c->what) {
	case INCCL_ALLREDUCE:
		return inccl_allreduce_start(comm, send, recv, c->count, c->dtype, c->op, opts,
					     request);
	case INCCL_REDUCE:
		return inccl_reduce_start(comm, send, recv, c->count, c->dtype, c->op, c->root,
					  opts, request);
	case INCCL_BROADCAST:
		return inccl_broadcast_start(comm, send, recv, c->count, c->dtype, c->root, opts,
					     request);
	case INCCL_BARRIER:
		return inccl_barrier_start(comm, opts, request);
	case INCCL_REDUCE_SCATTER:
		return inccl_reduce_scatter_start(comm, send, recv, c->count, c->dtype, c->op, opts,
						  request);
	case INCCL_ALL_GATHER:
		return inccl_all_gather_start(comm, send, recv, c->count, c->dtype, opts, request);
	}
	return -EOPNOTSUPP;
}

int tree_begin_call(struct tree_rank *rank, unsigned int i)
{
	static const char *const begins[] = {
		"begins AllReduce", "begins Reduce",        "begins Broadcast",
		"begins Barrier",   "begins ReduceScatter", "begins AllGather",
	};
	static const int below = FLOAT_BELOW;
	const struct tree_call *call = &tree.call[i];
	const struct inccl_collective_opts opts = {.sz = sizeof(opts),
						   .mode = call->mode,
						   .float_block = call->float_block,
						   .float_exponent = call->scaled ? &below : NULL};

	sim_note(rank->host.process.name, begins[call->what], i, call->block_bytes, 0);
	return start(rank, i, &opts);
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

/* --- the expected result of each rank --- */

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

/* The floats of the first rank must be within the error bound, and those of the other ranks must
 * equal them. */
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

/* If the call does not use one buffer for input and output, the input must be unchanged. */
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
