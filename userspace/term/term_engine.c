/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine of termination mode (engine.h), made of workers and their communicators. The daemon
 * calls all functions on its only thread. The figures of a communicator are read on its worker's
 * thread, and stored in its place until they are read again.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "lib/reduce/operate.h"
#include "userspace/config.h"
#include "userspace/engine.h"
#include "userspace/term/capabilities.h"
#include "userspace/term/notices.h"
#include "userspace/term/worker.h"

/* A communicator in its place. */
struct place {
	struct inc_term_comm *cm;
	struct inc_term_worker *worker;
	/* configuration of the communicator, in which the switch's own numbers are filled in */
	struct inc_comm_conf conf;
	/* for each connection, the index of its port in term_engine.port */
	uint8_t port[INC_COMM_MAX_CONNECTIONS];
	size_t bytes; /* size of the communicator's buffers */
	/* figures of the communicator, read when comm() was last called */
	struct inc_term_view view;
};

/* A port of the switch, in the condition that the last check has found. */
struct port {
	char name[IF_NAMESIZE];
	enum inc_port_condition condition;
	char reason[INC_PORT_REASON];
};

struct term_engine {
	/* the public part, which is first, because the daemon holds a pointer to it */
	struct inc_engine base;
	struct inc_term_notices *notices;
	struct inc_term_worker *worker[INC_MAX_THREADS];
	uint32_t n_workers;
	struct place **place; /* [n_places]: the places; NULL: empty */
	uint32_t n_places, max_connections;
	struct port port[INC_MAX_PORTS];
	uint32_t n_ports;
	struct inc_term_counters gone; /* counters of communicators that have been removed */
};

#define INC_TERM_FIGURES(_, T)                                                                 \
	_(T, threads, "", GAUGE, "threads that add up messages")                               \
	_(T, buffer_bytes, "bytes", GAUGE, "of the messages under way that there is room for") \
	_(T, buffer_bytes_limit, "bytes", GAUGE, "of them that there can be")

struct own_figures {
	INC_TERM_FIGURES(INC_METRIC_FIELD, own_figures)
};

static const struct inc_metric term_metrics[] = {INC_TERM_FIGURES(INC_METRIC_ROW, own_figures)};

static struct term_engine *engine_of(struct inc_engine *e)
{
	return (struct term_engine *)e;
}

static const struct term_engine *const_engine_of(const struct inc_engine *e)
{
	return (const struct term_engine *)e;
}

/* Returns how many bytes the buffers of all communicators may take, which is half of the machine's
 * memory. */
static uint64_t bytes_limit(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / 2;
}

static struct own_figures usage_of(const struct term_engine *t)
{
	struct own_figures u = {.threads = t->n_workers, .buffer_bytes_limit = bytes_limit()};
	uint32_t i;

	for (i = 0; i < t->n_places; i++)
		if (t->place[i])
			u.buffer_bytes += t->place[i]->bytes;
	return u;
}

static int term_offer(const struct inc_engine_opts *opts, struct inc_msg_engine *out,
		      struct inc_err *err)
{
	const struct inc_settings *s = opts->settings;

	out->cpus = inc_min(inc_cpus(), s->threads);
	out->limits = (struct inc_msg_limits){
		.children = INC_COMM_MAX_CHILDREN,
		.slots = INC_MAX_SLOTS,
		.connections = s->max_connections,
		.communicators = s->max_comms,
		.message_bytes = INC_MAX_MESSAGE_BYTES,
		.window_bytes = INC_MAX_WINDOW_BYTES,
	};
	return inc_term_capabilities(s, out, err);
}

static void term_close(struct inc_engine *e)
{
	struct term_engine *t = engine_of(e);
	uint32_t i;

	for (i = 0; i < t->n_workers; i++)
		inc_term_worker_free(t->worker[i]);
	for (i = 0; t->place && i < t->n_places; i++)
		free(t->place[i]);
	inc_term_notices_free(t->notices);
	free(t->place);
	free(t);
}

