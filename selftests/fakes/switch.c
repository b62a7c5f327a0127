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
	struct fake_switch *sw = ctx;
	size_t used;

	pthread_mutex_lock(&sw->log_lock);
	used = strlen(sw->log);
	snprintf(sw->log + used, sizeof(sw->log) - used, "%s\n", line);
	pthread_mutex_unlock(&sw->log_lock);
}

bool fake_switch_logged(struct fake_switch *sw, const char *text)
{
	bool said;

	pthread_mutex_lock(&sw->log_lock);
	said = strstr(sw->log, text);
	pthread_mutex_unlock(&sw->log_lock);
	return said;
}

/* Writes the connection message. Mode, float format and limits follow the number of slots, because
 * CONN_TO() has no fields for them. */
static void write_conn(const struct fake_switch *sw, struct fake_switch_rank *rank,
		       const char *port)
{
	const struct fake_switch_conf *conf = &sw->conf;
	char slots[160] = STR(FAKE_SWITCH_SLOTS), *at = slots + strlen(slots), *end = slots + 160;

	at += snprintf(at, end - at, ",\"mode\":\"%s\",\"floats\":\"%s\"",
		       inc_tree_modes[conf->mode], inc_float_forms[conf->native]);
	if (conf->agreed_packets)
		at += snprintf(at, end - at, ",\"message_packets\":%u", conf->agreed_packets);
	if (conf->messages)
		snprintf(at, end - at, ",\"messages\":%u", conf->messages);
	snprintf(rank->conn, sizeof(rank->conn),
		 CONN_TO("%s", "%u", STR(FAKE_SWITCH_PAYLOAD), "%s"), slots, port, RC_PEER_QPN);
}

static void rank_up(struct fake_switch *sw, unsigned int i)
{
	struct fake_switch_rank *rank = &sw->rank[i];
	INCCL_OPTS(inccl_group_opts, group, .rank = i, .world_size = sw->conf.ranks,
		   .log = keep_log, .log_ctx = sw);
	INCCL_OPTS(inccl_communicator_opts, comm, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = FAKE_SWITCH_PAYLOAD, .window = sw->conf.window,
		   .message_packets = sw->conf.message_packets, .create_timeout_ms = 4000,
		   .byte_order = sw->conf.byte_order);
	char error[256], port[8];

	snprintf(port, sizeof(port), "%u", rc_peer_open(&rank->peer));
	write_conn(sw, rank, port);
	rank->message = calloc(FAKE_SWITCH_MESSAGES, sizeof(*rank->message));
	assert_non_null(rank->message);
	snprintf(rank->joined, sizeof(rank->joined), JOINED_AS("7", "%u", "%u"), i, sw->conf.ranks);
	rank->answers[0] = rank->joined;
	rank->answers[1] = rank->conn;
	rank->answers[2] = STARTED;
	rank->answers[3] = "{\"type\":\"D\",\"communicator\":12}\n";
	if (fake_controller_join(&rank->controller, rank->answers, false, &group, &rank->group,
				 error) ||
	    inccl_communicator_create(rank->group, &comm, &rank->comm))
		fail_msg("%s", error);
	rc_peer_connect(&rank->peer, fake_controller_received_number(&rank->controller, "own_port"),
			fake_controller_received_number(&rank->controller, "own_qp"),
			fake_controller_received_number(&rank->controller, "own_psn"), SWITCH_PSN);
	endpoint_be_patient(rank->comm);
}

void fake_switch_up(struct fake_switch *sw, const struct fake_switch_conf *conf)
{
	memset(sw, 0, sizeof(*sw));
	sw->conf = *conf;
	pthread_mutex_init(&sw->log_lock, NULL);
	for (unsigned int i = 0; i < conf->ranks; i++)
		rank_up(sw, i);
}

void fake_switch_down(struct fake_switch *sw)
{
	for (unsigned int i = 0; i < sw->conf.ranks; i++) {
		struct fake_switch_rank *rank = &sw->rank[i];

		assert_int_equal(inccl_communicator_destroy(rank->comm), rank->ended);
		assert_int_equal(inccl_group_destroy(rank->group), 0);
		fake_controller_stop(&rank->controller);
		rc_peer_close(&rank->peer);
		free(rank->message);
	}
}

