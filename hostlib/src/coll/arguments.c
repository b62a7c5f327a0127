/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks the arguments of a collective. If one is invalid, the collective is refused before
 * anything is sent. */
#include <errno.h>
#include "hostlib/node/node.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* Checks the root of a collective. It is checked on every rank, as in MPI, even if the rank's data
 * does not depend on it. */
static int check_root(const struct inccl_call *call, int size, struct inc_err *err)
{
	if (call->root >= 0 && call->root < size)
		return 0;
	return inc_err_set(err, EINVAL, "root %d: ranks are 0 to %d", call->root, size - 1);
}

/* Returns the reason why floats are sent as integers, as a text for errors. */
static const char *why_as_integers(const struct inccl_communicator *comm)
{
	switch (comm->mode) {
	case INC_TREE_PASSTHROUGH:
		return "the switches are in passthrough mode";
	case INC_TREE_MIXED:
		return "not all of the switches are in termination mode";
	case INC_TREE_TERMINATION:
		break;
	}
	return "not every rank and switch supports floats";
}

static int check_kind(const struct inccl_communicator *comm, const struct inccl_call *call,
		      size_t element_bytes, struct inc_err *err)
{
	if (!element_bytes)
		return inc_err_set(err, EOPNOTSUPP, "dtype %d is unknown", call->dtype);
	if (!inccl_op_name(call->op))
		return inc_err_set(err, EOPNOTSUPP, "op %d is unknown", call->op);
	if (inccl_is_reduced(call) && inccl_finds_index(call->op) != inccl_is_index(call->dtype))
		return inc_err_set(
			err, EOPNOTSUPP,
			"%s of %s: minloc and maxloc are for values with an index, which "
			"have no other operators",
			inccl_op_name(call->op), inccl_dtype_name(call->dtype));
	if (!inccl_floats_are_reduced(call))
		return 0;
	switch (call->op) {
	case INCCL_SUM:
	case INCCL_AVG:
	case INCCL_MIN:
	case INCCL_MAX:
		return 0;
	case INCCL_PROD:
		if (comm->native_floats)
			return 0;
		return inc_err_set(err, EOPNOTSUPP,
				   "prod of %s: floats go through %s as integers, which have sum, "
				   "avg, min and max, because %s",
				   inccl_dtype_name(call->dtype), comm->tree,
				   why_as_integers(comm));
	case INCCL_AND:
	case INCCL_OR:
	case INCCL_LAND:
	case INCCL_LOR:
	case INCCL_LXOR:
	case INCCL_MINLOC:
	case INCCL_MAXLOC:
	/* each operator has its case here, so that the compiler warns about a new one */
	case INCCL_XOR:
		break;
	}
	return inc_err_set(err, EOPNOTSUPP, "%s of %s: floats have sum, avg, min, max and prod",
			   inccl_op_name(call->op), inccl_dtype_name(call->dtype));
}

/* Computes the sizes of the caller's buffers. All offsets in them, and differences of offsets, must
 * fit into size_t and ptrdiff_t. */
static int measure(struct inccl_plan *plan, struct inc_err *err)
{
	const uint32_t blocks = plan->shape.blocks;
	uint64_t all;

	if (__builtin_mul_overflow(plan->call->count, plan->element_bytes, &plan->block_bytes) ||
	    __builtin_mul_overflow(plan->block_bytes, blocks, &all) || all > SIZE_MAX / 2)
		return inc_err_set(err, EINVAL,
				   "count %zu: %u blocks of so many elements are too many",
				   plan->call->count, blocks);
	plan->send_bytes = plan->shape.send_blocks * plan->block_bytes;
	plan->recv_bytes = plan->shape.recv_blocks * plan->block_bytes;
	return 0;
}

static int check_buffer(const char *name, const void *at, uint64_t bytes, struct inc_err *err)
{
	/* Any alignment is accepted, because it may differ between ranks. If this rank alone
	 * refused the call, the others would wait for it. */
	if (!bytes)
		return 0;
	if (!at)
		return inc_err_set(err, EINVAL, "%s is NULL, want %llu bytes", name,
				   (unsigned long long)bytes);
	if ((uintptr_t)at > UINTPTR_MAX - bytes)
		return inc_err_set(err, EINVAL, "%s (%p) has no %llu bytes behind it", name, at,
				   (unsigned long long)bytes);
	return 0;
}

/* Returns the offset of this rank's own block in a buffer with so many blocks. */
static uint64_t own_offset(const struct inccl_plan *plan, uint32_t blocks_held)
{
	return blocks_held > 1 ? plan->shape.own_block * plan->block_bytes : 0;
}

static int check_overlap(const struct inccl_plan *plan, struct inc_err *err)
{
	uintptr_t send = (uintptr_t)plan->call->send, recv = (uintptr_t)plan->call->recv;

	if (!plan->send_bytes || !plan->recv_bytes || send >= recv + plan->recv_bytes ||
	    recv >= send + plan->send_bytes)
		return 0;
	if (send + own_offset(plan, plan->shape.send_blocks) ==
	    recv + own_offset(plan, plan->shape.recv_blocks))
		return 0;
	return inc_err_set(
		err, EINVAL,
		"send (%p, %llu bytes) and recv (%p, %llu bytes) overlap, and not as they "
		"do in place",
		plan->call->send, (unsigned long long)plan->send_bytes, plan->call->recv,
		(unsigned long long)plan->recv_bytes);
}

int inccl_check_mode(const struct inccl_communicator *comm,
		     const struct inccl_collective_opts *opts, struct inc_err *err)
{
	if (opts->mode != INCCL_MODE_WRITE || comm->mode == INC_TREE_PASSTHROUGH ||
	    !inccl_node_needs_network(comm->group))
		return 0;
	return inc_err_set(err, EOPNOTSUPP,
			   "mode write: a switch of %s ends connections itself (termination mode), "
			   "and has no memory that a WRITE could name; use sendrecv%s",
			   comm->tree, *comm->choice ? ", or name write in INCCL_USE" : "");
}

int inccl_check_call(const struct inccl_communicator *comm, const struct inccl_call *call,
		     struct inccl_plan *plan, struct inc_err *err)
{
	const int rank = comm->group->rank, size = comm->group->world_size;
	int ret;

	*plan = (struct inccl_plan){
		.call = call,
		/* the types have the same numbers in both enums, which names.c asserts */
		.wire_dtype = (enum inc_dtype)call->dtype,
		.element_bytes = inccl_dtype_size(call->dtype),
	};
	ret = check_root(call, size, err);
	if (!ret)
		ret = check_kind(comm, call, plan->element_bytes, err);
	if (ret)
		return ret;
	if (!inccl_shape_of(call, rank, size, &plan->shape))
		return inc_err_set(err, EINVAL, "collective %d is unknown", call->collective);
	ret = measure(plan, err);
	if (!ret)
		ret = check_buffer("send", call->send, plan->send_bytes, err);
	if (!ret)
		ret = check_buffer("recv", call->recv, plan->recv_bytes, err);
	if (!ret)
		ret = check_overlap(plan, err);
	return ret;
}