static int start_workers(struct term_engine *t, const struct inc_settings *s, struct inc_err *err)
{
	const struct inc_term_worker_opts opts = {
		.kinds = inc_term_kinds,
		.rto_min_ns = s->rto_min_ms * INC_NSEC_PER_MSEC,
		.rto_max_ns = s->rto_max_ms * INC_NSEC_PER_MSEC,
		.poll_ns = s->poll_us * INC_NSEC_PER_USEC,
		.notice = inc_term_notices_tell,
		.arg = t->notices,
	};
	int ret = 0;

	while (!ret && t->n_workers < s->threads) {
		ret = inc_term_worker_new(&opts, &t->worker[t->n_workers], err);
		if (!ret)
			ret = inc_term_worker_start(t->worker[t->n_workers++], err);
	}
	return ret;
}

static int term_open(const struct inc_engine_opts *opts, struct inc_engine **out,
		     struct inc_err *err)
{
	const struct inc_settings *s = opts->settings;
	struct term_engine *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return inc_err_set(err, ENOMEM, "no memory for an engine");
	t->base.ops = &inc_engine_term;
	t->n_places = s->max_comms;
	t->max_connections = s->max_connections;
	t->place = calloc(t->n_places, sizeof(t->place[0]));
	ret = t->place ? inc_term_notices_new(opts->base, opts->notice, opts->arg, &t->notices, err)
		       : inc_err_set(err, ENOMEM, "no memory for communicators");
	ret = ret ?: start_workers(t, s, err);
	if (ret) {
		term_close(&t->base);
		return ret;
	}
	inc_info("termination mode: %u thread%s, kernels %s", t->n_workers,
		 t->n_workers > 1 ? "s" : "", inc_reduce_set());
	*out = &t->base;
	return 0;
}

static int term_attach_port(struct inc_engine *e, const char *ifname, struct inc_err *err)
{
	struct term_engine *t = engine_of(e);

	snprintf(t->port[t->n_ports++].name, sizeof(t->port[0].name), "%s", ifname);
	return 0;
}

/* Passes the condition of port i to the communicator in a place, if a connection of it uses the
 * port. */
static void report_condition(const struct term_engine *t, struct place *p, uint32_t i)
{
	uint32_t c;

	for (c = 0; c < p->conf.n_conns; c++)
		if (p->port[c] == i)
			inc_term_worker_port(p->worker, p->cm, c, t->port[i].condition,
					     t->port[i].reason);
}

static bool term_check_port(struct inc_engine *e, size_t i, const struct inc_link *link,
			    struct inc_engine_port *port)
{
	struct term_engine *t = engine_of(e);
	struct port *own = &t->port[i];
	const bool changed =
		own->condition != port->condition || strcmp(own->reason, port->reason) != 0;
	uint32_t k;

	memcpy(own->name, port->name, sizeof(own->name));
	own->condition = port->condition;
	memcpy(own->reason, port->reason, sizeof(own->reason));
	for (k = 0; changed && k < t->n_places; k++)
		if (t->place[k])
			report_condition(t, t->place[k], i);
	return false;
}

/* Returns the index of the port that has this name at present, or n_ports if no port has it. */
static uint32_t port_called(const struct term_engine *t, const char *name)
{
	uint32_t i = 0;

	while (i < t->n_ports && strcmp(t->port[i].name, name) != 0)
		i++;
	return i;
}

/* Stores the port of each peer of a new communicator, because ports may change their names later.
 * Passes the conditions of ports that are not up to it. */
static void find_ports(const struct term_engine *t, struct place *p)
{
	uint32_t i;

	inc_term_worker_view(p->worker, p->cm, &p->view);
	for (i = 0; i < p->conf.n_conns; i++)
		p->port[i] = port_called(t, p->view.conn[i].port);
	for (i = 0; i < t->n_ports; i++)
		if (t->port[i].condition != INC_PORT_UP)
			report_condition(t, p, i);
}

