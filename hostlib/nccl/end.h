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

#define HA_STATES(_)                                                                  \
	_(FLOWING, "flowing")                                                         \
	_(SWITCHING, "switching") /* has entered an epoch, waits for the other end */ \
	_(BROKEN, "broken")       /* its path has failed and no other is ready */     \
	_(DONE, "done")                                                               \
	_(FAILED, "failed")

enum ha_state {
#define HA_STATE_(NAME, text) HA_##NAME,
	HA_STATES(HA_STATE_)
#undef HA_STATE_
		HA_N_STATES
};

const char *ha_state_text(enum ha_state state);

/* Times of a comm. Its RTO may grow (HA_NCCL_RTO_ADAPTIVE). */
struct ha_times {
	uint64_t rto_ns;       /* HA_NCCL_RTO_MS */
	uint64_t heartbeat_ns; /* HA_NCCL_HEARTBEAT_MS */
};

#define HA_BARREN_EPOCHS 8u /* epochs in succession without a completion; then the comm fails */
#define HA_LINGER_RTOS   2u /* how long an end that is DONE still answers its peer */

/* Facts of one failover, for its line of the log. */
struct ha_failover {
	uint32_t epoch; /* the new epoch */
	enum ha_cause cause;
	uint64_t began_at_ns, flowing_at_ns;
	unsigned int replayed; /* sender: payloads written again; receiver: slots described again */
	unsigned int delivered; /* sender: complete by the report alone; receiver: by the drain */
};

/* Actions for the caller, in this order. */
struct ha_todo {
	/* Set the queue pair of fence_epoch to ERR. A receiver is also polled until each posted
	 * receive has completed; then ha_receiver_drained() is called. */
	bool fence;
	uint32_t fence_epoch;
	/* Control messages to send on both channels. */
	unsigned int msgs;
	struct ha_control_msg msg[4];
	/* Posts on the queue pair of the end's epoch, in order. A sender's are the requests whose
	 * payload is to be written; a receiver's are the indices of ring slots to describe. */
	unsigned int posts;
	uint16_t post[HA_SLOTS];
	bool probe;         /* write 0 bytes on that queue pair; an error completion is a trigger */
	bool failover_over; /* a failover is over: log `failover` */
	bool ended;         /* the state is DONE or FAILED now */
};

/* The part that both ends have. sender.c, receiver.c and end.c change it; the caller only reads it,
 * and changes times.rto_ns. */
struct ha_end {
	struct ha_times times;
	uint64_t nonce;
	enum ha_state state;
	uint32_t epoch;
	uint32_t ready;      /* newest epoch whose path is ready; equals epoch without a standby */
	bool dual;           /* false: there is a single path, so a trigger fails the comm */
	bool channel;        /* a control channel is alive */
	enum ha_cause cause; /* cause of the last trigger */
	uint64_t entered_at_ns; /* when this state was entered */
	uint64_t sent_at_ns;    /* when `last` was sent */
	uint64_t probed_at_ns;  /* when the probe under way was posted; 0: none is under way */
	uint64_t probe_due_at_ns;
	unsigned int
		barren; /* epochs in succession with something to complete, and no completion */
	struct ha_control_msg last; /* message repeated until it is answered; type 0: none */
	struct ha_failover failover;
	int error;       /* in state FAILED: -errno with which requests end */
	const char *why; /* and why, a static text */
};

/* The functions below are for sender.c and receiver.c only. */

void ha_end_init(struct ha_end *end, const struct ha_times *times, uint64_t nonce, bool dual,
		 uint64_t now_ns);
void ha_end_become(struct ha_end *end, enum ha_state state, uint64_t now_ns, struct ha_todo *todo);
void ha_end_fence(uint32_t epoch, struct ha_todo *todo);
/* Adds a control message to todo; report is NULL if it has none. If `again` is set, the message is
 * repeated each heartbeat until it is answered. */
void ha_end_send(struct ha_end *end, enum ha_control_msg_type type, const struct ha_report *report,
		 bool again, uint64_t now_ns, struct ha_todo *todo);
/* Leaves the epoch's queue pair: fences it and starts to record the failover. In state BROKEN that
 * has been done already. */
void ha_end_leave(struct ha_end *end, enum ha_cause cause, uint64_t now_ns, struct ha_todo *todo);
/* Enters the epoch and the state SWITCHING. waiting: this end has requests or slots that are not
 * complete. */
void ha_end_enter(struct ha_end *end, uint32_t epoch, bool waiting, uint64_t now_ns,
		  struct ha_todo *todo);
/* Enters the state FLOWING: the failover is over and is logged. */
void ha_end_flow(struct ha_end *end, unsigned int replayed, uint64_t now_ns, struct ha_todo *todo);
/* Enters the state FAILED: all incomplete requests end with this error, and the epoch's queue pair
 * is fenced. */
void ha_end_fail(struct ha_end *end, int error, const char *why, uint64_t now_ns,
		 struct ha_todo *todo);
/* A request or slot has been completed, so the paths do work. */
void ha_end_completed(struct ha_end *end);
/* Why a trigger ends the comm, or NULL if a failover is possible. */
const char *ha_end_no_way(const struct ha_end *end, bool waiting);
/* The path of this epoch is ready, or no longer (up is false). */
void ha_end_path(struct ha_end *end, uint32_t epoch, bool up);
void ha_end_channel(struct ha_end *end, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* A probe of this epoch has succeeded. */
void ha_end_probe_ok(struct ha_end *end);
/* Posts a probe if one is due, and repeats an unanswered control message. */
void ha_end_tick(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo);
bool ha_end_past(uint64_t from_at_ns, uint64_t limit_ns, uint64_t now_ns);
/* Whether the report has this sequence. */
bool ha_report_has(const struct ha_report *report, uint32_t sequence);

#endif
