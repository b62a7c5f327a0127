// SPDX-License-Identifier: BSD-2-Clause
/* The topology of a run: a tree of switches in both modes, the hosts at any of them, and the cables
 * between them. Functions of cluster.c call this before a run's first event. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "cluster.h"
#include "network.h"
#include "sim.h"

/* IP addresses of host n and of its switch's port, and of the two ports of the cable between switch
 * n and its parent. */
#define HOST_ADDR(n)  (0x0a4d0001 + ((uint32_t)(n) << 8))
#define PORT_ADDR(n)  (0x0a4d00fe + ((uint32_t)(n) << 8))
#define LOWER_ADDR(n) (0x0a4d6401 + ((uint32_t)(n) << 8))
#define UPPER_ADDR(n) (0x0a4d6402 + ((uint32_t)(n) << 8))
/* IP address of the port of switch n to a host that no job uses; the host has the address before.
 */
#define STRANGER_ADDR(n) (0x0a4dc802 + ((uint32_t)(n) << 8))

#define THREADS_MOST 4

struct cluster_switch *cluster_switch_of(const struct process *process)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		if (process == &cluster.sw[i].process)
			return &cluster.sw[i];
	return NULL;
}

struct cluster_port *cluster_port_of(const struct host *host)
{
	unsigned int i, p;

	for (i = 0; i < cluster.n_switches; i++)
		for (p = 0; p < cluster.sw[i].ports; p++)
			if (host == &cluster.sw[i].port[p].host)
				return &cluster.sw[i].port[p];
	return NULL;
}

struct host *cluster_peer_of(const struct host *host)
{
	const struct cluster_port *port = cluster_port_of(host);
	unsigned int i;

	if (port)
		return port->peer_host;
	for (i = 0; host != &cluster.host[i].host; i++)
		;
	return &cluster.host[i].port->host;
}

/* --- switches and hosts, as the scenario names them --- */

static struct cluster_port *new_port(struct cluster_switch *sw, uint32_t addr, const char *peer)
{
	struct cluster_port *port = &sw->port[sw->ports];

	port->sw = sw;
	port->number = sw->ports++;
	port->host.addr = htonl(addr);
	port->host.has_timer = true;
	port->host.machine = &sw->process;
	memcpy(port->host.mac, (const uint8_t[]){2, 0, 0, 1, sw->number, port->number}, 6);
	snprintf(port->peer, sizeof(port->peer), "%s", peer);
	return port;
}

static struct cluster_switch *new_switch(void)
{
	struct cluster_switch *sw = &cluster.sw[cluster.n_switches];

	sw->number = cluster.n_switches++;
	sw->threads = 1;
	return sw;
}

static void hang(struct cluster_switch *sw, struct cluster_switch *parent)
{
	char name[8];

	sw->parent = parent;
	snprintf(name, sizeof(name), "s%u", parent->number % 10);
	sw->up_port = new_port(sw, LOWER_ADDR(sw->number), name)->number;
	snprintf(name, sizeof(name), "s%u", sw->number % 10);
	sw->parents_port = new_port(parent, UPPER_ADDR(sw->number), name)->number;
}

static void attach_host(struct cluster_switch *sw)
{
	const unsigned int n = cluster.hosts++;
	char name[8];

	snprintf(name, sizeof(name), "h%u", n % 10);
	cluster.host[n].port = new_port(sw, PORT_ADDR(n), name);
}

/* Adds a host of the topology that no job uses. Forged packets arrive by the port to it. */
static void attach_stranger(struct cluster_switch *sw)
{
	char name[8];

	snprintf(name, sizeof(name), "x%u", sw->number % 10);
	sw->stranger = new_port(sw, STRANGER_ADDR(sw->number), name);
	sw->stranger->host.up = &sw->nowhere;
}

/* A new switch or host must have the next number, and its switch must exist and have room. */
static const char *wrong_place(const struct scenario_line *l)
{
	const bool is_host = l->kind == SCENARIO_HOST;
	const uint64_t at = l->value[l->kind != SCENARIO_STRANGER];

	if (l->kind != SCENARIO_STRANGER &&
	    l->value[0] != (is_host ? cluster.hosts : cluster.n_switches))
		return "the numbers of switches and hosts begin at 0, without gaps";
	if (is_host && cluster.hosts == CLUSTER_HOSTS_MOST)
		return "there are too many hosts";
	if (l->kind != SCENARIO_HOST && cluster.n_switches == CLUSTER_SWITCHES_MOST &&
	    l->kind != SCENARIO_STRANGER)
		return "there are too many switches";
	if (at >= cluster.n_switches)
		return "the switch that it is attached to does not exist";
	if (cluster.sw[at].ports == XDP_PORTS)
		return "the switch that it is attached to has no free port";
	return l->kind == SCENARIO_STRANGER && cluster.sw[at].stranger ? "there is one already"
								       : NULL;
}