static uint32_t connections_of(const struct term_engine *t)
{
	uint32_t i, n = 0;

	for (i = 0; i < t->n_places; i++)
		if (t->place[i])
			n += t->place[i]->conf.n_conns;
	return n;
}

static int check_room(const struct term_engine *t, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	const uint64_t window = (uint64_t)conf->messages * conf->message_packets * conf->payload;
	const uint64_t bytes = inc_term_comm_bytes(conf);
	const struct own_figures u = usage_of(t);
	const uint32_t n = connections_of(t);

	if (window > INC_MAX_WINDOW_BYTES)
		return inc_err_set(
			err, E2BIG,
			"communicator %u: %u messages of %u packets of %u bytes are %llu MiB, more "
			"than a connection's %u MiB",
			conf->communicator, conf->messages, conf->message_packets, conf->payload,
			(unsigned long long)(window >> 20), INC_MAX_WINDOW_BYTES >> 20);
	if (n + conf->n_conns > t->max_connections)
		return inc_err_set(err, ENOSPC,
				   "communicator %u: %u connections are wanted, %u of %u are free",
				   conf->communicator, conf->n_conns, t->max_connections - n,
				   t->max_connections);
	if (u.buffer_bytes + bytes > u.buffer_bytes_limit)
		return inc_err_set(
			err, ENOSPC,
			"communicator %u: %llu MiB are wanted, two windows of %u messages of %u "
			"bytes with each of %u peers; %llu of %llu MiB are free",
			conf->communicator, (unsigned long long)(bytes >> 20), conf->messages,
			conf->message_packets * conf->payload, conf->n_conns,
			(unsigned long long)((u.buffer_bytes_limit - u.buffer_bytes) >> 20),
			(unsigned long long)(u.buffer_bytes_limit >> 20));
	return 0;
}

static int check(const struct term_engine *t, const struct inc_comm_conf *conf, struct inc_err *err)
{
	uint32_t i;

	for (i = 0; i < conf->n_conns; i++)
		if (port_called(t, conf->conn[i].port) == t->n_ports)
			return inc_err_set(err, ENODEV,
					   "communicator %u, rank %u: %s is not a port of this "
					   "switch",
					   conf->communicator, conf->conn[i].rank,
					   conf->conn[i].port);
	return check_room(t, conf, err);
}

/* Whether the communicator in a place receives at the UDP port that connection c names. If it does,
 * the thread of that communicator must get this one as well. The socket of soft channels receives
 * at all addresses. */
static bool receives_at(const struct place *p, const struct inc_conn_conf *c)
{
	uint32_t i;

	for (i = 0; c->own.udp_port && i < p->conf.n_conns; i++)
		if (p->conf.conn[i].own.udp_port == c->own.udp_port &&
		    p->conf.conn[i].own.kind == c->own.kind &&
		    (c->own.kind == INC_ENDPOINT_SOFT ||
		     inc_addr_same(p->conf.conn[i].own.ip, c->own.ip)))
			return true;
	return false;
}

/* Picks the worker that has the UDP ports which conf names, else the one with the fewest
 * connections. */
static int pick_worker(const struct term_engine *t, const struct inc_comm_conf *conf,
		       struct inc_term_worker **out, struct inc_err *err)
{
	uint32_t load[INC_MAX_THREADS] = {}, best = 0, i, k;
	struct inc_term_worker *bound = NULL;

