// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/event.h>
#include "cluster_switch.h"
#include "lib/base/opt.h"
#include "lib/base/thread.h"
#include "lib/net/loop.h"
#include "network.h"
#include "process.h"
#include "selftests/unit/frame.h"
#include "sim.h"
#include "userspace/interface.h"
#include "userspace/privileges.h"
#include "userspace/switchd.h"
#include "userspace/term/capabilities.h"

static struct cluster_switch *switches[CLUSTER_SWITCHES_MOST];
/* The switch that is being opened, outside of its daemon. */
static struct cluster_switch *opening;

void __wrap_inc_event_notice(void *d, const struct inc_msg_event *event);
void __real_inc_event_notice(void *d, const struct inc_msg_event *event);
int __wrap_getifaddrs(struct ifaddrs **out);
void __wrap_freeifaddrs(struct ifaddrs *list);
unsigned int __wrap_inc_interface_mtu(const char *ifname);
int __wrap_inc_interface_at(unsigned int ifindex, struct inc_interface_place *out);
int __wrap_inc_interface_find(const char *ifname, struct inc_interface_place *out);
int __wrap_inc_interface_mac(unsigned int ifindex, uint8_t mac[6]);

/* The switch whose daemon runs now; NULL: none. */
static struct cluster_switch *running(void)
{
	unsigned int i;

	for (i = 0; i < CLUSTER_SWITCHES_MOST; i++)
		if (switches[i] && task_process() == &switches[i]->process)
			return switches[i];
	return NULL;
}

struct cluster_switch *cluster_switch_here(void)
{
	struct cluster_switch *sw = opening ?: running();

	sim_require(sw, "a process that is no switch uses a switch's kernel");
	return sw;
}

struct cluster_port *cluster_port_here(const char *ifname)
{
	return &cluster_switch_here()->port[ifname[1] - '0'];
}

/* --- the kernel's network at the ports, for termination mode --- */

const struct inc_channel_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_channel_soft,
	[INC_ENDPOINT_VERBS] = &inc_channel_verbs,
};

struct addresses {
	struct ifaddrs list[2 * XDP_PORTS];
	struct sockaddr_in ip[XDP_PORTS];
	struct sockaddr_ll mac[XDP_PORTS];
	char name[XDP_PORTS][3];
};

/* Lists the IP address and the MAC address of each port. libevent calls this in other processes,
 * which have no list. The list of a host with an RDMA device is empty, so that host does not know
 * which interface is the device's. */
int __wrap_getifaddrs(struct ifaddrs **out)
{
	const struct cluster_switch *sw = running();
	struct addresses *a;
	unsigned int i, n = 0;

	if (!sw && task_process() && rdma_has(task_process())) {
		*out = NULL;
		return 0;
	}
	if (!sw) {
		errno = ENOSYS;
		return -1;
	}
	a = calloc(1, sizeof(*a));
	sim_require(a, "no memory");
	for (i = 0; i < sw->ports; i++) {
		if (!xdp_ifindex_now(sw->xdp, i))
			continue;
		snprintf(a->name[i], sizeof(a->name[i]), "p%u", i % 10);
		a->ip[i] = (struct sockaddr_in){.sin_family = AF_INET,
						.sin_addr.s_addr = sw->port[i].host.addr};
		a->mac[i].sll_family = AF_PACKET;
		memcpy(a->mac[i].sll_addr, sw->port[i].host.mac, 6);
		a->list[n].ifa_addr = (struct sockaddr *)&a->ip[i];
		a->list[n++].ifa_name = a->name[i];
		a->list[n].ifa_addr = (struct sockaddr *)&a->mac[i];
		a->list[n++].ifa_name = a->name[i];
	}
	for (i = 1; i < n; i++)
		a->list[i - 1].ifa_next = &a->list[i];
	*out = n ? a->list : NULL;
	if (!n)
		free(a);
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	free(list); /* the list is the first member of struct addresses */
}

/* A soft endpoint finds its port's interface with these two functions, so that it rejects frames
 * that arrive at another port. */
int __wrap_inc_interface_at(unsigned int ifindex, struct inc_interface_place *out)
{
	const struct cluster_switch *sw = cluster_switch_here();

	*out = (struct inc_interface_place){.ifindex = ifindex};
	return ifindex && xdp_ifindex_now(sw->xdp, xdp_place(ifindex)) == ifindex ? 0 : -ENODEV;
}

int __wrap_inc_interface_find(const char *ifname, struct inc_interface_place *out)
{
	const struct cluster_port *port = cluster_port_here(ifname);

	return __wrap_inc_interface_at(xdp_ifindex_now(port->sw->xdp, port->number), out);
}

/* The daemon follows a change of its port's MAC address by this call. */
int __wrap_inc_interface_mac(unsigned int ifindex, uint8_t mac[6])
{
	struct cluster_port *port;
	struct inc_interface_place place;

	if (__wrap_inc_interface_at(ifindex, &place))
		return -ENODEV;
	port = &cluster_switch_here()->port[xdp_place(ifindex)];
	port->followed = port->host.mac[2];
	memcpy(mac, port->host.mac, sizeof(port->host.mac));
	return 0;
}

