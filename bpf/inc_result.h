/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Below the root, the parent's packet r has the result of chunk r, whose partial sum this switch
 * has sent to the parent. The program stores this result in the parent's row, from which the slow
 * path resends it, and multicasts it to the children.
 */
#ifndef INC_RESULT_H
#define INC_RESULT_H

#include "bpf/inc_contribute.h"
#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_multicast.h"
#include "bpf/inc_operate.h"
#include "bpf/inc_parse.h"

/* Computes the CRC of the payload in a row whose ICRC inc_load_checked() has found right. The ICRC,
 * which covers headers and payload, and the CRC of the headers alone are enough for that. */
static __always_inline __u32 inc_payload_crc(const struct inc_packet *pkt, struct inc_buf *row)
{
	__u32 hdr_len = INC_IP_TO_BTH_LEN + pkt->ext_len, body = pkt->len + pkt->pad, headers;

	if (!inc_check_icrc)
		return inc_crc_row(row, offsetof(struct inc_buf, payload), body, 0);
	headers = inc_crc_row(row, offsetof(struct inc_buf, payload) - hdr_len, hdr_len,
			      INC_ICRC_SEED);
	/* verifier 6.1: the length is checked here, where it is used. Before the call above, a
	 * checked length would be spilled to the stack, and the verifier may treat it as unbounded
	 * afterwards. */
	inc_opaque(body);
	if (body > INC_MAX_PAYLOAD)
		return 0;
	return ~*(__u32 *)(row->payload + body) ^ inc_crc_shift(headers, body);
}

/* Completes the parent's packet in the row to a result, and stores chunk number r last. The copies
 * of the result need the CRC of its payload, and a checksum if a child wants one. */
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

/* Whether the parent's packet reports congestion. */
static __always_inline bool inc_has_becn(struct xdp_md *ctx)
{
	const struct inc_bth *bth = (void *)(long)ctx->data + INC_HEADERS_LEN - INC_BTH_LEN;

	return (void *)(bth + 1) <= (void *)(long)ctx->data_end &&
	       bth->ecn_qpn & bpf_htonl((__u32)INC_BTH_BECN << 24);
}

/* Accepts a result of the parent, whose ICRC is right. */
static __always_inline enum inc_counter_id inc_accept_result(struct xdp_md *ctx,
							     const struct inc_packet *pkt,
							     const struct inc_match *m,
							     struct inc_place *at)
{
	if (!inc_has_place(at))
		return INC_CTR_DROP_CONFIG;
	if (inc_has_becn(ctx))
		inc_report(m->comm, m->cfg, m->st);
	inc_keep_result(pkt, m, at->row, at->r);
	inc_advance(pkt, m, at);
	/* from here on the children may fill the slot again */
	__sync_lock_test_and_set(&at->state->word, (__u64)(at->generation + 1) << 32);
	inc_publish64(&m->comm_st->tx_next, at->r + 1);
	return inc_pass_on(ctx, pkt, m, at);
}

#endif
