/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The life of a slot. The children's contributions arrive, are compared and reduced. Below the root
 * the sum is sent to the parent, and the parent's result is received. The result is sent to the
 * children. Slots are filled in order, because each peer's messages arrive in order. They become
 * free in order, because each peer acknowledges in order.
 */
#include "lib/base/machine.h"
#include "lib/proto/desc.h"
#include "userspace/term/node_priv.h"

/* Changes a slot's state, which no other function does. */
static void term_slot_go(struct inc_term *t, struct term_slot *slot, enum term_slot_state to)
{
	static const char *const names[] = {"idle", "aggregating", "complete", "at the parent",
					    "broadcasting"};
	static const uint32_t steps[] = {
		[TERM_SLOT_IDLE] = INC_STEP(TERM_SLOT_AGGREGATING),
		[TERM_SLOT_AGGREGATING] = INC_STEP(TERM_SLOT_COMPLETE),
		[TERM_SLOT_COMPLETE] =
			INC_STEP(TERM_SLOT_AT_PARENT) | INC_STEP(TERM_SLOT_BROADCASTING),
		[TERM_SLOT_AT_PARENT] = INC_STEP(TERM_SLOT_BROADCASTING),
		[TERM_SLOT_BROADCASTING] = INC_STEP(TERM_SLOT_IDLE),
	};
	static const struct inc_machine machine = {"slot", TERM_SLOT_BROADCASTING + 1, names,
						   steps};

	slot->state = inc_machine_step(&machine, slot->who, slot->state, to);
	if (to == TERM_SLOT_IDLE) {
		t->freed++;
		/* request new receives from all peers, because each of them may fill the slot
		 * again */
		term_do(t, &(struct inc_term_action){.what = INC_TERM_DO_RECEIVE});
	}
}

/* Returns the child that has the collective's root behind it, plus 1. Returns 0 if no child has, or
 * if the collective has no root. */
static uint32_t root_child_plus_1(const struct inc_term *t, uint32_t desc)
{
	return inc_has_root(desc) ? t->child_plus_1[INC_DESC_ROOT(desc)] : 0;
}

static uint64_t root_bit(const struct inc_term *t, uint32_t desc)
{
	const uint32_t child_plus_1 = root_child_plus_1(t, desc);

	return child_plus_1 ? 1ull << (child_plus_1 - 1) : 0;
}

/*
 * Compares the collectives that the children have called, and fills in desc, length and givers.
 * Returns a bit for each child that differs from child 0, or that has contributed data against the
 * rules of the collective (inc_out_of_step()).
 */
static uint64_t compare(const struct inc_term *t, struct term_slot *slot)
{
	const struct term_part *part = term_parts(t, slot->number);
	uint64_t differ = 0;
	uint32_t c;

	slot->desc = part[0].desc;
	slot->length = 0;
	slot->givers = 0;
	for (c = 0; c < t->n_children; c++) {
		if (part[c].desc != slot->desc) {
			differ |= 1ull << c;
			continue;
		}
		if (!part[c].length)
			continue;
		if (!slot->length)
			slot->length = part[c].length;
		if (part[c].length != slot->length)
			differ |= 1ull << c;
		slot->givers |= 1ull << c;
	}
	return differ | inc_out_of_step(slot->desc, t->all, slot->givers, root_bit(t, slot->desc));
}

/* Reduces the givers' data in the order of the children, whatever the order of arrival, so that
 * sums of floats are the same in every run. Returns the buffer of the sum, or NULL if there is no
 * data. */
static void *reduce(struct inc_term *t, struct term_slot *slot)
{
	struct term_part *part = term_parts(t, slot->number);
	void *into = NULL;
	uint32_t c, n = 0;

	for (c = 0; c < t->n_children; c++)
		if (part[c].buffer)
			t->source[n++] = part[c].buffer;
	if (n > 1)
		term_do(t, &(struct inc_term_action){.what = INC_TERM_DO_REDUCE,
						     .number = slot->number,
						     .buffer = (void *)t->source[0],
						     .length = slot->length,
						     .desc = slot->desc,
						     .source = t->source,
						     .n_sources = n});
	for (c = 0; c < t->n_children; c++) {
		if (into)
			term_release(t, part[c].buffer);
		else
			into = part[c].buffer;
		part[c].buffer = NULL;
	}
	return into;
}

static void send_part(struct inc_term *t, uint32_t peer, const struct term_slot *slot, void *buffer,
		      uint32_t length, bool has_desc)
{
	t->peer[peer].sent++;
	term_do(t, &(struct inc_term_action){.what = INC_TERM_DO_SEND,
					     .peer = peer,
					     .number = slot->number,
					     .buffer = buffer,
					     .length = length,
					     .has_desc = has_desc,
					     .desc = slot->desc});
}

