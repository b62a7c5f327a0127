/* SPDX-License-Identifier: BSD-2-Clause */
/* The maps of a switch, which the two files of the data path share. */
#ifndef SIM_XDP_PRIV_H
#define SIM_XDP_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "loader/inc_loader_priv.h"
#include "xdp.h"

#define XDP_RING 1024 /* number of events; a ring of 64 KB holds this many with their headers */

/* A communicator's device map. */
struct xdp_devmap {
	struct xdp_devmap *next; /* next in the list of all device maps (xdp_maps.c) */
	int fd;
	uint32_t n, ifindex[INC_MAX_CHILDREN + 1];
};

/* The interface of a port, as the kernel has it. */
#define XDP_PROGRAM 1 /* id of the program, which is the same on all interfaces */

struct xdp_iface {
	uint32_t ifindex;
	/* number of the interface when its program was attached; 0: it has no program */
	uint32_t left_ifindex;
	/* gone: the interface does not exist; program: the XDP programs run on it; answers: it is
	 * in the device map for answers */
	bool gone, program, answers;
};

enum xdp_to { XDP_TO_PORTS, XDP_TO_ANSWER, XDP_TO_PARENT, XDP_TO_SLOW_PATH };

struct xdp_redirect {
	enum xdp_to to;
	const struct xdp_devmap *ports;
	uint32_t ifindex; /* number of the port's interface, for XDP_TO_SLOW_PATH */
};

struct xdp_lookup {
	struct inc_conn_key key;
	uint32_t conn;
};

struct xdp_addr {
	uint32_t addr, count;
};

struct xdp {
	/* the loader's struct; it is the first member, because pointers are cast */
	struct inc_switch sw;
	struct xdp_out out;
	bool tight; /* frames that arrive have no room after them */
	unsigned int ports;
	struct inc_port port[XDP_PORTS];
	struct xdp_iface iface[XDP_PORTS];
	struct inc_conn_cfg *conn_cfg;
	struct inc_comm_cfg *comm_cfg;
	struct inc_root_row *root;
	struct inc_copy *copy;
	struct xdp_lookup *lookup; /* array of `lookups` entries */
	uint32_t lookups;
	struct xdp_addr *own_addr; /* array of `own_addrs` entries */
	uint32_t own_addrs;
	uint32_t *place;
	struct xdp_devmap **comm_ports;
	struct bpf_devmap_val *parent;
	int xsk[XDP_PORTS * INC_PORT_QUEUES]; /* descriptors of AF_XDP sockets; 0: none */
	uint64_t counter[INC_CTR_MAX];
	struct inc_event ring[XDP_RING];
	uint64_t ring_put, ring_got;
	struct xdp_redirect redirect;
};

/* Returns the interface with this number, or NULL if there is none. */
struct xdp_iface *xdp_iface_of(struct xdp *xdp, uint32_t ifindex);
/* Look up a value in the maps whose keys are no indices. They return NULL if there is no such
 * value. */
struct inc_port *xdp_port_of(struct xdp *xdp, uint32_t ifindex);
uint32_t *xdp_conn_of(struct xdp *xdp, const struct inc_conn_key *key);
uint32_t *xdp_own_addr(struct xdp *xdp, uint32_t addr);

#endif
