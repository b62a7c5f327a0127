/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Writes RoCEv2 headers: Ethernet, IPv4 or IPv6, UDP, BTH, RETH, ImmDt, AETH and the four bytes of
 * the ICRC. The XDP programs, the slow path and the soft transport make their packets by these
 * functions. No other file has the offsets of the fields.
 *
 * Every function writes at `at`, which may have any alignment, and reads nothing but its
 * arguments. Arguments are in host order. Only addresses and the fields of a RETH, which a packet
 * copies from another, are in network order, as their types show.
 */
#ifndef INC_PROTO_FRAME_H
#define INC_PROTO_FRAME_H

#include <linux/types.h>
#include "lib/proto/roce.h"

#define INC_ETHERTYPE_IPV4 0x0800
#define INC_ETHERTYPE_VLAN 0x8100 /* the tag of a VLAN, or a priority tag (IEEE 802.1Q) */
#define INC_ETHERTYPE_QINQ 0x88a8 /* the outer tag of a frame with two tags (IEEE 802.1ad) */
#define INC_IP_PROTO_UDP   17
#define INC_IP_DF          0x4000 /* the don't-fragment bit, in the word with the flags */
#define INC_IP_VER_IHL     0x4500 /* first word of IPv4 but TOS: version 4, header of 20 bytes */
#define INC_IP_TTL         64
#define INC_IPV6_VERSION   0x60000000 /* first word of IPv6 but traffic class and flow label */

/* The addresses and ports of a packet on a connection, as the IP and UDP headers have them. */
struct inc_roce_path {
	__be32 saddr;
	__be32 daddr;
	__u16 sport;
	__u16 dport;
	_Bool df; /* the don't-fragment bit is set */
	__u8 tos; /* TOS byte: DSCP * 4 + ECN; the ICRC does not cover it */
};

/* Values of ECN, the last two bits of TOS (RFC 3168). */
#define INC_ECN_MASK 0x3
#define INC_ECN_CE   0x3 /* a router has marked the packet, because its queue is long */

/* Returns the TOS byte of packets to a peer whose own packets have this TOS byte. It is the same,
 * but a mark of congestion is not passed on. The mark replaced ECT(0) or ECT(1), by which the peer
 * shows that it reacts to marks, so packets to the peer have ECT(0). */
INC_INLINE __u8 inc_tos_mirrored(__u8 tos)
{
	return tos & ~(tos >> 1 & 1);
}

/*
 * A tag behind the MAC addresses (IEEE 802.1Q) has an EtherType and 16 bits: the priority (PCP),
 * DEI and the VLAN. In a word of this code INC_TAG_PRESENT has the place of DEI, so 0 is no tag.
 * DEI is never sent, because it marks what routers may drop first. VLAN 0 makes a priority tag: the
 * frame is in no VLAN, and only its priority counts.
 */
#define INC_TAG_LEN       4
#define INC_TAG_PCP_SHIFT 13
#define INC_TAG_PCP_MASK  0xe000
#define INC_TAG_PRESENT   0x1000
#define INC_TAG_DEI       0x1000 /* in the bits on the wire */
#define INC_TAG_VLAN_MASK 0x0fff
#define INC_MAX_PCP       7
#define INC_MAX_SOFT_SL   6    /* only a process with CAP_NET_ADMIN may send with 7 from a socket */
#define INC_MAX_VLAN      4094 /* 4095 is reserved */

INC_INLINE __be16 inc_be16(__u16 v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap16(v);
#else
	return v;
#endif
}

INC_INLINE __be32 inc_be32(__u32 v)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return __builtin_bswap32(v);
#else
	return v;
#endif
}

/* A word at any address. A BPF program may access a packet in words at any address, but clang would
 * split a memcpy of a word into bytes. In user space the memcpy becomes one instruction. */
#ifdef __bpf__
#define INC_STORE(at, value)     (*(__typeof__(value) *)(at) = (value))
#define INC_COPY(type, to, from) (*(type *)(to) = *(const type *)(from))
#else
#define INC_STORE(at, value)     __builtin_memcpy(at, &(value), sizeof(value))
#define INC_COPY(type, to, from) __builtin_memcpy(to, from, sizeof(type))
#endif

INC_INLINE void inc_put16(void *at, __be16 v)
{
	INC_STORE(at, v);
}

INC_INLINE void inc_put32(void *at, __be32 v)
{
	INC_STORE(at, v);
}

INC_INLINE void inc_put_mac(__u8 *at, const __u8 *mac)
{
	INC_COPY(__u32, at, mac);
	INC_COPY(__u16, at + 4, mac + 4);
}

INC_INLINE void inc_put_eth(__u8 *at, const __u8 *to, const __u8 *from)
{
	inc_put_mac(at, to);
	inc_put_mac(at + 6, from);
	inc_put16(at + 12, inc_be16(INC_ETHERTYPE_IPV4));
}

