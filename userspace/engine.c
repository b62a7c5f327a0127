/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The daemon's engines, one for each mode. A mode's engine is opened when a communicator first
 * needs it, because it costs privileges and XDP programs on the ports.
 */
#include <errno.h>
#include <string.h>
#include "loader/inc_limits.h"
#include "userspace/engine.h"
#include "userspace/switchd.h"

static const struct inc_engine_ops *const kinds[INC_N_MODES] = {
	[INC_PASSTHROUGH] = &inc_engine_xdp,
	[INC_TERMINATION] = &inc_engine_term,
};

static struct inc_engine_opts opts_of(struct inc_daemon *d)
{
	return (struct inc_engine_opts){
		.base = d->base,
		.instance = d->instance,
		.options = &d->opt,
		.settings = &d->conf.settings,
		.notice = inc_event_notice,
		.arg = d,
	};
}

/* Opens the engine of a mode, and attaches all ports of the switch to it. */
static int open_mode(struct inc_daemon *d, enum inc_mode_of_switch mode, struct inc_err *err)
{
	const struct inc_engine_opts opts = opts_of(d);
	struct inc_engine *e;
	uint32_t i;
	int ret;

	if (d->engine[mode])
		return 0;
	ret = kinds[mode]->open(&opts, &e, err);
	for (i = 0; !ret && i < d->n_ports; i++) {
		ret = e->ops->attach_port(e, d->port[i].name, err);
		if (ret)
			e->ops->close(e);
	}
	if (ret)
		return ret;
	d->engine[mode] = e;
	/* the engine does not know yet which ports are lost or down */
	inc_ports_check(d);
	return 0;
}

int inc_engines_open(struct inc_daemon *d, struct inc_err *err)
{
	if (d->conf.settings.mode != INC_PASSTHROUGH && !inc_switch_left(d->instance))
		return 0;
	return open_mode(d, INC_PASSTHROUGH, err);
}

void inc_engines_close(struct inc_daemon *d)
{
	INC_FOR_ENGINES (d, e) {
		e->ops->log_totals(e);
		if (d->leaving && e->ops->leave)
			e->ops->leave(e);
		e->ops->close(e);
	}
}

int inc_engines_offer(struct inc_daemon *d, enum inc_mode_of_switch mode,
		      struct inc_msg_engine *out, struct inc_err *err)
{
	const struct inc_engine_opts opts = opts_of(d);

	*out = (struct inc_msg_engine){.mode = mode, .has_limits = true};
	return kinds[mode]->offer(&opts, out, err);
}

bool inc_daemon_next_comm(const struct inc_daemon *d, uint32_t *cursor, struct inc_comm_at *at)
{
	/* each engine numbers its places from 0 to max_comms - 1 */
	const uint32_t places = d->conf.settings.max_comms;

	while (*cursor < INC_N_MODES * places) {
		at->engine = d->engine[*cursor / places];
		at->place = *cursor % places;
		++*cursor;
		if (at->engine && at->engine->ops->comm(at->engine, at->place, &at->comm))
			return true;
	}
	return false;
}

bool inc_daemon_find_comm(const struct inc_daemon *d, uint32_t communicator, struct inc_comm_at *at)
{
	INC_FOR_ENGINES (d, e) {
		const int place = e->ops->find(e, communicator);

		at->engine = e;
		at->place = place;
		if (place >= 0)
			return e->ops->comm(e, place, &at->comm);
	}
	return false;
}

void inc_engines_usage(const struct inc_daemon *d, struct inc_engine_usage *out)
{
	struct inc_engine_usage u;

	*out = (struct inc_engine_usage){};
	INC_FOR_ENGINES (d, e) {
		e->ops->usage(e, &u);
#define _(T, name, unit, kind, text) out->name += u.name;
		INC_USAGE_FIGURES(_, )
#undef _
	}
	/* these two limits hold for all modes together; the other figures come from the engine of
	 * one mode */
	out->communicators_limit = d->conf.settings.max_comms;
	out->connections_limit = d->conf.settings.max_connections;
}

/* Refuses a communicator that has a connection at a lost port, whatever its mode. */
static int check_lost(const struct inc_daemon *d, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	uint32_t i, c;

	for (c = 0; c < conf->n_conns; c++)
		for (i = 0; i < d->n_ports; i++)
			if (d->port[i].condition == INC_PORT_LOST &&
			    !strcmp(d->port[i].name, conf->conn[c].port))
				return inc_err_set(err, ENODEV, "communicator %u, rank %u: %s",
						   conf->communicator, conf->conn[c].rank,
						   d->port[i].reason);
	return 0;
}

/* Checks the limits on communicators and connections, which hold for all modes together. If the
 * communicators of one mode alone fill a limit, nothing is reported here, because that mode's
 * engine reports it with more detail. */
static int check_room(const struct inc_daemon *d, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	const struct inc_engine *e = d->engine[conf->mode];
	struct inc_engine_usage all, own;

	inc_engines_usage(d, &all);
	e->ops->usage(e, &own);
	if (all.communicators >= all.communicators_limit &&
	    own.communicators < all.communicators_limit)
		return inc_err_set(err, ENOSPC,
				   "communicator %u: all %llu places for communicators are in use, "
				   "%llu of them in other modes",
				   conf->communicator, (unsigned long long)all.communicators,
				   (unsigned long long)(all.communicators - own.communicators));
	if (all.connections + conf->n_conns > all.connections_limit &&
	    own.connections + conf->n_conns <= all.connections_limit)
		return inc_err_set(err, ENOSPC,
				   "communicator %u: %u connections are wanted, %llu of %llu are "
				   "free, %llu are in use in other modes",
				   conf->communicator, conf->n_conns,
				   (unsigned long long)(all.connections_limit - all.connections),
				   (unsigned long long)all.connections_limit,
				   (unsigned long long)(all.connections - own.connections));
	return 0;
}

int inc_engines_add_comm(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct inc_comm_at at;
	int ret;

	if (inc_daemon_find_comm(d, conf->communicator, &at))
		return inc_err_set(err, EEXIST, "communicator %u is there already",
				   conf->communicator);
	ret = open_mode(d, conf->mode, err);
	ret = ret ?: check_room(d, conf, err);
	ret = ret ?: check_lost(d, conf, err);
	return ret ?: kinds[conf->mode]->add_comm(d->engine[conf->mode], conf, err);
}

/* Adds a counter to a list of counters. If the list has a counter of that name from the engine of
 * another mode, their values are added up. */
static void add_counter(struct inc_engine_counters *sum, const struct inc_engine_counter *more)
{
	size_t i;

	for (i = 0; i < sum->n; i++)
		if (!strcmp(sum->counter[i].name, more->name)) {
			sum->counter[i].value += more->value;
			return;
		}
	if (sum->n < INC_ENGINE_COUNTERS)
		sum->counter[sum->n++] = *more;
}

int inc_engines_counters(const struct inc_daemon *d, struct inc_engine_counters *out,
			 struct inc_err *err)
{
	struct inc_engine_counters c;
	size_t i;
	int ret;

	*out = (struct inc_engine_counters){.balanced = true};
	INC_FOR_ENGINES (d, e) {
		ret = e->ops->counters(e, &c, err);
		if (ret)
			return ret;
		out->received += c.received;
		out->passed += c.passed;
		out->dropped += c.dropped;
		out->absorbed += c.absorbed;
		out->answered += c.answered;
		out->multicast += c.multicast;
		out->balanced &= c.balanced;
		for (i = 0; i < c.n; i++)
			add_counter(out, &c.counter[i]);
	}
	return 0;
}
