/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "hostlib/src/internal.h"
#include "lib/proto/desc.h"
#include "selftests/hostlib/mirror.h"

#define MESSAGES 4096 /* messages in flight at most */

static struct {
	struct inccl_communicator *comm;
	const struct inccl_transport *real;
	struct inccl_transport ops;
	uint64_t begin; /* messages that the real transport had completed before */
	unsigned int payload, real_payload;
	uint64_t under_way; /* packets in flight */
	struct inccl_message messages[MESSAGES];
	uint32_t desc; /* of the last message posted */
	uint64_t bytes[INC_OPERATOR_AVG + 1];
} m;

static unsigned int packets(const struct inccl_message *msg)
{
	uint32_t len = msg->send_len > msg->recv_len ? msg->send_len : msg->recv_len;

	return len ? (len + m.payload - 1) / m.payload : 1;
}

static uint64_t under_way(const struct inccl_endpoint *ep)
{
	return m.under_way;
}

static int post(struct inccl_endpoint *ep, const struct inccl_message *msg)
{
	if (ep->posted - ep->completed == MESSAGES)
		return -EAGAIN;
	if (msg->has_imm)
		m.desc = msg->imm;
	m.bytes[INC_DESC_OP(m.desc)] += msg->send_len;
	m.messages[ep->posted++ % MESSAGES] = *msg;
	m.under_way += packets(msg);
	return 0;
}

static int flush(struct inccl_endpoint *ep)
{
	return 0;
}

/* Completes the older half of the messages in flight. */
static int progress(struct inccl_endpoint *ep)
{
	const uint64_t end = ep->completed + (ep->posted - ep->completed + 1) / 2;
	const struct inccl_message *msg;

	for (; ep->completed < end; ep->completed++) {
		msg = &m.messages[ep->completed % MESSAGES];
		if (msg->recv_len)
			memmove(msg->recv, msg->send, msg->recv_len);
		m.under_way -= packets(msg);
		ep->stats.results++;
	}
	return ep->posted != ep->completed;
}

static int arm(struct inccl_endpoint *ep, int *fd, short *events, uint64_t *deadline_ns)
{
	*fd = -1;
	*deadline_ns = UINT64_MAX;
	return ep->posted != ep->completed;
}

void mirror_begin(struct inccl_communicator *comm, unsigned int payload)
{
	pthread_mutex_lock(&comm->lock);
	memset(&m, 0, sizeof(m));
	m.comm = comm;
	m.real = comm->ep->ops;
	m.ops = *m.real;
	m.ops.under_way = under_way;
	m.ops.post = post;
	m.ops.flush = flush;
	m.ops.progress = progress;
	m.ops.arm = arm;
	m.begin = comm->ep->posted;
	m.payload = payload;
	m.real_payload = comm->payload;
	comm->payload = payload;
	comm->ep->ops = &m.ops;
	pthread_mutex_unlock(&comm->lock);
}

void mirror_end(void)
{
	struct inccl_communicator *comm = m.comm;

	pthread_mutex_lock(&comm->lock);
	comm->ep->ops = m.real;
	comm->ep->posted = comm->ep->completed = m.begin;
	comm->payload = m.real_payload;
	pthread_mutex_unlock(&comm->lock);
}

uint64_t mirror_bytes(unsigned int op)
{
	return m.bytes[op];
}
