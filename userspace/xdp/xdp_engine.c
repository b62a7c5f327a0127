/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of passthrough mode (engine.h), made of the loader and the slow path. A place is the
 * loader's index of a communicator. The daemon calls all functions on its only thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "lib/net/loop.h"
#include "loader/inc_loader.h"
#include "loader/inc_state.h"
#include "userspace/config.h"
#include "userspace/links.h"
#include "userspace/switchd.h"
#include "userspace/neighbour.h"
#include "userspace/xdp/slowpath.h"
#include "userspace/xdp/xsk.h"

/* Time for which a daemon that takes over tries to open the socket of a queue. The kernel frees a
 * queue only some time after the process that had its socket has ended. */
#define BUSY_MOST_MS  2000
#define BUSY_PAUSE_MS 5
/* how often inc_switch_balance() is called, which needs rates a second */
#define BALANCE_MS 1000

struct xdp_engine {
	/* the public part, which is first, because the daemon holds a pointer to it */
	struct inc_engine base;
	struct inc_switch *sw;
	struct inc_slowpath *sp;
	struct inc_timer *balance; /* NULL: communicators have no CPUs */
	const char *steering;      /* why they have CPUs, or have none */
	inc_notice_fn notice;
	void *arg;
};

_Static_assert(INC_CTR_MAX <= INC_ENGINE_COUNTERS, "all counters have a place");

static const struct inc_metric slowpath_metrics[] = {
	INC_SLOWPATH_FIGURES(INC_METRIC_ROW, inc_slowpath_stats)};

static struct xdp_engine *engine_of(struct inc_engine *e)
{
	return (struct xdp_engine *)e;
}

static const struct xdp_engine *const_engine_of(const struct inc_engine *e)
{
	return (const struct xdp_engine *)e;
}

/* Passes on a notice of the slow path. comm is the loader's index of a communicator, and mask has
 * the ordinals of its children. */
static void on_notice(void *arg, enum inc_event_kind kind, uint32_t comm, uint32_t mask, uint64_t r,
		      const char *text)
{
	struct xdp_engine *x = arg;
	const struct inc_comm_cfg *cfg = inc_switch_comm(x->sw, comm);
	struct inc_msg_event event = {.kind = kind, .r = r};
	uint32_t c;

	if (!cfg)
		return;
	event.communicator = cfg->communicator;
	for (c = 0; c < cfg->children; c++)
		if (mask >> c & 1)
			event.ranks[event.n_ranks++] =
				inc_switch_conn(x->sw, cfg->conn_base + c)->rank;
	snprintf(event.message, sizeof(event.message), "%s", text);
	x->notice(x->arg, &event);
}

/* Decides whether each communicator has a CPU, to which packets go from all ports and queues, and
 * stores why (docs/decisions.md, "Steering"). */
static bool steers(const struct inc_settings *s, const char **why)
{
	uint32_t i = 0;

	while (i < s->n_ports && inc_rx_queues(s->port[i]) == 1)
		i++;
	if (s->generic)
		*why = "XDP is generic";
	else if (inc_cpus() == 1)
		*why = "there is one CPU";
	else if (s->steering != INC_STEERING_AUTO)
		*why = "as the settings say";
	else if (i == s->n_ports)
		*why = "each port has one receive queue";
	else
		*why = "a port has several receive queues";
	return !s->generic && inc_cpus() > 1 &&
	       (s->steering == INC_STEERING_AUTO ? i < s->n_ports : s->steering == INC_STEERING_ON);
}

/* Returns on how many CPUs the switch can add up packets of different communicators at the same
 * time. The port with the fewest receive queues limits that, because one queue delivers its packets
 * on one CPU. */
static unsigned int busy_cpus(const struct inc_settings *s)
{
	unsigned int cpus = inc_cpus();
	const char *why;

	if (steers(s, &why))
		return cpus;
	for (uint32_t i = 0; i < s->n_ports; i++)
		cpus = inc_min(cpus, inc_rx_queues(s->port[i]));
	return cpus;
}

static int xdp_offer(const struct inc_engine_opts *opts, struct inc_msg_engine *out,
		     struct inc_err *err)
{
	const struct inc_settings *s = opts->settings;

	out->probes = out->reorder = out->verbs = true;
	out->rto_min_ms = s->rto_min_ms;
	out->cpus = busy_cpus(s);
	out->limits = (struct inc_msg_limits){
		.children = INC_MAX_CHILDREN,
		.slots = INC_MAX_SLOTS,
		.rows = s->max_rows,
		.connections = s->max_connections,
		.communicators = s->max_comms,
	};
	return inc_switch_possible(err);
}

