/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets between queue pairs. A request is one packet, whose number serves as its PSN. The peer
 * accepts the packet if the number is the next one, recognises a duplicate, and drops the packet if
 * an earlier one is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "selftests/fakes/verbs_priv.h"

struct packet {
	uint32_t from_qpn, to_qpn;
	union ibv_gid from, to;
	uint64_t number;
	struct ibv_send_wr wr; /* a copy of the work request, whose scatter list is not used */
	uint8_t *data;
	uint32_t bytes;
};

/* A packet that waits for fake_verbs_let_go(). */
struct held {
	struct packet packet;
	struct fake_verbs_dev *dev;
	struct held *next;
};

static struct held *first_held, **last_held = &first_held;

/* The peer's treatment of a packet. */
enum fate { LOST, ACCEPTED, DUPLICATE, DENIED };

/* ---- the peer of the sender
 * --------------------------------------------------------------------- */

static bool can_receive(const struct fake_verbs_qp *qp)
{
	return qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS;
}

static struct fake_verbs_qp *find_qp(uint32_t qpn, uint32_t peer_qpn)
{
	struct fake_verbs_qp *qp;
	unsigned int i;

	for (i = 0; i < fake_verbs_n_qps; i++) {
		qp = fake_verbs_qps[i];
		if (qp && qp->ibv.qp_num == qpn && qp->peer_qpn == peer_qpn && can_receive(qp))
			return qp;
	}
	return NULL;
}

/* Copies bytes in rising order, as a device does. Up to 64 bytes are copied in atomic words,
 * because another thread may read them meanwhile. */
static void place(void *to, const void *from, uint32_t bytes)
{
	uint32_t word, i;

	if (bytes > 64 || bytes % 4 || (uintptr_t)to % 4) {
		memcpy(to, from, bytes);
		return;
	}
	for (i = 0; i < bytes; i += 4) {
		memcpy(&word, (const uint8_t *)from + i, 4);
		__atomic_store_n((uint32_t *)((uint8_t *)to + i), word, __ATOMIC_RELEASE);
	}
}

/* Completes the receiver's oldest posted receive, whose buffer gets the bytes of the message. */
static void take_receive(struct fake_verbs_qp *qp, const struct packet *p,
			 enum ibv_wc_opcode opcode)
{
	const uint64_t at = qp->rq_taken % FAKE_VERBS_DEPTH;
	struct ibv_wc wc = {
		.wr_id = qp->rq[at].wr_id,
		.status = IBV_WC_SUCCESS,
		.opcode = opcode,
		.byte_len = p->bytes,
		.qp_num = qp->ibv.qp_num,
	};

	fake_verbs_must(qp->rq_taken < qp->rq_posted, "a message finds no receive");
	qp->rq_taken++;
	if (p->wr.opcode != IBV_WR_SEND) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = p->wr.imm_data;
	}
	if (opcode == IBV_WC_RECV && p->bytes) {
		fake_verbs_must(p->bytes <= qp->rq_sge[at].length, "a message is too long");
		place((void *)(uintptr_t)qp->rq_sge[at].addr, p->data, p->bytes);
	}
	fake_verbs_complete_receive(qp, &wc);
}

/* Carries out an RDMA READ or WRITE. Returns false if the peer's registration does not allow it. A
 * request without bytes needs no key. */
static bool transfer(struct fake_verbs_qp *qp, const struct packet *p)
{
	const bool read = p->wr.opcode == IBV_WR_RDMA_READ;
	bool gpu = false;
	void *theirs;

	if (!p->bytes)
		return true;
	theirs = fake_verbs_touch(qp->ibv.context, p->wr.wr.rdma.rkey, p->wr.wr.rdma.remote_addr,
				  p->bytes, read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE,
				  &gpu);
	if (!theirs)
		return false;
	if (gpu && read)
		fake_verbs_flush_gpu(qp->dev);
	if (gpu && !read)
		fake_verbs_write_gpu(qp->dev, theirs, p->data, p->bytes);
	else
		place(read ? p->data : theirs, read ? theirs : p->data, p->bytes);
	return true;
}

static enum fate carry_out(struct fake_verbs_qp *qp, const struct packet *p)
{
	struct packet half = *p;

	switch (p->wr.opcode) {
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		take_receive(qp, p, IBV_WC_RECV);
		break;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		if (qp->dev->faults & FAKE_VERBS_CUT_WRITES_IN) {
			half.bytes /= 2;
			transfer(qp, &half);
			return LOST;
		}
		__attribute__((fallthrough));
	default:
		if (!transfer(qp, p))
			return DENIED;
		if (p->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			take_receive(qp, p, IBV_WC_RECV_RDMA_WITH_IMM);
	}
	qp->arrived = p->number;
	return ACCEPTED;
}

static enum fate arrive(const struct packet *p)
{
	struct fake_verbs_qp *qp = find_qp(p->to_qpn, p->from_qpn);

