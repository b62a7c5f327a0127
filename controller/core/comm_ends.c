/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The numbers of a communicator's connections: queue pairs, PSNs and UDP ports at both ends. A
 * member's message C has the numbers of its end. The controller allocates the numbers of a
 * passthrough switch. A switch in termination mode chooses its own numbers, so they are unknown
 * until it has confirmed the communicator. Called by comm_config.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/comm_config.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"
#include "lib/base/random.h"

/* A connection of a switch in a communicator's tree, seen from that switch. */
struct link {
	struct inc_route_end *own, *peer;
	unsigned int rank; /* rank by which the node's switch names the connection */
	bool up;
	unsigned int port; /* port of the node's switch to which the connection belongs */
	int to;            /* node of the peer's switch; -1: the peer is a host */
	const struct inc_core_port *to_port;
};

static const struct inc_core_port *port_of(const struct inc_comm *comm, unsigned int node,
					   unsigned int port)
{
	return &comm->group->core->switches[comm->tree->nodes[node].sw]->ports[port];
}

/* Fills in connection i of a node, in the order of the configuration: children first, then the
 * parent. Returns false if the node has no connection i. */
static bool get_link(struct inc_comm *comm, unsigned int n, unsigned int i, struct link *out)
{
	const struct inc_tree *tree = comm->tree;
	struct inc_tree_node *node = &comm->tree->nodes[n], *below;
	const struct inc_tree_child *child = &tree->children[node->first_child + i];

	*out = (struct link){.to = -1};
	if (i == node->n_children && node->parent >= 0) {
		*out = (struct link){.own = &node->own,
				     .peer = &node->peer,
				     .rank = node->first_rank,
				     .up = true,
				     .port = node->up_port,
				     .to = node->parent,
				     .to_port = port_of(comm, node->parent, node->down_port)};
		return true;
	}
	if (i >= node->n_children)
		return false;
	out->port = child->port;
	if (!child->to_switch) {
		out->own = &comm->members[child->rank].route.peer;
		out->peer = &comm->members[child->rank].route.own;
		out->rank = child->rank;
		return true;
	}
	below = &comm->tree->nodes[child->node];
	out->own = &below->peer;
	out->peer = &below->own;
	out->rank = below->first_rank;
	out->to = child->node;
	out->to_port = port_of(comm, child->node, below->up_port);
	return true;
}

/*
 * Chooses whether a switch's end of a connection is a device or a socket. It is a device if the
 * switch's port has one and the peer is a device or a passthrough switch; then the UDP port is
 * 4791. Otherwise it is a socket at any free port, because a device, or another thread of the
 * switch, may use 4791.
 */
static void choose_endpoint(struct inc_comm *comm, unsigned int node, const struct link *l)
{
	const struct inc_core_port *port = port_of(comm, node, l->port);
	const bool device = port->payload[INC_ENDPOINT_VERBS];
	const bool fits = l->to_port ? comm->tree->nodes[l->to].mode == INC_PASSTHROUGH ||
					       l->to_port->payload[INC_ENDPOINT_VERBS]
				     : l->peer->end.udp_port == INC_ROCE_UDP_PORT;

	l->own->open = true;
	l->own->end.kind = device && fits ? INC_ENDPOINT_VERBS : INC_ENDPOINT_SOFT;
	l->own->end.udp_port = fits ? INC_ROCE_UDP_PORT : 0;
}

/* Allocates the numbers of a switch's end of a connection. A device chooses its queue pair numbers
 * itself, so it gets none here. */
static int number_end(struct inc_comm *comm, unsigned int node, const struct link *l)
{
	struct inc_core_switch *sw = comm->group->core->switches[comm->tree->nodes[node].sw];
	int ret;

	*l->own = (struct inc_route_end){};
	ret = inc_random24(&l->own->end.psn, NULL);
	if (ret)
		return ret;
	if (comm->tree->nodes[node].mode == INC_TERMINATION)
		choose_endpoint(comm, node, l);
	if (l->own->end.kind == INC_ENDPOINT_SOFT)
		ret = inc_switch_qpn_get(sw, &l->own->given);
	l->own->end.qpn = l->own->given;
	return ret;
}

