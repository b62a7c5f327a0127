/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes work requests of messages, and reports completions as messages. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "lib/base/thread.h"
#include "lib/channel/verbs_priv.h"

/* The wr_id of a send and of a receive. Its lowest bit tells the two apart, and then comes the
 * channel's id. For a send the upper 31 bits are the lowest bits of the send's number, because not
 * every send has a completion of its own. */
#define WR_SEND(ch, number) ((uint64_t)(number) << 33 | (uint64_t)(ch)->id << 1)
#define WR_RECV(ch)         ((uint64_t)(ch)->id << 1 | 1)

#define POLLS 8 /* number of batches of completions that a turn processes at most */
/* mirrored channels: limit of the messages between two sends that request a completion */
#define SIGNAL_EVERY 16
/* number of polls without a completion, after which an idle device's events are read */
#define IDLE_POLLS_MAX 1024

/* ---- to the device ---- */

static struct verbs_receive *receive_of(const struct verbs_channel *ch, uint64_t number)
{
	return &ch->receives[number % ch->n_receives];
}

static struct verbs_send *send_of(const struct verbs_channel *ch, uint64_t number)
{
	return &ch->sends[number % ch->n_sends];
}

int inc_verbs_post(struct inc_channel *c, void *buffer)
{
	struct verbs_channel *ch = VERBS_CH(c);

	if (ch->posted - ch->taken == ch->n_receives)
		return -ENOBUFS;
	*receive_of(ch, ch->posted++) = (struct verbs_receive){
		.buffer = buffer, .bytes = ch->max_message_bytes, .lkey = ch->memory};
	verbs_activate(ch);
	return 0;
}

int inc_verbs_send(struct inc_channel *c, const void *buffer, uint32_t length, bool has_imm,
		   uint32_t imm)
{
	struct verbs_channel *ch = VERBS_CH(c);

	if (ch->life == VERBS_BROKEN)
		return -ENOTCONN;
	if (ch->queued - ch->sent == ch->n_sends || length > ch->max_message_bytes) {
		inc_verbs_lose(ch, INC_CHANNEL_CUT, ENOBUFS, "is sent more than was said");
		return -ENOBUFS;
	}
	*send_of(ch, ch->queued++) = (struct verbs_send){.buffer = buffer,
							 .length = length,
							 .lkey = ch->memory,
							 .imm = imm,
							 .has_imm = has_imm,
							 .signaled = true};
	verbs_activate(ch);
	return 0;
}

/* Returns the address by which the device names p, which is a pointer into the region. */
static uint64_t address(const struct inc_channel_region *region, const void *p)
{
	return region->va + ((uintptr_t)p - (uintptr_t)region->addr);
}

static void expect_result(struct verbs_channel *ch, const struct inc_channel_exchange *x,
			  bool write)
{
	const uint32_t longer = x->send_len > x->recv_len ? x->send_len : x->recv_len;
	struct verbs_receive *r = receive_of(ch, ch->posted++);

	/* The receive for a contribution's result. The result of a WRITE is a WRITE, too, which
	 * needs no buffer here. It always has an immediate, because a WRITE completes at its target
	 * only with one. The immediate of the collective's first packet may be repeated for that
	 * (docs/protocol.md, P-28). */
	*r = (struct verbs_receive){
		.buffer = x->recv,
		.bytes = write ? 0 : x->recv_len,
		.length = x->recv_len,
		.packets = longer ? (longer + ch->payload - 1) / ch->payload : 1,
		.has_imm = x->has_imm || write,
		.imm = ch->imm,
	};
	if (x->recv_len) {
		r->region = x->recv_region;
		r->lkey = x->recv_region->lkey;
	}
	ch->under_way += r->packets;
	ch->tx_packets += r->packets;
}

