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

/* Times of a comm. Its RTO may grow (HA_NCCL_RTO_ADAPTIVE). */
struct ha_times {
	uint64_t rto_ns;       /* retransmission timeout, HA_NCCL_RTO_MS */
	uint64_t heartbeat_ns; /* interval of heartbeats, HA_NCCL_HEARTBEAT_MS */
};

/* the comm fails after this many epochs in succession without a completion */
#define HA_BARREN_EPOCHS 8u
#define HA_LINGER_RTOS   2u /* RTOs for which an end that is DONE still answers its peer */

/* Facts of one failover, for its line of the log. */
struct ha_failover {
	uint32_t epoch; /* number of the new epoch */
	enum ha_cause cause;
	uint64_t began_at_ns, flowing_at_ns;
	unsigned int replayed; /* sender: payloads written again; receiver: slots described again */
	/* sender: sends that the report alone completed; receiver: receives that the drain
	 * completed */
	unsigned int delivered;
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
	/* Indexes of work to post on the queue pair of the end's epoch, in order. A sender posts
	 * payloads of these requests; a receiver posts descriptions of these ring slots. */
	unsigned int posts;
	uint16_t post[HA_SLOTS];
	/* write 0 bytes on the epoch's queue pair; an error completion is a failure of the path */
	bool probe;
	bool failover_over; /* a failover is over, so log the member `failover` of the end */
	bool ended;         /* the state is DONE or FAILED now */
};

/* The part that both ends have. sender.c, receiver.c and end.c change it; the caller only reads it,
 * and changes times.rto_ns. */
struct ha_end {
	struct ha_times times;
	uint64_t nonce;
	enum ha_state state;
	uint32_t epoch;
	/* newest epoch whose path is ready; equals `epoch` if there is no standby */
	uint32_t ready;
	bool dual;              /* false: there is a single path, so its failure fails the comm */
	bool channel;           /* a control channel is alive */
	enum ha_cause cause;    /* why the end last left a path */
	uint64_t entered_at_ns; /* time at which this state was entered */
	uint64_t sent_at_ns;    /* time at which `last` was sent */
	/* time at which the probe under way was posted; 0: none is under way */
	uint64_t probed_at_ns;
	uint64_t probe_due_at_ns;
	/* number of epochs in succession with something to complete, and no completion */
	unsigned int barren;
	/* the control message that is repeated until it is answered; type 0: none */
	struct ha_control_msg last;
	struct ha_failover failover;
	int error;       /* state FAILED: -errno with which requests end */
	const char *why; /* reason of that error, a static text */
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
/* Handles that a request or slot has been completed, so that the epoch's path is known to work. */
void ha_end_completed(struct ha_end *end);
/* Returns why a failure of the path ends the comm, or NULL if a failover is possible. */
const char *ha_end_no_way(const struct ha_end *end, bool waiting);
/* The path of this epoch is ready, or no longer ready (up is false). */
void ha_end_path(struct ha_end *end, uint32_t epoch, bool up);
void ha_end_channel(struct ha_end *end, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* Handles that a probe of this epoch has succeeded. */
void ha_end_probe_ok(struct ha_end *end);
/* Posts a probe if one is due, and repeats an unanswered control message. */
void ha_end_tick(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo);
bool ha_end_past(uint64_t from_at_ns, uint64_t limit_ns, uint64_t now_ns);
/* Whether the report has this sequence. */
bool ha_report_has(const struct ha_report *report, uint32_t sequence);

#endif
