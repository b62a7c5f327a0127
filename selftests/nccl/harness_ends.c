/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "selftests/nccl/harness_ends.h"

#define NONCE 77u

static bool bit(const uint8_t *bits, unsigned int i)
{
	return bits[i / 8] >> i % 8 & 1;
}

static void put_bit(uint8_t *bits, unsigned int i)
{
	bits[i / 8] |= (uint8_t)(1u << i % 8);
}

void ends_must(struct ends *b, bool holds, const char *property)
{
	if (!holds && !b->broken)
		b->broken = property;
}

/* Returns the slot of a send. Sends are not in the order of slots: in each pair of slots, the
 * second comes first. */
unsigned int ends_slot_of(const struct ends *b, unsigned int message)
{
	if (b->shape.tags < 2 || (message ^ 1) >= b->shape.messages)
		return message;
	return message ^ 1;
}

uint32_t ends_tag_of(const struct ends *b, unsigned int slot)
{
	return 5 + slot % b->shape.tags;
}

static uint32_t size_of(unsigned int slot)
{
	return 100 + slot;
}

void ends_init(struct ends *b, const struct ends_shape *shape)
{
	static const struct ha_times times = {ENDS_RTO_NS, ENDS_HEARTBEAT_NS};

	memset(b, 0, sizeof(*b));
	b->shape = *shape;
	b->now_ns = 1000;
	ha_sender_init(&b->sender, &times, NONCE, shape->dual, b->ring, b->now_ns);
	ha_receiver_init(&b->receiver, &times, NONCE, shape->dual, b->now_ns);
	b->sender.first = b->sender.next = b->sender.look = shape->start;
	b->receiver.next_sequence = b->receiver.first_open = shape->start;
	b->faults = shape->faults;
	b->repairs = shape->repairs;
	b->up = shape->extra_epochs ? 1 : 0;
	if (b->up && !shape->late_path) {
		struct ha_todo todo = {0};

		ha_sender_path(&b->sender, 1, true, b->now_ns, &todo);
		ha_receiver_path(&b->receiver, 1, true, b->now_ns, &todo);
		b->sender_heard = b->receiver_heard = true;
	}
}

/* ---- the wires ---- */

static void push(struct ends_completions *list, struct ends_completion completion)
{
	assert(list->n < ENDS_QUEUE);
	list->item[list->n++] = completion;
}

static struct ends_completion pop(struct ends_completions *list)
{
	const struct ends_completion first = list->item[0];

	list->n--;
	memmove(list->item, list->item + 1, list->n * sizeof(list->item[0]));
	memset(&list->item[list->n], 0, sizeof(list->item[0]));
	return first;
}

static struct ends_item pop_item(struct ends_items *list)
{
	const struct ends_item first = list->item[0];

	list->n--;
	memmove(list->item, list->item + 1, list->n * sizeof(list->item[0]));
	memset(&list->item[list->n], 0, sizeof(list->item[0]));
	return first;
}

static void lose(struct ends_items *list)
{
	memset(list, 0, sizeof(*list));
}

/* Moves a queue pair to ERR. Unacknowledged requests are flushed, and packets that arrive later are
 * not placed in memory. */
static void fence(struct ends_way *way, struct ends_way *other)
{
	way->fenced = true;
	while (way->unacked.n) {
		struct ends_completion c = pop(&way->unacked);

		c.ok = false;
		push(&way->done, c);
	}
	lose(&other->wire);
}

static void send_on(struct ends_way *way, const struct ends_way *other, uint64_t wr_id,
		    const struct ends_item *item)
{
	const struct ends_completion c = {.wr_id = wr_id};

	if (way->fenced) {
		push(&way->done, c);
		return;
	}
	push(&way->unacked, c);
	if (!way->cut && !other->fenced) {
		assert(way->wire.n < ENDS_QUEUE);
		way->wire.item[way->wire.n++] = *item;
	}
}

static void acknowledge(struct ends_way *way, const struct ends_way *other, bool report)
{
	struct ends_completion c;

	if (other->cut || way->fenced || !way->unacked.n)
		return;
	c = pop(&way->unacked);
	c.ok = true;
	if (report)
		push(&way->done, c);
}

static void send_msg(struct ends *b, struct ends_msgs *msgs, const struct ha_control_msg *msg)
{
	unsigned int i;

	if (b->control_cut)
		return;
	for (i = 0; i < msgs->n; i++)
		if (!memcmp(&msgs->msg[i], msg, sizeof(*msg)))
			return;
	if (msgs->n < ENDS_MSGS)
		msgs->msg[msgs->n++] = *msg;
}

/* ---- carrying out what sender and receiver return (struct ha_todo) ---- */

