// SPDX-License-Identifier: BSD-2-Clause
/* Runs the XDP programs, and has the helpers that the programs call. xdp_maps.c has the functions
 * that the loader calls. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
/* xdp_priv.h includes <netinet/in.h>, which must come before <linux/in.h> */
#include "xdp_priv.h"

/* libbpf has functions of these names, with other arguments */
#define bpf_map_lookup_elem xdp_program_lookup
#include "bpf/inc_xdp.bpf.c"
#undef bpf_map_lookup_elem
#include "selftests/orders/frames.h"
#include "loader/inc_crc_tables.h"
#include "sim.h"

enum { COMES, LEAVES, FRAMES };

static uint8_t *frames;
static struct xdp *current;
/* Per-CPU memory, which a program uses for one packet only. */
static struct inc_buf scratch;
static struct inc_fold fold;
static bool original; /* the program works on the frame itself, not on a copy */

void *xdp_program_lookup(void *map, const void *key)
{
	struct xdp *x = current;
	const uint32_t i = *(const uint32_t *)key;
	const struct inc_switch_opts *opts = &x->sw.opts;

#define ARRAY(name, base, n)        \
	if (map == (void *)&(name)) \
	return element(base, sizeof(*(base)), n, i)
	ARRAY(inc_counter, x->counter, INC_CTR_MAX);
	ARRAY(inc_conn_place, x->place, inc_conn_places(opts->max_connections));
	ARRAY(inc_conn_cfg, x->conn_cfg, opts->max_connections);
	ARRAY(inc_conn_state, x->sw.conn_state, opts->max_connections);
	ARRAY(inc_comm_cfg, x->comm_cfg, opts->max_comms);
	ARRAY(inc_comm_state, x->sw.comm_state, opts->max_comms);
	ARRAY(inc_slot, x->sw.slots, x->sw.sum_rows);
	ARRAY(inc_kept, x->sw.kept, opts->max_rows);
	ARRAY(inc_sum, x->sw.sums, x->sw.sum_rows);
	ARRAY(inc_root_child, x->root, inc_switch_root_rows(opts->max_comms));
	ARRAY(inc_copy, x->copy, opts->max_connections);
	ARRAY(inc_scratch, &scratch, 1);
	ARRAY(inc_fold, &fold, 1);
#undef ARRAY
	if (map == (void *)&inc_comm_ports)
		return i < opts->max_comms * INC_PORTS_ROWS ? x->comm_ports[i] : NULL;
	if (map == (void *)&inc_port)
		return xdp_port_of(x, i);
	if (map == (void *)&inc_conn_lookup)
		return xdp_conn_of(x, key);
	if (map == (void *)&inc_own_addr)
		return xdp_own_addr(x, i);
	sim_fail("a program looks into a map that is not there");
}

long bpf_redirect_map(void *map, __u64 key, __u64 flags)
{
	struct xdp *x = current;

	x->redirect = (struct xdp_redirect){.to = XDP_TO_PORTS};
	if (map == (void *)&inc_answer_port) {
		x->redirect.to = XDP_TO_ANSWER;
		x->redirect.ifindex = key;
	} else if (map == (void *)&inc_parent_port) {
		if (!x->parent[key].ifindex)
			return flags & 3;
		x->redirect.to = XDP_TO_PARENT;
		x->redirect.ifindex = x->parent[key].ifindex;
	} else if (map == (void *)&inc_xsk) {
		if (!x->xsk[key])
			return flags & 3;
		x->redirect.to = XDP_TO_SLOW_PATH;
		x->redirect.ifindex = key / INC_PORT_QUEUES;
	} else {
		x->redirect.ports = map;
	}
	return XDP_REDIRECT;
}

long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta)
{
	ctx->data += delta;
	return 0;
}

/* Grows or shrinks a frame. A frame that arrived may have no room after its end, and then cannot
 * grow. */
long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta)
{
	if (delta > 0 && original && current->tight)
		return -EINVAL;
	move_end(ctx, delta);
	return 0;
}

void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags)
{
	struct xdp *x = current;

	return x->ring_put - x->ring_got < XDP_RING && !sim_fault(100)
		       ? &x->ring[x->ring_put % XDP_RING]
		       : NULL;
}

void bpf_ringbuf_submit(void *data, __u64 flags)
{
	current->ring_put++;
	current->out.event(current->out.arg);
}

/* There is one CPU, so no communicator has one of its own. */
__u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

__u64 bpf_ktime_get_ns(void)
{
	return sim_now_ns();
}

void xdp_open(void)
{
	inc_crc_fill_tables(CONSTANT(inc_crc_table), CONSTANT(inc_shift_table));
	*(bool *)CONSTANT(inc_order_stores) = false;
	frames = map_frames(FRAMES);
	sim_require(frames, "no memory for frames");
}

static uint32_t place(unsigned int which, const void *data, uint32_t len)
{
	uint8_t *at = frames + which * FRAME_ROOM + HEADROOM;

	memcpy(at, data, len);
	return (uintptr_t)at;
}

/* Sends a frame by an interface, after the egress program of that interface has run on it. */
static void leave(const struct xdp_md *from, uint32_t ifindex, bool is_original)
{
	uint32_t len = from->data_end - from->data;
	struct xdp_md ctx = {.egress_ifindex = ifindex};

	ctx.data = place(LEAVES, (void *)(long)from->data, len);
	ctx.data_end = ctx.data + len;
	original = is_original;
	if (inc_egress(&ctx) == XDP_PASS)
		current->out.frame(current->out.arg, xdp_place(ifindex), (void *)(long)ctx.data,
				   ctx.data_end - ctx.data);
}

/* Makes the copies of a frame as the kernel does after the program has ended: one after the other.
 * The last copy is the frame itself. */
static void redirect(const struct xdp_md *ctx)
{
	const struct xdp_redirect *r = &current->redirect;
	const struct xdp_iface *iface;
	uint32_t i;

	switch (r->to) {
	case XDP_TO_PORTS:
		for (i = 0; i < r->ports->n; i++)
			if (r->ports->ifindex[i])
				leave(ctx, r->ports->ifindex[i], i + 1 == r->ports->n);
		return;
	case XDP_TO_SLOW_PATH:
		current->out.slow_path(current->out.arg, r->ifindex, (void *)(long)ctx->data,
				       ctx->data_end - ctx->data);
		return;
	case XDP_TO_ANSWER:
		iface = xdp_iface_of(current, r->ifindex);
		if (iface && iface->answers)
			leave(ctx, r->ifindex, true);
		return;
	case XDP_TO_PARENT:
		leave(ctx, r->ifindex, true);
	}
}

bool xdp_receive(struct xdp *x, unsigned int port, const uint8_t *frame, size_t len)
{
	struct xdp_md ctx = {.ingress_ifindex = x->iface[port].ifindex};
	static uint32_t places; /* the current value of inc_places */
	uint32_t wanted = inc_conn_places(x->sw.opts.max_connections);

	int verdict;

	if (x->iface[port].gone || !x->iface[port].program)
		return x->iface[port].gone;
	if (places != wanted)
		*(uint32_t *)CONSTANT(inc_places) = places = wanted;
	current = x;
	original = true;
	ctx.data = place(COMES, frame, len);
	ctx.data_end = ctx.data + len;
	verdict = inc_switch(&ctx);
	if (verdict == XDP_REDIRECT)
		redirect(&ctx);
	return verdict != XDP_PASS;
}
