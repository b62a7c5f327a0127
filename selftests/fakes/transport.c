/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "hostlib/src/internal.h"
#include "lib/proto/desc.h"
#include "selftests/fakes/transport.h"

#define MESSAGES 4096 /* greatest number of messages in flight */

static struct {
	struct inccl_communicator *comm;
	const struct inc_channel_ops *real;
	struct inc_channel_ops ops;
	/* number of messages that the real channel had completed before this transport was
	 * installed */
	uint64_t begin;
	unsigned int payload, real_payload;
	/* packets that are in flight, and packets that were returned as results */
	uint64_t under_way, results;
	struct inc_channel_exchange messages[MESSAGES];
	uint32_t desc; /* descriptor of the last message that was posted */
	uint64_t bytes[INC_N_WIRE_OPERATORS];
} m;

static unsigned int packets(const struct inc_channel_exchange *msg)
{
	uint32_t len = msg->send_len > msg->recv_len ? msg->send_len : msg->recv_len;

	return len ? (len + m.payload - 1) / m.payload : 1;
}

static uint64_t under_way(const struct inc_channel *ch)
{
	return m.under_way;
}

static int exchange(struct inc_channel *ch, const struct inc_channel_exchange *x)
{
	struct inccl_endpoint *ep = m.comm->ep;

	if (ep->posted - ep->completed == MESSAGES)
		return -EAGAIN;
	if (x->has_imm)
		m.desc = x->imm;
	m.bytes[INC_DESC_OP(m.desc)] += x->send_len;
	m.messages[ep->posted % MESSAGES] = *x;
	m.under_way += packets(x);
	return 0;
}

static void flush(struct inc_channel_device *dev)
{
}

/* Completes the older half of the messages in flight. */
static bool progress(struct inc_channel_device *dev)
{
	struct inccl_endpoint *ep = m.comm->ep;
	const uint64_t end = ep->completed + (ep->posted - ep->completed + 1) / 2;
	const struct inc_channel_exchange *msg;

	for (; ep->completed < end; ep->completed++) {
		msg = &m.messages[ep->completed % MESSAGES];
		if (msg->recv_len)
			memmove(msg->recv, msg->send, msg->recv_len);
		m.under_way -= packets(msg);
		m.results++;
	}
	return ep->posted != ep->completed;
}

static bool arm(struct inc_channel_device *dev)
{
	return m.comm->ep->posted != m.comm->ep->completed;
}

static uint64_t moved(const struct inc_channel *ch)
{
	return m.results;
}

static uint64_t deadline_ns(const struct inc_channel_device *dev)
{
	return UINT64_MAX;
}

void fake_transport_begin(struct inccl_communicator *comm, unsigned int payload)
{
	pthread_mutex_lock(&comm->lock);
	memset(&m, 0, sizeof(m));
	m.comm = comm;
	m.real = comm->ep->ops;
	m.ops = *m.real;
	m.ops.under_way = under_way;
	m.ops.exchange = exchange;
	m.ops.flush = flush;
	m.ops.progress = progress;
	m.ops.arm = arm;
	m.ops.moved = moved;
	m.ops.deadline_ns = deadline_ns;
	m.begin = comm->ep->posted;
	m.payload = payload;
	m.real_payload = comm->payload;
	comm->payload = payload;
	comm->ep->ops = &m.ops;
	pthread_mutex_unlock(&comm->lock);
}

void fake_transport_end(void)
{
	struct inccl_communicator *comm = m.comm;

	pthread_mutex_lock(&comm->lock);
	comm->ep->ops = m.real;
	comm->ep->posted = comm->ep->completed = m.begin;
	comm->payload = m.real_payload;
	pthread_mutex_unlock(&comm->lock);
}

uint64_t fake_transport_bytes(unsigned int op)
{
	return m.bytes[op];
}
