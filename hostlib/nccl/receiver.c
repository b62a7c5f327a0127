/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "hostlib/nccl/receiver.h"

static bool has_ended(const struct ha_receiver *receiver)
{
	return receiver->end.state == HA_DONE || receiver->end.state == HA_FAILED;
}

/* Returns the open slot of this sequence, or NULL if that is not open: a slot is open from
 * first_open to next_sequence unless it is complete. */
static struct ha_open_slot *slot_at(struct ha_receiver *receiver, uint32_t sequence)
{
	struct ha_open_slot *slot = &receiver->slot[sequence % HA_SLOTS];

	if (ha_before(sequence, receiver->first_open) ||
	    !ha_before(sequence, receiver->next_sequence) || slot->complete)
		return NULL;
	return slot;
}

static bool is_waiting(const struct ha_receiver *receiver)
{
	return receiver->first_open != receiver->next_sequence;
}

void ha_receiver_init(struct ha_receiver *receiver, const struct ha_times *times, uint64_t nonce,
		      bool dual, uint64_t now_ns)
{
	memset(receiver, 0, sizeof(*receiver));
	ha_end_init(&receiver->end, times, nonce, dual, now_ns);
}

/* ---- ends ---- */

static void fails(struct ha_receiver *receiver, int error, const char *why, bool send_abort,
		  uint64_t now_ns, struct ha_todo *todo)
{
	unsigned int i;

	if (receiver->end.state == HA_FAILED)
		return;
	for (i = 0; i < HA_REQUESTS; i++)
		if (receiver->recv[i].used && receiver->recv[i].open)
			receiver->recv[i].error = error;
	ha_end_fail(&receiver->end, error, why, now_ns, todo);
	receiver->ending = 0;
	if (send_abort)
		ha_end_send(&receiver->end, HA_MSG_ABORT, NULL, false, now_ns, todo);
}

static void is_done(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_report report;

	if (receiver->end.state != HA_BROKEN)
		ha_end_fence(receiver->end.epoch, todo);
	ha_end_become(&receiver->end, HA_DONE, now_ns, todo);
	receiver->ending = 0;
	ha_receiver_report(receiver, &report);
	ha_end_send(&receiver->end, HA_MSG_CLOSE, &report, !receiver->peer_ended, now_ns, todo);
}

/* ---- requests ---- */

static int free_request(const struct ha_receiver *receiver)
{
	int i;

	for (i = 0; i < (int)HA_REQUESTS; i++)
		if (!receiver->recv[i].used)
			return i;
	return -EAGAIN;
}

static void describes(struct ha_open_slot *slot, struct ha_todo *todo)
{
	slot->described = true;
	todo->post[todo->posts++] = slot->sequence % HA_SLOTS;
}

int ha_receiver_irecv(struct ha_receiver *receiver, const struct ha_recv_buffer *buffers,
		      unsigned int n, struct ha_todo *todo)
{
	const int request = free_request(receiver);
	unsigned int i;

	if (receiver->end.state == HA_FAILED)
		return receiver->end.error;
	if (receiver->end.state == HA_DONE)
		return -ESHUTDOWN;
	if (n < 1 || n > HA_GROUP)
		return -EINVAL;
	if (request < 0 || receiver->next_sequence - receiver->first_open + n > HA_SLOTS)
		return -EAGAIN;
	receiver->recv[request] = (struct ha_recv){.used = true,
						   .slots = (uint8_t)n,
						   .open = (uint8_t)n,
						   .first = receiver->next_sequence};
	for (i = 0; i < n; i++) {
		const uint32_t sequence = receiver->next_sequence++;
		struct ha_open_slot *slot = &receiver->slot[sequence % HA_SLOTS];

		*slot = (struct ha_open_slot){.sequence = sequence,
					      .bytes = buffers[i].bytes,
					      .tag = buffers[i].tag,
					      .buffer = buffers[i].buffer,
					      .region = buffers[i].region,
					      .request = (uint8_t)request,
					      .index = (uint8_t)i,
					      .slots = (uint8_t)n};
		if (receiver->end.state == HA_FLOWING)
			describes(slot, todo);
	}
	return request;
}

int ha_receiver_test(const struct ha_receiver *receiver, unsigned int request, uint32_t *sizes)
{
	const struct ha_recv *recv = &receiver->recv[request];

	if (recv->error)
		return recv->error;
	if (recv->open)
		return 0;
	if (sizes)
		memcpy(sizes, recv->sizes, sizeof(recv->sizes));
	return 1;
}

