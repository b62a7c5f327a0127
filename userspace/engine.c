/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The daemon's engine. It contains one engine for each mode, and forwards each call to the right
 * one. Its places are those of passthrough mode, followed by those of termination mode. A mode's
 * engine is opened when a communicator first needs it, because it costs privileges and XDP programs
 * on the ports.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "loader/inc_limits.h"
#include "userspace/config.h"
#include "userspace/engine.h"
#include "userspace/links.h"
#include "userspace/switchd.h"
#include "userspace/term/term_engine.h"
#include "userspace/xdp/xdp_engine.h"

static const struct inc_engine_ops *const kinds[INC_N_MODES] = {
	[INC_PASSTHROUGH] = &inc_engine_xdp,
	[INC_TERMINATION] = &inc_engine_term,
};

struct multi {
	struct inc_engine base; /* first, because the daemon holds a pointer to it */
	struct inc_engine_opts opts;
	struct inc_engine *engine[INC_N_MODES]; /* NULL: not opened yet */
	uint32_t places[INC_N_MODES];
	struct inc_engine_port port[INC_MAX_PORTS];
	uint32_t n_ports;
	uint32_t max_comms, max_connections; /* of all engines together */
	int unread; /* errno of the last attempt to read the interfaces; 0: it worked */
};

static const struct multi *multi_of(const struct inc_engine *e)
{
	return (const struct multi *)e;
}

static int attach(struct inc_engine *e, const char *ifname, struct inc_err *err)
{
	return e->ops->attach_port(e, ifname, err);
}

/* Opens the engine of a mode, and attaches all ports of the switch to it. */
static int open_mode(struct multi *multi, enum inc_mode_of_switch mode, struct inc_err *err)
{
	struct inc_engine *e;
	uint32_t i;
	int ret;

	if (multi->engine[mode])
		return 0;
	ret = kinds[mode]->open(&multi->opts, &e, err);
	for (i = 0; !ret && i < multi->n_ports; i++) {
		ret = attach(e, multi->port[i].name, err);
		if (ret)
			e->ops->close(e);
	}
	if (!ret)
		multi->engine[mode] = e;
	return ret;
}

static void multi_close(struct inc_engine *e)
{
	struct multi *multi = (struct multi *)e;
	uint32_t m;

	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m])
			multi->engine[m]->ops->close(multi->engine[m]);
	free(multi);
}

static void multi_leave(struct inc_engine *e)
{
	struct multi *multi = (struct multi *)e;
	uint32_t m;

	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m] && kinds[m]->leave)
			kinds[m]->leave(multi->engine[m]);
}

static int multi_adopt(struct inc_engine *e, struct inc_err *err)
{
	struct multi *multi = (struct multi *)e;
	int ret = 0, n = 0;
	uint32_t m;

	for (m = 0; ret >= 0 && m < INC_N_MODES; m++) {
		ret = multi->engine[m] && kinds[m]->adopt ? kinds[m]->adopt(multi->engine[m], err)
							  : 0;
		n += ret;
	}
	return ret < 0 ? ret : n;
}

/* Finds the interface of a port: the same one as before, whatever its name is now, else one that
 * was created again under the port's last name or its first name. A port that was gone is found by
 * name only, because another interface may have received its index meanwhile. */
static const struct inc_link *link_of(const struct multi *multi, const struct inc_engine_port *port,
				      const struct inc_link *list, int n)
{
	const struct inc_link *link = port->gone ? NULL : inc_link_at(list, n, port->ifindex);
	uint32_t i;

	link = link ?: inc_link_called(list, n, port->name);
	link = link ?: inc_link_called(list, n, port->given);
	for (i = 0; link && i < multi->n_ports; i++)
		if (&multi->port[i] != port && multi->port[i].ifindex == link->ifindex)
			return NULL; /* the interface is another port's */
	return link;
}

static void look_at(struct inc_engine_port *port, const struct inc_link *link)
{
	port->condition = !link ? INC_PORT_LOST : link->up ? INC_PORT_UP : INC_PORT_DOWN;
	port->gone = !link;
	port->reason[0] = '\0';
	if (!link)
		snprintf(
			port->reason, sizeof(port->reason),
			"port %s: its interface is gone: make it again, or move it back from where "
			"it is (ip link set %s netns %d)",
			port->name, port->name, getpid());
	else if (!link->up)
		snprintf(port->reason, sizeof(port->reason),
			 "port %s is down (ip link set dev %s up)", link->name, link->name);
	if (!link)
		return;
	if (strcmp(port->name, link->name) != 0)
		inc_warn("port %s is called %s now", port->name, link->name);
	else if (port->ifindex != link->ifindex)
		inc_info("port %s: its interface has been made again", port->name);
	snprintf(port->name, sizeof(port->name), "%s", link->name);
	port->ifindex = link->ifindex;
}

