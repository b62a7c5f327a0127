/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A host's network: one address, one cable to the switch, and UDP sockets. host_begin()
 * replaces the datagrams of inc_os (lib/base/os.h). Like a kernel it builds and checks headers,
 * and drops datagrams with wrong checksums or without a receiver.
 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include <stdint.h>
#include "task.h"
#include "wire.h"

struct host {
	struct process process;
	/* MAC addresses of the host, and of the switch's port (gateway) */
	uint8_t mac[6], gateway[6];
	uint32_t addr; /* IP address, in network order */
	/* the process whose sockets at all addresses receive at this one, too; NULL: none */
	const struct process *machine;
	uint16_t ports; /* next free UDP port */
	/* number of the interface that the host's sockets report; 0: loopback, which every port
	 * admits */
	unsigned int ifindex;
	struct wire *up;
	bool away; /* the host's interface is down, or does not exist */
	bool rdma; /* an RDMA device has RoCEv2's UDP port (rdma.h) */
	/* Number of forged datagrams that the host's sockets have delivered, by sender (enum
	 * host_from). */
	uint64_t given_elsewhere, given_strange;
	/* when its send buffer is full, the product waits by a timer instead of polling for room */
	bool has_timer;
};

/* host_add() registers a host, whose sockets belong to the caller's process. host_begin() forgets
 * all hosts. */
void host_begin(void);
void host_add(struct host *host);
/* The number of sockets that a process has open. */
unsigned int host_sockets(const struct process *process);
/* A frame has arrived at the host by the cable. */
void host_receive(void *host, const uint8_t *frame, size_t len);
/* The sender of a frame: a peer, a forger whose packet is right except for the port, or a forger
 * whose packet belongs to no connection. */
enum host_from { HOST_FROM_PEER, HOST_FROM_ELSEWHERE, HOST_FROM_STRANGER };
/* A frame has arrived by any interface of the machine, whose network card has accepted it. */
void host_take(struct host *host, const uint8_t *frame, size_t len, unsigned int ifindex,
	       enum host_from from);

#endif