const char *cluster_add_line(const struct scenario_line *l)
{
	const uint64_t *v = l->value;
	struct cluster_switch *sw = &cluster.sw[v[0] % CLUSTER_SWITCHES_MOST];
	const char *wrong = NULL;

	switch (l->kind) {
	case SCENARIO_ROOT:
		if (v[0] || cluster.n_switches)
			return "the root is s0, and there is one root";
		new_switch();
		return NULL;
	case SCENARIO_SWITCH:
		wrong = wrong_place(l);
		if (!wrong)
			hang(new_switch(), &cluster.sw[v[1]]);
		return wrong;
	case SCENARIO_HOST:
		wrong = wrong_place(l);
		if (!wrong)
			attach_host(&cluster.sw[v[1]]);
		return wrong;
	case SCENARIO_STRANGER:
		wrong = wrong_place(l);
		if (!wrong)
			attach_stranger(sw);
		return wrong;
	case SCENARIO_MODE:
		sw->mode = sw->own_mode = v[1];
		return NULL;
	case SCENARIO_NAMED:
		sw->named_in_topology = true;
		return NULL;
	case SCENARIO_OWN_MODE:
		sw->own_mode = v[1];
		return sw->named_in_topology
			       ? NULL
			       : "the topology does not name the mode, so the daemon's own counts";
	case SCENARIO_THREADS:
		sw->threads = v[1];
		return v[1] && v[1] <= THREADS_MOST ? NULL : "a daemon has 1 to 4 threads";
	case SCENARIO_HIDES:
		sw->hides_macs = true;
		return NULL;
	case SCENARIO_DEVICES:
		sw->rdma = true;
		return NULL;
	case SCENARIO_DEVICE:
		cluster.host[v[0] % CLUSTER_HOSTS_MOST].rdma = true;
		cluster.rdma_hosts = true;
		return NULL;
	default:
		return NULL; /* the line is not about the topology */
	}
}

/* --- cables --- */

/* Adds a machine's address to the neighbour tables. Some kernels have its MAC address already. */
static void add_neighbour(const struct host *host)
{
	neighbour_add(host->addr, host->mac, sim_chance(500));
}

static void name_cable(char name[8], const char *from, const char *to)
{
	snprintf(name, 8, "%.2s>%.2s", from, to);
}

/* Connects the ports of a host, or of a lower switch, with that of a switch. */
static void plug(struct host *lower, struct cluster_port *upper, struct wire *up, struct wire *down,
		 wire_fn take, void *arg)
{
	const char *name = upper->sw->process.name;
	char text[8];

	name_cable(text, upper->peer, name);
	wire_open(up, text, cluster_switch_receive, upper);
	name_cable(text, name, upper->peer);
	wire_open(down, text, take, arg);
	lower->up = up;
	upper->host.up = down;
	upper->peer_host = lower;
	memcpy(lower->gateway, upper->host.mac, sizeof(lower->gateway));
	memcpy(upper->host.gateway, lower->mac, sizeof(lower->mac));
	host_add(lower);
	host_add(&upper->host);
	add_neighbour(lower);
	add_neighbour(&upper->host);
	cluster_forge_at(upper, up, down);
}

/* A frame arrives at a host, whose network card accepts only frames for its own MAC address. */
static void arrive_at_host(void *arg, const uint8_t *frame, size_t len)
{
	struct host *host = arg;

	if (memcmp(frame, host->mac, sizeof(host->mac)) || !rdma_receive(host, frame, len))
		host_receive(host, frame, len);
}

static void add_device(struct host *host, const char *name, unsigned int n,
		       const struct process *owner)
{
	char text[16];

	snprintf(text, sizeof(text), "%s.rdma%u", name, n);
	rdma_add(host, text, owner);
	cluster_figures.devices++;
}

static void add_host(unsigned int n)
{
	struct host *host = &cluster.host[n].host;

	snprintf(host->process.name, sizeof(host->process.name), "h%u", n % 10);
	memcpy(host->mac, (const uint8_t[]){2, 0, 0, 0, 1, n}, 6);
	host->addr = htonl(HOST_ADDR(n));
	plug(host, cluster.host[n].port, &cluster.host[n].up, &cluster.host[n].down, arrive_at_host,
	     host);
	if (cluster.host[n].rdma)
		add_device(host, host->process.name, 0, NULL);
}

static void drop(void *arg, const uint8_t *frame, size_t len)
{
}

static void add_devices(struct cluster_switch *sw)
{
	unsigned int p;

	for (p = 0; sw->rdma && p < sw->ports; p++)
		add_device(&sw->port[p].host, sw->process.name, p, &sw->process);
}