static void xdp_close(struct inc_engine *e)
{
	struct xdp_engine *x = engine_of(e);

	inc_timer_free(x->balance);
	inc_slowpath_free(x->sp);
	inc_switch_close(x->sw);
	free(x);
}

static void on_balance(void *arg)
{
	struct xdp_engine *x = arg;

	inc_switch_balance(x->sw);
	inc_timer_arm(x->balance, BALANCE_MS);
}

/* Starts the measurement of load, if communicators have CPUs. */
static int start_balance(struct xdp_engine *x, struct event_base *base, struct inc_err *err)
{
	const bool steer = inc_switch_get_opts(x->sw)->steer;

	inc_info("steering of communicators to CPUs is %s: %s", steer ? "on" : "off", x->steering);
	if (!steer)
		return 0;
	x->balance = inc_timer_new(base, on_balance, x);
	if (!x->balance || inc_timer_arm(x->balance, BALANCE_MS))
		return inc_err_set(err, ENOMEM, "no memory for a timer");
	return 0;
}

static int xdp_open(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err)
{
	const struct inc_settings *s = opts->settings;
	const char *steering;
	const struct inc_switch_opts sw_opts = {
		.sz = sizeof(sw_opts),
		.instance = opts->instance,
		.max_comms = s->max_comms,
		.max_connections = s->max_connections,
		.max_rows = s->max_rows,
		.attach = opts->options->attach,
		.generic = s->generic,
		.steer = steers(s, &steering),
		.pin = true,
		.skip_icrc = opts->options->skip_icrc,
		.fresh = opts->options->fresh,
	};
	const struct inc_slowpath_opts sp_opts = {
		.rto_min_ms = s->rto_min_ms,
		.rto_max_ms = s->rto_max_ms,
		.ack_delay_ms = s->ack_delay_ms,
	};
	struct xdp_engine *x = calloc(1, sizeof(*x));
	int ret;

	if (!x)
		return inc_err_set(err, ENOMEM, "no memory for an engine");
	x->base.ops = &inc_engine_xdp;
	x->notice = opts->notice;
	x->arg = opts->arg;
	x->steering = steering;
	if (sw_opts.skip_icrc)
		inc_warn("received packets are taken without a check of their ICRC");
	inc_switch_hush_libraries();
	ret = inc_switch_open(&sw_opts, &x->sw, err);
	ret = ret ?: inc_slowpath_new(opts->base, x->sw, &sp_opts, on_notice, x, &x->sp, err);
	ret = ret ?: start_balance(x, opts->base, err);
	if (ret) {
		xdp_close(&x->base);
		return ret;
	}
	*out = &x->base;
	return 0;
}

static void xdp_leave(struct inc_engine *e)
{
	inc_slowpath_leave(engine_of(e)->sp);
	inc_switch_leave(engine_of(e)->sw);
}

static int xdp_adopt(struct inc_engine *e, struct inc_err *err)
{
	struct xdp_engine *x = engine_of(e);
	int n = inc_switch_adopt(x->sw, err), ret = 0;
	uint32_t place;

	for (place = 0; n > 0 && !ret && place < inc_switch_get_opts(x->sw)->max_comms; place++)
		if (inc_switch_comm(x->sw, place))
			ret = inc_slowpath_adopt_comm(x->sp, place, err);
	return ret ?: n;
}

static void xdp_describe(const struct inc_engine *e, uint32_t place, struct inc_comm_conf *out)
{
	inc_switch_describe(const_engine_of(e)->sw, place, out);
}

static bool xdp_is(const struct inc_engine *e, uint32_t place, const struct inc_comm_conf *conf)
{
	return inc_switch_comm_is(const_engine_of(e)->sw, place, conf);
}

static int xdp_attach_port(struct inc_engine *e, const char *ifname, struct inc_err *err)
{
	const struct timespec pause = {.tv_nsec = BUSY_PAUSE_MS * INC_NSEC_PER_MSEC};
	const uint64_t until_ns = inc_now_ns() + BUSY_MOST_MS * INC_NSEC_PER_MSEC;
	struct xdp_engine *x = engine_of(e);
	const struct inc_switch_port *port;
	int ret = inc_switch_attach_port(x->sw, ifname, err);
	bool told = false;

	if (ret)
		return ret;
	port = inc_switch_port_find(x->sw, ifname);
	while ((ret = inc_slowpath_add_port(x->sp, port, err)) == -EBUSY &&
	       inc_now_ns() < until_ns) {
		if (!told)
			inc_info("%s; waits until the kernel has freed it", err->msg);
		told = true;
		nanosleep(&pause, NULL);
	}
	return ret;
}

