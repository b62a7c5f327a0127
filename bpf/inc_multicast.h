/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Turns a frame into a template (inc_template.h), which is sent to every port of the communicator,
 * once for each child there; or, if the switch is below the root, to the parent. The frame has the
 * last contribution, or the parent's result. If the last contribution is shorter than the sum, the
 * template is bare (enum inc_ports_row); in a Broadcast all contributions but the root's are.
 */
#ifndef INC_MULTICAST_H
#define INC_MULTICAST_H

#include "bpf/inc_contribute.h"
#include "bpf/inc_maps.h"
#include "bpf/inc_match.h"
#include "bpf/inc_parse.h"
#include "bpf/inc_template.h"

/* Writes the template over the frame's first headers. The extended headers behind them, and the
 * row's payload unless the template is bare, are already in the frame. */
static __always_inline int inc_put_template(struct xdp_md *ctx, const struct inc_packet *pkt,
					    const struct inc_match *m, const struct inc_place *at,
					    const struct inc_buf *row, bool up, bool bare)
{
	void *data = (void *)(long)ctx->data;
	struct inc_template *t = data;

	if (data + INC_HEADERS_LEN > (void *)(long)ctx->data_end)
		return -1;
	t->comm = m->cfg->comm;
	t->ethertype = INC_TEMPLATE_ETHERTYPE;
	t->slot = at->slot;
	t->r = at->r;
	t->len = row->len;
	t->crc = row->crc;
	t->csum = row->csum;
	t->ext_len = pkt->ext_len;
	t->up = up;
	t->bare = bare;
	t->root_child_plus_1 = inc_root_child_plus_1(m->comm, row->desc);
	if (inc_generic)
		t->check = inc_template_check(t);
	return 0;
}

/* Whether the frame is too short for the row's payload, so that the template must be bare. A frame
 * can always shrink, but not always grow. */
static __always_inline bool inc_is_bare(const struct inc_packet *pkt, const struct inc_buf *row)
{
	return row->len > pkt->len;
}

/* Turns the frame into a template of the sum in the row. Returns -1 if the template would have to
 * be bare in generic mode. There a copy has no more room than the frame, so the egress program
 * could not add the payload. */
static __always_inline int inc_put_sum(struct xdp_md *ctx, const struct inc_packet *pkt,
				       const struct inc_match *m, const struct inc_place *at,
				       const struct inc_buf *row, bool up)
{
	bool bare = inc_is_bare(pkt, row);

	if (bare ? inc_generic : inc_store_payload(ctx, row, pkt->ext_len, row->len))
		return -1;
	return inc_put_template(ctx, pkt, m, at, row, up, bare);
}

/* Redirects the template to all receivers: the devmap in row `which` of the communicator's rows in
 * inc_comm_ports. */
static __always_inline int inc_redirect(const struct inc_match *m, enum inc_ports_row which)
{
	__u32 row = m->cfg->comm * INC_PORTS_ROWS + which;
	void *ports = bpf_map_lookup_elem(&inc_comm_ports, &row);

	if (!ports || bpf_redirect_map(ports, 0, BPF_F_BROADCAST) != XDP_REDIRECT)
		return -1;
	return 0;
}

static __always_inline enum inc_counter_id
inc_pending(const struct inc_match *m, const struct inc_place *at, enum inc_event_type what)
{
	inc_emit(what, m->cfg->comm, m->conn, 0, at->r, m->comm->full_mask);
	return INC_CTR_ABS_PENDING;
}

/* Multicasts the sum in the slot's row, which is the result. */
static __always_inline enum inc_counter_id inc_multicast(struct xdp_md *ctx,
							 const struct inc_packet *pkt,
							 const struct inc_match *m,
							 const struct inc_place *at)
{
	struct inc_buf *result = inc_sum_row(m->comm, at->slot);

	if (!result)
		return INC_CTR_DROP_CONFIG;
	if (inc_copies_shared || inc_put_sum(ctx, pkt, m, at, result, false) ||
	    inc_redirect(m, inc_is_bare(pkt, result) ? INC_PORTS_DOWN_BARE : INC_PORTS_DOWN))
		return inc_pending(m, at, INC_EVENT_RESULT_PENDING);
	return INC_CTR_MC_RESULT;
}

/* Multicasts the parent's packet, which is the result. The result is in at->row, and the frame
 * has its payload already. */
static __always_inline enum inc_counter_id inc_pass_on(struct xdp_md *ctx,
						       const struct inc_packet *pkt,
						       const struct inc_match *m,
						       const struct inc_place *at)
{
	if (inc_copies_shared || inc_put_template(ctx, pkt, m, at, at->row, false, false) ||
	    inc_redirect(m, INC_PORTS_DOWN))
		return inc_pending(m, at, INC_EVENT_RESULT_PENDING);
	return INC_CTR_MC_DOWN;
}

/* Sends the sum in the slot's row, which is a partial sum, to the parent. */
static __always_inline enum inc_counter_id inc_send_up(struct xdp_md *ctx,
						       const struct inc_packet *pkt,
						       const struct inc_match *m,
						       const struct inc_place *at)
{
	struct inc_buf *sum = inc_sum_row(m->comm, at->slot);

	if (!sum)
		return INC_CTR_DROP_CONFIG;
	if (inc_put_sum(ctx, pkt, m, at, sum, true) ||
	    (inc_is_bare(pkt, sum)
		     ? inc_redirect(m, INC_PORTS_UP_BARE)
		     : bpf_redirect_map(&inc_parent_port, m->cfg->comm, 0) != XDP_REDIRECT))
		return inc_pending(m, at, INC_EVENT_PARTIAL_PENDING);
	return INC_CTR_UP_PARTIAL;
}

#endif
