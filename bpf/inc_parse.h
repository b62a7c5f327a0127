/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the RoCEv2 fields of a frame, or finds why the frame is not for the switch. */
#ifndef INC_PARSE_H
#define INC_PARSE_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <linux/in.h>
#include "bpf/inc_maps.h"
#include "lib/proto/counters.h"
#include "lib/proto/frame.h"
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
	__u16 tag; /* the tag that was removed from the frame (frame.h); 0: it had none */
	__u8 dei;  /* the tag had DEI set */
	__u8 opcode;
	__u8 pad;
	__u8 tver;
	__u8 ackreq;
	__u8 se;
	union inc_mac mac; /* source address of the Ethernet header */
};

/* The three words of a frame's MAC addresses. */
struct inc_macs {
	__u32 word[3];
};

/* Whether the EtherType is one of an outer tag that has a second tag behind it. */
static __always_inline bool inc_has_two_tags(__be16 outer, __be16 inner)
{
	return outer == bpf_htons(INC_ETHERTYPE_QINQ) ||
	       (outer == bpf_htons(INC_ETHERTYPE_VLAN) &&
		(inner == bpf_htons(INC_ETHERTYPE_VLAN) || inner == bpf_htons(INC_ETHERTYPE_QINQ)));
}

/*
 * Removes the tag of a frame that has IPv4 behind it, so that all code behind reads headers at the
 * places that they have in a frame without a tag. Returns the 16 bits of the tag as on the wire,
 * with INC_TAG_REMOVED set, or the counter on which a frame ends that has no such tag. The function
 * is not inline, so that frames without a tag cost one comparison more, and no stack.
 */
#define INC_TAG_REMOVED 0x10000 /* above every counter */
__noinline int inc_untag(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	__be16 *types = data + offsetof(struct ethhdr, h_proto);
	struct inc_macs macs;
	__u16 bits;

	if ((void *)(types + 3) > end)
		return INC_CTR_PASS_NOT_ROCE;
	if (inc_has_two_tags(types[0], types[2]))
		return INC_CTR_PASS_QINQ;
	if (types[0] != bpf_htons(INC_ETHERTYPE_VLAN) || types[2] != bpf_htons(ETH_P_IP))
		return INC_CTR_PASS_NOT_ROCE;
	bits = bpf_ntohs(types[1]);
	macs = *(struct inc_macs *)data;
	if (bpf_xdp_adjust_head(ctx, INC_TAG_LEN))
		return INC_CTR_PASS_NOT_ROCE;
	data = (void *)(long)ctx->data;
	if (data + sizeof(macs) > (void *)(long)ctx->data_end)
		return INC_CTR_DROP_TRUNCATED;
	*(struct inc_macs *)data = macs;
	return INC_TAG_REMOVED | bits;
}

/* Writes a tag with these bits into a frame that has none. Returns 0, or -1 if the frame has no
 * room before its start. */
__noinline int inc_tag(struct xdp_md *ctx, __u32 bits)
{
	void *data;

	if (bpf_xdp_adjust_head(ctx, -INC_TAG_LEN))
		return -1;
	data = (void *)(long)ctx->data;
	if (data + INC_ETH_LEN + INC_TAG_LEN > (void *)(long)ctx->data_end)
		return -1;
	inc_put_tag(data, bits);
	return 0;
}

/* Tags a frame for a peer, unless tag is 0. Returns 0, or -1 if the frame has no room. */
static __always_inline int inc_tag_for_peer(struct xdp_md *ctx, __u16 tag)
{
	return tag ? inc_tag(ctx, tag & ~INC_TAG_PRESENT) : 0;
}

/* Puts back the tag that was removed from a frame. Returns 0, or -1 if the frame has no room. */
static __always_inline int inc_tag_again(struct xdp_md *ctx, const struct inc_packet *pkt)
{
	return inc_tag(ctx, (pkt->tag & ~INC_TAG_PRESENT) | (pkt->dei ? INC_TAG_DEI : 0));
}

/* Removes the frame's tag, and stores what it says. Returns INC_CONTINUE, or the counter on which
 * the frame ends. */
static __always_inline enum inc_counter_id inc_parse_tag(struct xdp_md *ctx, struct inc_packet *pkt)
{
	int bits = inc_untag(ctx);

	if (!(bits & INC_TAG_REMOVED))
		return bits;
	pkt->tag = (bits & 0xffff) | INC_TAG_PRESENT;
	pkt->dei = !!(bits & INC_TAG_DEI);
	return INC_CONTINUE;
}

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
	enum inc_counter_id c;

	if ((void *)(eth + 1) > end)
		return INC_CTR_PASS_NOT_ROCE;
	if (eth->h_proto != bpf_htons(ETH_P_IP)) {
		c = inc_parse_tag(ctx, pkt);
		if (c != INC_CONTINUE)
			return c;
		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		eth = data;
		ip = data + INC_ETH_LEN;
		udp = (void *)ip + INC_IP_LEN;
		bth = (void *)udp + INC_UDP_LEN;
	}
	/* a tag is removed from a shorter frame, too, so that its source address is examined */
	if ((void *)bth > end)
		return INC_CTR_PASS_NOT_ROCE;
	if (ip->version != 4 || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
	    ip->frag_off & bpf_htons(0x3fff) || udp->dest != bpf_htons(INC_ROCE_UDP_PORT))
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
