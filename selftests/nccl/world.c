/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "selftests/nccl/world.h"

#define HEARTBEAT_NS 100u
#define RTO_NS       300u
#define NONCE        77u

#define KINDS(_)             \
	_(POST_SEND)         \
	_(POST_RECV)         \
	_(DATA_LANDS)        \
	_(SLOT_LANDS)        \
	_(SENDER_POLLS)      \
	_(RECEIVER_POLLS)    \
	_(RECEIVER_LANDED)   \
	_(DRAINED)           \
	_(SEND_FAILS)        \
	_(DESCRIBE_FAILS)    \
	_(LOOK)              \
	_(SENDER_HEARS)      \
	_(RECEIVER_HEARS)    \
	_(SENDER_PATH)       \
	_(RECEIVER_PATH)     \
	_(CLOSE_SEND)        \
	_(CLOSE_RECV)        \
	_(TICK)              \
	_(REPAIR)            \
	_(CUT_THERE)         \
	_(CUT_BACK)          \
	_(LOSE_THERE)        \
	_(LOSE_BACK)         \
	_(SENDER_TRIGGER)    \
	_(RECEIVER_TRIGGER)  \
	_(LOSE_TO_SENDER)    \
	_(LOSE_TO_RECEIVER)  \
	_(AGAIN_TO_SENDER)   \
	_(AGAIN_TO_RECEIVER) \
	_(CUT_CONTROL)       \
	_(SENDER_EARLY)      \
	_(RECEIVER_EARLY)

enum kind {
#define KIND(NAME) NAME,
	KINDS(KIND)
#undef KIND
};

static bool bit(const uint8_t *bits, unsigned int i)
{
	return bits[i / 8] >> i % 8 & 1;
}

