/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include "hostlib/nccl/sender.h"

static bool has(const uint64_t *bits, uint32_t sequence)
{
	const uint32_t place = sequence % HA_SLOTS;

	return bits[place / 64] >> place % 64 & 1;
}

static void set(uint64_t *bits, uint32_t sequence)
{
	const uint32_t place = sequence % HA_SLOTS;

	bits[place / 64] |= UINT64_C(1) << place % 64;
}

static void clear(uint64_t *bits, uint32_t sequence)
{
	const uint32_t place = sequence % HA_SLOTS;

	bits[place / 64] &= ~(UINT64_C(1) << place % 64);
}

static bool is_open(const struct ha_send *send)
{
	return send->state == HA_SEND_BOUND || send->state == HA_SEND_IN_FLIGHT;
}

static unsigned int count_open(const struct ha_sender *sender)
{
	unsigned int i, n = 0;

	for (i = 0; i < HA_REQUESTS; i++)
		n += is_open(&sender->send[i]);
	return n;
}

static bool has_ended(const struct ha_sender *sender)
{
	return sender->end.state == HA_DONE || sender->end.state == HA_FAILED;
}

void ha_sender_init(struct ha_sender *sender, const struct ha_times *times, uint64_t nonce,
		    bool dual, const struct ha_slot_wire *ring, uint64_t now_ns)
{
	memset(sender, 0, sizeof(*sender));
	ha_end_init(&sender->end, times, nonce, dual, now_ns);
	sender->ring = ring;
	sender->progress_at_ns = now_ns;
}

static void set_state(struct ha_send *send, enum ha_send_state to)
{
	send->state = to;
}

/* ---- ends ---- */

static void fails(struct ha_sender *sender, int error, const char *why, bool send_abort,
		  uint64_t now_ns, struct ha_todo *todo)
{
	unsigned int i;

	if (has_ended(sender))
		return;
	for (i = 0; i < HA_REQUESTS; i++)
		if (is_open(&sender->send[i]))
			set_state(&sender->send[i], HA_SEND_FAILED);
	ha_end_fail(&sender->end, error, why, now_ns, todo);
	if (send_abort)
		ha_end_send(&sender->end, HA_MSG_ABORT, NULL, false, now_ns, todo);
}

static void is_done(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo)
{
	if (sender->end.state != HA_BROKEN)
		ha_end_fence(sender->end.epoch, todo);
	ha_end_become(&sender->end, HA_DONE, now_ns, todo);
	ha_end_send(&sender->end, HA_MSG_CLOSE, NULL, false, now_ns, todo);
}

static void completes(struct ha_sender *sender, struct ha_send *send, uint64_t now_ns)
{
	set_state(send, HA_SEND_COMPLETE);
	set(sender->complete, send->sequence);
	sender->progress_at_ns = now_ns;
	ha_end_completed(&sender->end);
	while (sender->first != sender->next && has(sender->complete, sender->first)) {
		clear(sender->complete, sender->first);
		clear(sender->used, sender->first);
		clear(sender->described, sender->first);
		sender->first++;
	}
	if (ha_before(sender->look, sender->first))
		sender->look = sender->first;
}

/* ---- requests ---- */

static void writes(struct ha_sender *sender, struct ha_send *send, uint64_t now_ns,
		   struct ha_todo *todo)
{
	const struct ha_slot *slot = &sender->slot[send->sequence % HA_SLOTS];

	send->address = slot->address;
	send->rkey = slot->rkey;
	send->posted_at_ns = now_ns;
	set_state(send, HA_SEND_IN_FLIGHT);
	todo->post[todo->posts++] = (uint16_t)(send - sender->send);
}

/* Finds the lowest free slot with this tag that the receiver has described in this epoch. Returns
 * false if there is none. */
static bool find_slot(const struct ha_sender *sender, uint32_t tag, uint32_t *sequence)
{
	uint32_t s;

	for (s = sender->first; s != sender->look; s++) {
		if (has(sender->described, s) && !has(sender->used, s) &&
		    sender->slot[s % HA_SLOTS].tag == tag) {
			*sequence = s;
			return true;
		}
	}
	return false;
}

