/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/flow.h"

int connect_flow_init(struct connect_flow *flow, const struct inc_connect_settings *settings)
{
	const uint32_t acks = connect_ack_bufs(settings);

	*flow = (struct connect_flow){
		.buffers = settings->send_buf_cnt,
		.ack_batch = settings->buf_ack_batch,
		.depth = connect_send_wr(settings),
		.room = {[CONNECT_WR_MESSAGE] = settings->send_buf_cnt,
			 [CONNECT_WR_ACK] = acks,
			 [CONNECT_WR_READ] = settings->max_rdma_wr,
			 [CONNECT_WR_WRITE] = settings->max_rdma_wr,
			 [CONNECT_WR_PROBE] = 1,
			 [CONNECT_WR_CLOSE] = 1},
		/* Of the ACKs in the send queue, each one that completes half of their room asks
		 * for a completion. So the other half can be posted before that completion
		 * arrives. */
		.batch = {[CONNECT_WR_MESSAGE] = settings->buf_signal_batch,
			  [CONNECT_WR_ACK] = acks / 2},
	};
	flow->ring = calloc(flow->depth, sizeof(*flow->ring));
	return flow->ring ? 0 : -ENOMEM;
}

void connect_flow_free(struct connect_flow *flow)
{
	free(flow->ring);
	flow->ring = NULL;
}

uint32_t connect_flow_postable(const struct connect_flow *flow, enum connect_wr_kind kind)
{
	uint32_t credits, room, used = flow->under_way[kind];

	if (flow->close)
		return 0;
	if (kind == CONNECT_WR_READ || kind == CONNECT_WR_WRITE)
		used = flow->under_way[CONNECT_WR_READ] + flow->under_way[CONNECT_WR_WRITE];
	room = flow->room[kind] - used;
	if (kind != CONNECT_WR_MESSAGE)
		return room;
	credits = flow->buffers - (uint32_t)(flow->sent - flow->given_back);
	return room < credits ? room : credits;
}

uint32_t connect_flow_ack_due(const struct connect_flow *flow)
{
	const uint32_t n = flow->released - flow->acked;

	return n >= flow->ack_batch && connect_flow_postable(flow, CONNECT_WR_ACK) ? n : 0;
}

/* Counts a request of this kind as posted. Returns whether it must ask for a completion, because it
 * completes the batch of its kind. */
static bool is_time(struct connect_flow *flow, enum connect_wr_kind kind)
{
	return flow->batch[kind] && ++flow->unsignalled[kind] >= flow->batch[kind];
}

uint64_t connect_flow_post(struct connect_flow *flow, enum connect_wr_kind kind, uint32_t bytes,
			   bool ask, bool *signalled)
{
	const uint64_t number = ++flow->posted;

	*signalled = is_time(flow, kind) || ask;
	if (*signalled) {
		memset(flow->unsignalled, 0, sizeof(flow->unsignalled));
		flow->signalled = number;
	}
	flow->ring[number % flow->depth] = (struct connect_wr){kind, *signalled, bytes};
	flow->under_way[kind]++;
	if (kind == CONNECT_WR_MESSAGE) {
		flow->sent++;
		flow->last_message = number;
	} else if (kind == CONNECT_WR_ACK) {
		flow->acked = flow->released;
	} else if (kind == CONNECT_WR_PROBE) {
		flow->probe = number;
	} else if (kind == CONNECT_WR_CLOSE) {
		flow->close = number;
	}
	return number;
}

int connect_flow_complete(struct connect_flow *flow, uint64_t number)
{
	const struct connect_wr *r;
	int n = 0;

	if (number <= flow->ended || number > flow->posted ||
	    !flow->ring[number % flow->depth].signalled)
		return -EIO;
	while (flow->ended < number) {
		r = &flow->ring[++flow->ended % flow->depth];
		flow->under_way[r->kind]--;
		if (r->kind == CONNECT_WR_READ)
			flow->bytes_read += r->bytes;
		else if (r->kind == CONNECT_WR_WRITE)
			flow->bytes_written += r->bytes;
		n++;
	}
	return n;
}

static const char *receive_message(struct connect_flow *flow, uint32_t bytes)
{
	if (!bytes)
		return "a message without data";
	if (flow->received - flow->acked >= flow->buffers)
		return "more messages than there are buffers";
	flow->received++;
	return NULL;
}

static const char *receive_control(struct connect_flow *flow, uint32_t immediate, uint32_t bytes)
{
	const uint32_t value = immediate & CONNECT_IMM_VALUE;

	if (bytes)
		return "data beside an immediate";
	switch (immediate >> CONNECT_IMM_SHIFT) {
	case CONNECT_IMM_ACK:
		if (!value || value > flow->sent - flow->given_back)
			return "an ACK of buffers that it does not have";
		flow->given_back += value;
		return NULL;
	case CONNECT_IMM_PROBE:
		if (flow->has_received || flow->probe || value)
			return "a first message that is not allowed";
		return NULL;
	case CONNECT_IMM_CLOSE:
		if (value)
			break;
		flow->peer_closed = true;
		return NULL;
	}
	return "an unknown immediate";
}

int connect_flow_receive(struct connect_flow *flow, bool has_immediate, uint32_t immediate,
			 uint32_t bytes, enum connect_received *received, const char **why)
{
	if (flow->peer_closed)
		*why = "something after its close";
	else if (has_immediate)
		*why = receive_control(flow, immediate, bytes);
	else
		*why = receive_message(flow, bytes);
	if (*why)
		return -EPROTO;
	*received = has_immediate ? CONNECT_RECEIVED_CONTROL : CONNECT_RECEIVED_MESSAGE;
	flow->has_received = flow->has_received || !flow->peer_closed;
	return 0;
}

void connect_flow_release(struct connect_flow *flow)
{
	flow->released++;
}
