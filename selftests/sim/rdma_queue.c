// SPDX-License-Identifier: BSD-2-Clause
/* Completion queues and their notifications, and the life of queue pairs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/os.h"
#include "process.h"
#include "rdma_priv.h"
#include "sim.h"

/* The kernel looks for a peer's MAC address for at most this long. */
#define RESOLVE_MOST_NS (2 * INC_NSEC_PER_MSEC)
#define UNSEEN_MOST_NS  (20 * INC_NSEC_PER_USEC)
#define QPN_MASK        0xffffff

static uint64_t last_id;
static uint32_t last_qpn;

void rdma_first_numbers(void)
{
	last_id = 0;
	last_qpn = sim_below(1 << 24);
}

static struct rdma_cq *cq_of(const struct ibv_cq *cq)
{
	return (struct rdma_cq *)cq;
}

static struct rdma_qp *qp_of(const struct ibv_qp *qp)
{
	return (struct rdma_qp *)qp;
}

static struct rdma_context *context_of(const struct ibv_context *ctx)
{
	return (struct rdma_context *)ctx;
}

/* --- notifications --- */

static bool has_notices(const struct rdma_notices *n)
{
	const struct rdma_cq *cq;

	LIST_FOREACH (cq, &context_of(n->ibv.context)->cqs, entry)
		if (cq->ibv.channel == &n->ibv && cq->notices)
			return true;
	return false;
}

/* The descriptor was closed, by the program or because its process has ended. */
static void close_notices(void *arg)
{
	struct rdma_notices *n = arg;

	n->closed = true;
	if (n->context_ended)
		free(n);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct rdma_notices *n = calloc(1, sizeof(*n));

	sim_require(n, "no memory");
	n->ibv.context = ctx;
	n->ibv.fd = descriptor_new();
	descriptor_own(n->ibv.fd, task_process(), close_notices, n);
	LIST_INSERT_HEAD(&context_of(ctx)->channels, n, entry);
	return &n->ibv;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct rdma_notices *n = (struct rdma_notices *)channel;

	LIST_REMOVE(n, entry);
	n->context_ended = true;
	close(channel->fd); /* frees the channel */
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **arg)
{
	struct rdma_cq *cq;

	LIST_FOREACH (cq, &context_of(channel->context)->cqs, entry) {
		if (cq->ibv.channel != channel || !cq->notices)
			continue;
		cq->notices--;
		cq->unacked++;
		*out = &cq->ibv;
		*arg = cq->ibv.cq_context;
		if (!has_notices((struct rdma_notices *)channel))
			descriptor_clear(channel->fd);
		return 0;
	}
	descriptor_clear(channel->fd);
	errno = EAGAIN;
	return -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	sim_require(cq_of(cq)->unacked >= n, "a notification is acknowledged that was not read");
	cq_of(cq)->unacked -= n;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	cq_of(cq)->armed = true;
	return 0;
}

/* --- completions --- */

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	struct rdma_cq *cq = calloc(1, sizeof(*cq));

	sim_require(cq && cqe > 0 && cqe <= RDMA_MOST_CQE,
		    "no memory, or a completion queue of %d entries", cqe);
	cq->ring = calloc(cqe, sizeof(*cq->ring));
	sim_require(cq->ring, "no memory");
	cq->ibv =
		(struct ibv_cq){.context = ctx, .channel = channel, .cq_context = arg, .cqe = cqe};
	LIST_INSERT_HEAD(&context_of(ctx)->cqs, cq, entry);
	return &cq->ibv;
}

int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct rdma_cq *cq = cq_of(ibv);
	struct rdma_completion *ring = calloc(cqe, sizeof(*ring));
	uint64_t i;

	sim_require(ring && cqe >= ibv->cqe && cqe <= RDMA_MOST_CQE,
		    "no memory, or a completion queue of %d entries", cqe);
	for (i = cq->taken; i < cq->put; i++)
		ring[i % cqe] = cq->ring[i % ibv->cqe];
	free(cq->ring);
	cq->ring = ring;
	ibv->cqe = cqe;
	return 0;
}

void rdma_free_cq(struct rdma_cq *cq)
{
	LIST_REMOVE(cq, entry);
	free(cq->ring);
	free(cq);
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	const struct rdma_qp *qp;

	LIST_FOREACH (qp, &context_of(cq->context)->qps, entry)
		sim_require(qp->ibv.send_cq != cq && qp->ibv.recv_cq != cq,
			    "a queue pair has lost its completion queue");
	sim_require(!cq_of(cq)->unacked,
		    "a completion queue ends with notifications that were not acknowledged");
	rdma_free_cq(cq_of(cq));
	return 0;
}

