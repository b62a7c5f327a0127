/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch with its whole daemon: userspace/daemon.c and all its parts, on a real libevent, which
 * sleeps in the simulation's poll(). Two files replace the parts that use the kernel.
 * cluster_kernel.c stands for libbpf's ring buffer, the loader's files and xsk.c. cluster_switch.c
 * stands for interface.c, instance.c and privileges.c. Ports are p0, p1, ... The data path goes on
 * while the daemon is dead.
 */
#ifndef SIM_CLUSTER_SWITCH_H
#define SIM_CLUSTER_SWITCH_H

#include <stdint.h>
#include "task.h"
#include "wire.h"
#include "xdp.h"

/* The switch's IP address at the port to host n. */
#define CLUSTER_PORT_ADDR(n) (0x0a4d00fe + ((uint32_t)(n) << 8))
#define CLUSTER_ROWS         4096
#define CLUSTER_COMMS        16
/* The port on which the controller and the daemon serve figures over HTTP. */
#define CLUSTER_METRICS_PORT 9100
/* The file of the switch's key in the working directory. */
#define CLUSTER_KEY_SWITCH "key.switch"

struct cluster_switch {
	struct process process;
	struct xdp *xdp;
	struct wire *down[XDP_PORTS];
	unsigned int ports;
	bool tls, metrics;    /* tls: the daemon has a key; metrics: it serves metrics over HTTP */
	bool running;         /* the daemon's thread exists */
	bool ready;           /* the daemon's start is complete */
	uint64_t ready_at_ns; /* when the last start of the daemon ended, with success or without */
	void (*failed)(void); /* called when the daemon has ended by itself */
	/* called when the daemon has ended after cluster_switch_stop(); may be NULL */
	void (*ended)(void);
	bool lacked_port; /* a daemon could not start, because an interface of a port was missing */
	/* started: a daemon ran before; adopts: the new daemon adopts its maps */
	bool started, adopts;
	/* the last daemon ended and removed its programs and maps, so frames are dropped */
	bool closed;
};

/* Opens the switch. The caller has filled the member `down`. */
void cluster_switch_open(struct cluster_switch *sw, unsigned int ports);
/* Starts the daemon for the first time, or again after it was killed. */
void cluster_switch_start(struct cluster_switch *sw);
void cluster_switch_kill(struct cluster_switch *sw);
/* Sends SIGTERM to the daemon. */
void cluster_switch_stop(struct cluster_switch *sw);
/* Frees what remains of the switch after the daemon's end. */
void cluster_switch_close(struct cluster_switch *sw);
/* cluster_kernel.c: deletes the interface of a port, or moves it to another namespace. The kernel
 * notifies the running daemon of each of these changes. */
void cluster_port_delete(struct cluster_switch *sw, unsigned int port);
void cluster_port_move(struct cluster_switch *sw, unsigned int port);
/* Makes the interface of a port again, or moves it back with its program. The interface gets
 * another number. */
void cluster_port_return(struct cluster_switch *sw, unsigned int port);
/* Opens the data path, and connects the daemon to it. */
void cluster_xdp_open(struct cluster_switch *sw);
/* A port by which frames arrive from a cable. */
struct cluster_port {
	struct cluster_switch *sw;
	unsigned int port;
};
void cluster_switch_receive(void *port, const uint8_t *frame, size_t len);

#endif