static void put_bit(uint8_t *bits, unsigned int i)
{
	bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static void must(struct world *w, bool holds, const char *property)
{
	if (!holds && !w->broken)
		w->broken = property;
}

/* Sends go in another order than slots: within each pair of slots, the second first. */
static unsigned int slot_of(const struct world *w, unsigned int message)
{
	if (w->shape.tags < 2 || (message ^ 1) >= w->shape.messages)
		return message;
	return message ^ 1;
}

static uint32_t tag_of(const struct world *w, unsigned int slot)
{
	return 5 + slot % w->shape.tags;
}

static uint32_t size_of(unsigned int slot)
{
	return 100 + slot;
}

void world_init(struct world *w, const struct world_shape *shape)
{
	static const struct ha_times times = {RTO_NS, HEARTBEAT_NS};

	memset(w, 0, sizeof(*w));
	w->shape = *shape;
	w->now_ns = 1000;
	ha_sender_init(&w->sender, &times, NONCE, shape->dual, w->ring, w->now_ns);
	ha_receiver_init(&w->receiver, &times, NONCE, shape->dual, w->now_ns);
	w->sender.first = w->sender.next = w->sender.look = shape->start;
	w->receiver.next_sequence = w->receiver.first_open = shape->start;
	w->faults = shape->faults;
	w->repairs = shape->repairs;
	w->up = shape->extra_epochs ? 1 : 0;
	if (w->up && !shape->late_path) {
		struct ha_todo todo = {0};

		ha_sender_path(&w->sender, 1, true, w->now_ns, &todo);
		ha_receiver_path(&w->receiver, 1, true, w->now_ns, &todo);
		w->sender_heard = w->receiver_heard = true;
	}
}

/* ---- the wires ---- */

static void push(struct world_completions *list, struct world_completion completion)
{
	assert(list->n < WORLD_QUEUE);
	list->item[list->n++] = completion;
}

static struct world_completion pop(struct world_completions *list)
{
	const struct world_completion first = list->item[0];

	list->n--;
	memmove(list->item, list->item + 1, list->n * sizeof(list->item[0]));
	memset(&list->item[list->n], 0, sizeof(list->item[0]));
	return first;
}

static struct world_item pop_item(struct world_items *list)
{
	const struct world_item first = list->item[0];

	list->n--;
	memmove(list->item, list->item + 1, list->n * sizeof(list->item[0]));
	memset(&list->item[list->n], 0, sizeof(list->item[0]));
	return first;
}

static void lose(struct world_items *list)
{
	memset(list, 0, sizeof(*list));
}

/* ERR: what is not acknowledged is flushed; what comes here is not placed. */
static void fence(struct world_way *way, struct world_way *other)
{
	way->fenced = true;
	while (way->unacked.n) {
		struct world_completion c = pop(&way->unacked);

		c.ok = false;
		push(&way->done, c);
	}
	lose(&other->wire);
}

static void send_on(struct world_way *way, const struct world_way *other, uint64_t wr_id,
		    const struct world_item *item)
{
	const struct world_completion c = {.wr_id = wr_id};

	if (way->fenced) {
		push(&way->done, c);
		return;
	}
	push(&way->unacked, c);
	if (!way->cut && !other->fenced) {
		assert(way->wire.n < WORLD_QUEUE);
		way->wire.item[way->wire.n++] = *item;
	}
}

static void acknowledge(struct world_way *way, const struct world_way *other, bool tell)
{
	struct world_completion c;

	if (other->cut || way->fenced || !way->unacked.n)
		return;
	c = pop(&way->unacked);
	c.ok = true;
	if (tell)
		push(&way->done, c);
}

static void tell(struct world *w, struct world_words *words, const struct ha_word *word)
{
	unsigned int i;

	if (w->control_cut)
		return;
	for (i = 0; i < words->n; i++)
		if (!memcmp(&words->word[i], word, sizeof(*word)))
			return;
	if (words->n < WORLD_WORDS)
		words->word[words->n++] = *word;
}

/* ---- what the machines want done ---- */

static void check_state(struct world *w)
{
	const struct ha_end *s = &w->sender.end, *r = &w->receiver.end;

	must(w, s->error != -EPROTO, "contradiction");
	must(w, r->error != -EPROTO, "contradiction");
	must(w, w->receiver.duplicates == 0, "twice");
	must(w, s->epoch <= r->epoch + 1 || r->state >= HA_DONE, "apart");
	must(w, r->epoch <= s->epoch + 1 || s->state >= HA_DONE, "apart");
}

static unsigned int slot_number(const struct world *w, uint32_t sequence)
{
	return sequence - w->shape.start;
}

static void collect_sends(struct world *w)
{
	unsigned int i;

	for (i = 0; i < HA_REQUESTS; i++) {
		const struct ha_send *send = &w->sender.send[i];

		if (send->state == HA_SEND_COMPLETE) {
			must(w, bit(w->in_memory, slot_number(w, send->sequence)), "early");
			put_bit(w->acked, slot_number(w, send->sequence));
			ha_sender_release(&w->sender, i);
			w->sends_done++;
		}
	}
}

static void do_sender(struct world *w, const struct ha_todo *todo)
{
	unsigned int i;

	if (todo->fence)
		fence(&w->pair[todo->fence_epoch].there, &w->pair[todo->fence_epoch].back);
	for (i = 0; i < todo->words; i++)
		tell(w, &w->to_receiver, &todo->word[i]);
	for (i = 0; i < todo->posts + todo->probe; i++) {
		struct world_pair *pair = &w->pair[w->sender.end.epoch];
		const bool probe = i == todo->posts;
		const uint32_t index = probe ? HA_WR_PROBE : todo->post[i];
		struct world_item item = {.kind = probe ? WORLD_PROBE : WORLD_PAYLOAD};

		if (!probe) {
			const struct ha_send *send = &w->sender.send[index];

			item.index = (uint16_t)index;
			item.message = w->message[index];
			item.key = send->rkey;
			item.slot.sequence = send->sequence;
			item.slot.address = send->address;
			item.slot.bytes = send->bytes;
		}
		send_on(&pair->there, &pair->back, ha_wr_id(w->sender.end.epoch, index), &item);
	}
	collect_sends(w);
	check_state(w);
}

static void collect_receives(struct world *w)
{
	uint32_t sizes[HA_GROUP];
	unsigned int i, k;

	for (i = 0; i < HA_REQUESTS; i++) {
		const struct ha_recv *recv = &w->receiver.recv[i];

		if (!recv->used || ha_receiver_test(&w->receiver, i, sizes) != 1)
			continue;
		for (k = 0; k < recv->slots; k++)
			must(w, sizes[k] == size_of(slot_number(w, recv->first + k)), "size");
		w->receives_done += recv->slots;
		ha_receiver_release(&w->receiver, i);
	}
}

static void do_receiver(struct world *w, const struct ha_todo *todo)
{
	struct world_pair *pair;
	unsigned int i;

	if (todo->fence)
		fence(&w->pair[todo->fence_epoch].back, &w->pair[todo->fence_epoch].there);
	for (i = 0; i < todo->words; i++)
		tell(w, &w->to_sender, &todo->word[i]);
	pair = &w->pair[w->receiver.end.epoch];
	for (i = 0; i < todo->posts + todo->probe; i++) {
		const bool probe = i == todo->posts;
		const uint32_t index = probe ? HA_WR_PROBE : todo->post[i];
		struct world_item item = {.kind = probe ? WORLD_PROBE : WORLD_SLOT};

		if (!probe) {
			item.index = (uint16_t)index;
			ha_receiver_describe(&w->receiver, index, &item.slot);
			item.slot.address = 0x1000 + item.slot.sequence;
			item.slot.rkey = w->receiver.end.epoch + 1;
		}
		send_on(&pair->back, &pair->there, ha_wr_id(w->receiver.end.epoch, index), &item);
	}
	collect_receives(w);
	check_state(w);
}

/* ---- events ---- */

static void data_lands(struct world *w, unsigned int epoch)
{
	struct world_pair *pair = &w->pair[epoch];
	const struct world_item item = pop_item(&pair->there.wire);
	const unsigned int slot = slot_number(w, item.slot.sequence);

	if (item.kind == WORLD_PAYLOAD) {
		must(w, !bit(w->in_memory, slot), "twice");
		must(w, slot_of(w, item.message) == slot, "misplaced");
		must(w, item.slot.address == 0x1000u + item.slot.sequence, "misplaced");
		must(w, item.key == epoch + 1, "stale_key");
		put_bit(w->in_memory, slot);
		push(&pair->landed, (struct world_completion){.sequence = item.slot.sequence,
							      .bytes = item.slot.bytes});
	}
	acknowledge(&pair->there, &pair->back, true);
}

static void slot_lands(struct world *w, unsigned int epoch)
{
	struct world_pair *pair = &w->pair[epoch];
	const struct world_item item = pop_item(&pair->back.wire);

	struct ha_todo todo = {0};

	if (item.kind == WORLD_SLOT)
		ha_slot_encode(&item.slot, &w->ring[item.index]);
	/* The receiver does nothing with a description that has succeeded. */
	acknowledge(&pair->back, &pair->there, item.kind == WORLD_PROBE);
	/* Looked at at once: a look that comes later is a slot that lands later. */
	ha_sender_look(&w->sender, w->now_ns, &todo);
	do_sender(w, &todo);
}

static void post_send(struct world *w)
{
	const unsigned int slot = slot_of(w, w->sent);
	struct ha_todo todo = {0};
	const int place = ha_sender_isend(&w->sender, NULL, NULL, size_of(slot), tag_of(w, slot),
					  w->now_ns, &todo);

	if (place >= 0)
		w->message[place] = (uint16_t)w->sent++;
	do_sender(w, &todo);
}

static void post_recv(struct world *w)
{
	struct ha_recv_buffer buffer[HA_GROUP] = {0};
	struct ha_todo todo = {0};
	unsigned int i, n = w->shape.messages - w->received;

	if (n > w->shape.group)
		n = w->shape.group;
	for (i = 0; i < n; i++)
		buffer[i] =
			(struct ha_recv_buffer){.bytes = 10000, .tag = tag_of(w, w->received + i)};
	if (ha_receiver_irecv(&w->receiver, buffer, n, w->now_ns, &todo) >= 0)
		w->received += n;
	do_receiver(w, &todo);
}

static void hears(struct world *w, struct world_event event)
{
	const bool sender = event.kind == SENDER_HEARS || event.kind == AGAIN_TO_SENDER;
	const bool keep = event.kind == AGAIN_TO_SENDER || event.kind == AGAIN_TO_RECEIVER;
	struct world_words *words = sender ? &w->to_sender : &w->to_receiver;
	const struct ha_word word = words->word[event.arg];
	struct ha_todo todo = {0};

	if (keep) {
		w->faults--;
	} else {
		words->n--;
		memmove(&words->word[event.arg], &words->word[event.arg + 1],
			(words->n - event.arg) * sizeof(word));
		memset(&words->word[words->n], 0, sizeof(word));
	}
	if (sender) {
		ha_sender_word(&w->sender, &word, w->now_ns, &todo);
		do_sender(w, &todo);
	} else {
		ha_receiver_word(&w->receiver, &word, w->now_ns, &todo);
		do_receiver(w, &todo);
	}
}

static void loses_word(struct world *w, struct world_words *words, unsigned int i)
{
	w->faults--;
	words->n--;
	memmove(&words->word[i], &words->word[i + 1], (words->n - i) * sizeof(words->word[0]));
	memset(&words->word[words->n], 0, sizeof(words->word[0]));
}

/* Who has failed says nothing any more, not even PONG. */
static void tick(struct world *w)
{
	const bool sender_silent = w->sender.end.state == HA_FAILED;
	const bool receiver_silent = w->receiver.end.state == HA_FAILED;
	struct ha_todo todo = {0};

	w->now_ns += HEARTBEAT_NS;
	if (receiver_silent && w->sender.end.channel)
		ha_sender_channel(&w->sender, false, w->now_ns, &todo);
	ha_sender_tick(&w->sender, w->now_ns, &todo);
	do_sender(w, &todo);
	todo = (struct ha_todo){0};
	if (sender_silent && w->receiver.end.channel)
		ha_receiver_channel(&w->receiver, false, w->now_ns, &todo);
	ha_receiver_tick(&w->receiver, w->now_ns, &todo);
	do_receiver(w, &todo);
}

static void cut_control(struct world *w)
{
	struct ha_todo todo = {0};

	w->faults--;
	w->control_cut = true;
	memset(&w->to_sender, 0, sizeof(w->to_sender));
	memset(&w->to_receiver, 0, sizeof(w->to_receiver));
	ha_sender_channel(&w->sender, false, w->now_ns, &todo);
	do_sender(w, &todo);
	todo = (struct ha_todo){0};
	ha_receiver_channel(&w->receiver, false, w->now_ns, &todo);
	do_receiver(w, &todo);
}

static void cut(struct world *w, struct world_way *way, bool lost)
{
	w->faults--;
	w->causes++;
	way->cut = true;
	if (lost)
		lose(&way->wire);
}

static void sender_step(struct world *w, struct world_event event)
{
	struct ha_sender *s = &w->sender;
	struct ha_todo todo = {0};
	struct world_completion c;

	switch ((enum kind)event.kind) {
	case SENDER_POLLS:
		c = pop(&w->pair[event.arg].there.done);
		ha_sender_completed(s, c.wr_id, c.ok, w->now_ns, &todo);
		break;
	case LOOK:
		ha_sender_look(s, w->now_ns, &todo);
		break;
	case SENDER_PATH:
		w->sender_heard = true;
		ha_sender_path(s, w->up, true, w->now_ns, &todo);
		break;
	case SENDER_TRIGGER:
		w->faults--;
		w->causes++;
		ha_sender_trigger(s, HA_CAUSE_PORT, w->now_ns, &todo);
		break;
	case SENDER_EARLY:
		w->faults--;
		w->early = true;
		ha_sender_tick(s, w->now_ns + RTO_NS, &todo);
		break;
	default:
		ha_sender_close(s, w->now_ns, &todo);
		break;
	}
	do_sender(w, &todo);
}

static void receiver_step(struct world *w, struct world_event event)
{
	struct ha_receiver *r = &w->receiver;
	struct ha_todo todo = {0};
	struct world_completion c;

	switch ((enum kind)event.kind) {
	case RECEIVER_POLLS:
		c = pop(&w->pair[event.arg].back.done);
		ha_receiver_completed(r, c.wr_id, c.ok, w->now_ns, &todo);
		break;
	case RECEIVER_LANDED:
		c = pop(&w->pair[event.arg].landed);
		must(w, !bit(w->got, slot_number(w, c.sequence)), "twice");
		put_bit(w->got, slot_number(w, c.sequence));
		ha_receiver_landed(r, event.arg, c.sequence, c.bytes, w->now_ns, &todo);
		break;
	case DRAINED:
		ha_receiver_drained(r, event.arg, w->now_ns, &todo);
		break;
	case RECEIVER_PATH:
		w->receiver_heard = true;
		ha_receiver_path(r, w->up, true, w->now_ns, &todo);
		break;
	case RECEIVER_TRIGGER:
		w->faults--;
		w->causes++;
		ha_receiver_trigger(r, HA_CAUSE_PORT, w->now_ns, &todo);
		break;
	case RECEIVER_EARLY:
		w->faults--;
		w->early = true;
		ha_receiver_tick(r, w->now_ns + RTO_NS, &todo);
		break;
	default:
		ha_receiver_close(r, w->now_ns, &todo);
		break;
	}
	do_receiver(w, &todo);
}

void world_step(struct world *w, struct world_event event)
{
	struct world_pair *pair = &w->pair[event.arg < WORLD_EPOCHS ? event.arg : 0];

	w->sender.ring = w->ring;
	switch ((enum kind)event.kind) {
	case POST_SEND:
		post_send(w);
		break;
	case POST_RECV:
		post_recv(w);
		break;
	case DATA_LANDS:
		data_lands(w, event.arg);
		break;
	case SLOT_LANDS:
		slot_lands(w, event.arg);
		break;
	case SEND_FAILS:
		fence(&pair->there, &pair->back);
		break;
	case DESCRIBE_FAILS:
		fence(&pair->back, &pair->there);
		break;
	case SENDER_HEARS:
	case RECEIVER_HEARS:
	case AGAIN_TO_SENDER:
	case AGAIN_TO_RECEIVER:
		hears(w, event);
		break;
	case LOSE_TO_SENDER:
		loses_word(w, &w->to_sender, event.arg);
		break;
	case LOSE_TO_RECEIVER:
		loses_word(w, &w->to_receiver, event.arg);
		break;
	case TICK:
		tick(w);
		break;
	case REPAIR:
		w->repairs--;
		w->up++;
		w->sender_heard = w->receiver_heard = false;
		break;
	case CUT_THERE:
	case LOSE_THERE:
		cut(w, &pair->there, event.kind == LOSE_THERE);
		break;
	case CUT_BACK:
	case LOSE_BACK:
		cut(w, &pair->back, event.kind == LOSE_BACK);
		break;
	case CUT_CONTROL:
		cut_control(w);
		break;
	case SENDER_POLLS:
	case LOOK:
	case SENDER_PATH:
	case SENDER_TRIGGER:
	case SENDER_EARLY:
	case CLOSE_SEND:
		sender_step(w, event);
		break;
	default:
		receiver_step(w, event);
		break;
	}
}

/* ---- what can happen ---- */

bool world_is_fault(struct world_event event)
{
	return event.kind > REPAIR;
}

struct list {
	struct world_event *event;
	unsigned int n;
};

static void add(struct list *list, bool possible, enum kind kind, unsigned int arg)
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
	const uint32_t tag = tag_of(w, slot_of(w, w->sent));
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
	add(list, w->sends_done == shape->messages && !w->sender.end.closing, CLOSE_SEND, 0);
	add(list, w->receives_done == shape->messages && !w->receiver.end.closing, CLOSE_RECV, 0);
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

	must(w, s >= HA_DONE && r >= HA_DONE, "hang");
	must(w, s != HA_DONE || w->receives_done == w->shape.messages, "lost");
	must(w, r != HA_DONE || w->receives_done == w->shape.messages, "lost");
	must(w, s != HA_DONE || w->sends_done == w->shape.messages, "lost");
	must(w,
	     (s != HA_FAILED && r != HA_FAILED) || w->control_cut || w->early || w->causes >= 2 ||
		     (w->causes && !(w->shape.dual && w->shape.extra_epochs)),
	     "needless");
}

