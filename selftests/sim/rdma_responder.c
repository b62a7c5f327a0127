// SPDX-License-Identifier: BSD-2-Clause
/* The half of a queue pair that receives requests and answers them. */
#include <string.h>
#include "rdma_priv.h"
#include "sim.h"

#define ACK_MOST_NS 2000 /* time from a packet to its ACK */
#define HALF        (1u << 23)

/* The place of a packet in its message. The opcodes of SEND and of RDMA WRITE have the same order.
 */
enum shape { FIRST, MIDDLE, LAST, LAST_IMM, ONLY, ONLY_IMM };

static bool is_write(uint8_t opcode)
{
	return opcode >= INC_OP_WRITE_FIRST;
}

static enum shape shape_of(uint8_t opcode)
{
	return opcode - (is_write(opcode) ? INC_OP_WRITE_FIRST : INC_OP_SEND_FIRST);
}

/* --- answers --- */

static void answer(struct rdma_qp *qp, uint8_t syndrome, uint32_t psn)
{
	struct frame_spec packet = {
		.opcode = INC_OP_ACK,
		.psn = psn & INC_PSN_MASK,
		.syndrome = syndrome,
		.msn = qp->msn & INC_PSN_MASK,
	};

	rdma_transmit(qp, &packet);
}

static void on_ack(void *arg, uint64_t id)
{
	struct rdma_qp *qp = rdma_qp_of(id);

	if (!qp || !qp->ack_due)
		return;
	qp->ack_due = false;
	answer(qp, INC_AETH_ACK, qp->epsn - 1);
}

/* One ACK answers all packets that arrive within a short time. */
static void acknowledge(struct rdma_qp *qp)
{
	if (qp->ack_due)
		return;
	qp->ack_due = true;
	sim_after(sim_between(0, ACK_MOST_NS), on_ack, NULL, qp->id);
}

static void refuse(struct rdma_qp *qp, uint8_t syndrome)
{
	/* a host posts the receive of a result before it sends the contribution */
	sim_require(syndrome >= INC_AETH_NAK_SEQ || qp->context->device->owner,
		    "%s: a result finds no receive", qp->context->device->ibv.name);
	rdma_figures.naks += syndrome >= INC_AETH_NAK_SEQ;
	rdma_figures.rnr_naks += syndrome < INC_AETH_NAK_SEQ;
	qp->asked_again = true;
	answer(qp, syndrome, qp->epsn);
}

/* The peer has sent what the queue pair cannot accept. */
static bool fail(struct rdma_qp *qp, uint8_t syndrome, enum ibv_wc_status status)
{
	const struct ibv_wc wc = {.status = status};

	sim_note(qp->context->device->ibv.name, "refuses a request", qp->ibv.qp_num, syndrome,
		 status);
	answer(qp, syndrome, qp->epsn);
	if (qp->rq_taken < qp->rq_posted)
		rdma_end_receive(qp, &wc);
	rdma_report(qp->context,
		    syndrome == INC_AETH_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
						    : IBV_EVENT_QP_REQ_ERR,
		    &qp->ibv);
	rdma_fail(qp);
	return false;
}

/* --- receives --- */

static struct rdma_receive *oldest_receive(const struct rdma_qp *qp)
{
	return &qp->receives[qp->rq_taken % qp->cap.max_recv_wr];
}

void rdma_end_receive(struct rdma_qp *qp, const struct ibv_wc *wc)
{
	struct rdma_completion completion = {.wc = *wc};

	completion.wc.wr_id = oldest_receive(qp)->wr_id;
	completion.wc.qp_num = qp->ibv.qp_num;
	qp->rq_taken++;
	rdma_complete(qp->ibv.recv_cq, &completion);
}

/* Completes the receive of a message whose last packet has arrived. */
static void receive(struct rdma_qp *qp, const struct rdma_packet *p, bool has_imm)
{
	struct ibv_wc wc = {
		.status = IBV_WC_SUCCESS,
		.opcode = qp->is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
		.byte_len = qp->bytes,
	};

	if (has_imm) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.imm_data = htobe32(p->imm);
	}
	rdma_end_receive(qp, &wc);
}

/* --- requests --- */