unsigned int cluster_switch_sockets(const struct cluster_switch *sw)
{
	return host_sockets(&sw->process);
}

unsigned int cluster_switch_queue_pairs(const struct cluster_switch *sw)
{
	unsigned int i, n = 0;

	for (i = 0; i < sw->ports; i++)
		n += rdma_queue_pairs(&sw->port[i].host);
	return n;
}

/* The kernel delivers a frame to the socket with the frame's destination address, whatever
 * interface the frame arrives by. An RDMA device receives what arrives at its own port. */
static void take_in(const struct cluster_port *at, const uint8_t *frame, size_t len,
		    enum host_from from)
{
	const unsigned int ifindex = xdp_ifindex_now(at->sw->xdp, at->number);
	struct cluster_switch *sw = at->sw;
	unsigned int i;

	for (i = 0; i < sw->ports; i++) {
		struct host *host = &sw->port[i].host;

		if (len < FRAME_UDP || memcmp(frame + FRAME_IP + 16, &host->addr, 4) != 0)
			continue;
		if (i != at->number || !rdma_receive(host, frame, len))
			host_take(host, frame, len, ifindex, from);
	}
}

/* Frames that no XDP program handles reach the kernel's sockets. */
void cluster_switch_take(struct cluster_port *at, const uint8_t *frame, size_t len,
			 enum host_from from)
{
	if (!xdp_receive(at->sw->xdp, at->number, frame, len))
		take_in(at, frame, len, from);
}

/* The port's network card accepts only frames for its own MAC address. */
void cluster_switch_receive(void *arg, const uint8_t *frame, size_t len)
{
	struct cluster_port *at = arg;

	if (len >= FRAME_IP && !memcmp(frame, at->host.mac, sizeof(at->host.mac)) &&
	    !cluster_port_is_away(at->sw, at->number))
		cluster_switch_take(at, frame, len, HOST_FROM_PEER);
}

/* --- other parts of the daemon that use the kernel --- */

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

void inc_interface_driver(const char *ifname, char out[INC_INTERFACE_DRIVER])
{
	snprintf(out, INC_INTERFACE_DRIVER, "simnic");
}

unsigned int inc_interface_speed_mbit(const char *ifname)
{
	return 0;
}

void inc_interface_warn_down(const char *ifname)
{
}

unsigned int __wrap_inc_interface_mtu(const char *ifname)
{
	return WIRE_FRAME_MOST;
}

int inc_interface_addresses(struct inc_addr **out)
{
	*out = NULL;
	return 0;
}

void inc_interface_read_stats(const char *ifname, struct inc_interface_stats *out)
{
	memset(out, 0, sizeof(*out));
}

struct inc_addr inc_interface_first_address(const char *ifname, const struct ifaddrs *addrs)
{
	for (; addrs; addrs = addrs->ifa_next)
		if (addrs->ifa_addr->sa_family == AF_INET && !strcmp(addrs->ifa_name, ifname))
			return inc_addr_of_sockaddr(addrs->ifa_addr);
	return (struct inc_addr){};
}

json_t *inc_interface_json(const char *ifname, const struct ifaddrs *addrs)
{
	const struct cluster_port *port = cluster_port_here(ifname);
	const uint8_t *m = port->host.mac;
	char mac[18] = "";

	if (!port->sw->hides_macs)
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3],
			 m[4], m[5]);
	return json_pack("{s:s, s:s, s:s, s:i}", "name", ifname, "ip",
			 inet_ntoa((struct in_addr){port->host.addr}), "mac", mac, "mtu",
			 WIRE_FRAME_MOST);
}

