/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts and stops all parts of the daemon, and creates and removes communicators. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/proto/roce.h"
#include "userspace/instance.h"
#include "userspace/interface.h"
#include "userspace/links.h"
#include "userspace/privileges.h"
#include "userspace/switchd.h"

static int open_engine(struct inc_daemon *d, struct inc_err *err)
{
	const struct inc_engine_opts opts = {
		.base = d->base,
		.instance = d->instance,
		.options = &d->opt,
		.settings = &d->conf.settings,
		.notice = inc_event_notice,
		.arg = d,
	};

	int ret = inc_engine_open(&opts, &d->engine, err);

	if (!ret && inc_configured_init(d))
		ret = inc_err_set(err, ENOMEM, "no memory for communicators");
	return ret;
}

/* Warns if the MTU of connection i's port is too small. Does so at the first connection of each
 * port only. */
static void warn_mtu(const struct inc_comm_conf *conf, uint32_t i)
{
	const unsigned int need = INC_MAX_OVERHEAD + conf->payload;
	const char *port = conf->conn[i].port;
	unsigned int mtu;
	uint32_t k;

	for (k = 0; k < i; k++)
		if (!strcmp(conf->conn[k].port, port))
			return;
	mtu = inc_interface_mtu(port);
	if (mtu && mtu < need)
		inc_warn("port %s: MTU %u is too small for payload %u of communicator %u, whose "
			 "packets have up to %u bytes",
			 port, mtu, conf->payload, conf->communicator, need);
}

static int open_ports(struct inc_daemon *d, struct inc_err *err)
{
	const struct inc_settings *s = &d->conf.settings;
	uint32_t i;
	int ret;

	for (i = 0; i < s->n_ports; i++) {
		/* before the engine attaches the port, because some drivers take the link down for
		 * a moment then */
		inc_interface_warn_down(s->port[i]);
		ret = d->engine->ops->attach_port(d->engine, s->port[i], err);
		if (ret)
			return ret;
	}
	return 0;
}

/* Warns if no interface has the connection's own address. Hosts send ARP requests for it, and the
 * kernel answers only if it has the address. */
static void warn_foreign_address(const struct inc_conn_conf *c)
{
	char text[INET_ADDRSTRLEN];

	if (!inc_interface_has(c->own_ip))
		inc_warn("port %s: no interface here has %s, so rank %u may not find it", c->port,
			 inet_ntop(AF_INET, &c->own_ip, text, sizeof(text)), c->rank);
}

void inc_daemon_check_ports(struct inc_daemon *d)
{
	d->engine->ops->check_ports(d->engine);
	inc_configured_rename(d);
}

static void on_links(void *arg)
{
	inc_daemon_check_ports(arg);
}

/* Replaces the port names in conf by the ports' present names. conf may have the names that the
 * switch was started with, as "hello" and files do. These are looked for first, because two ports
 * may have exchanged their names. */
static void call_ports(const struct inc_daemon *d, struct inc_comm_conf *conf)
{
	struct inc_engine_port port;
	uint32_t c, i;

	for (c = 0; c < conf->n_conns; c++) {
		char *name = conf->conn[c].port;

		for (i = 0; d->engine->ops->port(d->engine, i, &port); i++) {
			if (strcmp(port.given, name) != 0)
				continue;
			strcpy(name, port.name);
			break;
		}
	}
}

int inc_daemon_configure(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err)
{
	struct inc_engine *e = d->engine;
	int ret, place;
	uint32_t i;

	inc_daemon_check_ports(d);
	call_ports(d, conf);
	ret = e->ops->add_comm(e, conf, err);
	if (ret)
		return ret;
	place = e->ops->find(e, conf->communicator);
	if (inc_configured_add(d, place, conf))
		ret = inc_err_set(err, ENOMEM, "communicator %u: no memory", conf->communicator);
	ret = ret ?: e->ops->start_comm(e, conf->communicator, err);
	if (ret) {
		if (!e->ops->remove_comm(e, conf->communicator, NULL))
			inc_configured_remove(d, place);
		return ret;
	}
	for (i = 0; i < conf->n_conns; i++) {
		warn_foreign_address(&conf->conn[i]);
		warn_mtu(conf, i);
	}
	inc_info("communicator %u: %s mode, %u connections, payload %u, %u slots",
		 conf->communicator, inc_modes_of_switch[conf->mode], conf->n_conns, conf->payload,
		 conf->slots);
	return 0;
}

int inc_daemon_connect(struct inc_daemon *d, uint32_t communicator, const struct inc_msg_peer *peer,
		       uint32_t n, struct inc_err *err)
{
	int ret = d->engine->ops->connect_comm(d->engine, communicator, peer, n, err);

	if (!ret)
		inc_configured_connect(d, d->engine->ops->find(d->engine, communicator), peer, n);
	return ret;
}