/* Writes a tag before the EtherType of a frame that had none. The MAC addresses of the frame are at
 * at + INC_TAG_LEN, and move to at. */
INC_INLINE void inc_put_tag(__u8 *at, __u16 wire)
{
	for (int i = 0; i < 12; i += 4)
		INC_COPY(__u32, at + i, at + i + INC_TAG_LEN);
	inc_put16(at + 12, inc_be16(INC_ETHERTYPE_VLAN));
	inc_put16(at + 14, inc_be16(wire));
}

/* Writes IPv4 without options, and UDP. ip_len: length from the IP header to the ICRC. The UDP
 * checksum is 0, which means none. */
INC_INLINE void inc_put_ip_udp(__u8 *at, const struct inc_roce_path *path, __u16 id, __u16 ip_len)
{
	__be16 flags = path->df ? inc_be16(INC_IP_DF) : 0;
	__be16 ttl_proto = inc_be16(INC_IP_TTL << 8 | INC_IP_PROTO_UDP);
	__be16 first = inc_be16(INC_IP_VER_IHL | path->tos);
	__u32 sum = first;

	/* a ones' complement sum of big-endian words is the same in either byte order, so words are
	 * added as they are */
	sum += inc_be16(ip_len);
	sum += inc_be16(id);
	sum += flags;
	sum += ttl_proto;
	sum += (path->saddr & 0xffff) + (path->saddr >> 16);
	sum += (path->daddr & 0xffff) + (path->daddr >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	inc_put16(at, first);
	inc_put16(at + 2, inc_be16(ip_len));
	inc_put16(at + 4, inc_be16(id));
	inc_put16(at + 6, flags);
	inc_put16(at + 8, ttl_proto);
	inc_put16(at + 10, (__be16)~sum);
	inc_put32(at + 12, path->saddr);
	inc_put32(at + 16, path->daddr);
	at += INC_IP_LEN;
	inc_put32(at, inc_be32((__u32)path->sport << 16 | path->dport));
	inc_put32(at + 4, inc_be32((__u32)(ip_len - INC_IP_LEN) << 16));
}

/* Writes IPv6 without extension headers, and UDP. udp_len: length from the UDP header to the ICRC.
 * The traffic class, the flow label and the UDP checksum are 0, and the ICRC covers none of them. A
 * sender must fill in the checksum, because IPv6 demands it. */
INC_INLINE void inc_put_ipv6_udp(__u8 *at, const struct inc_addr *saddr,
				 const struct inc_addr *daddr, __u16 sport, __u16 dport,
				 __u16 udp_len)
{
	inc_put32(at, inc_be32(INC_IPV6_VERSION));
	inc_put32(at + 4, inc_be32((__u32)udp_len << 16 | INC_IP_PROTO_UDP << 8 | INC_IP_TTL));
	INC_COPY(struct inc_addr, at + 8, saddr);
	INC_COPY(struct inc_addr, at + 24, daddr);
	at += INC_IPV6_LEN;
	inc_put32(at, inc_be32((__u32)sport << 16 | dport));
	inc_put32(at + 4, inc_be32((__u32)udp_len << 16));
}

/* Writes a BTH. flags: INC_BTH_SE, INC_BTH_M, and the pad's length << INC_BTH_PAD_SHIFT.
 * ackreq_psn: INC_BTH_ACKREQ or not, and the PSN, of which the lowest 24 bits count. */
INC_INLINE void inc_put_bth(__u8 *at, __u8 opcode, __u8 flags, __u16 pkey, __u32 qpn,
			    __u32 ackreq_psn)
{
	inc_put32(at, inc_be32((__u32)opcode << 24 | (__u32)flags << 16 | pkey));
	inc_put32(at + 4, inc_be32(qpn & INC_QPN_MASK));
	inc_put32(at + 8, inc_be32(ackreq_psn & (INC_BTH_ACKREQ | INC_PSN_MASK)));
}

/* Sets BECN in the BTH at `at`, by which a packet reports congestion to its receiver. */
INC_INLINE void inc_put_becn(__u8 *at)
{
	at[4] |= INC_BTH_BECN;
}

INC_INLINE void inc_put_reth(__u8 *at, __be64 va, __be32 rkey, __be32 dmalen)
{
	INC_STORE(at, va);
	inc_put32(at + 8, rkey);
	inc_put32(at + 12, dmalen);
}

INC_INLINE void inc_put_imm(__u8 *at, __u32 imm)
{
	inc_put32(at, inc_be32(imm));
}

INC_INLINE void inc_put_aeth(__u8 *at, __u8 syndrome, __u32 msn)
{
	inc_put32(at, inc_be32((__u32)syndrome << 24 | (msn & INC_PSN_MASK)));
}

/* Writes the ICRC, least significant byte first. */
INC_INLINE void inc_put_icrc(__u8 *at, __u32 icrc)
{
	inc_put32(at, __builtin_bswap32(inc_be32(icrc)));
}

#endif
