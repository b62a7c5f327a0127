/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by the two files of the data path: a switch's maps. */
#ifndef SIM_XDP_PRIV_H
#define SIM_XDP_PRIV_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "loader/inc_loader_priv.h"
#include "xdp.h"

#define XDP_RING 1024 /* events; a ring of 64 KB holds this many with their headers */

/* A communicator's device map. */
struct xdp_devmap {
	struct xdp_devmap *next; /* in the list of all (xdp_maps.c) */
	int fd;
	uint32_t n, ifindex[INC_MAX_CHILDREN + 1];
};

/* The interface of a port, as in the kernel. */
#define XDP_PROGRAM 1 /* its id */

struct xdp_iface {
	uint32_t ifindex;
	/* its number when its program was attached; 0: it has no program */
	uint32_t left_ifindex;
	/* gone: no interface; program: the programs run on it; answers: it is in a devmap */
	bool gone, program, answers;
};

enum xdp_to { XDP_TO_PORTS, XDP_TO_ANSWER, XDP_TO_PARENT, XDP_TO_SLOW_PATH };

struct xdp_redirect {
	enum xdp_to to;
	const struct xdp_devmap *ports;
	uint32_t ifindex; /* of the port, for XDP_TO_SLOW_PATH */
};

struct xdp_lookup {
	struct inc_conn_key key;
	uint32_t conn;
};

struct xdp_addr {
	uint32_t addr, count;
};

struct xdp {
	struct inc_switch sw; /* the first member, because pointers are cast: the loader's struct */
	struct xdp_out out;
	bool tight; /* frames that arrive have no room after them */
	unsigned int ports;
	struct inc_port port[XDP_PORTS];
	struct xdp_iface iface[XDP_PORTS];
	struct inc_conn_cfg *conn_cfg;
	struct inc_comm_cfg *comm_cfg;
	struct inc_root_row *root;
	struct inc_copy *copy;
	struct xdp_lookup *lookup; /* [lookups] */
	uint32_t lookups;
	struct xdp_addr *own_addr; /* [own_addrs] */
	uint32_t own_addrs;
	uint32_t *place;
	struct xdp_devmap **comm_ports;
	struct bpf_devmap_val *parent;
	int xsk[XDP_PORTS * INC_PORT_QUEUES]; /* descriptors; 0: none */
	uint64_t counter[INC_CTR_MAX];
	struct inc_event ring[XDP_RING];
	uint64_t ring_put, ring_got;
	struct xdp_redirect redirect;
};

/* The interface with this number; NULL: there is none. */
struct xdp_iface *xdp_iface_of(struct xdp *xdp, uint32_t ifindex);
/* Values of maps with other keys than an index; NULL: there is none. */
struct inc_port *xdp_port_of(struct xdp *xdp, uint32_t ifindex);
uint32_t *xdp_conn_of(struct xdp *xdp, const struct inc_conn_key *key);
uint32_t *xdp_own_addr(struct xdp *xdp, uint32_t addr);

#endif