static bool xdp_check_port(struct inc_engine *e, size_t i, const struct inc_link *link,
			   struct inc_engine_port *port)
{
	struct xdp_engine *x = engine_of(e);
	const struct inc_switch_port *own = inc_switch_port_at(x->sw, i);
	struct inc_port_seen seen = {.ip = inc_addr_in(port->ip).s_addr};
	struct inc_err err = {};
	int ret = 0;

	if (link) {
		seen.ifindex = link->ifindex;
		seen.xdp_id = link->xdp_id;
		snprintf(seen.name, sizeof(seen.name), "%s", link->name);
		ret = inc_switch_check_port(x->sw, i, &seen, &err);
		ret = ret < 0 ? ret : inc_slowpath_check_port(x->sp, own, &err) ?: ret;
		inc_switch_follow_mac(x->sw, own);
	}
	if (ret < 0) {
		port->condition = INC_PORT_LOST;
		snprintf(port->reason, sizeof(port->reason), "%s", err.msg);
	}
	inc_slowpath_port_is(x->sp, own, port->condition, port->reason);
	return ret;
}

/* Checks that each connection is at a port of the switch, and fills in the peer's MAC address. That
 * address is the configured one, or the one that the controller sends, else the one in the kernel's
 * neighbour table. If there is none, the peer's first frames show it. */
static int find_peers(const struct xdp_engine *x, struct inc_comm_conf *conf, struct inc_err *err)
{
	uint32_t i;
	int ret;

	for (i = 0; i < conf->n_conns; i++) {
		struct inc_conn_conf *c = &conf->conn[i];
		const struct inc_switch_port *port = inc_switch_port_find(x->sw, c->port);

		if (!port)
			return inc_err_set(err, ENODEV,
					   "communicator %u, rank %u: %s is not a port of this "
					   "switch",
					   conf->communicator, c->rank, c->port);
		if (c->has_peer_mac || inc_mac_given(c->peer_mac))
			continue;
		ret = inc_neighbour_mac(port->own_ifindex, c->peer.ip, c->peer_mac);
		if (ret && ret != -ENOENT)
			inc_warn("port %s, rank %u: the kernel's neighbours cannot be read: %s",
				 c->port, c->rank, strerror(-ret));
	}
	return 0;
}

static int xdp_add_comm(struct inc_engine *e, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct xdp_engine *x = engine_of(e);
	struct inc_comm_conf known = *conf;
	int ret, comm;

	ret = find_peers(x, &known, err);
	if (ret)
		return ret;
	comm = inc_switch_add_comm(x->sw, &known, err);
	if (comm < 0)
		return comm;
	/* add the communicator to the slow path before it is started, so that the slow path is
	 * ready for its first event */
	ret = inc_slowpath_add_comm(x->sp, comm, err);
	if (ret)
		inc_switch_remove_comm(x->sw, comm, NULL);
	return ret;
}

static int xdp_start_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct xdp_engine *x = engine_of(e);
	int comm = inc_switch_find_comm(x->sw, communicator);

	if (comm < 0)
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	return inc_switch_start_comm(x->sw, comm, err);
}

static int xdp_remove_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct xdp_engine *x = engine_of(e);
	int comm = inc_switch_find_comm(x->sw, communicator), ret;

	if (comm < 0)
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	ret = inc_switch_remove_comm(x->sw, comm, err);
	if (!ret)
		inc_slowpath_remove_comm(x->sp, comm);
	return ret;
}

static int xdp_connect_comm(struct inc_engine *e, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err)
{
	return inc_err_set(err, EALREADY,
			   "communicator %u: in passthrough mode every connection "
			   "has its peer from the beginning",
			   communicator);
}

static void xdp_usage(const struct inc_engine *e, struct inc_engine_usage *out)
{
	struct inc_usage u;

	inc_switch_usage(const_engine_of(e)->sw, &u);
	*out = (struct inc_engine_usage){
		.communicators = u.communicators.used,
		.communicators_limit = u.communicators.max,
		.connections = u.connections.used,
		.connections_limit = u.connections.max,
		.rows = u.rows.used,
		.rows_limit = u.rows.max,
		.slots = u.slots.used,
		.slots_limit = u.slots.max,
		.root_rows = u.root_rows.used,
		.root_rows_limit = u.root_rows.max,
	};
}

