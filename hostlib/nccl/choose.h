/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which port stands by for which, and how many comms a device can have. Pure: ports in, choice out.
 */
#ifndef HA_CHOOSE_H
#define HA_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "lib/rdma/info.h"

/* A port, as far as the choice asks. */
struct ha_candidate {
	const char *device; /* its name */
	uint8_t port;
	bool up;
	enum inc_rdma_link_layer link_layer;
	const char *pci_path; /* of its PCI function in /sys; "": none */
};

/* The standby of candidate own: the nearest one of the same link layer; of those equally near one
 * that is up, then the next behind own, so that not all ports have the same. Its place in the
 * table; n: there is none. */
unsigned int ha_choose_standby(const struct ha_candidate *candidate, unsigned int n,
			       unsigned int own, enum ha_affinity *affinity);

/* How near two ports are; NONE: one cannot stand by for the other. */
enum ha_affinity ha_affinity_of(const struct ha_candidate *a, const struct ha_candidate *b);

/* Cuts what follows the last PCI function in a path of /sys, as of a virtio device; a path without
 * any becomes "". */
void ha_pci_path_trim(char *path);

#define HA_MAX_COMMS 256u /* shown to NCCL at most */

/* How many comms fit into a device, at least 1: each channel has one in each direction. */
unsigned int ha_comms_budget(const struct inc_rdma_limits *limits, const struct ha_config *config);

#endif
