/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RDMA devices that are none: what libibverbs does for RC queue pairs, in memory. Its functions
 * stand in the place of libibverbs' own, by their names: a program that links the objects of this
 * directory, and libibverbs behind them for the rest (ibv_wc_status_str()
 * and the like), has these devices and no others. Both ends of a connection are in that program.
 *
 * It ends the program where a real device would take what it is not to be given: a message that
 * finds no receive, memory that is not registered, a queue with more than was asked for.
 *
 * Two kinds:
 *
 *	fake_device()	by hand: nothing goes over the wire but by fake_execute() and
 *			fake_acknowledge(); one thread
 *	fake_machine()	by itself: a request goes out when it is posted; what was lost is sent again
 *			when the faults change, and fails with RETRY_EXC when the time of its queue
 *			pair (timeout x retries, of the real clock) is over, which a poll of any
 *			completion queue finds. lib/rdma/inventory.h finds these devices and hears
 *			of their events. Any thread
 *
 * A test of the second kind:
 *
 *	fake_machine(4);                      "fake0" to "fake3", one RoCE port each, one network
 *	inc_rdma_inventory_open(NULL, ...);   or whatever opens devices
 *	fake_faults(0, FAKE_LOSE_ACKS_IN);    what fake0 sends arrives, and it never hears of that
 *	...
 *	fake_faults(0, 0);
 *	assert_int_equal(fake_objects(), 0);  all was destroyed
 */
#ifndef FAKE_RC_H
#define FAKE_RC_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

/* ---- of both kinds -------------------------------------------------------------------------- */

/* Contexts and protection domains aside, how many objects there are. */
unsigned int fake_objects(void);

/* The n-th call from now on that can fail does, with ENOMEM; 0: none does. */
void fake_fail_call(unsigned int n);
/* Whether it has. */
bool fake_has_failed(void);

/* The device gives up: the oldest request fails with the status, the others are flushed. */
void fake_give_up(struct ibv_qp *qp, enum ibv_wc_status status);

/* Completions that nobody has taken; notifications that are on their way. */
unsigned int fake_completions(const struct ibv_cq *cq);
bool fake_notifies(const struct ibv_cq *cq);
/* Notifications wait until fake_notify(), as they may on a device. */
void fake_notify_late(bool late);
void fake_notify(struct ibv_cq *cq);
/* Lets a notification of nothing come. */
void fake_notify_of_nothing(struct ibv_cq *cq);
/* Called once, when a notification is asked for next, before it is. */
void fake_before_arming(void (*call)(void));

/* ---- by hand -------------------------------------------------------------------------------- */

#define FAKE_MAX_MESSAGE_BYTES 3000 /* of its port */

/* Opens a device of this name with one port, RoCE v2, and describes that. It stays until the end of
 * the program. */
struct inc_rdma_device *fake_device(const char *name, struct inc_rdma_port_info *port);
/* What its port, and that of every such device, says of itself. */
void fake_port_state(enum ibv_port_state state);

/* Carries out the oldest request that was not: the peer has it then. False: there is none, or the
 * peer is not there. */
bool fake_execute(struct ibv_qp *qp);
/* Tells the sender of the oldest request that was carried out, where it wants to know. */
bool fake_acknowledge(struct ibv_qp *qp);
/* Both until nothing is left. */
void fake_settle(struct ibv_qp *qp);

/* ---- by itself ------------------------------------------------------------------------------ */

#define FAKE_MACHINE_DEVICES   8
#define FAKE_MACHINE_GIDS      4         /* places of a port's table */
#define FAKE_MACHINE_MAX_BYTES (1 << 30) /* of a message */

/* So many devices, all up, without faults; those of an earlier call must be closed. */
void fake_machine(unsigned int devices);

/* What becomes of packets at a device's port. */
#define FAKE_LOSE_REQUESTS_OUT 0x1u
#define FAKE_LOSE_REQUESTS_IN  0x2u
#define FAKE_LOSE_ACKS_OUT     0x4u /* the peer never hears that its requests have arrived */
#define FAKE_LOSE_ACKS_IN      0x8u /* the same for its own */
/* Requests are on their way until fake_let_go(). Their sender sends them again, and gives up, as
 * with lost ones; they arrive all the same, if their queue pair is still there to take them. */
#define FAKE_HOLD_OUT 0x10u
#define FAKE_CUT \
	(FAKE_LOSE_REQUESTS_OUT | FAKE_LOSE_REQUESTS_IN | FAKE_LOSE_ACKS_OUT | FAKE_LOSE_ACKS_IN)

void fake_faults(unsigned int device, unsigned int faults);
/* What was held arrives, in its order, whatever faults there are now. How many were taken. */
unsigned int fake_let_go(unsigned int device);

/* The port goes down (nothing leaves or arrives; IBV_EVENT_PORT_ERR) or comes up. */
void fake_port(unsigned int device, bool up);
/* Its GID takes another place in the table (IBV_EVENT_GID_CHANGE); which is returned. */
unsigned int fake_move_gid(unsigned int device);

/* What can be refused. */
enum fake_call {
	FAKE_OPEN,
	FAKE_CREATE_CQ,
	FAKE_REG_MR,
	FAKE_REG_DMABUF,
	FAKE_CREATE_QP,
	FAKE_TO_INIT,
	FAKE_TO_RTR,
	FAKE_TO_RTS,
	FAKE_POST_WRITE, /* a request of memory */
	FAKE_POST_SEND,  /* a message */
	FAKE_POST_RECV,
	FAKE_N_CALLS
};

/* So many of such calls from now on fail with the error (an errno); UINT_MAX: all, 0: none. */
void fake_refuse(enum fake_call call, int error, unsigned int times);
/* How many of them are left. */
unsigned int fake_refusals_left(enum fake_call call);
/* A device that has no room for inline data: queue pairs that want it are refused. */
void fake_no_inline(bool none);
/* Steps to RTR wait, as where nobody answers ARP, until it is said again with false. */
void fake_wait_in_rtr(bool wait);
unsigned int fake_waiting_in_rtr(void);

#endif
