/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/config.h"
#include "selftests/connect/harness_socket_sides.h"

static struct inc_rdma_port_info ports[SIDES];
struct inc_rdma_device *devices[SIDES];
struct connect_counters *counters;
struct socket_side sides[SIDES];
struct inc_connect_settings settings;

/* ---- two sides ------------------------------------------------------------------------------ */

int make_side(int i, struct inc_err *err)
{
	const struct connect_socket_opts opts = {
		.device = devices[i],
		.dev = 3 + i,
		.port = &ports[i],
		.settings = &settings,
		.hostname = i == CLIENT ? "client" : "service",
		.counters = counters,
	};

	return connect_socket_make(&opts, &sides[i].socket, err);
}

struct ibv_qp *qp_of(int i)
{
	return sides[i].socket->qp.ibv;
}

int to_rtr(int i, const struct connect_info *peer, struct inc_err *err)
{
	struct inc_connect_socket *s = sides[i].socket;
	int ret = connect_socket_aim(s, peer, err);

	return ret ?: connect_socket_entered_rtr(s, connect_socket_enter_rtr(s), err);
}

int begin_pair(struct inc_err *err)
{
	struct connect_info info[SIDES];
	int ret;

	ret = make_side(CLIENT, err);
	if (ret)
		return ret;
	connect_socket_describe(sides[CLIENT].socket, &info[CLIENT]);
	ret = make_side(SERVICE, err);
	if (!ret)
		ret = to_rtr(SERVICE, &info[CLIENT], err);
	if (!ret)
		ret = connect_socket_post_receives(sides[SERVICE].socket, err);
	if (ret)
		return ret;
	connect_socket_describe(sides[SERVICE].socket, &info[SERVICE]);
	ret = to_rtr(CLIENT, &info[SERVICE], err);
	if (!ret)
		ret = connect_socket_post_receives(sides[CLIENT].socket, err);
	if (!ret)
		ret = connect_socket_to_rts(sides[CLIENT].socket, err);
	return ret ? ret : connect_socket_probe(sides[CLIENT].socket, err);
}

void expect_event(int i, enum connect_event wanted)
{
	enum connect_event event;
	struct inc_err err = {""};

	if (connect_socket_event(sides[i].socket, &event, &err) != 1)
		fail_msg("side %d: no event %s", i, err.msg);
	assert_int_equal(event, wanted);
}

void expect_no_event(int i)
{
	enum connect_event event;

	assert_int_equal(connect_socket_event(sides[i].socket, &event, NULL), 0);
}

void service_is_ready(void)
{
	struct inc_err err = {""};

	expect_event(SERVICE, CONNECT_EVENT_MESSAGE);
	assert_int_equal(connect_socket_to_rts(sides[SERVICE].socket, &err), 0);
	connect_socket_hand_over(sides[SERVICE].socket, CONNECT_READY, 2);
}

void connected(void)
{
	struct inc_err err = {""};

	if (begin_pair(&err))
		fail_msg("%s", err.msg);
	expect_no_event(CLIENT);
	expect_no_event(SERVICE);
	fake_verbs_settle(qp_of(CLIENT));
	service_is_ready();
	expect_event(CLIENT, CONNECT_EVENT_PROBED);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_READY, 1);
}

void registered(void)
{
	int i, k;

	for (i = 0; i < SIDES; i++) {
		for (k = 0; k < AREA; k++)
			sides[i].memory[SOURCE][k] = i + k * 7 + k / 256;
		assert_int_equal(inc_connect_socket_register(sides[i].socket, sides[i].memory,
							     sizeof(sides[i].memory), true,
							     &sides[i].region),
				 0);
	}
}

/* Destroys a side's socket but not its memory, because the peer's transfers are still compared with
 * it. */
void destroy_side(int i)
{
	struct socket_side *s = &sides[i];

	inc_connect_region_release(s->region);
	inc_connect_socket_destroy(s->socket);
	memset(s, 0, offsetof(struct socket_side, memory));
	memset(&s->sent, 0, sizeof(*s) - offsetof(struct socket_side, sent));
}

void nothing_is_left(void)
{
	const struct connect_figures *figures = connect_counters_figures(counters);

	destroy_side(CLIENT);
	destroy_side(SERVICE);
	fake_verbs_fail_call(0);
	assert_int_equal(fake_verbs_objects(), 0);
	assert_int_equal(devices[CLIENT]->refs, 1);
	assert_int_equal(devices[SERVICE]->refs, 1);
	assert_int_equal(figures->connections, 0);
	assert_int_equal(figures->registered_bytes, 0);
}

