/* SPDX-License-Identifier: BSD-2-Clause */
/* Topology files of fat-trees, for tests and benchmarks. */
#ifndef INC_FABRIC_H
#define INC_FABRIC_H

#include <stddef.h>

/*
 * Every edge switch of a pod has a link to each of the pod's aggregation switches, and these have
 * links to cores of their own: core c is linked to the aggregation switches c / cores of all pods.
 * All cores are roots. Hosts stand by pod and edge switch: h0 to hN.
 */
struct fabric {
	unsigned int pods;
	unsigned int edges;     /* of a pod */
	unsigned int hosts;     /* of an edge switch */
	unsigned int aggs;      /* of a pod */
	unsigned int cores;     /* of an aggregation switch */
	unsigned int rate_mbit; /* of every link; 0: not said */
};

/* The caller frees it. NULL: no memory. */
char *fabric_text(const struct fabric *shape, size_t *len);

#endif
