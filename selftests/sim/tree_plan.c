// SPDX-License-Identifier: BSD-2-Clause
/* The tree of a seed: switches, ranks, and the cables between them. tree.c calls this before a
 * run's first event. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "neighbour.h"
#include "sim.h"
#include "tree_priv.h"

#define HOSTS_ADDR 0x0a4d0001 /* IP address of rank 0 */
/* IP address of the first switch's first port; that of the next switch is greater by 256 */
#define SWITCHES_ADDR 0x0a4d0101

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

/* Gives each leaf switch a rank, and places the other ranks anywhere. */
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

/* Puts the ranks below a switch into a random order. */
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

/* Chooses the modes of the switches. Mostly all switches have the same mode. */
static void choose_modes(void)
{
	const uint32_t kind = sim_below(10);
	unsigned int i, ending = 0;

	for (i = 0; i < tree.n_switches; i++) {
		if (kind >= 8 || (kind >= 6 && sim_chance(500)))
			tree.sw[i].mode = INC_TERMINATION;
		ending += tree.sw[i].mode == INC_TERMINATION;
	}
	tree.mode = !ending                     ? INC_TREE_PASSTHROUGH
		    : ending == tree.n_switches ? INC_TREE_TERMINATION
						: INC_TREE_MIXED;
}

/* Adds a port without a member, by which forged packets arrive. A switch with only one port needs
 * such a port. */
static void add_stranger(struct tree_switch *sw)
{
	sw->has_stranger = sw->daemon.ports == 1 || sim_chance(500);
	sw->daemon.ports += sw->has_stranger;
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
	choose_modes();
	hang_ranks();
	shuffle_ranks();
	tree.forged = sim_chance(250);
	for (i = 0; tree.forged && i < tree.n_switches; i++)
		add_stranger(&tree.sw[i]);
}

struct tree_switch *tree_switch_of(const struct daemon_port *port)
{
	unsigned int i;

	for (i = 0; &tree.sw[i].daemon != port->daemon; i++)
		;
	return &tree.sw[i];
}

uint32_t tree_port_addr(const struct daemon_port *port)
{
	return htonl(SWITCHES_ADDR + 256 * tree_switch_of(port)->number + port->port);
}

void tree_port_mac(const struct daemon_port *port, uint8_t mac[6])
{
	const struct tree_switch *sw = tree_switch_of(port);

	memcpy(mac, (const uint8_t[]){2, 0, sw->moves[port->port], 1, sw->number, port->port}, 6);
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
	const uint32_t peers = sw->daemon.ports - sw->has_stranger;
	const uint32_t children = peers - !!sw->parent;
	const uint32_t sets = peers > 2 ? peers : 2;
	char name[8];

	sim_require(children, "a switch without children");
	snprintf(name, sizeof(name), "s%u", sw->number);
	if (sw->mode == INC_TERMINATION) {
		memcpy(sw->daemon.process.name, name, sizeof(name));
		tree_term_start(sw);
		return;
	}
	sw->daemon.watch = tree_watch;
	sw->daemon.watch_arg = sw;
	sw->daemon.notice = tree_check_notice;
	sw->daemon.follow = tree_follow_macs;
	daemon_start(&sw->daemon, name, sw->daemon.ports,
		     tree_slots(tree.opts.window) * sets * tree.n_comms);
}

/* Makes the kernel's network at a port of a switch in termination mode. */
static void make_host(const struct daemon_port *port)
{
	struct tree_switch *sw = tree_switch_of(port);
	struct host *host = &sw->host[port->port];

	host->addr = tree_port_addr(port);
	/* greater than 1, because interface 1 is loopback */
	host->ifindex = xdp_ifindex(port->port) + XDP_NUMBERS;
	tree_port_mac(port, host->mac);
	host->silent = &sw->silent;
	host->has_timer = true;
	host_add(host);
}

/* Connects both directions of a cable with a switch's port. */
static void plug(struct daemon_port *port, const uint8_t peer_mac[6], const char *peer,
		 struct wire *in, struct wire *out)
{
	struct tree_switch *sw = tree_switch_of(port);
	struct host *host = &sw->host[port->port];
	char name[8];

	snprintf(name, sizeof(name), "%.2s>%.2s", peer, sw->daemon.process.name);
	wire_init(in, name, tree_receive, port, tree.faults_end_at_ns);
	sw->daemon.down[port->port] = out;
	if (sw->mode != INC_TERMINATION)
		return;
	make_host(port);
	memcpy(host->gateway, peer_mac, sizeof(host->gateway));
	host->up = out;
}

static void know_neighbour(const struct daemon_port *port)
{
	uint8_t mac[6];

	tree_port_mac(port, mac);
	neighbour_add(tree_port_addr(port), mac, sim_chance(500));
}

static void add_switch(struct tree_switch *sw)
{
	const char *name = sw->daemon.process.name, *parent = sw->parent->daemon.process.name;
	uint8_t own[6], peer[6];

	tree_port_mac(&sw->port, own);
	tree_port_mac(&sw->there, peer);
	plug(&sw->there, own, name, &sw->up, &sw->down);
	plug(&sw->port, peer, parent, &sw->down, &sw->up);
	sw->macs_known = sim_chance(500);
	know_neighbour(&sw->port);
	know_neighbour(&sw->there);
	tree_forge_at(&sw->there, &sw->up, &sw->down);
	tree_forge_at(&sw->port, &sw->down, &sw->up);
}

static void add_rank(unsigned int number)
{
	struct tree_rank *rank = &tree.rank[number];
	struct host *host = &rank->host;
	char name[8];

	rank->number = number;
	snprintf(host->process.name, sizeof(host->process.name), "h%u", number);
	memcpy(host->mac, (const uint8_t[]){2, 0, 0, 0, 1, number}, 6);
	tree_port_mac(&rank->port, host->gateway);
	host->addr = htonl(HOSTS_ADDR + number);
	host->up = &rank->up;
	plug(&rank->port, host->mac, host->process.name, &rank->up, &rank->down);
	snprintf(name, sizeof(name), "%.2s>%.2s", rank->at->daemon.process.name,
		 host->process.name);
	wire_init(&rank->down, name, host_receive, host, tree.faults_end_at_ns);
	host_add(host);
	neighbour_add(host->addr, host->mac, sim_chance(500));
	tree_forge_at(&rank->port, &rank->up, &rank->down);
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
	for (i = 0; i < tree.n_switches; i++) {
		struct tree_switch *sw = &tree.sw[i];

		if (sw->has_stranger && sw->mode == INC_TERMINATION)
			make_host(&(struct daemon_port){&sw->daemon, sw->daemon.ports - 1});
	}
}
