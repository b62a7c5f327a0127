/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments a request into messages. All ranks segment at the same offsets. */
#include "lib/proto/desc.h"
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"

/* Returns the number of messages that a block needs. The first one is a single packet, which
 * carries the descriptor; the others have message_packets packets. */
static uint64_t count_messages(unsigned int payload, unsigned int message_packets, uint64_t bytes)
{
	uint64_t full = (uint64_t)payload * message_packets;

	if (bytes <= payload)
		return 1;
	return 1 + (bytes - payload + full - 1) / full;
}

/* Whether some ranks give nothing to this collective or receive nothing of it, so that their
 * packets have length 0. */
static bool is_lopsided(uint32_t desc)
{
	return !inc_all_give(desc) || !inc_ranks_get(desc, false, 1);
}

static enum inc_operator wire_op(enum inccl_op op)
{
	if (inccl_finds_index(op))
		return op == INCCL_MINLOC ? INC_OPERATOR_MIN : INC_OPERATOR_MAX;
	/* the other operators have the same numbers in both enums, which names.c asserts */
	return (enum inc_operator)op;
}

void inccl_segment_request(struct inccl_request *req, const struct inccl_plan *plan)
{
	const struct inccl_communicator *comm = req->comm;
	const struct inccl_shape *shape = &plan->shape;
	const struct inccl_call *call = plan->call;

	req->send = call->send;
	req->recv = call->recv;
	req->blocks = shape->blocks;
	req->block_bytes = plan->block_bytes;
	req->send_bytes = plan->send_bytes;
	req->recv_bytes = plan->recv_bytes;
	req->send_step = shape->send_blocks > 1 ? plan->block_bytes : 0;
	req->recv_step = shape->recv_blocks > 1 ? plan->block_bytes : 0;
	req->desc = INC_DESC(call->collective, wire_op(call->op), plan->wire_dtype, call->root,
			     INC_DESC_SEQ(req->desc));
	/* If a result corresponds to a packet, a packet of length 0 is a message of its own
	 * (docs/protocol.md). So all messages of this collective then have one packet. */
	req->message_packets = is_lopsided(req->desc) && !inccl_steps_are_messages(comm)
				       ? 1
				       : comm->message_packets;
	req->block_messages = count_messages(comm->payload, req->message_packets, req->block_bytes);
	if (req->block_bytes || call->collective == INCCL_BARRIER)
		req->messages = req->block_messages * req->blocks;
}

/* Returns the descriptor of one block of a request on the wire. Each block has its own root. */
static uint32_t block_desc(const struct inccl_request *req, uint32_t block)
{
	const uint32_t desc = INC_DESC(INC_DESC_COLL(req->desc), INC_DESC_OP(req->desc),
				       INC_DESC_DTYPE(req->desc), INC_DESC_ROOT(req->desc) + block,
				       INC_DESC_SEQ(req->desc));

	return inc_desc_to_wire(desc, req->comm->native_floats);
}

bool inccl_segment_receives(const struct inccl_request *req)
{
	const bool is_root = INC_DESC_ROOT(req->desc) == (uint32_t)req->comm->group->rank;

	/* of several blocks, one rank gives each, so there are blocks that this one receives */
	return req->recv_bytes && (req->blocks > 1 || inc_ranks_get(req->desc, is_root, 1));
}

uint64_t inccl_segment_offset(const struct inccl_request *req, uint64_t i)
{
	const uint64_t payload = req->comm->payload;

	return i ? payload + (i - 1) * payload * req->message_packets : 0;
}

void inccl_segment_message(const struct inccl_request *req, uint64_t k,
			   struct inc_channel_exchange *msg)
{
	const struct inccl_communicator *comm = req->comm;
	uint64_t full = (uint64_t)comm->payload * req->message_packets;
	uint64_t block = k / req->block_messages, i = k % req->block_messages;
	uint64_t offset = inccl_segment_offset(req, i);
	uint64_t limit = i ? full : comm->payload, left = req->block_bytes - offset;
	uint32_t len = left < limit ? left : limit;
	bool is_root;

	msg->imm = block_desc(req, block);
	is_root = INC_DESC_ROOT(msg->imm) == (uint32_t)comm->group->rank;
	msg->send = req->send + block * req->send_step + offset;
	msg->recv = req->recv + block * req->recv_step + offset;
	msg->send_len = inc_all_give(msg->imm) || (inc_root_gives(msg->imm) && is_root) ? len : 0;
	msg->recv_len = inc_ranks_get(msg->imm, is_root, 1) ? len : 0;
	msg->send_region = msg->send_len ? req->send_region : NULL;
	msg->recv_region = msg->recv_len ? req->recv_region : NULL;
	msg->write = req->mode == INCCL_MODE_WRITE;
	/* A WRITE needs an immediate, because only that reports that it is complete. A SEND
	 * completes a receive anyway. But if all messages of one packet have an immediate, their
	 * packets have one length, so more of them fit into one send. */
	msg->has_imm = len <= comm->payload || req->mode == INCCL_MODE_WRITE;
	msg->last = k + 1 == req->messages && (!req->floats || inccl_floats_must_wait(req));
}

unsigned int inccl_segment_packets(const struct inccl_communicator *comm,
				   const struct inc_channel_exchange *msg)
{
	uint32_t len = msg->send_len > msg->recv_len ? msg->send_len : msg->recv_len;

	return len ? (len + comm->payload - 1) / comm->payload : 1;
}
