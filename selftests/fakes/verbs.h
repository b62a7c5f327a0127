/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fake RDMA devices: what libibverbs does for RC queue pairs, in memory. The functions have
 * the names of libibverbs' own and replace them. A program that links verbs_*.c, and libibverbs
 * behind them for the rest (ibv_wc_status_str() and the like), has only these devices. Both ends of
 * a connection are in that program.
 *
 * A misuse ends the program, although a real device might accept it or fail later. Misuses are a
 * message for which no receive is posted, memory that is not registered, and more entries of a
 * queue than were requested.
 *
 * There are two kinds of devices:
 *
 *	fake_verbs_device() by hand: requests and acknowledgements move only when the test calls
 *	  fake_verbs_execute() and fake_verbs_acknowledge(); for one thread
 *	fake_verbs_machine() by itself: a request is sent when it is posted. A lost request is
 *	  retransmitted when the faults change. It fails with RETRY_EXC when the time of
 *	  its queue pair (timeout x retries, of the real clock) is over; a poll of any
 *	  completion queue notices that. lib/rdma/inventory.h finds these devices and
 *	  receives their events. For any thread
 *
 * A test of the second kind:
 *
 *	fake_verbs_machine(4);             "fake0" to "fake3", one RoCE port each, one network
 *	inc_rdma_inventory_open(NULL, ...);   or another call that opens devices
 *	fake_verbs_faults(0, FAKE_VERBS_LOSE_ACKS_IN);
 *	...                                requests of fake0 arrive; their ACKs do not
 *	fake_verbs_faults(0, 0);
 *	assert_int_equal(fake_verbs_objects(), 0);  all objects were destroyed
 */
#ifndef SELFTESTS_FAKES_VERBS_H
#define SELFTESTS_FAKES_VERBS_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

/* ---- for both kinds of devices --------------------------------------------------------------- */

/* The number of objects that exist, without contexts and protection domains. */
unsigned int fake_verbs_objects(void);

/* Lets the n-th call from now on that can fail return ENOMEM. With n = 0 no call fails. */
void fake_verbs_fail_call(unsigned int n);
/* Has the call that fake_verbs_fail_call() chose failed by now? */
bool fake_verbs_has_failed(void);

/* Lets the device give the queue pair up: its oldest request fails with this status, and the others
 * are flushed. */
void fake_verbs_give_up(struct ibv_qp *qp, enum ibv_wc_status status);

/* The number of completions that the program has not polled yet. The next function returns whether
 * a notification is pending. */
unsigned int fake_verbs_completions(const struct ibv_cq *cq);
bool fake_verbs_notifies(const struct ibv_cq *cq);
/* Holds notifications back until fake_verbs_notify(). A real device may deliver them late, too. */
void fake_verbs_notify_late(bool late);
void fake_verbs_notify(struct ibv_cq *cq);
/* Delivers a notification although there is no completion. */
void fake_verbs_notify_of_nothing(struct ibv_cq *cq);
/* Calls `call` once, just before the next request for a notification takes effect. */
void fake_verbs_before_arming(void (*call)(void));

/* ---- devices that the test moves ------------------------------------------------------------- */

#define FAKE_VERBS_MAX_MESSAGE_BYTES 3000 /* longest message of a fake_verbs_device() */

/* Opens a device of this name with one RoCE v2 port, and fills in the description of the port. The
 * device stays open until the end of the program. */
struct inc_rdma_device *fake_verbs_device(const char *name, struct inc_rdma_port_info *port);
/* Sets the state that the ports of all devices of fake_verbs_device() report. */
void fake_verbs_port_state(enum ibv_port_state state);
/* Sets the number of ports of a device of fake_verbs_device(). All ports are alike except for their
 * GIDs, which have the indices 0 and 2. */
void fake_verbs_ports(struct inc_rdma_device *device, unsigned int ports);

/* Queries that fail. Bit n of a mask stands for port n. */
extern struct fake_verbs_refused_queries {
	uint32_t ports;   /* the queries of these ports fail with EIO */
	uint32_t gids;    /* the queries of these ports' GIDs fail with EPERM */
	bool whole_table; /* the query of all GIDs of a device fails with EINVAL */
} fake_verbs_refused_queries;

/* Lets the device report an event. A device of fake_verbs_device() never blocks a reader. */
void fake_verbs_report(struct inc_rdma_device *device, const struct ibv_async_event *event);
/* Calls `call` once, when the program acknowledges the next event. */
void fake_verbs_before_ack(void (*call)(void));

/* Delivers the oldest request that was not delivered yet to the peer. Returns false if there is no
 * such request, or no peer. */
bool fake_verbs_execute(struct ibv_qp *qp);
/* Acknowledges the oldest request that was delivered. The sender gets a completion if it asked for
 * one. */
bool fake_verbs_acknowledge(struct ibv_qp *qp);
/* Calls fake_verbs_execute() and fake_verbs_acknowledge() until no request is left. */
void fake_verbs_settle(struct ibv_qp *qp);

/* ---- devices that work without the test ------------------------------------------------------ */

#define FAKE_VERBS_MACHINE_DEVICES   8
#define FAKE_VERBS_MACHINE_GIDS      4         /* number of entries in a port's GID table */
#define FAKE_VERBS_MACHINE_MAX_BYTES (1 << 30) /* longest message */

/* Makes this number of devices, whose ports are all up and without faults. The devices of an
 * earlier call must be closed. */
