/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slow path: the requester's memory of a switch. It watches the mmapped states of
 * the connections, resends go-back-N from the result rows what a child asks for (NAK) or
 * does not acknowledge in time, pays owed ACKs, and reads the event ring. The XDP path
 * never waits for it.
 */
#ifndef INC_SLOWPATH_H
#define INC_SLOWPATH_H

#include <stdbool.h>
#include <stdint.h>
#include <event2/event.h>
#include "loader/inc_loader.h"
#include "userspace/config.h"

struct inc_slowpath;

struct inc_slowpath_opts {
	uint32_t rto_min_ms;
	uint32_t rto_max_ms;
	uint32_t ack_delay_ms;
};

/* What happened, for the controller and the log. mask: ordinals of the children it
 * concerns. text: one line. */
typedef void (*inc_notice_fn)(void *arg, const char *event, uint32_t comm, uint32_t mask,
			      uint64_t r, const char *text);

int inc_slowpath_new(struct event_base *base, struct inc_switch *sw,
		     const struct inc_slowpath_opts *opts, inc_notice_fn notice, void *arg,
		     struct inc_slowpath **out, struct inc_err *err);
void inc_slowpath_free(struct inc_slowpath *sp);

/* AF_XDP sockets for an attached port. */
int inc_slowpath_add_port(struct inc_slowpath *sp, const struct inc_switch_port *port,
			  struct inc_err *err);
uint32_t inc_slowpath_queues(const struct inc_slowpath *sp, const struct inc_switch_port *port);

/* After inc_switch_add_comm() and before inc_switch_start_comm(): the communicator's first event
 * finds it here. Removed before inc_switch_remove_comm(). */
int inc_slowpath_add_comm(struct inc_slowpath *sp, uint32_t comm, struct inc_err *err);
void inc_slowpath_remove_comm(struct inc_slowpath *sp, uint32_t comm);

struct inc_conn_stats {
	uint64_t retransmits;
	uint64_t acks_paid;
	uint64_t timeouts;
	uint64_t rtt_us; /* smoothed, 0: not measured yet */
	bool unresponsive;
};
/* False where the slow path does not know the connection. */
bool inc_slowpath_conn_stats(const struct inc_slowpath *sp, uint32_t comm, uint32_t child,
			     struct inc_conn_stats *out);
/* Milliseconds since chunk r of the communicator was first seen incomplete. */
uint64_t inc_slowpath_waiting_ms(const struct inc_slowpath *sp, uint32_t comm, uint64_t r);

struct inc_slowpath_stats {
	uint64_t frames_received;
	uint64_t frames_bad;
	uint64_t naks_served;
	uint64_t rnrs_served;
	uint64_t timeouts;
	uint64_t results_resent;
	uint64_t results_pending; /* results that XDP could not send */
	uint64_t results_gone;    /* not resent: the child moved on, so it has them */
	uint64_t acks_paid;
	uint64_t naks_sent;
};
const struct inc_slowpath_stats *inc_slowpath_stats(const struct inc_slowpath *sp);

#endif
