/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptions of RDMA devices: plain data, made by an inventory (inventory.h) or by a test. Code
 * that chooses among devices, ports and GIDs reads only descriptions, so that tests can check its
 * rules without a device. No type of libibverbs is needed.
 *
 * A description never changes; a refresh of the inventory makes new ones. The codes of path MTUs,
 * and whether a device has the capacities that a caller requests, follow from descriptions, too.
 */
#ifndef INC_RDMA_INFO_H
#define INC_RDMA_INFO_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

#define INC_RDMA_NAME_SIZE   64  /* size of a device's name with its final 0 (IBV_SYSFS_NAME_MAX) */
#define INC_RDMA_MAX_DEVICES 256 /* limit of the indexes that an inventory gives to devices */

/* Link layers. The numbers are those of the IBTA. libibverbs has the same, and they are sent in
 * messages. */
enum inc_rdma_link_layer {
	INC_RDMA_LINK_UNKNOWN,
	INC_RDMA_LINK_INFINIBAND,
	INC_RDMA_LINK_ETHERNET,
};

/* States of a port. The numbers are those of the IBTA, too. */
enum inc_rdma_port_state {
	INC_RDMA_PORT_NOP, /* the device does not report the state */
	INC_RDMA_PORT_DOWN,
	INC_RDMA_PORT_INIT,
	INC_RDMA_PORT_ARMED,
	INC_RDMA_PORT_ACTIVE,
	INC_RDMA_PORT_ACTIVE_DEFER, /* the link is down, and may come back by itself */
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

/* A GID in a port's table. Empty entries of the table are not described, nor are entries behind
 * index 255, because a queue pair cannot name them. */
struct inc_rdma_gid {
	uint8_t index; /* index in the port's table: sgid_index of a queue pair's path */
	enum inc_rdma_gid_type type;
	uint8_t raw[16]; /* the GID as on the wire; an IPv4 address is ::ffff:a.b.c.d */
	/* the interface of the GID, as the device reports it; 0: the device does not report one */
	unsigned int ifindex;
	/* The interface of our own network namespace that has this address; 0 and "" if none
	 * has. A device may be visible in namespaces that do not have its interface. */
	unsigned int own_ifindex;
	char own_ifname[IF_NAMESIZE];
};

/* The reason why a query of a device or port has failed. The device or port is described all the
 * same, so that an error message can name the reason. Its other members are invalid then. */
struct inc_rdma_fault {
	int error; /* -errno of the query; 0: no query has failed */
	/* static name of the step that failed, such as "open" or "query"; NULL: no step has
	 * failed */
	const char *step;
};

struct inc_rdma_port_info {
	uint8_t number; /* number of the port, counted from 1 */
	struct inc_rdma_fault fault;
	enum inc_rdma_link_layer link_layer;
	enum inc_rdma_port_state state;
	unsigned int active_mtu_bytes; /* most payload of a packet, 256 to 4096 */
	uint32_t max_message_bytes;    /* longest SEND, READ or WRITE (max_msg_sz) */
	uint64_t speed_mbps;           /* speed of the link at present; 0: not known */
	uint16_t lid;                  /* LID of an InfiniBand port; 0: none */
	const uint16_t *pkey;          /* P_Keys in host order, by index */
	unsigned int pkeys;
	const struct inc_rdma_gid *gid; /* GIDs by rising index */
	unsigned int gids;
};

/* The limits of a device, with the names of ibv_query_device(3). */
struct inc_rdma_limits {
	unsigned int max_qp;
	unsigned int max_qp_wr; /* limit of the work requests of one queue */
	unsigned int max_sge;
	unsigned int max_cqe;
	/* limit of the RDMA READs and atomics that a peer may have in flight to one of our queue
	 * pairs */
	unsigned int max_qp_rd_atom;
	/* limit of those that one of our queue pairs may have in flight */
	unsigned int max_qp_init_rd_atom;
	/* bounds of the rate limit of an RC queue pair, in kbit/s; 0: the device has no such
	 * limit */
	uint32_t qp_rate_limit_min, qp_rate_limit_max;
};

struct inc_rdma_device_info {
	/* number of the device in its inventory, unique while the device is there; afterwards
	 * another device may get the same number */
	uint8_t index;
	char name[INC_RDMA_NAME_SIZE]; /* name of the device, as ibv_devices(1) shows it */
	struct inc_rdma_fault fault;
	uint64_t guid; /* GUID of the node, in host order */
	struct inc_rdma_limits limits;
	const struct inc_rdma_port_info
		*port; /* ports by rising number, only those that pass the filter */
	unsigned int ports;
};

/* A list of all devices that pass a filter, by rising index. */
struct inc_rdma_list {
	const struct inc_rdma_device_info *device;
	unsigned int devices;
	/* number of devices of this machine that do not pass the filter */
	unsigned int passed_over;
};

/* An entry of a filter (struct inc_rdma_filter), which selects devices and ports. A filter without
 * entries lets all pass. */
struct inc_rdma_filter_entry {
	char device[INC_RDMA_NAME_SIZE]; /* name of the device; "": any */
	uint8_t port;                    /* number of the port; 0: any */
};

struct inc_rdma_filter {
	const struct inc_rdma_filter_entry *entry;
	unsigned int entries;
};

/* Whether a port of a device passes the filter. port 0: whether at least one port of the device may
 * pass. filter NULL: everything passes. */
bool inc_rdma_filter_passes(const struct inc_rdma_filter *filter, const char *device, uint8_t port);

/* Finds a device in a list by its index and its name. Returns NULL if there is none. */
const struct inc_rdma_device_info *inc_rdma_device_find(const struct inc_rdma_list *list,
							uint8_t index, const char *name);
const struct inc_rdma_port_info *inc_rdma_port_find(const struct inc_rdma_device_info *device,
						    uint8_t number);

/* Returns "InfiniBand", "Ethernet" or "unknown". */
const char *inc_rdma_link_layer_name(enum inc_rdma_link_layer link_layer);
/* Returns "down", "active" and so on. An invalid state has a name, too. */
const char *inc_rdma_port_state_name(enum inc_rdma_port_state state);

/*
 * Path MTUs of InfiniBand and RoCE: bytes of payload per packet, 256 to 4096, and their codes 1 to
 * 5 in verbs and on the wire (enum ibv_mtu has the same numbers). All code here counts in bytes;
 * codes are used only in calls of libibverbs and in messages.
 */

#define INC_RDMA_MTU_MIN_BYTES 256u
#define INC_RDMA_MTU_MAX_BYTES 4096u

/* Returns the MTU in bytes that a code stands for, and 0 for an invalid code. */
static inline unsigned int inc_rdma_mtu_bytes(unsigned int code)
{
	return code >= 1 && code <= 5 ? INC_RDMA_MTU_MIN_BYTES / 2 << code : 0;
}

/* Returns the code of the largest MTU that is at most so many bytes, and 0 below 256. */
static inline unsigned int inc_rdma_mtu_code(unsigned int bytes)
{
	unsigned int code = 0;

	while (code < 5 && inc_rdma_mtu_bytes(code + 1) <= bytes)
		code++;
	return code;
}

/*
 * The capacities of a queue pair, and whether a device supports them. No device is accessed. Any
 * thread.
 */

/* Capacities of a queue pair that a caller requests. */
struct inc_rdma_qp_caps {
	uint32_t send_wr; /* most requests that are posted and not complete */
	uint32_t recv_wr;
	uint32_t send_sge; /* most pieces of memory in a request */
	uint32_t recv_sge;
	/* length up to which the memory of a send need not be registered, because the request
	 * contains the data; 0: none */
	uint32_t inline_bytes;
	uint8_t rd_atomic;      /* number of RDMA READs that our end may have in flight */
	uint8_t dest_rd_atomic; /* number of RDMA READs that the peer may have in flight */
};

/* The first requested capacity that exceeds the limits of a device. */
struct inc_rdma_excess {
	const char *field; /* name of the field in struct inc_rdma_qp_caps */
	unsigned int wanted, most;
};

/* Whether a requested capacity exceeds the limits of the device. *excess becomes the first such
 * one. */
bool inc_rdma_qp_caps_exceed(const struct inc_rdma_limits *limits,
			     const struct inc_rdma_qp_caps *caps, struct inc_rdma_excess *excess);
/* Checks all requested capacities against the limits. Returns 0, or -EINVAL with the field, its
 * value and the limit in err. device: the device's name for that text. */
int inc_rdma_qp_caps_check(const char *device, const struct inc_rdma_limits *limits,
			   const struct inc_rdma_qp_caps *caps, struct inc_err *err);
/* Checks whether a queue pair of the device can have this rate limit, in kbit/s. 0 means no limit.
 * Returns 0, -EOPNOTSUPP if the device has no limits, or -EINVAL. */
int inc_rdma_rate_check(const struct inc_rdma_limits *limits, uint32_t rate_limit,
			struct inc_err *err);

#endif
