/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Turns the received frame into an ACK, a NAK, a CNP or an echo reply for its sender. */
#ifndef INC_ANSWER_H
#define INC_ANSWER_H

#include "lib/proto/frame.h"
#include "lib/proto/peer_frame.h"
#include "bpf/inc_conn.h"
#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"

#define INC_ACK_IP_LEN    (INC_IP_TO_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN)
#define INC_ACK_FRAME_LEN (INC_ETH_LEN + INC_ACK_IP_LEN)
#define INC_CNP_FRAME_LEN (INC_ETH_LEN + INC_CNP_IP_LEN)

/* The headers from IP to BTH as ten words: five of IP, two of UDP and three of the BTH, the last of
 * which has the PSN. */
struct inc_head {
	__u32 word[INC_IP_TO_BTH_LEN / 4];
};

/* Returns the ICRC state of the headers before the word with the PSN.
 * verifier 6.1: the function is global and has a loop. The verifier would follow the look-ups in
 * CRC tables again for each caller and each kind of answer. */
__noinline __u32 inc_head_crc(const struct inc_head *head)
{
	__u32 state = INC_ICRC_SEED;
	struct inc_head masked;

	if (!head)
		return 0;
	masked = *head;
	inc_icrc_mask((__u8 *)&masked);
#pragma clang loop unroll(disable)
	for (int i = 0; i < INC_IP_TO_BTH_LEN / 4 - 1; i++)
		state = inc_crc_word(state, masked.word[i]);
	return state;
}

/*
 * Returns the ICRC state of the headers just written, over IP to BTH. All words of these headers
 * but the one with the PSN are the same for every frame of a connection with this key. So the state
 * before that word is cached in *cache, as key << 32 | state. An entry is never torn or stale,
 * because it is one word, written by one CPU at a time, and contains its own key. The key must not
 * be 0.
 */
static __always_inline __u32 inc_headers_crc(void *data, __u32 key, __u64 *cache)
{
	const struct inc_head *head = data + INC_ETH_LEN;
	__u64 cached = *(volatile __u64 *)cache;
	__u32 state;

	if (cached >> 32 == key) {
		state = cached;
	} else {
		state = inc_head_crc(head);
		*(volatile __u64 *)cache = (__u64)key << 32 | state;
	}
	return inc_crc_word(state, head->word[INC_IP_TO_BTH_LEN / 4 - 1]);
}

/* The ACK packet, that is an ACK or a NAK, that the sender of a packet shall receive. */
struct inc_answer {
	__u32 ackreq_psn; /* the PSN, with INC_BTH_ACKREQ or without */
	__u32 aeth;       /* the AETH in host order: the syndrome above 24 bits of MSN */
};

/* Makes the frame `delta` bytes longer. A frame that is shorter than the answer grows at its start,
 * where every frame has room; on a veth a short frame has no room at its end. */
static __always_inline int inc_grow(struct xdp_md *ctx, __s32 delta)
{
	return delta < 0 ? bpf_xdp_adjust_tail(ctx, delta)
			 : delta > 0 && bpf_xdp_adjust_head(ctx, -delta);
}

/* Rewrites the frame as an answer for its sender. Returns the counter `outcome`, or the counter of
 * the reason why the frame cannot become an answer. */
static __always_inline enum inc_counter_id
inc_put_answer(struct xdp_md *ctx, const struct inc_packet *pkt, const struct inc_match *m,
	       const struct inc_answer *answer, enum inc_counter_id outcome)
{
	__s32 delta = INC_ACK_FRAME_LEN - (__s32)pkt->frame_len;
	union inc_mac peer = inc_answer_mac(m, pkt, outcome == INC_CTR_ANS_DUPLICATE);
	void *data, *end;
	__be32 *aeth;
	__u32 state;

	if (!peer.word)
		return INC_CTR_DROP_NO_MAC;

	if (inc_grow(ctx, delta))
		return INC_CTR_DROP_NO_ROOM;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + INC_ACK_FRAME_LEN > end)
		return INC_CTR_DROP_NO_ROOM;

	inc_put_peer_headers(data, m->cfg, peer, inc_class_of(m->st), INC_ACK_IP_LEN, INC_OP_ACK, 0,
			     answer->ackreq_psn);
	aeth = data + INC_HEADERS_LEN;
	inc_put_aeth((__u8 *)aeth, answer->aeth >> 24, answer->aeth);
	state = inc_headers_crc(data, INC_OP_ACK << 24 | INC_ACK_IP_LEN, &m->st->ack_cache);
	aeth[1] = ~inc_crc_word(state, aeth[0]);
	if (inc_tag_for_peer(ctx, inc_tag_of(m->st)))
		return INC_CTR_DROP_NO_ROOM;
	return outcome;
}

