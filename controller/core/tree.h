/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator's switches as a tree, and what each of them is told. Made by route.c; computed on
 * the topology alone, so that it can be tested alone.
 */
#ifndef INC_TREE_H
#define INC_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/conf/ranks.h"
#include "lib/metric/metric.h"
#include "lib/topology/topology.h"

/* One side of a queue pair. */
struct inc_route_end {
	uint32_t qpn;
	uint32_t psn;      /* of the first packet this side sends */
	uint16_t udp_port; /* where it receives; 0: 4791, of an open one the switch chooses */
	bool open;         /* a switch's in termination mode, which has not said its numbers yet */
	uint32_t kind;     /* enum inc_endpoint_kind; of a switch in passthrough mode: soft */
	uint32_t given;    /* a number that the controller has taken for it; 0: none */
};

struct inc_route_member {
	unsigned int host; /* of the topology */
	struct inc_route_end own;
	uint16_t pkey;
	bool udp_csum;
	struct inc_route_end sw; /* its switch's side */
};

struct inc_tree_node {
	unsigned int sw; /* of the topology */
	enum inc_mode_of_switch mode;
	int parent;              /* index of a node, -1 for the root */
	unsigned int up_port;    /* to the parent */
	unsigned int down_port;  /* the parent's, to this one */
	unsigned int first_rank; /* lowest rank below: names the child in the parent's config */
	unsigned int size;       /* nodes of its subtree, itself and those that follow it */
	unsigned int first_child, n_children; /* in tree->children */
	struct inc_route_end up;              /* this side of the connection to the parent */
	struct inc_route_end down;            /* the parent's side */
};

/* A rank on a host of its own switch, or a switch below. */
struct inc_tree_child {
	bool to_switch;
	union {
		unsigned int node; /* to_switch */
		unsigned int rank; /* else */
	};
	unsigned int host; /* of the rank, in the topology */
	unsigned int port; /* of the parent */
};

/* Root first, and each node right before its subtree. The children of a node stand in the order of
 * its ports, and the nodes' in the order of the nodes. */
struct inc_tree {
	unsigned int n;
	unsigned int n_children;
	unsigned int slots;
	/* what it takes of switches and links is counted; false: it came from an earlier
	 * controller, and its shape is not known */
	bool counted;
	struct inc_tree_child *children;
	struct inc_tree_node nodes[];
};

#define INC_LOAD_FIGURES(_, T)                                                 \
	_(T, communicators, "", GAUGE, "communicators that it holds for jobs") \
	_(T, connections, "", GAUGE, "connections of these")                   \
	_(T, slots, "", GAUGE, "slots of these")                               \
	_(T, rows, "", GAUGE, "rows of contributions of these")

/* What communicators take of a switch. */
struct inc_load {
	INC_LOAD_FIGURES(INC_METRIC_FIELD, inc_load)
};
/* What a communicator takes where it has so many connections, the one to the parent too. */
static inline struct inc_load inc_load_of(unsigned int connections, unsigned int slots)
{
	return (struct inc_load){1, connections, slots, (uint64_t)connections * slots};
}
/* sign: 1 adds to load, -1 gives back. */
static inline void inc_load_add(struct inc_load *load, struct inc_load more, int sign)
{
	load->communicators += sign * more.communicators;
	load->connections += sign * more.connections;
	load->slots += sign * more.slots;
	load->rows += sign * more.rows;
}

/* The node of a switch, or -1. */
int inc_tree_find(const struct inc_tree *tree, unsigned int sw);

/* What a node takes of its switch; slots and rows are of passthrough mode. */
struct inc_load inc_tree_node_takes(const struct inc_tree *tree, unsigned int node);

/* The ranks at a node's switch and below. */
void inc_tree_ranks(const struct inc_tree *tree, unsigned int node, struct inc_ranks *ranks);

/* The child that a switch calls by this rank (a switch below by the lowest of its ranks), or NULL.
 */
const struct inc_tree_child *inc_tree_child_of(const struct inc_tree *tree, unsigned int node,
					       unsigned int rank);

/* "s0 > r of 3 switches": from the node of a switch up to the root; where that does not fit into
 * size bytes, its middle is left out. */
void inc_tree_describe(const struct inc_tree *tree, const struct inc_topology *topo,
		       unsigned int node, char *buf, size_t size);

struct inc_route_comm {
	uint32_t communicator;
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	/* told to switches in termination mode */
	unsigned int message_packets, messages;
	enum inc_float_form floats;
	const struct inc_topology *topo;
	const struct inc_tree *tree;
	const struct inc_route_member *(*member)(const void *arg, unsigned int rank);
	/* The MAC address of a switch's port, where the switch has said it; NULL elsewhere. */
	const uint8_t *(*mac)(const void *arg, unsigned int sw, unsigned int port);
	const void *arg;
};

/* What one switch is told: children of one port stand together, the connection to the parent
 * comes last. 0, or -E2BIG: more connections than a switch can have. */
int inc_route_config(const struct inc_route_comm *comm, unsigned int node,
		     struct inc_comm_conf *conf);

#endif
