/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages to work requests, completions to messages. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <poll.h>
#include <sys/epoll.h>
#include "lib/base/clock.h"
#include "hostlib/src/internal.h"
#include "hostlib/src/verbs.h"

/* wr_id: message number, and which of its two requests */
#define WR_SEND(m) ((m) << 1)
#define WR_RECV(m) ((m) << 1 | 1)

#define SIGNAL_EVERY   16   /* messages at most between two completed sends */
#define IDLE_POLLS_MAX 1024 /* empty polls between two looks at the asynchronous events */

static unsigned int packets(const struct verbs_endpoint *ep, uint32_t len)
{
	return len ? (len + ep->payload - 1) / ep->payload : 1;
}

int verbs_flush(struct inccl_endpoint *base)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	struct ibv_recv_wr *bad_recv;
	struct ibv_send_wr *bad_send;
	unsigned int i, n = ep->batch;
	int ret;

	if (ep->failed)
		return ep->failed;
	if (!n)
		return 0;
	ep->batch = 0;
	for (i = 0; i < n; i++) {
		ep->recv_wr[i].next = i + 1 < n ? &ep->recv_wr[i + 1] : NULL;
		ep->send_wr[i].next = i + 1 < n ? &ep->send_wr[i + 1] : NULL;
	}
	/* receives first: a result can be there before post_send returns */
	ret = ibv_post_recv(ep->qp.ibv, ep->recv_wr, &bad_recv);
	if (ret)
		return verbs_fail(ep, ret, "verbs: %s: post receive: %s", ep->place.device->name,
				  strerror(ret));
	ret = ibv_post_send(ep->qp.ibv, ep->send_wr, &bad_send);
	if (ret)
		return verbs_fail(ep, ret, "verbs: %s: post send: %s", ep->place.device->name,
				  strerror(ret));
	base->stats.send_calls++;
	return 0;
}

static uint64_t address(const struct inccl_region *region, const void *p)
{
	return region->va + ((uintptr_t)p - (uintptr_t)region->addr);
}

/* The place of message m's result. A WRITE's needs none here: the switch names it. */
static void make_recv(struct verbs_endpoint *ep, uint64_t m, const struct inccl_message *msg,
		      bool write)
{
	struct ibv_recv_wr *recv = &ep->recv_wr[ep->batch];
	struct ibv_sge *sge = &ep->recv_sge[ep->batch];

	*sge = (struct ibv_sge){.length = msg->recv_len};
	if (msg->recv_len) {
		ep->slot[m & ep->slot_mask].recv_region = msg->recv_region;
		sge->addr = address(msg->recv_region, msg->recv);
		sge->lkey = msg->recv_region->lkey;
	}
	*recv = (struct ibv_recv_wr){
		.wr_id = WR_RECV(m),
		.sg_list = sge,
		.num_sge = msg->recv_len && !write,
	};
}

static void make_send(struct verbs_endpoint *ep, uint64_t m, const struct inccl_message *msg,
		      bool write)
{
	const uint64_t every = ep->depth / 2 < SIGNAL_EVERY ? ep->depth / 2 : SIGNAL_EVERY;
	struct verbs_slot *slot = &ep->slot[m & ep->slot_mask];
	struct ibv_send_wr *send = &ep->send_wr[ep->batch];
	struct ibv_sge *sge = &ep->send_sge[ep->batch];

	*sge = (struct ibv_sge){.length = msg->send_len};
	if (msg->send_len) {
		sge->addr = address(msg->send_region, msg->send);
		sge->lkey = msg->send_region->lkey;
		slot->send_mr = msg->send_region->priv;
		inc_rdma_mr_get(&ep->cache, slot->send_mr);
	}
	*send = (struct ibv_send_wr){
		.wr_id = WR_SEND(m),
		.sg_list = sge,
		.num_sge = !!msg->send_len,
		.opcode = msg->has_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.imm_data = htonl(slot->imm),
	};
	if (write) {
		send->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		/* our own destination: the switch writes the result there; one of length 0
		 * needs none */
		if (msg->recv_len) {
			send->wr.rdma.remote_addr = address(msg->recv_region, msg->recv);
			send->wr.rdma.rkey = msg->recv_region->rkey;
		}
	}
	if (msg->last || m + 1 >= ep->signal_due + every) {
		send->send_flags = IBV_SEND_SIGNALED;
		ep->signal_due = m + 1;
	}
}

uint64_t verbs_under_way(const struct inccl_endpoint *base)
{
	return ((const struct verbs_endpoint *)base)->under_way;
}