/* Sends the result to the children that get data, and a message of length 0 to the others. */
static void broadcast(struct inc_term *t, struct term_slot *slot, void *buffer, uint32_t length)
{
	const uint32_t root_plus_1 = root_child_plus_1(t, slot->desc);
	uint32_t c;

	term_slot_go(t, slot, TERM_SLOT_BROADCASTING);
	t->results++;
	slot->result = buffer;
	slot->sending = t->all;
	for (c = 0; c < t->n_children; c++) {
		bool gets = length &&
			    inc_ranks_get(slot->desc, root_plus_1 == c + 1, t->peer[c].n_ranks);

		send_part(t, c, slot, gets ? buffer : NULL, gets ? length : 0,
			  slot->mirror >> c & 1);
	}
}

/* Completes a slot to which all children have contributed. Their data is reduced and sent to the
 * parent, or to the children if there is no parent. If the children have called different
 * collectives, the communicator ends instead. */
static void complete(struct inc_term *t, struct term_slot *slot)
{
	uint64_t differ;
	void *sum;

	term_slot_go(t, slot, TERM_SLOT_COMPLETE);
	differ = compare(t, slot);
	if (differ) {
		term_end(t, INC_TERM_MISMATCH, differ, slot->number);
		return;
	}
	sum = reduce(t, slot);
	if (!t->has_parent) {
		broadcast(t, slot, sum, slot->length);
		return;
	}
	term_slot_go(t, slot, TERM_SLOT_AT_PARENT);
	t->partials++;
	slot->partial = sum;
	slot->sending_up = true;
	send_part(t, t->n_children, slot, sum, slot->length, true);
}

/* Refuses a peer's message that is in no slot yet, and ends the communicator. */
static void refuse(struct inc_term *t, uint32_t peer, enum inc_term_reason reason, uint64_t number,
		   const struct inc_term_message *m)
{
	term_release(t, m->buffer);
	term_end(t, reason, term_peer_bit(t, peer), number);
}

void term_take_part(struct inc_term *t, uint32_t child, uint64_t number,
		    const struct inc_term_message *m)
{
	struct term_slot *slot = term_slot(t, number);
	struct term_peer *p = &t->peer[child];

	if (number != p->received || number - t->freed >= t->slots) {
		refuse(t, child, INC_TERM_OUT_OF_TURN, number, m);
		return;
	}
	if ((!m->has_desc && !p->has_desc) ||
	    !inc_desc_known(m->has_desc ? m->desc : p->desc, m->length)) {
		refuse(t, child, INC_TERM_INVALID, number, m);
		return;
	}
	if (m->has_desc)
		p->desc = m->desc;
	p->has_desc = true;
	p->received++;
	if (!m->length)
		term_release(t, m->buffer);
	term_parts(t, number)[child] = (struct term_part){
		.buffer = m->length ? m->buffer : NULL, .desc = p->desc, .length = m->length};
	if (slot->state == TERM_SLOT_IDLE) {
		slot->number = number;
		slot->arrived = 0;
		slot->mirror = 0;
		term_slot_go(t, slot, TERM_SLOT_AGGREGATING);
	}
	slot->arrived |= 1ull << child;
	slot->mirror |= (uint64_t)m->has_desc << child;
	if (slot->arrived == t->all)
		complete(t, slot);
}

/* Whether the parent's message is a valid result of the slot's partial sum. It must have the
 * descriptor of the collective, and as much data as the ranks below get. */
static bool answers(const struct inc_term *t, const struct term_slot *slot,
		    const struct inc_term_message *m)
{
	return m->has_desc && m->desc == slot->desc &&
	       inc_answer_fits(slot->desc, m->length, slot->length,
			       root_child_plus_1(t, slot->desc), t->peer[t->n_children].n_ranks);
}

void term_take_result(struct inc_term *t, uint64_t number, const struct inc_term_message *m)
{
	struct term_slot *slot = term_slot(t, number);
	struct term_peer *p = &t->peer[t->n_children];

	/* refuse a message that is not the next one, or comes before its partial sum was sent, or
	 * is no valid result */
	if (number != p->received || number == t->partials || !answers(t, slot, m)) {
		refuse(t, t->n_children, INC_TERM_INVALID, number, m);
		return;
	}
	p->received++;
	if (!m->length)
		term_release(t, m->buffer);
	broadcast(t, slot, m->length ? m->buffer : NULL, m->length);
}

void term_take_sent(struct inc_term *t, uint32_t peer, uint64_t number)
{
	struct term_slot *slot = term_slot(t, number);

	t->peer[peer].acknowledged++;
	if (term_is_parent(t, peer)) {
		slot->sending_up = false;
		term_release(t, slot->partial);
		slot->partial = NULL;
	} else {
		slot->sending &= ~(1ull << peer);
		if (!slot->sending) {
			term_release(t, slot->result);
			slot->result = NULL;
		}
	}
	/* the slot may become free here, because the parent's result may have arrived before the
	 * parent's acknowledgement of the partial sum */
	if (!t->ended && slot->state == TERM_SLOT_BROADCASTING && !slot->sending &&
	    !slot->sending_up)
		term_slot_go(t, slot, TERM_SLOT_IDLE);
}