static int xdp_find(const struct inc_engine *e, uint32_t communicator)
{
	return inc_switch_find_comm(const_engine_of(e)->sw, communicator);
}

static bool xdp_comm(const struct inc_engine *e, uint32_t place, struct inc_engine_comm *out)
{
	const struct xdp_engine *x = const_engine_of(e);
	const struct inc_comm_cfg *cfg = inc_switch_comm(x->sw, place);
	struct inc_comm_state st;

	if (!cfg)
		return false;
	inc_switch_read_comm(x->sw, place, &st);
	*out = (struct inc_engine_comm){
		.communicator = cfg->communicator,
		.children = cfg->children,
		.connections = inc_comm_conns(cfg),
		.payload_bytes = cfg->payload,
		.slots = 1u << cfg->log2_slots,
		.byte_order =
			cfg->flags & INC_COMM_F_NET_ORDER ? INC_ORDER_NETWORK : INC_ORDER_LITTLE,
		.results = st.tx_next,
		.rows = (uint64_t)inc_comm_conns(cfg) << cfg->log2_slots,
		.error = st.error,
		.ended = st.error != 0,
		.cpu = inc_switch_cpu_of(x->sw, place),
	};
	return true;
}

static enum inc_conn_health health_of(const struct inc_engine_conn *conn)
{
	if (conn->error)
		return INC_CONN_ENDED;
	if (conn->unresponsive)
		return INC_CONN_UNRESPONSIVE;
	if (conn->loss)
		return INC_CONN_UNDELIVERED;
	return conn->received ? INC_CONN_ACTIVE : INC_CONN_IDLE;
}

static const char *port_of(const struct inc_switch *sw, uint32_t ifindex)
{
	const struct inc_switch_port *port = inc_switch_port_on(sw, ifindex);

	return port ? port->name : "";
}

static void xdp_conn(const struct inc_engine *e, uint32_t place, uint32_t i,
		     struct inc_engine_conn *out)
{
	const struct xdp_engine *x = const_engine_of(e);
	const uint32_t conn = inc_switch_comm(x->sw, place)->conn_base + i;
	const struct inc_conn_cfg *cfg = inc_switch_conn(x->sw, conn);
	struct inc_comm_state comm;
	struct inc_conn_state st;

	inc_switch_read_conn(x->sw, conn, &st);
	inc_switch_read_comm(x->sw, place, &comm);
	*out = (struct inc_engine_conn){
		.up = cfg->flags & INC_CONN_F_UP,
		.rank = cfg->rank,
		.own = inc_rc_end_of(&cfg->own),
		.peer = inc_rc_end_of(&cfg->peer),
		.error = st.error ?: comm.error,
		.received = st.rx_next,
		.acknowledged = st.tx_acked,
		.results = cfg->flags & INC_CONN_F_UP ? comm.up_next : comm.tx_next,
		.duplicates = st.duplicates,
		.naks_sent = st.naks_sent,
		.naks_received = st.naks_received,
		.rnrs_sent = st.rnrs_sent,
	};
	snprintf(out->port, sizeof(out->port), "%s", port_of(x->sw, cfg->ifindex));
	inc_slowpath_conn(x->sp, place, i, out);
	out->health = health_of(out);
}

static bool xdp_waiting(const struct inc_engine *e, uint32_t place, struct inc_engine_waiting *out)
{
	const struct xdp_engine *x = const_engine_of(e);
	struct inc_comm_state st;
	uint32_t arrived;

	if (!inc_switch_waiting(x->sw, place, &out->chunk, &arrived))
		return false;
	out->arrived = arrived;
	inc_switch_read_comm(x->sw, place, &st);
	out->up = !st.error && st.up_next > out->chunk;
	out->waited_ms = inc_slowpath_waiting_ms(x->sp, place, out->chunk);
	return true;
}

static int xdp_counters(const struct inc_engine *e, struct inc_engine_counters *out,
			struct inc_err *err)
{
	struct inc_counters c;
	size_t i;
	int ret;

