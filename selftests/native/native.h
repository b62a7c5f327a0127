/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XDP programs of bpf/, compiled natively, with maps in the memory of this process. The tests
 * with sanitizers, the coverage, and the comparison with the kernel use them. There is one CPU, and
 * one program runs at a time.
 */
#ifndef NATIVE_H
#define NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/maps.h"

#define NATIVE_EVENTS 16 /* more events than one packet can cause */
#define NATIVE_PORTS  8
#define NATIVE_CPUS   2

/* How far the programs' clock advances whenever it is read. A CNP may follow another one then. */
extern uint64_t native_step_ns;

/* A communicator's device map. n is 0 if there is none. */
struct native_ports {
	uint32_t n, ifindex[INC_MAX_CHILDREN + 1];
};

struct native_lookup {
	struct inc_conn_key key;
	uint32_t conn;
};

struct native_addr {
	uint32_t addr, count;
};

struct native_port {
	uint32_t ifindex;
	struct inc_port value;
};

/* The maps. Each is an array, whose length is given beside it. The caller owns the memory. */
struct native_maps {
	uint32_t max_comms, max_connections, max_rows, sum_rows, places, root_rows;
	uint32_t *place; /* array of `places` entries */
	struct inc_conn_cfg *conn_cfg;
	struct inc_conn_state *conn_state;
	/* arrays of `max_connections` entries, like conn_cfg and conn_state */
	struct inc_copy *copy;
	struct inc_comm_cfg *comm_cfg;
	struct inc_comm_state *comm_state;
	/* ifindex of the parent's port, 0: none; this member and the two before are arrays of
	 * `max_comms` entries */
	uint32_t *parent;
	struct native_ports *ports; /* array of max_comms * INC_PORTS_ROWS entries */
	struct inc_root_row *root;  /* array of `root_rows` entries */
	struct inc_slot *slots;     /* array of `sum_rows` entries */
	struct inc_buf *sums;       /* array of `sum_rows` entries */
	struct inc_buf *kept;       /* array of `max_rows` entries */
	struct native_lookup *lookup;
	uint32_t lookups;
	struct native_addr *own_addr;
	uint32_t own_addrs;
	struct native_port port[NATIVE_PORTS];
	struct inc_route *route; /* array of `max_comms` entries; NULL: nothing is steered */
	struct inc_queue queue[NATIVE_CPUS];
	uint32_t cpu;      /* the CPU on which programs run */
	bool xsk;          /* every row of inc_xsk has a socket */
	bool answer_ports; /* every port is in the map inc_answer_port */
	uint64_t counter[INC_CTR_MAX];
	struct inc_event event[NATIVE_EVENTS]; /* events of the last packet */
	uint32_t events;
	bool ring_full;    /* the event ring has no room for further events */
	uint32_t rx_queue; /* receive queue by which frames arrive */
};

enum native_to {
	NATIVE_NOWHERE,
	NATIVE_PORTS_OF_COMM,
	NATIVE_ANSWER,
	NATIVE_PARENT,
	NATIVE_SLOW_PATH,
	NATIVE_CPU
};

struct native_out {
	int verdict;
	const uint8_t *frame; /* the frame after the run; valid until the next run */
	uint32_t len;
	enum native_to to;                /* destination, if the verdict is XDP_REDIRECT */
	const struct native_ports *ports; /* set if `to` is NATIVE_PORTS_OF_COMM */
	uint32_t ifindex;                 /* set if `to` is NATIVE_ANSWER or NATIVE_PARENT */
};

/* Constants that the loader can set before it loads the programs. */
struct native_constants {
	uint32_t places;
	bool check_icrc, generic, order_stores, steers;
};

/* native_open() maps memory for frames, and is called once in a process. It returns 0 or -errno.
 * native_set() sets the constants, each time that they change. */
int native_open(void);
void native_set(const struct native_constants *c);
/* A variable of the programs, with its own name. */
extern uint32_t inc_copies_shared;
/* Run a program on a frame that arrives at a port (inc_switch), that a CPU takes from its queue
 * (inc_steered), or that leaves by a port (inc_egress). len: at most 3,072. */
void native_switch(struct native_maps *maps, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		   struct native_out *out);
void native_steered(struct native_maps *maps, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		    struct native_out *out);
void native_egress(struct native_maps *maps, uint32_t ifindex, const uint8_t *frame, uint32_t len,
		   struct native_out *out);

#endif
