/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the RoCEv2 fields of a frame, or finds why the frame is not for the switch. */
#ifndef INC_PARSE_H
#define INC_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/in.h>
#include "bpf/inc_maps.h"
#include "lib/proto/maps.h"

/* The stages of a packet's path return the counter on which the packet ends, or INC_CONTINUE if the
 * next stage shall process the packet. */
#define INC_CONTINUE INC_CTR_RX

struct inc_packet {
	__be32 saddr;
	__be32 daddr;
	__u32 dqpn;
	__u32 psn;
	__u32 ip_len;    /* length from the IP header to the ICRC */
	__u32 frame_len; /* length with the Ethernet header and the link's padding */
	__u32 ext_len;   /* length of the extended headers: RETH, ImmDt, AETH */
	__u32 len;       /* length of the payload without its pad */
	/* the packet's immediate in host order, if the opcode has one; for an ACK packet, its
	 * AETH */
	__u32 imm;
	__be64 va; /* the fields of the RETH, as received */
	__be32 rkey;
	__be32 dmalen;
	__u16 pkey;
	__u8 opcode;
	__u8 pad;
	__u8 tver;
	__u8 ackreq;
	__u8 se;
	union inc_mac mac; /* source address of the Ethernet header */
};

/* Parses the headers from Ethernet to BTH, which determine whether the packet may be for the
 * switch. This function checks the lengths in IP and UDP against the frame. inc_parse_ext() checks
 * whether they leave room for extended headers and payload. */
static __always_inline enum inc_counter_id inc_parse(struct xdp_md *ctx, struct inc_packet *pkt)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + INC_ETH_LEN;
	struct udphdr *udp = (void *)ip + INC_IP_LEN;
	struct inc_bth *bth = (void *)udp + INC_UDP_LEN;
	__u32 ackreq_psn;

	if ((void *)bth > end || eth->h_proto != bpf_htons(ETH_P_IP) || ip->version != 4 ||
	    ip->ihl != 5 || ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(0x3fff) ||
	    udp->dest != bpf_htons(INC_ROCE_UDP_PORT))
		return INC_CTR_PASS_NOT_ROCE;
	if ((void *)(bth + 1) > end)
		return INC_CTR_DROP_TRUNCATED;

	pkt->frame_len = end - data;
	pkt->ip_len = bpf_ntohs(ip->tot_len);
	if (pkt->ip_len + INC_ETH_LEN > pkt->frame_len ||
	    bpf_ntohs(udp->len) + INC_IP_LEN != pkt->ip_len || pkt->ip_len < INC_IP_TO_BTH_LEN)
		return INC_CTR_DROP_LENGTH;

	pkt->saddr = ip->saddr;
	pkt->daddr = ip->daddr;
	pkt->opcode = bth->opcode;
	pkt->pad = (bth->se_m_pad_tver & INC_BTH_PAD_MASK) >> INC_BTH_PAD_SHIFT;
	pkt->tver = bth->se_m_pad_tver & INC_BTH_TVER_MASK;
	pkt->se = bth->se_m_pad_tver & INC_BTH_SE;
	pkt->pkey = bpf_ntohs(bth->pkey);
	pkt->dqpn = bpf_ntohl(bth->ecn_qpn) & INC_QPN_MASK;
	ackreq_psn = bpf_ntohl(bth->ackreq_psn);
	pkt->psn = ackreq_psn & INC_PSN_MASK;
	pkt->ackreq = ackreq_psn >> 31;
	__builtin_memcpy(pkt->mac.addr, eth->h_source, 6);
	pkt->mac.known = 1;
	return INC_CONTINUE;
}

/* Parses the extended headers and the payload's length of a packet whose connection is known. */
static __always_inline enum inc_counter_id inc_parse_ext(struct xdp_md *ctx, struct inc_packet *pkt)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	void *ext = data + INC_HEADERS_LEN;
	__u32 room;

	if (!inc_op_in(pkt->opcode, INC_OPS_DATA | INC_OPBIT(ACK)))
		return INC_CTR_DROP_OPCODE;
	pkt->ext_len = inc_ext_len(pkt->opcode);
	room = INC_IP_TO_BTH_LEN + pkt->ext_len + pkt->pad + INC_ICRC_LEN;
	if (pkt->ip_len < room)
		return INC_CTR_DROP_TRUNCATED;
	pkt->len = pkt->ip_len - room;
	if (pkt->len > INC_MAX_PAYLOAD || (pkt->len + pkt->pad) & 3 ||
	    (pkt->opcode == INC_OP_ACK && pkt->len + pkt->pad))
		return INC_CTR_DROP_LENGTH;

	if (inc_op_in(pkt->opcode, INC_OPS_RETH)) {
		struct inc_reth *reth = ext;

		if ((void *)(reth + 1) > end)
			return INC_CTR_DROP_TRUNCATED;
		pkt->va = reth->va;
		pkt->rkey = reth->rkey;
		pkt->dmalen = reth->dmalen;
		ext += INC_RETH_LEN;
	}
	if (inc_op_in(pkt->opcode, INC_OPS_IMM | INC_OPBIT(ACK))) {
		__be32 *word = ext;

		if ((void *)(word + 1) > end)
			return INC_CTR_DROP_TRUNCATED;
		pkt->imm = bpf_ntohl(*word);
	}
	return INC_CONTINUE;
}

#endif