/* Whether a CNP to the peer is not too early after the one before. */
static __always_inline bool inc_cnp_in_time(struct inc_conn_state *st)
{
	__u16 now = bpf_ktime_get_ns() >> INC_CNP_TIME_SHIFT;

	if ((__u16)(now - st->cnp_at) < INC_CNP_PACE)
		return false;
	st->cnp_at = now;
	return true;
}

/*
 * Rewrites the frame as the CNP that is due to its sender (docs/protocol.md, P-163). The frame's
 * packet has ended on counter c. It can become a CNP only if nothing else is made of it. Returns
 * the counter on which it ends now. The function is not inline, because CNPs are rare.
 */
static __attribute__((noinline)) enum inc_counter_id
inc_answer_cnp(struct xdp_md *ctx, const struct inc_match *m, enum inc_counter_id c)
{
	union inc_mac peer = inc_peer_mac(m->st);
	void *data = (void *)(long)ctx->data;
	__u32 *zeros;

	if (!inc_counter_is(c, 'A') || c == INC_CTR_ABS_SLOWPATH || !peer.word ||
	    !inc_cnp_in_time(m->st))
		return c;
	if (inc_grow(ctx, INC_CNP_FRAME_LEN - (__s32)(ctx->data_end - ctx->data)))
		return c;
	data = (void *)(long)ctx->data;
	if (data + INC_CNP_FRAME_LEN > (void *)(long)ctx->data_end)
		return c;
	inc_put_peer_headers(data, m->cfg, peer, inc_class_of(m->st), INC_CNP_IP_LEN, INC_OP_CNP, 0,
			     0);
	inc_put_becn(data + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN);
	zeros = data + INC_HEADERS_LEN;
	zeros[0] = zeros[1] = zeros[2] = zeros[3] = 0;
	/* PSN and payload are zeros */
	zeros[4] = ~inc_crc_shift(inc_head_crc(data + INC_ETH_LEN), 4 + INC_CNP_LEN);
	if (inc_tag_for_peer(ctx, inc_tag_of(m->st)))
		return c;
	m->st->cnp_due = 0;
	return INC_CTR_ANS_CNP;
}

/* Returns the PSN of the last packet of the peer that is stored together with all before it. */
static __always_inline __u32 inc_kept_psn(const struct inc_match *m)
{
	return (m->cfg->peer.psn + (__u32)m->st->rx_next - 1) & INC_PSN_MASK;
}

/* Stores which answer the sender shall receive, and returns the counter on which the packet ends.
 * Each function that answers a packet of a connection ends with this call. inc_handle_own() then
 * makes the frame that answer, in one place, because the verifier would walk the code for each. */
static __always_inline enum inc_counter_id inc_fill_answer(struct inc_answer *answer, __u8 syndrome,
							   __u32 ackreq_psn, __u32 msn,
							   enum inc_counter_id outcome)
{
	answer->aeth = (__u32)syndrome << 24 | (msn & INC_PSN_MASK);
	answer->ackreq_psn = ackreq_psn;
	return outcome;
}

/* Answers a data packet with an ACK of all packets that are stored. */
static __always_inline enum inc_counter_id
inc_answer_ack(const struct inc_match *m, struct inc_answer *answer, enum inc_counter_id outcome)
{
	m->st->ack_sent = m->st->rx_next;
	return inc_fill_answer(answer, INC_AETH_ACK, inc_kept_psn(m), m->st->msn, outcome);
}

/*
 * Answers a data packet with a NAK or RNR NAK. The NAK normally has the PSN of the expected packet,
 * because it acknowledges all packets before that. If the refused packet is stored already, and the
 * communicator or connection has failed since, the NAK has the refused packet's PSN. Its sender
 * waits for that packet only, and may have no other in flight that the NAK could fail.
 */
static __always_inline enum inc_counter_id inc_answer_nak(const struct inc_packet *pkt,
							  const struct inc_match *m,
							  struct inc_answer *answer, __u8 syndrome,
							  enum inc_counter_id outcome)
{
	__u32 psn = m->cfg->peer.psn + (__u32)m->st->rx_next;

