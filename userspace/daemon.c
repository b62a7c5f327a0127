/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts and stops all parts of the daemon, and creates and removes communicators. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/notify.h"
#include "lib/check/inspect.h"
#include "lib/proto/roce.h"
#include "userspace/interface.h"
#include "userspace/links.h"
#include "userspace/neighbour.h"
#include "userspace/privileges.h"
#include "userspace/switchd.h"

static int open_ports(struct inc_daemon *d, struct inc_err *err)
{
	const struct inc_settings *s = &d->conf.settings;
	uint32_t i;
	int ret;

	for (i = 0; i < s->n_ports; i++) {
		/* warn before the engine attaches the port, because some drivers then take the link
		 * down for a moment */
		inc_interface_warn_down(s->port[i]);
		ret = inc_ports_attach(d, s->port[i], err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Receives LLDP frames at all ports, some of which may be new interfaces. */
static void watch_neighbours(struct inc_daemon *d)
{
	uint32_t i;

	for (i = 0; i < d->n_ports; i++)
		inc_lldp_watch_port(d->lldp, d->port[i].ifindex);
}

/* Neighbours are only shown, so the switch works without LLDP. */
static void start_lldp(struct inc_daemon *d)
{
	struct inc_err err;

	if (inc_lldp_watch_start(d->base, &d->lldp, &err))
		inc_info("%s", err.msg);
	watch_neighbours(d);
}

static void on_links(void *arg)
{
	struct inc_daemon *d = arg;

	inc_ports_check(d);
	watch_neighbours(d);
	inc_configured_ask(d);
	if (d->client)
		inc_client_check_ports(d->client);
}

/* Replaces the port names in conf by the ports' present names. conf may have the names that the
 * switch was started with, as "hello" and files do. Ports are first looked up by these names,
 * because two ports may have exchanged their names. */
static void call_ports(const struct inc_daemon *d, struct inc_comm_conf *conf)
{
	uint32_t c, i;

	for (c = 0; c < conf->n_conns; c++) {
		char *name = conf->conn[c].port;

		for (i = 0; i < d->n_ports; i++) {
			if (strcmp(d->port[i].given, name) != 0)
				continue;
			strcpy(name, d->port[i].name);
			break;
		}
	}
}

/* Refuses a communicator of the controller that cannot work, because its ports are not as it needs
 * them. Its ranks get the reason at once. A file's communicator is made, because the operator may
 * set up the ports later. */
static int refuse_unfit(const struct inc_daemon *d, const struct inc_comm_conf *conf,
			struct inc_err *err)
{
	struct inc_err why;
	uint32_t conn;
	int ret = d->client ? inc_ports_fit(d, conf, &conn, &why) : 0;

	return ret ? inc_err_set(err, -ret, "communicator %u, rank %u: %s", conf->communicator,
				 conf->conn[conn].rank, why.msg)
		   : 0;
}

int inc_daemon_configure(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct inc_engine *e;
	int ret;

	inc_ports_check(d);
	call_ports(d, conf);
	ret = refuse_unfit(d, conf, err);
	ret = ret ?: inc_engines_add_comm(d, conf, err);
	if (ret)
		return ret;
	e = d->engine[conf->mode];
	if (inc_configured_add(d, conf))
		ret = inc_err_set(err, ENOMEM, "communicator %u: no memory", conf->communicator);
	ret = ret ?: e->ops->start_comm(e, conf->communicator, err);
	if (ret) {
		if (!e->ops->remove_comm(e, conf->communicator, NULL))
			inc_configured_remove(d, conf->communicator);
		return ret;
	}
	inc_info("communicator %u: %s mode, %u connections, payload %u, %u slots",
		 conf->communicator, inc_modes_of_switch[conf->mode], conf->n_conns, conf->payload,
		 conf->slots);
	return 0;
}

int inc_daemon_connect(struct inc_daemon *d, uint32_t communicator, const struct inc_msg_peer *peer,
		       uint32_t n, struct inc_err *err)
{
	struct inc_comm_at at;
	int ret;

	if (!inc_daemon_find_comm(d, communicator, &at))
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	ret = at.engine->ops->connect_comm(at.engine, communicator, peer, n, err);
	if (!ret)
		inc_configured_connect(d, communicator, peer, n);
	return ret;
}

int inc_daemon_remove(struct inc_daemon *d, uint32_t communicator, struct inc_err *err)
{
	struct inc_comm_at at;
	int ret;

	if (!inc_daemon_find_comm(d, communicator, &at))
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	ret = at.engine->ops->remove_comm(at.engine, communicator, err);
	if (ret)
		return ret;
	inc_event_forget(d, communicator);
	inc_configured_remove(d, communicator);
	inc_info("communicator %u removed after %llu results", communicator,
		 (unsigned long long)at.comm.results);
	return 0;
}

static int take_config(struct inc_daemon *d, struct inc_err *err)
{
	struct inc_settings settings = d->opt.settings;
	char host[256] = "";
	int ret;

	if (d->opt.config) {
		ret = inc_config_load(d->opt.config, d->opt.name, &settings, &d->conf, err);
		if (ret)
			return ret;
	} else if (d->opt.name) {
		strncpy(d->conf.name, d->opt.name, sizeof(d->conf.name) - 1);
	} else {
		gethostname(host, sizeof(host) - 1);
		host[strcspn(host, ".")] = 0;
		ret = inc_instance_name_check(host, err);
		if (ret)
			return ret;
		strcpy(d->conf.name, host);
	}
	inc_settings_merge(&settings, &d->conf.settings);
	inc_settings_complete(&settings);
	d->conf.settings = settings;
	strcpy(d->instance, d->conf.name);
	if (d->opt.instance)
		strcpy(d->instance, d->opt.instance);
	return d->opt.config ? inc_config_fits(d->opt.config, &d->conf, err) : 0;
}

static void tell_ready(const struct inc_daemon *d)
{
	static const char text[] = "ready\n";

	inc_info("ready: switch %s, instance %s, %u ports", d->conf.name, d->instance,
		 d->conf.settings.n_ports);
	inc_notify_ready();
	if (d->opt.ready_fd < 0)
		return;
	if (write(d->opt.ready_fd, text, sizeof(text) - 1) < 0)
		inc_warn("--ready-fd %d: %s", d->opt.ready_fd, strerror(errno));
	close(d->opt.ready_fd);
}

/* Whether an engine already has this communicator of the file, configured as the file says. */
static bool is_there(const struct inc_daemon *d, const struct inc_comm_conf *conf)
{
	struct inc_comm_at at;

	return inc_daemon_find_comm(d, conf->communicator, &at) && at.engine->ops->is &&
	       at.engine->ops->is(at.engine, at.place, conf);
}

/* Whether to keep a communicator that the last daemon has left. With a file, this keeps it if the
 * file describes it without any difference. With a controller it always keeps it, because the
 * controller removes communicators that it does not need. */
static bool keeps(const struct inc_daemon *d, uint32_t communicator)
{
	uint32_t i;

	for (i = 0; i < d->conf.n_comms; i++)
		if (d->conf.comm[i].communicator == communicator)
			return is_there(d, &d->conf.comm[i]);
	return d->opt.controller;
}

/* Takes over the communicators that the instance's last daemon has left. */
static int adopt(struct inc_daemon *d, struct inc_err *err)
{
	struct inc_comm_at at;
	struct inc_comm_conf conf;
	int ret = 0;

	INC_FOR_ENGINES (d, e) {
		ret = e->ops->adopt ? e->ops->adopt(e, err) : 0;
		if (ret < 0)
			return ret;
		/* if a later step of the start fails, the communicators stay for the next daemon */
		d->leaving |= ret > 0;
	}
	if (!d->leaving)
		return 0;
	INC_FOR_COMMS (d, &at) {
		at.engine->ops->describe(at.engine, at.place, &conf);
		if (inc_configured_add(d, &conf))
			return inc_err_set(err, ENOMEM, "communicator %u: no memory",
					   at.comm.communicator);
		inc_info("communicator %u: taken over after %llu results", at.comm.communicator,
			 (unsigned long long)at.comm.results);
		ret = keeps(d, at.comm.communicator)
			      ? 0
			      : inc_daemon_remove(d, at.comm.communicator, err);
		if (ret)
			return ret;
	}
	return 0;
}

static int configure_file(struct inc_daemon *d, struct inc_err *err)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; !ret && i < d->conf.n_comms; i++)
		if (!is_there(d, &d->conf.comm[i]))
			ret = inc_daemon_configure(d, &d->conf.comm[i], err);
	return ret;
}

int inc_daemon_start(struct inc_daemon *d, struct inc_err *err)
{
	int ret;

	d->started_at_ns = inc_now_ns();
	d->lock_fd = -1;
	ret = take_config(d, err);
	if (ret || d->opt.check_only)
		return ret;
	d->base = event_base_new();
	if (inc_events_open(d) || !d->base)
		return inc_err_set(err, ENOMEM, "no event loop");
	d->lock_fd = inc_instance_lock(d->instance, err);
	ret = d->lock_fd < 0 ? d->lock_fd : inc_engines_open(d, err);
	ret = ret ?: open_ports(d, err);
	ret = ret ?: adopt(d, err);
	/* look now, because a process without privileges may not look at process 1 */
	d->pins_private = inc_bpffs_is_private();
	if (!ret && d->pins_private && d->engine[INC_PASSTHROUGH])
		inc_warn("%s is mounted in this process's mount namespace alone, as by `ip netns "
			 "exec`: no later daemon can take over the jobs. Start inc-switchd by "
			 "`nsenter --net=/run/netns/NS`",
			 INC_BPFFS);
	/* privileges are dropped here, because from now on the daemon reads what others send */
	ret = ret ?: inc_privileges_drop(inc_engine_shares_ports(d->opt.attach), err);
	ret = ret ?: inc_links_watch_start(d->base, on_links, d, &d->watch, err);
	ret = ret ?: configure_file(d, err);
	if (!ret)
		start_lldp(d);
	if (!ret && d->opt.controller)
		ret = inc_client_start(d, &d->client, err);
	if (!ret && d->conf.settings.metrics_given)
		ret = inc_scrape_start(d->base, d->conf.settings.metrics, inc_figures_part, d,
				       &d->scrape, err);
	/* open the socket for queries last, so that a client that finds the socket finds a switch
	 * that works */
	ret = ret ?: inc_query_server_start(d, &d->server, err);
	if (!ret) {
		d->leaving = false;
		tell_ready(d);
	}
	return ret;
}

/* Reports the communicators that end with this daemon, so that the controller ends their jobs now.
 * Hosts and other switches may have nothing to send to this switch, so they would wait for its
 * results until a time limit. The controller ignores the report of a communicator that had failed
 * before. */
static void report_ends(struct inc_daemon *d)
{
	struct inc_comm_at at;

	INC_FOR_COMMS (d, &at) {
		if (d->leaving && at.engine->ops->leave)
			/* this communicator goes on without the daemon, so its end is not
			 * reported */
			continue;
		inc_event_notice(d, &(struct inc_msg_event){.kind = INC_EVENT_KIND_STOPPED,
							    .communicator = at.comm.communicator,
							    .r = at.comm.results,
							    .message = "the switch stops"});
	}
}

void inc_daemon_stop(struct inc_daemon *d)
{
	/* report only if the start has succeeded, which is so if both objects exist */
	if (d->client && d->server)
		report_ends(d);
	inc_query_server_stop(d->server);
	inc_scrape_stop(d->scrape);
	inc_client_stop(d->client);
	inc_links_watch_stop(d->watch);
	inc_lldp_watch_stop(d->lldp);
	inc_engines_close(d);
	inc_configured_free(d);
	inc_instance_unlock(d->instance, d->lock_fd);
	inc_ndjson_drain_stop(NULL);
	if (d->base)
		event_base_free(d->base);
	inc_events_close(d);
	free(d->addresses);
	inc_config_free(&d->conf);
}
