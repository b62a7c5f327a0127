/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch with its whole daemon: userspace/daemon.c and what it is put together from, on a real
 * libevent, which sleeps in the simulation's poll(). cluster_switch.c has what stands in the place
 * of libbpf's ring buffer, of the loader's files that speak with the kernel and of xsk.c,
 * interface.c, instance.c and privileges.c. Ports are p0, p1, ...; the data path goes on
 * when the daemon is dead.
 */
#ifndef SIM_CLUSTER_SWITCH_H
#define SIM_CLUSTER_SWITCH_H

#include <stdint.h>
#include "task.h"
#include "wire.h"
#include "xdp.h"

/* Host n's port: the switch's address there. */
#define CLUSTER_PORT_ADDR(n) (0x0a4d00fe + ((uint32_t)(n) << 8))
#define CLUSTER_ROWS         4096
#define CLUSTER_COMMS        16
/* Where the controller and the daemon answer with their figures over HTTP. */
#define CLUSTER_METRICS_PORT 9100
/* The file of the switch's key in the working directory. */
#define CLUSTER_KEY_SWITCH "key.switch"

struct cluster_switch {
	struct process process;
	struct xdp *xdp;
	struct wire *down[XDP_PORTS];
	unsigned int ports;
	bool tls, metrics;    /* it has a key; it answers with its figures */
	bool running;         /* its daemon has a thread, */
	bool ready;           /*   and has started */
	uint64_t ready_at_ns; /* when the last start was over, with success or without */
	void (*failed)(void); /* its daemon has ended by itself */
	void (*ended)(void);  /* its daemon has ended after cluster_switch_stop(); or NULL */
	bool lacked_port;     /* a daemon could not start, because a port was gone */
	bool started, adopts; /* a daemon has been there before: what it has left is found */
	bool closed; /* the last daemon ended and removed its programs and maps; frames are dropped
		      */
};

/* down: filled by the caller. */
void cluster_switch_open(struct cluster_switch *sw, unsigned int ports);
/* The daemon starts, anew where it has been killed. */
void cluster_switch_start(struct cluster_switch *sw);
void cluster_switch_kill(struct cluster_switch *sw);
/* The daemon is asked to end. */
void cluster_switch_stop(struct cluster_switch *sw);
/* The daemon has ended: what remains of the switch. */
void cluster_switch_close(struct cluster_switch *sw);
/* cluster_kernel.c: the interface of a port is deleted, or moved to another namespace. The kernel
 * notifies the running daemon of each of these changes. */
void cluster_port_delete(struct cluster_switch *sw, unsigned int port);
void cluster_port_move(struct cluster_switch *sw, unsigned int port);
/* The interface is made again, or moved back with its program. It has another number. */
void cluster_port_return(struct cluster_switch *sw, unsigned int port);
/* The data path, and what it hands over. */
void cluster_xdp_open(struct cluster_switch *sw);
/* A frame from the cable at a port. */
struct cluster_port {
	struct cluster_switch *sw;
	unsigned int port;
};
void cluster_switch_receive(void *port, const uint8_t *frame, size_t len);

#endif
