// SPDX-License-Identifier: BSD-2-Clause
/*
 * The XDP programs and the helpers that they call (data_path.h). This file is compiled with
 * -fsanitize=thread, so that each access of the programs, and each copy that a helper makes, calls
 * hooks.c.
 */
#include <errno.h>
#include <string.h>
#include "bpf/inc_xdp.bpf.c"
#include "data_path.h"
#include "frames.h"
#include "loader/inc_crc_tables.h"

struct data_path data_path;
struct data_path_cfg data_path_cfg;

/* Memory that each CPU has for itself. */
static struct cpu {
	struct inc_buf scratch;
	struct inc_fold fold;
	struct inc_copy copy[DATA_PATH_CONNS];
	uint64_t counter[INC_CTR_MAX];
	struct inc_event event;
	unsigned int events[INC_EVENT_COPIES_SHARED + 1];
	void *redirected;
	uint32_t to_cpu;
	struct frame out;
	/* frames in the places of its queue, with their connections, and how many it has taken */
	struct frame queued[DATA_PATH_QUEUED];
	uint32_t queued_conn[DATA_PATH_QUEUED];
	uint32_t served;
	/* redirected frames that have not left yet, and where they go */
	struct frame waiting[DATA_PATH_BATCH];
	void *waiting_for[DATA_PATH_BATCH];
	uint32_t waits, packets; /* numbers of these frames, and of packets since the last flush */
} cpus[SEARCH_THREADS];

/* The rows of the map inc_comm_ports. */
static struct inc_devmap ports[INC_PORTS_ROWS];
static bool batches;
static uint8_t *frames; /* two frames for each CPU: one that arrives, and one that leaves */

static struct cpu *cpu(void)
{
	return &cpus[search_self()];
}

#define ELEMENT(array, i) element(array, sizeof((array)[0]), sizeof(array) / sizeof((array)[0]), i)

static void *lookup_place(uint32_t place)
{
	static uint32_t value[SEARCH_THREADS];
	uint32_t *conn_plus_1 = &value[search_self()];

	*conn_plus_1 = place < DATA_PATH_CONNS ? place + 1 : 0;
	return conn_plus_1;
}

void *bpf_map_lookup_elem(void *map, const void *key)
{
	uint32_t i = *(const uint32_t *)key;

	if (map == &inc_counter)
		return ELEMENT(cpu()->counter, i);
	if (map == &inc_conn_place)
		return lookup_place(i);
	if (map == &inc_conn_cfg)
		return ELEMENT(data_path_cfg.conn, i);
	if (map == &inc_conn_state)
		return ELEMENT(data_path.conn, i);
	if (map == &inc_comm_cfg)
		return i ? NULL : &data_path_cfg.comm;
	if (map == &inc_comm_state)
		return i ? NULL : &data_path.comm;
	if (map == &inc_slot)
		return ELEMENT(data_path.slot, i);
	if (map == &inc_kept)
		return ELEMENT(data_path.kept, i);
	if (map == &inc_sum)
		return ELEMENT(data_path.sum, i);
	if (map == &inc_root_child)
		return i ? NULL : &data_path_cfg.roots;
	if (map == &inc_comm_ports)
		return ELEMENT(ports, i);
	if (map == &inc_copy)
		return ELEMENT(cpu()->copy, i);
	if (map == &inc_route)
		return i ? NULL : &data_path.route;
	if (map == &inc_queue)
		return ELEMENT(data_path.queue, i);
	if (map == &inc_scratch)
		return &cpu()->scratch;
	if (map == &inc_fold)
		return &cpu()->fold;
	return NULL;
}

long bpf_redirect_map(void *map, __u64 key, __u64 flags)
{
	cpu()->redirected = map;
	cpu()->to_cpu = key;
	return XDP_REDIRECT;
}

long bpf_xdp_adjust_head(struct xdp_md *ctx, int delta)
{
	ctx->data += delta;
	return 0;
}

long bpf_xdp_adjust_tail(struct xdp_md *ctx, int delta)
{
	move_end(ctx, delta);
	return 0;
}

void *bpf_ringbuf_reserve(void *ring, __u64 size, __u64 flags)
{
	return &cpu()->event;
}

void bpf_ringbuf_submit(void *data, __u64 flags)
{
	cpu()->events[cpu()->event.type]++;
}

__u64 bpf_ktime_get_ns(void)
{
	return 0;
}

__u32 bpf_get_smp_processor_id(void)
{
	return search_self();
}

int data_path_open(bool order_stores, bool steers, bool in_batches)
{
	batches = in_batches;
	inc_crc_fill_tables(CONSTANT(inc_crc_table), CONSTANT(inc_shift_table));
	*(bool *)CONSTANT(inc_order_stores) = order_stores;
	*(bool *)CONSTANT(inc_steers) = steers;
	*(uint32_t *)CONSTANT(inc_places) = inc_conn_places(DATA_PATH_CONNS);
	if (frames)
		return 0;
	frames = map_frames(2 * SEARCH_THREADS);
	return frames ? 0 : -errno;
}

void data_path_reset(void)
{
	for (unsigned int i = 0; i < SEARCH_THREADS; i++) {
		memset(cpus[i].copy, 0, sizeof(cpus[i].copy));
		memset(cpus[i].events, 0, sizeof(cpus[i].events));
		cpus[i].served = cpus[i].waits = cpus[i].packets = 0;
	}
}

static uint32_t place(unsigned int which, const void *data, uint32_t len)
{
	uint8_t *at = frames + (2 * search_self() + which) * FRAME_ROOM + HEADROOM;

	memcpy(at, data, len);
	return (uintptr_t)at;
}

