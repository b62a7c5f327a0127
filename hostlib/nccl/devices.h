/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network devices that NCCL sees: ports of RDMA devices, each with the port that stands by for
 * it (choose.h). With HA_NCCL_TRANSPORT=soft they are network interfaces.
 * ha_devices_open() finds them once, when the plugin is opened. Whether a port is up is checked
 * each time (ha_rail_place()).
 */
#ifndef HA_DEVICES_H
#define HA_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include <net/if.h>
#include "hostlib/nccl/keys.h"
#include "hostlib/nccl/control_msg.h"
#include "lib/base/err.h"
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"
#include "lib/rdma/inventory.h"

/* A rail of a comm: a port of an RDMA device, or a network interface. */
struct ha_rail {
	/* RDMA device of the port; struct ha_devices holds the reference */
	struct inc_rdma_device *device;
	/* name of the network interface, with HA_NCCL_TRANSPORT=soft; "": the rail is none */
	char interface[IF_NAMESIZE];
	uint8_t index; /* index of the RDMA device in the inventory */
	uint8_t port;
};

/* Returns the name of a rail's device or interface. NULL: there is no such rail. */
static inline const char *ha_rail_name(const struct ha_rail *rail)
{
	return rail->device ? rail->device->name : *rail->interface ? rail->interface : NULL;
}

/* How near a standby port is to the port that it stands by for, the best first. */
#define HA_AFFINITIES(_)                             \
	_(SWITCH, "another device, same PCI switch") \
	_(DEVICE, "another device")                  \
	_(PORT, "another port of the card")          \
	_(NONE, "none")

enum ha_affinity {
#define HA_AFFINITY_(NAME, text) HA_AFFINITY_##NAME,
	HA_AFFINITIES(HA_AFFINITY_)
#undef HA_AFFINITY_
};

/* How many comms a device has room for. */
struct ha_budget {
	/* the number that NCCL gets: the smaller of the two below, from 1 to HA_MAX_COMMS
	 * (choose.h) */
	unsigned int comms;
	/* number of comms for which the device's queue pairs, or its completions, are enough */
	unsigned int by_queue_pairs, by_completions;
};

/* A network device as NCCL sees it: a port with its standby port. */
struct ha_device {
	/* name for NCCL: "mlx5_0", or "mlx5_0:2" if the RDMA device has several ports. Over UDP
	 * it is the name of the interface. */
	char name[INC_RDMA_NAME_SIZE + 8];
	char pci_path[256]; /* path of the PCI device in /sys; "": none */
	/* GUID of the card, which is the same for all functions of the card; over UDP the MAC
	 * address of the interface */
	uint64_t guid;
	uint64_t speed_mbps;
	/* The port of NCCL's device, and its standby port. If rail[1] has no name, there is no
	 * standby port. */
	struct ha_rail rail[HA_RAILS];
	enum ha_affinity affinity;
	/* the budget of comms; over UDP only the number of comms is set */
	struct ha_budget budget;
	unsigned int max_recvs;
	uint32_t max_message_bytes;
	bool rxe; /* the device belongs to rxe, Linux's software RoCE */
	/* The devices of all rails can register GPU memory: behind a dma-buf, or by its address.
	 * ha_memory_try() sets both. */
	bool dma_buf, peer_memory;
};

struct ha_devices {
	struct inc_rdma_inventory *inventory;
	const struct ha_config *config;
	struct ha_device *device;
	unsigned int n;
};

/* Finds the network devices. Returns 0, even if there is none, or -errno. */
int ha_devices_open(struct ha_devices *devices, const struct ha_config *config,
		    struct inc_err *err);
void ha_devices_close(struct ha_devices *devices);

/* The place of a rail: the address that a queue pair on it has now, and the properties of its port
 * that ha_path_make() needs. They are those of the inventory's last refresh. */
struct ha_place {
	enum inc_rdma_link_layer link_layer; /* of a port of an RDMA device */
	uint16_t lid;
	uint16_t pkey; /* P_Key at NCCL_IB_PKEY; of an interface the default */
	uint8_t gid[16], gid_index;
	unsigned int mtu_bytes;
	uint32_t max_message_bytes;
};

/* Reads the place of a rail. May be called on any thread. Returns 0, -ENETDOWN if the port is not
 * up, -EADDRNOTAVAIL if it has no usable GID, or -ENODEV. */
int ha_rail_place(const struct ha_devices *devices, const struct ha_rail *rail,
		  struct ha_place *place, struct inc_err *err);

#endif
