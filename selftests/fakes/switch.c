/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/channel/soft_priv.h"
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "selftests/fakes/switch.h"

#define WAIT_MS    30000
#define SWITCH_PSN 77 /* first PSN of the switch, which CONN_TO() contains */
#define STR2(x)    #x
#define STR(x)     STR2(x)

static void keep_log(void *ctx, const char *line)
{
	struct lockstep *ls = ctx;
	size_t used;

	pthread_mutex_lock(&ls->log_lock);
	used = strlen(ls->log);
	snprintf(ls->log + used, sizeof(ls->log) - used, "%s\n", line);
	pthread_mutex_unlock(&ls->log_lock);
}

bool lockstep_logged(struct lockstep *ls, const char *text)
{
	bool said;

	pthread_mutex_lock(&ls->log_lock);
	said = strstr(ls->log, text);
	pthread_mutex_unlock(&ls->log_lock);
	return said;
}

/* Writes the connection message. Mode, float format and limits follow the number of slots, because
 * CONN_TO() has no fields for them. */
static void write_conn(const struct lockstep *ls, struct lockstep_rank *rank, const char *port)
{
	const struct lockstep_conf *conf = &ls->conf;
	char slots[160] = STR(LOCKSTEP_SLOTS), *at = slots + strlen(slots), *end = slots + 160;

	at += snprintf(at, end - at, ",\"mode\":\"%s\",\"floats\":\"%s\"",
		       inc_tree_modes[conf->mode], inc_float_forms[conf->native]);
	if (conf->agreed_packets)
		at += snprintf(at, end - at, ",\"message_packets\":%u", conf->agreed_packets);
	if (conf->messages)
		snprintf(at, end - at, ",\"messages\":%u", conf->messages);
	snprintf(rank->conn, sizeof(rank->conn), CONN_TO("%s", "%u", STR(LOCKSTEP_PAYLOAD), "%s"),
		 slots, port, PEER_QPN);
}