int verbs_post(struct inccl_endpoint *base, const struct inccl_message *msg)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	uint64_t m = base->posted;
	bool write;
	int ret;

	if (ep->failed)
		return ep->failed;
	if (m - ep->sends_done >= ep->send_depth || m - base->completed >= ep->depth) {
		ret = verbs_flush(base);
		return ret ?: -EAGAIN;
	}
	if (msg->has_imm)
		ep->desc = msg->imm;
	/* A write of nothing that brings nothing has no place to name: SEND does the same. */
	write = msg->mode == INCCL_MODE_WRITE && (msg->send_len || msg->recv_len);
	/* A write completes at its target only where it carries an immediate; the first
	 * packet's may be repeated (docs/protocol.md, P-28). */
	ep->slot[m & ep->slot_mask] = (struct verbs_slot){
		.recv_len = msg->recv_len,
		.packets =
			packets(ep, msg->send_len > msg->recv_len ? msg->send_len : msg->recv_len),
		.has_imm = msg->has_imm || write,
		.imm = ep->desc,
	};
	make_recv(ep, m, msg, write);
	make_send(ep, m, msg, write);
	base->posted++;
	ep->under_way += ep->slot[m & ep->slot_mask].packets;
	base->stats.packets_sent += ep->slot[m & ep->slot_mask].packets;
	if (++ep->batch == VERBS_BATCH)
		return verbs_flush(base);
	return 0;
}

static int bad_completion(struct verbs_endpoint *ep, const struct ibv_wc *wc)
{
	/* NAK 63 is what the switch says to ranks that called different collectives */
	if (wc->status == IBV_WC_REM_OP_ERR)
		ep->base.mismatch = true;
	return verbs_fail(ep, inc_rdma_completion_errno(wc->status),
			  "verbs %s/%u: %s (ibv_wc_status %d, vendor error 0x%x) %s message %llu",
			  ep->place.device->name, ep->place.port, ibv_wc_status_str(wc->status),
			  wc->status, wc->vendor_err, wc->wr_id & 1 ? "receiving" : "sending",
			  (unsigned long long)(wc->wr_id >> 1));
}

static int received(struct verbs_endpoint *ep, const struct ibv_wc *wc)
{
	uint64_t m = wc->wr_id >> 1;
	const struct verbs_slot *slot = &ep->slot[m & ep->slot_mask];

	if (m != ep->base.completed)
		return verbs_fail(ep, EPROTO, "verbs: result %llu where %llu is due",
				  (unsigned long long)m, (unsigned long long)ep->base.completed);
	if (wc->byte_len != slot->recv_len)
		return verbs_fail(ep, EPROTO, "verbs: result %llu has %u bytes, not %u",
				  (unsigned long long)m, wc->byte_len, slot->recv_len);
	if (!!(wc->wc_flags & IBV_WC_WITH_IMM) != slot->has_imm ||
	    (slot->has_imm && ntohl(wc->imm_data) != slot->imm))
		return verbs_fail(ep, EPROTO, "verbs: result %llu is of another collective",
				  (unsigned long long)m);
	ep->base.completed++;
	ep->under_way -= slot->packets;
	ep->base.stats.results += slot->packets;
	return 0;
}

static void sent(struct verbs_endpoint *ep, const struct ibv_wc *wc)
{
	struct verbs_slot *slot;

	for (; ep->sends_done <= wc->wr_id >> 1; ep->sends_done++) {
		slot = &ep->slot[ep->sends_done & ep->slot_mask];
		if (slot->send_mr)
			inc_rdma_mr_put(&ep->cache, slot->send_mr);
		slot->send_mr = NULL;
	}
	ep->base.stats.acks_received++;
}

/* Completions handled, or the error. A failed queue pair flushes what it holds; the first
 * completion that is not a flush is the cause. */
static int poll_queue(struct verbs_endpoint *ep)
{
	struct ibv_wc wc[VERBS_BATCH], flushed;
	bool have_flushed = false;
	int i, n, total = 0, ret;

	do {
		n = ibv_poll_cq(ep->completions.cq, VERBS_BATCH, wc);
		if (n < 0)
			return verbs_fail(ep, EIO, "verbs: %s: completion queue: error %d",
					  ep->place.device->name, n);
		ep->base.stats.recv_calls++;
		for (i = 0; i < n; i++) {
			if (wc[i].status == IBV_WC_WR_FLUSH_ERR) {
				if (!have_flushed)
					flushed = wc[i];
				have_flushed = true;
				continue;
			}
			if (wc[i].status != IBV_WC_SUCCESS)
				return bad_completion(ep, &wc[i]);
			if (wc[i].wr_id & 1) {
				ret = received(ep, &wc[i]);
				if (ret)
					return ret;
			} else {
				sent(ep, &wc[i]);
			}
			total++;
		}
	} while (have_flushed && n);
	if (have_flushed)
		return bad_completion(ep, &flushed);
	return total;
}

static void port_event(struct verbs_endpoint *ep, bool down)
{
	if (down && !ep->port_down_at_ns)
		ep->port_down_at_ns = inc_now_ns();
	else if (!down)
		ep->port_down_at_ns = 0;
}

