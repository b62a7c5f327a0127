/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the slow path, adds its communicators, and has its tick. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/net/loop.h"
#include "lib/proto/frame.h"
#include "userspace/xdp/slowpath_priv.h"

/* Time between ticks while a packet is outstanding, and while none is. The slow path must read the
 * maps in the latter case as well, because nothing else shows it new traffic. */
#define TICK_BUSY_MS 1
#define TICK_IDLE_MS 10
/* Number of events of the ring that one tick handles, so that a flood of them does not delay the
 * timers. */
#define RING_BATCH 256
/* The number of events for which the ring buffer has room. */
#define RING_EVENTS (64 * 1024 / sizeof(struct inc_event))

static void arm(struct inc_slowpath *sp, unsigned int ms)
{
	sp->tick_at_ns = inc_now_ns() + ms * INC_NSEC_PER_MSEC;
	inc_timer_arm(sp->tick, ms);
}

/* Makes the next tick come soon, but never later than planned. If each frame delayed the tick,
 * frames that come faster than ticks would stop all timers. */
void sp_hurry(struct inc_slowpath *sp)
{
	if (sp->n_comms && inc_now_ns() + TICK_BUSY_MS * INC_NSEC_PER_MSEC < sp->tick_at_ns)
		arm(sp, TICK_BUSY_MS);
}

static void take_events(struct inc_slowpath *sp)
{
	sp->ring_budget = RING_BATCH;
	ring_buffer__consume(sp->ring);
}

/* Stores when the oldest incomplete chunk that has contributions was first seen. Returns false if
 * the communicator has no such chunk. */
static bool watch_waiting(struct inc_slowpath *sp, struct sp_comm *cm)
{
	uint32_t arrived;
	uint64_t r;

	if (!inc_switch_waiting(sp->sw, cm->index, &r, &arrived)) {
		cm->wait_at_ns = 0;
		return false;
	}
	if (cm->wait_r != r || !cm->wait_at_ns) {
		cm->wait_r = r;
		cm->wait_at_ns = inc_now_ns();
	}
	return true;
}

static void on_tick(void *arg)
{
	struct inc_slowpath *sp = arg;
	bool busy = false;
	uint64_t now;
	uint32_t i, c;

	sp->tick_at_ns = UINT64_MAX;
	/* read events before the connections' states, because an event names the chunk of a failure
	 * and a state does not */
	take_events(sp);
	now = sp_now(sp);
	for (i = 0; i < sp->max_comms; i++) {
		struct sp_comm *cm = sp->comm[i];

		if (!cm)
			continue;
		watch_waiting(sp, cm);
		sp_watch_failures(sp, cm, now);
		sp_watch_ports(sp, cm, now);
		for (c = 0; c < cm->n_conns; c++)
			busy |= sp_conn_tick(sp, cm, c, now);
	}
	sp_flush(sp);
	if (sp->n_comms)
		arm(sp, busy ? TICK_BUSY_MS : TICK_IDLE_MS);
}

static void on_ring(evutil_socket_t fd, short what, void *arg)
{
	struct inc_slowpath *sp = arg;

	take_events(sp);
	sp_flush(sp);
	sp_hurry(sp);
}

int inc_slowpath_new(struct event_base *base, struct inc_switch *sw,
		     const struct inc_slowpath_opts *opts, inc_slowpath_notice_fn notice, void *arg,
		     struct inc_slowpath **out, struct inc_err *err)
{
	struct inc_slowpath *sp = calloc(1, sizeof(*sp));
	int ret;

	if (!sp)
		return inc_err_set(err, ENOMEM, "no memory for the slow path");
	sp->base = base;
	sp->sw = sw;
	sp->opts = *opts;
	sp->notice = notice;
	sp->arg = arg;
	sp->tick_at_ns = UINT64_MAX;
	sp->max_comms = inc_switch_get_opts(sw)->max_comms;
	sp->comm = calloc(sp->max_comms, sizeof(*sp->comm));
	sp->tick = inc_timer_new(base, on_tick, sp);
	if (!sp->comm || !sp->tick) {
		ret = inc_err_set(err, ENOMEM, "no memory for the slow path");
		goto fail;
	}
	sp->ring = ring_buffer__new(inc_switch_map_fd(sw, INC_MAP_EVENT), sp_on_event, sp, NULL);
	if (!sp->ring) {
		ret = inc_err_set(err, errno, "map %s: %s", INC_MAP_EVENT, strerror(errno));
		goto fail;
	}
	sp->ring_readable =
		event_new(base, ring_buffer__epoll_fd(sp->ring), EV_READ | EV_PERSIST, on_ring, sp);
	if (!sp->ring_readable || event_add(sp->ring_readable, NULL)) {
		ret = inc_err_set(err, ENOMEM, "map %s: no event", INC_MAP_EVENT);
		goto fail;
	}
	*out = sp;
	return 0;

fail:
	inc_slowpath_free(sp);
	return ret;
}