static void queue_contribution(struct verbs_channel *ch, const struct inc_channel_exchange *x,
			       bool write)
{
	const uint64_t half = ch->n_receives / 2, every = half < SIGNAL_EVERY ? half : SIGNAL_EVERY;
	const uint64_t m = ch->queued++;
	struct verbs_send *s = send_of(ch, m);

	*s = (struct verbs_send){
		.buffer = x->send,
		.length = x->send_len,
		.imm = ch->imm,
		.has_imm = x->has_imm || write,
		.write = write,
		.signaled = x->last || m + 1 >= ch->signal_due + every,
	};
	if (x->send_len) {
		s->lkey = x->send_region->lkey;
		s->mr = x->send_region->priv;
		inc_rdma_mr_get(&verbs_device_of(ch)->cache, s->mr);
	}
	/* a WRITE names the memory of the result at this end, to which the switch writes; a result
	 * of length 0 needs none */
	if (write && x->recv_len) {
		s->remote_addr = address(x->recv_region, x->recv);
		s->rkey = x->recv_region->rkey;
	}
	if (s->signaled)
		ch->signal_due = m + 1;
}

int inc_verbs_exchange(struct inc_channel *c, const struct inc_channel_exchange *x)
{
	struct verbs_channel *ch = VERBS_CH(c);
	/* A WRITE without data to which no data returns has no memory to name, so it is sent as a
	 * SEND. That means the same to the switch. */
	const bool write = x->write && (x->send_len || x->recv_len);

	if (ch->life != VERBS_CONNECTED)
		return -ENOTCONN;
	if (ch->queued - ch->sent == ch->n_sends || ch->posted - ch->taken == ch->n_receives) {
		inc_verbs_flush(c->dev);
		return -EAGAIN;
	}
	if (x->has_imm)
		ch->imm = x->imm;
	expect_result(ch, x, write);
	queue_contribution(ch, x, write);
	verbs_activate(ch);
	if (ch->queued - ch->begun >= VERBS_BATCH)
		inc_verbs_flush(c->dev);
	return 0;
}

/* Gives a batch of receives to the device. Returns false if there are no more receives, or the
 * channel is broken. */
static bool give_receives(struct verbs_channel *ch)
{
	struct ibv_recv_wr wr[VERBS_BATCH], *bad;
	struct ibv_sge sge[VERBS_BATCH];
	unsigned int n = 0;
	int ret;

	for (; n < VERBS_BATCH && ch->given + n < ch->posted; n++) {
		const struct verbs_receive *r = receive_of(ch, ch->given + n);

		sge[n] = (struct ibv_sge){(uintptr_t)r->buffer, r->bytes, r->lkey};
		wr[n] = (struct ibv_recv_wr){
			.wr_id = WR_RECV(ch), .sg_list = &sge[n], .num_sge = !!r->bytes};
		if (n)
			wr[n - 1].next = &wr[n];
	}
	if (!n)
		return false;
	ret = ibv_post_recv(ch->qp.ibv, wr, &bad);
	if (ret)
		inc_verbs_lose(ch, INC_CHANNEL_CUT, ret, "post receive: %s", strerror(ret));
	ch->given += n;
	return !ret;
}

static void fill_send(const struct verbs_channel *ch, uint64_t number, struct ibv_send_wr *wr,
		      struct ibv_sge *sge)
{
	const struct verbs_send *s = send_of(ch, number);

	*sge = (struct ibv_sge){(uintptr_t)s->buffer, s->length, s->lkey};
	*wr = (struct ibv_send_wr){
		.wr_id = WR_SEND(ch, number),
		.sg_list = sge,
		.num_sge = !!s->length,
		.opcode = s->write     ? IBV_WR_RDMA_WRITE_WITH_IMM
			  : s->has_imm ? IBV_WR_SEND_WITH_IMM
				       : IBV_WR_SEND,
		.send_flags =
			(s->signaled ? IBV_SEND_SIGNALED : 0) | (ch->se ? IBV_SEND_SOLICITED : 0),
		.imm_data = htonl(s->imm),
	};
	if (s->write) {
		wr->wr.rdma.remote_addr = s->remote_addr;
		wr->wr.rdma.rkey = s->rkey;
	}
}

