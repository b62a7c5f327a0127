/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Multicast: the last arriver's frame becomes a template, which goes to every port of the
 * communicator, once for each child there. */
#ifndef INC_MULTICAST_H
#define INC_MULTICAST_H

#include "bpf/inc_reduce.h"
#include "bpf/inc_template.h"

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
	if (inc_copies_shared)
		goto pending;
	len = result->len;
	/* a frame can always shrink but not always grow: the slow path has the rest */
	if (len > pkt->len)
		goto pending;
	/* verifier 6.1: the helper wants a length that is not 0, and the compiler would check len
	 * but pass a copy of it that the verifier knows no bounds of: what is checked here is one
	 * less, and what is passed is made of that */
	less = len + inc_pad(len) - 1;
	inc_opaque(less);
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
	if (inc_generic)
		t->check = inc_template_check(t);

	ports = bpf_map_lookup_elem(&inc_comm_ports, &comm_id);
	if (!ports || bpf_redirect_map(ports, 0, BPF_F_BROADCAST) != XDP_REDIRECT)
		goto pending;
	return INC_CTR_MC_RESULT;

pending:
	inc_emit(INC_EVENT_RESULT_PENDING, comm_id, m->conn, 0, at->r, m->comm->full_mask);
	return INC_CTR_ABS_PENDING;
}

#endif