void rdma_complete(struct ibv_cq *ibv, const struct rdma_completion *completion)
{
	struct rdma_cq *cq = cq_of(ibv);

	sim_require(cq->put - cq->taken < (uint64_t)ibv->cqe, "a completion queue overflows");
	cq->ring[cq->put % ibv->cqe] = *completion;
	cq->ring[cq->put++ % ibv->cqe].seen_at_ns = sim_now_ns() + sim_between(0, UNSEEN_MOST_NS);
	if (!cq->armed)
		return;
	cq->armed = false;
	cq->notices++;
	descriptor_signal(ibv->channel->fd);
}

/* Makes room in the send queue of the completion's queue pair, because the completion was
 * polled. */
static void free_room(const struct rdma_context *c, const struct rdma_completion *completion)
{
	struct rdma_qp *qp;

	LIST_FOREACH (qp, &c->qps, entry)
		if (qp->ibv.qp_num == completion->qpn)
			qp->freed = completion->up_to;
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct rdma_cq *cq = cq_of(ibv);
	const struct rdma_completion *completion;
	int i;

	for (i = 0; i < n && cq->taken < cq->put; i++) {
		completion = &cq->ring[cq->taken % ibv->cqe];
		/* it arrives between this poll and the request for a notification, between which a
		 * thread may lose the processor */
		if (!cq->armed && sim_now_ns() < completion->seen_at_ns)
			break;
		cq->taken++;
		wc[i] = completion->wc;
		if (completion->qpn)
			free_room(context_of(ibv->context), completion);
	}
	return i;
}

/* --- queue pairs --- */

static uint32_t new_qpn(void)
{
	last_qpn = (last_qpn + 1 + sim_below(1000)) & QPN_MASK;
	return last_qpn > 1 && last_qpn != QPN_MASK ? last_qpn : new_qpn();
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct rdma_qp *qp = calloc(1, sizeof(*qp));

	if (context_of(pd->context)->device->broken) {
		free(qp);
		errno = EIO;
		return NULL;
	}
	sim_require(qp && init->cap.max_send_wr <= RDMA_MOST_WR &&
			    init->cap.max_recv_wr <= RDMA_MOST_WR,
		    "no memory, or a queue that is too long");
	qp->sends = calloc(init->cap.max_send_wr, sizeof(*qp->sends));
	qp->receives = calloc(init->cap.max_recv_wr, sizeof(*qp->receives));
	sim_require(qp->sends && qp->receives, "no memory");
	qp->ibv = (struct ibv_qp){.context = pd->context,
				  .pd = pd,
				  .send_cq = init->send_cq,
				  .recv_cq = init->recv_cq,
				  .qp_num = new_qpn()};
	qp->cap = init->cap;
	qp->context = context_of(pd->context);
	qp->id = ++last_id;
	qp->sport = 0xc000 | sim_below(0x4000);
	LIST_INSERT_HEAD(&qp->context->qps, qp, entry);
	rdma_figures.queue_pairs++;
	return &qp->ibv;
}

void rdma_free_qp(struct rdma_qp *qp)
{
	LIST_REMOVE(qp, entry);
	free(qp->sends);
	free(qp->receives);
	free(qp);
}

/* Removes the queue pair's events, which libibverbs does not deliver after its end. */
static void drop_events(struct rdma_context *c, const struct ibv_qp *qp)
{
	unsigned int from, to = c->taken;

	for (from = c->taken; from != c->put; from++)
		if (c->event[from % RDMA_EVENTS].element.qp != qp)
			c->event[to++ % RDMA_EVENTS] = c->event[from % RDMA_EVENTS];
	c->put = to;
}

/* No completion of a queue pair arrives after its end. */
static void show(struct rdma_cq *cq)
{
	uint64_t i;

	for (i = cq->taken; i < cq->put; i++)
		cq->ring[i % cq->ibv.cqe].seen_at_ns = 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	show(cq_of(qp->send_cq));
	show(cq_of(qp->recv_cq));
	drop_events(qp_of(qp)->context, qp);
	rdma_free_qp(qp_of(qp));
	return 0;
}

