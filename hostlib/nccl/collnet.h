/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CollNet: AllReduce in the switches, for NCCL. plugin_collnet.c has the tables of functions, and
 * this is what is behind them. A collective comm (struct ha_coll) is a communicator of libinccl
 * with one rank per node, on one NIC.
 *
 * NCCL's proxy has two threads. Its service thread listens, connects, registers and closes, and
 * these calls wait. Its progress thread starts and tests, and those calls do not wait. No other
 * thread of the plugin is needed, because libinccl has its own.
 *
 * All nodes must decide alike, because NCCL does not compare between nodes. It checks only within a
 * node whether connect has succeeded, and a node whose listen fails omits an AllGather in which the
 * others wait. So listen never fails because of this node. It writes the reason into the handle
 * instead. Every node reads the handles of all nodes, so that connect fails on all of them alike.
 */
#ifndef HA_COLLNET_H
#define HA_COLLNET_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/comm.h"
#include "lib/base/err.h"

/* Most calls under way on a comm: NCCL has one for each of 8 steps and each group of 8 of its 64
 * channels. */
#define HA_COLL_CALLS 64u

/* The handle that listen makes. Each text ends with a zero. */
struct ha_coll_handle {
	uint32_t magic_be;
	uint8_t version, zero;
	/* 0, or the errno for which this node cannot take part, with the reason in `reason` */
	uint16_t error_be;
	char job[24]; /* name of a group; that of node 0 counts */
	/* the controller, if this node knows one; the first in the order of nodes counts */
	char controller[48];
	char reason[48];
} __attribute__((packed, aligned(1)));
static_assert(sizeof(struct ha_coll_handle) == HA_NCCL_HANDLE_BYTES, "NCCL's handles");

struct ha_coll;
struct ha_coll_listener;
struct ha_coll_call;

/* Fills the handle and makes a listener, which remembers the device. Asks the controller whether it
 * accepts this node, if this node knows one. Returns 0, or -errno if the caller is wrong. */
int ha_coll_listen(unsigned int dev, struct ha_coll_handle *handle, struct ha_coll_listener **out,
		   struct inc_err *err);
/* Ends a listener. A listener that has ended already is allowed. */
void ha_coll_listener_close(struct ha_coll_listener *listener);
/* Connects node `rank` of n with the others: joins the group, creates the communicator, and agrees
 * on what the tree can reduce. Waits. If it fails, it has closed the listener, because NCCL forgets
 * it then. Returns 0, or -errno with the reason, on all nodes alike. */
int ha_coll_connect(struct ha_coll_handle *const *handles, unsigned int n, unsigned int rank,
		    struct ha_coll_listener *listener, struct ha_coll **out, struct inc_err *err);
/* Ends a comm and frees it. Waits for the last ACKs of the switch, 200 ms at most. */
void ha_coll_close(struct ha_coll *coll);

/* Ends the calls that are under way, because NCCL may free their memory now. The comm is of no use
 * after that. NCCL calls this on its service thread, while its progress thread does not use the
 * comm. */
void ha_coll_abandon(struct ha_coll *coll);

/* Returns the bytes of an element, or 0 if the type is not known. */
size_t ha_coll_element_bytes(enum ha_nccl_dtype dtype);

/* Whether all comms of this process can reduce this type by this operator. All nodes of a comm have
 * the same answer. */
bool ha_coll_supports(enum ha_nccl_dtype dtype, enum ha_nccl_op op);

/* Starts an AllReduce. Returns 0, or -errno. If HA_COLL_CALLS are under way, or if the call would
 * have to wait for another thread, *out becomes NULL, and the caller tries again. */
int ha_coll_start(struct ha_coll *coll, const void *send, void *recv, size_t count,
		  enum ha_nccl_dtype dtype, enum ha_nccl_op op, struct ha_coll_call **out,
		  struct inc_err *err);
/* Sets *done, and then *bytes unless bytes is NULL. A call that is done no longer exists. A call
 * that has failed returns its error from then on. */
int ha_coll_test(struct ha_coll_call *call, bool *done, int *bytes);

#endif
