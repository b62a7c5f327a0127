/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/rdma/device_priv.h"
#include "lib/rdma/gid.h"
#include "selftests/connect/fake_verbs.h"

#undef ibv_reg_mr
#undef ibv_query_port

#define MAX_OBJECTS 64
#define DEPTH       1024 /* of any queue */
#define FIRST_QPN   17

struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
};

struct fake_qp {
	struct ibv_qp ibv;
	enum ibv_qp_state state;
	uint32_t peer_qpn;
	struct ibv_qp_cap cap;
	struct request sq[DEPTH]; /* request n: n % DEPTH */
	uint64_t posted, executed, acknowledged, freed;
	struct ibv_recv_wr rq[DEPTH];
	struct ibv_sge rq_sge[DEPTH];
	uint64_t rq_posted, rq_taken;
};

struct entry {
	struct ibv_wc wc;
	struct fake_qp *frees; /* its send queue up to this request */
	uint64_t up_to;
};

struct fake_cq {
	struct ibv_cq ibv;
	struct entry entry[DEPTH];
	uint64_t put, taken;
	bool armed;
	unsigned int late, unacknowledged;
};

struct fake_mr {
	struct ibv_mr ibv;
	int access;
};

static struct fake_qp *qps[MAX_OBJECTS];
static struct fake_mr *mrs[MAX_OBJECTS];
static unsigned int objects, calls_to_failure, next_number = FIRST_QPN;
static bool has_failed, notify_late;
static void (*before_arming)(void);
static enum ibv_port_state port_state = IBV_PORT_ACTIVE;

void fake_fail_call(unsigned int n)
{
	calls_to_failure = n;
	has_failed = false;
}

bool fake_has_failed(void)
{
	return has_failed;
}

static bool fails(void)
{
	if (!calls_to_failure || --calls_to_failure)
		return false;
	has_failed = true;
	errno = ENOMEM;
	return true;
}

unsigned int fake_objects(void)
{
	return objects;
}

void fake_port_state(enum ibv_port_state state)
{
	port_state = state;
}

/* ---- completions ---------------------------------------------------------------------------- */

static struct fake_cq *cq_of(const struct ibv_cq *cq)
{
	return (struct fake_cq *)cq;
}

void fake_notify_late(bool late)
{
	notify_late = late;
}

void fake_notify(struct ibv_cq *ibv)
{
	struct fake_cq *cq = cq_of(ibv);

	for (; cq->late; cq->late--)
		assert_int_equal(eventfd_write(ibv->channel->fd, 1), 0);
}

bool fake_notifies(const struct ibv_cq *cq)
{
	return cq_of(cq)->late;
}

void fake_notify_of_nothing(struct ibv_cq *cq)
{
	assert_int_equal(eventfd_write(cq->channel->fd, 1), 0);
}

unsigned int fake_completions(const struct ibv_cq *cq)
{
	return cq_of(cq)->put - cq_of(cq)->taken;
}

static void complete(struct fake_cq *cq, struct entry entry)
{
	assert_true(cq->put - cq->taken < (uint64_t)cq->ibv.cqe);
	cq->entry[cq->put++ % DEPTH] = entry;
	if (!cq->armed)
		return;
	cq->armed = false;
	cq->late++;
	if (!notify_late)
		fake_notify(&cq->ibv);
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fake_cq *cq = cq_of(ibv);
	struct entry *e;
	int i;

	for (i = 0; i < n && cq->taken < cq->put; i++) {
		e = &cq->entry[cq->taken++ % DEPTH];
		wc[i] = e->wc;
		if (e->frees)
			e->frees->freed = e->up_to;
	}
	return i;
}

void fake_before_arming(void (*call)(void))
{
	before_arming = call;
}

