/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/channel.h"
#include "selftests/term/fixture_comm.h"

static const struct inc_channel_ops *const kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &fake_channel_ops};

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	struct comm_fixture *fx = arg;

	assert_int_equal(event->communicator, 12);
	fx->n_told++;
	fx->report = *event;
}

struct inc_comm_conf comm_conf(uint32_t children, uint32_t messages, bool has_parent)
{
	struct inc_comm_conf conf = {
		.communicator = 12,
		.mode = INC_TERMINATION,
		.root = !has_parent,
		.payload = PAYLOAD,
		.slots = messages,
		.messages = messages,
		.message_packets = PACKETS,
		.n_conns = children + has_parent,
	};
	uint32_t i;

	for (i = 0; i < conf.n_conns; i++) {
		struct inc_conn_conf *c = &conf.conn[i];

		/* two connections share each port, and ranks are in another order than
		 * connections */
		snprintf(c->port, sizeof(c->port), "p%u", i / 2);
		c->own.ip = inc_addr_of_ipv4(htonl(0x0a000000 + i / 2));
		c->peer.ip = inc_addr_of_ipv4(htonl(0x0a010000 + i));
		c->up = i == children;
		c->rank = c->up ? 0 : children - 1 - i;
		c->peer.qpn = 77 + i;
		c->peer.psn = 5;
		c->peer.udp_port = 5000 + i;
		c->pkey = INC_PKEY_DEFAULT;
	}
	return conf;
}

void comm_turn(struct comm_fixture *fx)
{
	inc_term_worker_turn(fx->w, 0);
}

void comm_open_worker(struct comm_fixture *fx)
{
	const struct inc_term_worker_opts opts = {.kinds = kinds,
						  .rto_min_ns = INC_NSEC_PER_MSEC,
						  .rto_max_ns = INC_NSEC_PER_SEC,
						  .notice = on_notice,
						  .arg = fx};

	memset(fx, 0, sizeof(*fx));
	assert_int_equal(inc_term_worker_new(&opts, &fx->w, NULL), 0);
}

void comm_open(struct comm_fixture *fx, uint32_t children, uint32_t messages, bool has_parent)
{
	struct inc_err err = {};

	comm_open_worker(fx);
	fx->conf = comm_conf(children, messages, has_parent);
	fx->n = fx->conf.n_conns;
	fx->has_parent = has_parent;
	if (inc_term_worker_add(fx->w, &fx->conf, &fx->cm, &err) ||
	    inc_term_worker_start_comm(fx->w, fx->cm, &err))
		fail_msg("%s", err.msg);
}

void comm_close(struct comm_fixture *fx)
{
	struct fake_channels_open left;

	inc_term_worker_free(fx->w);
	left = fake_channels_open();
	assert_int_equal(left.devices + left.channels + left.maps, 0);
	fake_channel_reset();
}

bool comm_is_parent(const struct comm_fixture *fx, uint32_t i)
{
	return fx->has_parent && i == fx->n - 1;
}

uint32_t comm_qpn(const struct comm_fixture *fx, uint32_t i)
{
	return fx->conf.conn[i].own.qpn;
}

static int32_t part(const struct comm_fixture *fx, uint32_t i, uint64_t number)
{
	return comm_is_parent(fx, i) ? -7 * (int32_t)number - 1
				     : (int32_t)(1 + fx->conf.conn[i].rank) * (int32_t)(1 + number);
}

static int32_t sum_of(const struct comm_fixture *fx, uint64_t number)
{
	int32_t sum = 0;
	uint32_t i;

	for (i = 0; i < fx->n - fx->has_parent; i++)
		sum += part(fx, i, number);
	return sum;
}

/* Sends the next message of peer i, with two elements. A child sends the descriptor with the first
 * message and every third one; a parent always sends it. */
bool comm_give(struct comm_fixture *fx, uint32_t i)
{
	const uint64_t number = fx->given[i];
	const int32_t value[2] = {part(fx, i, number), 5};
	struct fake_channel_message m = {.length = sizeof(value),
					 .has_imm = comm_is_parent(fx, i) || number % 3 == 0,
					 .imm = SUM(0)};

	memcpy(m.bytes, value, sizeof(value));
	if (!fake_channel_give(comm_qpn(fx, i), &m))
		return false;
	fx->given[i]++;
	return true;
}

/* Checks the messages that the engine has sent to peer i. */
void comm_take(struct comm_fixture *fx, uint32_t i)
{
	const uint32_t children = fx->n - fx->has_parent;
	struct fake_channel_message m;
	int32_t value[2];

	while (fake_channel_take(comm_qpn(fx, i), &m)) {
		const uint64_t number = fx->taken[i]++;
		const bool down = fx->has_parent && !comm_is_parent(fx, i);

		assert_int_equal(m.length, sizeof(value));
		memcpy(value, m.bytes, sizeof(value));
		assert_int_equal(value[0], down ? part(fx, fx->n - 1, number) : sum_of(fx, number));
		assert_int_equal(value[1], down ? 5 : 5 * children);
		assert_int_equal(m.has_imm, comm_is_parent(fx, i) || number % 3 == 0);
		if (m.has_imm)
			assert_int_equal(m.imm, SUM(0));
	}
}

void comm_take_all(struct comm_fixture *fx)
{
	uint32_t i;

	for (i = 0; i < fx->n; i++)
		comm_take(fx, i);
}

struct inc_term_view *comm_view(struct comm_fixture *fx)
{
	static struct inc_term_view view;

	inc_term_worker_view(fx->w, fx->cm, &view);
	return &view;
}

/* Checks that nothing is under way: all buffers are posted, and no others are in use. */
void comm_check_rest(struct comm_fixture *fx, uint64_t messages)
{
	const struct inc_term_view *v = comm_view(fx);
	uint32_t i;

	assert_false(v->waits);
	assert_int_equal(v->comm.results, messages);
	assert_int_equal(v->buffers_taken, fx->n * v->comm.receives);
	for (i = 0; i < fx->n; i++) {
		const struct fake_channel_state ch = fake_channel_state(comm_qpn(fx, i));

		assert_int_equal(ch.posted - ch.given, v->comm.receives);
		assert_int_equal(fx->taken[i], messages);
	}
}
