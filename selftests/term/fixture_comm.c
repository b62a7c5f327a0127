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

static const struct inc_channel_ops *const kinds[INC_N_ENDPOINT_KINDS] = {[INC_ENDPOINT_SOFT] =
										  &loop_endpoints};

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	struct scene *s = arg;

	assert_int_equal(event->communicator, 12);
	s->n_told++;
	s->report = *event;
}

struct inc_comm_conf scene_conf(uint32_t children, uint32_t messages, bool has_parent)
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
		c->own.ip = htonl(0x0a000000 + i / 2);
		c->peer.ip = htonl(0x0a010000 + i);
		c->up = i == children;
		c->rank = c->up ? 0 : children - 1 - i;
		c->peer.qpn = 77 + i;
		c->peer.psn = 5;
		c->peer.udp_port = 5000 + i;
		c->pkey = INC_PKEY_DEFAULT;
	}
	return conf;
}

void scene_turn(struct scene *s)
{
	inc_term_worker_turn(s->w, 0);
}

void scene_open_worker(struct scene *s)
{
	const struct inc_term_worker_opts opts = {.kinds = kinds,
						  .rto_min_ns = INC_NSEC_PER_MSEC,
						  .rto_max_ns = INC_NSEC_PER_SEC,
						  .notice = on_notice,
						  .arg = s};

	memset(s, 0, sizeof(*s));
	assert_int_equal(inc_term_worker_new(&opts, &s->w, NULL), 0);
}

void scene_open(struct scene *s, uint32_t children, uint32_t messages, bool has_parent)
{
	struct inc_err err = {};

	scene_open_worker(s);
	s->conf = scene_conf(children, messages, has_parent);
	s->n = s->conf.n_conns;
	s->has_parent = has_parent;
	if (inc_term_worker_add(s->w, &s->conf, &s->cm, &err) ||
	    inc_term_worker_start_comm(s->w, s->cm, &err))
		fail_msg("%s", err.msg);
}

void scene_close(struct scene *s)
{
	struct loop_open left;

	inc_term_worker_free(s->w);
	left = loop_open();
	assert_int_equal(left.devices + left.channels + left.maps, 0);
	loop_reset();
}

bool scene_is_parent(const struct scene *s, uint32_t i)
{
	return s->has_parent && i == s->n - 1;
}

uint32_t scene_qpn(const struct scene *s, uint32_t i)
{
	return s->conf.conn[i].own.qpn;
}

static int32_t part(const struct scene *s, uint32_t i, uint64_t number)
{
	return scene_is_parent(s, i) ? -7 * (int32_t)number - 1
				     : (int32_t)(1 + s->conf.conn[i].rank) * (int32_t)(1 + number);
}

static int32_t sum_of(const struct scene *s, uint64_t number)
{
	int32_t sum = 0;
	uint32_t i;

	for (i = 0; i < s->n - s->has_parent; i++)
		sum += part(s, i, number);
	return sum;
}

/* Sends the next message of peer i, with two elements. A child sends the descriptor with the first
 * message and every third one; a parent always sends it. */
bool scene_give(struct scene *s, uint32_t i)
{
	const uint64_t number = s->given[i];
	const int32_t value[2] = {part(s, i, number), 5};
	struct loop_message m = {.length = sizeof(value),
				 .has_imm = scene_is_parent(s, i) || number % 3 == 0,
				 .imm = SUM(0)};

	memcpy(m.bytes, value, sizeof(value));
	if (!loop_give(scene_qpn(s, i), &m))
		return false;
	s->given[i]++;
	return true;
}

/* Checks the messages that the engine has sent to peer i. */
void scene_take(struct scene *s, uint32_t i)
{
	const uint32_t children = s->n - s->has_parent;
	struct loop_message m;
	int32_t value[2];

	while (loop_take(scene_qpn(s, i), &m)) {
		const uint64_t number = s->taken[i]++;
		const bool down = s->has_parent && !scene_is_parent(s, i);

		assert_int_equal(m.length, sizeof(value));
		memcpy(value, m.bytes, sizeof(value));
		assert_int_equal(value[0], down ? part(s, s->n - 1, number) : sum_of(s, number));
		assert_int_equal(value[1], down ? 5 : 5 * children);
		assert_int_equal(m.has_imm, scene_is_parent(s, i) || number % 3 == 0);
		if (m.has_imm)
			assert_int_equal(m.imm, SUM(0));
	}
}

void scene_take_all(struct scene *s)
{
	uint32_t i;

	for (i = 0; i < s->n; i++)
		scene_take(s, i);
}

struct inc_term_view *scene_view(struct scene *s)
{
	static struct inc_term_view view;

	inc_term_worker_view(s->w, s->cm, &view);
	return &view;
}

/* Checks that nothing is under way: all buffers are posted, and no others are in use. */
void scene_check_rest(struct scene *s, uint64_t messages)
{
	const struct inc_term_view *v = scene_view(s);
	uint32_t i;

	assert_false(v->waits);
	assert_int_equal(v->comm.results, messages);
	assert_int_equal(v->buffers_taken, s->n * v->comm.receives);
	for (i = 0; i < s->n; i++) {
		const struct loop_channel_state ch = loop_state(scene_qpn(s, i));

		assert_int_equal(ch.posted - ch.given, v->comm.receives);
		assert_int_equal(s->taken[i], messages);
	}
}
