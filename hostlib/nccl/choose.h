/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses the standby port of each port, and how many comms a device can have. The functions use
 * only their arguments.
 */
#ifndef HA_CHOOSE_H
#define HA_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/devices.h"
#include "lib/rdma/info.h"

/* The properties of a port that the choice of a standby port depends on. */
struct ha_candidate {
	const char *device; /* name of the port's device */
	uint8_t port;
	bool up;
	enum inc_rdma_link_layer link_layer;
	const char *pci_path; /* path of the device's PCI function in /sys; "": none */
};

/* Chooses the standby port for the port candidate[own]: the nearest port of the same link layer. Of
 * equally near ports it prefers one that is up, and then the next one after own in the table, so
 * that not all ports have the same standby. Returns its index, or n if there is none. */
unsigned int ha_choose_standby(const struct ha_candidate *candidate, unsigned int n,
			       unsigned int own, enum ha_affinity *affinity);

/* Returns how near two ports are to each other; HA_AFFINITY_NONE if one cannot stand by for the
 * other. */
enum ha_affinity ha_affinity_of(const struct ha_candidate *a, const struct ha_candidate *b);

/* Cuts a path of /sys after its last PCI function, because virtual devices (virtio) have more
 * behind it. A path without a PCI function becomes "". */
void ha_pci_path_trim(char *path);

#define HA_MAX_COMMS 256u /* most comms that the plugin reports to NCCL */

/* Returns how many comms a device has room for, at least 1. Each channel of NCCL needs one comm in
 * each direction. */
unsigned int ha_comms_budget(const struct inc_rdma_limits *limits, const struct ha_config *config);

#endif