int ha_sender_isend(struct ha_sender *sender, const void *buffer, void *region, uint32_t bytes,
		    uint32_t tag, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_send *send;
	uint32_t sequence, room;
	int i;

	ha_sender_look(sender, now_ns, todo);
	if (sender->end.state == HA_FAILED)
		return sender->end.error;
	if (sender->end.state == HA_DONE)
		return -ESHUTDOWN;
	if (sender->end.state != HA_FLOWING)
		return -EAGAIN;
	for (i = 0; i < (int)HA_REQUESTS; i++)
		if (sender->send[i].state == HA_SEND_FREE)
			break;
	if (i == (int)HA_REQUESTS || !find_slot(sender, tag, &sequence))
		return -EAGAIN;
	room = sender->slot[sequence % HA_SLOTS].bytes;
	send = &sender->send[i];
	*send = (struct ha_send){.sequence = sequence,
				 .bytes = bytes < room ? bytes : room,
				 .buffer = buffer,
				 .region = region};
	set(sender->used, sequence);
	writes(sender, send, now_ns, todo);
	return i;
}

void ha_sender_release(struct ha_sender *sender, unsigned int request)
{
	set_state(&sender->send[request], HA_SEND_FREE);
}

/* ---- the ring ---- */

static struct ha_send *bound_to(struct ha_sender *sender, uint32_t sequence)
{
	unsigned int i;

	for (i = 0; i < HA_REQUESTS; i++)
		if (is_open(&sender->send[i]) && sender->send[i].sequence == sequence)
			return &sender->send[i];
	return NULL;
}

/* Whether two descriptions of a slot are of the same receive. In a new epoch a slot is described
 * again for another device, so address and key may differ. */
static bool same_receive(const struct ha_slot *a, const struct ha_slot *b)
{
	return a->tag == b->tag && a->bytes == b->bytes && a->index == b->index &&
	       a->slots == b->slots;
}

/* Stores a slot that the receiver has described. Returns false if it contradicts an earlier
 * description. */
static bool takes_slot(struct ha_sender *sender, const struct ha_slot *slot, uint64_t now_ns,
		       struct ha_todo *todo)
{
	struct ha_slot *own = &sender->slot[slot->sequence % HA_SLOTS];
	struct ha_send *send;

	if (ha_before(slot->sequence, sender->next)) {
		if (!same_receive(own, slot))
			return false;
	} else {
		sender->next = slot->sequence + 1;
	}
	*own = *slot;
	set(sender->described, slot->sequence);
	send = bound_to(sender, slot->sequence);
	if (send)
		writes(sender, send, now_ns, todo);
	return true;
}

/* Reads new descriptions from the ring. The first missing one ends the search, because the receiver
 * describes slots in order, and a queue pair delivers them in order. A slot that only the receiver
 * has completed may have been overwritten by the slot HA_SLOTS later. ha_slot_read() then returns
 * 0, and the slot is read again later. */
void ha_sender_look(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_slot slot;
	int r;

	while (sender->end.state == HA_FLOWING && sender->look - sender->first < HA_SLOTS) {
		if (has(sender->complete, sender->look)) {
			sender->look++;
			continue;
		}
		r = ha_slot_read(&sender->ring[sender->look % HA_SLOTS], sender->look,
				 sender->end.epoch, &slot, NULL);
		if (!r)
			return;
		if (r < 0 || !takes_slot(sender, &slot, now_ns, todo)) {
			fails(sender, -EPROTO, "the peer describes an invalid receive", true,
			      now_ns, todo);
			return;
		}
		sender->look++;
	}
}

/* ---- epochs ---- */

static void enters(struct ha_sender *sender, uint32_t epoch, uint64_t now_ns, struct ha_todo *todo)
{
	unsigned int i;

	for (i = 0; i < HA_REQUESTS; i++)
		if (sender->send[i].state == HA_SEND_IN_FLIGHT)
			set_state(&sender->send[i], HA_SEND_BOUND);
	memset(sender->described, 0, sizeof(sender->described));
	sender->look = sender->first;
	ha_end_enter(&sender->end, epoch, count_open(sender) > 0, now_ns, todo);
}

static void opens_next(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo)
{
	enters(sender, sender->end.epoch + 1, now_ns, todo);
	ha_end_send(&sender->end, HA_MSG_OPEN, NULL, true, now_ns, todo);
}

void ha_sender_trigger(struct ha_sender *sender, enum ha_cause cause, uint64_t now_ns,
		       struct ha_todo *todo)
{
	struct ha_end *end = &sender->end;
	const bool ready = end->ready > end->epoch;
	const char *why;