void fake_switch_reset(struct fake_switch *sw)
{
	pthread_mutex_lock(&sw->log_lock);
	sw->log[0] = 0;
	pthread_mutex_unlock(&sw->log_lock);
	for (unsigned int i = 0; i < sw->conf.ranks; i++) {
		struct fake_switch_rank *rank = &sw->rank[i];

		rank->gave = rank->got = 0;
		rank->most_under_way = rank->traced = rank->longest = 0;
	}
}

bool fake_switch_receive_data(struct fake_switch_rank *rank, uint64_t number,
			      struct inc_roce_packet *p)
{
	while (rc_peer_receive(&rank->peer, p, 0)) {
		if (p->opcode == INC_OP_ACK) {
			assert_int_equal(p->syndrome & INC_AETH_TYPE_MASK, INC_AETH_TYPE_ACK);
			continue;
		}
		if (inc_psn_diff(p->psn, rank->peer.channel_psn + (uint32_t)number) < 0)
			continue; /* the packet is a retransmission */
		assert_int_equal(p->psn, (rank->peer.channel_psn + number) & INC_PSN_MASK);
		return true;
	}
	return false;
}

static void receive_from(struct fake_switch *sw, struct fake_switch_rank *rank)
{
	struct fake_switch_packet *packet;
	struct inc_roce_packet head;

	while (fake_switch_receive_data(rank, rank->received, &head)) {
		assert_true(rank->received - sw->results < FAKE_SWITCH_SLOTS);
		assert_true(head.len <= FAKE_SWITCH_PAYLOAD);
		if (inc_op_in(head.opcode, INC_OPS_IMM))
			rank->desc = head.imm;
		packet = &rank->ring[rank->received++ % FAKE_SWITCH_SLOTS];
		packet->head = head;
		packet->desc = rank->desc;
		memcpy(packet->payload, head.payload, head.len);
		rank->gave += head.len;
		if (rank->received - sw->results > rank->most_under_way)
			rank->most_under_way = rank->received - sw->results;
		if (rank->traced < FAKE_SWITCH_TRACE)
			rank->trace[rank->traced++] = *packet;
	}
}

/* Checks that packet r of all ranks forms one chunk: the descriptors are equal, and every rank that
 * must contribute data does so. Returns the chunk's length. */
static size_t check_chunk(const struct fake_switch *sw)
{
	const struct fake_switch_packet *first = &sw->rank[0].ring[sw->results % FAKE_SWITCH_SLOTS],
					*p;
	size_t len = 0;
	unsigned int i;

	for (i = 0; i < sw->conf.ranks; i++)
		if (sw->rank[i].ring[sw->results % FAKE_SWITCH_SLOTS].head.len > len)
			len = sw->rank[i].ring[sw->results % FAKE_SWITCH_SLOTS].head.len;
	for (i = 0; i < sw->conf.ranks; i++) {
		p = &sw->rank[i].ring[sw->results % FAKE_SWITCH_SLOTS];
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
	case INC_OPERATOR_LOR:
		return a | b;
	case INC_OPERATOR_LAND:
		return a & b;
	case INC_OPERATOR_LXOR:
		return a ^ b;
	default:
		assert_true(op == INC_OPERATOR_SUM || op == INC_OPERATOR_AVG);
		return (int64_t)((uint64_t)a + (uint64_t)b);
	}
}

/* Combines two elements of two numbers each. The second numbers count if the first are equal. */
static void combine_pair(enum inc_operator op, uint8_t *into, const uint8_t *from, bool big)
{
	const size_t at = memcmp(into, from, 8) ? 0 : 8;
	const int64_t a = element(into + at, 8, true, big), b = element(from + at, 8, true, big);

	if (combine(op, a, b) == b)
		memcpy(into, from, 16);
}