void verbs_on_event(struct inc_rdma_subscriber *self, const struct inc_rdma_event *event)
{
	struct verbs_endpoint *ep =
		(struct verbs_endpoint *)((char *)self - offsetof(struct verbs_endpoint, events));

	switch (event->kind) {
	case INC_RDMA_PORT_UP:
	case INC_RDMA_PORT_WENT_DOWN:
		port_event(ep, event->kind == INC_RDMA_PORT_WENT_DOWN);
		break;
	case INC_RDMA_QP_FATAL:
	case INC_RDMA_CQ_FATAL:
	case INC_RDMA_DEVICE_FATAL:
		verbs_fail(ep, EIO, "verbs %s/%u: %s", ep->place.device->name, ep->place.port,
			   event->text);
		break;
	default:
		break;
	}
	ep->log(ep->log_ctx, "verbs: %s/%u: %s", ep->place.device->name, ep->place.port,
		event->text);
}

/* Takes in what the two event descriptors have. */
static void take_events(struct verbs_endpoint *ep)
{
	struct epoll_event ready[2];
	int i, n;

	ep->idle_polls = 0;
	n = epoll_wait(ep->epoll_fd, ready, 2, 0);
	for (i = 0; i < n; i++) {
		if (ready[i].data.fd == inc_rdma_completions_fd(&ep->completions))
			inc_rdma_completions_take(&ep->completions);
		else
			inc_rdma_device_take(ep->place.device);
	}
}

static uint64_t port_deadline_ns(const struct verbs_endpoint *ep)
{
	return ep->port_down_at_ns
		       ? ep->port_down_at_ns + ep->config.port_down_ms * INC_NSEC_PER_MSEC
		       : UINT64_MAX;
}

/* The clock is read only while the port is down, because this runs at each poll. */
static bool down_too_long(const struct verbs_endpoint *ep)
{
	return ep->port_down_at_ns && inc_now_ns() >= port_deadline_ns(ep);
}

int verbs_progress(struct inccl_endpoint *base)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	size_t len;
	int ret;

	if (ep->failed)
		return ep->failed;
	ret = poll_queue(ep);
	if (ret > 0)
		return ret;
	/* If this process stood still, an event that the port is up again may wait to be read. */
	if (ret || ep->completions.armed || ++ep->idle_polls >= IDLE_POLLS_MAX || down_too_long(ep))
		take_events(ep);
	if (ret && ep->port_down_at_ns) {
		len = strlen(base->error);
		snprintf(base->error + len, sizeof(base->error) - len, "; the port is down");
	}
	if (!ep->failed && down_too_long(ep))
		verbs_fail(ep, ENETDOWN, "verbs %s/%u: port down for %d ms", ep->place.device->name,
			   ep->place.port, ep->config.port_down_ms);
	return ep->failed;
}

int verbs_arm(struct inccl_endpoint *base, int *fd, short *events, uint64_t *deadline_ns)
{
	struct verbs_endpoint *ep = verbs_ep(base);
	int ret;

	ret = verbs_progress(base); /* may take in the notification asked for last time */
	if (!ret && !ep->completions.armed) {
		ret = inc_rdma_completions_arm(&ep->completions);
		if (ret)
			return verbs_fail(ep, -ret, "verbs: %s: notification: %s",
					  ep->place.device->name, strerror(-ret));
		/* of what came before it was asked for there is no notification */
		ret = poll_queue(ep);
	}
	if (ret)
		return ret > 0 ? 1 : ret;
	*fd = ep->epoll_fd;
	*events = POLLIN;
	*deadline_ns = port_deadline_ns(ep);
	return 0;
}

bool verbs_kept(const struct inccl_endpoint *base)
{
	const struct verbs_endpoint *ep = (const struct verbs_endpoint *)base;

	/* a result, too, tells that its contribution was kept */
	return ep->sends_done == base->posted || base->completed == base->posted;
}

uint64_t verbs_moved(const struct inccl_endpoint *base)
{
	return base->completed + ((const struct verbs_endpoint *)base)->sends_done;
}

bool verbs_quiet(struct inccl_endpoint *base)
{
	struct verbs_endpoint *ep = verbs_ep(base);

	/* the device acknowledges results on its own */
	return ep->failed ||
	       (!ep->batch && ep->sends_done == base->posted && base->completed == base->posted);
}

void verbs_describe(struct inccl_endpoint *base, char *buf, size_t size)
{
	struct verbs_endpoint *ep = verbs_ep(base);

	snprintf(buf, size, "message %llu of %llu has no result, %llu sends are not acknowledged%s",
		 (unsigned long long)base->completed, (unsigned long long)base->posted,
		 (unsigned long long)(base->posted - ep->sends_done),
		 ep->port_down_at_ns ? ", the port is down" : "");
}
