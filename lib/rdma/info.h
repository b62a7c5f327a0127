/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptions of RDMA devices: plain data, made by an inventory (inventory.h) or by a test. Code
 * that chooses among devices, ports and GIDs reads only descriptions, so that tests can check its
 * rules without a device. No type of libibverbs is needed.
 *
 * A description never changes; a refresh of the inventory makes new ones.
 */
#ifndef INC_RDMA_INFO_H
#define INC_RDMA_INFO_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define INC_RDMA_NAME_SIZE   64  /* of a device's name with its terminator (IBV_SYSFS_NAME_MAX) */
#define INC_RDMA_MAX_DEVICES 256 /* the number of values of an index */

/* The numbers are those of the IBTA. libibverbs has the same, and they are sent in messages. */
enum inc_rdma_link_layer {
	INC_RDMA_LINK_UNKNOWN,
	INC_RDMA_LINK_INFINIBAND,
	INC_RDMA_LINK_ETHERNET,
};

/* The numbers are those of the IBTA, too. */
enum inc_rdma_port_state {
	INC_RDMA_PORT_NOP, /* not reported */
	INC_RDMA_PORT_DOWN,
	INC_RDMA_PORT_INIT,
	INC_RDMA_PORT_ARMED,
	INC_RDMA_PORT_ACTIVE,
	INC_RDMA_PORT_ACTIVE_DEFER, /* the link is down, and may come back without help */
};

/* Whether a connection may use the port now. */
static inline bool inc_rdma_port_is_up(enum inc_rdma_port_state state)
{
	return state == INC_RDMA_PORT_ACTIVE || state == INC_RDMA_PORT_ACTIVE_DEFER;
}

enum inc_rdma_gid_type {
	INC_RDMA_GID_INFINIBAND,
	INC_RDMA_GID_ROCE_V1,
	INC_RDMA_GID_ROCE_V2,
};

/* One entry of a port's GID table. Empty entries are not described, nor are entries behind index
 * 255, because a queue pair cannot name them. */
struct inc_rdma_gid {
	uint8_t index; /* index in the port's table: sgid_index of a queue pair's path */
	enum inc_rdma_gid_type type;
	uint8_t raw[16];      /* as on the wire; an IPv4 address is ::ffff:a.b.c.d */
	unsigned int ifindex; /* the interface of the GID, as the device reports it; 0: it does
			       * not */
	/* The interface of our own network namespace that has this address; 0 and "" if none
	 * has. A device may be visible in namespaces that do not have its interface. */
	unsigned int own_ifindex;
	char own_ifname[IF_NAMESIZE];
};

/* A failed query of a device or port. The device or port is described all the same, so that an
 * error can name the reason; its other members are invalid. */
struct inc_rdma_fault {
	int error;        /* -errno; 0: none */
	const char *step; /* "open", "query"; NULL without an error. Static. */
};

struct inc_rdma_port_info {
	uint8_t number; /* from 1 */
	struct inc_rdma_fault fault;
	enum inc_rdma_link_layer link_layer;
	enum inc_rdma_port_state state;
	unsigned int active_mtu_bytes; /* payload per packet, 256 to 4096 */
	uint32_t max_message_bytes;    /* of one SEND, READ or WRITE (max_msg_sz) */
	uint64_t speed_mbps;           /* of the link at present; 0: not known */
	uint16_t lid;                  /* InfiniBand; 0: none */
	const uint16_t *pkey;          /* host order, by index */
	unsigned int pkeys;
	const struct inc_rdma_gid *gid; /* by rising index */
	unsigned int gids;
};

/* The limits of a device, with the names of ibv_query_device(3). */
struct inc_rdma_limits {
	unsigned int max_qp;
	unsigned int max_qp_wr; /* work requests of one queue */
	unsigned int max_sge;
	unsigned int max_cqe;
	unsigned int max_qp_rd_atom;      /* RDMA READs and atomics of a peer in flight */
	unsigned int max_qp_init_rd_atom; /* our own in flight */
};

struct inc_rdma_device_info {
	uint8_t index; /* unique while the device is there; afterwards another device may get it */
	char name[INC_RDMA_NAME_SIZE]; /* as ibv_devices(1) shows it */
	struct inc_rdma_fault fault;
	uint64_t guid; /* of the node, host order */
	struct inc_rdma_limits limits;
	const struct inc_rdma_port_info
		*port; /* by rising number; only ports that pass the filter */
	unsigned int ports;
};

/* All devices that pass a filter, by rising index. */
struct inc_rdma_list {
	const struct inc_rdma_device_info *device;
	unsigned int devices;
	unsigned int passed_over; /* devices of this machine that do not pass the filter */
};

/* Selects devices and ports. Without entries all pass. */
struct inc_rdma_filter_entry {
	char device[INC_RDMA_NAME_SIZE]; /* "": any */
	uint8_t port;                    /* 0: any */
};

struct inc_rdma_filter {
	const struct inc_rdma_filter_entry *entry;
	unsigned int entries;
};

/* port 0: whether any port of the device may pass. filter NULL: all pass. */
bool inc_rdma_filter_passes(const struct inc_rdma_filter *filter, const char *device, uint8_t port);

/* NULL if there is none. */
const struct inc_rdma_device_info *inc_rdma_device_find(const struct inc_rdma_list *list,
							uint8_t index, const char *name);
const struct inc_rdma_port_info *inc_rdma_port_find(const struct inc_rdma_device_info *device,
						    uint8_t number);

/* "InfiniBand", "Ethernet", "unknown". */
const char *inc_rdma_link_layer_name(enum inc_rdma_link_layer link_layer);
/* "down", "active", ...; an invalid state has a name, too. */
const char *inc_rdma_port_state_name(enum inc_rdma_port_state state);

#endif