void ha_receiver_release(struct ha_receiver *receiver, unsigned int request)
{
	receiver->recv[request].used = false;
}

void ha_receiver_describe(const struct ha_receiver *receiver, unsigned int place,
			  struct ha_slot *slot)
{
	const struct ha_open_slot *own = &receiver->slot[place];

	*slot = (struct ha_slot){.bytes = own->bytes,
				 .tag = own->tag,
				 .epoch = receiver->end.epoch,
				 .sequence = own->sequence,
				 .index = own->index,
				 .slots = own->slots};
}

void ha_receiver_report(const struct ha_receiver *receiver, struct ha_report *report)
{
	uint32_t s;

	*report = (struct ha_report){.next = receiver->first_open};
	for (s = receiver->first_open; s != receiver->next_sequence; s++) {
		const uint32_t i = s - receiver->first_open;

		if (receiver->slot[s % HA_SLOTS].complete)
			report->received[i / 64] |= UINT64_C(1) << i % 64;
	}
}

/* ---- payloads ---- */

/* Returns the epoch whose queue pair may still deliver payloads. */
static uint32_t live_epoch(const struct ha_receiver *receiver)
{
	return receiver->draining ? receiver->draining_epoch : receiver->end.epoch;
}

static void completes(struct ha_receiver *receiver, struct ha_open_slot *slot, uint32_t bytes)
{
	struct ha_recv *recv = &receiver->recv[slot->request];

	slot->complete = true;
	recv->sizes[slot->index] = bytes;
	recv->open--;
	ha_end_completed(&receiver->end);
	if (receiver->draining)
		receiver->end.failover.delivered++;
	while (receiver->first_open != receiver->next_sequence &&
	       receiver->slot[receiver->first_open % HA_SLOTS].complete)
		receiver->first_open++;
}

void ha_receiver_landed(struct ha_receiver *receiver, uint32_t epoch, uint32_t sequence,
			uint32_t bytes, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_open_slot *slot = slot_at(receiver, sequence);

	if (receiver->end.state == HA_FAILED)
		return;
	if (!slot) {
		receiver->duplicates++;
		fails(receiver, -EPROTO, "a payload has landed where no receive is open", true,
		      now_ns, todo);
	} else if (!slot->described || epoch != live_epoch(receiver)) {
		fails(receiver, -EPROTO, "a payload has landed in a receive of another epoch", true,
		      now_ns, todo);
	} else if (bytes > slot->bytes) {
		fails(receiver, -EPROTO, "a payload is larger than its receive", true, now_ns,
		      todo);
	} else {
		completes(receiver, slot, bytes);
	}
}

/* ---- epochs ---- */

static void reports(struct ha_receiver *receiver, bool again, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_report report;

	ha_receiver_report(receiver, &report);
	ha_end_send(&receiver->end, HA_MSG_REPORT, &report, again, now_ns, todo);
}

/* Leaves the queue pair of the present epoch, and starts to drain it. */
static void leaves(struct ha_receiver *receiver, enum ha_cause cause, uint64_t now_ns,
		   struct ha_todo *todo)
{
	receiver->draining = true;
	receiver->draining_epoch = receiver->end.epoch;
	receiver->draining_at_ns = now_ns;
	ha_end_leave(&receiver->end, cause, now_ns, todo);
}

/* Ends the receiver in state DONE or FAILED, because its queue pair has drained. */
static void ends(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	if (receiver->peer_closed && !is_waiting(receiver))
		is_done(receiver, now_ns, todo);
	else
		fails(receiver, receiver->ending, receiver->ending_why, receiver->ending_abort,
		      now_ns, todo);
}

/* Lets the receiver fail as soon as its queue pair has drained. Payloads that have arrived must be
 * received first, because the sender may count them as delivered. */
static void fails_drained(struct ha_receiver *receiver, int error, const char *why, bool send_abort,
			  uint64_t now_ns, struct ha_todo *todo)
{
	receiver->ending = error;
	receiver->ending_why = why;
	receiver->ending_abort = send_abort;
	if (receiver->end.state == HA_FLOWING) {
		leaves(receiver, receiver->end.cause, now_ns, todo);
		ha_end_become(&receiver->end, HA_BROKEN, now_ns, todo);
	}
	if (!receiver->draining)
		ends(receiver, now_ns, todo);
}

static void enters_next(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	ha_end_enter(&receiver->end, receiver->end.epoch + 1, is_waiting(receiver), now_ns, todo);
	if (!receiver->draining)
		reports(receiver, true, now_ns, todo);
}