void inc_slowpath_free(struct inc_slowpath *sp)
{
	uint32_t i;

	if (!sp)
		return;
	for (i = 0; i < INC_MAX_PORTS; i++)
		sp_close_port(&sp->port[i]);
	for (i = 0; sp->comm && i < sp->max_comms; i++)
		free(sp->comm[i]);
	free(sp->comm);
	if (sp->ring_readable)
		event_free(sp->ring_readable);
	ring_buffer__free(sp->ring);
	inc_timer_free(sp->tick);
	free(sp);
}

int inc_slowpath_adopt_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err)
{
	const struct inc_comm_cfg *cfg = inc_switch_comm(sp->sw, comm);
	struct sp_comm *cm = calloc(1, sizeof(*cm));
	uint64_t now = sp_now(sp);
	uint32_t c;

	if (!cm || !cfg) {
		free(cm);
		return inc_err_set(err, ENOMEM, "no memory for communicator %u", comm);
	}
	cm->index = comm;
	cm->cfg = *cfg;
	cm->n_conns = inc_comm_conns(cfg);
	for (c = 0; c < cm->n_conns; c++) {
		struct sp_conn *conn = &cm->conn[c];

		conn->id = cfg->conn_base + c;
		conn->progress_at_ns = now;
		/* An ACK that is owed now has been owed since before this daemon started.
		 * owed_at_ns stays 0, so that ACK is overdue. */
		conn->owed_r = conn_state(sp, conn).ack_asked;
		inc_rto_init(&conn->rto, sp_first_rto_ns(sp),
			     sp->opts.rto_min_ms * INC_NSEC_PER_MSEC,
			     sp->opts.rto_max_ms * INC_NSEC_PER_MSEC);
	}
	sp->comm[comm] = cm;
	sp->n_comms++;
	sp_hurry(sp);
	return 0;
}

int inc_slowpath_add_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err)
{
	uint32_t i;

	/* discard events that are still in the ring, because they belong to an earlier communicator
	 * with this index */
	for (i = 0; i < RING_EVENTS / RING_BATCH + 1; i++)
		take_events(sp);
	return inc_slowpath_adopt_comm(sp, comm, err);
}

void inc_slowpath_leave(struct inc_slowpath *sp)
{
	uint32_t i, c;

	for (i = 0; i < sp->max_comms; i++)
		for (c = 0; sp->comm[i] && c < sp->comm[i]->n_conns; c++)
			sp_pay_at_once(sp, sp->comm[i], c);
	sp_flush(sp);
}

void inc_slowpath_remove_comm(struct inc_slowpath *sp, uint32_t comm)
{
	if (comm >= sp->max_comms || !sp->comm[comm])
		return;
	free(sp->comm[comm]);
	sp->comm[comm] = NULL;
	if (--sp->n_comms == 0) {
		inc_timer_stop(sp->tick);
		sp->tick_at_ns = UINT64_MAX;
	}
}

void inc_slowpath_conn(const struct inc_slowpath *sp, uint32_t comm, uint32_t child,
		       struct inc_engine_conn *out)
{
	const struct sp_comm *cm = comm < sp->max_comms ? sp->comm[comm] : NULL;
	struct inc_conn_state st;
	const struct sp_conn *c;

	if (!cm || child >= cm->n_conns)
		return;
	c = &cm->conn[child];
	st = conn_state(sp, c);
	out->verbs.traffic_class = st.traffic_class;
	out->verbs.has_traffic_class =
		st.traffic_class || conn_cfg(sp, c)->flags & INC_CONN_F_CLASS;
	out->verbs.sl = st.tag >> INC_TAG_PCP_SHIFT;
	out->verbs.has_sl = st.tag;
	out->unresponsive = c->phase == SP_CONN_UNRESPONSIVE;
	out->loss = c->delivery.loss;
	out->undelivered = c->delivery.loss != INC_LOSS_NONE;
	out->retransmits = c->stats.retransmits;
	out->acks_paid = c->stats.acks_paid;
	out->timeouts = c->stats.timeouts;
	out->rtt_us = c->rto.srtt_ns / INC_NSEC_PER_USEC;
}

uint64_t inc_slowpath_waiting_ms(const struct inc_slowpath *sp, uint32_t comm, uint64_t r)
{
	const struct sp_comm *cm = comm < sp->max_comms ? sp->comm[comm] : NULL;

	if (!cm || !cm->wait_at_ns || cm->wait_r != r)
		return 0;
	return (inc_now_ns() - cm->wait_at_ns) / INC_NSEC_PER_MSEC;
}

const struct inc_slowpath_stats *inc_slowpath_stats(const struct inc_slowpath *sp)
{
	return &sp->stats;
}
