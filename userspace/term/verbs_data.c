/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to work requests, completions to messages. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "userspace/term/verbs_priv.h"

/* wr_id: the channel's, and which of its two queues */
#define WR_SEND(ch) ((uint64_t)(ch)->id << 1)
#define WR_RECV(ch) ((uint64_t)(ch)->id << 1 | 1)

#define POLLS 8 /* batches of completions at most that a turn takes */

/* ---- to the device ---- */

int inc_verbs_post(struct inc_term_channel *c, void *buffer)
{
	struct verbs_channel *ch = VERBS_CH(c);

	if (ch->posted - ch->taken == ch->messages)
		return -ENOBUFS;
	ch->buffers[ch->posted++ % ch->messages] = buffer;
	verbs_activate(ch);
	return 0;
}

int inc_verbs_send(struct inc_term_channel *c, const void *buffer, uint32_t length, bool has_imm,
		   uint32_t imm)
{
	struct verbs_channel *ch = VERBS_CH(c);

	if (ch->life == VERBS_BROKEN)
		return -ENOTCONN;
	if (ch->queued - ch->sent == ch->messages || length > ch->max_message_bytes) {
		inc_verbs_lose(ch, INC_TERM_CUT, "is sent more than was said");
		return -ENOBUFS;
	}
	ch->sends[ch->queued++ % ch->messages] = (struct verbs_send){
		.buffer = buffer, .length = length, .imm = imm, .has_imm = has_imm};
	verbs_activate(ch);
	return 0;
}

static void not_mapped(struct verbs_channel *ch)
{
	inc_verbs_lose(ch, INC_TERM_CUT,
		       "%s: a buffer is in memory that the device was not told of", ch->qp.what);
}

/* Gives a batch of receives to the device; false: there are no more, or the channel is lost. */
static bool give_receives(struct verbs_channel *ch)
{
	struct verbs_device *dev = verbs_device_of(ch);
	struct ibv_recv_wr wr[VERBS_BATCH], *bad;
	struct ibv_sge sge[VERBS_BATCH];
	unsigned int n = 0;
	int ret;

	for (; n < VERBS_BATCH && ch->given + n < ch->posted; n++) {
		void *buffer = ch->buffers[(ch->given + n) % ch->messages];

		sge[n] = (struct ibv_sge){(uintptr_t)buffer, ch->max_message_bytes, 0};
		if (!inc_verbs_key(dev, buffer, ch->max_message_bytes, &sge[n].lkey)) {
			not_mapped(ch);
			return false;
		}
		wr[n] = (struct ibv_recv_wr){
			.wr_id = WR_RECV(ch), .sg_list = &sge[n], .num_sge = 1};
		if (n)
			wr[n - 1].next = &wr[n];
	}
	if (!n)
		return false;
	ret = ibv_post_recv(ch->qp.ibv, wr, &bad);
	if (ret)
		inc_verbs_lose(ch, INC_TERM_CUT, "%s: post receive: %s", ch->qp.what,
			       strerror(ret));
	ch->given += n;
	return !ret;
}

/* The same with messages to be sent. */
static bool give_sends(struct verbs_channel *ch)
{
	struct verbs_device *dev = verbs_device_of(ch);
	struct ibv_send_wr wr[VERBS_BATCH], *bad;
	struct ibv_sge sge[VERBS_BATCH];
	unsigned int n = 0;
	int ret;

	for (; n < VERBS_BATCH && ch->begun + n < ch->queued; n++) {
		const struct verbs_send *s = &ch->sends[(ch->begun + n) % ch->messages];

		sge[n] = (struct ibv_sge){(uintptr_t)s->buffer, s->length, 0};
		if (s->length && !inc_verbs_key(dev, s->buffer, s->length, &sge[n].lkey)) {
			not_mapped(ch);
			return false;
		}
		wr[n] = (struct ibv_send_wr){
			.wr_id = WR_SEND(ch),
			.sg_list = &sge[n],
			.num_sge = !!s->length,
			.opcode = s->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED | (ch->se ? IBV_SEND_SOLICITED : 0),
			.imm_data = htonl(s->imm),
		};
		if (n)
			wr[n - 1].next = &wr[n];
	}
	if (!n)
		return false;
	ret = ibv_post_send(ch->qp.ibv, wr, &bad);
	if (ret)
		inc_verbs_lose(ch, INC_TERM_CUT, "%s: post send: %s", ch->qp.what, strerror(ret));
	ch->begun += n;
	return !ret;
}

void inc_verbs_flush(struct inc_term_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	struct verbs_channel *ch;

	while ((ch = SLIST_FIRST(&dev->active))) {
		SLIST_REMOVE_HEAD(&dev->active, next_active);
		ch->active = false;
		while (ch->life == VERBS_CONNECTED && give_receives(ch))
			;
		while (ch->life == VERBS_CONNECTED && give_sends(ch))
			;
	}
}

/* ---- from the device ---- */

static struct verbs_channel *find(struct verbs_device *dev, uint32_t id)
{
	struct verbs_channel *ch;

	LIST_FOREACH (ch, &dev->bucket[id % VERBS_BUCKETS], in_bucket)
		if (ch->id == id)
			return ch;
	return NULL;
}

static enum inc_term_reason reason_of(const struct ibv_wc *wc)
{
	const bool receiving = wc->wr_id & 1;

	switch (wc->status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return INC_TERM_SILENT;
	case IBV_WC_REM_OP_ERR:
		return INC_TERM_ENDED_THERE;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return receiving ? INC_TERM_INVALID : INC_TERM_REFUSED;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR: /* rxe's word for a message that is longer than the receive */
		return receiving ? INC_TERM_INVALID : INC_TERM_CUT;
	default:
		return INC_TERM_CUT;
	}
}

