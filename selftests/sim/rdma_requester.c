// SPDX-License-Identifier: BSD-2-Clause
/* The half of a queue pair that sends requests. Packets are counted in 64 bits: packet n has the
 * PSN qp->psn + n. */
#include <string.h>
#include "lib/roce/wire.h"
#include "rdma_priv.h"
#include "sim.h"

#define DOORBELL_MOST_NS 2000 /* time from a request to its first packet */
#define RETRY_FOR_EVER   7    /* value of rnr_retry; of retry_cnt on some devices */
#define ACK_EVERY        64   /* packets of a message after which a device requests an ACK */

static void restart_timer(struct rdma_qp *qp);

static struct rdma_send *send_at(const struct rdma_qp *qp, uint64_t number)
{
	return &qp->sends[number % qp->cap.max_send_wr];
}

void rdma_end_send(struct rdma_qp *qp, enum ibv_wc_status status)
{
	const struct rdma_send *s = send_at(qp, qp->done++);
	const struct rdma_completion completion = {
		.wc = {.wr_id = s->wr.wr_id, .status = status, .qp_num = qp->ibv.qp_num},
		.qpn = qp->ibv.qp_num,
		.up_to = qp->done,
	};

	if (status != IBV_WC_SUCCESS || s->wr.send_flags & IBV_SEND_SIGNALED)
		rdma_complete(qp->ibv.send_cq, &completion);
}

void rdma_give_up(struct rdma_qp *qp, enum ibv_wc_status status)
{
	sim_note(qp->context->device->ibv.name, ibv_wc_status_str(status), qp->ibv.qp_num, 0, 0);
	rdma_figures.given_up++;
	if (qp->done < qp->posted)
		rdma_end_send(qp, status);
	rdma_fail(qp);
}

/* --- sending --- */

static uint8_t opcode_of(const struct rdma_send *s, bool first, bool last)
{
	const bool has_imm = s->wr.opcode != IBV_WR_SEND && s->wr.opcode != IBV_WR_RDMA_WRITE;
	const bool write =
		s->wr.opcode == IBV_WR_RDMA_WRITE || s->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	const uint8_t base = write ? INC_OP_WRITE_FIRST : INC_OP_SEND_FIRST;

	/* in both groups the order is FIRST, MIDDLE, LAST, LAST with immediate, ONLY, ONLY with
	 * immediate */
	if (!last)
		return base + !first;
	return base + (first ? 4 : 2) + has_imm;
}

static void send_packet(struct rdma_qp *qp, const struct rdma_send *s, uint64_t n)
{
	const uint64_t i = n - s->first;
	const bool last = i + 1 == s->packets;
	const uint32_t at = i * qp->mtu_bytes;
	struct frame_spec packet = {
		.opcode = opcode_of(s, !i, last),
		.bth_flags = last && s->wr.send_flags & IBV_SEND_SOLICITED ? INC_BTH_SE : 0,
		.ack_byte = last || !((n + 1) % ACK_EVERY) ? 0x80 : 0,
		.psn = (qp->psn + n) & INC_PSN_MASK,
		.va = s->wr.wr.rdma.remote_addr,
		.rkey = s->wr.wr.rdma.rkey,
		.dmalen = s->sge.length,
		.imm = be32toh(s->wr.imm_data),
		.payload = (const void *)(uintptr_t)(s->sge.addr + at),
		.len = last ? s->sge.length - at : qp->mtu_bytes,
	};

	sim_require(!packet.len || rdma_may_touch(qp->context, s->sge.lkey, s->sge.addr + at,
						  packet.len, 0),
		    "memory of a request under way is not registered any more");
	rdma_transmit(qp, &packet);
}

static const struct rdma_send *send_with(const struct rdma_qp *qp, uint64_t n)
{
	uint64_t number = qp->done;

	while (n >= send_at(qp, number)->first + send_at(qp, number)->packets)
		number++;
	return send_at(qp, number);
}

/* A device that has failed does nothing, and completes nothing. */
static bool is_at_work(const struct rdma_qp *qp)
{
	return qp->state == IBV_QPS_RTS && !qp->context->device->broken;
}

static void transmit(struct rdma_qp *qp)
{
	const bool idle = qp->acked == qp->next;

	if (!is_at_work(qp) || sim_now_ns() < qp->rnr_until_ns)
		return;
	for (; qp->next < qp->described && qp->next - qp->acked < RDMA_WINDOW; qp->next++)
		send_packet(qp, send_with(qp, qp->next), qp->next);
	if (qp->high < qp->next)
		qp->high = qp->next;
	if (idle)
		restart_timer(qp);
}

