// SPDX-License-Identifier: BSD-2-Clause
/* Runs the XDP programs, and has the kernel's helpers that the programs call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
/* native.h includes <netinet/in.h>, which must come before <linux/in.h> */
#include "native.h"

/* libbpf has a function of this name, with other arguments */
#define bpf_map_lookup_elem native_lookup
#include "bpf/inc_xdp.bpf.c"
#include "selftests/orders/frames.h"
#include "loader/inc_crc_tables.h"

#define TAILROOM 320 /* bytes at the end of a frame's memory into which the frame cannot grow */

static uint8_t *room;
static struct native_maps *maps;
static struct native_out *redirected;
/* Constants of the programs, which a test may set before each packet. */
static struct {
	uint32_t *places;
	bool *check_icrc, *generic, *order_stores, *steers;
} constants;
/* Per-CPU memory, which a program uses for one packet only. */
static struct inc_buf scratch;
static struct inc_fold fold;

static void *lookup_conn(const struct inc_conn_key *key)
{
	uint32_t i;

	for (i = 0; i < maps->lookups; i++)
		if (!memcmp(&maps->lookup[i].key, key, sizeof(*key)))
			return &maps->lookup[i].conn;
	return NULL;
}

static void *lookup_addr(uint32_t addr)
{
	uint32_t i;

	for (i = 0; i < maps->own_addrs; i++)
		if (maps->own_addr[i].addr == addr)
			return &maps->own_addr[i].count;
	return NULL;
}

static void *lookup_port(uint32_t ifindex)
{
	uint32_t i;

	for (i = 0; i < NATIVE_PORTS; i++)
		if (ifindex && maps->port[i].ifindex == ifindex)
			return &maps->port[i].value;
	return NULL;
}

static void *lookup_ports(uint32_t i)
{
	struct native_ports *p =
		element(maps->ports, sizeof(*p), maps->max_comms * INC_PORTS_ROWS, i);

	return p && p->n ? p : NULL;
}

void *bpf_map_lookup_elem(void *map, const void *key)
{
	const uint32_t i = *(const uint32_t *)key;

#define ARRAY(name, base, n)        \
	if (map == (void *)&(name)) \
	return element(base, sizeof(*(base)), n, i)
	ARRAY(inc_counter, maps->counter, INC_CTR_MAX);
	ARRAY(inc_conn_place, maps->place, maps->places);
	ARRAY(inc_conn_cfg, maps->conn_cfg, maps->max_connections);
	ARRAY(inc_conn_state, maps->conn_state, maps->max_connections);
	ARRAY(inc_comm_cfg, maps->comm_cfg, maps->max_comms);
	ARRAY(inc_comm_state, maps->comm_state, maps->max_comms);
	ARRAY(inc_slot, maps->slots, maps->sum_rows);
	ARRAY(inc_kept, maps->kept, maps->max_rows);
	ARRAY(inc_sum, maps->sums, maps->sum_rows);
	ARRAY(inc_root_child, maps->root, maps->root_rows);
	ARRAY(inc_copy, maps->copy, maps->max_connections);
	ARRAY(inc_route, maps->route, maps->max_comms);
	ARRAY(inc_queue, maps->queue, NATIVE_CPUS);
	ARRAY(inc_scratch, &scratch, 1);
	ARRAY(inc_fold, &fold, 1);
#undef ARRAY
	if (map == (void *)&inc_comm_ports)
		return lookup_ports(i);
	if (map == (void *)&inc_port)
		return lookup_port(i);
	if (map == (void *)&inc_conn_lookup)
		return lookup_conn(key);
	if (map == (void *)&inc_own_addr)
		return lookup_addr(i);
	abort(); /* a map was added to bpf/ but not to this file */
}

