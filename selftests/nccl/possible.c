/* SPDX-License-Identifier: BSD-2-Clause */
/* The possible events of a world (world.h), the properties that must hold at its end, and a normal
 * form for equivalent worlds. */
#include <stdio.h>
#include <string.h>
#include "selftests/nccl/world.h"

/* ---- the possible events ---- */

bool world_is_fault(struct world_event event)
{
	return event.kind > REPAIR;
}

struct list {
	struct world_event *event;
	unsigned int n;
};

static void add(struct list *list, bool possible, enum world_event_kind kind, unsigned int arg)
{
	if (possible && list->n < WORLD_EVENTS)
		list->event[list->n++] =
			(struct world_event){.kind = (uint8_t)kind, .arg = (uint8_t)arg};
}

static bool path_dead(const struct world_pair *p)
{
	return p->there.cut || p->back.cut;
}

static void add_wires(const struct world *w, struct list *list)
{
	unsigned int e;

	for (e = 0; e <= w->up && e < WORLD_EPOCHS; e++) {
		const struct world_pair *p = &w->pair[e];

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
		add(list, w->receiver.draining && w->receiver.draining_epoch == e && !p->landed.n,
		    DRAINED, e);
	}
}

static bool may_send(struct world *w)
{
	const uint32_t tag = world_tag_of(w, world_slot_of(w, w->sent));
	struct ha_sender copy;
	struct ha_todo todo = {0};

	if (w->sent >= w->shape.messages || w->sender.end.state != HA_FLOWING)
		return false;
	copy = w->sender;
	copy.ring = w->ring;
	return ha_sender_isend(&copy, NULL, NULL, 0, tag, w->now_ns, &todo) >= 0;
}

static bool may_look(struct world *w)
{
	struct ha_sender copy;
	struct ha_todo todo = {0};
	uint32_t look;

	if (w->sender.end.state != HA_FLOWING)
		return false;
	copy = w->sender;
	copy.ring = w->ring;
	look = copy.look;
	ha_sender_look(&copy, w->now_ns, &todo);
	return copy.look != look || copy.end.state != HA_FLOWING;
}

static void add_ends(struct world *w, struct list *list)
{
	const struct world_shape *shape = &w->shape;
	const bool posts = w->received < shape->messages && w->receiver.end.state < HA_DONE &&
			   w->received - w->receives_done < shape->window * shape->group;
	unsigned int i;

	add(list, may_send(w), POST_SEND, 0);
	add(list, posts, POST_RECV, 0);
	add(list, may_look(w), LOOK, 0);
	for (i = 0; i < w->to_sender.n; i++)
		add(list, true, SENDER_HEARS, i);
	for (i = 0; i < w->to_receiver.n; i++)
		add(list, true, RECEIVER_HEARS, i);
	add(list, w->up && !w->sender_heard, SENDER_PATH, 0);
	add(list, w->up && !w->receiver_heard, RECEIVER_PATH, 0);
	add(list, w->sends_done == shape->messages && w->sender.end.state < HA_DONE, CLOSE_SEND, 0);
	add(list, w->receives_done == shape->messages && w->receiver.end.state < HA_DONE,
	    CLOSE_RECV, 0);
}