static void on_doorbell(void *arg, uint64_t id)
{
	struct rdma_qp *qp = rdma_qp_of(id);

	if (!qp)
		return;
	qp->doorbell = false;
	transmit(qp);
}

void rdma_ring(struct rdma_qp *qp)
{
	if (qp->doorbell)
		return;
	qp->doorbell = true;
	sim_after(sim_between(0, DOORBELL_MOST_NS), on_doorbell, NULL, qp->id);
}

/* --- the retransmission timer --- */

static void on_timer(void *arg, uint64_t id)
{
	struct rdma_qp *qp = rdma_qp_of(id);

	if (!qp)
		return;
	qp->timer_set = false;
	if (!is_at_work(qp) || !qp->timer_at_ns)
		return;
	if (sim_now_ns() < qp->timer_at_ns) {
		qp->timer_set = true;
		sim_at(qp->timer_at_ns, on_timer, NULL, id);
		return;
	}
	rdma_figures.timeouts++;
	sim_note(qp->context->device->ibv.name, "has a timeout", qp->ibv.qp_num,
		 (qp->psn + qp->acked) & INC_PSN_MASK, qp->retries);
	if (qp->retries++ == qp->retry_cnt && qp->retry_cnt != RETRY_FOR_EVER) {
		rdma_give_up(qp, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	qp->next = qp->acked;
	transmit(qp);
}

/* A device may wait for somewhat longer than it was asked to. */
static void restart_timer(struct rdma_qp *qp)
{
	qp->timer_at_ns = 0;
	if (qp->acked == qp->next || !qp->timeout_ns)
		return;
	qp->timer_at_ns =
		sim_now_ns() + sim_between(qp->timeout_ns, qp->timeout_ns + qp->timeout_ns / 4);
	if (qp->timer_set)
		return;
	qp->timer_set = true;
	sim_at(qp->timer_at_ns, on_timer, NULL, qp->id);
}

/* --- acknowledgements --- */

/* The peer has all packets before n. */
static void acknowledge(struct rdma_qp *qp, uint64_t n)
{
	const struct rdma_send *s;

	if (n == qp->acked)
		return;
	qp->acked = n;
	if (qp->next < n)
		qp->next = n;
	qp->retries = qp->rnr_retries = 0;
	while (qp->done < qp->posted) {
		s = send_at(qp, qp->done);
		if (s->first + s->packets > n)
			break;
		rdma_end_send(qp, IBV_WC_SUCCESS);
	}
	restart_timer(qp);
}

static void on_rnr_over(void *arg, uint64_t id)
{
	struct rdma_qp *qp = rdma_qp_of(id);

	if (qp)
		transmit(qp);
}

/* The peer cannot keep the next packet yet, and asks to wait. */
static void wait(struct rdma_qp *qp, uint8_t syndrome)
{
	if (sim_now_ns() < qp->rnr_until_ns)
		return;
	if (qp->rnr_retry != RETRY_FOR_EVER && qp->rnr_retries++ == qp->rnr_retry) {
		rdma_give_up(qp, IBV_WC_RNR_RETRY_EXC_ERR);
		return;
	}
	qp->next = qp->acked;
	qp->timer_at_ns = 0;
	qp->rnr_until_ns = sim_now_ns() + inc_rnr_timeout_ns(syndrome);
	sim_at(qp->rnr_until_ns, on_rnr_over, NULL, qp->id);
}

static enum ibv_wc_status status_of(uint8_t syndrome)
{
	return syndrome == INC_AETH_NAK_ACCESS    ? IBV_WC_REM_ACCESS_ERR
	       : syndrome == INC_AETH_NAK_INVALID ? IBV_WC_REM_INV_REQ_ERR
						  : IBV_WC_REM_OP_ERR;
}

void rdma_answered(struct rdma_qp *qp, uint8_t syndrome, uint32_t psn)
{
	/* the packet that the peer names; an answer to what is acknowledged already is late */
	const uint64_t n = qp->acked + ((psn - qp->psn - qp->acked) & INC_PSN_MASK);

	if (qp->state != IBV_QPS_RTS || n >= qp->high)
		return;
	switch (syndrome & INC_AETH_TYPE_MASK) {
	case INC_AETH_TYPE_ACK:
		acknowledge(qp, n + 1);
		rdma_ring(qp);
		return;
	case INC_AETH_TYPE_RNR:
		acknowledge(qp, n);
		wait(qp, syndrome);
		return;
	case INC_AETH_TYPE_NAK:
		acknowledge(qp, n);
		if (syndrome != INC_AETH_NAK_SEQ) {
			rdma_give_up(qp, status_of(syndrome));
			return;
		}
		qp->next = n;
		transmit(qp);
	}
}