	for (i = 0; i < t->n_places; i++) {
		const struct place *p = t->place[i];

		if (!p)
			continue;
		for (k = 0; k < conf->n_conns; k++) {
			if (!receives_at(p, &conf->conn[k]))
				continue;
			if (bound && bound != p->worker)
				return inc_err_set(err, EADDRINUSE,
						   "communicator %u: its UDP ports belong to "
						   "several threads",
						   conf->communicator);
			bound = p->worker;
		}
		for (k = 0; k < t->n_workers; k++)
			if (t->worker[k] == p->worker)
				load[k] += p->conf.n_conns;
	}
	for (k = 1; k < t->n_workers; k++)
		if (load[k] < load[best])
			best = k;
	*out = bound ?: t->worker[best];
	return 0;
}

static int term_find(const struct inc_engine *e, uint32_t communicator)
{
	const struct term_engine *t = const_engine_of(e);
	uint32_t i;

	for (i = 0; i < t->n_places; i++)
		if (t->place[i] && t->place[i]->conf.communicator == communicator)
			return i;
	return -ENOENT;
}

static int term_add_comm(struct inc_engine *e, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct term_engine *t = engine_of(e);
	struct place *p;
	uint32_t at = 0;
	int ret;

	while (at < t->n_places && t->place[at])
		at++;
	if (at == t->n_places)
		return inc_err_set(err, ENOSPC, "communicator %u: all %u communicators are in use",
				   conf->communicator, t->n_places);
	ret = check(t, conf, err);
	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p)
		return inc_err_set(err, ENOMEM, "communicator %u: no memory", conf->communicator);
	ret = pick_worker(t, conf, &p->worker, err);
	ret = ret ?: inc_term_worker_add(p->worker, conf, &p->cm, err);
	if (ret) {
		free(p);
		return ret;
	}
	p->conf = *conf;
	find_ports(t, p);
	p->bytes = inc_term_comm_bytes(conf);
	t->place[at] = p;
	return 0;
}

/* Returns the place of a communicator, or NULL, with an error in err. */
static struct place *place_of(const struct term_engine *t, uint32_t communicator,
			      struct inc_err *err)
{
	int at = term_find(&t->base, communicator);

	if (at >= 0)
		return t->place[at];
	inc_err_set(err, ENOENT, "no communicator %u", communicator);
	return NULL;
}

static int term_start_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct place *p = place_of(engine_of(e), communicator, err);

	return p ? inc_term_worker_start_comm(p->worker, p->cm, err) : -ENOENT;
}

static int term_connect_comm(struct inc_engine *e, uint32_t communicator,
			     const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err)
{
	struct place *p = place_of(engine_of(e), communicator, err);

	return p ? inc_term_worker_connect(p->worker, p->cm, peer, n, err) : -ENOENT;
}

static int term_remove_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct term_engine *t = engine_of(e);
	int at = term_find(e, communicator);
	struct place *p;

	if (at < 0)
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	p = t->place[at];
	inc_term_worker_view(p->worker, p->cm, &p->view);
	inc_term_counters_add(&t->gone, &p->view.counters);
	inc_term_worker_remove(p->worker, p->cm);
	inc_term_notices_forget(t->notices, communicator);
	t->place[at] = NULL;
	free(p);
	return 0;
}

static void term_usage(const struct inc_engine *e, struct inc_engine_usage *out)
{
	const struct term_engine *t = const_engine_of(e);
	uint32_t i;

	*out = (struct inc_engine_usage){
		.communicators_limit = t->n_places,
		.connections = connections_of(t),
		.connections_limit = t->max_connections,
	};
	for (i = 0; i < t->n_places; i++)
		out->communicators += t->place[i] != NULL;
}

static bool term_comm(const struct inc_engine *e, uint32_t place, struct inc_engine_comm *out)
{
	struct place *p = const_engine_of(e)->place[place];

	if (!p)
		return false;
	inc_term_worker_view(p->worker, p->cm, &p->view);
	*out = p->view.comm;
	return true;
}

static void term_conn(const struct inc_engine *e, uint32_t place, uint32_t i,
		      struct inc_engine_conn *out)
{
	const struct term_engine *t = const_engine_of(e);
	const struct place *p = t->place[place];

