/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ranks of one machine, which share memory. A communicator's endpoint is then one end of a segment
 * of shared memory (shared_memory.h). The segment does what a switch in termination mode does. It
 * reduces whole messages in the order of the ranks.
 *
 * If all ranks of a group run on one machine, neither a switch nor the network is needed. If the
 * group spans machines, the lowest rank of each machine leads the others. Only the leader has a
 * connection to the switch. It contributes what its machine's ranks have contributed together, and
 * all of them get the switch's result (network.c).
 *
 * meet.c lets the ranks of a machine find each other, and create.c creates communicators.
 * shared_memory.c is the endpoint, as a kind of channels. Called by group.c, comm.c and control.c.
 * The functions of an end run under its communicator's lock, and the others on the thread that
 * creates the object.
 */
#ifndef INCCL_NODE_H
#define INCCL_NODE_H

#include <stdbool.h>
#include "hostlib/src/internal.h"
#include "lib/base/err.h"
#include "lib/conf/messages.h"

/* The ranks of a group on this machine: the connection between each of them and the first one. */
struct inccl_node;

/*
 * Fills in the fields of message G by which the controller recognises the ranks of one machine.
 * Opens the socket at which this rank can be met. Returns NULL if this rank shares no memory,
 * because of its options or because the machine does not allow it. Then no rank of the group does,
 * because the controller announces a meeting only if all ranks can come.
 */
struct inccl_node *inccl_node_offer(struct inccl_group *group, struct inc_msg_join *msg);
/* Ends the offer. If the controller's answer announces a meeting, connects the ranks of this
 * machine to the lowest one, and sets group->node. The set among has the ranks of this machine in a
 * group that spans machines. It is NULL if all ranks are on this machine. node may be NULL. */
int inccl_node_meet(struct inccl_group *group, struct inccl_node *node, const char *meeting,
		    const struct inc_ranks *among, struct inccl_limit *limit, struct inc_err *err);
/* Whether communicators of the group need switches. */
bool inccl_node_needs_network(const struct inccl_group *group);
/* Whether this rank asks the controller for communicators, because it has connections to switches.
 * That is not so if all ranks share memory, or if another rank leads this one. */
bool inccl_node_asks(const struct inccl_group *group);
/* Closes the connections to the other ranks, also in a forked child. node may be NULL. */
void inccl_node_free(struct inccl_node *node);

/* Creates a communicator together with the other ranks of the node, and gives it its endpoint. On
 * failure all ranks get the error. */
int inccl_node_create(struct inccl_communicator *comm, struct inccl_limit *limit,
		      struct inc_err *err);
/* Informs the other ranks that this one cannot create the group's communicator `index`, or cannot
 * use it (comm, otherwise NULL). The others may have a communicator by then, whose segment fails.
 * error: positive */
void inccl_node_refuse(struct inccl_group *group, const struct inccl_communicator *comm,
		       long long index, int error, const char *text);

/* Fails the other ranks' ends of a segment, if this rank leads them, with a failure that the
 * controller or the network has reported. */
void inccl_node_pass_on(struct inccl_endpoint *ep, int error, int rank, const char *text);
/* Fails the other ranks' ends of a segment, unless they have failed already. rank: the rank to
 * blame, or -1. */
void inccl_node_fail(struct inccl_endpoint *ep, int error, int rank, const char *text);

#endif
