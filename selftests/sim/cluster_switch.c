// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <event2/event.h>
#include "cluster_switch.h"
#include "lib/base/opt.h"
#include "lib/base/thread.h"
#include "memory.h"
#include "sim.h"
#include "userspace/instance.h"
#include "userspace/interface.h"
#include "userspace/privileges.h"
#include "userspace/switchd.h"
#include "userspace/term/term_engine.h"

static int stop_fd;

/* --- other parts of the daemon that use the kernel --- */

static int no_offer(const struct inc_engine_opts *opts, struct inc_msg_engine *out,
		    struct inc_err *err)
{
	return inc_err_set(err, EOPNOTSUPP, "not simulated");
}

const struct inc_engine_ops inc_engine_term = {.offer = no_offer};

int inc_privileges_drop(bool shares_ports, struct inc_err *err)
{
	return 0;
}

int inc_instance_name_check(const char *name, struct inc_err *err)
{
	return 0;
}

int inc_instance_lock(const char *instance, struct inc_err *err)
{
	return 0;
}

void inc_instance_unlock(const char *instance, int fd)
{
}

void inc_interface_warn_down(const char *ifname)
{
}

unsigned int __wrap_inc_interface_mtu(const char *ifname);
unsigned int __wrap_inc_interface_mtu(const char *ifname)
{
	return WIRE_FRAME_MOST;
}

bool inc_interface_has(struct in_addr ip)
{
	return true;
}

void inc_interface_read_stats(const char *ifname, struct inc_interface_stats *out)
{
	memset(out, 0, sizeof(*out));
}

json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs)
{
	const struct in_addr ip = {htonl(CLUSTER_PORT_ADDR(ifname[1] - '0'))};
	char mac[18];

	snprintf(mac, sizeof(mac), "02:00:00:00:02:%02x", ifname[1] - '0');
	return json_pack("{s:s, s:s, s:s, s:i}", "name", ifname, "ip", inet_ntoa(ip), "mac", mac,
			 "mtu", WIRE_FRAME_MOST);
}

int inc_query_server_start(struct inc_daemon *d, struct inc_query_server **out, struct inc_err *err)
{
	static char server;

	/* inc_daemon_stop() reports the end of communicators only if a query server exists */
	*out = (struct inc_query_server *)&server;
	return 0;
}

void inc_query_server_stop(struct inc_query_server *s)
{
}

/* --- the switch --- */

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	event_base_loopbreak(arg);
}

/* Is a port of the switch missing? A daemon does not start then. */
static bool lacks_port(const struct cluster_switch *sw)
{
	unsigned int i;

	for (i = 0; i < sw->ports; i++)
		if (!xdp_ifindex_now(sw->xdp, i))
			return true;
	return false;
}

/* Runs the daemon as userspace/main.c does, which reacts to signals. */
static void run(void *arg)
{
	struct cluster_switch *sw = arg;
	struct inc_daemon d = {.opt = {.controller = "10.77.255.1", .name = "s0", .ready_fd = -1}};
	struct event *stop = NULL;
	struct inc_err err = {""};
	unsigned int i;
	char port[3];
	int ret;

	stop_fd = task_fd_new(NULL, NULL);
	for (i = 0; i < sw->ports; i++) {
		snprintf(port, sizeof(port), "p%u", i % 10);
		inc_settings_add_port(&d.opt.settings, port);
	}
	if (sw->tls)
		d.opt.tls.key = CLUSTER_KEY_SWITCH;
	if (sw->metrics) {
		d.opt.settings.metrics_given = true;
		strcpy(d.opt.settings.metrics, "0.0.0.0:" INC_STR(CLUSTER_METRICS_PORT));
	}
	d.opt.settings.max_comms = CLUSTER_COMMS;
	d.opt.settings.max_connections = CLUSTER_COMMS * XDP_PORTS;
	d.opt.settings.max_rows = CLUSTER_ROWS;
	ret = inc_daemon_start(&d, &err);
	if (!ret) {
		stop = event_new(d.base, stop_fd, EV_READ, on_stop, d.base);
		ret = stop ? event_add(stop, NULL) : -ENOMEM;
	}
	sw->ready = !ret;
	sw->ready_at_ns = sim_now_ns();
	if (!ret)
		event_base_dispatch(d.base);
	sw->lacked_port |= ret && lacks_port(sw);
	sim_require(!ret || memory_failed() == &sw->process || lacks_port(sw),
		    "the daemon cannot start: %s", err.msg);
	if (stop)
		event_free(stop);
	inc_daemon_stop(&d);
	task_fd_close(stop_fd);
	sw->running = sw->ready = false;
	sim_note(sw->process.name, "has ended", -ret, 0, 0);
	if (ret)
		sw->failed();
	else if (sw->ended)
		sw->ended();
}

void cluster_switch_open(struct cluster_switch *sw, unsigned int ports)
{
	strcpy(sw->process.name, "s0");
	sw->process.addr = htonl(0x0a4dff02);
	sw->ports = ports;
	cluster_xdp_open(sw);
}

void cluster_switch_start(struct cluster_switch *sw)
{
	sim_note(sw->process.name, "starts", 0, 0, 0);
	if (sw->closed) {
		struct xdp *old = sw->xdp;

		cluster_xdp_open(sw);
		xdp_inherit(sw->xdp, old);
		xdp_free(old);
	}
	sw->adopts = sw->started && !sw->closed;
	sw->started = true;
	sw->closed = false;
	sw->process.dead = false;
	sw->running = true;
	task_new(&sw->process, run, sw);
}

void cluster_switch_kill(struct cluster_switch *sw)
{
	sim_note(sw->process.name, "is killed", 0, 0, 0);
	sim_figures.crashes++;
	sw->running = sw->ready = false;
	task_kill(&sw->process);
	memory_free(&sw->process);
}

void cluster_switch_stop(struct cluster_switch *sw)
{
	inc_signal_fd(stop_fd);
}

void cluster_switch_close(struct cluster_switch *sw)
{
	xdp_free(sw->xdp);
}

void cluster_switch_receive(void *arg, const uint8_t *frame, size_t len)
{
	const struct cluster_port *at = arg;

	if (at->sw->closed)
		return;
	xdp_receive(at->sw->xdp, at->port, frame, len);
}