	ret = inc_switch_read_counters(const_engine_of(e)->sw, &c, err);
	if (ret)
		return ret;
	*out = (struct inc_engine_counters){
		.received = c.received,
		.passed = c.passed,
		.dropped = c.dropped,
		.absorbed = c.absorbed,
		.answered = c.answered,
		.multicast = c.multicast,
		.balanced = c.balanced,
		.n = INC_CTR_MAX,
	};
	for (i = 0; i < INC_CTR_MAX; i++)
		out->counter[i] = (struct inc_engine_counter){
			.name = inc_counter_info[i].name,
			.class = inc_counter_info[i].class,
			.text = inc_counter_info[i].text,
			.value = c.value[i],
		};
	return 0;
}

static const char *mode_name(bool generic)
{
	return generic ? INC_XDP_GENERIC : INC_XDP_NATIVE;
}

static void xdp_tell_status(const struct inc_engine *e, json_t *status)
{
	const struct xdp_engine *x = const_engine_of(e);
	const struct inc_switch_port *port = inc_switch_port_at(x->sw, 0);
	json_t *slowpath = json_object();

	inc_metric_json(INC_METRICS(slowpath_metrics), inc_slowpath_stats(x->sp), slowpath);
	json_object_set_new(status, "abi", json_integer(INC_ABI_VERSION));
	json_object_set_new(status, "xdp",
			    json_string(mode_name(inc_switch_get_opts(x->sw)->generic)));
	json_object_set_new(status, "attach",
			    json_string(port ? inc_attach_name(port->attach) : "none"));
	json_object_set_new(status, "steering", json_boolean(x->balance));
	json_object_set_new(status, "steering_reason", json_string(x->steering));
	json_object_set_new(status, "slowpath", slowpath);
}

static void xdp_tell_port(const struct inc_engine *e, size_t i, json_t *out)
{
	const struct xdp_engine *x = const_engine_of(e);
	const struct inc_switch_port *port = inc_switch_port_at(x->sw, i);

	json_object_set_new(out, "xdp", json_string(mode_name(port->generic)));
	json_object_set_new(out, "attach", json_string(inc_attach_name(port->attach)));
	json_object_set_new(out, "queues", json_integer(inc_slowpath_queues(x->sp, port)));
}

static void xdp_tell_metrics(const struct inc_engine *e, json_t *families)
{
	inc_metric_sample(families, "slowpath", INC_METRICS(slowpath_metrics),
			  inc_slowpath_stats(const_engine_of(e)->sp), NULL);
}

static void xdp_log_totals(const struct inc_engine *e)
{
	const struct xdp_engine *x = const_engine_of(e);
	const struct inc_slowpath_stats *s = inc_slowpath_stats(x->sp);
	struct inc_counters c;

	if (inc_switch_read_counters(x->sw, &c, NULL))
		return;
	inc_info(
		"received %llu = passed %llu + dropped %llu + absorbed %llu + answered %llu + "
		"multicast %llu (%s); resent %llu, timeouts %llu, NAKs served %llu, ACKs paid %llu",
		(unsigned long long)c.received, (unsigned long long)c.passed,
		(unsigned long long)c.dropped, (unsigned long long)c.absorbed,
		(unsigned long long)c.answered, (unsigned long long)c.multicast,
		c.balanced ? "balanced" : "NOT balanced", (unsigned long long)s->results_resent,
		(unsigned long long)s->timeouts, (unsigned long long)s->naks_served,
		(unsigned long long)s->acks_paid);
}

bool inc_engine_shares_ports(enum inc_attach attach)
{
	struct inc_err why = {};

	return attach != INC_ATTACH_BPF_LINK && !inc_attach_can_share(&why);
}

const struct inc_engine_ops inc_engine_xdp = {
	.offer = xdp_offer,
	.open = xdp_open,
	.close = xdp_close,
	.leave = xdp_leave,
	.adopt = xdp_adopt,
	.describe = xdp_describe,
	.is = xdp_is,
	.attach_port = xdp_attach_port,
	.check_port = xdp_check_port,
	.add_comm = xdp_add_comm,
	.start_comm = xdp_start_comm,
	.connect_comm = xdp_connect_comm,
	.remove_comm = xdp_remove_comm,
	.usage = xdp_usage,
	.find = xdp_find,
	.comm = xdp_comm,
	.conn = xdp_conn,
	.waiting = xdp_waiting,
	.counters = xdp_counters,
	.tell_status = xdp_tell_status,
	.tell_port = xdp_tell_port,
	.tell_metrics = xdp_tell_metrics,
	.log_totals = xdp_log_totals,
};