void ha_receiver_trigger(struct ha_receiver *receiver, enum ha_cause cause, uint64_t now_ns,
			 struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;
	const bool ready = end->ready > end->epoch;
	const char *why;

	if (end->state != HA_FLOWING || (cause == HA_CAUSE_REQUEST && !ready))
		return;
	why = ha_end_no_way(end, is_waiting(receiver));
	if (why) {
		end->cause = cause;
		fails_drained(receiver, -EIO, why, true, now_ns, todo);
		return;
	}
	leaves(receiver, cause, now_ns, todo);
	if (ready)
		enters_next(receiver, now_ns, todo);
	else
		ha_end_become(end, HA_BROKEN, now_ns, todo);
}

void ha_receiver_drained(struct ha_receiver *receiver, uint32_t epoch, uint64_t now_ns,
			 struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;
	unsigned int i;

	if (!receiver->draining || epoch != receiver->draining_epoch)
		return;
	receiver->draining = false;
	for (i = 0; i < HA_SLOTS; i++)
		receiver->slot[i].described = false;
	if (has_ended(receiver))
		return;
	if (receiver->ending) {
		ends(receiver, now_ns, todo);
	} else if (end->state == HA_SWITCHING) {
		end->entered_at_ns = now_ns;
		reports(receiver, true, now_ns, todo);
	}
}

void ha_receiver_path(struct ha_receiver *receiver, uint32_t epoch, bool up, uint64_t now_ns,
		      struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;

	ha_end_path(end, epoch, up);
	if (end->state == HA_BROKEN && end->ready > end->epoch && !receiver->ending)
		enters_next(receiver, now_ns, todo);
}

void ha_receiver_completed(struct ha_receiver *receiver, uint64_t wr_id, bool ok, uint64_t now_ns,
			   struct ha_todo *todo)
{
	const uint32_t i = ha_wr_index(wr_id);

	if (ha_wr_epoch(wr_id) != receiver->end.epoch)
		return;
	if (ok && i == HA_WR_PROBE)
		ha_end_probe_ok(&receiver->end);
	else if (!ok && (i < HA_SLOTS || i == HA_WR_PROBE))
		ha_receiver_trigger(receiver, i == HA_WR_PROBE ? HA_CAUSE_PROBE : HA_CAUSE_ERROR,
				    now_ns, todo);
}

/* ---- control messages ---- */

static void receives_next_open(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;
	const char *why = ha_end_no_way(end, is_waiting(receiver));

	if (why) {
		fails_drained(receiver, -EIO, why, true, now_ns, todo);
		return;
	}
	if (end->state == HA_SWITCHING && receiver->draining) {
		fails(receiver, -EPROTO, "the peer goes on before it has a report", true, now_ns,
		      todo);
		return;
	}
	if (end->state != HA_BROKEN)
		leaves(receiver, HA_CAUSE_PEER, now_ns, todo);
	enters_next(receiver, now_ns, todo);
}

static void receives_open(struct ha_receiver *receiver, const struct ha_control_msg *msg,
			  uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;

	if (msg->epoch < end->epoch)
		return;
	if (msg->epoch - end->epoch > 1)
		fails(receiver, -EPROTO, "the peer is two epochs ahead", true, now_ns, todo);
	else if (msg->epoch > end->epoch)
		receives_next_open(receiver, now_ns, todo);
	else if (end->state != HA_SWITCHING || !receiver->draining)
		reports(receiver, end->state == HA_SWITCHING, now_ns, todo);
}

static void receives_resume(struct ha_receiver *receiver, const struct ha_control_msg *msg,
			    uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;
	unsigned int described = 0;
	uint32_t s;

	if (msg->epoch > end->epoch ||
	    (msg->epoch == end->epoch && end->state == HA_SWITCHING && receiver->draining)) {
		fails(receiver, -EPROTO, "the peer goes on before it has a report", true, now_ns,
		      todo);
		return;
	}
	if (msg->epoch != end->epoch || end->state != HA_SWITCHING)
		return;
	for (s = receiver->first_open; s != receiver->next_sequence; s++) {
		struct ha_open_slot *slot = slot_at(receiver, s);

		if (!slot)
			continue;
		describes(slot, todo);
		described++;
	}
	ha_end_flow(end, described, now_ns, todo);
}