	*out = p->view.conn[i];
	memcpy(out->port, t->port[p->port[i]].name, sizeof(out->port));
}

static bool term_waiting(const struct inc_engine *e, uint32_t place, struct inc_engine_waiting *out)
{
	const struct place *p = const_engine_of(e)->place[place];

	*out = p->view.waiting;
	return p->view.waits;
}

static struct inc_term_counters count_all(const struct term_engine *t)
{
	struct inc_term_counters sum = t->gone;
	uint32_t i;

	for (i = 0; i < t->n_places; i++) {
		struct place *p = t->place[i];

		if (!p)
			continue;
		inc_term_worker_view(p->worker, p->cm, &p->view);
		inc_term_counters_add(&sum, &p->view.counters);
	}
	for (i = 0; i < t->n_workers; i++) {
		const struct inc_channel_device_figures f = inc_term_worker_figures(t->worker[i]);

		sum.strangers += f.strangers;
		sum.wrong_port += f.wrong_port;
		sum.damaged += f.damaged;
	}
	return sum;
}

#define _(class, name, shown, text) +1
_Static_assert(INC_CTR_MAX INC_TERM_COUNTERS(_) <= INC_ENGINE_COUNTERS,
	       "both engines' counters have a place, had none of them the same name");
#undef _

static int term_counters(const struct inc_engine *e, struct inc_engine_counters *out,
			 struct inc_err *err)
{
	const struct inc_term_counters sum = count_all(const_engine_of(e));
	const struct inc_engine_counter counters[] = {
#define _(class, name, shown, text) {#shown, #class[0], text, sum.name},
		INC_TERM_COUNTERS(_)
#undef _
	};

	*out = (struct inc_engine_counters){
		.received = sum.received,
		.absorbed = sum.kept,
		.dropped = sum.dropped,
		.multicast = sum.results + sum.from_parent + sum.partials,
	};
	out->balanced = out->received == out->absorbed + out->dropped + out->multicast;
	out->n = sizeof(counters) / sizeof(counters[0]);
	memcpy(out->counter, counters, sizeof(counters));
	return 0;
}

static void term_tell_status(const struct inc_engine *e, json_t *status)
{
	const struct own_figures u = usage_of(const_engine_of(e));
	json_t *own = json_object();

	inc_metric_json(INC_METRICS(term_metrics), &u, own);
	json_object_set_new(own, "kernels", json_string(inc_reduce_set()));
	json_object_set_new(status, "termination", own);
}

static void term_tell_metrics(const struct inc_engine *e, json_t *families)
{
	const struct own_figures u = usage_of(const_engine_of(e));

	inc_metric_sample(families, "termination", INC_METRICS(term_metrics), &u, NULL);
}

static void term_log_totals(const struct inc_engine *e)
{
	const struct inc_term_counters c = count_all(const_engine_of(e));

	inc_info("messages: received %llu, sent %llu; packets: received %llu, sent %llu, resent "
		 "%llu, duplicates %llu",
		 (unsigned long long)c.received, (unsigned long long)c.copies,
		 (unsigned long long)c.rx_packets, (unsigned long long)c.tx_packets,
		 (unsigned long long)c.retransmits, (unsigned long long)c.duplicates);
}

const struct inc_engine_ops inc_engine_term = {
	.offer = term_offer,
	.open = term_open,
	.close = term_close,
	.attach_port = term_attach_port,
	.check_port = term_check_port,
	.add_comm = term_add_comm,
	.start_comm = term_start_comm,
	.connect_comm = term_connect_comm,
	.remove_comm = term_remove_comm,
	.usage = term_usage,
	.find = term_find,
	.comm = term_comm,
	.conn = term_conn,
	.waiting = term_waiting,
	.counters = term_counters,
	.tell_status = term_tell_status,
	.tell_metrics = term_tell_metrics,
	.log_totals = term_log_totals,
};
