/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The egress program makes the copy of a result for one child, or of a partial sum for the parent,
 * from a template (inc_template.h) that leaves a port. The CRC of the payload is known, and the
 * payload is in the frame unless the template is bare. This program adds the headers and the ICRC.
 */
#ifndef INC_EGRESS_H
#define INC_EGRESS_H

#include <linux/in.h>
#include <linux/udp.h>
#include "lib/proto/desc.h"
#include "lib/proto/maps.h"
#include "lib/proto/peer_frame.h"
#include "bpf/inc_answer.h"
#include "bpf/inc_conn.h"
#include "bpf/inc_crc.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_template.h"

/* The properties of one copy. */
struct inc_outgoing {
	const struct inc_conn_cfg *cfg; /* configuration of the receiver's connection */
	struct inc_conn_state *st;
	union inc_mac mac;
	struct inc_mirror mirror;
	__u32 ext_len;
	__u32 len;      /* length of the payload; 0 for a child that receives no data */
	__u32 body_len; /* length of the payload with its pad */
	__u32 crc;      /* CRC of payload and pad from state 0 */
	__u32 csum;     /* ones' complement sum of payload and pad */
	__u16 ip_len;
	__be32 reth[4]; /* the copy's RETH; zeros if the opcode has none */
	__be32 imm;     /* the copy's immediate; 0 if the opcode has none */
};

static __always_inline __u16 inc_fold_csum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	return sum ?: 0xffff;
}

/* Finds any one of the communicator's children on a port. The configuration of its connection also
 * says which other children are on that port. Returns NULL if the communicator has no child
 * there. */
static __always_inline const struct inc_conn_cfg *inc_child_on(const struct inc_comm_cfg *comm,
							       __u32 ifindex)
{
	__u32 child_plus_1 = comm->port_child[inc_port_place_of(ifindex)];
	__u32 conn = comm->conn_base + child_plus_1 - 1;
	const struct inc_conn_cfg *cfg;

	if (!child_plus_1)
		return NULL;
	cfg = bpf_map_lookup_elem(&inc_conn_cfg, &conn);
	if (cfg && cfg->ifindex == ifindex)
		return cfg;
	for (__u32 c = 0; c < INC_MAX_CHILDREN && c < comm->children; c++) {
		conn = comm->conn_base + c;
		cfg = bpf_map_lookup_elem(&inc_conn_cfg, &conn);
		if (cfg && cfg->ifindex == ifindex)
			return cfg;
	}
	return NULL;
}

/* Results of making a copy. A result below 0 means that the copy cannot be made. */
#define INC_COPY_MADE  0
#define INC_COPY_SPARE 1 /* the copy has no receiver, so it is dropped */

/*
 * Finds the receiver of this copy: a child on the port, or the parent (child comm->children). The
 * copies of one multicast are identical clones. But the copies for one port leave one after another
 * on one CPU, so this function counts them to identify their receivers.
 */
static __always_inline int inc_copy_peer(const struct inc_template *t,
					 const struct inc_comm_cfg *comm, __u32 ifindex,
					 __u32 *peer)
{
	const struct inc_conn_cfg *any = t->up ? NULL : inc_child_on(comm, ifindex);
	__u32 peers = any ? any->port_children : 1, first_conn;
	struct inc_copy *copy;

	if (!any && !t->up)
		return -1;
	*peer = any ? any->port_first : comm->children;
	if (peers == 1 && !t->bare)
		return INC_COPY_MADE;
	first_conn = comm->conn_base + *peer;
	copy = bpf_map_lookup_elem(&inc_copy, &first_conn);
	if (!copy)
		return -1;
	if (copy->r_plus_1 == t->r + 1) {
		copy->ordinal++;
	} else {
		copy->r_plus_1 = t->r + 1;
		copy->ordinal = 0;
	}
	if (copy->ordinal >= peers)
		return t->bare ? INC_COPY_SPARE : -1;
	*peer += copy->ordinal;
	return INC_COPY_MADE;
}

/* Reads the properties of a result's row once and completely. A child that has its result already,
 * because the slow path may have been faster, can overwrite the row while its copy is made. */
static __always_inline int inc_read_mirror(const volatile struct inc_buf *row, __u64 r,
					   struct inc_mirror *mine)
{
	if (!row || row->r != r)
		return -1;
	mine->desc = row->desc;
	mine->opcode = row->opcode;
	mine->flags = row->flags;
	mine->va = row->va;
	mine->rkey = row->rkey;
	mine->dmalen = row->dmalen;
	/* All values that were read belong to chunk r or a newer one, because this CPU has seen the
	 * chunk complete. If the row still has chunk r after the barrier, none of the values is
	 * newer. */
	inc_barrier();
	return row->r == r ? 0 : -1;
}