static void failed(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	/* the request was given up because another one failed; that one's completion, which may
	 * come before or after this, says why */
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		ch->flushed = true;
		return;
	}
	inc_verbs_lose(ch, reason_of(wc), "%s: %s (vendor error 0x%x) %s message %llu", ch->qp.what,
		       ibv_wc_status_str(wc->status), wc->vendor_err,
		       wc->wr_id & 1 ? "receiving" : "sending",
		       (unsigned long long)(wc->wr_id & 1 ? ch->taken : ch->sent));
}

/* The handler may shut the channel: it is the last thing that is done. */
static void complete(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	const struct inc_term_handler *handler = verbs_device_of(ch)->handler;
	struct inc_term_message m;

	if (wc->status != IBV_WC_SUCCESS) {
		failed(ch, wc);
		return;
	}
	if (!(wc->wr_id & 1)) {
		ch->sent++;
		handler->sent(ch->ctx);
		return;
	}
	m = (struct inc_term_message){
		.length = wc->byte_len,
		.buffer = ch->buffers[ch->taken++ % ch->messages],
		.has_desc = wc->wc_flags & IBV_WC_WITH_IMM,
	};
	if (m.has_desc)
		m.desc = ntohl(wc->imm_data);
	handler->message(ch->ctx, &m);
}

/* Takes completions until there are none; false: until it has taken many. */
static bool take_completions(struct verbs_device *dev)
{
	struct ibv_wc wc[VERBS_BATCH];
	struct verbs_channel *ch;
	unsigned int polls;
	int i, n;

	for (polls = 0; polls < POLLS; polls++) {
		n = ibv_poll_cq(dev->completions.cq, VERBS_BATCH, wc);
		if (n < 0)
			inc_verbs_lose_all(dev, "the completion queue cannot be read");
		for (i = 0; i < n; i++) {
			ch = find(dev, wc[i].wr_id >> 1);
			if (ch && ch->life == VERBS_CONNECTED)
				complete(ch, &wc[i]);
		}
		if (n < VERBS_BATCH) {
			dev->left_over = 0;
			return true;
		}
	}
	return false;
}

static void look(struct verbs_device *dev)
{
	struct inc_err why;

	dev->look_at_ns = inc_now_ns() + VERBS_LOOK_NS;
	if (inc_rdma_inventory_refresh(dev->inventory, &why) < 0)
		inc_warn("%s: %s", dev->device->name, why.msg);
}

static void take_events(struct verbs_device *dev)
{
	struct epoll_event ready[3];
	int i, n = epoll_wait(dev->epoll_fd, ready, 3, 0);

	for (i = 0; i < n; i++) {
		if (ready[i].data.fd == inc_rdma_completions_fd(&dev->completions))
			inc_rdma_completions_take(&dev->completions);
		else if (ready[i].data.fd == dev->entered_fd)
			inc_verbs_take_entries(dev);
		else if (inc_rdma_inventory_take(dev->inventory))
			look(dev);
	}
}

static void arm(struct verbs_device *dev)
{
	int ret = inc_rdma_completions_arm(&dev->completions);

	if (ret)
		inc_verbs_lose_all(dev, strerror(-ret));
}

/* ---- turns ---- */

static uint64_t port_deadline_ns(const struct verbs_device *dev)
{
	return dev->port_down_at_ns && !TAILQ_EMPTY(&dev->channels)
		       ? dev->port_down_at_ns + VERBS_PORT_DOWN_NS
		       : UINT64_MAX;
}

uint64_t inc_verbs_deadline_ns(const struct inc_term_device *d)
{
	const struct verbs_device *dev = VERBS_DEV(d);
	const uint64_t port_ns = port_deadline_ns(dev);

	if (dev->reports || !SLIST_EMPTY(&dev->active))
		return 0;
	return port_ns < dev->look_at_ns ? port_ns : dev->look_at_ns;
}

static void timers(struct verbs_device *dev)
{
	const uint64_t now_ns = inc_now_ns();
	char text[64];

	if (now_ns >= dev->look_at_ns)
		look(dev);
	if (now_ns < port_deadline_ns(dev))
		return;
	snprintf(text, sizeof(text), "port down for %llu ms",
		 (unsigned long long)(VERBS_PORT_DOWN_NS / INC_NSEC_PER_MSEC));
	inc_verbs_lose_all(dev, text);
	dev->port_down_at_ns = now_ns; /* for channels that come meanwhile */
}

/* Channels whose requests came back flushed, and of which no completion or event has said why,
 * though all of these have been read. */
static void lose_flushed(struct verbs_device *dev)
{
	struct verbs_channel *ch;

	TAILQ_FOREACH (ch, &dev->channels, in_all)
		if (ch->flushed)
			inc_verbs_lose(ch, INC_TERM_CUT, "%s: the queue pair has failed",
				       ch->qp.what);
}

static void report(struct verbs_device *dev)
{
	struct verbs_channel *ch;

	while (dev->reports) {
		TAILQ_FOREACH (ch, &dev->channels, in_all)
			if (ch->report)
				break;
		ch->report = false;
		dev->reports--;
		dev->handler->lost(ch->ctx, ch->reason, ch->text);
	}
}

bool inc_verbs_progress(struct inc_term_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	bool empty = take_completions(dev);

	/* If this process stood still, an event that the port is up again may wait to be read. */
	if (empty || (dev->port_down_at_ns && inc_now_ns() >= port_deadline_ns(dev))) {
		take_events(dev);
		arm(dev);
		/* completions that came before arm() make no event */
		empty = take_completions(dev);
	}
	if (empty)
		lose_flushed(dev);
	timers(dev);
	report(dev);
	inc_verbs_flush(d);
	return !empty;
}
