/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch: the data path with cables at its ports, and inc-switchd's slow path (userspace/xdp, as
 * it is) beside it, on an event loop of the simulation. The slow path can be killed, stopped and
 * started anew; the data path goes on meanwhile. daemon.c has what stands in the place of libevent,
 * of libbpf's ring buffer and of userspace/xdp/xsk.c.
 */
#ifndef SIM_DAEMON_H
#define SIM_DAEMON_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
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
	struct inc_slowpath *slow_path; /* NULL: dead */
	struct event_base *base;
	uint32_t n_comms, comm[4]; /* their indices */
	/* Sees each frame before it leaves. watch_arg is the argument of this and the next two. */
	void (*watch)(void *arg, unsigned int port, const uint8_t *frame, size_t len);
	void *watch_arg;
	/* Receives each report of the daemon. */
	void (*notice)(void *arg, const char *event, const char *text);
	/* Looks at the ports, and at their MAC addresses, when the daemon starts. */
	void (*follow)(void *arg);
	bool away[XDP_PORTS]; /* the interface is down or gone, so nothing passes */
};

/* down: filled by the caller. */
void daemon_start(struct daemon *daemon, const char *name, unsigned int ports, uint32_t max_rows);
void daemon_stop(struct daemon *daemon);
/* Makes a communicator; its index. */
uint32_t daemon_add(struct daemon *daemon, const struct inc_comm_conf *conf);
void daemon_remove(struct daemon *daemon, uint32_t comm);
/* SIGKILL; and a new one, which takes over what is there. */
void daemon_kill(struct daemon *daemon);
void daemon_revive(struct daemon *daemon);
/* The interface of a port is gone, so its AF_XDP sockets are dead. */
void daemon_lose_sockets(struct daemon *daemon, unsigned int port);
/* A frame from the cable at a port. */
struct daemon_port {
	struct daemon *daemon;
	unsigned int port;
};
void daemon_receive(void *port, const uint8_t *frame, size_t len);

#endif
