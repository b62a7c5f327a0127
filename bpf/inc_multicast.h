/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Multicast: the last arriver's frame becomes a template, whose copies get their headers
 * on the way out of each port.
 */
#ifndef INC_MULTICAST_H
#define INC_MULTICAST_H

#include "lib/proto/desc.h"
#include "bpf/inc_reduce.h"

/*
 * Stands in the template's first bytes, where each copy's headers will be. The kernel runs
 * one egress program per port and flush, whatever else leaves in it: so answers go the same
 * way, and the EtherType tells them from templates.
 */
struct inc_template {
	__u32 comm;
	__u64 r;
	__be16 ethertype; /* INC_TEMPLATE_ETHERTYPE */
	__u16 ext_len;    /* extended headers in the frame */
	__u32 slot;
	__u32 len; /* payload in the frame */
	__u32 crc;
	__u32 csum;
} __attribute__((packed));

#define INC_TEMPLATE_ETHERTYPE 0

_Static_assert(offsetof(struct inc_template, ethertype) == offsetof(struct ethhdr, h_proto),
	       "an answer's EtherType is where a template's is");

_Static_assert(sizeof(struct inc_template) <= INC_HEADERS_LEN, "the template fits the headers");

static __always_inline enum inc_counter_id inc_multicast(struct xdp_md *ctx,
							 const struct inc_packet *pkt,
							 const struct inc_match *m,
							 const struct inc_place *at)
{
	struct inc_buf *result = inc_result_row(m->comm, at->slot);
	__u32 comm_id = m->cfg->comm, len, less;
	struct inc_template *t;
	void *data, *end, *ports;

	if (!result)
		return INC_CTR_DROP_CONFIG;
	len = result->len;
	/* a frame can always shrink but not always grow: the slow path has the rest */
	if (len > pkt->len)
		goto pending;
	less = len - 1;
	inc_opaque(less); /* so that the bound and the argument stay one value */
	if (less < INC_MAX_PAYLOAD &&
	    bpf_xdp_store_bytes(ctx, INC_HEADERS_LEN + pkt->ext_len, result->payload, less + 1))
		goto pending;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	t = data;
	if (data + INC_HEADERS_LEN > end)
		goto pending;
	t->comm = comm_id;
	t->ethertype = INC_TEMPLATE_ETHERTYPE;
	t->slot = at->slot;
	t->r = at->r;
	t->len = len;
	t->crc = result->crc;
	t->csum = result->csum;
	t->ext_len = pkt->ext_len;

	ports = bpf_map_lookup_elem(&inc_comm_ports, &comm_id);
	if (!ports || bpf_redirect_map(ports, 0, BPF_F_BROADCAST) != XDP_REDIRECT)
		goto pending;
	return INC_CTR_MC_RESULT;

pending:
	inc_emit(INC_EVENT_RESULT_PENDING, comm_id, m->conn, 0, at->r, m->comm->full_mask);
	return INC_CTR_ABS_PENDING;
}

/* Or an answer, which is complete? */
static __always_inline bool inc_is_template(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	struct ethhdr *eth = data;

	return data + INC_HEADERS_LEN <= (void *)(long)ctx->data_end &&
	       eth->h_proto == INC_TEMPLATE_ETHERTYPE;
}

static __always_inline __u16 inc_fold_csum(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~sum & 0xffff;
	return sum ?: 0xffff;
}

/*
 * Which child of the port this copy is for. Copies of one multicast are clones; those for
 * one port leave in order and on one CPU, so counting them is enough.
 */
static __always_inline int inc_copy_child(const struct inc_template *t,
					  const struct inc_comm_cfg *comm, __u32 ifindex,
					  __u32 *child)
{
	struct inc_port_comm_key key = {.comm = t->comm, .ifindex = ifindex};
	struct inc_port_comm *pg = bpf_map_lookup_elem(&inc_port_comm, &key);
	struct inc_copy *copy;
	__u32 first_conn;

	if (!pg)
		return -1;
	*child = pg->first_child;
	if (pg->children == 1)
		return 0;
	first_conn = comm->conn_base + pg->first_child;
	copy = bpf_map_lookup_elem(&inc_copy, &first_conn);
	if (!copy)
		return -1;
	if (copy->r_plus_1 == t->r + 1) {
		copy->ordinal++;
	} else {
		copy->r_plus_1 = t->r + 1;
		copy->ordinal = 0;
	}
	if (copy->ordinal >= pg->children)
		return -1;
	*child += copy->ordinal;
	return 0;
}

/* What a copy repeats of the child's own contribution. */
struct inc_mirror {
	__u32 desc;
	__u8 opcode;
	__u8 flags;
	__be64 va;
	__be32 rkey;
	__be32 dmalen;
};

/* Once and whole: a child that has its result already (the slow path may have been faster) can
 * fill the row anew while its copy is made. */