static int req_notify_cq(struct ibv_cq *ibv, int solicited)
{
	void (*const call)(void) = before_arming;

	before_arming = NULL;
	if (call)
		call();
	if (fails())
		return ENOMEM;
	cq_of(ibv)->armed = true;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *channel = fails() ? NULL : calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->context = ctx;
	channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	assert_true(channel->fd >= 0);
	objects++;
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	objects--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *cq = fails() ? NULL : calloc(1, sizeof(*cq));

	if (!cq)
		return NULL;
	assert_true(cqe <= DEPTH);
	cq->ibv = (struct ibv_cq){.context = ctx, .channel = channel, .cqe = cqe};
	objects++;
	return &cq->ibv;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	assert_int_equal(cq_of(cq)->unacknowledged, 0); /* a real one waits for ever */
	free(cq);
	objects--;
	return 0;
}

static struct fake_cq *only_cq_of(struct ibv_comp_channel *channel)
{
	unsigned int i;

	for (i = 0; i < MAX_OBJECTS; i++)
		if (qps[i] && qps[i]->ibv.send_cq->channel == channel)
			return cq_of(qps[i]->ibv.send_cq);
	fail_msg("an event of a queue that is not there");
	return NULL;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **out, void **ctx)
{
	struct fake_cq *cq;
	eventfd_t one;

	if (eventfd_read(channel->fd, &one))
		return -1;
	cq = only_cq_of(channel);
	cq->unacknowledged++;
	*out = &cq->ibv;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	cq_of(cq)->unacknowledged -= n;
}

/* ---- memory --------------------------------------------------------------------------------- */

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct fake_mr *mr = fails() ? NULL : calloc(1, sizeof(*mr));
	unsigned int i;

	if (!mr)
		return NULL;
	for (i = 0; mrs[i]; i++)
		assert_true(i + 1 < MAX_OBJECTS);
	mrs[i] = mr;
	mr->access = access;
	mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->ibv.lkey = mr->ibv.rkey = next_number++;
	objects++;
	return &mr->ibv;
}

int ibv_dereg_mr(struct ibv_mr *ibv)
{
	unsigned int i;

	for (i = 0; mrs[i] != (struct fake_mr *)ibv; i++)
		assert_true(i + 1 < MAX_OBJECTS);
	free(mrs[i]);
	mrs[i] = NULL;
	objects--;
	return 0;
}

static bool may_touch(const struct ibv_context *ctx, uint32_t key, uint64_t addr, uint32_t length,
		      int access)
{
	const struct fake_mr *mr;
	unsigned int i;

	for (i = 0; i < MAX_OBJECTS; i++) {
		mr = mrs[i];
		if (mr && mr->ibv.lkey == key && mr->ibv.context == ctx &&
		    (mr->access & access) == access && addr >= (uintptr_t)mr->ibv.addr &&
		    addr + length <= (uintptr_t)mr->ibv.addr + mr->ibv.length)
			return true;
	}
	return false;
}

/* ---- queue pairs ---------------------------------------------------------------------------- */

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_qp *qp = fails() ? NULL : calloc(1, sizeof(*qp));
	unsigned int i;

	if (!qp)
		return NULL;
	for (i = 0; qps[i]; i++)
		assert_true(i + 1 < MAX_OBJECTS);
	qps[i] = qp;
	qp->cap = init->cap;
	assert_true(qp->cap.max_send_wr <= DEPTH && qp->cap.max_recv_wr <= DEPTH);
	qp->ibv = (struct ibv_qp){.context = pd->context,
				  .pd = pd,
				  .send_cq = init->send_cq,
				  .recv_cq = init->recv_cq,
				  .qp_num = next_number++};
	objects++;
	return &qp->ibv;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	unsigned int i;

	for (i = 0; qps[i] != qp_of(ibv); i++)
		assert_true(i + 1 < MAX_OBJECTS);
	free(qps[i]);
	qps[i] = NULL;
	objects--;
	return 0;
}

static void complete_send(struct fake_qp *qp, uint64_t number, enum ibv_wc_status status)
{
	const struct ibv_send_wr *wr = &qp->sq[number % DEPTH].wr;

	complete(cq_of(qp->ibv.send_cq),
		 (struct entry){
			 .wc = {.wr_id = wr->wr_id, .status = status, .qp_num = qp->ibv.qp_num},
			 .frees = qp,
			 .up_to = number});
}

