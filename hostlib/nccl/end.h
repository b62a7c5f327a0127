/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The common part of the state machines of both ends of a comm: states, times, and actions. The
 * events are in sender.h and receiver.h. The contract is docs/nccl-failover.md; its tables are
 * implemented in sender.c and receiver.c, with one function for each event. The machines are pure:
 * no device, no socket, no clock. Only one thread at a time uses an end (under the comm's lock).
 *
 * An event is a call. It changes the end and adds actions to `todo`. The caller (comm_failover.c)
 * carries them out at once, in the order of struct ha_todo, clears `todo`, and reports the results
 * as further events. All instants are on the caller's clock, CLOCK_MONOTONIC in ns.
 */
#ifndef HA_END_H
#define HA_END_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/control_msg.h"

#define HA_STATES(_)                                                                          \
	_(FLOWING, "flowing")                                                                 \
	_(SWITCHING, "switching") /* this end has entered an epoch and waits for the peer */  \
	_(BROKEN, "broken") /* the path of this end has failed, and no other path is ready */ \
	_(DONE, "done")                                                                       \
	_(FAILED, "failed")

enum ha_state {
#define HA_STATE_(NAME, text) HA_##NAME,
	HA_STATES(HA_STATE_)
#undef HA_STATE_
		HA_N_STATES
};

const char *ha_state_text(enum ha_state state);

/* Times of a comm. HA_NCCL_RTO_ADAPTIVE allows its RTO to grow. */
struct ha_times {
	uint64_t rto_ns;       /* retransmission timeout, HA_NCCL_RTO_MS */
	uint64_t heartbeat_ns; /* interval of heartbeats, HA_NCCL_HEARTBEAT_MS */
};

/* A comm fails after so many epochs in succession in which nothing has completed. */
#define HA_BARREN_EPOCHS 8u
/* number of RTOs for which an end that is DONE still answers its peer */
#define HA_LINGER_RTOS 2u

/* The record of one failover, for a line of the log. */
struct ha_failover {
	uint32_t epoch; /* number of the new epoch */
	enum ha_cause cause;
	uint64_t began_at_ns, flowing_at_ns;
	/* sender: number of payloads written again; receiver: number of slots described again */
	unsigned int replayed;
	/* Sender: number of sends that the report alone has completed. Receiver: number of receives
	 * that have completed while the queue pair drained. */
	unsigned int delivered;
};

/* Actions for the caller, which carries them out in this order. */
struct ha_todo {
	/* Sets the queue pair of fence_epoch to ERR. A receiver's queue pair is polled until each
	 * posted receive has completed; then ha_receiver_drained() is called. */
	bool fence;
	uint32_t fence_epoch;
	/* Control messages that are sent on both channels. */
	unsigned int msgs;
	struct ha_control_msg msg[4];
	/* Indexes of work that is posted on the queue pair of the end's epoch, in order. A sender
	 * posts the payloads of these requests, and a receiver the descriptions of these slots of
	 * the ring. */
	unsigned int posts;
	uint16_t post[HA_SLOTS];
	/* Posts a WRITE of 0 bytes on the epoch's queue pair. If it fails, the path has failed. */
	bool probe;
	bool failover_over; /* logs the member `failover` of the end, because a failover is over */
	bool ended;         /* the end is DONE or FAILED from now on */
};

/* The part of a comm's end that senders and receivers share. Only sender.c, receiver.c and end.c
 * change it, except for times.rto_ns. The caller reads it. */
struct ha_end {
	struct ha_times times;
	uint64_t nonce;
	enum ha_state state;
	uint32_t epoch;
	/* newest epoch that has a ready path; the same as `epoch` if there is no standby path */
	uint32_t ready;
	/* the comm has a second rail; without it a failure of the path fails the comm */
	bool dual;
	bool channel;           /* a control channel is alive */
	enum ha_cause cause;    /* the cause for which this end last left a path */
	uint64_t entered_at_ns; /* time at which the end entered its present state */
	uint64_t sent_at_ns;    /* time at which the control message `last` was last sent */
	/* time at which the probe under way was posted; 0: no probe is under way */
	uint64_t probed_at_ns;
	uint64_t probe_due_at_ns;
	/* number of epochs in succession that had something to complete but completed nothing */
	unsigned int barren;
	/* The control message that is repeated until the peer answers. If its type is 0, there is
	 * none. */
	struct ha_control_msg last;
	struct ha_failover failover;
	int error;       /* in state FAILED: -errno with which requests end */
	const char *why; /* the reason of that error, as a static text */
};

/* Only sender.c and receiver.c call the functions below. */

void ha_end_init(struct ha_end *end, const struct ha_times *times, uint64_t nonce, bool dual,
		 uint64_t now_ns);
void ha_end_become(struct ha_end *end, enum ha_state state, uint64_t now_ns, struct ha_todo *todo);
void ha_end_fence(uint32_t epoch, struct ha_todo *todo);
/* Adds a control message to todo; report is NULL if it has none. If `again` is set, the message is
 * repeated each heartbeat until it is answered. */
void ha_end_send(struct ha_end *end, enum ha_control_msg_type type, const struct ha_report *report,
		 bool again, uint64_t now_ns, struct ha_todo *todo);
/* Leaves the queue pair of the epoch: fences it, and starts to record the failover. An end in state
 * BROKEN has done that already. */
void ha_end_leave(struct ha_end *end, enum ha_cause cause, uint64_t now_ns, struct ha_todo *todo);
/* Enters an epoch, and state SWITCHING. `waiting` is true if this end has requests or slots that
 * are not complete. */
void ha_end_enter(struct ha_end *end, uint32_t epoch, bool waiting, uint64_t now_ns,
		  struct ha_todo *todo);
/* Enters state FLOWING, because the failover is over, which is logged. */
void ha_end_flow(struct ha_end *end, unsigned int replayed, uint64_t now_ns, struct ha_todo *todo);
/* Enters state FAILED: all incomplete requests end with this error, and the queue pair of the epoch
 * is fenced. */
void ha_end_fail(struct ha_end *end, int error, const char *why, uint64_t now_ns,
		 struct ha_todo *todo);
/* Handles that a request or slot has completed, so that the path of the epoch is known to work. */
void ha_end_completed(struct ha_end *end);
/* Returns why a failure of the path fails the comm, or NULL if a failover is possible. */
const char *ha_end_no_way(const struct ha_end *end, bool waiting);
/* Handles that the path of this epoch is ready, or, if up is false, no longer ready. */
void ha_end_path(struct ha_end *end, uint32_t epoch, bool up);
void ha_end_channel(struct ha_end *end, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* Handles that a probe has succeeded on the path of this epoch. */
void ha_end_probe_ok(struct ha_end *end);
/* Handles that time has passed: posts a probe if one is due, and repeats a control message without
 * an answer. */
void ha_end_tick(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo);
bool ha_end_past(uint64_t from_at_ns, uint64_t limit_ns, uint64_t now_ns);
/* Whether the receiver that sent the report has this sequence. */
bool ha_report_has(const struct ha_report *report, uint32_t sequence);

#endif