void world_print(const struct world *w, struct world_event event)
{
	static const char *const name[] = {
#define KIND(NAME) #NAME,
		KINDS(KIND)
#undef KIND
	};

	printf("#   %s %u: sender %s %u, receiver %s %u\n", name[event.kind], event.arg,
	       ha_state_text(w->sender.end.state), w->sender.end.epoch,
	       ha_state_text(w->receiver.end.state), w->receiver.end.epoch);
}

/* ---- states ---- */

static void to_age(uint64_t *instant, uint64_t now_ns, bool counts)
{
	const uint64_t age = now_ns - *instant;

	*instant = !counts ? 0 : age < 2 * RTO_NS ? age : 2 * RTO_NS;
}

static void normalize_end(struct ha_end *end, uint64_t now_ns)
{
	to_age(&end->entered_at_ns, now_ns, end->state != HA_FLOWING && end->state != HA_FAILED);
	to_age(&end->told_at_ns, now_ns, end->last.type != 0);
	if (!end->last.type)
		memset(&end->last, 0, sizeof(end->last));
	end->probed_at_ns = end->probed_at_ns != 0;
	end->probe_due_at_ns = end->probe_due_at_ns > now_ns ? end->probe_due_at_ns - now_ns : 0;
	memset(&end->story, 0, sizeof(end->story));
	end->why = NULL;
}

void world_normalize(struct world *w)
{
	unsigned int i;

	normalize_end(&w->sender.end, w->now_ns);
	normalize_end(&w->receiver.end, w->now_ns);
	to_age(&w->sender.progress_at_ns, w->now_ns, true);
	to_age(&w->receiver.draining_since_ns, w->now_ns, w->receiver.draining);
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
