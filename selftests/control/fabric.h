/* SPDX-License-Identifier: BSD-2-Clause */
/* Topology files of fat-trees, for tests and benchmarks. */
#ifndef INC_FABRIC_H
#define INC_FABRIC_H

#include <stddef.h>

/*
 * In each pod every edge switch has a link to each aggregation switch. Each aggregation switch has
 * links to cores of its own: core c is linked to aggregation switch c / cores of every pod. All
 * cores are roots. Hosts h0 to hN are numbered by pod and edge switch.
 */
struct fabric {
	unsigned int pods;
	unsigned int edges;     /* per pod */
	unsigned int hosts;     /* per edge switch */
	unsigned int aggs;      /* per pod */
	unsigned int cores;     /* per aggregation switch */
	unsigned int rate_mbit; /* of every link; 0: not in the file */
};

/* Returns the text, which the caller frees. NULL: no memory. */
char *fabric_text(const struct fabric *shape, size_t *len);

#endif
