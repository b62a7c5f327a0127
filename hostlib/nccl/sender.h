/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sending end of a comm: isends, the slots they go to, and the change of paths. See end.h.
 *
 * A request has a place, 0 to HA_REQUESTS - 1, from ha_sender_isend() until ha_sender_release().
 */
#ifndef HA_SENDER_H
#define HA_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/end.h"
#include "hostlib/nccl/control_msg.h"

#define HA_SEND_STATES(_)                                                          \
	_(FREE)                                                                    \
	_(BOUND)     /* has a sequence; its slot is not described in this epoch */ \
	_(IN_FLIGHT) /* written in this epoch, no completion yet */                \
	_(COMPLETE)                                                                \
	_(FAILED) /* as end.error says */

enum ha_send_state {
#define HA_SEND_STATE_(NAME) HA_SEND_##NAME,
	HA_SEND_STATES(HA_SEND_STATE_)
#undef HA_SEND_STATE_
};

struct ha_send {
	enum ha_send_state state;
	uint32_t sequence;  /* of its slot; kept over epochs */
	uint32_t bytes;     /* not more than the slot has */
	const void *buffer; /* caller's */
	void *region;       /* caller's: the registration of buffer */
	uint64_t posted_at_ns;
	uint64_t address; /* of the slot, as described in this epoch */
	uint32_t rkey;
};

struct ha_sender {
	struct ha_end end;
	const struct ha_slot_wire
		*ring; /* HA_SLOTS of them, 64-byte aligned, which the peer writes */
	struct ha_send send[HA_REQUESTS];
	/* The slots from `first`, the lowest that is not complete, to `next`, the lowest that has
	 * never come; `look` is the lowest that may not have come in this epoch. */
	uint32_t first, next, look;
	uint64_t progress_at_ns;           /* the last completion of this epoch, or its begin */
	uint64_t used[HA_SLOTS / 64];      /* by place: bound to a request, or complete */
	uint64_t complete[HA_SLOTS / 64];  /* by place: acknowledged or reported */
	uint64_t described[HA_SLOTS / 64]; /* by place: in this epoch */
	struct ha_slot slot[HA_SLOTS];
};

/* In FLOWING, epoch 0, whose path is up. */
void ha_sender_init(struct ha_sender *sender, const struct ha_times *times, uint64_t nonce,
		    bool dual, const struct ha_slot_wire *ring, uint64_t now_ns);

/* Takes the place of a request: bound to the lowest free slot of its tag and to be written. What
 * the slot has no room for is not sent, as NCCL's own plugin does it.
 * -EAGAIN: no such slot, no free place, or not FLOWING: later. -ESHUTDOWN: closed. Otherwise the
 * end's error. */
int ha_sender_isend(struct ha_sender *sender, const void *buffer, void *region, uint32_t bytes,
		    uint32_t tag, uint64_t now_ns, struct ha_todo *todo);
/* A request that is complete or failed is over. */
void ha_sender_release(struct ha_sender *sender, unsigned int request);

/* Events. */

/* The ring may have new slots; replays go out here. Cheap where there are none. */
void ha_sender_look(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* A completion of the send queue of any epoch; ok: success. */
void ha_sender_completed(struct ha_sender *sender, uint64_t wr_id, bool ok, uint64_t now_ns,
			 struct ha_todo *todo);
/* Something of the epoch's path has failed, or it is to be left: not TIMEOUT, PROBE or PEER, which
 * are the machine's own. REQUEST counts only where the next path is ready. */
void ha_sender_trigger(struct ha_sender *sender, enum ha_cause cause, uint64_t now_ns,
		       struct ha_todo *todo);
/* The path of this epoch, end.epoch + 1, is up at both ends; or no longer (up false). */
void ha_sender_path(struct ha_sender *sender, uint32_t epoch, bool up, uint64_t now_ns,
		    struct ha_todo *todo);
/* A message of the peer's, OPEN to ABORT; others are the caller's. */
void ha_sender_msg(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		   struct ha_todo *todo);
/* Whether any control channel to the peer lives. */
void ha_sender_channel(struct ha_sender *sender, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* Time has passed: at least every heartbeat, better every ms while anything is under way. */
void ha_sender_tick(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* NCCL has closed: requests that are not complete fail. */
void ha_sender_close(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);

#endif
