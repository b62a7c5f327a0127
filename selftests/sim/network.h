/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network between machines, a section for each of its parts: cables, the networks of hosts, TCP
 * streams, neighbour tables, and RDMA devices. All of them run in the thread of the simulation.
 */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "process.h"
#include "sim.h"

/*
 * wire.c: cables, with one object for each direction. Until the faults end, frames arrive late, out
 * of order, twice, damaged or not at all, as the seed decides. Some have a mark of congestion
 * (ECN). After that a cable has no faults.
 */

#define WIRE_FRAME_MOST 4400
/* TOS byte of all packets of ranks: DSCP 26, ECT(0). Where no device has its own class, switches
 * send their results and partial sums with this one. */
#define NETWORK_CLASS 106

typedef void (*wire_fn)(void *arg, const uint8_t *frame, size_t len);

struct wire {
	char name[8];
	wire_fn out; /* receives the frames at the other end of the cable */
	void *arg;
	wire_fn tap; /* receives each frame as it was sent; may be NULL */
	void *tap_arg;
	uint32_t lost, repeated, damaged, delayed; /* chances in 1,000 for each frame */
	uint32_t burst; /* greatest number of consecutive frames that are lost together */
	uint32_t burst_left;
	uint64_t delay_ns, jitter_ns;
	uint64_t late_ns;                /* greatest additional delay of a delayed frame */
	uint64_t cut_from_ns, cut_to_ns; /* no frame arrives between these two times */
	uint64_t last_ns;                /* arrival time of the last frame that was not delayed */
};

/* Makes a cable without faults. */
void wire_open(struct wire *wire, const char *name, wire_fn out, void *arg);
void wire_send(struct wire *wire, const uint8_t *frame, size_t len);
/* A frame was lost before it reached the cable. */
void wire_lose(struct wire *wire, const uint8_t *frame, size_t len);
/* Called before a run, when no frame is on a cable. */
void wire_begin(void);
/* Calls fn(arg, arg2) when frame number n, counted from 1 and from now on, is about to be sent. */
void wire_before(uint64_t n, sim_fn fn, void *arg, uint64_t arg2);

/*
 * host.c: a host's network, that is one address, one cable to the switch, and UDP sockets.
 * host_begin() replaces the datagrams of inc_os (lib/base/os.h). Like a kernel it builds and checks
 * headers, and drops datagrams with wrong checksums or without a receiver.
 */

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
	bool rdma; /* an RDMA device has RoCEv2's UDP port */
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

/*
 * tcp.c: TCP streams between processes. Bytes arrive in order, but late, in pieces or not at all.
 * An end of a stream is a pair of AF_UNIX sockets. The process reads and writes one of them by the
 * system's own calls. The simulation has the other one, which is called the middle. It relays the
 * bytes between the middles of the two ends. tcp_begin() replaces the streams of inc_os
 * (lib/base/os.h). The seed decides how late bytes arrive, in which pieces, and how small a send
 * buffer is.
 */

struct process;

/* tcp_begin() starts a run without streams. tcp_end() frees all streams after the run. */
void tcp_begin(void);
void tcp_end(void);
/* Takes what processes have written or closed. Called each time that a process has run, or was
 * killed. */
void tcp_pump(void);
/* Delays all segments between this machine and others until the given time. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine disappears for good: no segment from it or to it arrives, and no peer receives a
 * reset. */
void tcp_vanish(uint32_t addr);
/* The peer of this end receives a reset when the process closes the end, as with SO_LINGER. */
void tcp_reset_at_close(int fd);

/*
 * neighbour.c: one neighbour table for the kernels of all machines, which is possible because no
 * two ports share an address. It replaces userspace/neighbour.c.
 */

/* Called before a run. */
void neighbour_begin(void);
/* Adds the MAC address of an IP address (network order). known: the kernel has that MAC address
 * from the beginning. */
void neighbour_add(uint32_t addr, const uint8_t mac[6], bool known);
/* The IP address gets another MAC address, which is announced on the link. The announcement may be
 * lost. A kernel without an entry for the neighbour ignores it. */
void neighbour_moves(uint32_t addr, const uint8_t mac[6]);

/*
 * rdma_*.c: RDMA devices of the simulation. A device belongs to a network (struct host), that is a
 * host's or that of a switch's port, and has one port. It speaks RoCEv2 over the network's cable:
 * RC queue pairs with SEND and RDMA WRITE, ACKs, NAKs, RNR NAKs and a retransmission timer. So its
 * peer can be another device, a soft endpoint or a switch in passthrough mode. Its functions have
 * the names of libibverbs' own and replace them.
 *
 * A device is hardware, so it goes on while the process that uses it stands still. The objects that
 * a process has made on the device end with that process. Like rxe, it asks its kernel for the
 * peer's MAC address with each packet, and drops packets that differ from a queue pair in an
 * address, the P_Key or the ICRC. The product's misuse of the device fails the run.
 */

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
