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

/* BOUND: the request has a sequence, and its slot is not described in this epoch. IN_FLIGHT: its
 * payload was posted in this epoch, and has not completed yet. FAILED: see end.error. */
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
	uint32_t sequence;  /* sequence of the request's slot, the same in all epochs */
	uint32_t bytes;     /* size of the payload, at most the slot's room */
	const void *buffer; /* buffer of the send, owned by the caller */
	void *region;       /* registration of the buffer, owned by the caller */
	uint64_t posted_at_ns;
	uint64_t address; /* address of the slot, as described in this epoch */
	uint32_t rkey;
};

struct ha_sender {
	struct ha_end end;
	/* ring of HA_SLOTS slots, 64-byte aligned; the peer writes them */
	const struct ha_slot_wire *ring;
	struct ha_send send[HA_REQUESTS];
	/* Slots are in use from `first`, the lowest that is not complete, to `next`, the lowest
	 * that was never described. `look` is the lowest that may not have been described in this
	 * epoch. */
	uint32_t first, next, look;
	/* time of the last completion in this epoch, or of the epoch's begin */
	uint64_t progress_at_ns;
	/* Bit arrays with a bit for each ring index: the slot is bound to a request or complete,
	 * its payload is acknowledged or reported, and it is described in this epoch. */
	uint64_t used[HA_SLOTS / 64], complete[HA_SLOTS / 64], described[HA_SLOTS / 64];
	struct ha_slot slot[HA_SLOTS];
};

/* Initialises a sender in state FLOWING and epoch 0, whose path must be up. */
void ha_sender_init(struct ha_sender *sender, const struct ha_times *times, uint64_t nonce,
		    bool dual, const struct ha_slot_wire *ring, uint64_t now_ns);

/* Binds a send to the lowest free slot of its tag and returns the index of the request. If the slot
 * is smaller than the send, the rest is not sent, as in NCCL's own plugin. Returns -EAGAIN without
 * such a slot, without a free request, or in another state than FLOWING; NCCL then calls again.
 * Returns -ESHUTDOWN if the end is closed, otherwise the error of the end. */
int ha_sender_isend(struct ha_sender *sender, const void *buffer, void *region, uint32_t bytes,
		    uint32_t tag, uint64_t now_ns, struct ha_todo *todo);
/* Frees a request that is complete or failed. */
void ha_sender_release(struct ha_sender *sender, unsigned int request);

/* The functions below report events to the machine. */

/* Reads new slots of the ring, and writes the requests that wait for them again. Cheap if there are
 * none. */
void ha_sender_look(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* A payload or probe of any epoch has completed. ok: it has succeeded. */
void ha_sender_completed(struct ha_sender *sender, uint64_t wr_id, bool ok, uint64_t now_ns,
			 struct ha_todo *todo);
/* The epoch's path has failed, or the comm wants to leave it, for this cause. The machine itself
 * finds TIMEOUT, PROBE and PEER. REQUEST has an effect only if the next path is ready. */
void ha_sender_trigger(struct ha_sender *sender, enum ha_cause cause, uint64_t now_ns,
		       struct ha_todo *todo);
/* The path of the next epoch, end.epoch + 1, is ready at both ends, or no longer ready (up is
 * false). */
void ha_sender_path(struct ha_sender *sender, uint32_t epoch, bool up, uint64_t now_ns,
		    struct ha_todo *todo);
/* The peer has sent a control message. The machine handles OPEN to ABORT; the caller handles the
 * others. */
void ha_sender_msg(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		   struct ha_todo *todo);
/* Reports whether any control channel to the peer is alive. */
void ha_sender_channel(struct ha_sender *sender, bool alive, uint64_t now_ns, struct ha_todo *todo);
/* Time has passed. Must be called at least each heartbeat, or better each ms while anything is
 * under way. */
void ha_sender_tick(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);
/* NCCL has closed the comm. Requests that are not complete fail. */
void ha_sender_close(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo);

#endif
