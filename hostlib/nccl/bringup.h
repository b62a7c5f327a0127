/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a path comes up: one machine for the first one (the handshake) and for each standby after it,
 * of both ends. The connecting end leads: it chooses the epoch, the attempt and its rail, and says
 * PATH; the other one answers with its own. Both enter (RTR, RTS) on a worker's thread and say
 * PATH_READY. Pure. The caller does what is said and tells what came of it.
 *
 *	leader	 IDLE -> MAKING -> OFFERED -> ENTERING -> ENTERED -> READY
 *	follower IDLE -> MAKING -> ENTERING -> ENTERED -> READY
 *
 * From each of them back to IDLE where something fails, or where PATH_FAILED is heard; the leader
 * tries again HA_BRINGUP_RETRY_MS later with attempt + 1, at once where a port has come up. A
 *message of another epoch is not for this one, a message of an older attempt is ignored, a PATH of
 *a newer one makes the follower begin anew.
 *
 * Messages may be lost, so an end that waits asks again each HA_BRINGUP_RETRY_MS: the leader by
 *PATH, which a follower answers by all that it has said; a follower by PATH_READY, which a leader
 *that is READY answers by its own; a follower that has failed by PATH_FAILED. None of these answers
 *is a question, so messages end when both are READY.
 *
 * Rails: those of the same number are tried first, as they are wired alike in most clusters; then
 * the leader changes its rail with each failure in a row, the follower with every second one.
 */
#ifndef HA_BRINGUP_H
#define HA_BRINGUP_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/control_msg.h"

#define HA_BRINGUP_RETRY_MS 100
#define HA_BRINGUP_TIMEOUT_MS                                              \
	5000 /* of one attempt's messages; what a worker does has no limit \
	      */

#define HA_BRINGUP_STATES(_)                             \
	_(IDLE, "no path is wanted, or the last failed") \
	_(MAKING, "makes its queue pair")                \
	_(OFFERED, "waits for the peer's")               \
	_(ENTERING, "aims it at the peer's")             \
	_(ENTERED, "waits for the peer to be ready")     \
	_(READY, "ready")

enum ha_bringup_state {
#define HA_BRINGUP_STATE_(NAME, text) HA_BRINGUP_##NAME,
	HA_BRINGUP_STATES(HA_BRINGUP_STATE_)
#undef HA_BRINGUP_STATE_
};

/* To be done, in this order. Messages carry the machine's epoch and attempt. */
#define HA_BRINGUP_DROP        0x1u  /* the queue pair of this bring-up is of no use: destroy it */
#define HA_BRINGUP_MAKE        0x2u  /* make one for epoch, attempt, rail: made() or failed() */
#define HA_BRINGUP_OFFER       0x4u  /* say PATH with its place */
#define HA_BRINGUP_ENTER       0x8u  /* let a worker aim it at peer: entered() or failed() */
#define HA_BRINGUP_SEND_READY  0x10u /* say PATH_READY */
#define HA_BRINGUP_SEND_FAILED 0x20u /* say PATH_FAILED */
#define HA_BRINGUP_UP          0x40u /* the path is ready: ha_*_path(up) */
#define HA_BRINGUP_DOWN        0x80u /* it is no longer */

struct ha_bringup {
	bool leads;
	enum ha_bringup_state state;
	bool wanted; /* a path for epoch */
	bool tried;  /* this attempt has begun: in IDLE it has failed */
	uint32_t epoch, attempt;
	uint8_t rails, rail; /* own; rail: this attempt's */
	uint8_t wanted_rail;
	bool ready_received; /* PATH_READY has come before we were ENTERED */
	struct ha_path_info peer;
	uint64_t attempt_at_ns; /* this attempt waits for messages */
	uint64_t sent_at_ns, retry_at_ns;
	unsigned int failures; /* in a row */
};

const char *ha_bringup_state_text(enum ha_bringup_state state);

void ha_bringup_init(struct ha_bringup *bringup, bool leads, unsigned int rails);
/* Each returns HA_BRINGUP_* bits. */

/*
 * A path for this epoch is wanted (all before it are left by both ends), preferably on this rail.
 * The leader begins; the follower takes PATHs from now on, and goes by the leader's rail. Said
 * again of the same epoch by the leader: the path is dropped and another one is made.
 */
unsigned int ha_bringup_want(struct ha_bringup *bringup, uint32_t epoch, uint8_t rail,
			     uint64_t now_ns);
/* What has come of MAKE, of ENTER; not to be told of a queue pair that DROP was said of. */
unsigned int ha_bringup_made(struct ha_bringup *bringup, uint64_t now_ns);
unsigned int ha_bringup_entered(struct ha_bringup *bringup, uint64_t now_ns);
/* An action has failed, or a ready standby has died. */
unsigned int ha_bringup_failed(struct ha_bringup *bringup, uint64_t now_ns);
/* PATH, PATH_READY, PATH_FAILED. */
unsigned int ha_bringup_msg(struct ha_bringup *bringup, const struct ha_control_msg *msg,
			    uint64_t now_ns);
/* A port of ours has come up: do not wait for the next try. */
unsigned int ha_bringup_hurry(struct ha_bringup *bringup, uint64_t now_ns);
/* At least each HA_BRINGUP_RETRY_MS. */
unsigned int ha_bringup_tick(struct ha_bringup *bringup, uint64_t now_ns);
/* The epoch's path is in use now (of ENTERED, too: the peer that uses it has said so by that), or
 * none is wanted any more: the queue pair, if any, is the caller's. */
void ha_bringup_taken(struct ha_bringup *bringup);

#endif