/* Sets the port's condition at the start, so that a port which is down already is not reported as
 * going down. */
static void look_first(struct inc_engine_port *port)
{
	struct inc_link *list;
	int n = inc_links_read(&list);
	const struct inc_link *link = n < 0 ? NULL : inc_link_at(list, n, port->ifindex);

	if (link)
		look_at(port, link);
	free(list);
}

static int multi_attach_port(struct inc_engine *e, const char *ifname, struct inc_err *err)
{
	struct multi *multi = (struct multi *)e;
	struct inc_engine_port port = {.ifindex = if_nametoindex(ifname)};
	uint32_t m;
	int ret = 0;

	if (!port.ifindex)
		return inc_err_set(err, ENODEV, "port %s does not exist here", ifname);
	if (multi->n_ports == INC_MAX_PORTS)
		return inc_err_set(err, ENOSPC, "port %s: at most %d ports", ifname, INC_MAX_PORTS);
	for (m = 0; !ret && m < INC_N_MODES; m++)
		if (multi->engine[m])
			ret = attach(multi->engine[m], ifname, err);
	if (ret)
		return ret;
	strncpy(port.name, ifname, sizeof(port.name) - 1);
	strncpy(port.given, ifname, sizeof(port.given) - 1);
	look_first(&port);
	multi->port[multi->n_ports++] = port;
	return 0;
}

static void report(const struct multi *multi, const struct inc_engine_port *port,
		   const struct inc_engine_port *was)
{
	char text[IF_NAMESIZE + 32];

	if (port->condition == INC_PORT_UP && was->condition != INC_PORT_UP) {
		snprintf(text, sizeof(text), "port %s is back", port->name);
		inc_event_port(multi->opts.arg, INC_EVENT_KIND_PORT_BACK, text);
	} else if (strcmp(port->reason, was->reason) != 0) {
		inc_event_port(multi->opts.arg, INC_EVENT_KIND_PORT_LOST, port->reason);
	}
}

/* Checks a port in the engine of one mode. seen has the condition that follows from the kernel's
 * report. Each engine receives a copy of it, because a port that one mode has lost may work in the
 * other. all receives the worst condition, so that no mode creates a communicator on the port. */
static bool check_port(struct inc_engine *e, size_t i, const struct inc_link *link,
		       const struct inc_engine_port *seen, struct inc_engine_port *all)
{
	struct inc_engine_port own = *seen;
	const bool lost = e->ops->check_port(e, i, link, &own);

	if (own.condition > all->condition) {
		all->condition = own.condition;
		memcpy(all->reason, own.reason, sizeof(all->reason));
	}
	return lost;
}

static void multi_check_ports(struct inc_engine *e)
{
	struct multi *multi = (struct multi *)e;
	struct inc_engine_port was, seen, *port;
	const struct inc_link *link;
	struct inc_link *list;
	int n = inc_links_read(&list);
	bool lost;
	uint32_t i, m;

	if (n < 0 && multi->unread != -n)
		inc_warn("the interfaces cannot be read: %s", strerror(-n));
	multi->unread = n < 0 ? -n : 0;
	if (n < 0)
		return;
	for (i = 0; i < multi->n_ports; i++) {
		port = &multi->port[i];
		was = *port;
		link = link_of(multi, port, list, n);
		look_at(port, link);
		seen = *port;
		lost = false;
		for (m = 0; m < INC_N_MODES; m++)
			if (multi->engine[m])
				lost |= check_port(multi->engine[m], i, link, &seen, port);
		port->lost = port->condition != INC_PORT_UP;
		port->losses += was.condition == INC_PORT_UP && (lost || port->lost);
		report(multi, port, &was);
	}
	free(list);
}

static bool multi_port(const struct inc_engine *e, size_t i, struct inc_engine_port *out)
{
	const struct multi *multi = multi_of(e);

	if (i >= multi->n_ports)
		return false;
	*out = multi->port[i];
	return true;
}

/* Returns the engine of the mode to which a place belongs, and changes *place to that engine's own
 * numbering. */
static const struct inc_engine *engine_of_place(const struct inc_engine *e, uint32_t *place)
{
	const struct multi *multi = multi_of(e);
	uint32_t m = 0;

	while (*place >= multi->places[m])
		*place -= multi->places[m++];
	return multi->engine[m];
}

