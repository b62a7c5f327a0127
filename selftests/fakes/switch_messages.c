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

static struct lockstep_message *message_of(const struct lockstep_rank *rank, uint64_t number)
{
	return &rank->message[number % LOCKSTEP_MESSAGES];
}

const uint8_t *lockstep_given(const struct lockstep *ls, unsigned int rank)
{
	return message_of(&ls->rank[rank], ls->results)->bytes;
}

/* Prepares for the next message of this rank. */
static void begin(struct lockstep_rank *rank)
{
	struct lockstep_message *m = message_of(rank, rank->received);

	m->len = 0;
	m->has_imm = false;
	m->desc = rank->desc;
}

/* Returns the descriptor in its host form. Fails if the rank uses another form of floats than the
 * switch. */
static uint32_t desc_of(const struct lockstep *ls, uint32_t imm)
{
	uint32_t desc;

	assert_true(inc_desc_from_wire(imm, ls->conf.native, &desc));
	return desc;
}

static void take(struct lockstep *ls, struct lockstep_rank *rank, const struct inc_roce_packet *p)
{
	struct lockstep_message *m = message_of(rank, rank->received);
	const bool first = p->opcode == INC_OP_SEND_FIRST || inc_op_in(p->opcode, INC_OPS_ONLY);
	const bool last = p->opcode != INC_OP_SEND_FIRST && p->opcode != INC_OP_SEND_MIDDLE;

	assert_true(p->opcode <= INC_OP_SEND_ONLY_IMM);
	if (first)
		begin(rank);
	assert_int_equal(first, m->len == 0);
	assert_true(last || p->len == LOCKSTEP_PAYLOAD);
	assert_true(m->len + p->len <= LOCKSTEP_MESSAGE_BYTES);
	memcpy(m->bytes + m->len, p->payload, p->len);
	m->len += p->len;
	rank->gave += p->len;
	if (inc_op_in(p->opcode, INC_OPS_IMM)) {
		m->has_imm = true;
		m->desc = rank->desc = desc_of(ls, p->imm);
	}
	if (!last)
		return;
	if (m->len > rank->longest * LOCKSTEP_PAYLOAD)
		rank->longest = (m->len + LOCKSTEP_PAYLOAD - 1) / LOCKSTEP_PAYLOAD;
	rank->received++;
	assert_true(rank->received - ls->results <= (ls->conf.messages ?: LOCKSTEP_MESSAGES));
	if (rank->received - ls->results > rank->most_under_way)
		rank->most_under_way = rank->received - ls->results;
}

static void receive_from(struct lockstep *ls, struct lockstep_rank *rank)
{
	struct inc_roce_packet p;

	while (peer_hear(&rank->peer, &p, 0)) {
		if (p.opcode == INC_OP_ACK) {
			assert_int_equal(p.syndrome & INC_AETH_TYPE_MASK, INC_AETH_TYPE_ACK);
			continue;
		}
		if (inc_psn_diff(p.psn, rank->peer.host_psn + (uint32_t)rank->packets) < 0)
			continue; /* the packet is a retransmission */
		assert_int_equal(p.psn, (rank->peer.host_psn + rank->packets) & INC_PSN_MASK);
		rank->packets++;
		take(ls, rank, &p);
	}
}

void lockstep_receive_messages(struct lockstep *ls)
{
	for (unsigned int i = 0; i < ls->conf.ranks; i++)
		receive_from(ls, &ls->rank[i]);
}

static bool is_float(const struct lockstep *ls, uint32_t desc)
{
	return ls->conf.native && inc_reduces_floats(desc);
}

/* Reduces the next message of all ranks into `result`, and returns its length. All descriptors must
 * be equal, and all contributions must have the same length. */
static size_t reduce(struct lockstep *ls, uint8_t *result)
{
	const uint32_t desc = message_of(&ls->rank[0], ls->results)->desc;
	size_t len = 0;

	for (unsigned int r = 0; r < ls->conf.ranks; r++) {
		const struct lockstep_message *m = message_of(&ls->rank[r], ls->results);

		assert_int_equal(m->desc, desc);
		if (len && m->len)
			assert_int_equal(m->len, len);
		if (len)
			lockstep_combine(ls, desc, result, m->bytes,
					 is_float(ls, desc) ? 0 : m->len);
		else
			memcpy(result, m->bytes, m->len);
		len = m->len ?: len;
	}
	for (unsigned int r = 0; r < ls->conf.ranks; r++)
		assert_int_equal(message_of(&ls->rank[r], ls->results)->len,
				 inc_all_give(desc)                                 ? len
				 : inc_root_gives(desc) && INC_DESC_ROOT(desc) == r ? len
										    : 0);
	if (is_float(ls, desc))
		ls->conf.reduce_floats(ls, desc, result, len);
	return len;
}

/* Sends a result in as many packets as it needs. */
static void send_result(struct lockstep *ls, unsigned int r, size_t len, const uint8_t *result)
{
	static const uint8_t opcodes[2][2] = {{INC_OP_SEND_MIDDLE, INC_OP_SEND_LAST},
					      {INC_OP_SEND_FIRST, INC_OP_SEND_ONLY}};
	struct lockstep_rank *rank = &ls->rank[r];
	const struct lockstep_message *m = message_of(rank, ls->results);
	size_t at = 0, n;

	if (!inc_ranks_get(m->desc, INC_DESC_ROOT(m->desc) == r, 1))
		len = 0;
	rank->got += len;
	do {
		bool last;

		n = len - at < LOCKSTEP_PAYLOAD ? len - at : LOCKSTEP_PAYLOAD;
		last = at + n == len;
		peer_say(&rank->peer,
			 &(struct say){
				 .opcode = opcodes[at == 0][last] + (last && m->has_imm),
				 .psn = rank->peer.own_psn + rank->sent++,
				 .ackreq = last,
				 .imm = inc_desc_to_wire(m->desc, ls->conf.native),
				 .payload = result + at,
				 .len = n,
			 });
		at += n;
	} while (at < len);
}

void lockstep_serve_messages(struct lockstep *ls)
{
	static uint8_t result[LOCKSTEP_MESSAGE_BYTES];
	unsigned int i;
	size_t len;

	for (;;) {
		lockstep_receive_messages(ls);
		for (i = 0; i < ls->conf.ranks; i++)
			if (ls->rank[i].received == ls->results)
				return;
		len = reduce(ls, result);
		for (i = 0; i < ls->conf.ranks; i++)
			send_result(ls, i, len, result);
		ls->results++;
	}
}