static __always_inline int inc_read_mirror(const struct inc_comm_cfg *comm, __u32 child, __u32 slot,
					   __u64 r, struct inc_mirror *mine)
{
	const volatile struct inc_buf *row = inc_contrib_row(comm, child, slot);

	if (!row || row->r != r)
		return -1;
	mine->desc = row->desc;
	mine->opcode = row->opcode;
	mine->flags = row->flags;
	mine->va = row->va;
	mine->rkey = row->rkey;
	mine->dmalen = row->dmalen;
	return row->r == r ? 0 : -1;
}

/* Makes one copy: headers, and the ICRC from header state and payload CRC. */
static __always_inline int inc_make_copy(struct xdp_md *ctx, __u32 ifindex)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	const struct inc_comm_cfg *comm;
	const struct inc_conn_cfg *cfg;
	struct inc_conn_state *st;
	struct inc_mirror mine;
	struct inc_template t;
	__u32 child, conn, ext_len, len, state, icrc;
	union inc_mac mac;
	__u32 reth[4] = {}, imm = 0;
	__u64 sum = 0;
	__s32 delta;
	__u16 ip_len;

	if (data + INC_HEADERS_LEN > end)
		return -1;
	__builtin_memcpy(&t, data, sizeof(t));
	comm = bpf_map_lookup_elem(&inc_comm_cfg, &t.comm);
	if (!comm || inc_copy_child(&t, comm, ifindex, &child))
		return -1;
	conn = comm->conn_base + child;
	cfg = bpf_map_lookup_elem(&inc_conn_cfg, &conn);
	st = bpf_map_lookup_elem(&inc_conn_state, &conn);
	if (!cfg || !st || inc_read_mirror(comm, child, t.slot, t.r, &mine))
		return -1;
	mac = inc_peer_mac(st);
	if (!mac.word)
		return -1;

	ext_len = inc_ext_len(mine.opcode);
	len = t.len;
	sum = t.csum;
	if (len && !inc_child_gets(mine.desc, cfg->rank)) {
		len = 0;
		t.crc = 0;
		sum = 0;
	}
	if (len > INC_MAX_PAYLOAD)
		return -1;
	ip_len = INC_IP_TO_BTH_LEN + ext_len + len + INC_ICRC_LEN;
	if (t.ext_len != ext_len && bpf_xdp_adjust_head(ctx, (__s32)t.ext_len - (__s32)ext_len))
		return -1;
	delta = INC_ETH_LEN + ip_len - (__s32)(ctx->data_end - ctx->data);
	if (delta && bpf_xdp_adjust_tail(ctx, delta))
		return -1;
	data = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	if (data + INC_HEADERS_LEN > end)
		return -1;

	inc_write_headers(data, cfg, mac, ip_len, mine.opcode,
			  mine.flags & INC_BUF_F_SE ? INC_BTH_SE : 0,
			  (mine.flags & INC_BUF_F_ACKREQ ? INC_BTH_ACKREQ : 0) |
				  ((cfg->tx_start_psn + (__u32)t.r) & INC_PSN_MASK));
	state = inc_headers_crc(
		data, (__u32)mine.opcode << 24 | (mine.flags & INC_BUF_F_SE) << 16 | ip_len,
		&st->data_cache);
	data += INC_HEADERS_LEN;
	if (inc_op_in(mine.opcode, INC_OPS_RETH)) {
		if (data + INC_RETH_LEN > end)
			return -1;
		__builtin_memcpy(&reth[0], &mine.va, 8);
		reth[2] = mine.rkey;
		/* the length of the message; one of one packet may have given nothing and get
		 * data, or the reverse */
		reth[3] = inc_op_in(mine.opcode, INC_OPS_ONLY) ? bpf_htonl(len) : mine.dmalen;
		__builtin_memcpy(data, reth, INC_RETH_LEN);
		for (int i = 0; i < 4; i++)
			state = inc_crc_word(state, reth[i]);
		data += INC_RETH_LEN;
	}
	if (inc_op_in(mine.opcode, INC_OPS_IMM)) {
		if (data + INC_IMM_LEN > end)
			return -1;
		imm = bpf_htonl(mine.desc);
		*(__u32 *)data = imm;
		state = inc_crc_word(state, imm);
	}
	icrc = ~(inc_crc_shift(state, len) ^ t.crc);
	if (bpf_xdp_store_bytes(ctx, INC_ETH_LEN + ip_len - INC_ICRC_LEN, &icrc, INC_ICRC_LEN))
		return -1;

	if (cfg->flags & INC_CONN_F_UDP_CSUM) {
		__u32 *w;

		data = (void *)(long)ctx->data;
		end = (void *)(long)ctx->data_end;
		if (data + INC_HEADERS_LEN > end)
			return -1;
		w = data + INC_ETH_LEN + INC_IP_LEN;
		/* pseudo header, UDP, BTH, extended headers, payload (in sum), ICRC */
		sum += (__u64)cfg->own_addr + cfg->peer_addr + bpf_htons(IPPROTO_UDP) +
		       bpf_htons(ip_len - INC_IP_LEN);
		sum += (__u64)w[0] + w[1] + w[2] + w[3] + w[4];
		sum += (__u64)reth[0] + reth[1] + reth[2] + reth[3] + imm + icrc;
		((struct udphdr *)w)->check = inc_fold_csum(sum);
	}
	return 0;
}

#endif