static void flush(struct fake_qp *qp)
{
	while (qp->acknowledged < qp->posted)
		complete_send(qp, ++qp->acknowledged, IBV_WC_WR_FLUSH_ERR);
	for (; qp->rq_taken < qp->rq_posted; qp->rq_taken++)
		complete(cq_of(qp->ibv.recv_cq),
			 (struct entry){.wc = {.wr_id = qp->rq[qp->rq_taken % DEPTH].wr_id,
					       .status = IBV_WC_WR_FLUSH_ERR}});
}

int ibv_modify_qp(struct ibv_qp *ibv, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *qp = qp_of(ibv);

	if (attr->qp_state == IBV_QPS_ERR) {
		if (qp->state != IBV_QPS_ERR)
			flush(qp);
		qp->state = IBV_QPS_ERR;
		return 0;
	}
	if (fails())
		return ENOMEM;
	assert_int_equal(attr->qp_state, qp->state + 1);
	qp->state = attr->qp_state;
	if (mask & IBV_QP_DEST_QPN)
		qp->peer_qpn = attr->dest_qp_num;
	return 0;
}

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = qp_of(ibv);
	const uint64_t at = qp->rq_posted % DEPTH;

	if (fails())
		return ENOMEM;
	assert_true(qp->state != IBV_QPS_RESET && !wr->next && wr->num_sge == 1);
	assert_true(qp->rq_posted - qp->rq_taken < qp->cap.max_recv_wr);
	assert_true(may_touch(ibv->context, wr->sg_list->lkey, wr->sg_list->addr,
			      wr->sg_list->length, IBV_ACCESS_LOCAL_WRITE));
	qp->rq[at] = *wr;
	qp->rq_sge[at] = *wr->sg_list;
	qp->rq_posted++;
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	return 0;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = qp_of(ibv);
	struct request *r;

	if (fails())
		return ENOMEM;
	assert_true(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR);
	for (; wr; wr = wr->next) {
		/* requests hold their room until a completion of one behind them is taken */
		assert_true(qp->posted - qp->freed < qp->cap.max_send_wr);
		assert_true(wr->num_sge <= 1);
		r = &qp->sq[++qp->posted % DEPTH];
		r->wr = *wr;
		r->sge = wr->num_sge ? *wr->sg_list : (struct ibv_sge){0};
		if (wr->num_sge)
			assert_true(may_touch(ibv->context, r->sge.lkey, r->sge.addr, r->sge.length,
					      IBV_ACCESS_LOCAL_WRITE));
	}
	if (qp->state == IBV_QPS_ERR)
		flush(qp);
	return 0;
}

/* ---- the wire ------------------------------------------------------------------------------- */

static struct fake_qp *peer_of(const struct fake_qp *qp)
{
	struct fake_qp *peer;
	unsigned int i;

	for (i = 0; i < MAX_OBJECTS; i++) {
		peer = qps[i];
		if (peer && peer->ibv.qp_num == qp->peer_qpn && peer->peer_qpn == qp->ibv.qp_num &&
		    (peer->state == IBV_QPS_RTR || peer->state == IBV_QPS_RTS))
			return peer;
	}
	return NULL;
}

static void deliver(struct fake_qp *peer, const struct request *r)
{
	const uint64_t at = peer->rq_taken++ % DEPTH;
	struct ibv_wc wc = {
		.wr_id = peer->rq[at].wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = r->sge.length,
	};

	if (peer->rq_taken > peer->rq_posted)
		fail_msg("a message finds no receive");
	if (r->wr.opcode == IBV_WR_SEND_WITH_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = r->wr.imm_data;
	}
	assert_true(r->sge.length <= peer->rq_sge[at].length);
	if (r->sge.length)
		memcpy((void *)(uintptr_t)peer->rq_sge[at].addr, (void *)(uintptr_t)r->sge.addr,
		       r->sge.length);
	complete(cq_of(peer->ibv.recv_cq), (struct entry){.wc = wc});
}

