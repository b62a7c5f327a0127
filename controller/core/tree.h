/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tree of a communicator's switches, and the configuration of each of them. route.c makes
 * trees. This file depends on the topology only, so that it can be tested alone.
 */
#ifndef INC_TREE_H
#define INC_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/conf/ranks.h"
#include "lib/metric/metric.h"
#include "lib/proto/rc_end.h"
#include "lib/topology/topology.h"

/* An end of a connection, as the controller stores it. */
struct inc_route_end {
	/* The numbers of the end. The address is left out, because the topology has it. UDP port 0
	 * means 4791, or, if the end is open, that the switch chooses the port. */
	struct inc_rc_end end;
	/* the end's switch is in termination mode and has not sent the end's numbers yet */
	bool open;
	/* queue pair number that the controller has allocated for this end; 0: none */
	uint32_t given;
	uint16_t pkey; /* P_Key of the end of a switch in termination mode; 0: not known yet */
};

struct inc_route_member {
	unsigned int host; /* index of the member's host in the topology */
	struct inc_route_end own;
	uint16_t pkey;
	bool udp_csum;
	struct inc_route_end peer; /* end of the member's switch */
};

struct inc_tree_node {
	unsigned int sw; /* index of the switch in the topology */
	enum inc_mode_of_switch mode;
	int parent;             /* index of the parent node; -1 for the root */
	unsigned int up_port;   /* port of the node's switch that leads to the parent */
	unsigned int down_port; /* port of the parent's switch that leads to this node */
	/* The lowest rank below this node, by which the parent's configuration names the node. */
	unsigned int first_rank;
	/* Number of nodes in the subtree: the node itself and the nodes below, which follow it. */
	unsigned int size;
	unsigned int first_child, n_children; /* range of the node's children in tree->children */
	/* The two ends of the connection to the parent: this switch's own end, and the parent's. */
	struct inc_route_end own, peer;
};

/* A child of a node: a rank on a host of the node's switch, or a switch below. */
struct inc_tree_child {
	bool to_switch;
	union {
		unsigned int node; /* index of the child's node, if to_switch is true */
		unsigned int rank; /* rank on a host of the switch, if to_switch is false */
	};
	unsigned int host; /* index of the rank's host in the topology */
	unsigned int port; /* port of the node's switch that leads to the child */
};

/* A communicator's tree. The array nodes begins with the root, and each node stands right before
 * its subtree. The array children has the children of the first node, then those of the second one,
 * and so on. Each node's children are in the order of its ports. */
struct inc_tree {
	unsigned int n;
	unsigned int n_children;
	unsigned int slots;
	/* True: the load of the tree is counted for its switches and links (route.h). False: the
	 * tree comes from an earlier controller, so only its switches are known, not its shape. */
	bool counted;
	/* By rank, the leader of each of n_ranks ranks, which has the connection of all that it
	 * leads. NULL: each rank has its own connection. */
	unsigned int *leader;
	unsigned int n_ranks;
	struct inc_tree_child *children;
	struct inc_tree_node nodes[];
};

#define INC_LOAD_FIGURES(_, T)                                                 \
	_(T, communicators, "", GAUGE, "communicators that it holds for jobs") \
	_(T, connections, "", GAUGE, "connections of these")                   \
	_(T, slots, "", GAUGE, "slots of these")                               \
	_(T, rows, "", GAUGE, "rows of contributions of these")

/* The resources of a switch that communicators use. */
struct inc_load {
	INC_LOAD_FIGURES(INC_METRIC_FIELD, inc_load)
};
/* Returns the resources that one communicator uses on a switch where it has so many connections,
 * including the one to the parent. */
static inline struct inc_load inc_load_of(unsigned int connections, unsigned int slots)
{
	return (struct inc_load){1, connections, slots, (uint64_t)connections * slots};
}
/* Adds resources to load (sign 1), or subtracts them (sign -1). */
static inline void inc_load_add(struct inc_load *load, struct inc_load more, int sign)
{
	load->communicators += sign * more.communicators;
	load->connections += sign * more.connections;
	load->slots += sign * more.slots;
	load->rows += sign * more.rows;
}

/* Finds the node of a switch in the tree, and returns its index, or -1 if there is none. */
int inc_tree_find(const struct inc_tree *tree, unsigned int sw);

/* Returns the resources that a tree's node uses on its switch. Slots and rows are 0 in termination
 * mode. */
struct inc_load inc_tree_node_takes(const struct inc_tree *tree, unsigned int node);

/* Finds the ranks on hosts of the node's switch and of all switches below it. */
void inc_tree_ranks(const struct inc_tree *tree, unsigned int node, struct inc_ranks *ranks);

/* Gives the tree's connections the ranks of their leaders, of which the tree was made by their
 * order. leader has the leader of each of n ranks. Returns 0 or -ENOMEM. */
int inc_tree_lead(struct inc_tree *tree, const unsigned int *leader, unsigned int n);

/* Finds the ranks behind a child: those below a switch, or a rank with all that it leads. */
void inc_tree_child_ranks(const struct inc_tree *tree, const struct inc_tree_child *child,
			  struct inc_ranks *ranks);

/* Finds the child of a node that the node's switch names by this rank. A switch below is named by
 * the lowest of its ranks. Returns NULL if there is none. */
const struct inc_tree_child *inc_tree_child_of(const struct inc_tree *tree, unsigned int node,
					       unsigned int rank);

/* Prints the path from a node up to the root, such as "s0 > r of 3 switches". If it does not fit
 * into size bytes, the middle of the path is left out. */
void inc_tree_describe(const struct inc_tree *tree, const struct inc_topology *topo,
		       unsigned int node, char *buf, size_t size);

struct inc_route_comm {
	uint32_t communicator;
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	/* the switch keeps contributions ahead of a gap and sends results in any order */
	bool reorder;
	/* Packets of a message, and messages in flight, for switches in termination mode only. */
	unsigned int message_packets, messages;
	enum inc_float_form floats;
	/* the node's switch knows the traffic class of connections in passthrough mode */
	bool has_classes;
	const struct inc_topology *topo;
	const struct inc_tree *tree;
	const struct inc_route_member *(*member)(const void *arg, unsigned int rank);
	/* Returns the MAC address of a switch's port, or NULL if the switch's hello has not named
	 * it. */
	const uint8_t *(*mac)(const void *arg, unsigned int sw, unsigned int port);
	const void *arg;
};

/* Makes the configuration of the switch of a node. The children at one port stand together, and the
 * connection to the parent comes last. Returns 0, or -E2BIG if the switch cannot have so many
 * connections. */
int inc_route_config(const struct inc_route_comm *comm, unsigned int node,
		     struct inc_comm_conf *conf);

#endif
