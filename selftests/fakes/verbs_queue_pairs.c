/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: their states, and requests that are posted. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/verbs_priv.h"

struct fake_verbs_qp *fake_verbs_qps[FAKE_VERBS_MAX_OBJECTS];
unsigned int fake_verbs_n_qps;
uint64_t fake_verbs_generation = 1;

static bool no_inline, wait_in_rtr;
static unsigned int waiting_in_rtr;
static int wait_for_peer = -1;
static pthread_cond_t rtr_goes_on = PTHREAD_COND_INITIALIZER;

static void lock(void)
{
	pthread_mutex_lock(&fake_verbs_lock);
}

static void unlock(void)
{
	pthread_mutex_unlock(&fake_verbs_lock);
}

void fake_verbs_no_inline(bool none)
{
	lock();
	no_inline = none;
	unlock();
}

static struct fake_verbs_qp *qp_of(struct ibv_qp *qp)
{
	return (struct fake_verbs_qp *)qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct fake_verbs_qp *qp = NULL;

	lock();
	if (no_inline && init->cap.max_inline_data) {
		errno = EINVAL;
	} else if (!fake_verbs_refused(FAKE_VERBS_CREATE_QP)) {
		qp = calloc(1, sizeof(*qp));
		qp->cap = init->cap;
		qp->dev = fake_verbs_dev_of(pd->context);
		fake_verbs_must(qp->cap.max_send_wr <= FAKE_VERBS_DEPTH &&
					qp->cap.max_recv_wr <= FAKE_VERBS_DEPTH &&
					qp->cap.max_inline_data <= FAKE_VERBS_INLINE_BYTES,
				"a queue is larger than it can be");
		qp->ibv = (struct ibv_qp){.context = pd->context,
					  .pd = pd,
					  .send_cq = init->send_cq,
					  .recv_cq = init->recv_cq,
					  .qp_num = fake_verbs_number()};
		fake_verbs_put(fake_verbs_qps, &fake_verbs_n_qps, qp);
	}
	unlock();
	return qp ? &qp->ibv : NULL;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	lock();
	fake_verbs_take_out(fake_verbs_qps, fake_verbs_n_qps, ibv);
	free(qp_of(ibv));
	unlock();
	return 0;
}

void fake_verbs_flush(struct fake_verbs_qp *qp)
{
	struct ibv_wc wc = {.status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->ibv.qp_num};

	while (qp->acknowledged < qp->posted)
		fake_verbs_complete_send(qp, ++qp->acknowledged, IBV_WC_WR_FLUSH_ERR);
	for (; qp->rq_taken < qp->rq_posted; qp->rq_taken++) {
		wc.wr_id = qp->rq[qp->rq_taken % FAKE_VERBS_DEPTH].wr_id;
		fake_verbs_complete_receive(qp, &wc);
	}
}

/* Must a step to RTR with this peer wait? */
static bool must_wait(const union ibv_gid *peer)
{
	return wait_in_rtr ||
	       (wait_for_peer >= 0 &&
		fake_verbs_dev_at(peer) == fake_verbs_dev_number((unsigned int)wait_for_peer));
}

/* Moves the queue pair to RTR. The call may block without holding fake_verbs_lock, if no other
 * thread uses the queue pair. */
static int to_rtr(struct fake_verbs_qp *qp, const struct ibv_qp_attr *attr)
{
	const struct ibv_global_route *route = &attr->ah_attr.grh;
	int ret;

	waiting_in_rtr++;
	while (must_wait(&route->dgid))
		pthread_cond_wait(&rtr_goes_on, &fake_verbs_lock);
	waiting_in_rtr--;
	ret = fake_verbs_refused(FAKE_VERBS_TO_RTR);
	if (ret)
		return ret;
	if (!qp->dev->by_hand && !fake_verbs_has_gid(qp->dev, route->sgid_index))
		return EINVAL; /* the entry of the GID table does not have the address */
	qp->own_gid = qp->dev->gid;
	qp->peer_gid = route->dgid;
	qp->peer_qpn = attr->dest_qp_num;
	return 0;
}

static void to_rts(struct fake_verbs_qp *qp, const struct ibv_qp_attr *attr)
{
	qp->patience_ns = attr->timeout ? (4096ull << attr->timeout) * (attr->retry_cnt + 1) : 0;
}

static int modify_qp(struct fake_verbs_qp *qp, struct ibv_qp_attr *attr)
{
	int ret;

	if (attr->qp_state == IBV_QPS_ERR) {
		if (qp->state != IBV_QPS_ERR)
			fake_verbs_flush(qp);
		qp->state = IBV_QPS_ERR;
		return 0;
	}
	ret = attr->qp_state == IBV_QPS_RTR
		      ? to_rtr(qp, attr)
		      : fake_verbs_refused(attr->qp_state == IBV_QPS_INIT ? FAKE_VERBS_TO_INIT
									  : FAKE_VERBS_TO_RTS);
	if (ret)
		return ret;
	fake_verbs_must(attr->qp_state == qp->state + 1, "a queue pair leaves out a state");
	qp->state = attr->qp_state;
	if (qp->state == IBV_QPS_INIT)
		qp->pkey_index = attr->pkey_index;
	if (qp->state == IBV_QPS_RTS)
		to_rts(qp, attr);
	fake_verbs_generation++; /* requests to this queue pair that were lost before may arrive now
				  */
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int ret;

	lock();
	fake_verbs_must(!(mask & IBV_QP_RATE_LIMIT) || fake_verbs_limits_rate(attr->rate_limit),
			"a rate limit that the device does not have");
	ret = modify_qp(qp_of(qp), attr);
	if (!ret && attr->qp_state <= IBV_QPS_RTS) {
		qp_of(qp)->given[attr->qp_state] = *attr;
		qp_of(qp)->mask[attr->qp_state] = mask;
	}
	unlock();
	return ret;
}

