/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a path (a queue pair at each end of a comm) comes up: one state machine at each end, for the
 * first path (the handshake) and for each standby path after it. The connecting end is the leader.
 * It chooses the epoch, the attempt and its own rail, and sends PATH; the follower answers with its
 * own PATH. Then both ends move their queue pair to RTR and RTS on a worker's thread and send
 * PATH_READY. The machine is pure: the caller carries out the actions that it returns and reports
 * their results.
 *
 *	leader	 IDLE -> MAKING -> OFFERED -> ENTERING -> ENTERED -> READY
 *	follower IDLE -> MAKING -> ENTERING -> ENTERED -> READY
 *
 * If an action fails or PATH_FAILED arrives, an end returns to IDLE from any state. The leader then
 * tries again with attempt + 1 after HA_BRINGUP_RETRY_MS, or at once if a port has come up. A
 * message of another epoch or of an older attempt is ignored. A PATH of a newer attempt makes the
 * follower start again.
 *
 * Messages may be lost, so an end that waits for an answer repeats its message each
 * HA_BRINGUP_RETRY_MS. The leader repeats PATH, and the follower answers with everything that it
 * has sent so far. The follower repeats PATH_READY, and a leader that is READY answers with its
 * own. A follower that has failed repeats PATH_FAILED. No answer is answered in turn, so the
 * messages end when both ends are READY.
 *
 * Rails of the same number are tried first, because most clusters wire them alike. After that the
 * leader changes its rail with each failure in a row, and the follower with every second failure.
 */
#ifndef HA_BRINGUP_H
#define HA_BRINGUP_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/control_msg.h"

#define HA_BRINGUP_RETRY_MS 100
/* Time limit of an attempt, in which the ends exchange their messages. While a worker's thread
 * changes a queue pair, the limit does not run, because that call of libibverbs cannot be ended. */
#define HA_BRINGUP_TIMEOUT_MS 5000

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

/* Actions that the caller carries out, in this order. The messages have the machine's epoch and
 * attempt. */
#define HA_BRINGUP_DROP 0x1u /* destroy the queue pair, which is no longer of use */
/* make a queue pair; ha_bringup_made() or _failed() reports the result */
#define HA_BRINGUP_MAKE 0x2u
/* send message PATH, which has the address of the queue pair */
#define HA_BRINGUP_OFFER 0x4u
/* connect the queue pair on a worker's thread; ha_bringup_entered() or _failed() reports the
 * result */
#define HA_BRINGUP_ENTER       0x8u
#define HA_BRINGUP_SEND_READY  0x10u /* send PATH_READY */
#define HA_BRINGUP_SEND_FAILED 0x20u /* send PATH_FAILED */
#define HA_BRINGUP_UP          0x40u /* report to the comm by ha_*_path() that the path is ready */
/* report to the comm by ha_*_path() that the path is no longer ready */
#define HA_BRINGUP_DOWN 0x80u

struct ha_bringup {
	bool leads;
	enum ha_bringup_state state;
	bool wanted; /* the caller wants a path for this epoch */
	bool tried;  /* the attempt with this number has begun; in state IDLE it has failed */
	uint32_t epoch, attempt;
	uint8_t rails, rail; /* number of this end's rails, and the rail of this attempt */
	uint8_t wanted_rail;
	bool ready_received; /* PATH_READY of the peer has arrived before this end is ENTERED */
	struct ha_path_info peer;
	/* time since which this end has waited for messages of this attempt */
	uint64_t attempt_at_ns;
	uint64_t sent_at_ns, retry_at_ns;
	unsigned int failures; /* number of attempts that have failed in a row */
};

const char *ha_bringup_state_text(enum ha_bringup_state state);

void ha_bringup_init(struct ha_bringup *bringup, bool leads, unsigned int rails);
/* Each function below passes an event to the machine, and returns HA_BRINGUP_* bits: the actions to
 * carry out. */

/*
 * Starts to bring up a path for this epoch, preferably on this rail. Both ends have fenced the
 * paths of all earlier epochs. The leader starts; the follower accepts PATH messages from now on,
 * and prefers the rail that the leader's PATH names. If the leader calls this again for the same
 * epoch, the path is dropped and another one is made.
 */
unsigned int ha_bringup_want(struct ha_bringup *bringup, uint32_t epoch, uint8_t rail,
			     uint64_t now_ns);
/* Handles that the queue pair was made (after MAKE), or has reached RTS (after ENTER). Must not be
 * called for a queue pair after DROP. */
unsigned int ha_bringup_made(struct ha_bringup *bringup, uint64_t now_ns);
unsigned int ha_bringup_entered(struct ha_bringup *bringup, uint64_t now_ns);
/* Handles that an action of this machine has failed, or that a standby path that was ready has
 * failed. */
unsigned int ha_bringup_failed(struct ha_bringup *bringup, uint64_t now_ns);
/* Handles a PATH, PATH_READY or PATH_FAILED message of the peer. */
unsigned int ha_bringup_msg(struct ha_bringup *bringup, const struct ha_control_msg *msg,
			    uint64_t now_ns);
/* Handles that a port of this end has come up. The leader then makes its next attempt at once. */
unsigned int ha_bringup_hurry(struct ha_bringup *bringup, uint64_t now_ns);
/* Handles that time has passed: repeats messages and starts attempts. It must be called at least
 * each HA_BRINGUP_RETRY_MS. */
unsigned int ha_bringup_tick(struct ha_bringup *bringup, uint64_t now_ns);
/* Handles that the caller now owns the queue pair, if there is one, because its epoch has begun or
 * no path is wanted any more. The state may still be ENTERED: a peer that uses the path has shown
 * by that that it is ready. */
void ha_bringup_taken(struct ha_bringup *bringup);

#endif
