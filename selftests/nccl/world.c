/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "selftests/nccl/world.h"

#define NONCE 77u

static bool bit(const uint8_t *bits, unsigned int i)
{
	return bits[i / 8] >> i % 8 & 1;
}

static void put_bit(uint8_t *bits, unsigned int i)
{
	bits[i / 8] |= (uint8_t)(1u << i % 8);
}

void world_must(struct world *w, bool holds, const char *property)
{
	if (!holds && !w->broken)
		w->broken = property;
}

/* Returns the slot of a send. Sends are not in the order of slots: in each pair of slots, the
 * second comes first. */
unsigned int world_slot_of(const struct world *w, unsigned int message)
{
	if (w->shape.tags < 2 || (message ^ 1) >= w->shape.messages)
		return message;
	return message ^ 1;
}

uint32_t world_tag_of(const struct world *w, unsigned int slot)
{
	return 5 + slot % w->shape.tags;
}

static uint32_t size_of(unsigned int slot)
{
	return 100 + slot;
}

void world_init(struct world *w, const struct world_shape *shape)
{
	static const struct ha_times times = {WORLD_RTO_NS, WORLD_HEARTBEAT_NS};

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

/* Moves a queue pair to ERR. Unacknowledged requests are flushed, and packets that arrive later are
 * not placed in memory. */
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

static void acknowledge(struct world_way *way, const struct world_way *other, bool report)
{
	struct world_completion c;

	if (other->cut || way->fenced || !way->unacked.n)
		return;
	c = pop(&way->unacked);
	c.ok = true;
	if (report)
		push(&way->done, c);
}

static void send_msg(struct world *w, struct world_msgs *msgs, const struct ha_control_msg *msg)
{
	unsigned int i;

	if (w->control_cut)
		return;
	for (i = 0; i < msgs->n; i++)
		if (!memcmp(&msgs->msg[i], msg, sizeof(*msg)))
			return;
	if (msgs->n < WORLD_MSGS)
		msgs->msg[msgs->n++] = *msg;
}

/* ---- the actions of the state machines ---- */

static void check_state(struct world *w)
{
	const struct ha_end *s = &w->sender.end, *r = &w->receiver.end;

	world_must(w, s->error != -EPROTO, "contradiction");
	world_must(w, r->error != -EPROTO, "contradiction");
	world_must(w, w->receiver.duplicates == 0, "twice");
	world_must(w, s->epoch <= r->epoch + 1 || r->state >= HA_DONE, "apart");
	world_must(w, r->epoch <= s->epoch + 1 || s->state >= HA_DONE, "apart");
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
			world_must(w, bit(w->in_memory, slot_number(w, send->sequence)), "early");
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
	for (i = 0; i < todo->msgs; i++)
		send_msg(w, &w->to_receiver, &todo->msg[i]);
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
			world_must(w, sizes[k] == size_of(slot_number(w, recv->first + k)), "size");
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
	for (i = 0; i < todo->msgs; i++)
		send_msg(w, &w->to_sender, &todo->msg[i]);
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
		world_must(w, !bit(w->in_memory, slot), "twice");
		world_must(w, world_slot_of(w, item.message) == slot, "misplaced");
		world_must(w, item.slot.address == 0x1000u + item.slot.sequence, "misplaced");
		world_must(w, item.key == epoch + 1, "stale_key");
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
	/* The receiver ignores the successful completion of a description. */
	acknowledge(&pair->back, &pair->there, item.kind == WORLD_PROBE);
	/* the sender reads the slot at once; to read it later has the same effect as a slot that
	 * arrives later */
	ha_sender_look(&w->sender, w->now_ns, &todo);
	do_sender(w, &todo);
}

static void post_send(struct world *w)
{
	const unsigned int slot = world_slot_of(w, w->sent);
	struct ha_todo todo = {0};
	const int place = ha_sender_isend(&w->sender, NULL, NULL, size_of(slot),
					  world_tag_of(w, slot), w->now_ns, &todo);

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
		buffer[i] = (struct ha_recv_buffer){.bytes = 10000,
						    .tag = world_tag_of(w, w->received + i)};
	if (ha_receiver_irecv(&w->receiver, buffer, n, &todo) >= 0)
		w->received += n;
	do_receiver(w, &todo);
}

static void hears(struct world *w, struct world_event event)
{
	const bool sender = event.kind == SENDER_HEARS || event.kind == AGAIN_TO_SENDER;
	const bool keep = event.kind == AGAIN_TO_SENDER || event.kind == AGAIN_TO_RECEIVER;
	struct world_msgs *msgs = sender ? &w->to_sender : &w->to_receiver;
	const struct ha_control_msg msg = msgs->msg[event.arg];
	struct ha_todo todo = {0};

	if (keep) {
		w->faults--;
	} else {
		msgs->n--;
		memmove(&msgs->msg[event.arg], &msgs->msg[event.arg + 1],
			(msgs->n - event.arg) * sizeof(msg));
		memset(&msgs->msg[msgs->n], 0, sizeof(msg));
	}
	if (sender) {
		ha_sender_msg(&w->sender, &msg, w->now_ns, &todo);
		do_sender(w, &todo);
	} else {
		ha_receiver_msg(&w->receiver, &msg, w->now_ns, &todo);
		do_receiver(w, &todo);
	}
}

static void loses_msg(struct world *w, struct world_msgs *msgs, unsigned int i)
{
	w->faults--;
	msgs->n--;
	memmove(&msgs->msg[i], &msgs->msg[i + 1], (msgs->n - i) * sizeof(msgs->msg[0]));
	memset(&msgs->msg[msgs->n], 0, sizeof(msgs->msg[0]));
}

/* An end that has failed sends nothing any more, not even PONG. */
static void tick(struct world *w)
{
	const bool sender_silent = w->sender.end.state == HA_FAILED;
	const bool receiver_silent = w->receiver.end.state == HA_FAILED;
	struct ha_todo todo = {0};

	w->now_ns += WORLD_HEARTBEAT_NS;
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

	switch ((enum world_event_kind)event.kind) {
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
		ha_sender_tick(s, w->now_ns + WORLD_RTO_NS, &todo);
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

	switch ((enum world_event_kind)event.kind) {
	case RECEIVER_POLLS:
		c = pop(&w->pair[event.arg].back.done);
		ha_receiver_completed(r, c.wr_id, c.ok, w->now_ns, &todo);
		break;
	case RECEIVER_LANDED:
		c = pop(&w->pair[event.arg].landed);
		world_must(w, !bit(w->got, slot_number(w, c.sequence)), "twice");
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
		ha_receiver_tick(r, w->now_ns + WORLD_RTO_NS, &todo);
		break;
	default:
		ha_receiver_close(r, w->now_ns, &todo);
		break;
	}
	do_receiver(w, &todo);
}

static void cut_step(struct world *w, struct world_pair *pair, struct world_event event)
{
	if (event.kind == CUT_CONTROL)
		cut_control(w);
	else if (event.kind == CUT_THERE || event.kind == LOSE_THERE)
		cut(w, &pair->there, event.kind == LOSE_THERE);
	else
		cut(w, &pair->back, event.kind == LOSE_BACK);
}

static void end_step(struct world *w, struct world_event event)
{
	switch ((enum world_event_kind)event.kind) {
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

void world_step(struct world *w, struct world_event event)
{
	struct world_pair *pair = &w->pair[event.arg < WORLD_EPOCHS ? event.arg : 0];

	w->sender.ring = w->ring;
	switch ((enum world_event_kind)event.kind) {
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
		loses_msg(w, &w->to_sender, event.arg);
		break;
	case LOSE_TO_RECEIVER:
		loses_msg(w, &w->to_receiver, event.arg);
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
	case CUT_BACK:
	case LOSE_BACK:
	case CUT_CONTROL:
		cut_step(w, pair, event);
		break;
	default:
		end_step(w, event);
		break;
	}
}