void fake_switch_combine(const struct fake_switch *sw, uint32_t desc, uint8_t *into,
			 const uint8_t *from, size_t len)
{
#define _(NAME, name, bytes, sign) sign,
	static const bool has_sign[] = {INC_WIRE_DTYPES(_)};
#undef _
	const bool big = sw->conf.byte_order == INCCL_ORDER_NETWORK;
	const bool sign = has_sign[INC_DESC_DTYPE(desc)];
	const size_t size = inc_element_bytes(desc);

	for (size_t at = 0; size == 16 && at < len; at += size)
		combine_pair(INC_DESC_OP(desc), into + at, from + at, big);
	for (size_t at = 0; size < 16 && at < len; at += size)
		put_element(into + at, size, big,
			    combine(INC_DESC_OP(desc), element(into + at, size, sign, big),
				    element(from + at, size, sign, big)));
}

static void reduce(const struct fake_switch *sw, uint8_t *result)
{
	bool any = false;

	for (unsigned int i = 0; i < sw->conf.ranks; i++) {
		const struct fake_switch_packet *p =
			&sw->rank[i].ring[sw->results % FAKE_SWITCH_SLOTS];

		if (any)
			fake_switch_combine(sw, p->desc, result, p->payload, p->head.len);
		else
			memcpy(result, p->payload, p->head.len);
		any |= p->head.len;
	}
}

static void send_result(struct fake_switch *sw, unsigned int i, size_t len, const uint8_t *result)
{
	struct fake_switch_rank *rank = &sw->rank[i];
	const struct fake_switch_packet *of = &rank->ring[sw->results % FAKE_SWITCH_SLOTS];
	bool only = inc_op_in(of->head.opcode, INC_OPS_ONLY);

	if (!inc_ranks_get(of->desc, INC_DESC_ROOT(of->desc) == i, 1))
		len = 0;
	if (only && inc_op_in(of->head.opcode, INC_OPS_RETH))
		assert_int_equal(of->head.dmalen, of->head.len);
	rank->got += len;
	rc_peer_send(&rank->peer, &(struct rc_packet){
					  .opcode = of->head.opcode,
					  .psn = SWITCH_PSN + sw->results,
					  .ackreq = of->head.ackreq,
					  .va = of->head.va,
					  .rkey = of->head.rkey,
					  .dmalen = only ? len : of->head.dmalen,
					  .imm = of->head.imm,
					  .payload = result,
					  .len = len,
				  });
}

void fake_switch_receive(struct fake_switch *sw)
{
	if (sw->conf.mode == INC_TREE_TERMINATION) {
		fake_switch_receive_messages(sw);
		return;
	}
	for (unsigned int i = 0; i < sw->conf.ranks; i++)
		receive_from(sw, &sw->rank[i]);
}

void fake_switch_serve(struct fake_switch *sw)
{
	uint8_t result[FAKE_SWITCH_PAYLOAD];
	unsigned int i;
	size_t len;

	if (sw->conf.mode == INC_TREE_TERMINATION) {
		fake_switch_serve_messages(sw);
		return;
	}
	for (;;) {
		fake_switch_receive(sw);
		for (i = 0; i < sw->conf.ranks; i++)
			if (sw->rank[i].received == sw->results)
				return;
		len = check_chunk(sw);
		reduce(sw, result);
		for (i = 0; i < sw->conf.ranks; i++)
			send_result(sw, i, len, result);
		sw->results++;
	}
}

void fake_switch_finish(struct fake_switch *sw, struct inccl_request *const *requests)
{
	uint64_t end = deadline_after_ms(WAIT_MS);
	bool done[FAKE_SWITCH_RANKS] = {false};
	unsigned int left = sw->conf.ranks, i;
	int ret;

	while (left) {
		fake_switch_serve(sw);
		for (i = 0; i < sw->conf.ranks; i++) {
			ret = done[i] ? -EAGAIN : inccl_test(requests[i]);
			if (ret == -EAGAIN)
				continue;
			if (ret)
				fail_msg("rank %u: %s", i,
					 inccl_communicator_error(sw->rank[i].comm));
			done[i] = true;
			left--;
		}
		if (inc_now_ns() > end)
			fail_msg("%u ranks are not done after %llu results", left,
				 (unsigned long long)sw->results);
	}
	fake_switch_serve(sw);
}

void fake_switch_silent(struct fake_switch *sw)
{
	fake_switch_serve(sw);
	for (unsigned int i = 0; i < sw->conf.ranks; i++)
		assert_int_equal(sw->rank[i].received, sw->results);
}
