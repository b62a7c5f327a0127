/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Result: below the root, the parent's packet r brings the result of chunk r, whose partial sum
 * went up. It is kept in the parent's row, from which the slow path sends it again, and passed on.
 */
#ifndef INC_RESULT_H
#define INC_RESULT_H

#include "bpf/inc_multicast.h"

/* Is the packet what the parent must answer this partial sum with? Its message mirrors the partial
 * sum's; its length follows from who gives and who gets. */
static __always_inline bool inc_answers(const struct inc_packet *pkt, const struct inc_match *m,
					const struct inc_buf *partial)
{
	__u32 desc = partial->desc;
	bool root_below = inc_root_child_plus_1(m->comm, desc);

	if (pkt->opcode != INC_OP_SEND_ONLY_IMM || pkt->imm != desc)
		return false;
	return inc_answer_fits(desc, pkt->len, partial->len, root_below, m->cfg->ranks);
}

/* CRC of the payload in a row that inc_load_checked() has found intact: the ICRC is that of headers
 * and payload, and that of the headers alone is soon told. */
static __always_inline __u32 inc_payload_crc(const struct inc_packet *pkt, struct inc_buf *row)
{
	__u32 hdr_len = INC_IP_TO_BTH_LEN + pkt->ext_len, body = pkt->len + pkt->pad, headers;

	if (!inc_check_icrc)
		return inc_crc_row(row, offsetof(struct inc_buf, payload), body, 0);
	headers = inc_crc_row(row, offsetof(struct inc_buf, payload) - hdr_len, hdr_len,
			      INC_ICRC_SEED);
	/* verifier 6.1: checked here, where it is used. What was checked before the call has been
	 * to the stack and back, and may count as unbounded then. */
	inc_opaque(body);
	if (body > INC_MAX_PAYLOAD)
		return 0;
	return ~*(__u32 *)(row->payload + body) ^ inc_crc_shift(headers, body);
}

/* The packet's copy in the row becomes a result: what is sent of it needs the CRC of its payload,
 * and a checksum where a child wants one. */
static __always_inline void inc_keep_result(const struct inc_packet *pkt, const struct inc_match *m,
					    struct inc_buf *row, __u64 r)
{
	row->len = pkt->len;
	row->desc = pkt->imm;
	row->crc = inc_payload_crc(pkt, row);
	if (m->comm->flags & INC_COMM_F_UDP_CSUM)
		inc_sum_int32(row, row, NULL, NULL, NULL);
	inc_publish64(&row->r, r);
}

/* The parent's packet expected, which is intact. */
static __always_inline enum inc_counter_id inc_take_result(struct xdp_md *ctx,
							   const struct inc_packet *pkt,
							   const struct inc_match *m,
							   const struct inc_place *at)
{
	struct inc_buf *partial = inc_sum_row(m->comm, at->slot);

	if (!partial)
		return INC_CTR_DROP_CONFIG;
	if (at->fate == INC_FATE_UNASKED || !inc_sequence_ok(pkt, m) ||
	    !inc_answers(pkt, m, partial))
		return inc_refuse(ctx, pkt, m, INC_AETH_NAK_INVALID);
	inc_keep_result(pkt, m, at->row, at->r);
	inc_advance(pkt, m, at, pkt->imm);
	/* the children may fill the slot again */
	__sync_lock_test_and_set(&at->state->word, (__u64)(at->generation + 1) << 32);
	inc_publish64(&m->comm_st->tx_next, at->r + 1);
	return inc_pass_on(ctx, pkt, m, at);
}

#endif
