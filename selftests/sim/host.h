/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's network: one address, one cable to the switch, and UDP sockets. host.c replaces
 * lib/roce/udp.c, and the linker replaces sendmmsg(). Like a kernel it builds and checks headers,
 * and drops datagrams with wrong checksums or without a receiver.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdint.h>
#include "task.h"
#include "wire.h"

struct host {
	struct process process;
	uint8_t mac[6], gateway[6]; /* gateway: of the switch's port */
	uint32_t addr;              /* network order */
	uint16_t ports;             /* the next free one */
	/* The interface that its sockets report; 0: loopback, which every port admits. */
	unsigned int ifindex;
	struct wire *up;
	const bool *silent; /* if true, packets that its sockets send are lost; NULL: never */
	bool away;          /* its interface is down, or does not exist */
	/* Forged datagrams that its sockets have delivered (enum host_from). */
	uint64_t given_elsewhere, given_strange;
	bool has_timer; /* after a full send buffer it waits by timer instead of polling for room */
};

/* host_add() registers a host, whose sockets belong to the caller's process. host_begin() forgets
 * all hosts. */
void host_begin(void);
void host_add(struct host *host);
/* The number of its open sockets. */
unsigned int host_sockets(const struct host *host);
/* A frame has arrived by the cable. */
void host_receive(void *host, const uint8_t *frame, size_t len);
/* The sender of a frame: a peer, a forger whose packet is right except for the port, or a forger
 * whose packet belongs to no connection. */
enum host_from { HOST_FROM_PEER, HOST_FROM_ELSEWHERE, HOST_FROM_STRANGER };
/* A frame has arrived by any interface of the machine, and its network card has accepted it. */
void host_take(struct host *host, const uint8_t *frame, size_t len, unsigned int ifindex,
	       enum host_from from);

#endif
