/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA devices of the simulation. A device belongs to a network (struct host), that is a host's or
 * that of a switch's port, and has one port. It speaks RoCEv2 over the network's cable: RC queue
 * pairs with SEND and RDMA WRITE, ACKs, NAKs, RNR NAKs and a retransmission timer. So its peer can
 * be another device, a soft endpoint or a switch in passthrough mode. Its functions have the names
 * of libibverbs' own and replace them.
 *
 * A device is hardware, so it goes on while the process that uses it stands still. The objects that
 * a process has made on the device end with that process. Like rxe, it asks its kernel for the
 * peer's MAC address with each packet, and drops packets that differ from a queue pair in an
 * address, the P_Key or the ICRC. The product's misuse of the device fails the run.
 */
#ifndef SIM_RDMA_H
#define SIM_RDMA_H

#include "host.h"

/* How often each kind of event has happened in all runs. */
struct rdma_figures {
	uint64_t queue_pairs, timeouts, rnr_naks, naks, given_up, ended_with_process;
};
extern struct rdma_figures rdma_figures;

/* Called before a run, which has no devices then. */
void rdma_begin(void);
/* Gives the network a device of this name. owner: the only process that may open it; NULL: any
 * process with the network's address. */
void rdma_add(struct host *host, const char *name, const struct process *owner);
/* Has the process an RDMA device? */
bool rdma_has(const struct process *process);
/* A frame has arrived by the network's own interface. Returns false if it names no queue pair of a
 * device there, so a socket may receive it. */
bool rdma_receive(struct host *host, const uint8_t *frame, size_t len);
/* The network's interface has gone down or come up. */
void rdma_link_changed(const struct host *host);
/* The network's device fails and is removed. Its programs receive IBV_EVENT_DEVICE_FATAL, or no
 * event, as from some devices. Returns whether they do. rdma_repair() makes another device of the
 * same name there. */
bool rdma_break(const struct host *host);
void rdma_repair(struct host *host);
/* The number of queue pairs of the network's devices. */
unsigned int rdma_queue_pairs(const struct host *host);

#endif
