/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses the standby port of each port, and how many comms a device can have. Decides which
 * devices and interfaces the lists of NCCL allow. The functions use only their arguments.
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
	const char *pci_path; /* path in /sys of the PCI function of the port's device; "": none */
};

/* Chooses the standby port for the port candidate[own], which is the nearest port of the same link
 * layer. Of equally near ports it prefers one that is up, and then the next one after `own`, so
 * that not all ports have the same standby. Returns the index of the standby port, or n if there is
 * none. */
unsigned int ha_choose_standby(const struct ha_candidate *candidate, unsigned int n,
			       unsigned int own, enum ha_affinity *affinity);

/* Returns how near two ports are to each other, or HA_AFFINITY_NONE if they cannot stand by for
 * each other. */
enum ha_affinity ha_affinity_of(const struct ha_candidate *a, const struct ha_candidate *b);

/* Cuts off what follows the last PCI function in a path of /sys, because virtual devices (virtio)
 * have more behind it. A path without a PCI function becomes "". */
void ha_pci_path_trim(char *path);

#define HA_MAX_COMMS 256u /* most comms of a device that the plugin reports to NCCL */

/* Computes how many comms a device has room for. NCCL needs one comm for each of its channels in
 * each direction. */
struct ha_budget ha_comms_budget(const struct inc_rdma_limits *limits,
				 const struct ha_config *config);

/* --- NCCL's lists of devices and interfaces ---
 *
 * NCCL_IB_HCA and NCCL_SOCKET_IFNAME are parsed exactly as NCCL does. "^" excludes the entries, "="
 * compares whole names instead of prefixes, and "^=" does both. Then follow NAME[:PORT], separated
 * by commas. */

#define HA_IFLIST_DEVICES    32u /* most entries of NCCL_IB_HCA that NCCL reads */
#define HA_IFLIST_INTERFACES 16u /* most entries of NCCL_SOCKET_IFNAME that NCCL reads */
/* the interfaces that NCCL takes first, if the user names none */
#define HA_IFLIST_USUAL "^docker,lo,virbr"

/* Whether a list of NCCL allows this port of this device. If the list is NULL, it allows all. port
 * is -1 for a network interface, which has none. */
bool ha_iflist_passes(const char *list, unsigned int max_entries, const char *name, int port);

#endif
