/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Takes a connection for one CPU at a time, and learns the MAC address, the traffic class and the
 * tag of the connection's peer.
 *
 * Receive queues usually keep a connection's packets on one CPU. But a change of RSS, XPS on the
 * other side of a veth, or generic XDP can give two packets to two CPUs. All state of a connection,
 * its row included, belongs to the program that holds its busy word. So a packet's fate, which is
 * decided from that state, stays valid until the program releases the busy word.
 */
#ifndef INC_CONN_H
#define INC_CONN_H

#include "lib/proto/frame.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"

/* How often a program reads the busy word before it gives up: for about 4 us, a few times as long
 * as one packet takes. */
#define INC_BUSY_LOOKS 1024

/* Takes the connection if no other CPU holds it. */
static __always_inline bool inc_enter_free(struct inc_conn_state *st)
{
	return !*(volatile __u32 *)&st->busy && !__sync_lock_test_and_set(&st->busy, 1);
}

/* The wait for a connection that another CPU holds. */
struct inc_busy {
	struct inc_conn_state *st;
	bool entered; /* the connection was taken */
};

/* One look at the busy word, as a callback of bpf_loop(). Returns 1 to end the wait. */
static long inc_busy_look(__u32 round, struct inc_busy *w)
{
	w->entered = inc_enter_free(w->st);
	return w->entered;
}

/* Waits for the connection and takes it. Returns 0 if another CPU holds it for too long. */
__noinline int inc_enter_busy(struct inc_conn_state *st)
{
	struct inc_busy w = {.st = st};

	if (!st)
		return 0;
	bpf_loop(INC_BUSY_LOOKS, inc_busy_look, &w, 0);
	return w.entered;
}

/* Takes the connection. Returns false if another CPU holds it for too long. */
static __always_inline bool inc_enter(struct inc_conn_state *st)
{
	return inc_enter_free(st) || inc_enter_busy(st);
}

static __always_inline void inc_leave(struct inc_conn_state *st)
{
	inc_publish32(&st->busy, 0);
}

/* Returns the MAC address for frames to the peer: the known one, or else the hint (struct
 * inc_conn_state). Its word is 0 if there is neither. */
static __always_inline union inc_mac inc_peer_mac(const struct inc_conn_state *st)
{
	union inc_mac mac = {.word = *(volatile __u64 *)&st->mac.word};

	if (!mac.word)
		mac.word = *(volatile __u64 *)&st->mac_hint.word;
	return mac;
}

/* Whether the source address of this packet may become the peer's address. */
static __always_inline bool inc_may_learn_mac(const struct inc_match *m,
					      const struct inc_packet *pkt)
{
	return !(m->cfg->flags & INC_CONN_F_FIXED_MAC) && inc_mac_unicast(pkt->mac.addr);
}

/*
 * Learns the peer's MAC address from a packet. No checksum covers the Ethernet header, so the
 * source address of one intact packet is only a hint. If the peer's next packet has the same source
 * address, that becomes the peer's address. The two packets must have different PSNs, because the
 * network may repeat a damaged packet unchanged.
 */
static __always_inline void inc_learn_mac(const struct inc_match *m, const struct inc_packet *pkt)
{
	struct inc_conn_state *st = m->st;

	if (!inc_may_learn_mac(m, pkt))
		return;
	if (pkt->mac.word == st->mac.word) {
		if (st->mac_hint.word)
			*(volatile __u64 *)&st->mac_hint.word = 0;
		return;
	}
	if (pkt->mac.word != st->mac_hint.word || st->hint_psn == INC_NO_PSN) {
		*(volatile __u64 *)&st->mac_hint.word = pkt->mac.word;
		st->hint_psn = pkt->psn;
	} else if (pkt->psn != st->hint_psn) {
		*(volatile __u64 *)&st->mac_hint.word = st->mac.word;
		st->hint_psn = INC_NO_PSN;
		*(volatile __u64 *)&st->mac.word = pkt->mac.word;
	}
}

/* Returns the TOS byte of frames to the peer. It is read once, because the checksum of a frame must
 * be that of its TOS byte. */
static __always_inline __u8 inc_class_of(const struct inc_conn_state *st)
{
	return *(const volatile __u8 *)&st->traffic_class;
}

/* Sets the TOS byte of packets to a peer, unless it is configured. */
static __always_inline void inc_set_class(const struct inc_conn_cfg *cfg, struct inc_conn_state *st,
					  __u8 tos)
{
	if (!(cfg->flags & INC_CONN_F_CLASS))
		*(volatile __u8 *)&st->traffic_class = tos;
}

