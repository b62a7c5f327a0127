/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the state machines of both ends have in common: states, times, and what they want done.
 * sender.h and receiver.h have the events. docs/nccl-failover.md is their contract; the tables
 * there are the tables of sender.c and receiver.c. Pure: no device, no socket, no clock. One thread
 * at a time per end (the comm's lock).
 *
 * An event is a call. It changes the end and adds to `todo` what is to be done: the caller (comm.c)
 * does it at once, in the order of struct ha_todo, clears it, and tells what came of it as further
 * events. All instants are the caller's clock, CLOCK_MONOTONIC in ns.
 */
#ifndef HA_END_H
#define HA_END_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/protocol.h"

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

/* The same for all comms of a process. */
struct ha_times {
	uint64_t rto_ns;       /* HA_NCCL_RTO_MS */
	uint64_t heartbeat_ns; /* HA_NCCL_HEARTBEAT_MS */
};

#define HA_BARREN_EPOCHS 8u /* in succession without a completion: the paths only flap */

/* For the one log line of a failover. */
struct ha_story {
	uint32_t epoch; /* that was entered */
	enum ha_cause cause;
	uint64_t began_at_ns, flowing_at_ns;
	unsigned int replayed; /* sender: payloads written again; receiver: slots described again */
	unsigned int delivered; /* sender: complete by the report alone; receiver: by the drain */
};

/* What is to be done, in this order. */
struct ha_todo {
	bool fence; /* set the queue pair of fence_epoch to ERR; of a receiver: poll until each
		     * receive that was posted there has a completion, then ha_receiver_drained() */
	uint32_t fence_epoch;
	unsigned int words; /* to say on both channels */
	struct ha_word word[4];
	unsigned int
		posts; /* on the queue pair of the end's epoch, in order: sender: requests whose
			* payload is to be written; receiver: places of the ring to describe */
	uint16_t post[HA_SLOTS];
	bool probe; /* write 0 bytes on that queue pair; its error completion is a trigger */
	bool told;  /* a failover is over: story is to be logged */
	bool ended; /* the state has become DONE or FAILED */
};

/* The part of both. The owner of each field is sender.c or receiver.c; comm.c reads. */
struct ha_end {
	struct ha_times times;
	uint64_t nonce;
	enum ha_state state;
	uint32_t epoch;
	uint32_t ready; /* the newest epoch whose path is ready; epoch where there is no standby */
	bool dual;      /* false: no other path will ever be ready, a trigger fails the comm */
	bool channel;   /* the control channel lives */
	bool closing;   /* NCCL has closed */
	enum ha_cause cause;    /* of the last trigger */
	uint64_t entered_at_ns; /* of this state */
	uint64_t told_at_ns;    /* the last word without an answer */
	uint64_t probed_at_ns;  /* 0: no probe is under way */
	unsigned int barren;    /* epochs in succession in which nothing was completed */
	struct ha_word last;    /* the word that is said again until it is answered */
	struct ha_story story;
	int error;       /* FAILED: -errno; what requests end with */
	const char *why; /* likewise, static */
};

#endif