/* Does the packet follow the one before it, with a length that its opcode can have? */
static bool is_in_order(const struct rdma_qp *qp, const struct rdma_packet *p)
{
	const enum shape shape = shape_of(p->opcode);
	const bool begins = shape == FIRST || shape == ONLY || shape == ONLY_IMM;

	if (begins == qp->in_message || (!begins && qp->is_write != is_write(p->opcode)))
		return false;
	if (shape == FIRST || shape == MIDDLE)
		return p->bytes == qp->mtu_bytes;
	return p->bytes <= qp->mtu_bytes && (p->bytes || begins);
}

static bool begin(struct rdma_qp *qp, const struct rdma_packet *p)
{
	qp->is_write = is_write(p->opcode);
	qp->bytes = 0;
	if (!qp->is_write)
		return true;
	if (p->dmalen &&
	    (!(qp->access & IBV_ACCESS_REMOTE_WRITE) ||
	     !rdma_may_touch(qp->context, p->rkey, p->va, p->dmalen, IBV_ACCESS_REMOTE_WRITE)))
		return fail(qp, INC_AETH_NAK_ACCESS, IBV_WC_REM_ACCESS_ERR);
	qp->write_at = p->va;
	qp->write_key = p->rkey;
	qp->write_left = p->dmalen;
	return true;
}

static bool store_write(struct rdma_qp *qp, const struct rdma_packet *p, bool ends)
{
	if (p->bytes > qp->write_left || (ends && p->bytes != qp->write_left))
		return fail(qp, INC_AETH_NAK_INVALID, IBV_WC_REM_INV_REQ_ERR);
	/* the region may have been deregistered in the middle of the message */
	if (p->bytes && !rdma_may_touch(qp->context, qp->write_key, qp->write_at, p->bytes,
					IBV_ACCESS_REMOTE_WRITE))
		return fail(qp, INC_AETH_NAK_ACCESS, IBV_WC_REM_ACCESS_ERR);
	memcpy((void *)(uintptr_t)qp->write_at, p->payload, p->bytes);
	qp->write_at += p->bytes;
	qp->write_left -= p->bytes;
	return true;
}

static bool store_send(struct rdma_qp *qp, const struct rdma_packet *p)
{
	const struct ibv_sge *sge = &oldest_receive(qp)->sge;

	if (qp->bytes + p->bytes > sge->length)
		return fail(qp, INC_AETH_NAK_INVALID, IBV_WC_LOC_LEN_ERR);
	sim_require(!p->bytes || rdma_may_touch(qp->context, sge->lkey, sge->addr + qp->bytes,
						p->bytes, IBV_ACCESS_LOCAL_WRITE),
		    "memory of a receive is not registered any more");
	memcpy((uint8_t *)(uintptr_t)sge->addr + qp->bytes, p->payload, p->bytes);
	return true;
}

/* Carries out the packet that is expected. Returns false if it was refused. */
static bool carry_out(struct rdma_qp *qp, const struct rdma_packet *p)
{
	const enum shape shape = shape_of(p->opcode);
	const bool has_imm = shape == LAST_IMM || shape == ONLY_IMM;
	const bool ends = shape != FIRST && shape != MIDDLE;
	const bool takes_receive = !is_write(p->opcode) || has_imm;

	if (!is_in_order(qp, p))
		return fail(qp, INC_AETH_NAK_INVALID, IBV_WC_REM_INV_REQ_ERR);
	if (takes_receive && qp->rq_taken == qp->rq_posted) {
		refuse(qp, INC_AETH_RNR | qp->min_rnr_timer);
		return false;
	}
	if (!qp->in_message && !begin(qp, p))
		return false;
	if (qp->is_write ? !store_write(qp, p, ends) : !store_send(qp, p))
		return false;
	qp->bytes += p->bytes;
	qp->in_message = !ends;
	qp->epsn = (qp->epsn + 1) & INC_PSN_MASK;
	qp->msn += ends;
	if (ends && takes_receive)
		receive(qp, p, has_imm);
	return true;
}

void rdma_requested(struct rdma_qp *qp, const struct rdma_packet *p)
{
	const uint32_t ahead = (p->psn - qp->epsn) & INC_PSN_MASK;

	if (ahead >= HALF) {
		acknowledge(qp); /* the packet came before, and its ACK may be lost */
	} else if (ahead) {
		if (!qp->asked_again)
			refuse(qp, INC_AETH_NAK_SEQ);
	} else {
		qp->asked_again = false;
		if (carry_out(qp, p) && p->ackreq)
			acknowledge(qp);
	}
}