/* Whether the checksum of an IP header of five words is right. */
static __always_inline bool inc_ip_sum_ok(const __u32 *words)
{
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* Asks a child to send less. An RDMA device understands CNPs only. A soft endpoint or a switch gets
 * the report with its next result, which needs no packet of its own. */
static __always_inline void inc_ask_less(const struct inc_conn_cfg *cfg, struct inc_conn_state *st)
{
	if (cfg->peer.kind == INC_ENDPOINT_VERBS)
		*(volatile __u8 *)&st->cnp_due = 1;
	else
		*(volatile __u8 *)&st->becn_due = 1;
}

/*
 * Reports congestion between the switch and a peer to those who can relieve it. Contributions of a
 * child, and results to it, become fewer if this child sends less. Each partial sum has
 * contributions of all children, and the parent sends results as fast as it gets partial sums. So
 * congestion on the way to or from the parent is reported to all children.
 */
__noinline int inc_report(const struct inc_comm_cfg *comm, const struct inc_conn_cfg *cfg,
			  struct inc_conn_state *st)
{
	if (!comm || !cfg || !st)
		return 0;
	if (!(cfg->flags & INC_CONN_F_UP)) {
		inc_ask_less(cfg, st);
		return 0;
	}
	for (__u32 c = 0; c < INC_MAX_CHILDREN && c < comm->children; c++) {
		__u32 conn = comm->conn_base + c;
		const struct inc_conn_cfg *child = bpf_map_lookup_elem(&inc_conn_cfg, &conn);
		struct inc_conn_state *child_st = bpf_map_lookup_elem(&inc_conn_state, &conn);

		if (child && child_st)
			inc_ask_less(child, child_st);
	}
	return 0;
}

/*
 * Learns the class of packets to a peer from a packet of the peer, whose TOS byte differs from that
 * of the packet before, or has a mark of congestion. The ICRC does not cover this byte, so the IP
 * checksum must be right. The parent's connection has the class of child 0. So partial sums have
 * the class of contributions, whichever child is the last one. The function is not inline, because
 * classes hardly ever change.
 */
__noinline int inc_class_changed(struct xdp_md *ctx, const struct inc_comm_cfg *comm,
				 const struct inc_conn_cfg *cfg, struct inc_conn_state *st)
{
	void *data = (void *)(long)ctx->data;
	const struct iphdr *ip = data + INC_ETH_LEN;
	const struct inc_conn_cfg *up_cfg;
	struct inc_conn_state *up;
	__u32 parent;
	__u8 class;

	if (!comm || !cfg || !st || (void *)(ip + 1) > (void *)(long)ctx->data_end ||
	    !inc_ip_sum_ok((const __u32 *)ip))
		return 0;
	class = inc_tos_mirrored(ip->tos);
	st->rx_tos = class;
	if ((ip->tos & INC_ECN_MASK) == INC_ECN_CE)
		inc_report(comm, cfg, st);
	if (cfg->flags & INC_CONN_F_UP)
		return 0;
	inc_set_class(cfg, st, class);
	if (cfg->child || !(comm->flags & INC_COMM_F_UP))
		return 0;
	parent = comm->conn_base + comm->children;
	up_cfg = bpf_map_lookup_elem(&inc_conn_cfg, &parent);
	up = bpf_map_lookup_elem(&inc_conn_state, &parent);
	if (up_cfg && up)
		inc_set_class(up_cfg, up, class);
	return 0;
}

/* Learns the class of packets to the peer from a packet of the peer whose ICRC is right. */
static __always_inline void inc_learn_class(struct xdp_md *ctx, const struct inc_match *m)
{
	void *data = (void *)(long)ctx->data;
	const struct iphdr *ip = data + INC_ETH_LEN;

	if ((void *)(ip + 1) <= (void *)(long)ctx->data_end && ip->tos != m->st->rx_tos)
		inc_class_changed(ctx, m->comm, m->cfg, m->st);
}

/* Returns the tag of frames to the peer. It is read once, because child 0's program may change that
 * of the parent meanwhile. */
static __always_inline __u16 inc_tag_of(const struct inc_conn_state *st)
{
	return *(const volatile __u16 *)&st->tag;
}

/* Sets the tag of packets to a peer. like: the tag whose priority it has, unless one is configured.
 * In no VLAN the peer gets a tag if `like` is one. */
static __always_inline void inc_set_tag(const struct inc_conn_cfg *cfg, struct inc_conn_state *st,
					__u16 like)
{
	__u16 pcp = (cfg->flags & INC_CONN_F_PCP ? cfg->tag : like) & INC_TAG_PCP_MASK;
	__u16 vlan = cfg->tag & INC_TAG_VLAN_MASK;

	*(volatile __u16 *)&st->tag = vlan || like ? INC_TAG_PRESENT | pcp | vlan : 0;
}

/* Learns the tag of packets to a peer from a packet of the peer, whose tag differs from that of the
 * packet before. As with the class, the tags of packets to a parent in a VLAN have the priority of
 * child 0's packets. The function is not inline, because tags hardly ever change. */
__noinline int inc_tag_changed(const struct inc_comm_cfg *comm, const struct inc_conn_cfg *cfg,
			       struct inc_conn_state *st, __u32 tag)
{
	const struct inc_conn_cfg *up_cfg;
	struct inc_conn_state *up;
	__u32 parent;

	if (!comm || !cfg || !st)
		return 0;
	st->rx_tag = tag;
	if (cfg->flags & INC_CONN_F_UP && cfg->tag & INC_TAG_VLAN_MASK)
		return 0;
	inc_set_tag(cfg, st, tag);
	if (cfg->flags & INC_CONN_F_UP || cfg->child || !(comm->flags & INC_COMM_F_UP))
		return 0;
	parent = comm->conn_base + comm->children;
	up_cfg = bpf_map_lookup_elem(&inc_conn_cfg, &parent);
	up = bpf_map_lookup_elem(&inc_conn_state, &parent);
	if (up_cfg && up && up_cfg->tag & INC_TAG_VLAN_MASK)
		inc_set_tag(up_cfg, up, tag);
	return 0;
}

/* Learns the tag of packets to the peer from a packet of the peer whose ICRC is right. */
static __always_inline void inc_learn_tag(const struct inc_match *m, const struct inc_packet *pkt)
{
	if (pkt->tag != m->st->rx_tag)
		inc_tag_changed(m->comm, m->cfg, m->st, pkt->tag);
}

/*
 * The MAC address for the answer to this packet. If the peer sends a packet again, our answer was
 * lost, so this answer goes to the source address of the packet itself. That is right if the peer
 * has moved. If the network has damaged the source address, one answer is lost.
 */
static __always_inline union inc_mac inc_answer_mac(const struct inc_match *m,
						    const struct inc_packet *pkt, bool again)
{
	if (again && inc_may_learn_mac(m, pkt))
		return pkt->mac;
	return inc_peer_mac(m->st);
}

#endif
