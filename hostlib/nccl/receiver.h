/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The state machine of a comm's receiving end: receives of NCCL as slots, payloads that arrive in
 * them, and the change of paths. See end.h.
 *
 * A request has an index, 0 to HA_REQUESTS - 1, from ha_receiver_irecv() until
 * ha_receiver_release(). A slot is open from ha_receiver_irecv() until its payload has arrived; its
 * index in the ring is sequence % HA_SLOTS.
 */
#ifndef HA_RECEIVER_H
#define HA_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/end.h"

struct ha_open_slot {
	uint32_t sequence;
	uint32_t bytes, tag;
	void *buffer; /* memory of the receive, which belongs to the caller */
	void *region; /* registration of that memory, which belongs to the caller */
	/* Request of the slot, index of the slot among the request's slots, and their number. */
	uint8_t request, index, slots;
	bool described; /* the sender has this slot's description of the present epoch */
	bool complete;
};

struct ha_recv {
	bool used;
	uint8_t slots, open;
	uint32_t first; /* sequence of the first slot of the request */
	int error;      /* 0, or -errno with which the receiver has failed */
	uint32_t sizes[HA_GROUP];
};

struct ha_receiver {
	struct ha_end end;
	struct ha_open_slot slot[HA_SLOTS];
	struct ha_recv recv[HA_REQUESTS];
	uint32_t next_sequence; /* sequence that the next receive will get */
	/* lowest sequence that was not received, which is `next` in a report */
	uint32_t first_open;
	/* number of payloads that have arrived for slots that were not open */
	uint32_t duplicates;
	/* the queue pair is fenced, and some of its receives have not completed yet */
	bool draining;
	uint32_t draining_epoch;
	uint64_t draining_at_ns;
	/* the sender has sent CLOSE or ABORT; the sender has sent CLOSE */
	bool peer_ended, peer_closed;
	/* Error with which the receiver fails when its queue pair has drained; 0: it does not
	 * end. */
	int ending;
	const char *ending_why;
	bool ending_abort; /* the receiver sends ABORT when its queue pair has drained */
};

/* One buffer of a grouped receive, as NCCL passes it to irecv. */
struct ha_recv_buffer {
	void *buffer, *region;
	uint32_t bytes, tag;
};

void ha_receiver_init(struct ha_receiver *receiver, const struct ha_times *times, uint64_t nonce,
		      bool dual, uint64_t now_ns);

/* Begins a request of n receives (1 to HA_GROUP): opens n slots with successive sequences. Returns
 * the index of the request. Returns -EAGAIN without a free request or enough free slots; NCCL then
 * calls again. Otherwise returns the error of the receiver. Allowed in every state except DONE and
 * FAILED; the slots are described when the state allows that. */
int ha_receiver_irecv(struct ha_receiver *receiver, const struct ha_recv_buffer *buffers,
		      unsigned int n, struct ha_todo *todo);
/* Returns 1 if the request is complete, and fills sizes (HA_GROUP elements, or NULL). Returns 0 if
 * it is not complete yet, or the error with which it has ended. */
int ha_receiver_test(const struct ha_receiver *receiver, unsigned int request, uint32_t *sizes);
/* Frees a request for which ha_receiver_test() has returned anything but 0. */
void ha_receiver_release(struct ha_receiver *receiver, unsigned int request);

/* Fills in the description of a slot that the sender receives now, except for the rkey and the
 * address. */
void ha_receiver_describe(const struct ha_receiver *receiver, unsigned int place,
			  struct ha_slot *slot);
void ha_receiver_report(const struct ha_receiver *receiver, struct ha_report *report);

/* Each function below passes an event to the receiver's state machine. */

/* Handles a payload that has arrived on the queue pair of this epoch. sequence is its immediate. */
void ha_receiver_landed(struct ha_receiver *receiver, uint32_t epoch, uint32_t sequence,
			uint32_t bytes, uint64_t now_ns, struct ha_todo *todo);
/* Handles that each receive of the fenced queue pair has completed. ha_receiver_landed() was called
 * for those that have succeeded. */
void ha_receiver_drained(struct ha_receiver *receiver, uint32_t epoch, uint64_t now_ns,
			 struct ha_todo *todo);
/* Handles that a description or probe of this or an earlier epoch has completed. ok is true if it
 * has succeeded. */
void ha_receiver_completed(struct ha_receiver *receiver, uint64_t wr_id, bool ok, uint64_t now_ns,
			   struct ha_todo *todo);
/* The events below are described in sender.h, which has the same. */
void ha_receiver_trigger(struct ha_receiver *receiver, enum ha_cause cause, uint64_t now_ns,
			 struct ha_todo *todo);
void ha_receiver_path(struct ha_receiver *receiver, uint32_t epoch, bool up, uint64_t now_ns,
		      struct ha_todo *todo);
void ha_receiver_msg(struct ha_receiver *receiver, const struct ha_control_msg *msg,
		     uint64_t now_ns, struct ha_todo *todo);
void ha_receiver_channel(struct ha_receiver *receiver, bool alive, uint64_t now_ns,
			 struct ha_todo *todo);
void ha_receiver_tick(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo);
void ha_receiver_close(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo);
/* Handles that this end cannot go on, for a reason that is not the paths': -errno and a text. */
void ha_receiver_fail(struct ha_receiver *receiver, int error, const char *why, uint64_t now_ns,
		      struct ha_todo *todo);

/* Whether the receiver is DONE and its sender may still need the last report. If so, the caller
 * keeps the socket open and goes on with messages and ticks. This wait ends with the sender's CLOSE
 * or ABORT, or after HA_LINGER_RTOS. */
bool ha_receiver_lingers(const struct ha_receiver *receiver, uint64_t now_ns);

#endif