long bpf_redirect_map(void *map, __u64 key, __u64 flags)
{
	redirected->to = NATIVE_PORTS_OF_COMM;
	if (map == (void *)&inc_answer_port) {
		redirected->to = NATIVE_ANSWER;
		redirected->ifindex = key;
	} else if (map == (void *)&inc_parent_port) {
		redirected->to = NATIVE_PARENT;
		redirected->ifindex = maps->parent[key];
	} else if (map == (void *)&inc_cpu) {
		redirected->to = key < NATIVE_CPUS ? NATIVE_CPU : NATIVE_NOWHERE;
		return key < NATIVE_CPUS ? XDP_REDIRECT : flags & 3;
	} else if (map == (void *)&inc_xsk) {
		redirected->to = NATIVE_SLOW_PATH;
	} else {
		redirected->ports = map;
	}
	if ((redirected->to == NATIVE_SLOW_PATH && !maps->xsk) ||
	    (redirected->to == NATIVE_ANSWER && !maps->answer_ports) ||
	    (redirected->to == NATIVE_PARENT && !redirected->ifindex)) {
		redirected->to = NATIVE_NOWHERE;
		return flags & 3;
	}
	return XDP_REDIRECT;
}

long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta)
{
	if ((long)ctx->data + delta < (long)(uintptr_t)room ||
	    ctx->data + delta + INC_ETH_LEN > ctx->data_end)
		return -EINVAL;
	ctx->data += delta;
	return 0;
}

long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta)
{
	if (ctx->data_end + delta > (uintptr_t)room + FRAME_ROOM - TAILROOM ||
	    ctx->data_end + delta < ctx->data + INC_ETH_LEN)
		return -EINVAL;
	move_end(ctx, delta);
	return 0;
}

void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags)
{
	return maps->events < NATIVE_EVENTS && !maps->ring_full ? &maps->event[maps->events] : NULL;
}

void bpf_ringbuf_submit(void *data, __u64 flags)
{
	maps->events++;
}

__u32 bpf_get_smp_processor_id(void)
{
	return maps->cpu;
}

uint64_t native_step_ns = 1 << 20;

__u64 bpf_ktime_get_ns(void)
{
	static uint64_t now_ns;

	now_ns += native_step_ns;
	return now_ns;
}

int native_open(void)
{
	inc_crc_fill_tables(CONSTANT(inc_crc_table), CONSTANT(inc_shift_table));
	constants.places = CONSTANT(inc_places);
	constants.check_icrc = CONSTANT(inc_check_icrc);
	constants.generic = CONSTANT(inc_generic);
	constants.order_stores = CONSTANT(inc_order_stores);
	constants.steers = CONSTANT(inc_steers);
	room = map_frames(1);
	return room ? 0 : -errno;
}

void native_set(const struct native_constants *c)
{
	*constants.places = c->places;
	*constants.check_icrc = c->check_icrc;
	*constants.generic = c->generic;
	*constants.order_stores = c->order_stores;
	*constants.steers = c->steers;
}

static void run(int (*program)(struct xdp_md *ctx), struct native_maps *m, struct xdp_md *ctx,
		const uint8_t *frame, uint32_t len, struct native_out *out)
{
	*out = (struct native_out){};
	maps = m;
	redirected = out;
	m->events = 0;
	memcpy(room + HEADROOM, frame, len);
	ctx->data = (uintptr_t)room + HEADROOM;
	ctx->data_end = ctx->data + len;
	out->verdict = program(ctx);
	out->frame = (void *)(long)ctx->data;
	out->len = ctx->data_end - ctx->data;
}

void native_switch(struct native_maps *m, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		   struct native_out *out)
{
	struct xdp_md ctx = {.ingress_ifindex = ifindex, .rx_queue_index = m->rx_queue};

	run(inc_switch, m, &ctx, frame, len, out);
}

void native_steered(struct native_maps *m, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		    struct native_out *out)
{
	struct xdp_md ctx = {.ingress_ifindex = ifindex};

	run(inc_steered, m, &ctx, frame, len, out);
}

void native_egress(struct native_maps *m, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		   struct native_out *out)
{
	struct xdp_md ctx = {.egress_ifindex = ifindex};

	run(inc_egress, m, &ctx, frame, len, out);
}
