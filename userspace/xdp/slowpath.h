/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow path, which makes the switch a reliable requester. It reads the states of the
 * connections in mapped maps. From the result rows it retransmits (go-back-N) packets for which a
 * child sends a NAK or no ACK in time. It sends ACKs that the switch owes, and reads the event
 * ring. The XDP path never waits for it.
 */
#ifndef INC_SLOWPATH_H
#define INC_SLOWPATH_H

#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"
#include "lib/metric/metric.h"
#include "loader/inc_loader.h"
#include "userspace/engine.h"

struct inc_slowpath;

struct inc_slowpath_opts {
	uint32_t rto_min_ms;
	uint32_t rto_max_ms;
	uint32_t ack_delay_ms;
};

/* Reports an event for the controller and the log. mask: a bit, by ordinal, for each child
 * concerned. text: one line. */
typedef void (*inc_slowpath_notice_fn)(void *arg, enum inc_event_kind kind, uint32_t comm,
				       uint32_t mask, uint64_t r, const char *text);

int inc_slowpath_new(struct event_base *base, struct inc_switch *sw,
		     const struct inc_slowpath_opts *opts, inc_slowpath_notice_fn notice, void *arg,
		     struct inc_slowpath **out, struct inc_err *err);
void inc_slowpath_free(struct inc_slowpath *sp);

/* Opens the AF_XDP sockets of an attached port. */
int inc_slowpath_add_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  struct inc_err *err);
uint32_t inc_slowpath_queues(const struct inc_slowpath *sp, const struct inc_switch_port *port);
/* Opens the port's sockets again if the kernel has unbound them, or if the port has another
 * interface now. Returns 0 if they work, 1 if they were opened again, or -errno. */
int inc_slowpath_check_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			    struct inc_err *err);
/* Sets the condition of a port. why: one line of text, which is reported for communicators that
 * wait for a peer behind the port. */
void inc_slowpath_port_is(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  enum inc_port_condition now_is, const char *why);

/* Adds a communicator to the slow path. Called after inc_switch_add_comm() and before
 * inc_switch_start_comm(), so that the slow path is ready for the communicator's first event.
 * inc_slowpath_remove_comm() follows only after inc_switch_remove_comm() has succeeded. */
int inc_slowpath_add_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err);
/* Adds a communicator after inc_switch_adopt(). Unlike inc_slowpath_add_comm(), this function
 * leaves the events in the ring, because they belong to this communicator. */
int inc_slowpath_adopt_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err);
/* Sends all ACKs that the switch owes now. Called before the daemon ends and the data path runs on
 * without a slow path, because peers' timers may expire before the next daemon starts. */
void inc_slowpath_leave(struct inc_slowpath *sp);
void inc_slowpath_remove_comm(struct inc_slowpath *sp, uint32_t comm);

/* Fills in the members of out that only the slow path has: unresponsive, loss, undelivered,
 * retransmits, acks_paid, timeouts and rtt_us. Also fills in the class of what is sent to the peer,
 * in verbs. */
void inc_slowpath_conn(const struct inc_slowpath *sp, uint32_t comm, uint32_t child,
		       struct inc_engine_conn *out);
/* Returns the milliseconds since chunk r of the communicator was first seen incomplete. */
uint64_t inc_slowpath_waiting_ms(const struct inc_slowpath *sp, uint32_t comm, uint64_t r);

#define INC_SLOWPATH_FIGURES(_, T)                                                        \
	_(T, frames_received, "packets", COUNTER,                                         \
	  "NAKs and RNR NAKs that the XDP path handed over")                              \
	_(T, frames_bad, "packets", COUNTER, "of them, none of a connection")             \
	_(T, naks_served, "packets", COUNTER, "NAKs that were answered by sending again") \
	_(T, rnrs_served, "packets", COUNTER, "RNR NAKs that put sending off")            \
	_(T, timeouts, "", COUNTER, "times that a peer did not acknowledge soon")         \
	_(T, results_resent, "packets", COUNTER, "results and partial sums sent again")   \
	_(T, results_pending, "", COUNTER,                                                \
	  "results and partial sums that the XDP path could not send")                    \
	_(T, results_gone, "packets", COUNTER,                                            \
	  "not sent again: the peer has moved on, so it has them")                        \
	_(T, acks_paid, "packets", COUNTER, "ACKs that were owed for too long")           \
	_(T, naks_sent, "packets", COUNTER, "NAKs that told of the end of a communicator")

struct inc_slowpath_stats {
	INC_SLOWPATH_FIGURES(INC_METRIC_FIELD, inc_slowpath_stats)
};
const struct inc_slowpath_stats *inc_slowpath_stats(const struct inc_slowpath *sp);

#endif