int inc_daemon_remove(struct inc_daemon *d, uint32_t communicator, struct inc_err *err)
{
	struct inc_engine_comm comm;
	int ret, place;

	place = inc_engine_find(d->engine, communicator, &comm);
	if (place < 0)
		return inc_err_set(err, ENOENT, "no communicator %u", communicator);
	ret = d->engine->ops->remove_comm(d->engine, communicator, err);
	if (ret)
		return ret;
	inc_event_forget(d, communicator);
	inc_configured_remove(d, place);
	inc_info("communicator %u removed after %llu results", communicator,
		 (unsigned long long)comm.results);
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
	if (d->opt.ready_fd < 0)
		return;
	if (write(d->opt.ready_fd, text, sizeof(text) - 1) < 0)
		inc_warn("--ready-fd %d: %s", d->opt.ready_fd, strerror(errno));
	close(d->opt.ready_fd);
}

/* Whether the engine already has this communicator of the file, configured as the file says. */
static bool is_there(const struct inc_daemon *d, const struct inc_comm_conf *conf)
{
	const struct inc_engine *e = d->engine;
	int place = e->ops->find(e, conf->communicator);

	return place >= 0 && e->ops->is(e, place, conf);
}

/* Whether a communicator that the last daemon left is kept. With a file, it is kept if the file
 * describes it without any difference. With a controller it is always kept, because the controller
 * removes what it does not need. */
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
	struct inc_engine *e = d->engine;
	struct inc_engine_comm comm;
	struct inc_comm_conf conf;
	uint32_t place;
	int ret = e->ops->adopt(e, err);

	d->leaving = ret >
		     0; /* so that a start that fails from here on leaves them to the next daemon */
	for (place = 0; ret > 0 && place < e->ops->places(e); place++) {
		if (!e->ops->comm(e, place, &comm))
			continue;
		e->ops->describe(e, place, &conf);
		if (inc_configured_add(d, place, &conf))
			return inc_err_set(err, ENOMEM, "communicator %u: no memory",
					   comm.communicator);
		inc_info("communicator %u: taken over after %llu results", comm.communicator,
			 (unsigned long long)comm.results);
		if (!keeps(d, comm.communicator))
			ret = inc_daemon_remove(d, comm.communicator, err) ?: ret;
	}
	return ret < 0 ? ret : 0;
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
	ret = d->lock_fd < 0 ? d->lock_fd : open_engine(d, err);
	ret = ret ?: open_ports(d, err);
	ret = ret ?: adopt(d, err);
	/* from here on the daemon reads what others send, so it drops privileges that it does not
	 * need */
	ret = ret ?: inc_privileges_drop(inc_engine_shares_ports(d->opt.attach), err);
	ret = ret ?: inc_links_watch_start(d->base, on_links, d, &d->watch, err);
	ret = ret ?: configure_file(d, err);
	if (!ret && d->opt.controller)
		ret = inc_client_start(d, &d->client, err);
	if (!ret && d->conf.settings.metrics_given)
		ret = inc_scrape_start(d->base, d->conf.settings.metrics, inc_figures_part, d,
				       &d->scrape, err);
	/* last, so that a client that finds the socket finds a switch that works */
	ret = ret ?: inc_query_server_start(d, &d->server, err);
	if (!ret) {
		d->leaving = false;
		tell_ready(d);
	}
	return ret;
}

/* Whether a communicator runs on without this daemon. */
static bool outlives(const struct inc_daemon *d, uint32_t place)
{
	return d->leaving && d->comms[place] && d->comms[place]->mode == INC_PASSTHROUGH;
}

/* Reports the communicators that end with this daemon, so that the controller ends their jobs now.
 * Hosts and other switches may have nothing to send to this switch, so they would wait for its
 * results until a time limit. The controller ignores the report of a communicator that had failed
 * before. */
static void report_ends(struct inc_daemon *d)
{
	const struct inc_engine *e = d->engine;
	struct inc_engine_comm comm;

	for (uint32_t place = 0; place < e->ops->places(e); place++) {
		if (!e->ops->comm(e, place, &comm) || outlives(d, place))
			continue;
		inc_event_notice(d, &(struct inc_msg_event){.kind = INC_EVENT_KIND_STOPPED,
							    .communicator = comm.communicator,
							    .r = comm.results,
							    .message = "the switch stops"});
	}
}

void inc_daemon_stop(struct inc_daemon *d)
{
	if (d->client && d->server) /* else the start has failed */
		report_ends(d);
	inc_query_server_stop(d->server);
	inc_scrape_stop(d->scrape);
	inc_client_stop(d->client);
	inc_links_watch_stop(d->watch);
	if (d->engine) {
		d->engine->ops->log_totals(d->engine);
		inc_configured_free(d);
		if (d->leaving)
			d->engine->ops->leave(d->engine);
		d->engine->ops->close(d->engine);
	}
	inc_instance_unlock(d->instance, d->lock_fd);
	inc_ndjson_drain_stop(NULL);
	if (d->base)
		event_base_free(d->base);
	inc_events_close(d);
	inc_config_free(&d->conf);
}
