/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attaches the switch's ports, which all engines share, follows their interfaces, and reports ports
 * that are lost or back. Finds out whether ports are as communicators need them. The daemon calls
 * all functions on its only thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/check/inspect.h"
#include "lib/proto/roce.h"
#include "lib/roce/wire.h"
#include "userspace/interface.h"
#include "userspace/links.h"
#include "userspace/switchd.h"

/* Time without a carrier after which a communicator cannot use the port. Some drivers take the link
 * down for a moment when an XDP program is attached. */
#define NO_CARRIER_NS (2 * INC_NSEC_PER_SEC)

/* Finds the interface of a port: the same interface as before, whatever its name is now. If that is
 * gone, it is one that was created again under the port's last name or first name. A port that had
 * no interface is found by name only, because another interface may have got its index
 * meanwhile. */
static const struct inc_link *link_of(const struct inc_daemon *d,
				      const struct inc_engine_port *port,
				      const struct inc_link *list, int n)
{
	const struct inc_link *link = port->gone ? NULL : inc_link_at(list, n, port->ifindex);
	uint32_t i;

	link = link ?: inc_link_called(list, n, port->name);
	link = link ?: inc_link_called(list, n, port->given);
	for (i = 0; link && i < d->n_ports; i++)
		if (&d->port[i] != port && d->port[i].ifindex == link->ifindex)
			return NULL; /* the interface of that name belongs to another port */
	return link;
}

