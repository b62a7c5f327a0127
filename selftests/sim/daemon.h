/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch in passthrough mode: the data path with cables at its ports, and inc-switchd's unchanged
 * slow path (userspace/xdp) on an event loop of the simulation. The slow path can be killed,
 * stopped and restarted; the data path goes on meanwhile. daemon.c replaces libevent, libbpf's ring
 * buffer and userspace/xdp/xsk.c.
 */
#ifndef SIM_DAEMON_H
#define SIM_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/conf/event_kind.h"
#include "task.h"
#include "wire.h"
#include "xdp.h"

struct inc_slowpath;
struct event_base;

struct daemon {
	struct process process;
	struct xdp *xdp;
	struct wire *down[XDP_PORTS];
	unsigned int ports;
	/* the slow path (userspace/xdp); NULL: the daemon is dead */
	struct inc_slowpath *slow_path;
	struct event_base *base;
	uint32_t n_comms, comm[4]; /* comm: the communicators' indices in the switch */
	/* Called for each frame before it leaves the switch. watch_arg is the argument of watch(),
	 * notice() and follow(). */
	void (*watch)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	void *watch_arg;
	/* Receives each report of the daemon. */
	void (*notice)(void *arg, enum inc_event_kind kind, const char *text);
	/* Called when the daemon starts, to read the state and MAC addresses of its ports. */
	void (*follow)(void *arg);
	bool away[XDP_PORTS]; /* the interface of the port is down or gone, so no frame passes */
};

/* Starts a switch. The caller has filled the member `down`. */
void daemon_start(struct daemon *daemon, const char *name, unsigned int ports, uint32_t max_rows);
void daemon_stop(struct daemon *daemon);
/* Makes a communicator and returns its index. */
uint32_t daemon_add(struct daemon *daemon, const struct inc_comm_conf *conf);
void daemon_remove(struct daemon *daemon, uint32_t comm);
/* Kill the daemon (SIGKILL), and start a new one, which adopts the maps. */
void daemon_kill(struct daemon *daemon);
void daemon_revive(struct daemon *daemon);
/* The interface of a port is gone, so the daemon's AF_XDP sockets on it are dead. */
void daemon_lose_sockets(struct daemon *daemon, unsigned int port);
/* A port by which frames arrive from a cable. */
struct daemon_port {
	struct daemon *daemon;
	unsigned int port;
};
void daemon_receive(void *port, const uint8_t *frame, size_t len);

#endif
