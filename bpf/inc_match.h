/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Match: whose packet is it, and is it intact? */
#ifndef INC_MATCH_H
#define INC_MATCH_H

#include "bpf/inc_crc.h"
#include "bpf/inc_parse.h"

struct inc_match {
	__u32 conn;
	const struct inc_conn_cfg *cfg;
	struct inc_conn_state *st;
	const struct inc_comm_cfg *comm;
	struct inc_comm_state *gst;
};

static __always_inline enum inc_counter_id
inc_match(struct xdp_md *ctx, const struct inc_packet *pkt, struct inc_match *m)
{
	struct inc_conn_key key = {
		.saddr = pkt->saddr,
		.daddr = pkt->daddr,
		.dqpn = pkt->dqpn,
	};
	__u32 *conn = bpf_map_lookup_elem(&inc_conn_lookup, &key);
	__u32 comm;

	if (!conn)
		return INC_CTR_PASS_NO_CONN;
	m->conn = *conn;
	m->cfg = bpf_map_lookup_elem(&inc_conn_cfg, &m->conn);
	m->st = bpf_map_lookup_elem(&inc_conn_state, &m->conn);
	if (!m->cfg || !m->st)
		return INC_CTR_DROP_CONFIG;
	if (m->cfg->ifindex != ctx->ingress_ifindex)
		return INC_CTR_DROP_PORT;
	comm = m->cfg->comm;
	m->comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm);
	m->gst = bpf_map_lookup_elem(&inc_comm_state, &comm);
	if (!m->comm || !m->gst || !(m->comm->flags & INC_COMM_F_VALID) ||
	    m->cfg->child >= INC_MAX_CHILDREN || m->comm->log2_slots > 12)
		return INC_CTR_DROP_CONFIG;
	return INC_CONTINUE;
}

/*
 * Copies IP header to ICRC into the row, so that the payload lands in row->payload, and
 * checks the ICRC there. A row that holds no counted contribution may be written before the
 * check: nothing reads it until its arrival bit is set.
 */
__noinline int inc_load_checked(struct xdp_md *ctx, struct inc_buf *row, __u32 hdr_len,
				__u32 body_len)
{
	__u32 off, icrc;
	__u8 *hdr;

	if (!row || hdr_len > INC_BUF_HDR || body_len > INC_MAX_PAYLOAD)
		return 0;
	inc_opaque(hdr_len);
	if (hdr_len < INC_IP_TO_BTH_LEN)
		return 0;
	inc_opaque(body_len);
	off = offsetof(struct inc_buf, payload) - hdr_len;
	hdr = (__u8 *)row + off;
	if (bpf_xdp_load_bytes(ctx, INC_ETH_LEN, hdr, hdr_len + body_len + INC_ICRC_LEN))
		return 0;
	if (!inc_check_icrc)
		return 1;
	inc_icrc_mask(hdr);
	icrc = ~inc_crc_row(row, off, hdr_len + body_len, INC_ICRC_SEED);
	return icrc == *(__u32 *)(row->payload + body_len);
}

#endif