static void rank_up(struct lockstep *ls, unsigned int i)
{
	struct lockstep_rank *rank = &ls->rank[i];
	INCCL_OPTS(inccl_group_opts, group, .rank = i, .world_size = ls->conf.ranks,
		   .log = keep_log, .log_ctx = ls);
	INCCL_OPTS(inccl_communicator_opts, comm, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = LOCKSTEP_PAYLOAD, .window = ls->conf.window,
		   .message_packets = ls->conf.message_packets, .create_timeout_ms = 4000,
		   .byte_order = ls->conf.byte_order);
	char error[256], port[8];

	snprintf(port, sizeof(port), "%u", peer_listen(&rank->peer));
	write_conn(ls, rank, port);
	rank->message = calloc(LOCKSTEP_MESSAGES, sizeof(*rank->message));
	assert_non_null(rank->message);
	snprintf(rank->joined, sizeof(rank->joined), JOINED_AS("7", "%u", "%u"), i, ls->conf.ranks);
	rank->answers[0] = rank->joined;
	rank->answers[1] = rank->conn;
	rank->answers[2] = STARTED;
	rank->answers[3] = "{\"type\":\"D\",\"communicator\":12}\n";
	if (fake_join(&rank->fake, rank->answers, false, &group, &rank->group, error) ||
	    inccl_communicator_create(rank->group, &comm, &rank->comm))
		fail_msg("%s", error);
	peer_meet(&rank->peer, fake_received_number(&rank->fake, "own_port"),
		  fake_received_number(&rank->fake, "own_qp"),
		  fake_received_number(&rank->fake, "own_psn"), SWITCH_PSN);
	/* a busy machine must not cause timeouts in cases about something else */
	pthread_mutex_lock(&rank->comm->lock);
	peer_channel(rank->comm->ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	peer_channel(rank->comm->ep)->tx.rto.min_ns = INCCL_RTO_MAX_NS;
	pthread_mutex_unlock(&rank->comm->lock);
}

void lockstep_up(struct lockstep *ls, const struct lockstep_conf *conf)
{
	memset(ls, 0, sizeof(*ls));
	ls->conf = *conf;
	pthread_mutex_init(&ls->log_lock, NULL);
	for (unsigned int i = 0; i < conf->ranks; i++)
		rank_up(ls, i);
}

void lockstep_down(struct lockstep *ls)
{
	for (unsigned int i = 0; i < ls->conf.ranks; i++) {
		struct lockstep_rank *rank = &ls->rank[i];

		assert_int_equal(inccl_communicator_destroy(rank->comm), rank->ended);
		assert_int_equal(inccl_group_destroy(rank->group), 0);
		fake_stop(&rank->fake);
		close(rank->peer.fd);
		free(rank->message);
	}
}

void lockstep_reset(struct lockstep *ls)
{
	pthread_mutex_lock(&ls->log_lock);
	ls->log[0] = 0;
	pthread_mutex_unlock(&ls->log_lock);
	for (unsigned int i = 0; i < ls->conf.ranks; i++) {
		struct lockstep_rank *rank = &ls->rank[i];

		rank->gave = rank->got = 0;
		rank->most_under_way = rank->traced = rank->longest = 0;
	}
}

/* Receives the packets of a rank. ACKs are ignored, because this switch does not depend on them. */
static void receive_from(struct lockstep *ls, struct lockstep_rank *rank)
{
	struct lockstep_packet *packet;
	struct inc_roce_packet head;

	while (peer_hear(&rank->peer, &head, 0)) {
		if (head.opcode == INC_OP_ACK) {
			assert_int_equal(head.syndrome & INC_AETH_TYPE_MASK, INC_AETH_TYPE_ACK);
			continue;
		}
		if (inc_psn_diff(head.psn, rank->peer.host_psn + (uint32_t)rank->received) < 0)
			continue; /* the packet is a retransmission */
		assert_int_equal(head.psn, (rank->peer.host_psn + rank->received) & INC_PSN_MASK);
		assert_true(rank->received - ls->results < LOCKSTEP_SLOTS);
		assert_true(head.len <= LOCKSTEP_PAYLOAD);
		if (inc_op_in(head.opcode, INC_OPS_IMM))
			rank->desc = head.imm;
		packet = &rank->ring[rank->received++ % LOCKSTEP_SLOTS];
		packet->head = head;
		packet->desc = rank->desc;
		memcpy(packet->payload, head.payload, head.len);
		rank->gave += head.len;
		if (rank->received - ls->results > rank->most_under_way)
			rank->most_under_way = rank->received - ls->results;
		if (rank->traced < LOCKSTEP_TRACE)
			rank->trace[rank->traced++] = *packet;
	}
}

/* Checks that packet r of all ranks forms one chunk: the descriptors are equal, and every rank that
 * must contribute data does so. Returns the chunk's length. */
static size_t check_chunk(const struct lockstep *ls)
{
	const struct lockstep_packet *first = &ls->rank[0].ring[ls->results % LOCKSTEP_SLOTS], *p;
	size_t len = 0;
	unsigned int i;

	for (i = 0; i < ls->conf.ranks; i++)
		if (ls->rank[i].ring[ls->results % LOCKSTEP_SLOTS].head.len > len)
			len = ls->rank[i].ring[ls->results % LOCKSTEP_SLOTS].head.len;
	for (i = 0; i < ls->conf.ranks; i++) {
		p = &ls->rank[i].ring[ls->results % LOCKSTEP_SLOTS];
		assert_int_equal(p->desc, first->desc);
		switch (INC_DESC_COLL(p->desc)) {
		case INC_COLL_ALLREDUCE:
		case INC_COLL_REDUCE:
		case INC_COLL_REDUCE_SCATTER:
			assert_int_equal(p->head.len, len);
			break;
		case INC_COLL_BROADCAST:
		case INC_COLL_ALL_GATHER:
			assert_int_equal(p->head.len, INC_DESC_ROOT(p->desc) == i ? len : 0);
			break;
		default:
			assert_int_equal(p->head.len, 0);
		}
	}
	return len;
}

/* Decodes an element byte by byte. The test shares no code with the library here, so both cannot
 * make the same mistake. */
static int64_t element(const uint8_t *at, size_t size, bool sign, bool big)
{
	uint64_t v = 0;

	for (size_t k = 0; k < size; k++)
		v |= (uint64_t)at[big ? size - 1 - k : k] << 8 * k;
	if (sign && size < 8 && v >> (8 * size - 1))
		v |= UINT64_MAX << 8 * size;
	return (int64_t)v;
}

static void put_element(uint8_t *at, size_t size, bool big, int64_t v)
{
	for (size_t k = 0; k < size; k++)
		at[big ? size - 1 - k : k] = (uint64_t)v >> 8 * k;
}

/* Combines two elements. Signed arithmetic suffices, because these tests do not compare unsigned
 * elements of 64 bits. */
static int64_t combine(enum inc_operator op, int64_t a, int64_t b)
{
	switch (op) {
	case INC_OPERATOR_MIN:
		return a < b ? a : b;
	case INC_OPERATOR_MAX:
		return a > b ? a : b;
	case INC_OPERATOR_OR:
		return a | b;
	default:
		assert_true(op == INC_OPERATOR_SUM || op == INC_OPERATOR_AVG);
		return (int64_t)((uint64_t)a + (uint64_t)b);
	}
}

void lockstep_combine(const struct lockstep *ls, uint32_t desc, uint8_t *into, const uint8_t *from,
		      size_t len)
{
#define _(NAME, name, bytes, sign) sign,
	static const bool has_sign[] = {INC_WIRE_DTYPES(_)};
#undef _
	const bool big = ls->conf.byte_order == INCCL_ORDER_NETWORK;
	const bool sign = has_sign[INC_DESC_DTYPE(desc)];
	const size_t size = inc_element_bytes(desc);

	for (size_t at = 0; at < len; at += size)
		put_element(into + at, size, big,
			    combine(INC_DESC_OP(desc), element(into + at, size, sign, big),
				    element(from + at, size, sign, big)));
}

static void reduce(const struct lockstep *ls, uint8_t *result)
{
	bool any = false;

	for (unsigned int i = 0; i < ls->conf.ranks; i++) {
		const struct lockstep_packet *p = &ls->rank[i].ring[ls->results % LOCKSTEP_SLOTS];

		if (any)
			lockstep_combine(ls, p->desc, result, p->payload, p->head.len);
		else
			memcpy(result, p->payload, p->head.len);
		any |= p->head.len;
	}
}

static void send_result(struct lockstep *ls, unsigned int i, size_t len, const uint8_t *result)
{
	struct lockstep_rank *rank = &ls->rank[i];
	const struct lockstep_packet *of = &rank->ring[ls->results % LOCKSTEP_SLOTS];
	bool only = inc_op_in(of->head.opcode, INC_OPS_ONLY);

	if (!inc_ranks_get(of->desc, INC_DESC_ROOT(of->desc) == i, 1))
		len = 0;
	if (only && inc_op_in(of->head.opcode, INC_OPS_RETH))
		assert_int_equal(of->head.dmalen, of->head.len);
	rank->got += len;
	peer_say(&rank->peer, &(struct say){
				      .opcode = of->head.opcode,
				      .psn = SWITCH_PSN + ls->results,
				      .ackreq = of->head.ackreq,
				      .va = of->head.va,
				      .rkey = of->head.rkey,
				      .dmalen = only ? len : of->head.dmalen,
				      .imm = of->head.imm,
				      .payload = result,
				      .len = len,
			      });
}

void lockstep_receive(struct lockstep *ls)
{
	if (ls->conf.mode == INC_TREE_TERMINATION) {
		lockstep_receive_messages(ls);
		return;
	}
	for (unsigned int i = 0; i < ls->conf.ranks; i++)
		receive_from(ls, &ls->rank[i]);
}

void lockstep_serve(struct lockstep *ls)
{
	uint8_t result[LOCKSTEP_PAYLOAD];
	unsigned int i;
	size_t len;

	if (ls->conf.mode == INC_TREE_TERMINATION) {
		lockstep_serve_messages(ls);
		return;
	}
	for (;;) {
		lockstep_receive(ls);
		for (i = 0; i < ls->conf.ranks; i++)
			if (ls->rank[i].received == ls->results)
				return;
		len = check_chunk(ls);
		reduce(ls, result);
		for (i = 0; i < ls->conf.ranks; i++)
			send_result(ls, i, len, result);
		ls->results++;
	}
}

void lockstep_finish(struct lockstep *ls, struct inccl_request *const *requests)
{
	uint64_t end = deadline_after_ms(WAIT_MS);
	bool done[LOCKSTEP_RANKS] = {false};
	unsigned int left = ls->conf.ranks, i;
	int ret;

	while (left) {
		lockstep_serve(ls);
		for (i = 0; i < ls->conf.ranks; i++) {
			ret = done[i] ? -EAGAIN : inccl_test(requests[i]);
			if (ret == -EAGAIN)
				continue;
			if (ret)
				fail_msg("rank %u: %s", i,
					 inccl_communicator_error(ls->rank[i].comm));
			done[i] = true;
			left--;
		}
		if (inc_now_ns() > end)
			fail_msg("%u ranks are not done after %llu results", left,
				 (unsigned long long)ls->results);
	}
	lockstep_serve(ls);
}

void lockstep_silent(struct lockstep *ls)
{
	lockstep_serve(ls);
	for (unsigned int i = 0; i < ls->conf.ranks; i++)
		assert_int_equal(ls->rank[i].received, ls->results);
}