/* Gives a batch of queued sends to the device. Returns false if there are no more sends, or the
 * channel is broken. */
static bool give_sends(struct verbs_channel *ch)
{
	struct ibv_send_wr wr[VERBS_BATCH], *bad;
	struct ibv_sge sge[VERBS_BATCH];
	unsigned int n = 0;
	int ret;

	for (; n < VERBS_BATCH && ch->begun + n < ch->queued; n++) {
		fill_send(ch, ch->begun + n, &wr[n], &sge[n]);
		if (n)
			wr[n - 1].next = &wr[n];
	}
	if (!n)
		return false;
	ret = ibv_post_send(ch->qp.ibv, wr, &bad);
	if (ret)
		inc_verbs_lose(ch, INC_CHANNEL_CUT, ret, "post send: %s", strerror(ret));
	verbs_device_of(ch)->send_calls++;
	ch->begun += n;
	return !ret;
}

void inc_verbs_flush(struct inc_channel_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	struct verbs_channel *ch;

	while ((ch = SLIST_FIRST(&dev->active))) {
		SLIST_REMOVE_HEAD(&dev->active, next_active);
		ch->active = false;
		/* give receives to the device before sends, because a result can arrive before
		 * ibv_post_send() returns */
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

static enum inc_channel_reason reason_of(const struct ibv_wc *wc)
{
	const bool receiving = wc->wr_id & 1;

	switch (wc->status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return INC_CHANNEL_SILENT;
	case IBV_WC_REM_OP_ERR:
		return INC_CHANNEL_ENDED;
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return receiving ? INC_CHANNEL_INVALID : INC_CHANNEL_REFUSED;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_LOC_QP_OP_ERR: /* rxe reports this status for a message that is longer than the
				      receive */
		return receiving ? INC_CHANNEL_INVALID : INC_CHANNEL_CUT;
	default:
		return INC_CHANNEL_CUT;
	}
}

static uint64_t number_of_send(const struct verbs_channel *ch, const struct ibv_wc *wc)
{
	return ch->sent + (((wc->wr_id >> 33) - ch->sent) & 0x7fffffff);
}

static void failed(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	/* A request with this status failed only because another one did. The completion of that
	 * one gives the reason, and may come before or after this one. */
	if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		ch->flushed = verbs_device_of(ch)->flushed = true;
		return;
	}
	inc_verbs_lose(ch, reason_of(wc), inc_rdma_completion_errno(wc->status),
		       "%s (ibv_wc_status %d, vendor error 0x%x) %s message %llu",
		       ibv_wc_status_str(wc->status), wc->status, wc->vendor_err,
		       wc->wr_id & 1 ? "receiving" : "sending",
		       (unsigned long long)(wc->wr_id & 1 ? ch->taken : number_of_send(ch, wc)));
}

static void put_send(struct verbs_channel *ch)
{
	struct verbs_send *s = send_of(ch, ch->sent++);

	if (s->mr)
		inc_rdma_mr_put(&verbs_device_of(ch)->cache, s->mr);
	s->mr = NULL;
}

/* Reports sends as complete, from the oldest one up to and including the next one that has
 * requested a completion. The handler may shut the channel in any of these calls. */
static void complete_sends(struct verbs_channel *ch)
{
	struct verbs_device *dev = verbs_device_of(ch);
	const uint32_t id = ch->id;
	bool last;

	ch->acks++;
	do {
		last = send_of(ch, ch->sent)->signaled;
		put_send(ch);
		dev->handler->sent(ch->ctx);
	} while (!last && find(dev, id) && ch->life == VERBS_CONNECTED && ch->sent < ch->begun);
}

void inc_verbs_drop_sends(struct verbs_channel *ch)
{
	while (ch->sent < ch->queued)
		put_send(ch);
}

/* Compares a received message with the expected result. If it differs, breaks the channel and
 * returns false. */
static bool is_expected(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	const struct verbs_receive *r = receive_of(ch, ch->taken);
	const unsigned long long m = ch->taken;

	if (wc->byte_len != r->length)
		inc_verbs_lose(ch, INC_CHANNEL_INVALID, EPROTO, "result %llu has %u bytes, not %u",
			       m, wc->byte_len, r->length);
	else if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != r->has_imm ||
		 (r->has_imm && ntohl(wc->imm_data) != r->imm))
		inc_verbs_lose(ch, INC_CHANNEL_INVALID, EPROTO,
			       "result %llu is of another collective", m);
	else
		return true;
	return false;
}

