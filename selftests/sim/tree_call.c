// SPDX-License-Identifier: BSD-2-Clause
/* The collectives of a run: which there are, what each rank gives, and how a rank begins one.
 * Called by tree.c before a run's first event, and from the ranks' tasks. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/hostlib/float_data.h"
#include "sim.h"
#include "tree_priv.h"

/* A sum of floats takes long to check, and longer where they are added as they are. */
#define FLOAT_PACKETS_MOST 4
#define NATIVE_BYTES_MOST  1024

/* --- which there are --- */

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

/* --- what is given --- */

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

/* Bytes of the seed's, quickly. */
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