static void look_at(struct inc_engine_port *port, const struct inc_link *link)
{
	const bool no_carrier = link && link->up && link->no_carrier;

	port->mtu = link ? link->mtu : 0;
	port->no_carrier_at_ns = no_carrier ? port->no_carrier_at_ns ?: inc_now_ns() : 0;
	port->lacks_carrier = no_carrier && inc_now_ns() - port->no_carrier_at_ns >= NO_CARRIER_NS;
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

/* Stores the first address of the port, and the number that stands for all. It is a sum, because
 * the kernel lists addresses in another order after one of them was removed and has come back. */
static void take_addresses(struct inc_engine_port *port, const struct ifaddrs *addrs)
{
	struct inc_addr ip;

	port->ip = inc_interface_first_address(port->name, addrs);
	port->addresses = 0;
	for (; addrs; addrs = addrs->ifa_next) {
		ip = inc_addr_of_sockaddr(addrs->ifa_addr);
		if (!strcmp(addrs->ifa_name, port->name) && inc_addr_is_host(ip))
			port->addresses += inc_addr_hash(ip);
	}
}

/* Sets the port's condition at the start, so that a port which is down already is not reported as
 * going down. */
static void look_first(struct inc_engine_port *port)
{
	struct ifaddrs *addrs;
	struct inc_link *list;
	int n = inc_links_read(&list);
	const struct inc_link *link = n < 0 ? NULL : inc_link_at(list, n, port->ifindex);

	if (link)
		look_at(port, link);
	free(list);
	if (getifaddrs(&addrs))
		return;
	take_addresses(port, addrs);
	freeifaddrs(addrs);
	if (!inc_addr_given(port->ip))
		inc_info("port %s has no address yet (ip addr add ADDRESS/PREFIX dev %s)",
			 port->name, port->name);
}

/* Warns of a port whose driver drops what native XDP redirects to it. For a veth that depends on
 * the order in which its ends were set up. Also warns of a port in a VLAN whose driver removes the
 * tags by which XDP knows the VLAN. */
static void warn_of_driver(const struct inc_daemon *d, const char *ifname)
{
	char command[INC_ADAPTER_FIX];
	struct inc_adapter adapter;
	const char *fix;

	if (!d->engine[INC_PASSTHROUGH] || inc_adapter_read(ifname, &adapter))
		return;
	fix = inc_adapter_fix_tags(&adapter, command);
	if (fix && strcmp(adapter.device, ifname) != 0)
		inc_warn("port %s: the driver of %s removes VLAN tags before XDP sees them, so "
			 "nothing is reduced (%s)",
			 ifname, adapter.device, fix);
	fix = d->conf.settings.generic ? NULL : inc_adapter_fix_xmit(&adapter);
	if (fix)
		inc_warn("port %s: its driver sends no packets that XDP redirects, so results are "
			 "lost until they are retransmitted (%s)",
			 ifname, fix);
}

int inc_ports_attach(struct inc_daemon *d, const char *ifname, struct inc_err *err)
{
	struct inc_engine_port port = {.ifindex = if_nametoindex(ifname)};
	int ret = 0;

	if (!port.ifindex)
		return inc_err_set(err, ENODEV, "port %s does not exist here", ifname);
	if (d->n_ports == INC_MAX_PORTS)
		return inc_err_set(err, ENOSPC, "port %s: at most %d ports", ifname, INC_MAX_PORTS);
	INC_FOR_ENGINES (d, e)
		ret = ret ?: e->ops->attach_port(e, ifname, err);
	if (ret)
		return ret;
	warn_of_driver(d, ifname);
	strncpy(port.name, ifname, sizeof(port.name) - 1);
	strncpy(port.given, ifname, sizeof(port.given) - 1);
	look_first(&port);
	d->port[d->n_ports++] = port;
	return 0;
}

static void report(struct inc_daemon *d, const struct inc_engine_port *port,
		   const struct inc_engine_port *was)
{
	if ((port->condition == INC_PORT_UP && was->condition != INC_PORT_UP) ||
	    strcmp(port->reason, was->reason) != 0)
		inc_event_port(d, port);
}

/*
 * Checks a port in the engine of one mode. seen has the port's condition as it follows from the
 * kernel's report. Each engine receives a copy of seen, because a port that one mode has lost may
 * work in the other. all receives the worst condition, so that no mode creates a communicator on
 * the port.
 */
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

/* Reads the addresses of this machine. Returns true if they have changed. */
static bool read_addresses(struct inc_daemon *d)
{
	struct inc_addr *now;
	const int n = inc_interface_addresses(&now);
	const bool changed =
		n != d->n_addresses || (n > 0 && memcmp(now, d->addresses, n * sizeof(*now)) != 0);

	free(d->addresses);
	d->addresses = now;
	d->n_addresses = n;
	return changed;
}

/* Reads the addresses of each port. Without an answer of the kernel the last ones stay. */
static void read_own_addresses(struct inc_daemon *d)
{
	struct ifaddrs *addrs;
	uint32_t i;

	if (getifaddrs(&addrs))
		return;
	for (i = 0; i < d->n_ports; i++)
		take_addresses(&d->port[i], addrs);
	freeifaddrs(addrs);
}

/* Whether no interface here has the address, as far as the addresses are known. */
static bool is_foreign(const struct inc_daemon *d, struct inc_addr ip)
{
	int i = 0;

	while (i < d->n_addresses && !inc_addr_same(d->addresses[i], ip))
		i++;
	return d->n_addresses > 0 && i == d->n_addresses;
}

void inc_ports_read_mtu(struct inc_daemon *d)
{
	uint32_t i;

	for (i = 0; i < d->n_ports; i++)
		d->port[i].mtu = inc_interface_mtu(d->port[i].name);
	d->ports_changed = true;
}

const struct inc_engine_port *inc_ports_find(const struct inc_daemon *d, const char *name)
{
	uint32_t i;

	for (i = 0; i < d->n_ports; i++)
		if (!strcmp(d->port[i].name, name))
			return &d->port[i];
	return NULL;
}

/* Whether the port is as a connection of the communicator needs it. */
static int check_fit(const struct inc_daemon *d, const struct inc_engine_port *port,
		     const struct inc_comm_conf *conf, const struct inc_conn_conf *c,
		     struct inc_err *err)
{
	const unsigned int need = inc_roce_overhead(c->own.ip) + conf->payload;
	char ip[INC_ADDR_TEXT];

	/* a port that is lost, although its interface is there, lacks something of passthrough mode
	 */
	if (port->condition == INC_PORT_LOST && (port->gone || conf->mode == INC_PASSTHROUGH))
		return inc_err_set(err, ENODEV, "%s", port->reason);
	if (port->condition == INC_PORT_DOWN)
		return inc_err_set(err, ENETDOWN, "%s", port->reason);
	if (port->lacks_carrier)
		return inc_err_set(err, ENOLINK,
				   "port %s has no carrier: connect its cable, and set the other "
				   "end up",
				   port->name);
	if (port->mtu && port->mtu < need)
		return inc_err_set(
			err, EMSGSIZE,
			"port %s: MTU %u is too small for payload %u, whose packets have "
			"up to %u bytes (ip link set dev %s mtu %u)",
			port->name, port->mtu, conf->payload, need, port->name, need);
	if (is_foreign(d, c->own.ip)) {
		inc_addr_text(c->own.ip, ip);
		return inc_err_set(
			err, EADDRNOTAVAIL,
			"port %s: no interface here has %s, so the peer does not find the "
			"switch (ip addr add %s/PREFIX dev %s)",
			port->name, ip, ip, port->name);
	}
	return 0;
}

int inc_ports_fit(const struct inc_daemon *d, const struct inc_comm_conf *conf, uint32_t *conn,
		  struct inc_err *err)
{
	const struct inc_engine_port *port;
	uint32_t c;
	int ret = 0;

	for (c = 0; !ret && c < conf->n_conns; c++) {
		port = inc_ports_find(d, conf->conn[c].port);
		ret = port ? check_fit(d, port, conf, &conf->conn[c], err) : 0;
		*conn = c;
	}
	return ret;
}

/* Whether an earlier connection of the communicator is at the same port. */
static bool is_again(const struct inc_comm_conf *conf, uint32_t conn)
{
	uint32_t c = 0;

	while (strcmp(conf->conn[c].port, conf->conn[conn].port) != 0)
		c++;
	return c < conn;
}

void inc_ports_warn(const struct inc_daemon *d, const struct inc_comm_conf *conf)
{
	const struct inc_engine_port *port;
	struct inc_err err;
	uint32_t c;
	int ret;

	for (c = 0; c < conf->n_conns; c++) {
		port = inc_ports_find(d, conf->conn[c].port);
		ret = port && !is_again(conf, c) ? check_fit(d, port, conf, &conf->conn[c], &err)
						 : 0;
		if (ret == -EMSGSIZE || ret == -EADDRNOTAVAIL)
			inc_warn("communicator %u: %s", conf->communicator, err.msg);
	}
}

/* Whether something has changed on which it depends whether a port is as communicators need it. */
static bool has_changed(const struct inc_engine_port *port, const struct inc_engine_port *was)
{
	return port->condition != was->condition || port->mtu != was->mtu ||
	       strcmp(port->name, was->name) != 0 || strcmp(port->reason, was->reason) != 0 ||
	       port->lacks_carrier != was->lacks_carrier;
}

void inc_ports_check(struct inc_daemon *d)
{
	struct inc_engine_port was, seen, *port;
	const struct inc_link *link;
	struct inc_link *list;
	int n = inc_links_read(&list);
	bool lost, changed = false;
	uint32_t i;

	/* stays until a check can read the interfaces as well */
	d->ports_changed |= read_addresses(d);
	if (n < 0 && d->ports_unread != -n)
		inc_warn("the interfaces cannot be read: %s", strerror(-n));
	d->ports_unread = n < 0 ? -n : 0;
	if (n < 0)
		return;
	for (i = 0; i < d->n_ports; i++) {
		port = &d->port[i];
		was = *port;
		link = link_of(d, port, list, n);
		look_at(port, link);
		seen = *port;
		lost = false;
		INC_FOR_ENGINES (d, e)
			lost |= check_port(e, i, link, &seen, port);
		port->lost = port->condition != INC_PORT_UP;
		port->losses += was.condition == INC_PORT_UP && (lost || port->lost);
		report(d, port, &was);
		changed |= has_changed(port, &was);
	}
	free(list);
	read_own_addresses(d);
	inc_configured_rename(d);
	if (changed || d->ports_changed)
		inc_configured_watch(d);
	d->ports_changed = false;
}