/* Passes a received message or result to the handler. The call of the handler is the last
 * statement, because the handler may shut the channel. */
static void complete_receive(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	const struct inc_channel_handler *handler = verbs_device_of(ch)->handler;
	const struct verbs_receive *r = receive_of(ch, ch->taken);
	struct inc_channel_message m = {};

	if (ch->mirrored) {
		if (!is_expected(ch, wc))
			return;
		ch->under_way -= r->packets;
		ch->rx_packets += r->packets;
	} else {
		m = (struct inc_channel_message){
			.length = wc->byte_len,
			.buffer = r->buffer,
			.has_imm = wc->wc_flags & IBV_WC_WITH_IMM,
		};
		if (m.has_imm)
			m.imm = ntohl(wc->imm_data);
	}
	ch->taken++;
	handler->message(ch->ctx, &m);
}

static void complete(struct verbs_channel *ch, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		failed(ch, wc);
	else if (wc->wr_id & 1)
		complete_receive(ch, wc);
	else
		complete_sends(ch);
}

/* Processes up to POLLS batches of completions. Returns whether the completion queue is empty. */
static bool take_completions(struct verbs_device *dev, unsigned int *taken)
{
	struct ibv_wc wc[VERBS_BATCH];
	struct verbs_channel *ch;
	unsigned int polls;
	int i, n;

	for (polls = 0; dev->completions.cq && polls < POLLS; polls++) {
		n = ibv_poll_cq(dev->completions.cq, VERBS_BATCH, wc);
		dev->recv_calls++;
		if (n < 0)
			inc_verbs_lose_all(dev, EIO, "the completion queue cannot be read");
		for (i = 0; i < n; i++) {
			ch = find(dev, (uint32_t)(wc[i].wr_id >> 1));
			if (ch && ch->life == VERBS_CONNECTED)
				complete(ch, &wc[i]);
		}
		*taken += n > 0 ? n : 0;
		if (n < VERBS_BATCH) {
			dev->left_over = 0;
			return true;
		}
	}
	return !dev->completions.cq;
}

static void look(struct verbs_device *dev)
{
	struct inc_err why;

	dev->look_at_ns = inc_now_ns() + VERBS_LOOK_NS;
	if (inc_rdma_inventory_refresh(dev->inventory, &why) < 0)
		dev->log(dev->log_ctx, INC_LOG_WARN, "%s: %s", dev->device->name, why.msg);
}

static void take_events(struct verbs_device *dev)
{
	struct epoll_event ready[3];
	int i, n = epoll_wait(dev->epoll_fd, ready, 3, 0);

	dev->idle_polls = 0;
	for (i = 0; i < n; i++) {
		if (ready[i].data.fd == dev->entered_fd)
			inc_verbs_take_entries(dev);
		else if (dev->completions.cq &&
			 ready[i].data.fd == inc_rdma_completions_fd(&dev->completions))
			inc_rdma_completions_take(&dev->completions);
		else if (!dev->inventory)
			inc_rdma_device_take(dev->device);
		else if (inc_rdma_inventory_take(dev->inventory))
			look(dev);
	}
}

/* ---- turns ---- */

uint64_t inc_verbs_deadline_ns(const struct inc_channel_device *d)
{
	const struct verbs_device *dev = (const struct verbs_device *)d;
	const uint64_t port_ns = TAILQ_EMPTY(&dev->channels)
					 ? UINT64_MAX
					 : inc_rdma_port_deadline_ns(&dev->port_timer);

	if (dev->reports || !SLIST_EMPTY(&dev->active))
		return 0;
	return port_ns < dev->look_at_ns ? port_ns : dev->look_at_ns;
}

