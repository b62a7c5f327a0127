/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA devices as they are described: plain data, made by an inventory (inventory.h) or written
 * down by a test. Who chooses among devices, ports and GIDs reads this and nothing else, so that
 * its rules can be tried where there is no device. No type of libibverbs is needed for it.
 *
 * Descriptions are never changed once they are made; a refresh makes new ones.
 */
#ifndef INC_RDMA_INFO_H
#define INC_RDMA_INFO_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define INC_RDMA_NAME_SIZE   64  /* of a device's name with its end (IBV_SYSFS_NAME_MAX) */
#define INC_RDMA_MAX_DEVICES 256 /* as many as an index has values */

/* With the numbers of the IBTA, which libibverbs has, too, and which stand in messages. */
enum inc_rdma_link_layer {
	INC_RDMA_LINK_UNKNOWN,
	INC_RDMA_LINK_INFINIBAND,
	INC_RDMA_LINK_ETHERNET,
};

/* Likewise. */
enum inc_rdma_port_state {
	INC_RDMA_PORT_NOP, /* not told */
	INC_RDMA_PORT_DOWN,
	INC_RDMA_PORT_INIT,
	INC_RDMA_PORT_ARMED,
	INC_RDMA_PORT_ACTIVE,
	INC_RDMA_PORT_ACTIVE_DEFER, /* the link is down for the moment; may come back by itself */
};

/* May a connection use the port now? */
static inline bool inc_rdma_port_is_up(enum inc_rdma_port_state state)
{
	return state == INC_RDMA_PORT_ACTIVE || state == INC_RDMA_PORT_ACTIVE_DEFER;
}

enum inc_rdma_gid_type {
	INC_RDMA_GID_INFINIBAND,
	INC_RDMA_GID_ROCE_V1,
	INC_RDMA_GID_ROCE_V2,
};

/* One entry of a port's GID table. Entries without a GID are not described, nor are those behind
 * place 255, which no queue pair can name. */
struct inc_rdma_gid {
	uint8_t index; /* its place in the port's table: sgid_index of a queue pair's path */
	enum inc_rdma_gid_type type;
	uint8_t raw[16];      /* as on the wire; an IPv4 address is ::ffff:a.b.c.d */
	unsigned int ifindex; /* of the interface that the device says it is of; 0: it does not */
	/* The interface of our own network namespace that has this address, 0 and "" where none
	 * has. A device can be seen from namespaces that its interface is not in. */
	unsigned int own_ifindex;
	char own_ifname[IF_NAMESIZE];
};

/* What could not be asked. Such a device or port is described all the same, so that it can be said
 * why it would not do; its other figures mean nothing. */
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
	uint32_t max_message_bytes;    /* of one message, READ or WRITE (max_msg_sz) */
	uint64_t speed_mbps;           /* of the link as it is now; 0: not known */
	uint16_t lid;                  /* InfiniBand; 0: none */
	const uint16_t *pkey;          /* host order, by index */
	unsigned int pkeys;
	const struct inc_rdma_gid *gid; /* by rising index */
	unsigned int gids;
};

/* What a device can hold at most, in the words of ibv_query_device(3). */
struct inc_rdma_limits {
	unsigned int max_qp;
	unsigned int max_qp_wr; /* work requests of one queue */
	unsigned int max_sge;
	unsigned int max_cqe;
	unsigned int max_qp_rd_atom;      /* RDMA READs and atomics of a peer under way */
	unsigned int max_qp_init_rd_atom; /* own ones */
};

struct inc_rdma_device_info {
	uint8_t index; /* its own as long as it is there; free for another one afterwards */
	char name[INC_RDMA_NAME_SIZE]; /* as ibv_devices(1) shows it */
	struct inc_rdma_fault fault;
	uint64_t guid; /* of the node, host order */
	struct inc_rdma_limits limits;
	const struct inc_rdma_port_info
		*port; /* by rising number, those that the filter let pass */
	unsigned int ports;
};

/* All devices that a filter let pass, by rising index. */
struct inc_rdma_list {
	const struct inc_rdma_device_info *device;
	unsigned int devices;
	unsigned int passed_over; /* devices of this machine that the filter did not let pass */
};

/* Which devices and ports. Without entries all pass. */
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

/* NULL where there is none. */
const struct inc_rdma_device_info *inc_rdma_device_find(const struct inc_rdma_list *list,
							uint8_t index, const char *name);
const struct inc_rdma_port_info *inc_rdma_port_find(const struct inc_rdma_device_info *device,
						    uint8_t number);

/* "InfiniBand", "Ethernet", "unknown". */
const char *inc_rdma_link_layer_name(enum inc_rdma_link_layer link_layer);
/* "down", "active", ...; what is no state has a name, too. */
const char *inc_rdma_port_state_name(enum inc_rdma_port_state state);

#endif