	if (end->state != HA_FLOWING || (cause == HA_CAUSE_REQUEST && !ready))
		return;
	why = ha_end_no_way(end, count_open(sender) > 0);
	if (why) {
		end->cause = cause;
		fails(sender, -EIO, why, true, now_ns, todo);
		return;
	}
	ha_end_leave(end, cause, now_ns, todo);
	if (ready)
		opens_next(sender, now_ns, todo);
	else
		ha_end_become(end, HA_BROKEN, now_ns, todo);
}

void ha_sender_path(struct ha_sender *sender, uint32_t epoch, bool up, uint64_t now_ns,
		    struct ha_todo *todo)
{
	ha_end_path(&sender->end, epoch, up);
	if (sender->end.state == HA_BROKEN && sender->end.ready > sender->end.epoch)
		opens_next(sender, now_ns, todo);
}

void ha_sender_completed(struct ha_sender *sender, uint64_t wr_id, bool ok, uint64_t now_ns,
			 struct ha_todo *todo)
{
	const uint32_t epoch = ha_wr_epoch(wr_id), i = ha_wr_index(wr_id);
	struct ha_end *end = &sender->end;
	struct ha_send *send = i < HA_REQUESTS ? &sender->send[i] : NULL;

	if (epoch == end->epoch) {
		if (ok && i == HA_WR_PROBE)
			ha_end_probe_ok(end);
		else if (ok && send && send->state == HA_SEND_IN_FLIGHT)
			completes(sender, send, now_ns);
		else if (!ok && (send || i == HA_WR_PROBE))
			ha_sender_trigger(sender, send ? HA_CAUSE_ERROR : HA_CAUSE_PROBE, now_ns,
					  todo);
	} else if (epoch + 1 == end->epoch && end->state == HA_SWITCHING && ok && send &&
		   send->state == HA_SEND_BOUND) {
		/* A request of the previous epoch has completed before the report came. No request
		 * was bound since, so the index still names this request. */
		completes(sender, send, now_ns);
	}
}

/* ---- control messages ---- */

/* Returns why the receiver's report cannot be true, or NULL. It must have all payloads that were
 * acknowledged, and it can have only payloads that were written. */
static const char *contradicts(const struct ha_sender *sender, const struct ha_report *report)
{
	uint32_t s;

	if (ha_before(report->next, sender->first))
		return "the peer's report lacks what it has acknowledged";
	if (ha_before(sender->next, report->next))
		return "the peer's report has what was never sent";
	for (s = sender->first; s != report->next + HA_SLOTS; s++) {
		const bool seen = ha_before(s, sender->next);

		if (ha_report_has(report, s) && !(seen && has(sender->used, s)))
			return "the peer's report has what was never sent";
		if (!ha_report_has(report, s) && seen && has(sender->complete, s))
			return "the peer's report lacks what it has acknowledged";
	}
	return NULL;
}

static void completes_reported(struct ha_sender *sender, const struct ha_report *report,
			       uint64_t now_ns)
{
	unsigned int i;

	for (i = 0; i < HA_REQUESTS; i++) {
		struct ha_send *send = &sender->send[i];

		if (is_open(send) && ha_report_has(report, send->sequence)) {
			completes(sender, send, now_ns);
			sender->end.failover.delivered++;
		}
	}
}

static void takes_report(struct ha_sender *sender, const struct ha_report *report, uint64_t now_ns,
			 struct ha_todo *todo)
{
	completes_reported(sender, report, now_ns);
	sender->progress_at_ns = now_ns;
	ha_end_flow(&sender->end, count_open(sender), now_ns, todo);
	ha_end_send(&sender->end, HA_MSG_RESUME, NULL, false, now_ns, todo);
}

/* Handles a REPORT of the next epoch: the receiver has left the present queue pair first, so this
 * end leaves it, too. */
static void follows(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		    struct ha_todo *todo)
{
	struct ha_end *end = &sender->end;
	const char *why = ha_end_no_way(end, count_open(sender) > 0);

	if (why) {
		fails(sender, -EIO, why, true, now_ns, todo);
		return;
	}
	if (end->state != HA_BROKEN)
		ha_end_leave(end, HA_CAUSE_PEER, now_ns, todo);
	enters(sender, msg->epoch, now_ns, todo);
	takes_report(sender, &msg->report, now_ns, todo);
}