struct ibv_qp_attr fake_verbs_given(struct ibv_qp *qp, enum ibv_qp_state state, int *mask)
{
	struct ibv_qp_attr given;

	lock();
	given = qp_of(qp)->given[state];
	*mask = qp_of(qp)->mask[state];
	unlock();
	return given;
}

unsigned int fake_verbs_pkey_indices(void)
{
	unsigned int indices = 0, i;

	lock();
	/* a queue pair gets its index in INIT, before which the plugin may have just made it */
	for (i = 0; i < FAKE_VERBS_MAX_OBJECTS; i++)
		if (fake_verbs_qps[i] && fake_verbs_qps[i]->state != IBV_QPS_RESET)
			indices |= 1u << fake_verbs_qps[i]->pkey_index;
	unlock();
	return indices;
}

void fake_verbs_wait_in_rtr(bool wait)
{
	lock();
	wait_in_rtr = wait;
	pthread_cond_broadcast(&rtr_goes_on);
	unlock();
}

void fake_verbs_wait_for_peer(int device)
{
	lock();
	wait_for_peer = device;
	pthread_cond_broadcast(&rtr_goes_on);
	unlock();
}

unsigned int fake_verbs_waiting_in_rtr(void)
{
	unsigned int n;

	lock();
	n = waiting_in_rtr;
	unlock();
	return n;
}

static void put_receive(struct fake_verbs_qp *qp, const struct ibv_recv_wr *wr)
{
	const uint64_t at = qp->rq_posted % FAKE_VERBS_DEPTH;

	fake_verbs_must(qp->state != IBV_QPS_RESET && wr->num_sge <= 1, "a receive that cannot be");
	fake_verbs_must(qp->rq_posted - qp->rq_taken < qp->cap.max_recv_wr, "too many receives");
	qp->rq[at] = *wr;
	qp->rq_sge[at] = wr->num_sge ? *wr->sg_list : (struct ibv_sge){0};
	fake_verbs_must(!wr->num_sge || fake_verbs_may_touch(qp->ibv.context, wr->sg_list->lkey,
							     wr->sg_list->addr, wr->sg_list->length,
							     IBV_ACCESS_LOCAL_WRITE),
			"a receive into memory that is not registered");
	qp->rq_posted++;
}

static int post_receives(struct fake_verbs_qp *qp, const struct ibv_recv_wr *wr)
{
	const int ret = fake_verbs_refused(FAKE_VERBS_POST_RECV);

	if (ret)
		return ret;
	for (; wr; wr = wr->next)
		put_receive(qp, wr);
	if (qp->state == IBV_QPS_ERR)
		fake_verbs_flush(qp);
	return 0;
}

int fake_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int ret;

	lock();
	ret = post_receives(qp_of(qp), wr);
	unlock();
	return ret;
}

static void put_request(struct fake_verbs_qp *qp, const struct ibv_send_wr *wr)
{
	struct request *r;

	/* a request holds its room until a completion of it or of a later one is polled */
	fake_verbs_must(qp->posted - qp->freed < qp->cap.max_send_wr, "too many requests");
	fake_verbs_must(wr->num_sge <= 1, "more pieces than asked for");
	r = &qp->sq[++qp->posted % FAKE_VERBS_DEPTH];
	r->wr = *wr;
	r->sge = wr->num_sge ? *wr->sg_list : (struct ibv_sge){0};
	if (wr->send_flags & IBV_SEND_INLINE) {
		fake_verbs_must(r->sge.length <= qp->cap.max_inline_data, "too much inline data");
		if (r->sge.length)
			memcpy(r->copy, (void *)(uintptr_t)r->sge.addr, r->sge.length);
	} else if (wr->num_sge) {
		fake_verbs_must(fake_verbs_may_touch(qp->ibv.context, r->sge.lkey, r->sge.addr,
						     r->sge.length, 0),
				"a request of memory that is not registered");
	}
}

static int post_requests(struct fake_verbs_qp *qp, const struct ibv_send_wr *wr)
{
	const int ret = fake_verbs_refused(wr->opcode == IBV_WR_SEND ? FAKE_VERBS_POST_SEND
								     : FAKE_VERBS_POST_WRITE);

	if (ret)
		return ret;
	fake_verbs_must(qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_ERR,
			"a request before the queue pair can send");
	for (; wr; wr = wr->next)
		put_request(qp, wr);
	qp->tried = 0;
	if (qp->state == IBV_QPS_ERR)
		fake_verbs_flush(qp);
	else
		fake_verbs_progress(qp);
	return 0;
}

int fake_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int ret;

	lock();
	ret = post_requests(qp_of(qp), wr);
	unlock();
	return ret;
}
