/* SPDX-License-Identifier: BSD-2-Clause */
/* The possible events of both ends (harness_ends.h), the properties that must hold when none is
 * possible any more, and a normal form for equivalent states. */
#include <stdio.h>
#include <string.h>
#include "selftests/nccl/harness_ends.h"

/* ---- the possible events ---- */

bool ends_is_fault(struct ends_event event)
{
	return event.kind > REPAIR;
}

struct list {
	struct ends_event *event;
	unsigned int n;
};

static void add(struct list *list, bool possible, enum ends_event_kind kind, unsigned int arg)
{
	if (possible && list->n < ENDS_EVENTS)
		list->event[list->n++] =
			(struct ends_event){.kind = (uint8_t)kind, .arg = (uint8_t)arg};
}

static bool path_dead(const struct ends_pair *p)
{
	return p->there.cut || p->back.cut;
}

static void add_wires(const struct ends *b, struct list *list)
{
	unsigned int e;

	for (e = 0; e <= b->up && e < ENDS_EPOCHS; e++) {
		const struct ends_pair *p = &b->pair[e];

		add(list, p->there.wire.n && !p->back.fenced, DATA_LANDS, e);
		add(list, p->back.wire.n && !p->there.fenced, SLOT_LANDS, e);
		add(list, p->there.done.n, SENDER_POLLS, e);
		add(list, p->back.done.n, RECEIVER_POLLS, e);
		add(list, p->landed.n, RECEIVER_LANDED, e);
		add(list,
		    p->there.unacked.n && !p->there.fenced && (path_dead(p) || p->back.fenced),
		    SEND_FAILS, e);
		add(list, p->back.unacked.n && !p->back.fenced && (path_dead(p) || p->there.fenced),
		    DESCRIBE_FAILS, e);
		add(list, b->receiver.draining && b->receiver.draining_epoch == e && !p->landed.n,
		    DRAINED, e);
	}
}

static bool may_send(struct ends *b)
{
	const uint32_t tag = ends_tag_of(b, ends_slot_of(b, b->sent));
	struct ha_sender copy;
	struct ha_todo todo = {0};

	if (b->sent >= b->shape.messages || b->sender.end.state != HA_FLOWING)
		return false;
	copy = b->sender;
	copy.ring = b->ring;
	return ha_sender_isend(&copy, NULL, NULL, 0, tag, b->now_ns, &todo) >= 0;
}

static bool may_look(struct ends *b)
{
	struct ha_sender copy;
	struct ha_todo todo = {0};
	uint32_t look;

	if (b->sender.end.state != HA_FLOWING)
		return false;
	copy = b->sender;
	copy.ring = b->ring;
	look = copy.look;
	ha_sender_look(&copy, b->now_ns, &todo);
	return copy.look != look || copy.end.state != HA_FLOWING;
}

static void add_ends(struct ends *b, struct list *list)
{
	const struct ends_shape *shape = &b->shape;
	const bool posts = b->received < shape->messages && b->receiver.end.state < HA_DONE &&
			   b->received - b->receives_done < shape->window * shape->group;
	unsigned int i;

	add(list, may_send(b), POST_SEND, 0);
	add(list, posts, POST_RECV, 0);
	add(list, may_look(b), LOOK, 0);
	for (i = 0; i < b->to_sender.n; i++)
		add(list, true, SENDER_HEARS, i);
	for (i = 0; i < b->to_receiver.n; i++)
		add(list, true, RECEIVER_HEARS, i);
	add(list, b->up && !b->sender_heard, SENDER_PATH, 0);
	add(list, b->up && !b->receiver_heard, RECEIVER_PATH, 0);
	add(list, b->sends_done == shape->messages && b->sender.end.state < HA_DONE, CLOSE_SEND, 0);
	add(list, b->receives_done == shape->messages && b->receiver.end.state < HA_DONE,
	    CLOSE_RECV, 0);
}