void cluster_build(void)
{
	unsigned int i;

	for (i = 0; i < cluster.n_switches; i++)
		cluster_switch_open(&cluster.sw[i]);
	for (i = 0; i < cluster.hosts; i++)
		add_host(i);
	for (i = 1; i < cluster.n_switches; i++) {
		struct cluster_switch *sw = &cluster.sw[i];
		struct cluster_port *lower = &sw->port[sw->up_port];

		plug(&lower->host, &sw->parent->port[sw->parents_port], &sw->up, &sw->down,
		     cluster_switch_receive, lower);
		lower->peer_host = &sw->parent->port[sw->parents_port].host;
		if (i % 2)
			cluster_forge_at(lower, &sw->down, &sw->up);
	}
	for (i = 0; i < cluster.n_switches; i++) {
		add_devices(&cluster.sw[i]);
		if (!cluster.sw[i].stranger)
			continue;
		wire_open(&cluster.sw[i].nowhere, "nowhere", drop, NULL);
		host_add(&cluster.sw[i].stranger->host);
		add_neighbour(&cluster.sw[i].stranger->host);
	}
}

/* --- the faults of cables --- */

struct wire *cluster_cable(uint64_t ends)
{
	const unsigned int from = ends >> 8, to = ends & 0xff;
	const unsigned int low = from > to ? from : to, high = from > to ? to : from;
	struct cluster_switch *sw = &cluster.sw[low % CLUSTER_SWITCHES_MOST];
	const unsigned int host = low - SCENARIO_HOST_END(0);

	if (high >= cluster.n_switches)
		return NULL;
	if (low >= SCENARIO_HOST_END(0)) {
		if (host >= cluster.hosts || cluster.host[host].port->sw != &cluster.sw[high])
			return NULL;
		return from == low ? &cluster.host[host].up : &cluster.host[host].down;
	}
	if (low >= cluster.n_switches || sw->parent != &cluster.sw[high])
		return NULL;
	return from == low ? &sw->up : &sw->down;
}

const char *cluster_set_cable(const struct scenario_line *l)
{
	const uint64_t *v = l->value;
	struct wire *wire;

	if (l->kind == SCENARIO_NO_XMIT)
		cluster.sw[v[0] >> 4].port[v[0] & 0xf].xmit_from_ns = sim_now_ns() + v[1];
	if (l->kind == SCENARIO_PACKET_CABLE)
		return cluster_cable(v[1]) ? NULL : "there is no such cable";
	if (l->kind < SCENARIO_DELAY || l->kind > SCENARIO_CABLE_CUT)
		return NULL;
	wire = cluster_cable(v[0]);
	if (!wire)
		return "there is no such cable";
	switch (l->kind) {
	case SCENARIO_DELAY:
		wire->delay_ns = v[1];
		wire->jitter_ns = v[2];
		break;
	case SCENARIO_LOSS:
		wire->lost = v[1];
		wire->burst = v[2];
		return v[2] ? NULL : "a burst has at least one frame";
	case SCENARIO_FAULTY:
		wire->repeated = v[1];
		wire->damaged = v[2];
		wire->delayed = v[3];
		wire->late_ns = v[4];
		break;
	default:
		wire->cut_from_ns = sim_now_ns() + v[1];
		wire->cut_to_ns = sim_now_ns() + v[2];
		break;
	}
	return NULL;
}

/* --- the topology's file --- */

static void write_switch(FILE *f, const struct cluster_switch *sw)
{
	unsigned int p;

	fprintf(f, "  - name: s%u\n", sw->number);
	if (!sw->parent)
		fprintf(f, "    root: true\n");
	if (sw->named_in_topology)
		fprintf(f, "    mode: %s\n", inc_modes_of_switch[sw->mode]);
	fprintf(f, "    ports:\n");
	for (p = 0; p < sw->ports; p++)
		fprintf(f, "      - {name: p%u, ip: %s, peer: %s}\n", p,
			inet_ntoa((struct in_addr){sw->port[p].host.addr}), sw->port[p].peer);
}

void cluster_write_topology(FILE *f)
{
	unsigned int i;

	fprintf(f, "name: cluster\nhosts:\n");
	for (i = 0; i < cluster.hosts; i++)
		fprintf(f, "  - {name: h%u, ip: 10.77.%u.1}\n", i, i);
	for (i = 0; i < cluster.n_switches; i++)
		if (cluster.sw[i].stranger)
			fprintf(f, "  - {name: x%u, ip: %s}\n", i,
				inet_ntoa((struct in_addr){cluster.sw[i].stranger->host.addr -
							   htonl(1)}));
	fprintf(f, "switches:\n");
	for (i = 0; i < cluster.n_switches; i++)
		write_switch(f, &cluster.sw[i]);
	fprintf(f, "defaults: {prefix: 24, mtu: 4200}\n");
}