/* Handles the sender's CLOSE or ABORT. The receiver ends when its queue pair has drained. */
static void receives_end(struct ha_receiver *receiver, const struct ha_control_msg *msg,
			 uint64_t now_ns, struct ha_todo *todo)
{
	const bool closed = msg->type == HA_MSG_CLOSE;

	receiver->peer_ended = true;
	receiver->peer_closed |= closed;
	if (!receiver->ending)
		receiver->end.cause = HA_CAUSE_PEER;
	fails_drained(receiver, -ECONNRESET,
		      closed ? "the peer has closed" : "the peer has given up", false, now_ns,
		      todo);
}

static void answers(struct ha_receiver *receiver, const struct ha_control_msg *msg, uint64_t now_ns,
		    struct ha_todo *todo)
{
	struct ha_end *end = &receiver->end;

	if (msg->type == HA_MSG_CLOSE || msg->type == HA_MSG_ABORT) {
		receiver->peer_ended = true;
		end->last.type = 0;
	} else if (msg->type != HA_MSG_OPEN) {
		return;
	} else if (end->state == HA_FAILED) {
		ha_end_send(end, HA_MSG_ABORT, NULL, false, now_ns, todo);
	} else if (msg->epoch >= end->epoch && msg->epoch - end->epoch <= 1) {
		end->epoch = msg->epoch;
		reports(receiver, false, now_ns, todo);
	}
}

void ha_receiver_msg(struct ha_receiver *receiver, const struct ha_control_msg *msg,
		     uint64_t now_ns, struct ha_todo *todo)
{
	if (msg->nonce != receiver->end.nonce)
		return;
	if (has_ended(receiver)) {
		answers(receiver, msg, now_ns, todo);
		return;
	}
	switch (msg->type) {
	case HA_MSG_OPEN:
		if (!receiver->ending)
			receives_open(receiver, msg, now_ns, todo);
		break;
	case HA_MSG_RESUME:
		if (!receiver->ending)
			receives_resume(receiver, msg, now_ns, todo);
		break;
	case HA_MSG_CLOSE:
	case HA_MSG_ABORT:
		receives_end(receiver, msg, now_ns, todo);
		break;
	case HA_MSG_REPORT:
		fails(receiver, -EPROTO, "the peer sends what only a receiver sends", true, now_ns,
		      todo);
		break;
	default: /* the caller handles the other types of messages */
		break;
	}
}

/* ---- time ---- */

void ha_receiver_channel(struct ha_receiver *receiver, bool alive, uint64_t now_ns,
			 struct ha_todo *todo)
{
	ha_end_channel(&receiver->end, alive, now_ns, todo);
}

/* Returns why the receiver has to fail now, or NULL. */
static const char *gives_up(const struct ha_receiver *receiver, uint64_t now_ns)
{
	const struct ha_end *end = &receiver->end;
	const uint64_t rto_ns = end->times.rto_ns;

	if (has_ended(receiver))
		return NULL;
	if (receiver->draining && ha_end_past(receiver->draining_at_ns, rto_ns, now_ns))
		return "a queue pair that was left does not drain: what was delivered is unknown";
	if (end->state == HA_SWITCHING && !receiver->draining &&
	    ha_end_past(end->entered_at_ns, rto_ns, now_ns))
		return "the peer does not answer";
	if (end->state == HA_BROKEN && ha_end_past(end->entered_at_ns, rto_ns, now_ns))
		return "the path has failed, and no other one has come up";
	return NULL;
}

void ha_receiver_tick(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	const char *why = gives_up(receiver, now_ns);

	if (why)
		fails(receiver, -ETIMEDOUT, why, true, now_ns, todo);
	if (receiver->end.state == HA_DONE && !ha_receiver_lingers(receiver, now_ns))
		receiver->end.last.type = 0;
	ha_end_tick(&receiver->end, now_ns, todo);
}

void ha_receiver_fail(struct ha_receiver *receiver, int error, const char *why, uint64_t now_ns,
		      struct ha_todo *todo)
{
	fails(receiver, error, why, true, now_ns, todo);
}

void ha_receiver_close(struct ha_receiver *receiver, uint64_t now_ns, struct ha_todo *todo)
{
	if (has_ended(receiver))
		return;
	if (is_waiting(receiver))
		fails(receiver, -ECANCELED, "closed with receives that were not complete", true,
		      now_ns, todo);
	else
		is_done(receiver, now_ns, todo);
}

bool ha_receiver_lingers(const struct ha_receiver *receiver, uint64_t now_ns)
{
	return receiver->end.state == HA_DONE && !receiver->peer_ended &&
	       !ha_end_past(receiver->end.entered_at_ns,
			    HA_LINGER_RTOS * receiver->end.times.rto_ns, now_ns);
}
