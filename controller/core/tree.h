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
	/* The end without its address, which the topology has. UDP port 0 means 4791. If the end is
	 * open, it means that the switch chooses the port. */
	struct inc_rc_end end;
	/* the switch of this end is in termination mode, and has not sent its numbers yet */
	bool open;
	/* queue pair number that the controller has allocated for the end; 0: none */
	uint32_t given;
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
	unsigned int up_port;   /* port of the switch that leads to the parent */
	unsigned int down_port; /* port of the parent that leads to this node */
	/* lowest rank below this node; the parent's configuration names the node by it */
	unsigned int first_rank;
	/* Number of nodes of the subtree: the node itself and those that follow it. */
	unsigned int size;
	unsigned int first_child, n_children; /* range of the node's children in tree->children */
	/* ends of the connection to the parent: this switch's end, and the parent's */
	struct inc_route_end own, peer;
};

/* A child of a node: a rank on a host of the node's switch, or a switch below. */
struct inc_tree_child {
	bool to_switch;
	union {
		unsigned int node; /* index of the child's node, if to_switch is true */
		unsigned int rank; /* rank of the host, if to_switch is false */
	};
	unsigned int host; /* index of the rank's host in the topology */
	unsigned int port; /* port of the parent that leads to the child */
};

/* The array nodes begins with the root, and each node stands right before its subtree. The array
 * children has the children of the first node, then those of the second one, and so on. Each node's
 * children are in the order of its ports. */
struct inc_tree {
	unsigned int n;
	unsigned int n_children;
	unsigned int slots;
	/* The load of the tree is counted for its switches and links (route.h). False: the tree
	 * comes from an earlier controller, so its shape is unknown and only its switches are
	 * listed. */
	bool counted;
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
/* sign: 1 adds to load, -1 subtracts from it. */
static inline void inc_load_add(struct inc_load *load, struct inc_load more, int sign)
{
	load->communicators += sign * more.communicators;
	load->connections += sign * more.connections;
	load->slots += sign * more.slots;
	load->rows += sign * more.rows;
}

/* Finds the index of the switch's node; -1 if there is none. */
int inc_tree_find(const struct inc_tree *tree, unsigned int sw);

/* Returns the resources that a node uses on its switch. Slots and rows are 0 in termination
 * mode. */
struct inc_load inc_tree_node_takes(const struct inc_tree *tree, unsigned int node);

/* Finds the ranks on hosts of the node's switch and of all switches below it. */
void inc_tree_ranks(const struct inc_tree *tree, unsigned int node, struct inc_ranks *ranks);

/* Finds the child that a switch names by this rank, or NULL. A switch below is named by the lowest
 * of its ranks. */
const struct inc_tree_child *inc_tree_child_of(const struct inc_tree *tree, unsigned int node,
					       unsigned int rank);

/* Prints "s0 > r of 3 switches": the path from the node up to the root. If that does not fit into
 * size bytes, the middle of the path is left out. */
void inc_tree_describe(const struct inc_tree *tree, const struct inc_topology *topo,
		       unsigned int node, char *buf, size_t size);

struct inc_route_comm {
	uint32_t communicator;
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	bool reorder; /* contributions are kept and results are sent in any order */
	/* members for switches in termination mode only */
	unsigned int message_packets, messages;
	enum inc_float_form floats;
	const struct inc_topology *topo;
	const struct inc_tree *tree;
	const struct inc_route_member *(*member)(const void *arg, unsigned int rank);
	/* Finds the MAC address of a switch's port; NULL if the switch has not named it. */
	const uint8_t *(*mac)(const void *arg, unsigned int sw, unsigned int port);
	const void *arg;
};

/* Makes the configuration of a node's switch. The children of one port stand together, and the
 * connection to the parent comes last. Returns 0, or -E2BIG if the switch cannot have so many
 * connections. */
int inc_route_config(const struct inc_route_comm *comm, unsigned int node,
		     struct inc_comm_conf *conf);

#endif