/* Stores the frame as the program has changed it, so that the caller can inspect it. */
static const struct frame *taken(const struct xdp_md *ctx)
{
	struct frame *out = &cpu()->out;

	out->len = ctx->data_end - ctx->data;
	memcpy(out->data, (void *)(long)ctx->data, out->len);
	return out;
}

/* Runs the egress program on the copy for this connection's port. */
static void copy(const struct xdp_md *from, uint32_t conn)
{
	uint32_t len = from->data_end - from->data;
	struct xdp_md ctx = {.egress_ifindex = data_path_cfg.conn[conn].ifindex};

	ctx.data = place(1, (void *)(long)from->data, len);
	ctx.data_end = ctx.data + len;
	if (inc_egress(&ctx) == XDP_PASS)
		data_path_leaves(conn, taken(&ctx));
}

/* Makes the copies of a frame that leaves, one after the other, on this CPU. */
static void multicast(const struct xdp_md *ctx, const void *to)
{
	uint32_t children = data_path_cfg.comm.children, i;

	if (to == &inc_parent_port) {
		copy(ctx, children);
		return;
	}
	for (i = 0; i < children && to != &ports[INC_PORTS_UP_BARE]; i++)
		copy(ctx, i);
	if (to == &ports[INC_PORTS_DOWN_BARE])
		copy(ctx, children - 1);
}

void data_path_flush(void)
{
	struct cpu *c = cpu();

	for (uint32_t i = 0; i < c->waits; i++) {
		struct xdp_md ctx = {};

		ctx.data = place(0, c->waiting[i].data, c->waiting[i].len);
		ctx.data_end = ctx.data + c->waiting[i].len;
		multicast(&ctx, c->waiting_for[i]);
	}
	if (c->packets && batches)
		search_fetch_add((uint64_t *)&data_path.cpu[search_self()].ended, 1);
	c->waits = c->packets = 0;
}

/* Lets the frame of a template leave: at once, or with the next flush. */
static void redirect(const struct xdp_md *ctx)
{
	struct cpu *c = cpu();

	if (!batches) {
		multicast(ctx, c->redirected);
		return;
	}
	c->waiting_for[c->waits] = c->redirected;
	c->waiting[c->waits].len = ctx->data_end - ctx->data;
	memcpy(c->waiting[c->waits].data, (void *)(long)ctx->data, c->waiting[c->waits].len);
	c->waits++;
}

#define LEFT (~0u) /* in a queue, as a connection: a CPU has left the queue */

/* Puts a frame into the queue of a CPU, as the kernel does after the program has ended. */
static void put(uint32_t to, uint32_t conn, const struct frame *frame)
{
	uint64_t at = search_fetch_add((uint64_t *)&data_path.cpu[to].tail, 1);

	if (at >= DATA_PATH_QUEUED) {
		search_fail("the queue of CPU %u is full", to);
		return;
	}
	cpus[to].queued_conn[at] = conn;
	if (frame)
		memcpy(&cpus[to].queued[at], frame, sizeof(*frame));
	search_fetch_add((uint64_t *)&data_path.cpu[to].ready[at], 1);
}

/* Runs this program on the frame, and does what the kernel does with the frame then. */
static struct data_path_outcome run(int (*program)(struct xdp_md *ctx), uint32_t conn,
				    const struct frame *frame)
{
	struct xdp_md ctx = {.ingress_ifindex = data_path_cfg.conn[conn].ifindex};
	struct data_path_outcome outcome = {};
	int c;

	memset(cpu()->counter, 0, sizeof(cpu()->counter));
	if (batches && !cpu()->packets++)
		search_fetch_add((uint64_t *)&data_path.cpu[search_self()].begun, 1);
	ctx.data = place(0, frame->data, frame->len);
	ctx.data_end = ctx.data + frame->len;
	program(&ctx);
	for (c = INC_CTR_RX + 1; c < INC_CTR_MAX && !inc_counter_is(c, 'X'); c++)
		if (cpu()->counter[c])
			outcome.counter = c;
	if (inc_counter_is(outcome.counter, 'W'))
		outcome.answer = taken(&ctx);
	if (inc_counter_is(outcome.counter, 'M'))
		redirect(&ctx);
	if (cpu()->counter[INC_CTR_X_STEERED])
		put(cpu()->to_cpu, conn, taken(&ctx));
	return outcome;
}

struct data_path_outcome data_path_receive(uint32_t conn, const struct frame *frame)
{
	return run(inc_switch, conn, frame);
}

bool data_path_serve(uint32_t *conn, const struct frame **frame, struct data_path_outcome *outcome)
{
	uint32_t at = cpu()->served++;

	search_wait((uint64_t *)&data_path.cpu[search_self()].ready[at], 1);
	*conn = cpu()->queued_conn[at];
	*frame = &cpu()->queued[at];
	if (*conn == LEFT)
		return false;
	*outcome = run(inc_steered, *conn, *frame);
	return true;
}

void data_path_leave_queue(uint32_t to)
{
	put(to, LEFT, NULL);
}

void data_path_await_programs(void)
{
	for (unsigned int i = 0; i < SEARCH_THREADS; i++) {
		uint64_t begun = search_load((uint64_t *)&data_path.cpu[i].begun, SEARCH_FULL);

		search_wait((uint64_t *)&data_path.cpu[i].ended, begun);
	}
}

unsigned int data_path_events(enum inc_event_type type)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SEARCH_THREADS; i++)
		n += cpus[i].events[type];
	return n;
}
