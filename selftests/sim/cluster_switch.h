/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch with its whole daemon: userspace/daemon.c and all its parts, with the engines of both
 * modes, on a real libevent, which sleeps in the simulation's poll(). Two files replace the parts
 * that use the kernel. cluster_kernel.c stands for libbpf's ring buffer, the loader's files and
 * xsk.c. cluster_switch.c stands for interface.c, instance.c and privileges.c, and for the kernel's
 * sockets at the ports. Ports are p0, p1, ... The data path goes on while the daemon is dead, and
 * the sockets of termination mode end with it.
 */
#ifndef SIM_CLUSTER_SWITCH_H
#define SIM_CLUSTER_SWITCH_H

#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "network.h"
#include "process.h"
#include "xdp.h"

#define CLUSTER_SWITCHES_MOST 4
#define CLUSTER_ROWS          8192
#define CLUSTER_COMMS         16
/* The port on which the controller and the daemon serve figures over HTTP. */
#define CLUSTER_METRICS_PORT 9100

/* A port of a switch. */
struct cluster_port {
	struct cluster_switch *sw;
	unsigned int number;
	/* The kernel's network at this port: its addresses, and the sockets of termination mode.
	 * host.up is the cable by which frames leave the switch. */
	struct host host;
	char peer[8];           /* name of the host or the switch at the other end of the cable */
	struct host *peer_host; /* network of that host or switch; NULL: it is not simulated */
	bool down;              /* the interface is down, so no frame passes */
	uint64_t xmit_from_ns;  /* until then the port sends nothing that XDP redirects to it */
	uint64_t left_at_ns;    /* when the interface went down or disappeared last */
	/* host.mac[2] when the daemon read the port's MAC address last; it counts the changes of
	 * that address */
	uint8_t followed;
};

struct cluster_switch {
	struct process process;
	unsigned int number;
	/* The mode of the switch's communicators. The topology names it, or else the daemon's own
	 * settings do. own_mode: the mode of the daemon's settings. */
	enum inc_mode_of_switch mode, own_mode;
	bool named_in_topology;
	unsigned int threads; /* worker threads of termination mode */
	bool hides_macs;      /* hello has no MAC addresses of the ports */
	bool rdma;            /* each port has an RDMA device */
	struct xdp *xdp;
	struct cluster_port port[XDP_PORTS];
	unsigned int ports;
	/* the cable to the parent, with the number of the port at each end; NULL: the switch is the
	 * root */
	struct cluster_switch *parent;
	unsigned int up_port, parents_port;
	struct wire up, down;
	struct cluster_port *stranger; /* a port without a member; NULL: there is none */
	struct wire nowhere;           /* the cable at that port */
	const char *key;               /* file of the daemon's key; NULL: it has none */
	bool metrics;                  /* the daemon serves metrics over HTTP */
	bool running;                  /* the daemon's thread exists */
	bool ready;                    /* the daemon's start is complete */
	uint64_t ready_at_ns; /* when the last start of the daemon ended, with success or without */
	int stop_fd;          /* a signal on this descriptor stands for SIGTERM */
	/* called when the daemon has ended by itself */
	void (*failed)(struct cluster_switch *sw);
	/* called when the daemon has ended after cluster_switch_stop(); may be NULL */
	void (*ended)(struct cluster_switch *sw);
	unsigned int ends; /* how often a daemon has ended or was killed */
	bool lacked_port; /* a daemon could not start, because an interface of a port was missing */
	/* the maps are pinned, so that the next daemon adopts them */
	bool pinned;
	/* the last daemon ended and removed its programs and maps */
	bool closed;
};

/* Opens the switch, whose ports and cables the caller has made. */
void cluster_switch_open(struct cluster_switch *sw);
/* Starts the daemon for the first time, or again after it was killed. */
void cluster_switch_start(struct cluster_switch *sw);
void cluster_switch_kill(struct cluster_switch *sw);
/* Sends SIGTERM to the daemon. */
void cluster_switch_stop(struct cluster_switch *sw);
/* Frees what remains of the switch after the daemon's end. */
void cluster_switch_close(struct cluster_switch *sw);
/* The switch whose daemon runs now, or which is being opened. */
struct cluster_switch *cluster_switch_here(void);
/* The port with this name, p0 and so on, of that switch. */
struct cluster_port *cluster_port_here(const char *ifname);
/* The number of sockets of termination mode. */
unsigned int cluster_switch_sockets(const struct cluster_switch *sw);
/* The number of queue pairs of the switch's RDMA devices. */
unsigned int cluster_switch_queue_pairs(const struct cluster_switch *sw);
/* cluster_kernel.c: deletes the interface of a port, or moves it to another namespace. The kernel
 * notifies the running daemon of each of these changes. */
void cluster_port_delete(struct cluster_switch *sw, unsigned int port);
void cluster_port_move(struct cluster_switch *sw, unsigned int port);
/* Takes the interface of a port down. */
void cluster_port_down(struct cluster_switch *sw, unsigned int port);
/* Is the interface of the port down, or does it not exist? */
bool cluster_port_is_away(const struct cluster_switch *sw, unsigned int port);
/* The kernel notifies the daemon that something of the port has changed. */
void cluster_port_changed(struct cluster_port *port);
/* Sets the interface of a port up, makes it again, or moves it back with its program. An interface
 * that did not exist gets another number. */
void cluster_port_return(struct cluster_switch *sw, unsigned int port);
/* Opens the data path, and connects the daemon to it. */
void cluster_xdp_open(struct cluster_switch *sw);
/* A frame arrives at a port, whose network card has accepted it. */
void cluster_switch_take(struct cluster_port *port, const uint8_t *frame, size_t len,
			 enum host_from from);
/* A frame arrives by the cable at a port (struct cluster_port). */
void cluster_switch_receive(void *port, const uint8_t *frame, size_t len);

#endif
