/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bounce buffer of a communicator. Messages pass through it if their data has another form on
 * the wire than in the caller's buffer. That is the other byte order, integers instead of floats,
 * keys instead of values with an index, or 0 and 1 for a logical operator. A message has a slot
 * from its posting until its result has been copied to the caller's buffer. So the bounce buffer is
 * as large as the window, however long a collective is, and data of one message is converted while
 * other messages are under way.
 *
 * Slots are assigned and freed in the order of posting. A slot is contiguous; if it does not fit
 * before the end of the buffer, it is placed at the beginning.
 *
 * Called by collective.c in the caller's thread, and by progress.c, under the communicator's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "lib/reduce/operate.h"

struct inccl_bounce {
	uint8_t *memory;
	size_t bytes;
	struct inc_channel_region region;
	bool mapped;
	unsigned int packets; /* size of the bounce buffer in packets */
	/* end of the newest slot in the buffer, in packets from its beginning */
	unsigned int end;
	/* Messages from `oldest` to `next` - 1 have slots. If `filled` is set, the message `next`
	 * has one, too, which is filled, but the message is not posted yet. */
	uint64_t oldest, next;
	bool filled;
	/* ring of slots; message k has the slot at k modulo packets */
	struct inccl_bounce_slot slot[];
};

bool inccl_uses_bounce(const struct inccl_request *req)
{
	return req->floats || req->foreign || req->form != INCCL_FORM_SAME;
}

enum inccl_form inccl_form_of(const struct inccl_call *call)
{
	if (!inccl_is_reduced(call))
		return INCCL_FORM_SAME;
	if (inccl_finds_index(call->op))
		return INCCL_FORM_KEYS;
	return inccl_is_logical(call->op) ? INCCL_FORM_TRUTH : INCCL_FORM_SAME;
}

/* Copies elements in the form on the wire, and reverses their bytes if the byte order there is not
 * the machine's. */
static void copy_turned(const struct inccl_request *req, void *to, const void *from, size_t bytes)
{
	const enum inc_dtype dtype = INC_DESC_DTYPE(req->desc);
	const size_t size = req->element_bytes;

	if (!req->foreign) {
		if (to != from)
			memcpy(to, from, bytes);
	} else if (req->form == INCCL_FORM_KEYS) {
		inc_reduce_swap(to, from, bytes / sizeof(int64_t), sizeof(int64_t));
	} else if (inccl_is_index((enum inccl_dtype)dtype)) {
		inc_index_swap(dtype, to, from, bytes / size);
	} else {
		inc_reduce_swap(to, from, bytes / size, size);
	}
}

/* Converts elements of the caller's to their form on the wire. */
static void encode(const struct inccl_request *req, void *to, const void *from, size_t bytes)
{
	const size_t size = req->element_bytes, count = bytes / size;

	switch ((enum inccl_form)req->form) {
	case INCCL_FORM_SAME:
		break;
	case INCCL_FORM_TRUTH:
		inc_reduce_truth(to, from, count, size);
		from = to;
		break;
	case INCCL_FORM_KEYS:
		inc_index_to_keys(INC_DESC_DTYPE(req->desc),
				  INC_DESC_OP(req->desc) == INC_OPERATOR_MAX, to, from, count);
		from = to;
		break;
	}
	copy_turned(req, to, from, bytes);
}

/* Converts elements of a result on the wire, in the bounce buffer, to the caller's. */
static void decode(const struct inccl_request *req, void *to, void *from, size_t bytes)
{
	if (req->form != INCCL_FORM_KEYS) {
		copy_turned(req, to, from, bytes);
		return;
	}
	copy_turned(req, from, from, bytes);
	inc_index_from_keys(INC_DESC_DTYPE(req->desc), INC_DESC_OP(req->desc) == INC_OPERATOR_MAX,
			    to, from, bytes / req->element_bytes);
}

static struct inccl_bounce *new_bounce(const struct inccl_communicator *comm)
{
	/* the buffer has room for one message beyond the window, because its end may stay unused */
	const unsigned int packets = (comm->window_messages + 1) * comm->message_packets;
	struct inccl_bounce *bounce = calloc(1, sizeof(*bounce) + packets * sizeof(*bounce->slot));