void set_sizes(uint32_t buffers, uint32_t ack_batch, uint32_t signal_batch, uint32_t transfers)
{
	inc_connect_settings_init(&settings, sizeof(settings));
	settings.buf_size = 256;
	settings.send_buf_cnt = buffers;
	settings.buf_ack_batch = ack_batch;
	settings.buf_signal_batch = signal_batch;
	settings.max_rdma_wr = transfers;
	settings.max_rdma_wr_per_post = transfers < 40 ? transfers : 40;
	settings.event_ack_batch = 3;
	assert_null(connect_settings_wrong(&settings, NULL));
}

void set_sizes_of_kind(unsigned int kind)
{
	static const struct {
		uint32_t buffers, ack_batch, signal_batch, transfers;
	} sizes[N_SIZES] = {{8, 4, 4, 8},    {1, 1, 1, 1},    {7, 3, 5, 2},
			    {32, 8, 8, 128}, {16, 16, 16, 4}, {5, 1, 5, 40}};

	set_sizes(sizes[kind].buffers, sizes[kind].ack_batch, sizes[kind].signal_batch,
		  sizes[kind].transfers);
}

int open_fakes(void **state)
{
	devices[CLIENT] = fake_verbs_device("fake0", &ports[CLIENT]);
	devices[SERVICE] = fake_verbs_device("fake1", &ports[SERVICE]);
	counters = connect_counters_new();
	return counters ? 0 : -1;
}

int close_fakes(void **state)
{
	connect_counters_release(counters);
	return 0;
}

int reset_fakes(void **state)
{
	set_sizes(8, 4, 4, 8);
	fake_verbs_notify_late(false);
	fake_verbs_port_state(IBV_PORT_ACTIVE);
	return 0;
}

/* ---- the actions of a socket's owner -------------------------------------------------------- */

bool readable(int i, int timeout_ms)
{
	struct pollfd pfd = {.fd = inc_connect_socket_fd(sides[i].socket), .events = POLLIN};

	return poll(&pfd, 1, timeout_ms) == 1;
}

uint32_t message_of(int i, uint32_t n, uint8_t bytes[256])
{
	const uint32_t size = 1 + (n * 37 + i) % 256;
	uint32_t k;

	for (k = 0; k < size; k++)
		bytes[k] = n * 5 + k + i * 99;
	return size;
}

int send_one(int i)
{
	uint8_t bytes[256];
	const uint32_t size = message_of(i, sides[i].sent, bytes);
	const int ret = inc_connect_socket_send(sides[i].socket, bytes, size);

	if (!ret)
		sides[i].sent++;
	return ret;
}

int take_one(int i)
{
	uint8_t wanted[256];
	const uint32_t wanted_size = message_of(!i, sides[i].taken, wanted);
	const void *data;
	size_t size;
	const int ret = inc_connect_socket_receive(sides[i].socket, &data, &size);

	if (ret)
		return ret;
	assert_int_equal(size, wanted_size);
	assert_memory_equal(data, wanted, size);
	assert_int_equal(inc_connect_socket_release(sides[i].socket), 0);
	sides[i].taken++;
	return 0;
}

void begin_transfer(int i, unsigned int random)
{
	struct socket_side *s = &sides[i], *peer = &sides[!i];
	const uint32_t n = 1 + random % settings.max_rdma_wr_per_post, each = AREA / n;
	struct inc_connect_transfer t[40];
	uint32_t k;
	int part;

	if (s->ticket || !s->region || !peer->region)
		return;
	s->direction = random >> 8 & 1 ? INC_CONNECT_READ : INC_CONNECT_WRITE;
	s->size = n * each;
	s->seed = random >> 16;
	part = s->direction == INC_CONNECT_READ ? READ_FROM_PEER : SOURCE;
	for (k = 0; k < n; k++)
		t[k] = (struct inc_connect_transfer){
			.region = s->region,
			.local = s->memory[part] + k * each,
			.size = each,
			.remote_key = inc_connect_region_key(peer->region),
			.remote_address =
				inc_connect_region_address(peer->region) + k * each +
				(part == SOURCE ? WRITTEN_BY_PEER : SOURCE) * (uint64_t)AREA,
		};
	if (inc_connect_socket_transfer(s->socket, s->direction, t, n, &s->ticket))
		s->ticket = 0;
}

static void end_transfer(int i)
{
	struct socket_side *s = &sides[i], *peer = &sides[!i];

	if (!s->ticket || inc_connect_socket_transferred(s->socket, s->ticket))
		return;
	if (s->direction == INC_CONNECT_READ)
		assert_memory_equal(s->memory[READ_FROM_PEER], peer->memory[SOURCE], s->size);
	else
		assert_memory_equal(peer->memory[WRITTEN_BY_PEER], s->memory[SOURCE], s->size);
	s->ticket = 0;
}

