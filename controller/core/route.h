/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which switches a communicator needs, and what each of them is told. Computed on the
 * topology alone, so that it can be tested alone.
 */
#ifndef INC_ROUTE_H
#define INC_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/topology/topology.h"

/* One side of a queue pair. */
struct inc_route_end {
	uint32_t qpn;
	uint32_t psn; /* of the first packet this side sends */
};

struct inc_route_member {
	unsigned int host; /* of the topology */
	struct inc_route_end own;
	uint16_t udp_port;
	uint16_t pkey;
	bool udp_csum;
	struct inc_route_end sw; /* its switch's side */
};

struct inc_tree_node {
	unsigned int sw;           /* of the topology */
	int parent;                /* index of a node, -1 for the root */
	unsigned int up_port;      /* to the parent */
	unsigned int first_rank;   /* lowest rank below: names the child in the parent's config */
	struct inc_route_end up;   /* this side of the connection to the parent */
	struct inc_route_end down; /* the parent's side */
};

/* Root first, every node after its parent. */
struct inc_tree {
	unsigned int n;
	struct inc_tree_node nodes[];
};

/*
 * The smallest tree that holds the switches of all hosts (indexes into topo->hosts, by
 * rank) on shortest paths to a root of the topology. Its root is the lowest switch that
 * all paths meet, so hosts behind one switch need that switch alone.
 */
int inc_route_compute(const struct inc_topology *topo, const unsigned int *hosts,
		      unsigned int n_hosts, struct inc_tree **tree, struct inc_err *err);

/* Node of the switch a host is attached to, or -1. */
int inc_route_node(const struct inc_tree *tree, const struct inc_topology *topo, unsigned int host);

struct inc_route_comm {
	uint32_t communicator;
	unsigned int payload;
	unsigned int slots;
	enum inc_byte_order byte_order;
	const struct inc_topology *topo;
	const struct inc_tree *tree;
	const struct inc_route_member *(*member)(const void *arg, unsigned int rank);
	const void *arg;
	unsigned int n_members;
};

/* What one switch is told: children of one port stand together, the connection to the parent
 * comes last. 0, or -E2BIG: more connections than a switch can have. */
int inc_route_config(const struct inc_route_comm *comm, unsigned int node,
		     struct inc_comm_conf *conf);

#endif