	if (!qp || (!qp->dev->by_hand && (memcmp(&qp->own_gid, &p->to, sizeof(p->to)) ||
					  memcmp(&qp->peer_gid, &p->from, sizeof(p->from)))))
		return LOST;
	if (p->number <= qp->arrived)
		return DUPLICATE;
	return p->number == qp->arrived + 1 ? carry_out(qp, p) : LOST;
}

/* ---- packets on their way
 * ----------------------------------------------------------------------- */

static struct packet packet_of(struct fake_verbs_qp *qp, uint64_t number)
{
	struct request *r = &qp->sq[number % FAKE_VERBS_DEPTH];
	const bool copied = r->wr.send_flags & IBV_SEND_INLINE;
	struct packet p = {
		.from_qpn = qp->ibv.qp_num,
		.to_qpn = qp->peer_qpn,
		.from = qp->own_gid,
		.to = qp->peer_gid,
		.number = number,
		.wr = r->wr,
		.data = r->copy,
		.bytes = r->sge.length,
	};

	if (copied || !p.bytes)
		return p;
	p.data = fake_verbs_touch(qp->ibv.context, r->sge.lkey, r->sge.addr, r->sge.length,
				  r->wr.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_LOCAL_WRITE : 0,
				  NULL);
	fake_verbs_must(p.data, "memory of a request under way is not registered any more");
	return p;
}

/* Holds the packet back until fake_verbs_let_go(). A retransmitted packet is held only once. */
static void hold(struct fake_verbs_qp *qp, const struct packet *p)
{
	struct held *h;

	for (h = first_held; h; h = h->next)
		if (h->packet.from_qpn == p->from_qpn && h->packet.number == p->number)
			return;
	fake_verbs_must(p->wr.opcode != IBV_WR_RDMA_READ, "a READ cannot be held");
	h = calloc(1, sizeof(*h));
	h->packet = *p;
	h->packet.data = NULL;
	if (p->bytes) {
		h->packet.data = malloc(p->bytes);
		memcpy(h->packet.data, p->data, p->bytes);
	}
	h->dev = qp->dev;
	*last_held = h;
	last_held = &h->next;
}

static void free_held(struct held **at)
{
	struct held *h = *at;

	*at = h->next;
	if (!h->next)
		last_held = at;
	free(h->packet.data);
	free(h);
}

void fake_verbs_forget_packets(void)
{
	while (first_held)
		free_held(&first_held);
}

unsigned int fake_verbs_let_go(unsigned int device)
{
	struct held **at = &first_held;
	unsigned int taken = 0;
	char name[16];

	snprintf(name, sizeof(name), "fake%u", device);
	pthread_mutex_lock(&fake_verbs_lock);
	while (*at)
		if (strcmp((*at)->dev->ibv.name, name)) {
			at = &(*at)->next;
		} else {
			taken += arrive(&(*at)->packet) == ACCEPTED;
			free_held(at);
		}
	fake_verbs_generation++;
	pthread_mutex_unlock(&fake_verbs_lock);
	return taken;
}

static bool leaves(const struct fake_verbs_dev *dev, unsigned int fault)
{
	return dev && dev->state == IBV_PORT_ACTIVE && !(dev->faults & fault);
}

/* Are a queue pair's READs lost? So are those of a queue pair whose GID has left its entry of the
 * table. */
static bool loses_reads(const struct fake_verbs_qp *qp)
{
	const uint8_t index = qp->given[IBV_QPS_RTR].ah_attr.grh.sgid_index;

	return qp->dev->faults & FAKE_VERBS_LOSE_READS_OUT || !fake_verbs_has_gid(qp->dev, index);
}

static enum fate send_one(struct fake_verbs_qp *qp, uint64_t number)
{
	struct packet p = packet_of(qp, number);
	struct fake_verbs_dev *to = fake_verbs_dev_at(&qp->peer_gid);