unsigned int inc_interface_prefix(const char *ifname, const struct ifaddrs *addrs)
{
	return 24;
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

static uint64_t value_of(const struct inc_engine_counters *counters, const char *name)
{
	size_t i;

	for (i = 0; i < counters->n; i++)
		if (!strcmp(counters->counter[i].name, name))
			return counters->counter[i].value;
	return 0;
}

/* Checks that the daemon has counted all forged packets that its sockets have received. */
static void check_forged(struct cluster_switch *sw, const struct inc_daemon *d)
{
	struct inc_engine_counters c;
	struct inc_err err = {""};
	uint64_t given = 0, counted;
	unsigned int i;

	for (i = 0; i < sw->ports; i++)
		given += sw->port[i].host.given_elsewhere + sw->port[i].host.given_strange;
	sim_require(!inc_engines_counters(d, &c, &err), "%s", err.msg);
	counted = value_of(&c, "term_wrong_port") + value_of(&c, "term_strangers") +
		  value_of(&c, "term_damaged");
	sim_require(counted >= given, "%s: of %llu forged packets %llu are counted",
		    sw->process.name, (unsigned long long)given, (unsigned long long)counted);
}

/* --- the daemon's reports --- */

/* The port to the peer that an event is about; NULL: the event names no peer. */
static const struct cluster_port *port_to(const struct inc_daemon *d,
					  const struct inc_msg_event *event)
{
	struct inc_engine_conn conn;
	struct inc_comm_at at;
	uint32_t c;

	if (!inc_daemon_find_comm(d, event->communicator, &at))
		return NULL;
	for (c = 0; c < at.comm.connections; c++) {
		at.engine->ops->conn(at.engine, at.place, c, &conn);
		if (event->n_ranks ? !conn.up && conn.rank == event->ranks[0] : conn.up)
			return conn.port[0] == 'p' ? cluster_port_here(conn.port) : NULL;
	}
	return NULL;
}

/* A switch must not report a peer as unresponsive while its own port to that peer is away. */
void __wrap_inc_event_notice(void *d, const struct inc_msg_event *event)
{
	const struct cluster_port *port =
		event->kind == INC_EVENT_KIND_UNRESPONSIVE ? port_to(d, event) : NULL;

	sim_note(cluster_switch_here()->process.name, inc_event_info[event->kind].name,
		 event->communicator, event->r, 0);
	sim_require(!port || !cluster_port_is_away(port->sw, port->number) ||
			    sim_now_ns() < port->left_at_ns + INC_NSEC_PER_SEC,
		    "%s: %s, and the port to it is away", cluster_switch_here()->process.name,
		    event->message);
	__real_inc_event_notice(d, event);
}

/* --- the daemon --- */

static void settle(const struct cluster_switch *sw, struct inc_options *opt)
{
	struct inc_settings *s = &opt->settings;
	unsigned int i;
	char port[3];

	for (i = 0; i < sw->ports; i++) {
		snprintf(port, sizeof(port), "p%u", i % 10);
		inc_settings_add_port(s, port);
	}
	opt->tls.key = sw->key;
	if (sw->metrics) {
		s->metrics_given = true;
		strcpy(s->metrics, "0.0.0.0:" INC_STR(CLUSTER_METRICS_PORT));
	}
	s->mode_given = true;
	s->mode = sw->own_mode;
	s->threads = sw->threads;
	s->max_comms = CLUSTER_COMMS;
	s->max_connections = CLUSTER_COMMS * XDP_PORTS;
	s->max_rows = CLUSTER_ROWS;
}

/* Runs the daemon as userspace/main.c does, which reacts to signals. */
static void run(void *arg)
{
	struct cluster_switch *sw = arg;
	struct inc_daemon d = {.opt = {.controller = "10.77.255.1", .ready_fd = -1}};
	struct event *stop = NULL;
	struct inc_err err = {""};
	unsigned int i;
	int ret;

	d.opt.name = sw->process.name;
	settle(sw, &d.opt);
	for (i = 0; i < sw->ports; i++)
		sw->port[i].host.given_elsewhere = sw->port[i].host.given_strange = 0;
	sw->stop_fd = descriptor_new();
	ret = inc_daemon_start(&d, &err);
	if (!ret) {
		stop = event_new(d.base, sw->stop_fd, EV_READ, on_stop, d.base);
		ret = stop ? event_add(stop, NULL) : -ENOMEM;
	}
	sw->ready = !ret;
	sw->ready_at_ns = sim_now_ns();
	if (!ret) {
		inc_loop.run(d.base);
		check_forged(sw, &d);
	}
	sw->lacked_port |= ret && lacks_port(sw);
	sim_require(!ret || memory_failed() == &sw->process || lacks_port(sw),
		    "the daemon cannot start: %s", err.msg);
	if (stop)
		event_free(stop);
	inc_daemon_stop(&d);
	close(sw->stop_fd);
	sw->running = sw->ready = false;
	sim_note(sw->process.name, "has ended", -ret, 0, 0);
	if (ret)
		sw->failed(sw);
	else if (sw->ended)
		sw->ended(sw);
}

void cluster_switch_open(struct cluster_switch *sw)
{
	switches[sw->number] = opening = sw;
	snprintf(sw->process.name, sizeof(sw->process.name), "s%u", sw->number % 10);
	sw->process.addr = htonl(0x0a4dff02 + sw->number);
	cluster_xdp_open(sw);
	opening = NULL;
}

void cluster_switch_start(struct cluster_switch *sw)
{
	sim_note(sw->process.name, "starts", 0, 0, 0);
	if (sw->closed) {
		struct xdp *old = sw->xdp;

		opening = sw;
		cluster_xdp_open(sw);
		opening = NULL;
		xdp_inherit(sw->xdp, old);
		xdp_free(old);
	}
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
	inc_signal_fd(sw->stop_fd);
}

void cluster_switch_close(struct cluster_switch *sw)
{
	xdp_free(sw->xdp);
	switches[sw->number] = NULL;
}
