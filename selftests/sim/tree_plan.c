// SPDX-License-Identifier: BSD-2-Clause
/* The seed's tree: switches, ranks, and the cables between them. Called by tree.c before a run's
 * first event. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "neighbour.h"
#include "sim.h"
#include "tree_priv.h"

#define HOSTS_ADDR    0x0a4d0001 /* of rank 0 */
#define SWITCHES_ADDR 0x0a4d0101 /* of the first switch's first port; 256 to the next switch */

static void hang_switch(struct tree_switch *sw, struct tree_switch *parent)
{
	sw->parent = parent;
	sw->port = (struct daemon_port){&sw->daemon, sw->daemon.ports++};
	sw->there = (struct daemon_port){&parent->daemon, parent->daemon.ports++};
}

static bool is_leaf(const struct tree_switch *sw)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		if (tree.sw[i].parent == sw)
			return false;
	return true;
}

/* Each leaf has a rank; the others are anywhere. */
static void hang_ranks(void)
{
	unsigned int leaves = 0, i, r;

	for (i = 0; i < tree.n_switches; i++)
		leaves += is_leaf(&tree.sw[i]);
	tree.n_ranks = leaves + sim_below(RANKS_MOST + 1 - leaves);
	for (i = 0, r = 0; r < tree.n_ranks; r++) {
		struct tree_rank *rank = &tree.rank[r];

		while (i < tree.n_switches && !is_leaf(&tree.sw[i]))
			i++;
		rank->at = &tree.sw[i < tree.n_switches ? i++ : sim_below(tree.n_switches)];
		rank->port = (struct daemon_port){&rank->at->daemon, rank->at->daemon.ports++};
	}
}

/* Ranks below a switch come in any order. */
static void shuffle_ranks(void)
{
	unsigned int r, other;

	for (r = tree.n_ranks; r > 1; r--) {
		struct tree_switch *at = tree.rank[r - 1].at;
		struct daemon_port port = tree.rank[r - 1].port;

		other = sim_below(r);
		tree.rank[r - 1].at = tree.rank[other].at;
		tree.rank[r - 1].port = tree.rank[other].port;
		tree.rank[other].at = at;
		tree.rank[other].port = port;
	}
}

void tree_plan(void)
{
	unsigned int i;

	tree.n_switches = sim_chance(500) ? 1 : 2 + sim_below(SWITCHES_MOST - 1);
	for (i = 0; i < tree.n_switches; i++) {
		tree.sw[i].number = i;
		if (i)
			hang_switch(&tree.sw[i], &tree.sw[sim_below(i)]);
	}
	hang_ranks();
	shuffle_ranks();
}

static unsigned int number_of(const struct daemon_port *port)
{
	unsigned int i;

	for (i = 0; &tree.sw[i].daemon != port->daemon; i++)
		;
	return i;
}

uint32_t tree_port_addr(const struct daemon_port *port)
{
	return htonl(SWITCHES_ADDR + 256 * number_of(port) + port->port);
}

void tree_port_mac(const struct daemon_port *port, uint8_t mac[6])
{
	memcpy(mac, (const uint8_t[]){2, 0, 0, 1, number_of(port), port->port}, 6);
}

uint32_t tree_slots(uint32_t window)
{
	uint32_t slots = 1;

	while (slots < window * tree.opts.message_packets)
		slots *= 2;
	return slots;
}

static void start_switch(struct tree_switch *sw)
{
	const uint32_t children = sw->daemon.ports - !!sw->parent;
	const uint32_t sets = sw->daemon.ports > 2 ? sw->daemon.ports : 2;
	char name[8];

	sim_require(children, "a switch without children");
	snprintf(name, sizeof(name), "s%u", sw->number);
	sw->daemon.watch = tree_watch;
	sw->daemon.watch_arg = sw;
	daemon_start(&sw->daemon, name, sw->daemon.ports, tree_slots(tree.opts.window) * sets);
}

/* A cable in its two directions. */
static void lay(const char *low, const char *high, struct wire *up, struct daemon_port *top,
		struct wire *down, wire_fn out, void *bottom)
{
	char name[8];

	snprintf(name, sizeof(name), "%.2s>%.2s", low, high);
	wire_init(up, name, daemon_receive, top, tree.faults_end_at_ns);
	snprintf(name, sizeof(name), "%.2s>%.2s", high, low);
	wire_init(down, name, out, bottom, tree.faults_end_at_ns);
	top->daemon->down[top->port] = down;
}

static void know_neighbour(const struct daemon_port *port)
{
	uint8_t mac[6];

	tree_port_mac(port, mac);
	neighbour_add(tree_port_addr(port), mac, sim_chance(500));
}

static void add_switch(struct tree_switch *sw)
{
	lay(sw->daemon.process.name, sw->parent->daemon.process.name, &sw->up, &sw->there,
	    &sw->down, daemon_receive, &sw->port);
	sw->daemon.down[sw->port.port] = &sw->up;
	sw->macs_known = sim_chance(500);
	know_neighbour(&sw->port);
	know_neighbour(&sw->there);
}

static void add_rank(unsigned int number)
{
	struct tree_rank *rank = &tree.rank[number];

	rank->number = number;
	snprintf(rank->host.process.name, sizeof(rank->host.process.name), "h%u", number);
	memcpy(rank->host.mac, (const uint8_t[]){2, 0, 0, 0, 1, number}, 6);
	tree_port_mac(&rank->port, rank->host.gateway);
	rank->host.addr = htonl(HOSTS_ADDR + number);
	rank->host.up = &rank->up;
	lay(rank->host.process.name, rank->at->daemon.process.name, &rank->up, &rank->port,
	    &rank->down, host_receive, &rank->host);
	host_add(&rank->host);
}

void tree_build(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		start_switch(&tree.sw[i]);
	for (i = 1; i < tree.n_switches; i++)
		add_switch(&tree.sw[i]);
	for (i = 0; i < tree.n_ranks; i++)
		add_rank(i);
}