void check_over(int i)
{
	struct inc_connect_socket *s = sides[i].socket;
	uint8_t byte = 0;
	uint64_t ticket;

	if (!s->error)
		return;
	assert_non_null(inc_connect_socket_error(s));
	assert_int_equal(inc_connect_socket_progress(s), s->error);
	assert_int_equal(inc_connect_socket_send(s, &byte, 1), s->error);
	assert_int_equal(inc_connect_socket_check(s), s->error);
	assert_int_equal(inc_connect_socket_flush(s), s->error);
	assert_int_equal(inc_connect_socket_wait(s, -1), s->error);
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, NULL, 0, &ticket),
			 s->error);
	assert_true(readable(i, 0));
	assert_true(s->stopped);
}

/* Checks that a completion makes the descriptor readable, if the last progress() returned that
 * there was nothing to do. */
static void check_woken(int i)
{
	const struct inc_connect_socket *s = sides[i].socket;

	if (s->idle && !s->error && fake_verbs_completions(s->completions.cq) &&
	    !fake_verbs_notifies(s->completions.cq))
		assert_true(readable(i, 0));
}

enum act {
	SEND,
	TAKE,
	PROGRESS,
	EXECUTE,
	ACKNOWLEDGE,
	NOTIFY,
	FLUSH,
	CHECK,
	TRANSFER,
	END_TRANSFER,
	N_ACTS
};

static void step(int i, enum act act, unsigned int random)
{
	struct inc_connect_socket *s = sides[i].socket;

	switch (act) {
	case SEND:
		send_one(i);
		break;
	case TAKE:
		take_one(i);
		break;
	case PROGRESS:
		inc_connect_socket_progress(s);
		break;
	case EXECUTE:
		fake_verbs_execute(s->qp.ibv);
		break;
	case ACKNOWLEDGE:
		fake_verbs_acknowledge(s->qp.ibv);
		break;
	case NOTIFY:
		fake_verbs_notify(s->completions.cq);
		break;
	case FLUSH:
		inc_connect_socket_flush(s);
		break;
	case CHECK:
		inc_connect_socket_check(s);
		break;
	case TRANSFER:
		begin_transfer(i, random);
		break;
	default:
		end_transfer(i);
	}
	check_woken(i);
	check_over(i);
}

void walk(unsigned int *seed, unsigned int steps)
{
	unsigned int random, repeat;
	enum act act;
	int i;

	while (steps) {
		random = rand_r(seed);
		i = random >> 3 & 1;
		act = (random >> 5) % N_ACTS;
		for (repeat = 1 + (random >> 12) % 6; repeat && steps; repeat--, steps--)
			if (sides[i].socket)
				step(i, act, rand_r(seed));
	}
}

static void settle_side(int i)
{
	fake_verbs_settle(qp_of(i));
	step(i, NOTIFY, 0);
	step(i, PROGRESS, 0);
	if (sides[i].closes)
		inc_connect_socket_close(sides[i].socket);
	while (!take_one(i))
		;
	step(i, END_TRANSFER, 0);
}

/* All values that a round of both sides can change. */
struct progress {
	struct connect_flow flow;
	enum connect_state state;
	int error;
	uint32_t taken;
	uint64_t ticket;
	unsigned int completions;
};

static void note(struct progress at[SIDES])
{
	const struct inc_connect_socket *s;
	int i;

	memset(at, 0, SIDES * sizeof(at[0]));
	for (i = 0; i < SIDES; i++) {
		s = sides[i].socket;
		if (!s)
			continue;
		memcpy(&at[i].flow, &s->flow, sizeof(s->flow));
		at[i].state = s->state;
		at[i].error = s->error;
		at[i].taken = sides[i].taken;
		at[i].ticket = sides[i].ticket;
		at[i].completions = fake_verbs_completions(s->completions.cq);
	}
}

void settle(void)
{
	struct progress before[SIDES], after[SIDES];
	int i, round, quiet = 0;

	note(before);
	/* a side may notice only in the next round what its peer does in this round */
	for (round = 0; quiet < 3; round++) {
		assert_true(round < 200);
		for (i = 0; i < SIDES; i++)
			if (sides[i].socket)
				settle_side(i);
		note(after);
		quiet = memcmp(before, after, sizeof(after)) ? 0 : quiet + 1;
		memcpy(before, after, sizeof(after));
	}
}