static uint32_t multi_places(const struct inc_engine *e)
{
	const struct multi *multi = multi_of(e);
	uint32_t m, n = 0;

	for (m = 0; m < INC_N_MODES; m++)
		n += multi->places[m];
	return n;
}

static int multi_find(const struct inc_engine *e, uint32_t communicator)
{
	const struct multi *multi = multi_of(e);
	uint32_t m, before = 0;
	int place;

	for (m = 0; m < INC_N_MODES; before += multi->places[m++]) {
		if (!multi->engine[m])
			continue;
		place = multi->engine[m]->ops->find(multi->engine[m], communicator);
		if (place >= 0)
			return before + place;
	}
	return -ENOENT;
}

static void multi_usage(const struct inc_engine *e, struct inc_engine_usage *out)
{
	const struct multi *multi = multi_of(e);
	struct inc_engine_usage u;
	uint32_t m;

	*out = (struct inc_engine_usage){};
	for (m = 0; m < INC_N_MODES; m++) {
		if (!multi->engine[m])
			continue;
		kinds[m]->usage(multi->engine[m], &u);
#define _(T, name, unit, kind, text) out->name += u.name;
		INC_USAGE_FIGURES(_, )
#undef _
	}
	/* all modes share these two limits; each of the other figures belongs to one mode */
	out->communicators_limit = multi->max_comms;
	out->connections_limit = multi->max_connections;
}

/* Refuses a communicator of any mode that has a connection at a lost port. */
static int check_lost(const struct multi *multi, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	uint32_t i, c;

	for (c = 0; c < conf->n_conns; c++)
		for (i = 0; i < multi->n_ports; i++)
			if (multi->port[i].condition == INC_PORT_LOST &&
			    !strcmp(multi->port[i].name, conf->conn[c].port))
				return inc_err_set(err, ENODEV, "communicator %u, rank %u: %s",
						   conf->communicator, conf->conn[c].rank,
						   multi->port[i].reason);
	return 0;
}

/* Checks the limits on communicators and connections, which hold for all modes together. If the
 * communicators of its own mode alone fill the limit, the engine of that mode reports that with
 * more detail, so it is not reported here. */
static int check_room(const struct inc_engine *e, const struct inc_comm_conf *conf,
		      struct inc_err *err)
{
	const struct inc_engine *its = multi_of(e)->engine[conf->mode];
	struct inc_engine_usage all, own;

	multi_usage(e, &all);
	its->ops->usage(its, &own);
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

static int multi_add_comm(struct inc_engine *e, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct multi *multi = (struct multi *)e;
	int ret;

	if (multi_find(e, conf->communicator) >= 0)
		return inc_err_set(err, EEXIST, "communicator %u is there already",
				   conf->communicator);
	ret = open_mode(multi, conf->mode, err);
	ret = ret ?: check_room(e, conf, err);
	ret = ret ?: check_lost(multi, conf, err);
	return ret ?: kinds[conf->mode]->add_comm(multi->engine[conf->mode], conf, err);
}

/* Returns the engine that has the communicator, or NULL, with an error in err. */
static struct inc_engine *engine_of_comm(struct inc_engine *e, uint32_t communicator,
					 struct inc_err *err)
{
	int found = multi_find(e, communicator);
	uint32_t place = found;

	if (found >= 0)
		return (struct inc_engine *)engine_of_place(e, &place);
	inc_err_set(err, ENOENT, "no communicator %u", communicator);
	return NULL;
}

static int multi_start_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct inc_engine *its = engine_of_comm(e, communicator, err);

	return its ? its->ops->start_comm(its, communicator, err) : -ENOENT;
}

static int multi_connect_comm(struct inc_engine *e, uint32_t communicator,
			      const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err)
{
	struct inc_engine *its = engine_of_comm(e, communicator, err);

	return its ? its->ops->connect_comm(its, communicator, peer, n, err) : -ENOENT;
}

static int multi_remove_comm(struct inc_engine *e, uint32_t communicator, struct inc_err *err)
{
	struct inc_engine *its = engine_of_comm(e, communicator, err);

	return its ? its->ops->remove_comm(its, communicator, err) : -ENOENT;
}

static bool multi_comm(const struct inc_engine *e, uint32_t place, struct inc_engine_comm *out)
{
	const struct inc_engine *its = engine_of_place(e, &place);

	return its && its->ops->comm(its, place, out);
}

static void multi_conn(const struct inc_engine *e, uint32_t place, uint32_t i,
		       struct inc_engine_conn *out)
{
	const struct inc_engine *its = engine_of_place(e, &place);

	its->ops->conn(its, place, i, out);
}