static void receives_report(struct ha_sender *sender, const struct ha_control_msg *msg,
			    uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_end *end = &sender->end;
	const bool newer = msg->epoch > end->epoch;
	const char *why;

	if (msg->epoch < end->epoch)
		return;
	if (!newer && end->state != HA_SWITCHING) {
		ha_end_send(end, HA_MSG_RESUME, NULL, false, now_ns, todo);
		return;
	}
	why = msg->epoch - end->epoch > 1 ? "the peer is two epochs ahead"
					  : contradicts(sender, &msg->report);
	if (why)
		fails(sender, -EPROTO, why, true, now_ns, todo);
	else if (newer)
		follows(sender, msg, now_ns, todo);
	else
		takes_report(sender, &msg->report, now_ns, todo);
}

/* Handles the receiver's CLOSE. The receiver is complete and receives no more, so its report is the
 * last one, whatever its epoch. */
static void receives_close(struct ha_sender *sender, const struct ha_control_msg *msg,
			   uint64_t now_ns, struct ha_todo *todo)
{
	const char *why = contradicts(sender, &msg->report);

	if (why) {
		fails(sender, -EPROTO, why, true, now_ns, todo);
		return;
	}
	completes_reported(sender, &msg->report, now_ns);
	if (count_open(sender))
		fails(sender, -ECONNRESET, "the peer has closed", true, now_ns, todo);
	else
		is_done(sender, now_ns, todo);
}

/* Answers a message that shows that the peer does not know yet that this end is DONE or FAILED. */
static void answers(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		    struct ha_todo *todo)
{
	if (msg->type == HA_MSG_REPORT || msg->type == HA_MSG_CLOSE)
		ha_end_send(&sender->end,
			    sender->end.state == HA_DONE ? HA_MSG_CLOSE : HA_MSG_ABORT, NULL, false,
			    now_ns, todo);
}

void ha_sender_msg(struct ha_sender *sender, const struct ha_control_msg *msg, uint64_t now_ns,
		   struct ha_todo *todo)
{
	if (msg->nonce != sender->end.nonce)
		return;
	if (has_ended(sender)) {
		answers(sender, msg, now_ns, todo);
		return;
	}
	switch (msg->type) {
	case HA_MSG_REPORT:
		receives_report(sender, msg, now_ns, todo);
		break;
	case HA_MSG_CLOSE:
		receives_close(sender, msg, now_ns, todo);
		break;
	case HA_MSG_ABORT:
		fails(sender, -ECONNRESET, "the peer has given up", false, now_ns, todo);
		break;
	case HA_MSG_OPEN:
	case HA_MSG_RESUME:
		fails(sender, -EPROTO, "the peer sends what only a sender sends", true, now_ns,
		      todo);
		break;
	default: /* the caller handles the other types of messages */
		break;
	}
}

/* ---- time ---- */

void ha_sender_channel(struct ha_sender *sender, bool alive, uint64_t now_ns, struct ha_todo *todo)
{
	ha_end_channel(&sender->end, alive, now_ns, todo);
}

/* Whether a payload has been in flight for an RTO in which nothing has completed. */
static bool stands_still(const struct ha_sender *sender, uint64_t now_ns)
{
	const uint64_t rto_ns = sender->end.times.rto_ns;
	unsigned int i;

	if (sender->end.state != HA_FLOWING || !ha_end_past(sender->progress_at_ns, rto_ns, now_ns))
		return false;
	for (i = 0; i < HA_REQUESTS; i++)
		if (sender->send[i].state == HA_SEND_IN_FLIGHT &&
		    ha_end_past(sender->send[i].posted_at_ns, rto_ns, now_ns))
			return true;
	return false;
}

void ha_sender_tick(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo)
{
	struct ha_end *end = &sender->end;

	ha_sender_look(sender, now_ns, todo);
	if ((end->state == HA_SWITCHING || end->state == HA_BROKEN) &&
	    ha_end_past(end->entered_at_ns, end->times.rto_ns, now_ns)) {
		fails(sender, -ETIMEDOUT,
		      end->state == HA_BROKEN ? "the path has failed, and no other one has come up"
					      : "the peer does not answer",
		      true, now_ns, todo);
		return;
	}
	if (stands_still(sender, now_ns))
		ha_sender_trigger(sender, HA_CAUSE_TIMEOUT, now_ns, todo);
	ha_end_tick(end, now_ns, todo);
}

void ha_sender_close(struct ha_sender *sender, uint64_t now_ns, struct ha_todo *todo)
{
	if (has_ended(sender))
		return;
	if (count_open(sender))
		fails(sender, -ECANCELED, "closed with sends that were not complete", true, now_ns,
		      todo);
	else
		is_done(sender, now_ns, todo);
}
