/* SPDX-License-Identifier: BSD-2-Clause */
/* The test switch of switch.h in termination mode. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "selftests/fakes/switch.h"

static struct fake_switch_message *message_of(const struct fake_switch_rank *rank, uint64_t number)
{
	return &rank->message[number % FAKE_SWITCH_MESSAGES];
}

const uint8_t *fake_switch_given(const struct fake_switch *sw, unsigned int rank)
{
	return message_of(&sw->rank[rank], sw->results)->bytes;
}

/* Prepares for the next message of this rank. */
static void begin(struct fake_switch_rank *rank)
{
	struct fake_switch_message *m = message_of(rank, rank->received);

	m->len = 0;
	m->has_imm = false;
	m->desc = rank->desc;
}

/* Returns the descriptor in its host form. Fails if the rank uses another form of floats than the
 * switch. */
static uint32_t desc_of(const struct fake_switch *sw, uint32_t imm)
{
	uint32_t desc;

	assert_true(inc_desc_from_wire(imm, sw->conf.native, &desc));
	return desc;
}

static void take(struct fake_switch *sw, struct fake_switch_rank *rank,
		 const struct inc_roce_packet *p)
{
	struct fake_switch_message *m = message_of(rank, rank->received);
	const bool first = p->opcode == INC_OP_SEND_FIRST || inc_op_in(p->opcode, INC_OPS_ONLY);
	const bool last = p->opcode != INC_OP_SEND_FIRST && p->opcode != INC_OP_SEND_MIDDLE;

	assert_true(p->opcode <= INC_OP_SEND_ONLY_IMM);
	if (first)
		begin(rank);
	assert_int_equal(first, m->len == 0);
	assert_true(last || p->len == FAKE_SWITCH_PAYLOAD);
	assert_true(m->len + p->len <= FAKE_SWITCH_MESSAGE_BYTES);
	memcpy(m->bytes + m->len, p->payload, p->len);
	m->len += p->len;
	rank->gave += p->len;
	if (inc_op_in(p->opcode, INC_OPS_IMM)) {
		m->has_imm = true;
		m->desc = rank->desc = desc_of(sw, p->imm);
	}
	if (!last)
		return;
	if (m->len > rank->longest * FAKE_SWITCH_PAYLOAD)
		rank->longest = (m->len + FAKE_SWITCH_PAYLOAD - 1) / FAKE_SWITCH_PAYLOAD;
	rank->received++;
	assert_true(rank->received - sw->results <= (sw->conf.messages ?: FAKE_SWITCH_MESSAGES));
	if (rank->received - sw->results > rank->most_under_way)
		rank->most_under_way = rank->received - sw->results;
}

static void receive_from(struct fake_switch *sw, struct fake_switch_rank *rank)
{
	struct inc_roce_packet p;

	while (fake_switch_receive_data(rank, rank->packets, &p)) {
		rank->packets++;
		take(sw, rank, &p);
	}
}

void fake_switch_receive_messages(struct fake_switch *sw)
{
	for (unsigned int i = 0; i < sw->conf.ranks; i++)
		receive_from(sw, &sw->rank[i]);
}

static bool is_float(const struct fake_switch *sw, uint32_t desc)
{
	return sw->conf.native && inc_reduces_floats(desc);
}

/* Reduces the next message of all ranks into `result`, and returns its length. All descriptors must
 * be equal, and all contributions must have the same length. */
static size_t reduce(struct fake_switch *sw, uint8_t *result)
{
	const uint32_t desc = message_of(&sw->rank[0], sw->results)->desc;
	size_t len = 0;

	for (unsigned int r = 0; r < sw->conf.ranks; r++) {
		const struct fake_switch_message *m = message_of(&sw->rank[r], sw->results);

		assert_int_equal(m->desc, desc);
		if (len && m->len)
			assert_int_equal(m->len, len);
		if (len)
			fake_switch_combine(sw, desc, result, m->bytes,
					    is_float(sw, desc) ? 0 : m->len);
		else
			memcpy(result, m->bytes, m->len);
		len = m->len ?: len;
	}
	for (unsigned int r = 0; r < sw->conf.ranks; r++)
		assert_int_equal(message_of(&sw->rank[r], sw->results)->len,
				 inc_all_give(desc)                                 ? len
				 : inc_root_gives(desc) && INC_DESC_ROOT(desc) == r ? len
										    : 0);
	if (is_float(sw, desc))
		sw->conf.reduce_floats(sw, desc, result, len);
	return len;
}

/* Sends a result in as many packets as it needs. */
static void send_result(struct fake_switch *sw, unsigned int r, size_t len, const uint8_t *result)
{
	static const uint8_t opcodes[2][2] = {{INC_OP_SEND_MIDDLE, INC_OP_SEND_LAST},
					      {INC_OP_SEND_FIRST, INC_OP_SEND_ONLY}};
	struct fake_switch_rank *rank = &sw->rank[r];
	const struct fake_switch_message *m = message_of(rank, sw->results);
	size_t at = 0, n;

	if (!inc_ranks_get(m->desc, INC_DESC_ROOT(m->desc) == r, 1))
		len = 0;
	rank->got += len;
	do {
		bool last;

		n = len - at < FAKE_SWITCH_PAYLOAD ? len - at : FAKE_SWITCH_PAYLOAD;
		last = at + n == len;
		rc_peer_send(&rank->peer,
			     &(struct rc_packet){
				     .opcode = opcodes[at == 0][last] + (last && m->has_imm),
				     .psn = rank->peer.own_psn + rank->sent++,
				     .ackreq = last,
				     .imm = inc_desc_to_wire(m->desc, sw->conf.native),
				     .payload = result + at,
				     .len = n,
			     });
		at += n;
	} while (at < len);
}

void fake_switch_serve_messages(struct fake_switch *sw)
{
	static uint8_t result[FAKE_SWITCH_MESSAGE_BYTES];
	unsigned int i;
	size_t len;

	for (;;) {
		fake_switch_receive_messages(sw);
		for (i = 0; i < sw->conf.ranks; i++)
			if (sw->rank[i].received == sw->results)
				return;
		len = reduce(sw, result);
		for (i = 0; i < sw->conf.ranks; i++)
			send_result(sw, i, len, result);
		sw->results++;
	}
}