/* Whether the port has been down for longer than the time limit. This reads the clock only if the
 * port is down, because each turn calls this function. */
static bool down_too_long(const struct verbs_device *dev)
{
	return dev->port_timer.down_at_ns && !TAILQ_EMPTY(&dev->channels) &&
	       inc_rdma_port_expired(&dev->port_timer, inc_now_ns());
}

static void timers(struct verbs_device *dev)
{
	char text[64];

	if (dev->inventory && inc_now_ns() >= dev->look_at_ns)
		look(dev);
	if (!down_too_long(dev))
		return;
	snprintf(text, sizeof(text), "port down for %d ms", dev->settings.port_down_ms);
	inc_verbs_lose_all(dev, ENETDOWN, text);
	inc_rdma_port_restart(&dev->port_timer, inc_now_ns());
}

/* Breaks channels whose requests came back flushed, if all completions and events have been read
 * and none of them has given the reason. */
static void lose_flushed(struct verbs_device *dev)
{
	struct verbs_channel *ch;

	dev->flushed = false;
	TAILQ_FOREACH (ch, &dev->channels, in_all)
		if (ch->flushed)
			inc_verbs_lose(ch, INC_CHANNEL_CUT, ECANCELED, "the queue pair has failed");
}

/* Reports broken channels to their owner. First it reads the device's events, because an event that
 * the port is down would explain most failures. */
static void report(struct verbs_device *dev)
{
	struct inc_channel_loss *loss;
	struct verbs_channel *ch;

	if (dev->reports && !dev->port_timer.down_at_ns)
		take_events(dev);
	while (dev->reports) {
		TAILQ_FOREACH (ch, &dev->channels, in_all)
			if (ch->report)
				break;
		ch->report = false;
		dev->reports--;
		loss = &ch->loss;
		if (loss->error != ENETDOWN)
			strncat(loss->text, inc_rdma_port_note(&dev->port_timer),
				sizeof(loss->text) - strlen(loss->text) - 1);
		dev->handler->lost(ch->ctx, loss);
	}
}

bool inc_verbs_progress(struct inc_channel_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	unsigned int taken = 0;
	bool empty = take_completions(dev, &taken);

	/* Reading events is a system call, so it happens only if an event is known to wait or is
	 * likely. Before a port counts as down for too long, events are read once more. If this
	 * process stood still, an event that the port is up again may wait there. */
	if (dev->completions.armed || dev->flushed || !dev->completions.cq ||
	    (!taken && ++dev->idle_polls >= IDLE_POLLS_MAX) || down_too_long(dev)) {
		take_events(dev);
		empty = take_completions(dev, &taken);
	}
	if (empty && dev->flushed)
		lose_flushed(dev);
	timers(dev);
	report(dev);
	return !empty;
}

bool inc_verbs_arm(struct inc_channel_device *d)
{
	struct verbs_device *dev = VERBS_DEV(d);
	unsigned int taken = 0;
	bool lost;
	int ret;

	if (!dev->completions.cq || dev->completions.armed)
		return false;
	ret = inc_rdma_completions_arm(&dev->completions);
	if (ret)
		inc_verbs_lose_all(dev, -ret, strerror(-ret));
	/* process the completions that came before the notification was requested, because they
	 * cause no notification */
	take_completions(dev, &taken);
	lost = dev->reports;
	report(dev);
	return taken || lost;
}

void inc_verbs_stop_writes(struct verbs_device *dev, const struct inc_channel_region *region)
{
	struct verbs_channel *ch;
	uint64_t m;

	TAILQ_FOREACH (ch, &dev->channels, in_all)
		for (m = ch->taken; ch->mirrored && m < ch->posted; m++)
			if (receive_of(ch, m)->region == region) {
				inc_verbs_lose(ch, INC_CHANNEL_CUT, ECANCELED,
					       "message %llu was given up", (unsigned long long)m);
				break;
			}
}
