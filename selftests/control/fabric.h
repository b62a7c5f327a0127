/* SPDX-License-Identifier: BSD-2-Clause */
/* Topology files of fat-trees, for tests and benchmarks. */
#ifndef INC_FABRIC_H
#define INC_FABRIC_H

#include <stddef.h>

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

#endif
