/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A device that is none: what libibverbs does for an RC queue pair, in memory and step by step, so
 * that a test says when a message arrives, when its sender hears of it, and what breaks. It fails
 * the test where a real device would take what it is not to be given: a message that finds no
 * receive, memory that is not registered, a queue with more than was asked for.
 *
 * Its functions stand in the place of libibverbs' own, by their names.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stdbool.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include "lib/rdma/device.h"
#include "lib/rdma/info.h"

#define FAKE_MAX_MESSAGE_BYTES 3000 /* of its port */

/* Opens a device of this name with one port, RoCE v2, and describes that. It stays until the end of
 * the program. */
struct inc_rdma_device *fake_device(const char *name, struct inc_rdma_port_info *port);

/* Contexts aside, how many objects of the device there are. */
unsigned int fake_objects(void);

/* The n-th call from now on that can fail does, with ENOMEM; 0: none does. */
void fake_fail_call(unsigned int n);
/* Whether it has. */
bool fake_has_failed(void);
/* What the port says of itself. */
void fake_port_state(enum ibv_port_state state);

/* Carries out the oldest request that was not: the peer has it then. False: there is none, or the
 * peer is not there. */
bool fake_execute(struct ibv_qp *qp);
/* Tells the sender of the oldest request that was carried out, where it wants to know. */
bool fake_acknowledge(struct ibv_qp *qp);
/* Both until nothing is left. */
void fake_settle(struct ibv_qp *qp);
/* The device gives up: the oldest request fails with the status, the others are flushed. */
void fake_give_up(struct ibv_qp *qp, enum ibv_wc_status status);

/* Called once, when a notification is asked for next, before it is. */
void fake_before_arming(void (*call)(void));
/* Notifications wait until fake_notify(), as they may on a device. */
void fake_notify_late(bool late);
void fake_notify(struct ibv_cq *cq);
/* Completions that nobody has taken; notifications that are on their way. */
unsigned int fake_completions(const struct ibv_cq *cq);
bool fake_notifies(const struct ibv_cq *cq);
/* Lets a notification of nothing come. */
void fake_notify_of_nothing(struct ibv_cq *cq);

#endif
