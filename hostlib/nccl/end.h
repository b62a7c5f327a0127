/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the state machines of both ends have in common: states, times, and what they want done.
 * sender.h and receiver.h have the events. docs/nccl-failover.md is their contract; sender.c
 * and receiver.c carry out the tables there, a function for each event. Pure: no device, no socket,
 * no clock. One thread at a time per end (the comm's lock).
 *
 * An event is a call. It changes the end and adds to `todo` what is to be done: the caller
 * (comm_failover.c) does it at once, in the order of struct ha_todo, clears it, and tells what came
 * of it as further events. All instants are the caller's clock, CLOCK_MONOTONIC in ns.
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

/* A comm's; its RTO may grow (HA_NCCL_RTO_ADAPTIVE). */
struct ha_times {
	uint64_t rto_ns;       /* HA_NCCL_RTO_MS */
	uint64_t heartbeat_ns; /* HA_NCCL_HEARTBEAT_MS */
};

#define HA_BARREN_EPOCHS 8u /* in succession without a completion: the paths only flap */
#define HA_LINGER_RTOS   2u /* how long an end that is done answers one that may not know it */

/* For the one log line of a failover. */
struct ha_failover {
	uint32_t epoch; /* that was entered */
	enum ha_cause cause;
	uint64_t began_at_ns, flowing_at_ns;
	unsigned int replayed;  /* sender: payloads to be written again; receiver: slots described
				   again */
	unsigned int delivered; /* sender: complete by the report alone; receiver: by the drain */
};

/* What is to be done, in this order. */
struct ha_todo {
	bool fence; /* set the queue pair of fence_epoch to ERR; of a receiver: poll until each
		     * receive that was posted there has a completion, then ha_receiver_drained() */
	uint32_t fence_epoch;
	unsigned int msgs; /* to say on both channels */
	struct ha_control_msg msg[4];
	unsigned int
		posts; /* on the queue pair of the end's epoch, in order: sender: requests whose
			* payload is to be written; receiver: places of the ring to describe */
	uint16_t post[HA_SLOTS];
	bool probe; /* write 0 bytes on that queue pair; its error completion is a trigger */
	bool failover_over; /* a failover is over: story is to be logged */
	bool ended;         /* the state has become DONE or FAILED */
};

/* The part of both. sender.c, receiver.c and end.c write it, but for times.rto_ns; the caller
 * reads. */
struct ha_end {
	struct ha_times times;
	uint64_t nonce;
	enum ha_state state;
	uint32_t epoch;
	uint32_t ready; /* the newest epoch whose path is ready; epoch where there is no standby */
	bool dual;      /* false: no other path will ever be ready, a trigger fails the comm */
	bool channel;   /* the control channel lives */
	enum ha_cause cause;    /* of the last trigger */
	uint64_t entered_at_ns; /* of this state */
	uint64_t sent_at_ns;    /* the last message without an answer */
	uint64_t probed_at_ns;  /* 0: no probe is under way */
	uint64_t probe_due_at_ns;
	unsigned int barren; /* epochs in succession that had to complete something and did not */
	struct ha_control_msg last; /* the message that is said again until it is answered */
	struct ha_failover failover;
	int error;       /* FAILED: -errno; what requests end with */
	const char *why; /* likewise, static */
};

/* For sender.c and receiver.c only. */

void ha_end_init(struct ha_end *end, const struct ha_times *times, uint64_t nonce, bool dual,
		 uint64_t now_ns);
void ha_end_become(struct ha_end *end, enum ha_state state, uint64_t now_ns, struct ha_todo *todo);
void ha_end_fence(uint32_t epoch, struct ha_todo *todo);
/* Adds a message (report: NULL where it has none); `again`: said each heartbeat until answered. */
void ha_end_send(struct ha_end *end, enum ha_control_msg_type type, const struct ha_report *report,
		 bool again, uint64_t now_ns, struct ha_todo *todo);
/* The epoch's queue pair is in use no more: fenced, the story begins. In FLOWING only. */
void ha_end_leave(struct ha_end *end, enum ha_cause cause, uint64_t now_ns, struct ha_todo *todo);
/* SWITCHING; waiting: this end has something to complete. */
void ha_end_enter(struct ha_end *end, uint32_t epoch, bool waiting, uint64_t now_ns,
		  struct ha_todo *todo);
/* FLOWING: the story of the switch is told. */
void ha_end_flow(struct ha_end *end, unsigned int replayed, uint64_t now_ns, struct ha_todo *todo);
/* FAILED: everything that is not complete ends with this error; fences the epoch's queue pair. */
void ha_end_fail(struct ha_end *end, int error, const char *why, uint64_t now_ns,
		 struct ha_todo *todo);
/* Something is complete: the paths are good for something. */
void ha_end_completed(struct ha_end *end);
/* Why a trigger ends the comm, or NULL. */
const char *ha_end_no_way(const struct ha_end *end, bool waiting);
/* The path of an epoch is up, or no longer. */
void ha_end_path(struct ha_end *end, uint32_t epoch, bool up);
void ha_end_channel(struct ha_end *end, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* A probe of this epoch has succeeded. */
void ha_end_probe_ok(struct ha_end *end);
/* Probes, and messages that are due again. */
void ha_end_tick(struct ha_end *end, uint64_t now_ns, struct ha_todo *todo);
bool ha_end_past(uint64_t from_at_ns, uint64_t limit_ns, uint64_t now_ns);
/* A report has this sequence. */
bool ha_report_has(const struct ha_report *report, uint32_t sequence);

#endif