	if (p.wr.opcode == IBV_WR_RDMA_READ && loses_reads(qp))
		return LOST;
	if (p.wr.opcode == IBV_WR_RDMA_READ && qp->dev->faults & FAKE_VERBS_DENY_READS_OUT)
		return DENIED;
	if (qp->dev->faults & FAKE_VERBS_HOLD_OUT) {
		hold(qp, &p);
		return LOST;
	}
	if (leaves(qp->dev, FAKE_VERBS_LOSE_REQUESTS_OUT) &&
	    leaves(to, FAKE_VERBS_LOSE_REQUESTS_IN))
		return arrive(&p);
	return LOST;
}

static bool ack_arrives(const struct fake_verbs_qp *qp)
{
	return leaves(qp->dev, FAKE_VERBS_LOSE_ACKS_IN) &&
	       leaves(fake_verbs_dev_at(&qp->peer_gid), FAKE_VERBS_LOSE_ACKS_OUT);
}

/* ---- the sender ----------------------------------------------------------------------------- */

static bool acknowledge(struct fake_verbs_qp *qp)
{
	if (qp->state != IBV_QPS_RTS || qp->acknowledged == qp->executed)
		return false;
	qp->acknowledged++;
	if (qp->sq[qp->acknowledged % FAKE_VERBS_DEPTH].wr.send_flags & IBV_SEND_SIGNALED)
		fake_verbs_complete_send(qp, qp->acknowledged, IBV_WC_SUCCESS);
	return true;
}

void fake_verbs_stop(struct fake_verbs_qp *qp, enum ibv_wc_status status)
{
	if (qp->state == IBV_QPS_ERR)
		return;
	if (qp->acknowledged < qp->posted)
		fake_verbs_complete_send(qp, ++qp->acknowledged, status);
	qp->state = IBV_QPS_ERR;
	fake_verbs_flush(qp);
}

/* Called when the peer has refused the request after those that it acknowledged. Both queue pairs
 * fail. */
static void deny(struct fake_verbs_qp *qp)
{
	struct fake_verbs_qp *peer = find_qp(qp->peer_qpn, qp->ibv.qp_num);

	while (acknowledge(qp))
		;
	fake_verbs_stop(qp, IBV_WC_REM_ACCESS_ERR);
	if (peer && !peer->dev->by_hand)
		fake_verbs_stop(peer, IBV_WC_REM_ACCESS_ERR);
}

/* Sends all requests that were not acknowledged, from the oldest on. */
static void send_all(struct fake_verbs_qp *qp)
{
	uint64_t number;

	for (number = qp->acknowledged + 1; number <= qp->posted; number++)
		switch (send_one(qp, number)) {
		case LOST:
			return;
		case DENIED:
			deny(qp);
			return;
		default:
			if (qp->executed < number)
				qp->executed = number;
			if (ack_arrives(qp))
				while (acknowledge(qp))
					qp->waits_at_ns = 0;
		}
}

void fake_verbs_progress(struct fake_verbs_qp *qp)
{
	if (qp->dev->by_hand || qp->state != IBV_QPS_RTS || qp->acknowledged == qp->posted)
		return;
	if (qp->tried != fake_verbs_generation) {
		qp->tried = fake_verbs_generation;
		send_all(qp);
	}
	if (qp->acknowledged == qp->posted || qp->state != IBV_QPS_RTS)
		return;
	if (!qp->waits_at_ns)
		qp->waits_at_ns = inc_now_ns();
	else if (qp->patience_ns && inc_now_ns() - qp->waits_at_ns >= qp->patience_ns)
		fake_verbs_stop(qp, IBV_WC_RETRY_EXC_ERR);
}

void fake_verbs_progress_all(void)
{
	unsigned int i;

	for (i = 0; i < fake_verbs_n_qps; i++)
		if (fake_verbs_qps[i])
			fake_verbs_progress(fake_verbs_qps[i]);
}

void fake_verbs_give_up(struct ibv_qp *qp, enum ibv_wc_status status)
{
	pthread_mutex_lock(&fake_verbs_lock);
	fake_verbs_stop((struct fake_verbs_qp *)qp, status);
	pthread_mutex_unlock(&fake_verbs_lock);
}

/* ---- devices that the test moves
 * -------------------------------------------------------------- */

bool fake_verbs_execute(struct ibv_qp *ibv)
{
	struct fake_verbs_qp *qp = (struct fake_verbs_qp *)ibv;
	enum fate fate = LOST;
	struct packet p;

	pthread_mutex_lock(&fake_verbs_lock);
	if (qp->state == IBV_QPS_RTS && qp->executed < qp->posted) {
		p = packet_of(qp, qp->executed + 1);
		fate = arrive(&p);
	}
	if (fate == DENIED)
		deny(qp);
	else if (fate == ACCEPTED)
		qp->executed++;
	pthread_mutex_unlock(&fake_verbs_lock);
	return fate != LOST;
}

bool fake_verbs_acknowledge(struct ibv_qp *qp)
{
	bool done;

	pthread_mutex_lock(&fake_verbs_lock);
	done = acknowledge((struct fake_verbs_qp *)qp);
	pthread_mutex_unlock(&fake_verbs_lock);
	return done;
}

void fake_verbs_settle(struct ibv_qp *qp)
{
	while (fake_verbs_execute(qp))
		;
	while (fake_verbs_acknowledge(qp))
		;
}