static void flush(struct rdma_qp *qp)
{
	const struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR};

	while (qp->done < qp->posted)
		rdma_end_send(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->rq_taken < qp->rq_posted)
		rdma_end_receive(qp, &wc);
}

void rdma_fail(struct rdma_qp *qp)
{
	qp->state = IBV_QPS_ERR;
	flush(qp);
}

/* The kernel looks for the peer's MAC address, which may take some time. */
static void resolve(void)
{
	const struct timespec ts = {.tv_nsec = sim_between(0, RESOLVE_MOST_NS)};

	if (sim_chance(300))
		inc_os.wait.poll(NULL, 0, &ts);
}

static void to_rtr(struct rdma_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_global_route *route = &attr->ah_attr.grh;

	sim_require(route->sgid_index == RDMA_GID_OF_IPV4, "GID %u is no address for RoCE v2",
		    route->sgid_index);
	memcpy(&qp->peer_addr, route->dgid.raw + 12, 4);
	qp->peer_qpn = attr->dest_qp_num;
	qp->epsn = attr->rq_psn;
	qp->mtu_bytes = 128 << attr->path_mtu;
	qp->min_rnr_timer = attr->min_rnr_timer;
	qp->hop_limit = route->hop_limit;
	qp->tos = route->traffic_class;
	resolve();
}

static void to_rts(struct rdma_qp *qp, const struct ibv_qp_attr *attr)
{
	qp->psn = attr->sq_psn;
	qp->timeout_ns = attr->timeout ? 4096ull << attr->timeout : 0;
	qp->retry_cnt = attr->retry_cnt;
	qp->rnr_retry = attr->rnr_retry;
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct rdma_qp *qp = qp_of(ibv);

	if (qp->context->device->broken)
		return EIO;
	if (attr->qp_state == IBV_QPS_ERR) {
		rdma_fail(qp);
		return 0;
	}
	sim_require(attr->qp_state == qp->state + 1, "a queue pair leaves out a state");
	if (attr->qp_state == IBV_QPS_INIT)
		qp->access = attr->qp_access_flags;
	else if (attr->qp_state == IBV_QPS_RTR)
		to_rtr(qp, attr);
	else
		to_rts(qp, attr);
	qp->state = attr->qp_state;
	return 0;
}

/* --- work requests --- */

static bool may_use(const struct rdma_qp *qp, const struct ibv_sge *sge, int access)
{
	return !sge->length ||
	       rdma_may_touch(qp->context, sge->lkey, sge->addr, sge->length, access);
}

static void put_receive(struct rdma_qp *qp, const struct ibv_recv_wr *wr)
{
	struct rdma_receive *r = &qp->receives[qp->rq_posted % qp->cap.max_recv_wr];

	sim_require(qp->rq_posted - qp->rq_taken < qp->cap.max_recv_wr, "too many receives");
	*r = (struct rdma_receive){.wr_id = wr->wr_id};
	if (wr->num_sge)
		r->sge = *wr->sg_list;
	sim_require(may_use(qp, &r->sge, IBV_ACCESS_LOCAL_WRITE),
		    "a receive into memory that is not registered");
	qp->rq_posted++;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rdma_qp *qp = qp_of(ibv);

	sim_require(qp->state != IBV_QPS_RESET, "a receive before the queue pair can have one");
	for (; wr; wr = wr->next)
		put_receive(qp, wr);
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	return 0;
}

static void put_send(struct rdma_qp *qp, const struct ibv_send_wr *wr)
{
	struct rdma_send *s = &qp->sends[qp->posted % qp->cap.max_send_wr];

	/* a request holds its room until a completion of it or of a later one is polled */
	sim_require(qp->posted - qp->freed < qp->cap.max_send_wr, "too many requests");
	*s = (struct rdma_send){.wr = *wr, .first = qp->described};
	if (wr->num_sge)
		s->sge = *wr->sg_list;
	sim_require(may_use(qp, &s->sge, 0), "a request of memory that is not registered");
	s->packets = s->sge.length ? (s->sge.length + qp->mtu_bytes - 1) / qp->mtu_bytes : 1;
	qp->described += s->packets;
	qp->posted++;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rdma_qp *qp = qp_of(ibv);

	sim_require(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR,
		    "a request before the queue pair can send");
	for (; wr; wr = wr->next)
		put_send(qp, wr);
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	else
		rdma_ring(qp);
	return 0;
}

void rdma_set_ops(struct ibv_context *ctx)
{
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = post_recv;
}