int inc_comm_number_ends(struct inc_comm *comm)
{
	struct link l;
	int ret = 0;

	for (unsigned int n = 0; n < comm->tree->n; n++) {
		for (unsigned int i = 0; !ret && get_link(comm, n, i, &l); i++)
			ret = number_end(comm, n, &l);
	}
	return ret;
}

void inc_comm_drop_ends(struct inc_comm *comm)
{
	struct link l;

	for (unsigned int n = 0; comm->tree->counted && n < comm->tree->n; n++) {
		for (unsigned int i = 0; get_link(comm, n, i, &l); i++) {
			inc_switch_qpn_put(comm->group->core->switches[comm->tree->nodes[n].sw],
					   l.own->given);
			/* The connection's numbers are cleared, because another tree may follow and
			 * fail before it has numbers. */
			*l.own = (struct inc_route_end){};
		}
	}
}

/* Checks that the ends of a connection between two switches accept each other's P_Key, as far as it
 * is known. RDMA devices compare the partition, and at least one must be a full member. A switch in
 * passthrough mode compares all bits. Otherwise packets would be dropped without a report. */
static int check_partition(const struct inc_comm *comm, unsigned int node, const struct link *l,
			   struct inc_err *err)
{
	const struct inc_topology *topo = comm->group->core->topo;
	const struct inc_tree_node *nodes = comm->tree->nodes;
	const uint16_t own = l->own->pkey;
	uint16_t peer;
	bool exact;

	if (l->to < 0)
		return 0;
	exact = nodes[l->to].mode == INC_PASSTHROUGH;
	peer = exact ? INC_PKEY_DEFAULT : l->peer->pkey;
	if (!peer || !own || (exact ? peer == own : inc_pkeys_match(peer, own)))
		return 0;
	return inc_err_set(
		err, EINVAL,
		"has the P_Key 0x%04x at port %s, and switch %s, behind that port, has 0x%04x: set "
		"pkey_index in 'verbs' of the topology's ports to indexes of one P_Key, with a "
		"full member at one end",
		own, topo->switches[nodes[node].sw].ports[l->port].name,
		topo->switches[nodes[l->to].sw].name, peer);
}

int inc_comm_take_ends(struct inc_comm *comm, unsigned int node,
		       const struct inc_msg_configured *made, struct inc_err *err)
{
	struct link l;
	unsigned int i;
	int ret;

	if (comm->tree->nodes[node].mode == INC_PASSTHROUGH)
		return 0;
	for (i = 0; get_link(comm, node, i, &l); i++) {
		const struct inc_msg_own *own = &made->conn[i];

		if (i >= made->n_conns || own->rank != l.rank || own->up != l.up)
			return inc_err_set(
				err, EPROTO,
				"confirms other connections than those of its configuration");
		inc_rc_end_update(&l.own->end, &own->own);
		l.own->open = false;
		l.own->pkey = own->pkey;
		ret = check_partition(comm, node, &l, err);
		if (ret)
			return ret;
	}
	return 0;
}

bool inc_comm_list_peers(struct inc_comm *comm, unsigned int node, struct inc_msg_connect *out)
{
	struct link l;

	out->communicator = comm->number;
	out->n_conns = 0;
	for (unsigned int i = 0; get_link(comm, node, i, &l); i++) {
		if (l.to < 0 || comm->tree->nodes[l.to].mode == INC_PASSTHROUGH)
			continue;
		out->conn[out->n_conns++] = (struct inc_msg_peer){
			.rank = l.rank,
			.up = l.up,
			.peer = l.peer->end,
		};
	}
	return out->n_conns;
}