/* Fills *out with the properties of the copy. */
static __always_inline int inc_plan_copy(const struct inc_template *t, __u32 ifindex,
					 struct inc_outgoing *out)
{
	const struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &t->comm);
	struct inc_buf *row;
	__u32 child, conn;
	int ret;

	if (!comm)
		return -1;
	ret = inc_copy_peer(t, comm, ifindex, &child);
	if (ret)
		return ret;
	row = t->up ? inc_sum_row(comm, t->slot) : inc_kept_row(comm, child, t->slot);
	conn = comm->conn_base + child;
	out->cfg = bpf_map_lookup_elem(&inc_conn_cfg, &conn);
	out->st = bpf_map_lookup_elem(&inc_conn_state, &conn);
	if (!out->cfg || !out->st || inc_read_mirror(row, t->r, &out->mirror))
		return -1;
	out->mac = inc_peer_mac(out->st);
	if (!out->mac.word)
		return -1;
	out->ext_len = inc_ext_len(out->mirror.opcode);
	if (t->len && (t->up || inc_ranks_get(out->mirror.desc, t->root_child_plus_1 == child + 1,
					      out->cfg->ranks))) {
		out->len = t->len;
		out->crc = t->crc;
		out->csum = t->csum;
	}
	if (out->len > INC_MAX_PAYLOAD)
		return -1;
	out->body_len = out->len + inc_pad(out->len);
	out->ip_len = INC_IP_TO_BTH_LEN + out->ext_len + out->body_len + INC_ICRC_LEN;
	return INC_COPY_MADE;
}

/* Resizes the frame to the copy's length: at its start if the lengths of the extended headers
 * differ, and at its end. */
static __always_inline int inc_resize(struct xdp_md *ctx, const struct inc_outgoing *out,
				      __u32 ext_len)
{
	__s32 delta;

	if (ext_len != out->ext_len &&
	    bpf_xdp_adjust_head(ctx, (__s32)ext_len - (__s32)out->ext_len))
		return -1;
	delta = INC_ETH_LEN + out->ip_len - (__s32)(ctx->data_end - ctx->data);
	return delta && bpf_xdp_adjust_tail(ctx, delta) ? -1 : 0;
}

/* Adds the payload to the copy of a bare template. The frame has its final length already. The row
 * is not reused until the receivers have their results. If the slow path was faster, this copy is
 * superfluous, and its ICRC shows that the payload was overwritten meanwhile. */
static __always_inline int inc_fill_copy(struct xdp_md *ctx, const struct inc_template *t,
					 const struct inc_outgoing *out)
{
	const struct inc_comm_cfg *comm = bpf_map_lookup_elem(&inc_comm_cfg, &t->comm);
	const struct inc_buf *row = comm ? inc_sum_row(comm, t->slot) : NULL;

	if (!row || *(const volatile __u64 *)&row->r != t->r)
		return -1;
	return inc_store_payload(ctx, row, out->ext_len, out->len);
}

/* Reports congestion to the child that receives the copy. The ICRC counts the bit as set always. */
static __always_inline void inc_copy_becn(void *data, struct inc_conn_state *st)
{
	*(volatile __u8 *)&st->becn_due = 0;
	inc_put_becn(data + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN);
	inc_count(INC_CTR_X_BECN);
}

/* Writes the copy's headers from Ethernet to BTH. Returns the ICRC state behind them. */
static __always_inline __u32 inc_copy_headers(void *data, const struct inc_outgoing *out, __u64 r)
{
	__u8 opcode = out->mirror.opcode;
	__u32 flags = (out->mirror.flags & INC_BUF_F_SE ? INC_BTH_SE : 0) |
		      (out->body_len - out->len) << INC_BTH_PAD_SHIFT;
	__u32 ackreq = out->mirror.flags & INC_BUF_F_ACKREQ ? INC_BTH_ACKREQ : 0;

	inc_put_peer_headers(data, out->cfg, out->mac, inc_class_of(out->st), out->ip_len, opcode,
			     flags, ackreq | ((out->cfg->own.psn + (__u32)r) & INC_PSN_MASK));
	if (*(volatile __u8 *)&out->st->becn_due)
		inc_copy_becn(data, out->st);
	return inc_headers_crc(data, (__u32)opcode << 24 | flags << 16 | out->ip_len,
			       &out->st->data_cache);
}