static void add_faults(const struct ends *b, struct list *list)
{
	const struct ha_end *s = &b->sender.end, *r = &b->receiver.end;
	unsigned int e, i;

	add(list,
	    b->repairs && s->epoch == b->up && r->epoch == b->up && b->up < b->shape.extra_epochs,
	    REPAIR, 0);
	if (!b->faults)
		return;
	for (e = 0; e <= b->up && e < ENDS_EPOCHS; e++) {
		const struct ends_pair *p = &b->pair[e];
		const bool used = e == s->epoch || e == r->epoch;

		add(list, used && !p->there.cut, CUT_THERE, e);
		add(list, used && !p->there.cut && p->there.wire.n, LOSE_THERE, e);
		add(list, used && !p->back.cut, CUT_BACK, e);
		add(list, used && !p->back.cut && p->back.wire.n, LOSE_BACK, e);
	}
	for (i = 0; i < b->to_sender.n; i++) {
		add(list, true, LOSE_TO_SENDER, i);
		add(list, true, AGAIN_TO_SENDER, i);
	}
	for (i = 0; i < b->to_receiver.n; i++) {
		add(list, true, LOSE_TO_RECEIVER, i);
		add(list, true, AGAIN_TO_RECEIVER, i);
	}
	add(list, b->shape.fatal && !b->control_cut, CUT_CONTROL, 0);
	add(list, b->shape.triggers && s->state == HA_FLOWING, SENDER_TRIGGER, 0);
	add(list, b->shape.triggers && r->state == HA_FLOWING, RECEIVER_TRIGGER, 0);
	add(list, b->shape.fatal && s->state == HA_SWITCHING, SENDER_EARLY, 0);
	add(list, b->shape.fatal && r->state == HA_SWITCHING && !b->receiver.draining,
	    RECEIVER_EARLY, 0);
}

unsigned int ends_events(struct ends *b, struct ends_event events[ENDS_EVENTS], bool *quiet)
{
	struct list list = {events, 0};

	add_wires(b, &list);
	add_ends(b, &list);
	*quiet = !list.n;
	add(&list, *quiet && !ends_are_over(b), TICK, 0);
	add_faults(b, &list);
	return list.n;
}

bool ends_are_over(const struct ends *b)
{
	return b->sender.end.state >= HA_DONE && b->receiver.end.state >= HA_DONE;
}

void ends_check_end(struct ends *b)
{
	const enum ha_state s = b->sender.end.state, r = b->receiver.end.state;

	ends_must(b, s >= HA_DONE && r >= HA_DONE, "hang");
	ends_must(b, s != HA_DONE || b->receives_done == b->shape.messages, "lost");
	ends_must(b, r != HA_DONE || b->receives_done == b->shape.messages, "lost");
	ends_must(b, s != HA_DONE || b->sends_done == b->shape.messages, "lost");
	ends_must(b,
		  (s != HA_FAILED && r != HA_FAILED) || b->control_cut || b->early ||
			  b->causes >= 2 ||
			  (b->causes && !(b->shape.dual && b->shape.extra_epochs)),
		  "needless");
}

void ends_print(const struct ends *b, struct ends_event event)
{
	static const char *const name[] = {
#define KIND(NAME) #NAME,
		ENDS_KINDS(KIND)
#undef KIND
	};

	printf("#   %s %u: sender %s %u, receiver %s %u\n", name[event.kind], event.arg,
	       ha_state_text(b->sender.end.state), b->sender.end.epoch,
	       ha_state_text(b->receiver.end.state), b->receiver.end.epoch);
}

/* ---- the normal form of states ---- */

static void to_age(uint64_t *instant, uint64_t now_ns, bool counts)
{
	const uint64_t age = now_ns - *instant;

	*instant = !counts ? 0 : age < 2 * ENDS_RTO_NS ? age : 2 * ENDS_RTO_NS;
}

static void normalize_end(struct ha_end *end, uint64_t now_ns)
{
	to_age(&end->entered_at_ns, now_ns, end->state != HA_FLOWING && end->state != HA_FAILED);
	to_age(&end->sent_at_ns, now_ns, end->last.type != 0);
	if (!end->last.type)
		memset(&end->last, 0, sizeof(end->last));
	end->probed_at_ns = end->probed_at_ns != 0;
	end->probe_due_at_ns = end->probe_due_at_ns > now_ns ? end->probe_due_at_ns - now_ns : 0;
	memset(&end->failover, 0, sizeof(end->failover));
	end->why = NULL;
}

void ends_normalize(struct ends *b)
{
	unsigned int i;

	normalize_end(&b->sender.end, b->now_ns);
	normalize_end(&b->receiver.end, b->now_ns);
	to_age(&b->sender.progress_at_ns, b->now_ns, true);
	to_age(&b->receiver.draining_at_ns, b->now_ns, b->receiver.draining);
	for (i = 0; i < HA_REQUESTS; i++) {
		struct ha_send *send = &b->sender.send[i];

		if (send->state == HA_SEND_FREE)
			memset(send, 0, sizeof(*send));
		to_age(&send->posted_at_ns, b->now_ns, send->state == HA_SEND_IN_FLIGHT);
		if (!b->receiver.recv[i].used)
			memset(&b->receiver.recv[i], 0, sizeof(b->receiver.recv[i]));
	}
	b->sender.ring = NULL;
	b->now_ns = 0;
}
