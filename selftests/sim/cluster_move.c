// SPDX-License-Identifier: BSD-2-Clause
/* Changes of MAC addresses in the middle of a run: of a host, or of a switch's port. A card with a
 * new address drops frames for the old one. */
#include <string.h>
#include "cluster.h"
#include "neighbour.h"
#include "sim.h"

/* Greatest delay until a kernel has learned a peer's new MAC address, and until a daemon is
 * notified of a new one of its own port. */
#define LEARN_MOST_NS  (50 * INC_NSEC_PER_MSEC)
#define FOLLOW_MOST_NS INC_NSEC_PER_MSEC

/* The kernel of the peer learns the new MAC address, for the sockets of its processes. */
static void learn(void *arg, uint64_t unused)
{
	struct host *own = arg, *peer = cluster_peer_of(own);

	if (peer)
		memcpy(peer->gateway, own->mac, sizeof(own->mac));
}

static void notify(void *port, uint64_t unused)
{
	cluster_port_changed(port);
}

static void move(void *arg, uint64_t unused)
{
	struct host *own = arg;
	struct cluster_port *port = cluster_port_of(own);

	own->mac[2]++;
	sim_figures.moves++;
	sim_note(port ? port->sw->process.name : own->process.name, "moves",
		 port ? port->number : 0, own->mac[2], 0);
	neighbour_moves(own->addr, own->mac);
	sim_after(sim_between(0, LEARN_MOST_NS), learn, own, 0);
	if (port)
		sim_after(sim_between(0, FOLLOW_MOST_NS), notify, port, 0);
}

void cluster_move_host(uint64_t at_ns, unsigned int host)
{
	sim_at(at_ns, move, &cluster.host[host].host, 0);
}

void cluster_move_port(uint64_t at_ns, struct cluster_switch *sw, unsigned int port)
{
	sim_at(at_ns, move, &sw->port[port].host, 0);
}
