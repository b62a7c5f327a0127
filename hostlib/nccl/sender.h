/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state machine of a comm's sending end: sends of NCCL, the slots that they are written to, and
 * the change of paths. See end.h.
 *
 * A request has an index, 0 to HA_REQUESTS - 1, from ha_sender_isend() until ha_sender_release().
 */
#ifndef HA_SENDER_H
#define HA_SENDER_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/end.h"
#include "hostlib/nccl/control_msg.h"

/* States of a send. BOUND: it has a sequence, but its slot is not described in this epoch.
 * IN_FLIGHT: its payload was posted in this epoch and has not completed yet. FAILED: end.error has
 * the reason. */
#define HA_SEND_STATES(_) \
	_(FREE)           \
	_(BOUND)          \
	_(IN_FLIGHT)      \
	_(COMPLETE)       \
	_(FAILED)

enum ha_send_state {
#define HA_SEND_STATE_(NAME) HA_SEND_##NAME,
	HA_SEND_STATES(HA_SEND_STATE_)
#undef HA_SEND_STATE_
};

struct ha_send {
	enum ha_send_state state;
	/* sequence of the slot to which the send is bound, the same in all epochs */
	uint32_t sequence;
	uint32_t bytes;     /* size of the payload, which is at most that of the slot */
	const void *buffer; /* memory of the send, which belongs to the caller */
	void *region;       /* registration of that memory, which belongs to the caller */
	uint64_t posted_at_ns;
	uint64_t address; /* address of the receiver's buffer, as described in this epoch */
	uint32_t rkey;
};

struct ha_sender {
	struct ha_end end;
	/* ring of HA_SLOTS slots, at a multiple of 64 bytes, which the receiver writes */
	const struct ha_slot_wire *ring;
	struct ha_send send[HA_REQUESTS];
	/* Slots are in use from `first`, the lowest that is not complete, to `next`, the lowest
	 * that was never described. From `look` on, slots may not have been described in this
	 * epoch. */
	uint32_t first, next, look;
	/* time of the last completion in this epoch, or of the epoch's beginning */
	uint64_t progress_at_ns;
	/* Bit arrays with a bit for each index of the ring. In `used` the slot is bound to a
	 * request or complete. In `complete` its payload is acknowledged or reported. In
	 * `described` the receiver has described the slot in this epoch. */
	uint64_t used[HA_SLOTS / 64], complete[HA_SLOTS / 64], described[HA_SLOTS / 64];
	struct ha_slot slot[HA_SLOTS];
};

/* Initialises a sender in state FLOWING and epoch 0, whose path must be up. */
void ha_sender_init(struct ha_sender *sender, const struct ha_times *times, uint64_t nonce,
		    bool dual, const struct ha_slot_wire *ring, uint64_t now_ns);

/* Binds a send to the lowest free slot of its tag. Returns the index of the request. If the slot is
 * smaller than the send, the rest is not sent, as in NCCL's own plugin. Returns -EAGAIN without
 * such a slot, without a free request, or in another state than FLOWING; NCCL then calls again.
 * Returns -ESHUTDOWN if the sender is closed, otherwise the error of the sender. */
int ha_sender_isend(struct ha_sender *sender, const void *buffer, void *region, uint32_t bytes,
		    uint32_t tag, uint64_t now_ns, struct ha_todo *todo);
/* Frees a request that is complete or failed. */
void ha_sender_release(struct ha_sender *sender, unsigned int request);

/* Each function below passes an event to the sender's state machine. */

/* Reads new descriptions from the ring, and writes the payloads of requests that wait for them. It
 * costs little if there are none. */
void ha_sender_look(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* Handles that a payload or probe of any epoch has completed. ok is true if it has succeeded. */
void ha_sender_completed(struct ha_sender *sender, uint64_t wr_id, bool ok, uint64_t now_ns,
			 struct ha_todo *todo);
/* Makes the sender leave its path, which has failed, or which the comm wants to leave, for this
 * cause. The machine itself finds TIMEOUT, PROBE and PEER. REQUEST has an effect only if the next
 * path is ready. */
void ha_sender_trigger(struct ha_sender *sender, enum ha_cause cause, uint64_t now_ns,
		       struct ha_todo *todo);
/* Handles that the path of the next epoch, end.epoch + 1, is ready at both ends, or no longer ready
 * (up is false). */
void ha_sender_path(struct ha_sender *sender, uint32_t epoch, bool up, uint64_t now_ns,
		    struct ha_todo *todo);
/* Handles a control message of the peer. The machine handles types OPEN to ABORT, and the caller
 * the others. */
void ha_sender_msg(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		   struct ha_todo *todo);
/* Handles that any control channel to the peer is alive, or that none is. */
void ha_sender_channel(struct ha_sender *sender, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* Handles that time has passed. Must be called at least each heartbeat, or better each millisecond
 * while anything is under way. */
void ha_sender_tick(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* Handles that NCCL has closed the comm. Requests that are not complete fail. */
void ha_sender_close(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);

#endif