static void multi_describe(const struct inc_engine *e, uint32_t place, struct inc_comm_conf *out)
{
	const struct inc_engine *its = engine_of_place(e, &place);

	its->ops->describe(its, place, out);
}

static bool multi_is(const struct inc_engine *e, uint32_t place, const struct inc_comm_conf *conf)
{
	const struct inc_engine *its = engine_of_place(e, &place);

	return its->ops->is && its->ops->is(its, place, conf);
}

static bool multi_waiting(const struct inc_engine *e, uint32_t place,
			  struct inc_engine_waiting *out)
{
	const struct inc_engine *its = engine_of_place(e, &place);

	return its->ops->waiting(its, place, out);
}

/* Adds a counter to the one of the same name, if another mode's engine has counted it, too. */
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

static int multi_counters(const struct inc_engine *e, struct inc_engine_counters *out,
			  struct inc_err *err)
{
	const struct multi *multi = multi_of(e);
	struct inc_engine_counters c;
	uint32_t m;
	size_t i;
	int ret;

	*out = (struct inc_engine_counters){.balanced = true};
	for (m = 0; m < INC_N_MODES; m++) {
		if (!multi->engine[m])
			continue;
		ret = kinds[m]->counters(multi->engine[m], &c, err);
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

static void multi_tell_status(const struct inc_engine *e, json_t *status)
{
	const struct multi *multi = multi_of(e);
	uint32_t m;

	json_object_set_new(status, "mode",
			    json_string(inc_modes_of_switch[multi->opts.settings->mode]));
	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m])
			kinds[m]->tell_status(multi->engine[m], status);
}

static void multi_tell_port(const struct inc_engine *e, size_t i, json_t *port)
{
	const struct multi *multi = multi_of(e);
	uint32_t m;

	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m] && kinds[m]->tell_port)
			kinds[m]->tell_port(multi->engine[m], i, port);
}

static void multi_tell_metrics(const struct inc_engine *e, json_t *families)
{
	const struct multi *multi = multi_of(e);
	uint32_t m;

	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m])
			kinds[m]->tell_metrics(multi->engine[m], families);
}

static void multi_log_totals(const struct inc_engine *e)
{
	const struct multi *multi = multi_of(e);
	uint32_t m;

	for (m = 0; m < INC_N_MODES; m++)
		if (multi->engine[m])
			kinds[m]->log_totals(multi->engine[m]);
}

static const struct inc_engine_ops multi_ops = {
	.close = multi_close,
	.leave = multi_leave,
	.adopt = multi_adopt,
	.describe = multi_describe,
	.is = multi_is,
	.attach_port = multi_attach_port,
	.port = multi_port,
	.check_ports = multi_check_ports,
	.add_comm = multi_add_comm,
	.start_comm = multi_start_comm,
	.connect_comm = multi_connect_comm,
	.remove_comm = multi_remove_comm,
	.usage = multi_usage,
	.places = multi_places,
	.find = multi_find,
	.comm = multi_comm,
	.conn = multi_conn,
	.waiting = multi_waiting,
	.counters = multi_counters,
	.tell_status = multi_tell_status,
	.tell_port = multi_tell_port,
	.tell_metrics = multi_tell_metrics,
	.log_totals = multi_log_totals,
};

int inc_engine_open(const struct inc_engine_opts *opts, struct inc_engine **out,
		    struct inc_err *err)
{
	struct multi *multi = calloc(1, sizeof(*multi));
	int ret = 0;

	if (!multi)
		return inc_err_set(err, ENOMEM, "no memory for an engine");
	multi->base.ops = &multi_ops;
	multi->opts = *opts;
	multi->max_comms = opts->settings->max_comms;
	multi->max_connections = opts->settings->max_connections;
	multi->places[INC_PASSTHROUGH] = multi->places[INC_TERMINATION] = multi->max_comms;
	if (opts->settings->mode == INC_PASSTHROUGH || inc_switch_left(opts->instance))
		ret = open_mode(multi, INC_PASSTHROUGH, err);
	if (ret) {
		free(multi);
		return ret;
	}
	*out = &multi->base;
	return 0;
}

int inc_engine_offer(const struct inc_engine *e, enum inc_mode_of_switch mode,
		     struct inc_msg_engine *out, struct inc_err *err)
{
	*out = (struct inc_msg_engine){.mode = mode, .has_limits = true};
	return kinds[mode]->offer(&multi_of(e)->opts, out, err);
}

int inc_engine_find(const struct inc_engine *e, uint32_t communicator, struct inc_engine_comm *comm)
{
	int place = e->ops->find(e, communicator);

	if (place >= 0 && !e->ops->comm(e, place, comm))
		return -ENOENT;
	return place;
}