static void check_state(struct ends *b)
{
	const struct ha_end *s = &b->sender.end, *r = &b->receiver.end;

	ends_must(b, s->error != -EPROTO, "contradiction");
	ends_must(b, r->error != -EPROTO, "contradiction");
	ends_must(b, b->receiver.duplicates == 0, "twice");
	ends_must(b, s->epoch <= r->epoch + 1 || r->state >= HA_DONE, "apart");
	ends_must(b, r->epoch <= s->epoch + 1 || s->state >= HA_DONE, "apart");
}

static unsigned int slot_number(const struct ends *b, uint32_t sequence)
{
	return sequence - b->shape.start;
}

static void collect_sends(struct ends *b)
{
	unsigned int i;

	for (i = 0; i < HA_REQUESTS; i++) {
		const struct ha_send *send = &b->sender.send[i];

		if (send->state == HA_SEND_COMPLETE) {
			ends_must(b, bit(b->in_memory, slot_number(b, send->sequence)), "early");
			put_bit(b->acked, slot_number(b, send->sequence));
			ha_sender_release(&b->sender, i);
			b->sends_done++;
		}
	}
}

static void do_sender(struct ends *b, const struct ha_todo *todo)
{
	unsigned int i;

	if (todo->fence)
		fence(&b->pair[todo->fence_epoch].there, &b->pair[todo->fence_epoch].back);
	for (i = 0; i < todo->msgs; i++)
		send_msg(b, &b->to_receiver, &todo->msg[i]);
	for (i = 0; i < todo->posts + todo->probe; i++) {
		struct ends_pair *pair = &b->pair[b->sender.end.epoch];
		const bool probe = i == todo->posts;
		const uint32_t index = probe ? HA_WR_PROBE : todo->post[i];
		struct ends_item item = {.kind = probe ? ENDS_PROBE : ENDS_PAYLOAD};

		if (!probe) {
			const struct ha_send *send = &b->sender.send[index];

			item.index = (uint16_t)index;
			item.message = b->message[index];
			item.key = send->rkey;
			item.slot.sequence = send->sequence;
			item.slot.address = send->address;
			item.slot.bytes = send->bytes;
		}
		send_on(&pair->there, &pair->back, ha_wr_id(b->sender.end.epoch, index), &item);
	}
	collect_sends(b);
	check_state(b);
}

static void collect_receives(struct ends *b)
{
	uint32_t sizes[HA_GROUP];
	unsigned int i, k;

	for (i = 0; i < HA_REQUESTS; i++) {
		const struct ha_recv *recv = &b->receiver.recv[i];

		if (!recv->used || ha_receiver_test(&b->receiver, i, sizes) != 1)
			continue;
		for (k = 0; k < recv->slots; k++)
			ends_must(b, sizes[k] == size_of(slot_number(b, recv->first + k)), "size");
		b->receives_done += recv->slots;
		ha_receiver_release(&b->receiver, i);
	}
}

static void do_receiver(struct ends *b, const struct ha_todo *todo)
{
	struct ends_pair *pair;
	unsigned int i;

	if (todo->fence)
		fence(&b->pair[todo->fence_epoch].back, &b->pair[todo->fence_epoch].there);
	for (i = 0; i < todo->msgs; i++)
		send_msg(b, &b->to_sender, &todo->msg[i]);
	pair = &b->pair[b->receiver.end.epoch];
	for (i = 0; i < todo->posts + todo->probe; i++) {
		const bool probe = i == todo->posts;
		const uint32_t index = probe ? HA_WR_PROBE : todo->post[i];
		struct ends_item item = {.kind = probe ? ENDS_PROBE : ENDS_SLOT};

		if (!probe) {
			item.index = (uint16_t)index;
			ha_receiver_describe(&b->receiver, index, &item.slot);
			item.slot.address = 0x1000 + item.slot.sequence;
			item.slot.rkey = b->receiver.end.epoch + 1;
		}
		send_on(&pair->back, &pair->there, ha_wr_id(b->receiver.end.epoch, index), &item);
	}
	collect_receives(b);
	check_state(b);
}

/* ---- events ---- */

static void data_lands(struct ends *b, unsigned int epoch)
{
	struct ends_pair *pair = &b->pair[epoch];
	const struct ends_item item = pop_item(&pair->there.wire);
	const unsigned int slot = slot_number(b, item.slot.sequence);

	if (item.kind == ENDS_PAYLOAD) {
		ends_must(b, !bit(b->in_memory, slot), "twice");
		ends_must(b, ends_slot_of(b, item.message) == slot, "misplaced");
		ends_must(b, item.slot.address == 0x1000u + item.slot.sequence, "misplaced");
		ends_must(b, item.key == epoch + 1, "stale_key");
		put_bit(b->in_memory, slot);
		push(&pair->landed, (struct ends_completion){.sequence = item.slot.sequence,
							     .bytes = item.slot.bytes});
	}
	acknowledge(&pair->there, &pair->back, true);
}