	if (inc_psn_diff(pkt->psn, psn) < 0)
		psn = pkt->psn;
	if ((syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR)
		m->st->rnrs_sent++;
	else
		m->st->naks_sent++;
	/* with INC_COMM_F_REORDER the MSN of a NAK names a gap, and an MSN of 0 requests all
	 * packets from the PSN on */
	return inc_fill_answer(answer, syndrome, psn & INC_PSN_MASK,
			       m->comm->flags & INC_COMM_F_REORDER ? 0 : m->st->msn, outcome);
}

/* Answers a packet with a NAK that names a gap: the missing packets that begin with the expected
 * one. gap: the MSN of this NAK, which describes the gap. */
static __always_inline enum inc_counter_id inc_answer_gap(const struct inc_match *m,
							  struct inc_answer *answer, __u32 gap)
{
	m->st->naks_sent++;
	return inc_fill_answer(answer, INC_AETH_NAK_SEQ,
			       (m->cfg->peer.psn + (__u32)m->st->rx_next) & INC_PSN_MASK, gap,
			       INC_CTR_ANS_NAK_SEQ);
}

/* Whether the frame is an echo request to the port on which it was received. The source must be a
 * unicast address, because the reply is sent to it. */
static __always_inline bool inc_is_echo(struct xdp_md *ctx, const struct inc_packet *pkt)
{
	void *data = (void *)(long)ctx->data;
	const struct ethhdr *eth = data;
	__u32 ifindex = ctx->ingress_ifindex;
	const struct inc_port *port;

	if (pkt->opcode != INC_OP_ECHO_REQUEST || pkt->dqpn != INC_ECHO_QPN || pkt->tver ||
	    pkt->ip_len != INC_ECHO_IP_LEN || data + INC_ETH_LEN > (void *)(long)ctx->data_end)
		return false;
	port = bpf_map_lookup_elem(&inc_port, &ifindex);
	return port && port->ip && port->ip == pkt->daddr && inc_in_vlan(pkt, port->vlan) &&
	       inc_addr_unicast(bpf_ntohl(pkt->saddr)) && inc_mac_unicast(eth->h_source) &&
	       inc_mac_unicast(eth->h_dest);
}

/* Rewrites an echo request as the reply to its sender (docs/protocol.md, "Echo"). The function is
 * not inline, so that the code for packets of connections is the same as without it. */
static __attribute__((noinline)) enum inc_counter_id inc_answer_echo(struct xdp_md *ctx,
								     const struct inc_packet *pkt)
{
	__u32 state, zero = 0;
	struct inc_buf *row = bpf_map_lookup_elem(&inc_scratch, &zero);
	struct inc_roce_path path = {
		.saddr = pkt->daddr,
		.daddr = pkt->saddr,
		.sport = INC_ROCE_UDP_PORT,
		.df = 1,
	};
	struct udphdr *udp;
	__u8 *data, own[6];

	if (!row || !inc_load_checked(ctx, row, INC_IP_TO_BTH_LEN, INC_ECHO_LEN))
		return INC_CTR_DROP_ICRC;
	data = (void *)(long)ctx->data;
	if (data + INC_ETH_LEN + INC_ECHO_IP_LEN > (__u8 *)(long)ctx->data_end)
		return INC_CTR_DROP_LENGTH;
	udp = (struct udphdr *)(data + INC_ETH_LEN + INC_IP_LEN);
	path.dport = bpf_ntohs(udp->source);
	inc_put_mac(own, ((struct ethhdr *)data)->h_dest);
	inc_put_eth(data, pkt->mac.addr, own);
	inc_put_ip_udp(data + INC_ETH_LEN, &path, 0, INC_ECHO_IP_LEN);
	inc_put_bth(data + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN, INC_OP_ECHO_REPLY, 0, pkt->pkey,
		    INC_ECHO_QPN, pkt->psn);
	/* the copy for the ICRC is in the scratch row, because the stack has no room for it */
	__builtin_memcpy(row->payload, data + INC_ETH_LEN, INC_ECHO_IP_LEN - INC_ICRC_LEN);
	inc_icrc_mask(row->payload);
	state = inc_crc_row(row, offsetof(struct inc_buf, payload), INC_ECHO_IP_LEN - INC_ICRC_LEN,
			    INC_ICRC_SEED);
	inc_put_icrc(data + INC_HEADERS_LEN + INC_ECHO_LEN, ~state);
	return INC_CTR_ANS_ECHO;
}

#endif