/* False where the peer does not allow it. */
static bool transfer(struct fake_qp *peer, const struct request *r)
{
	void *theirs = (void *)(uintptr_t)r->wr.wr.rdma.remote_addr;
	void *ours = (void *)(uintptr_t)r->sge.addr;
	const bool read = r->wr.opcode == IBV_WR_RDMA_READ;

	if (!r->sge.length)
		return true;
	if (!may_touch(peer->ibv.context, r->wr.wr.rdma.rkey, r->wr.wr.rdma.remote_addr,
		       r->sge.length, read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE))
		return false;
	memcpy(read ? ours : theirs, read ? theirs : ours, r->sge.length);
	return true;
}

bool fake_execute(struct ibv_qp *ibv)
{
	struct fake_qp *qp = qp_of(ibv), *peer = peer_of(qp);
	const struct request *r = &qp->sq[(qp->executed + 1) % DEPTH];

	if (qp->state != IBV_QPS_RTS || !peer || qp->executed == qp->posted)
		return false;
	if (r->wr.opcode == IBV_WR_SEND || r->wr.opcode == IBV_WR_SEND_WITH_IMM) {
		deliver(peer, r);
	} else if (!transfer(peer, r)) {
		while (fake_acknowledge(ibv))
			;
		fake_give_up(ibv, IBV_WC_REM_ACCESS_ERR);
		return true;
	}
	qp->executed++;
	return true;
}

bool fake_acknowledge(struct ibv_qp *ibv)
{
	struct fake_qp *qp = qp_of(ibv);

	if (qp->state != IBV_QPS_RTS || qp->acknowledged == qp->executed)
		return false;
	qp->acknowledged++;
	if (qp->sq[qp->acknowledged % DEPTH].wr.send_flags & IBV_SEND_SIGNALED)
		complete_send(qp, qp->acknowledged, IBV_WC_SUCCESS);
	return true;
}

void fake_settle(struct ibv_qp *qp)
{
	while (fake_execute(qp))
		;
	while (fake_acknowledge(qp))
		;
}

void fake_give_up(struct ibv_qp *ibv, enum ibv_wc_status status)
{
	struct fake_qp *qp = qp_of(ibv);

	if (qp->state == IBV_QPS_ERR)
		return;
	if (qp->acknowledged < qp->posted)
		complete_send(qp, ++qp->acknowledged, status);
	qp->state = IBV_QPS_ERR;
	flush(qp);
}

/* ---- the device ----------------------------------------------------------------------------- */

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	((struct ibv_port_attr *)attr)->state = port_state;
	return fails() ? ENOMEM : 0;
}

struct inc_rdma_device *fake_device(const char *name, struct inc_rdma_port_info *port)
{
	static struct {
		struct inc_rdma_device rdma;
		struct ibv_context ctx;
		struct ibv_pd pd;
		struct inc_rdma_gid gid;
	} devices[4];
	static const uint16_t pkey = 0xffff;
	static unsigned int n;
	struct inc_rdma_device *device = &devices[n].rdma;

	devices[n].ctx.ops.poll_cq = poll_cq;
	devices[n].ctx.ops.req_notify_cq = req_notify_cq;
	devices[n].ctx.ops.post_send = post_send;
	devices[n].ctx.ops.post_recv = post_recv;
	devices[n].pd.context = &devices[n].ctx;
	snprintf(device->name, sizeof(device->name), "%s", name);
	device->ctx = &devices[n].ctx;
	device->pd = &devices[n].pd;
	device->ports = 1;
	device->limits = (struct inc_rdma_limits){100, 1000, 16, 1000, 16, 16};
	inc_rdma_async_init(&device->async);
	device->refs = 1;
	devices[n].gid = (struct inc_rdma_gid){
		.type = INC_RDMA_GID_ROCE_V2, .ifindex = 7, .own_ifindex = 7, .own_ifname = "h"};
	inc_rdma_gid_of_ipv4(htonl(0x0a4d0001 + n), devices[n].gid.raw);
	*port = (struct inc_rdma_port_info){.number = 1,
					    .link_layer = INC_RDMA_LINK_ETHERNET,
					    .state = INC_RDMA_PORT_ACTIVE,
					    .active_mtu_bytes = 1024,
					    .max_message_bytes = FAKE_MAX_MESSAGE_BYTES,
					    .pkey = &pkey,
					    .pkeys = 1,
					    .gid = &devices[n].gid,
					    .gids = 1};
	n++;
	return device;
}