static void slot_lands(struct ends *b, unsigned int epoch)
{
	struct ends_pair *pair = &b->pair[epoch];
	const struct ends_item item = pop_item(&pair->back.wire);

	struct ha_todo todo = {0};

	if (item.kind == ENDS_SLOT)
		ha_slot_encode(&item.slot, &b->ring[item.index]);
	/* The receiver ignores the successful completion of a description. */
	acknowledge(&pair->back, &pair->there, item.kind == ENDS_PROBE);
	/* the sender reads the slot at once; to read it later has the same effect as a slot that
	 * arrives later */
	ha_sender_look(&b->sender, b->now_ns, &todo);
	do_sender(b, &todo);
}

static void post_send(struct ends *b)
{
	const unsigned int slot = ends_slot_of(b, b->sent);
	struct ha_todo todo = {0};
	const int place = ha_sender_isend(&b->sender, NULL, NULL, size_of(slot),
					  ends_tag_of(b, slot), b->now_ns, &todo);

	if (place >= 0)
		b->message[place] = (uint16_t)b->sent++;
	do_sender(b, &todo);
}

static void post_recv(struct ends *b)
{
	struct ha_recv_buffer buffer[HA_GROUP] = {0};
	struct ha_todo todo = {0};
	unsigned int i, n = b->shape.messages - b->received;

	if (n > b->shape.group)
		n = b->shape.group;
	for (i = 0; i < n; i++)
		buffer[i] = (struct ha_recv_buffer){.bytes = 10000,
						    .tag = ends_tag_of(b, b->received + i)};
	if (ha_receiver_irecv(&b->receiver, buffer, n, &todo) >= 0)
		b->received += n;
	do_receiver(b, &todo);
}

static void receive(struct ends *b, struct ends_event event)
{
	const bool sender = event.kind == SENDER_HEARS || event.kind == AGAIN_TO_SENDER;
	const bool keep = event.kind == AGAIN_TO_SENDER || event.kind == AGAIN_TO_RECEIVER;
	struct ends_msgs *msgs = sender ? &b->to_sender : &b->to_receiver;
	const struct ha_control_msg msg = msgs->msg[event.arg];
	struct ha_todo todo = {0};

	if (keep) {
		b->faults--;
	} else {
		msgs->n--;
		memmove(&msgs->msg[event.arg], &msgs->msg[event.arg + 1],
			(msgs->n - event.arg) * sizeof(msg));
		memset(&msgs->msg[msgs->n], 0, sizeof(msg));
	}
	if (sender) {
		ha_sender_msg(&b->sender, &msg, b->now_ns, &todo);
		do_sender(b, &todo);
	} else {
		ha_receiver_msg(&b->receiver, &msg, b->now_ns, &todo);
		do_receiver(b, &todo);
	}
}

static void loses_msg(struct ends *b, struct ends_msgs *msgs, unsigned int i)
{
	b->faults--;
	msgs->n--;
	memmove(&msgs->msg[i], &msgs->msg[i + 1], (msgs->n - i) * sizeof(msgs->msg[0]));
	memset(&msgs->msg[msgs->n], 0, sizeof(msgs->msg[0]));
}

/* An end that has failed sends nothing any more, not even PONG. */
static void tick(struct ends *b)
{
	const bool sender_silent = b->sender.end.state == HA_FAILED;
	const bool receiver_silent = b->receiver.end.state == HA_FAILED;
	struct ha_todo todo = {0};

	b->now_ns += ENDS_HEARTBEAT_NS;
	if (receiver_silent && b->sender.end.channel)
		ha_sender_channel(&b->sender, false, b->now_ns, &todo);
	ha_sender_tick(&b->sender, b->now_ns, &todo);
	do_sender(b, &todo);
	todo = (struct ha_todo){0};
	if (sender_silent && b->receiver.end.channel)
		ha_receiver_channel(&b->receiver, false, b->now_ns, &todo);
	ha_receiver_tick(&b->receiver, b->now_ns, &todo);
	do_receiver(b, &todo);
}

static void cut_control(struct ends *b)
{
	struct ha_todo todo = {0};

	b->faults--;
	b->control_cut = true;
	memset(&b->to_sender, 0, sizeof(b->to_sender));
	memset(&b->to_receiver, 0, sizeof(b->to_receiver));
	ha_sender_channel(&b->sender, false, b->now_ns, &todo);
	do_sender(b, &todo);
	todo = (struct ha_todo){0};
	ha_receiver_channel(&b->receiver, false, b->now_ns, &todo);
	do_receiver(b, &todo);
}

static void cut(struct ends *b, struct ends_way *way, bool lost)
{
	b->faults--;
	b->causes++;
	way->cut = true;
	if (lost)
		lose(&way->wire);
}

