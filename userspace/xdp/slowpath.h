/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow path: the requester's memory of a switch. It watches the mmapped states of
 * the connections, resends go-back-N from the result rows what a child asks for (NAK) or
 * does not acknowledge in time, pays owed ACKs, and reads the event ring. The XDP path
 * never waits for it.
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

/* What happened, for the controller and the log. mask: ordinals of the children it
 * concerns. text: one line. */
typedef void (*inc_slowpath_notice_fn)(void *arg, const char *event, uint32_t comm, uint32_t mask,
				       uint64_t r, const char *text);

int inc_slowpath_new(struct event_base *base, struct inc_switch *sw,
		     const struct inc_slowpath_opts *opts, inc_slowpath_notice_fn notice, void *arg,
		     struct inc_slowpath **out, struct inc_err *err);
void inc_slowpath_free(struct inc_slowpath *sp);

/* AF_XDP sockets for an attached port. */
int inc_slowpath_add_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  struct inc_err *err);
uint32_t inc_slowpath_queues(const struct inc_slowpath *sp, const struct inc_switch_port *port);
/* Opens the port's sockets again where the kernel has unbound them, or the port is another
 * interface now. 0: they live; 1: opened again; -errno. */
int inc_slowpath_check_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			    struct inc_err *err);
/* Sets the port's state. why: one line, which is reported to the communicators that wait for a peer
 * behind the port. */
void inc_slowpath_port_is(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  enum inc_port_condition now_is, const char *why);

/* After inc_switch_add_comm() and before inc_switch_start_comm(): the communicator's first event
 * finds it here. Removed with it, after inc_switch_remove_comm(), which may fail. */
int inc_slowpath_add_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err);
/* The same after inc_switch_adopt(): what the ring holds is of this communicator. */
int inc_slowpath_adopt_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err);
/* The daemon is about to end, and the data path goes on without a slow path: all ACKs that are owed
 * now are paid, because the next daemon may come later than the timers of those who wait. */
void inc_slowpath_leave(struct inc_slowpath *sp);
void inc_slowpath_remove_comm(struct inc_slowpath *sp, uint32_t comm);

/* Adds what the slow path alone knows of a connection: unresponsive, and the figures retransmits,
 * acks_paid, timeouts and rtt_us. */
void inc_slowpath_conn(const struct inc_slowpath *sp, uint32_t comm, uint32_t child,
		       struct inc_engine_conn *out);
/* Milliseconds since chunk r of the communicator was first seen incomplete. */
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