static void add_faults(const struct world *w, struct list *list)
{
	const struct ha_end *s = &w->sender.end, *r = &w->receiver.end;
	unsigned int e, i;

	add(list,
	    w->repairs && s->epoch == w->up && r->epoch == w->up && w->up < w->shape.extra_epochs,
	    REPAIR, 0);
	if (!w->faults)
		return;
	for (e = 0; e <= w->up && e < WORLD_EPOCHS; e++) {
		const struct world_pair *p = &w->pair[e];
		const bool used = e == s->epoch || e == r->epoch;

		add(list, used && !p->there.cut, CUT_THERE, e);
		add(list, used && !p->there.cut && p->there.wire.n, LOSE_THERE, e);
		add(list, used && !p->back.cut, CUT_BACK, e);
		add(list, used && !p->back.cut && p->back.wire.n, LOSE_BACK, e);
	}
	for (i = 0; i < w->to_sender.n; i++) {
		add(list, true, LOSE_TO_SENDER, i);
		add(list, true, AGAIN_TO_SENDER, i);
	}
	for (i = 0; i < w->to_receiver.n; i++) {
		add(list, true, LOSE_TO_RECEIVER, i);
		add(list, true, AGAIN_TO_RECEIVER, i);
	}
	add(list, w->shape.fatal && !w->control_cut, CUT_CONTROL, 0);
	add(list, w->shape.triggers && s->state == HA_FLOWING, SENDER_TRIGGER, 0);
	add(list, w->shape.triggers && r->state == HA_FLOWING, RECEIVER_TRIGGER, 0);
	add(list, w->shape.fatal && s->state == HA_SWITCHING, SENDER_EARLY, 0);
	add(list, w->shape.fatal && r->state == HA_SWITCHING && !w->receiver.draining,
	    RECEIVER_EARLY, 0);
}

unsigned int world_events(struct world *w, struct world_event events[WORLD_EVENTS], bool *quiet)
{
	struct list list = {events, 0};

	add_wires(w, &list);
	add_ends(w, &list);
	*quiet = !list.n;
	add(&list, *quiet && !world_ended(w), TICK, 0);
	add_faults(w, &list);
	return list.n;
}

bool world_ended(const struct world *w)
{
	return w->sender.end.state >= HA_DONE && w->receiver.end.state >= HA_DONE;
}

void world_check_end(struct world *w)
{
	const enum ha_state s = w->sender.end.state, r = w->receiver.end.state;

	world_must(w, s >= HA_DONE && r >= HA_DONE, "hang");
	world_must(w, s != HA_DONE || w->receives_done == w->shape.messages, "lost");
	world_must(w, r != HA_DONE || w->receives_done == w->shape.messages, "lost");
	world_must(w, s != HA_DONE || w->sends_done == w->shape.messages, "lost");
	world_must(w,
		   (s != HA_FAILED && r != HA_FAILED) || w->control_cut || w->early ||
			   w->causes >= 2 ||
			   (w->causes && !(w->shape.dual && w->shape.extra_epochs)),
		   "needless");
}

void world_print(const struct world *w, struct world_event event)
{
	static const char *const name[] = {
#define KIND(NAME) #NAME,
		WORLD_KINDS(KIND)
#undef KIND
	};

	printf("#   %s %u: sender %s %u, receiver %s %u\n", name[event.kind], event.arg,
	       ha_state_text(w->sender.end.state), w->sender.end.epoch,
	       ha_state_text(w->receiver.end.state), w->receiver.end.epoch);
}

/* ---- the normal form of states ---- */

static void to_age(uint64_t *instant, uint64_t now_ns, bool counts)
{
	const uint64_t age = now_ns - *instant;

	*instant = !counts ? 0 : age < 2 * WORLD_RTO_NS ? age : 2 * WORLD_RTO_NS;
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

void world_normalize(struct world *w)
{
	unsigned int i;

	normalize_end(&w->sender.end, w->now_ns);
	normalize_end(&w->receiver.end, w->now_ns);
	to_age(&w->sender.progress_at_ns, w->now_ns, true);
	to_age(&w->receiver.draining_at_ns, w->now_ns, w->receiver.draining);
	for (i = 0; i < HA_REQUESTS; i++) {
		struct ha_send *send = &w->sender.send[i];

		if (send->state == HA_SEND_FREE)
			memset(send, 0, sizeof(*send));
		to_age(&send->posted_at_ns, w->now_ns, send->state == HA_SEND_IN_FLIGHT);
		if (!w->receiver.recv[i].used)
			memset(&w->receiver.recv[i], 0, sizeof(w->receiver.recv[i]));
	}
	w->sender.ring = NULL;
	w->now_ns = 0;
}