/* Writes the copy's RETH and immediate, if the opcode has them. */
static __always_inline int inc_copy_ext(void *at, void *end, struct inc_outgoing *out, __u32 *state)
{
	const struct inc_mirror *mirror = &out->mirror;

	if (inc_op_in(mirror->opcode, INC_OPS_RETH)) {
		if (at + INC_RETH_LEN > end)
			return -1;
		inc_put_reth((__u8 *)out->reth, mirror->va, mirror->rkey,
			     inc_dmalen(mirror->opcode, bpf_htonl(out->len), mirror->dmalen));
		__builtin_memcpy(at, out->reth, INC_RETH_LEN);
		for (int i = 0; i < 4; i++)
			*state = inc_crc_word(*state, out->reth[i]);
		at += INC_RETH_LEN;
	}
	if (inc_op_in(mirror->opcode, INC_OPS_IMM)) {
		if (at + INC_IMM_LEN > end)
			return -1;
		inc_put_imm((__u8 *)&out->imm, mirror->desc);
		inc_put32(at, out->imm);
		*state = inc_crc_word(*state, out->imm);
	}
	return 0;
}

/* Writes the copy's UDP checksum, over pseudo header, UDP, BTH, extended headers, payload and
 * ICRC. */
static __always_inline void inc_copy_udp_csum(void *data, const struct inc_outgoing *out,
					      __u32 icrc)
{
	__u32 *w = data + INC_ETH_LEN + INC_IP_LEN;
	__u64 sum = (__u64)out->cfg->own.ip + out->cfg->peer.ip + bpf_htons(IPPROTO_UDP) +
		    bpf_htons(out->ip_len - INC_IP_LEN);

	sum += (__u64)w[0] + w[1] + w[2] + w[3] + w[4];
	sum += (__u64)out->reth[0] + out->reth[1] + out->reth[2] + out->reth[3] + out->imm;
	sum += (__u64)out->csum + icrc;
	((struct udphdr *)w)->check = inc_fold_csum(sum);
}

/* Writes the ICRC at offset off, in the frame's last four bytes. A plain store saves each copy the
 * call of bpf_xdp_store_bytes(). */
static __always_inline int inc_store_icrc(struct xdp_md *ctx, __u32 off, __u32 icrc)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;

	inc_opaque(off);
	/* the verifier needs a bound of the offset, although no frame is so long */
	if (off > INC_HEADERS_LEN + INC_BUF_HDR + INC_MAX_PAYLOAD)
		return -1;
	data += off;
	if (data + INC_ICRC_LEN > end)
		return -1;
	*(__u32 *)data = icrc;
	return 0;
}

/* Makes one copy. Returns INC_COPY_*, or a number below 0. In that case the frame is dropped, and
 * the slow path sends the result. */
static __always_inline int inc_make_copy(struct xdp_md *ctx, __u32 ifindex)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct inc_outgoing out = {};
	struct inc_template t;
	__u32 state, icrc;
	int ret;

	if (data + INC_HEADERS_LEN > end)
		return -1;
	__builtin_memcpy(&t, data, sizeof(t));
	ret = inc_plan_copy(&t, ifindex, &out);
	if (ret)
		return ret;
	if (inc_resize(ctx, &out, t.ext_len) || (t.bare && inc_fill_copy(ctx, &t, &out)))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + INC_HEADERS_LEN > end)
		return -1;
	state = inc_copy_headers(data, &out, t.r);
	if (inc_copy_ext(data + INC_HEADERS_LEN, end, &out, &state))
		return -1;
	icrc = ~(inc_crc_shift(state, out.body_len) ^ out.crc);
	if (out.cfg->flags & INC_CONN_F_UDP_CSUM)
		inc_copy_udp_csum(data, &out, icrc);
	if (inc_store_icrc(ctx, INC_ETH_LEN + out.ip_len - INC_ICRC_LEN, icrc))
		return -1;
	return inc_tag_for_peer(ctx, inc_tag_of(out.st));
}

/* Makes a copy at this port, counts it, and returns the verdict. */
static __always_inline int inc_egress_copy(struct xdp_md *ctx, __u32 ifindex)
{
	int ret = inc_make_copy(ctx, ifindex);

	if (ret == INC_COPY_SPARE)
		return XDP_DROP;
	inc_count(ret ? INC_CTR_X_COPY_DROP : INC_CTR_X_COPY);
	return ret ? XDP_DROP : XDP_PASS;
}

#endif
