/* SPDX-License-Identifier: BSD-2-Clause */
/* Topologies for tests and benchmarks, and checks of the trees that a router finds in them. */
#ifndef INC_FABRIC_H
#define INC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include "controller/core/route.h"

/*
 * Shape of a fat-tree. In each pod every edge switch has a link to each aggregation switch. Each
 * aggregation switch has links to its own cores: core c is linked to aggregation switch c / cores
 * of every pod. All cores are roots. Hosts h0 to hN are numbered by pod and edge switch.
 */
struct fabric {
	unsigned int pods;
	unsigned int edges;     /* edge switches per pod */
	unsigned int hosts;     /* hosts per edge switch */
	unsigned int aggs;      /* aggregation switches per pod */
	unsigned int cores;     /* cores per aggregation switch */
	unsigned int rate_mbit; /* rate of every link; 0: the file names no rate */
};

/* Returns the text of the topology file, which the caller frees. Returns NULL if there is no
 * memory. */
char *fabric_text(const struct fabric *shape, size_t *len);

/* Checks by the topology alone, independently of the router. Returns NULL, or what is wrong with
 * the tree of these hosts (by rank). */
const char *tree_wrong(const struct inc_topology *topo, const struct inc_tree *tree,
		       const unsigned int *hosts, unsigned int n_hosts);
/* Returns NULL, or the name of the first switch or link that has a resource in use. */
const char *routes_in_use(const struct inc_topology *topo, const struct inc_routes *routes);

/* A topology of three hosts below a root and a switch, without its name. */

/* clang-format off */
#define TWO_SWITCHES \
	"hosts: [{name: h0, ip: 10.77.0.1}, {name: h1, ip: 10.77.1.1}, {name: h2, ip: 10.77.2.1}]\n" \
	"switches:\n" \
	"- {name: s0, root: true, ports: [{name: p0, ip: 10.77.0.254, peer: h0}," \
	" {name: p1, ip: 10.77.1.254, peer: h1}, {name: t, ip: 10.78.0.1, peer: s1}]}\n" \
	"- {name: s1, ports: [{name: p0, ip: 10.77.2.254, peer: h2}," \
	" {name: t, ip: 10.78.0.2, peer: s0}]}\n" \
	"links: []\n"
/* clang-format on */

#endif
