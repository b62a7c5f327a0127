/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's network: one address, one cable to the switch, UDP sockets. What lib/roce/udp.h offers
 * is done here in place of lib/roce/udp.c, sendmmsg() by the linker. As a kernel does it: headers
 * are made and checked, wrong checksums and what is for nobody are dropped.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdint.h>
#include "task.h"
#include "wire.h"

struct host {
	struct process process;
	uint8_t mac[6], gateway[6]; /* the switch's port */
	uint32_t addr;              /* network order */
	uint16_t ports;             /* the next one that is free */
	/* The interface that its sockets report; 0: loopback, which every port admits. */
	unsigned int ifindex;
	struct wire *up;
	const bool *silent; /* what its sockets send goes nowhere any more; NULL: it does */
	bool away;          /* its interface is down or gone */
	/* Forged datagrams that its sockets have delivered (enum host_from). */
	uint64_t given_elsewhere, given_strange;
	bool has_timer; /* after a full send buffer, so that it does not ask for room */
};

/* Sockets opened from now on are this host's: the caller's. */
void host_begin(void);
void host_add(struct host *host);
/* Sockets that it has open. */
unsigned int host_sockets(const struct host *host);
/* A frame has come by the cable. */
void host_receive(void *host, const uint8_t *frame, size_t len);
/* The sender of a frame: a peer, a forger whose packet is right in all but the port, or a forger
 * whose packet is for no connection. */
enum host_from { HOST_FROM_PEER, HOST_FROM_ELSEWHERE, HOST_FROM_STRANGER };
/* A frame has come by any interface of the machine, whose card has accepted it. */
void host_take(struct host *host, const uint8_t *frame, size_t len, unsigned int ifindex,
	       enum host_from from);

#endif
