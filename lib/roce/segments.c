/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <string.h>
#include "lib/roce/segments.h"

static uint32_t packet_icrc(const struct inc_tx_peer *to, uint16_t id, const uint8_t *head,
			    size_t head_len, const struct inc_tx_packet *p)
{
	static const uint8_t zeros[4];
	size_t pad = inc_pad(p->len);
	uint32_t state =
		inc_icrc_head_usual(&to->usual, &to->path, id, head, head_len, p->len + pad);

	if (p->flags & INC_TX_HAS_CRC && to->jump && p->len == to->jump->len)
		state = inc_crc32_jump(to->jump, state) ^ p->crc;
	else if (p->len)
		state = inc_crc32_update(state, p->payload, p->len);
	if (pad)
		state = inc_crc32_update(state, zeros, pad);
	return ~state;
}

static size_t put_head(uint8_t *out, const struct inc_tx_peer *to, const struct inc_tx_packet *p,
		       uint32_t ackreq_psn)
{
	uint8_t *at = out;

	inc_put_bth(at, p->opcode, inc_pad(p->len) << INC_BTH_PAD_SHIFT | (to->se ? INC_BTH_SE : 0),
		    to->pkey, to->qpn, ackreq_psn);
	at += INC_BTH_LEN;
	if (inc_roce_has_reth(p->opcode)) {
		inc_put_reth(at, htobe64(p->va), htonl(p->rkey),
			     htonl(inc_dmalen(p->opcode, p->len, p->dmalen)));
		at += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(p->opcode)) {
		inc_put_imm(at, p->imm);
		at += INC_IMM_LEN;
	}
	return at - out;
}

static void push(struct inc_segments *t, const void *base, size_t len)
{
	t->iov[t->iovs].iov_base = (void *)base;
	t->iov[t->iovs].iov_len = len;
	t->iovs++;
}

static size_t wire_size(const struct inc_tx_packet *p)
{
	return INC_BTH_LEN + inc_roce_ext_len(p->opcode) + p->len + inc_pad(p->len) + INC_ICRC_LEN;
}

void inc_segments_begin(struct inc_segments *t)
{
	t->iovs = t->segments = 0;
	t->used = t->joint = t->total = 0;
	t->closed = false;
}

bool inc_segments_add(struct inc_segments *t, const struct inc_tx_peer *to,
		      const struct inc_tx_packet *p, uint32_t ackreq_psn, bool together)
{
	size_t size = wire_size(p), pad = inc_pad(p->len), head_len;
	uint8_t *head;
	uint32_t crc;

	if (t->segments) {
		if (t->closed || !together || size > t->size || t->segments == INC_MAX_SEGMENTS ||
		    t->total + size > INC_MAX_SEND_BYTES)
			return false;
		t->closed = size < t->size;
	} else {
		t->size = size;
	}
	head = t->bytes + t->used;
	head_len = put_head(head, to, p, ackreq_psn);
	t->used += head_len;
	crc = packet_icrc(to, t->segments, head, head_len, p);
	if (p->len) {
		push(t, t->bytes + t->joint, t->used - t->joint);
		push(t, p->payload, p->len);
		t->joint = t->used;
	}
	memset(t->bytes + t->used, 0, pad);
	inc_put_icrc(t->bytes + t->used + pad, crc);
	t->used += pad + INC_ICRC_LEN;
	t->segments++;
	t->total += size;
	return true;
}

void inc_segments_end(struct inc_segments *t, const struct inc_tx_peer *to,
		      struct inc_udp_send *out)
{
	push(t, t->bytes + t->joint, t->used - t->joint);
	*out = (struct inc_udp_send){.to = &to->addr,
				     .source = to->source,
				     .iov = t->iov,
				     .iovs = t->iovs,
				     .segment_bytes = t->segments > 1 ? t->size : 0,
				     .tos = to->tos,
				     .priority = to->priority};
}

void inc_put_ack_packet(uint8_t *at, const struct inc_tx_peer *to, uint8_t syndrome,
			uint32_t ackreq_psn, uint32_t msn)
{
	const size_t len = INC_BTH_LEN + INC_AETH_LEN;

	inc_put_bth(at, INC_OP_ACK, 0, to->pkey, to->qpn, ackreq_psn);
	inc_put_aeth(at + INC_BTH_LEN, syndrome, msn);
	inc_put_icrc(at + len, inc_icrc_udp(&to->path, 0, at, len));
}

void inc_put_cnp_packet(uint8_t *at, const struct inc_tx_peer *to)
{
	const size_t len = INC_BTH_LEN + INC_CNP_LEN;

	memset(at, 0, len);
	inc_put_bth(at, INC_OP_CNP, 0, to->pkey, to->qpn, 0);
	at[INC_BTH_MASKED_AT] = INC_BTH_BECN;
	inc_put_icrc(at + len, inc_icrc_udp(&to->path, 0, at, len));
}

void inc_segments_ack(struct inc_segments *t, const struct inc_tx_peer *to, uint8_t syndrome,
		      uint32_t ackreq_psn, uint32_t msn)
{
	inc_segments_begin(t);
	inc_put_ack_packet(t->bytes, to, syndrome, ackreq_psn, msn);
	t->used = t->size = t->total = INC_ACK_PACKET_LEN;
	t->segments = 1;
}
