/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receiving end of a comm: irecvs as slots, what has landed in them, and the change of paths.
 * See end.h.
 *
 * A request has a place, 0 to HA_REQUESTS - 1, from ha_receiver_irecv() until
 * ha_receiver_release(). A slot is open from irecv until its completion; its place in the ring is
 * sequence % HA_SLOTS.
 */
#ifndef HA_RECEIVER_H
#define HA_RECEIVER_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/end.h"

struct ha_open_slot {
	uint32_t sequence;
	uint32_t bytes, tag;
	void *buffer;                  /* caller's */
	void *region;                  /* caller's: the registration of buffer */
	uint8_t request, index, slots; /* of which group; its place there; how many it has */
	bool described;                /* in this epoch */
	bool complete;
};

struct ha_recv {
	bool used;
	uint8_t slots, open;
	uint32_t first; /* sequence of the first of its slots */
	int error;      /* 0, or the end's */
	uint32_t sizes[HA_GROUP];
};

struct ha_receiver {
	struct ha_end end;
	struct ha_open_slot slot[HA_SLOTS];
	struct ha_recv recv[HA_REQUESTS];
	uint32_t next_sequence; /* of the next irecv */
	uint32_t first_open;    /* the lowest not received: `next` of a report */
	uint32_t duplicates;    /* completions of slots that were not open */
	bool draining;          /* the fence is set, not all receives have completed */
	uint32_t draining_epoch;
	uint64_t draining_at_ns;
	bool peer_ended, peer_closed; /* CLOSE or ABORT was heard; CLOSE */
	/* Ends when all is drained, with this error; 0: does not. */
	int ending;
	const char *ending_why;
	bool ending_abort; /* by ABORT */
};

/* What irecv gets of each receive. */
struct ha_recv_buffer {
	void *buffer, *region;
	uint32_t bytes, tag;
};

void ha_receiver_init(struct ha_receiver *receiver, const struct ha_times *times, uint64_t nonce,
		      bool dual, uint64_t now_ns);

/* n (1 to HA_GROUP) slots with successive sequences: the place of the request, -EAGAIN: no free
 * place, or no free slots; later. Otherwise the end's error. Allowed in any state but DONE and
 * FAILED: it is described when it can be. */
int ha_receiver_irecv(struct ha_receiver *receiver, const struct ha_recv_buffer *buffers,
		      unsigned int n, struct ha_todo *todo);
/* 1: complete, sizes (HA_GROUP of them, may be NULL) are set; 0: not yet; or the error that it ends
 * with. */
int ha_receiver_test(const struct ha_receiver *receiver, unsigned int request, uint32_t *sizes);
/* A request for which test has said anything but 0 is over. */
void ha_receiver_release(struct ha_receiver *receiver, unsigned int request);

/* Fills a slot, all but the rkey and the address, as it is described now. */
void ha_receiver_describe(const struct ha_receiver *receiver, unsigned int place,
			  struct ha_slot *slot);
void ha_receiver_report(const struct ha_receiver *receiver, struct ha_report *report);

/* Events. */

/* A payload has come, on the queue pair of this epoch: its immediate and its size. */
void ha_receiver_landed(struct ha_receiver *receiver, uint32_t epoch, uint32_t sequence,
			uint32_t bytes, uint64_t now_ns, struct ha_todo *todo);
/* Each receive of the fenced queue pair has completed, and ha_receiver_landed() has told those with
 * success. */
void ha_receiver_drained(struct ha_receiver *receiver, uint32_t epoch, uint64_t now_ns,
			 struct ha_todo *todo);
/* A completion of the send queue (a description, a probe) of any epoch; ok: success. */
void ha_receiver_completed(struct ha_receiver *receiver, uint64_t wr_id, bool ok, uint64_t now_ns,
			   struct ha_todo *todo);
/* As the sender's. */
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

/* DONE, and the sender may still ask for the last report: the caller keeps the socket, and goes on
 * with messages and ticks. Over with the sender's CLOSE or ABORT, or after HA_LINGER_RTOS. */
bool ha_receiver_lingers(const struct ha_receiver *receiver, uint64_t now_ns);

#endif