	if (!bounce)
		return NULL;
	bounce->packets = packets;
	bounce->bytes = (size_t)packets * comm->payload;
	bounce->memory = malloc(bounce->bytes);
	if (bounce->memory)
		return bounce;
	free(bounce);
	return NULL;
}

int inccl_bounce_map(struct inccl_communicator *comm, const struct inc_channel_region **region)
{
	struct inccl_bounce *bounce = comm->bounce ?: new_bounce(comm);
	int ret = 0;

	if (!bounce)
		return -ENOMEM;
	comm->bounce = bounce;
	if (!bounce->mapped)
		ret = inccl_endpoint_map(comm->ep, bounce->memory, bounce->bytes, true,
					 &bounce->region);
	bounce->mapped = !ret;
	*region = &bounce->region;
	return ret;
}

void inccl_bounce_free(struct inccl_communicator *comm)
{
	struct inccl_bounce *bounce = comm->bounce;

	if (!bounce)
		return;
	if (bounce->mapped)
		inccl_endpoint_unmap(comm->ep, &bounce->region);
	free(bounce->memory);
	free(bounce);
}

/* Finds free room for a slot of so many packets. Returns where it begins, or -EAGAIN if there is no
 * room now. */
static int find_room(const struct inccl_bounce *bounce, unsigned int size)
{
	const unsigned int end = bounce->end;
	unsigned int begin;

	if (bounce->oldest == bounce->next)
		return 0;
	begin = bounce->slot[bounce->oldest % bounce->packets].at;
	if (end > begin && bounce->packets - end >= size)
		return end;
	if (end > begin)
		return begin >= size ? 0 : -EAGAIN;
	return begin - end >= size ? (int)end : -EAGAIN;
}

static int fill_slot(struct inccl_request *req, const struct inc_channel_exchange *msg,
		     struct inccl_bounce_slot *slot, struct inc_err *err)
{
	struct inccl_bounce *bounce = req->comm->bounce;
	const unsigned int size = inccl_segment_packets(req->comm, msg);
	const int at = find_room(bounce, size);

	if (at < 0)
		return at;
	*slot = (struct inccl_bounce_slot){
		.req = req,
		.at = at,
		.size = size,
		.data = bounce->memory + (size_t)at * req->comm->payload,
		.recv = msg->recv,
		.recv_len = msg->recv_len,
	};
	if (req->floats)
		return inccl_floats_fill(req, slot, msg->send_len, err);
	if (msg->send_len)
		encode(req, slot->data, msg->send, msg->send_len);
	return 0;
}

int inccl_bounce_fill(struct inccl_request *req, struct inc_channel_exchange *msg,
		      struct inc_err *err)
{
	struct inccl_bounce *bounce = req->comm->bounce;
	struct inccl_bounce_slot *slot = &bounce->slot[bounce->next % bounce->packets];
	int ret = bounce->filled ? 0 : fill_slot(req, msg, slot, err);

	if (ret)
		return ret;
	bounce->filled = true;
	msg->send = msg->recv = slot->data;
	return 0;
}

void inccl_bounce_posted(struct inccl_communicator *comm)
{
	struct inccl_bounce *bounce = comm->bounce;
	struct inccl_bounce_slot *slot = &bounce->slot[bounce->next++ % bounce->packets];

	slot->number = comm->ep->posted - 1;
	bounce->end = slot->at + slot->size;
	bounce->filled = false;
}

int inccl_bounce_collect(struct inccl_communicator *comm, struct inc_err *err)
{
	struct inccl_bounce *bounce = comm->bounce;
	const struct inccl_bounce_slot *slot;
	int ret = 0;

	while (bounce && !ret && bounce->oldest != bounce->next) {
		slot = &bounce->slot[bounce->oldest % bounce->packets];
		if (slot->number >= comm->ep->completed)
			break;
		if (slot->req->floats && slot->recv_len)
			ret = inccl_floats_collect(slot->req, slot, err);
		else if (slot->recv_len)
			decode(slot->req, slot->recv, slot->data, slot->recv_len);
		bounce->oldest++;
	}
	return ret;
}
