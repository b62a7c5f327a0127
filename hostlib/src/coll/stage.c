/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The stage of a communicator: the memory through which messages go whose data is on the wire not
 * as the caller has it, but in the other byte order, or as integers instead of floats. A message
 * has its place there from when it is posted until its result is there and has been taken to the
 * caller's buffer; so the stage is as large as what may be under way, however long a collective is,
 * and data is turned round while that of messages before and after it is on its way.
 *
 * Places are given and come free in the order of posting. A message's is in one piece: where it
 * does not fit before the end, it is at the beginning.
 *
 * Called by collective.c in the caller's thread, and by progress.c, under the communicator's lock.
 */
#include <errno.h>
#include <stdlib.h>
#include "hostlib/src/coll/coll.h"
#include "hostlib/src/internal.h"
#include "lib/reduce/operate.h"

struct inccl_stage {
	uint8_t *memory;
	size_t bytes;
	struct inccl_region region;
	bool mapped;
	unsigned int packets; /* that it has room for */
	unsigned int end;     /* where the last place ends */
	/* What is on it: messages oldest to next - 1; number next has its data and is not posted
	 * yet where it is made. */
	uint64_t oldest, next;
	bool made;
	struct inccl_staged staged[]; /* of message k: k modulo packets */
};

bool inccl_is_staged(const struct inccl_request *req)
{
	return req->floats || req->foreign;
}

static struct inccl_stage *new_stage(const struct inccl_communicator *comm)
{
	/* one message more than the window, for what is left unused at the end */
	const unsigned int packets = (comm->window_messages + 1) * comm->message_packets;
	struct inccl_stage *stage = calloc(1, sizeof(*stage) + packets * sizeof(*stage->staged));

	if (!stage)
		return NULL;
	stage->packets = packets;
	stage->bytes = (size_t)packets * comm->payload;
	stage->memory = malloc(stage->bytes);
	if (stage->memory)
		return stage;
	free(stage);
	return NULL;
}

int inccl_stage_make(struct inccl_communicator *comm)
{
	bool there;

	pthread_mutex_lock(&comm->lock);
	if (!comm->stage)
		comm->stage = new_stage(comm);
	there = comm->stage;
	pthread_mutex_unlock(&comm->lock);
	return there ? 0 : -ENOMEM;
}

int inccl_stage_map(struct inccl_communicator *comm, const struct inccl_region **region)
{
	struct inccl_stage *stage = comm->stage;
	int ret = 0;

	if (!stage->mapped)
		ret = comm->ep->ops->map(comm->ep, stage->memory, stage->bytes, true,
					 &stage->region);
	stage->mapped = !ret;
	*region = &stage->region;
	return ret;
}

void inccl_stage_free(struct inccl_communicator *comm)
{
	struct inccl_stage *stage = comm->stage;

	if (!stage)
		return;
	if (stage->mapped)
		comm->ep->ops->unmap(comm->ep, &stage->region);
	free(stage->memory);
	free(stage);
}

/* Where so many packets go; -EAGAIN: nowhere, for now. */
static int find_place(const struct inccl_stage *stage, unsigned int size)
{
	const unsigned int end = stage->end;
	unsigned int begin;

	if (stage->oldest == stage->next)
		return 0;
	begin = stage->staged[stage->oldest % stage->packets].at;
	if (end > begin && stage->packets - end >= size)
		return end;
	if (end > begin)
		return begin >= size ? 0 : -EAGAIN;
	return begin - end >= size ? (int)end : -EAGAIN;
}

static int make(struct inccl_request *req, const struct inccl_message *msg,
		struct inccl_staged *staged, struct inc_err *err)
{
	struct inccl_stage *stage = req->comm->stage;
	const unsigned int size = inccl_segment_packets(req->comm, msg);
	const int at = find_place(stage, size);

	if (at < 0)
		return at;
	*staged = (struct inccl_staged){
		.req = req,
		.at = at,
		.size = size,
		.data = stage->memory + (size_t)at * req->comm->payload,
		.recv = msg->recv,
		.recv_len = msg->recv_len,
	};
	if (req->floats)
		return inccl_floats_put(req, staged, msg->send_len, err);
	if (msg->send_len)
		inc_reduce_swap(staged->data, msg->send, msg->send_len / req->element_bytes,
				req->element_bytes);
	return 0;
}

int inccl_stage_put(struct inccl_request *req, struct inccl_message *msg, struct inc_err *err)
{
	struct inccl_stage *stage = req->comm->stage;
	struct inccl_staged *staged = &stage->staged[stage->next % stage->packets];
	int ret = stage->made ? 0 : make(req, msg, staged, err);

	if (ret)
		return ret;
	stage->made = true;
	msg->send = msg->recv = staged->data;
	return 0;
}

void inccl_stage_posted(struct inccl_communicator *comm)
{
	struct inccl_stage *stage = comm->stage;
	struct inccl_staged *staged = &stage->staged[stage->next++ % stage->packets];

	staged->number = comm->ep->posted - 1;
	stage->end = staged->at + staged->size;
	stage->made = false;
}

int inccl_stage_take(struct inccl_communicator *comm, struct inc_err *err)
{
	struct inccl_stage *stage = comm->stage;
	const struct inccl_staged *staged;
	int ret = 0;

	while (stage && !ret && stage->oldest != stage->next) {
		staged = &stage->staged[stage->oldest % stage->packets];
		if (staged->number >= comm->ep->completed)
			break;
		if (staged->req->floats && staged->recv_len)
			ret = inccl_floats_take(staged->req, staged, err);
		else if (staged->recv_len)
			inc_reduce_swap(staged->recv, staged->data,
					staged->recv_len / staged->req->element_bytes,
					staged->req->element_bytes);
		stage->oldest++;
	}
	return ret;
}
