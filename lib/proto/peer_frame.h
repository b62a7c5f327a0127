/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The headers of every frame from the switch to a child or its parent (docs/protocol.md, "Headers
 * of results"). The XDP programs and the slow path both make them by this function, so they are
 * alike.
 */
#ifndef INC_PROTO_PEER_FRAME_H
#define INC_PROTO_PEER_FRAME_H

#include <linux/types.h>
#include "lib/proto/frame.h"
#include "lib/proto/maps.h"

/* The fields that a result repeats from the contribution of the child to which it goes. A partial
 * sum has them from its own row. */
struct inc_mirror {
	__u32 desc; /* the immediate, if the opcode has one */
	__u8 opcode;
	__u8 flags; /* INC_BUF_F_* */
	/* The RETH as received, if the opcode has one. It names the child's memory for the result
	 * of this message. */
	__be64 va;
	__be32 rkey;
	__be32 dmalen;
};

/* Writes Ethernet, IP (ID 0, DF), UDP and BTH: INC_HEADERS_LEN bytes. peer: the destination MAC
 * address. tos: the TOS byte. ip_len: length from the IP header to the ICRC. bth_flags and
 * ackreq_psn: like for inc_put_bth(). */
INC_INLINE void inc_put_peer_headers(__u8 *at, const struct inc_conn_cfg *cfg, union inc_mac peer,
				     __u8 tos, __u16 ip_len, __u8 opcode, __u8 bth_flags,
				     __u32 ackreq_psn)
{
	struct inc_roce_path path = {
		.saddr = cfg->own.ip,
		.daddr = cfg->peer.ip,
		.sport = cfg->own.udp_port,
		.dport = cfg->peer.udp_port,
		.df = 1,
		.tos = tos,
	};

	inc_put_eth(at, peer.addr, cfg->own_mac);
	inc_put_ip_udp(at + INC_ETH_LEN, &path, 0, ip_len);
	inc_put_bth(at + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN, opcode, bth_flags | INC_BTH_M,
		    cfg->pkey, cfg->peer.qpn, ackreq_psn);
}

#endif
