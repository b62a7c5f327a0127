/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Finds the connection to which a packet belongs. */
#ifndef INC_MATCH_H
#define INC_MATCH_H

#include <linux/if_ether.h>
#include <linux/ip.h>
#include "bpf/inc_maps.h"
#include "bpf/inc_parse.h"
#include "lib/proto/maps.h"

struct inc_match {
	__u32 conn; /* id of the packet's connection */
	const struct inc_conn_cfg *cfg;
	struct inc_conn_state *st;
	const struct inc_comm_cfg *comm; /* configuration of the connection's communicator */
	struct inc_comm_state *comm_st;
};

/* Whether the packet came from the parent. */
static __always_inline bool inc_is_up(const struct inc_match *m)
{
	return m->cfg->flags & INC_CONN_F_UP;
}

/* The child's bit in a mask of children. It is 0 for the parent, which is in no mask. */
static __always_inline __u32 inc_child_bit(const struct inc_match *m)
{
	return inc_is_up(m) ? 0 : 1u << (m->cfg->child & 31);
}

/* Finds a packet's connection by its queue pair number in inc_conn_place, and checks that the
 * packet's addresses are those of this connection. */
static __always_inline bool inc_match_place(const struct inc_packet *pkt, struct inc_match *m)
{
	__u32 place = inc_conn_place_of(pkt->dqpn, inc_places);
	/* this load is volatile, so that it happens once, because the loader may write the word
	 * meanwhile */
	const volatile __u32 *conn_plus_1 = bpf_map_lookup_elem(&inc_conn_place, &place);

	if (!conn_plus_1)
		return false;
	/* if the word is 0, no connection has the place, and this becomes a number that no
	 * connection has */
	m->conn = *conn_plus_1 - 1;
	m->cfg = bpf_map_lookup_elem(&inc_conn_cfg, &m->conn);
	return m->cfg && m->cfg->own.qpn == pkt->dqpn && m->cfg->peer.ip == pkt->saddr &&
	       m->cfg->own.ip == pkt->daddr;
}

/* Finds a packet's connection by its addresses and queue pair number in inc_conn_lookup, which has
 * every connection. */
static __always_inline bool inc_match_lookup(const struct inc_packet *pkt, struct inc_match *m)
{
	struct inc_conn_key key = {
		.saddr = pkt->saddr,
		.daddr = pkt->daddr,
		.dqpn = pkt->dqpn,
	};
	__u32 *conn = bpf_map_lookup_elem(&inc_conn_lookup, &key);

	if (!conn)
		return false;
	m->conn = *conn;
	m->cfg = bpf_map_lookup_elem(&inc_conn_cfg, &m->conn);
	return true;
}

/* Whether a packet with this tag is in this VLAN; 0: in none. */
static __always_inline bool inc_in_vlan(const struct inc_packet *pkt, __u16 vlan)
{
	return !((pkt->tag ^ vlan) & INC_TAG_VLAN_MASK);
}

/* Whether the frame's source address is one of the switch's own. Such a frame is forged. If the
 * kernel forwarded it, the peers would take it for a frame of the switch. In another VLAN than the
 * port's the address may be that of another machine. */
static __always_inline bool inc_from_own_addr(struct xdp_md *ctx, const struct inc_packet *pkt)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = data + INC_ETH_LEN;
	__u32 ifindex = ctx->ingress_ifindex;
	const struct inc_port *port;
	__be32 addr;

	if ((void *)(ip + 1) > end || eth->h_proto != bpf_htons(ETH_P_IP))
		return false;
	addr = ip->saddr;
	if (!bpf_map_lookup_elem(&inc_own_addr, &addr))
		return false;
	port = bpf_map_lookup_elem(&inc_port, &ifindex);
	return !port || inc_in_vlan(pkt, port->vlan);
}

static __always_inline enum inc_counter_id
inc_match(struct xdp_md *ctx, const struct inc_packet *pkt, struct inc_match *m)
{
	__u32 comm;

	if (!inc_match_place(pkt, m) && !inc_match_lookup(pkt, m))
		return INC_CTR_PASS_NO_CONN;
	m->st = bpf_map_lookup_elem(&inc_conn_state, &m->conn);
	if (!m->cfg || !m->st)
		return INC_CTR_DROP_CONFIG;
	if (m->cfg->ifindex != ctx->ingress_ifindex)
		return INC_CTR_DROP_PORT;
	if (!inc_in_vlan(pkt, m->cfg->tag))
		return INC_CTR_PASS_VLAN;
	comm = m->cfg->comm;
	m->comm = bpf_map_lookup_elem(&inc_comm_cfg, &comm);
	m->comm_st = bpf_map_lookup_elem(&inc_comm_state, &comm);
	if (!m->comm || !m->comm_st || !(m->comm->flags & INC_COMM_F_VALID) ||
	    m->cfg->child > INC_MAX_CHILDREN /* the parent's number follows the children's */ ||
	    m->comm->log2_slots > INC_MAX_LOG2_SLOTS)
		return INC_CTR_DROP_CONFIG;
	return INC_CONTINUE;
}

#endif