void fake_verbs_machine(unsigned int devices);

/* Faults of a device's port, which change what happens to packets there. */
#define FAKE_VERBS_LOSE_REQUESTS_OUT 0x1u
#define FAKE_VERBS_LOSE_REQUESTS_IN  0x2u
/* ACKs that this device sends are lost, so its peers retransmit their requests */
#define FAKE_VERBS_LOSE_ACKS_OUT 0x4u
/* ACKs for this device are lost, so it retransmits its requests */
#define FAKE_VERBS_LOSE_ACKS_IN 0x8u
/* Requests that the device sends are held until fake_verbs_let_go(). Their sender retransmits them
 * and fails, as if they were lost. They arrive nevertheless, if their queue pair still exists. */
#define FAKE_VERBS_HOLD_OUT 0x10u
/* READs that the device sends are lost */
#define FAKE_VERBS_LOSE_READS_OUT 0x20u
/* WRITEs with an immediate that arrive are cut off in the middle: the first half is placed, and the
 * request counts as lost */
#define FAKE_VERBS_CUT_WRITES_IN 0x40u
/* READs that the device sends are denied, as by a peer that does not know their key */
#define FAKE_VERBS_DENY_READS_OUT 0x80u
#define FAKE_VERBS_CUT                                                                           \
	(FAKE_VERBS_LOSE_REQUESTS_OUT | FAKE_VERBS_LOSE_REQUESTS_IN | FAKE_VERBS_LOSE_ACKS_OUT | \
	 FAKE_VERBS_LOSE_ACKS_IN)

void fake_verbs_faults(unsigned int device, unsigned int faults);
/* Delivers the held requests in their order, whatever faults the port has now. Returns how many of
 * them the peers accepted. */
unsigned int fake_verbs_let_go(unsigned int device);

/* Takes the port down (no packet leaves or arrives; IBV_EVENT_PORT_ERR), or brings it up. */
void fake_verbs_port(unsigned int device, bool up);
/* Moves the port's GID to another entry of its table (IBV_EVENT_GID_CHANGE), and returns the index
 * of that entry. */
unsigned int fake_verbs_move_gid(unsigned int device);
/* The indices of P_Keys that the queue pairs use: bit n is set if one of them uses index n. A port
 * has two P_Keys: 0xffff, and 0x8001 or what fake_verbs_pkey() has set for a device. */
void fake_verbs_pkey(unsigned int device, uint16_t pkey);
unsigned int fake_verbs_pkey_indices(void);

/* The calls that fake_verbs_refuse() can make fail. */
enum fake_verbs_call {
	FAKE_VERBS_OPEN,
	FAKE_VERBS_CREATE_CQ,
	FAKE_VERBS_REG_MR,
	FAKE_VERBS_REG_DMABUF,
	FAKE_VERBS_CREATE_QP,
	FAKE_VERBS_TO_INIT,
	FAKE_VERBS_TO_RTR,
	FAKE_VERBS_TO_RTS,
	FAKE_VERBS_POST_WRITE, /* posting an RDMA READ or WRITE */
	FAKE_VERBS_POST_SEND,  /* posting a message */
	FAKE_VERBS_POST_RECV,
	FAKE_VERBS_N_CALLS
};

/* Lets the next `times` calls of this kind fail with the error (an errno). UINT_MAX: all calls, 0:
 * none. */
void fake_verbs_refuse(enum fake_verbs_call call, int error, unsigned int times);
/* How many of the failures that fake_verbs_refuse() requested have not happened yet. */
unsigned int fake_verbs_refusals_left(enum fake_verbs_call call);
/* Sets whether the devices lack inline data, so that they refuse to create queue pairs that request
 * it. */
void fake_verbs_no_inline(bool none);
/* The attributes with which the queue pair went to this state, INIT to RTS, and their mask. */
struct ibv_qp_attr fake_verbs_given(struct ibv_qp *qp, enum ibv_qp_state state, int *mask);
/* Sets between which bounds devices that are opened from now on can limit the rate of an RC queue
 * pair, in kbit/s. 0 and 0: not at all. */
void fake_verbs_rate_limits(uint32_t min, uint32_t max);
/* Sets whether the last entry of each GID table has the port's address, too. */
void fake_verbs_second_gid(bool second);
/* With true, steps to RTR block, as on a host whose ARP requests are not answered. With false, they
 * continue. The next function does that only for steps whose peer is this device; -1: none. */
void fake_verbs_wait_in_rtr(bool wait);
void fake_verbs_wait_for_peer(int device);
unsigned int fake_verbs_waiting_in_rtr(void);

/*
 * Memory of a GPU, of which there is one range at a time. Its bytes are in the file `fd`, a memfd,
 * and the program need not have them at its addresses. Without peer_memory ibv_reg_mr() rejects the
 * range. A dma-buf may be any file that can be mapped, and udmabuf's can. A write to such memory
 * stays in the device, as in a queue of a PCI switch. It is carried out when the device
 * reads from such memory, or when a registration of such memory ends.
 */
void fake_verbs_gpu(void *addr, size_t bytes, int fd, bool peer_memory);
/* The number of writes to GPU memory that are still in a device. The other function lets the bus
 * deliver them, as it does in time without a READ. */
unsigned int fake_verbs_unflushed(unsigned int device);
void fake_verbs_deliver(unsigned int device);

#endif
