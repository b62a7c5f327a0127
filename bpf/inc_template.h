/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A template is the frame that inc_multicast.h makes of a packet. From each copy of it the egress
 * program makes a packet for one receiver.
 */
#ifndef INC_TEMPLATE_H
#define INC_TEMPLATE_H

#include <linux/if_ether.h>
#include "bpf/inc_maps.h"

/*
 * The description of a packet in the first bytes of a template, where each copy's headers will be
 * written. The kernel runs one egress program for everything that leaves a port in a flush. So
 * answers go through that program, too, and the EtherType distinguishes them from templates.
 */
struct inc_template {
	__u32 comm;
	__u64 r;
	__be16 ethertype; /* always INC_TEMPLATE_ETHERTYPE */
	__u16 ext_len;    /* length of the extended headers in the frame */
	__u32 slot;
	__u32 len; /* length of the payload */
	__u32 crc;
	__u32 csum;
	__u16 up; /* 1: the receiver is the parent */
	__u16 root_child_plus_1;
	/* 1: the template is bare, that is, only the sum's row has the payload */
	__u32 bare;
	__u32 check; /* in generic mode: inc_template_check() of this struct */
	/* the struct is aligned, so that the compiler copies it in words and not in bytes */
} __attribute__((packed, aligned(4)));

#define INC_TEMPLATE_ETHERTYPE 0

_Static_assert(offsetof(struct inc_template, ethertype) == offsetof(struct ethhdr, h_proto),
	       "an answer's EtherType is where a template's is");

_Static_assert(sizeof(struct inc_template) <= INC_HEADERS_LEN, "the template fits the headers");

/* Whether a frame in the egress program is a template. Otherwise it is an answer, which leaves the
 * port unchanged. */
static __always_inline bool inc_is_template(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;

	return data + INC_HEADERS_LEN <= (void *)(long)ctx->data_end &&
	       eth->h_proto == INC_TEMPLATE_ETHERTYPE;
}

static __always_inline __u32 inc_template_check(const struct inc_template *t)
{
	return ~(t->comm ^ (__u32)t->r ^ t->ext_len ^ t->slot ^ t->len ^ t->crc ^ t->csum ^
		 t->up << 16 ^ t->root_child_plus_1 ^ t->bare << 31);
}

/* Writes the row's payload of len bytes and its pad behind the frame's headers. */
static __always_inline int inc_store_payload(struct xdp_md *ctx, const struct inc_buf *row,
					     __u32 ext_len, __u32 len)
{
	/* verifier 6.1: the helper requires a length that is not 0. The compiler would check len
	 * but pass a copy of it, whose bounds the verifier does not know. So the length minus 1
	 * is checked, and the argument is computed from that. */
	__u32 less = len + inc_pad(len) - 1;

	inc_opaque(less);
	if (less < INC_MAX_PAYLOAD &&
	    bpf_xdp_store_bytes(ctx, INC_HEADERS_LEN + ext_len, (void *)row->payload, less + 1))
		return -1;
	return 0;
}

/*
 * Whether the frame is a copy of a result that another copy has overwritten. In generic mode,
 * kernels without "bpf: Run generic devmap egress prog on private skb" clone a frame but not its
 * bytes, so the first copy's headers overwrite those of all copies. Besides such copies, only
 * answers and packets for a parent leave through the egress program in that mode.
 */
static __always_inline bool inc_is_shared_copy(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct inc_bth *bth = data + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN;
	struct inc_template *t = data;

	if (!inc_generic || data + INC_HEADERS_LEN + INC_TAG_LEN > (void *)(long)ctx->data_end)
		return false;
	if (t->ethertype == INC_TEMPLATE_ETHERTYPE)
		return t->check != inc_template_check(t);
	if (t->ethertype == bpf_htons(INC_ETHERTYPE_VLAN))
		bth = (void *)bth + INC_TAG_LEN;
	return bth->opcode != INC_OP_ACK && bth->opcode != INC_OP_CNP &&
	       bth->opcode != INC_OP_ECHO_REPLY;
}

#endif