static void sender_step(struct ends *b, struct ends_event event)
{
	struct ha_sender *s = &b->sender;
	struct ha_todo todo = {0};
	struct ends_completion c;

	switch ((enum ends_event_kind)event.kind) {
	case SENDER_POLLS:
		c = pop(&b->pair[event.arg].there.done);
		ha_sender_completed(s, c.wr_id, c.ok, b->now_ns, &todo);
		break;
	case LOOK:
		ha_sender_look(s, b->now_ns, &todo);
		break;
	case SENDER_PATH:
		b->sender_heard = true;
		ha_sender_path(s, b->up, true, b->now_ns, &todo);
		break;
	case SENDER_TRIGGER:
		b->faults--;
		b->causes++;
		ha_sender_trigger(s, HA_CAUSE_PORT, b->now_ns, &todo);
		break;
	case SENDER_EARLY:
		b->faults--;
		b->early = true;
		ha_sender_tick(s, b->now_ns + ENDS_RTO_NS, &todo);
		break;
	default:
		ha_sender_close(s, b->now_ns, &todo);
		break;
	}
	do_sender(b, &todo);
}

static void receiver_step(struct ends *b, struct ends_event event)
{
	struct ha_receiver *r = &b->receiver;
	struct ha_todo todo = {0};
	struct ends_completion c;

	switch ((enum ends_event_kind)event.kind) {
	case RECEIVER_POLLS:
		c = pop(&b->pair[event.arg].back.done);
		ha_receiver_completed(r, c.wr_id, c.ok, b->now_ns, &todo);
		break;
	case RECEIVER_LANDED:
		c = pop(&b->pair[event.arg].landed);
		ends_must(b, !bit(b->got, slot_number(b, c.sequence)), "twice");
		put_bit(b->got, slot_number(b, c.sequence));
		ha_receiver_landed(r, event.arg, c.sequence, c.bytes, b->now_ns, &todo);
		break;
	case DRAINED:
		ha_receiver_drained(r, event.arg, b->now_ns, &todo);
		break;
	case RECEIVER_PATH:
		b->receiver_heard = true;
		ha_receiver_path(r, b->up, true, b->now_ns, &todo);
		break;
	case RECEIVER_TRIGGER:
		b->faults--;
		b->causes++;
		ha_receiver_trigger(r, HA_CAUSE_PORT, b->now_ns, &todo);
		break;
	case RECEIVER_EARLY:
		b->faults--;
		b->early = true;
		ha_receiver_tick(r, b->now_ns + ENDS_RTO_NS, &todo);
		break;
	default:
		ha_receiver_close(r, b->now_ns, &todo);
		break;
	}
	do_receiver(b, &todo);
}

static void cut_step(struct ends *b, struct ends_pair *pair, struct ends_event event)
{
	if (event.kind == CUT_CONTROL)
		cut_control(b);
	else if (event.kind == CUT_THERE || event.kind == LOSE_THERE)
		cut(b, &pair->there, event.kind == LOSE_THERE);
	else
		cut(b, &pair->back, event.kind == LOSE_BACK);
}

static void end_step(struct ends *b, struct ends_event event)
{
	switch ((enum ends_event_kind)event.kind) {
	case SENDER_POLLS:
	case LOOK:
	case SENDER_PATH:
	case SENDER_TRIGGER:
	case SENDER_EARLY:
	case CLOSE_SEND:
		sender_step(b, event);
		break;
	default:
		receiver_step(b, event);
		break;
	}
}

void ends_step(struct ends *b, struct ends_event event)
{
	struct ends_pair *pair = &b->pair[event.arg < ENDS_EPOCHS ? event.arg : 0];

	b->sender.ring = b->ring;
	switch ((enum ends_event_kind)event.kind) {
	case POST_SEND:
		post_send(b);
		break;
	case POST_RECV:
		post_recv(b);
		break;
	case DATA_LANDS:
		data_lands(b, event.arg);
		break;
	case SLOT_LANDS:
		slot_lands(b, event.arg);
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
		receive(b, event);
		break;
	case LOSE_TO_SENDER:
		loses_msg(b, &b->to_sender, event.arg);
		break;
	case LOSE_TO_RECEIVER:
		loses_msg(b, &b->to_receiver, event.arg);
		break;
	case TICK:
		tick(b);
		break;
	case REPAIR:
		b->repairs--;
		b->up++;
		b->sender_heard = b->receiver_heard = false;
		break;
	case CUT_THERE:
	case LOSE_THERE:
	case CUT_BACK:
	case LOSE_BACK:
	case CUT_CONTROL:
		cut_step(b, pair, event);
		break;
	default:
		end_step(b, event);
		break;
	}
}
