/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket (hostlib/connect/socket.h, and what inc_connect.h says of it) on devices that are none
 * (fake_verbs.h): two sides, whose owners and devices do their next step in any order, until
 * something breaks at any of these steps.
 */
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
#include <unistd.h>
#include "hostlib/connect/config.h"
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"
#include "lib/base/clock.h"
#include "lib/rdma/device_priv.h"
#include "selftests/connect/fake_verbs.h"

#define AREA 3000 /* bytes of each part of a side's region */

enum { CLIENT, SERVICE, SIDES };
/* Of a side's region. */
enum { SOURCE, WRITTEN_BY_PEER, READ_FROM_PEER, PARTS };

struct side {
	struct inc_connect_socket *socket;
	struct inc_connect_region *region;
	uint8_t memory[PARTS][AREA];
	uint32_t sent, taken; /* messages */
	uint64_t ticket;      /* of the transfer under way; 0: none */
	enum inc_connect_direction direction;
	uint32_t size;
	uint8_t seed;
	bool closes; /* has called close() */
};

static struct inc_rdma_device *devices[SIDES];
static struct inc_rdma_port_info ports[SIDES];
static struct connect_counters *counters;
static struct side sides[SIDES];
static struct inc_connect_settings settings;

/* ---- two sides ------------------------------------------------------------------------------ */

static int make(int i, struct inc_err *err)
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

static struct ibv_qp *qp_of(int i)
{
	return sides[i].socket->qp.ibv;
}

/* Up to the probe, which is posted. */
static int begin(struct inc_err *err)
{
	struct connect_info info[SIDES];
	int ret;

	ret = make(CLIENT, err);
	if (ret)
		return ret;
	connect_socket_describe(sides[CLIENT].socket, &info[CLIENT]);
	ret = make(SERVICE, err);
	if (!ret)
		ret = connect_socket_to_rtr(sides[SERVICE].socket, &info[CLIENT], err);
	if (!ret)
		ret = connect_socket_post_receives(sides[SERVICE].socket, err);
	if (ret)
		return ret;
	connect_socket_describe(sides[SERVICE].socket, &info[SERVICE]);
	ret = connect_socket_to_rtr(sides[CLIENT].socket, &info[SERVICE], err);
	if (!ret)
		ret = connect_socket_post_receives(sides[CLIENT].socket, err);
	if (!ret)
		ret = connect_socket_to_rts(sides[CLIENT].socket, err);
	return ret ? ret : connect_socket_probe(sides[CLIENT].socket, err);
}

static void expect_event(int i, enum connect_event wanted)
{
	enum connect_event event;
	struct inc_err err = {""};

	if (connect_socket_event(sides[i].socket, &event, &err) != 1)
		fail_msg("side %d: no event %s", i, err.msg);
	assert_int_equal(event, wanted);
}

static void expect_no_event(int i)
{
	enum connect_event event;

	assert_int_equal(connect_socket_event(sides[i].socket, &event, NULL), 0);
}

static void service_is_ready(void)
{
	struct inc_err err = {""};

	expect_event(SERVICE, CONNECT_EVENT_MESSAGE);
	assert_int_equal(connect_socket_to_rts(sides[SERVICE].socket, &err), 0);
	connect_socket_hand_over(sides[SERVICE].socket, CONNECT_READY, 2);
}

static void connected(void)
{
	struct inc_err err = {""};

	if (begin(&err))
		fail_msg("%s", err.msg);
	expect_no_event(CLIENT);
	expect_no_event(SERVICE);
	fake_settle(qp_of(CLIENT));
	service_is_ready();
	expect_event(CLIENT, CONNECT_EVENT_PROBED);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_READY, 1);
}

static void registered(void)
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

/* Its memory stays: the other one's transfers are compared with it. */
static void destroy(int i)
{
	struct side *s = &sides[i];

	inc_connect_region_release(s->region);
	inc_connect_socket_destroy(s->socket);
	memset(s, 0, offsetof(struct side, memory));
	memset(&s->sent, 0, sizeof(*s) - offsetof(struct side, sent));
}

static void nothing_is_left(void)
{
	const struct connect_figures *figures = connect_counters_figures(counters);

	destroy(CLIENT);
	destroy(SERVICE);
	fake_fail_call(0);
	assert_int_equal(fake_objects(), 0);
	assert_int_equal(devices[CLIENT]->refs, 1);
	assert_int_equal(devices[SERVICE]->refs, 1);
	assert_int_equal(figures->connections, 0);
	assert_int_equal(figures->registered_bytes, 0);
}

static void set(uint32_t buffers, uint32_t ack_batch, uint32_t signal_batch, uint32_t transfers)
{
	inc_connect_settings_init(&settings);
	settings.buf_size = 256;
	settings.send_buf_cnt = buffers;
	settings.buf_ack_batch = ack_batch;
	settings.buf_signal_batch = signal_batch;
	settings.max_rdma_wr = transfers;
	settings.max_rdma_wr_per_post = transfers < 40 ? transfers : 40;
	settings.event_ack_batch = 3;
	assert_null(connect_settings_wrong(&settings, NULL));
}

static int setup(void **state)
{
	devices[CLIENT] = fake_device("fake0", &ports[CLIENT]);
	devices[SERVICE] = fake_device("fake1", &ports[SERVICE]);
	counters = connect_counters_new();
	return counters ? 0 : -1;
}

static int teardown(void **state)
{
	connect_counters_release(counters);
	return 0;
}

static int reset(void **state)
{
	set(8, 4, 4, 8);
	fake_notify_late(false);
	fake_port_state(IBV_PORT_ACTIVE);
	return 0;
}

/* ---- what its owner does -------------------------------------------------------------------- */

static bool readable(int i, int timeout_ms)
{
	struct pollfd pfd = {.fd = inc_connect_socket_fd(sides[i].socket), .events = POLLIN};

	return poll(&pfd, 1, timeout_ms) == 1;
}

/* Message n of a side: its size and its bytes. */
static uint32_t message(int i, uint32_t n, uint8_t bytes[256])
{
	const uint32_t size = 1 + (n * 37 + i) % 256;
	uint32_t k;

	for (k = 0; k < size; k++)
		bytes[k] = n * 5 + k + i * 99;
	return size;
}

static int send_one(int i)
{
	uint8_t bytes[256];
	const uint32_t size = message(i, sides[i].sent, bytes);
	const int ret = inc_connect_socket_send(sides[i].socket, bytes, size);

	if (!ret)
		sides[i].sent++;
	return ret;
}

static int take_one(int i)
{
	uint8_t wanted[256];
	const uint32_t wanted_size = message(!i, sides[i].taken, wanted);
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

static void begin_transfer(int i, unsigned int random)
{
	struct side *s = &sides[i], *peer = &sides[!i];
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
	struct side *s = &sides[i], *peer = &sides[!i];

	if (!s->ticket || inc_connect_socket_transferred(s->socket, s->ticket))
		return;
	if (s->direction == INC_CONNECT_READ)
		assert_memory_equal(s->memory[READ_FROM_PEER], peer->memory[SOURCE], s->size);
	else
		assert_memory_equal(peer->memory[WRITTEN_BY_PEER], s->memory[SOURCE], s->size);
	s->ticket = 0;
}

/* An error is final, has a story, and the descriptor tells of it. */
static void check_over(int i)
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

/* Who was told that there is nothing is woken by what comes. */
static void check_woken(int i)
{
	const struct inc_connect_socket *s = sides[i].socket;

	if (s->idle && !s->error && fake_completions(s->completions.cq) &&
	    !fake_notifies(s->completions.cq))
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
		fake_execute(s->qp.ibv);
		break;
	case ACKNOWLEDGE:
		fake_acknowledge(s->qp.ibv);
		break;
	case NOTIFY:
		fake_notify(s->completions.cq);
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

static void walk(unsigned int *seed, unsigned int steps)
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

/* Everything that can still happen by itself. */
static void settle(void)
{
	int i, round;

	for (round = 0; round < 200; round++)
		for (i = 0; i < SIDES; i++) {
			if (!sides[i].socket)
				continue;
			fake_settle(qp_of(i));
			step(i, NOTIFY, 0);
			step(i, PROGRESS, 0);
			if (sides[i].closes)
				inc_connect_socket_close(sides[i].socket);
			while (!take_one(i))
				;
			step(i, END_TRANSFER, 0);
		}
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void both_are_connected(void **state)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	struct connect_info own;

	connected();
	assert_int_equal(connect_counters_figures(counters)->connections, 2);
	assert_true(connect_counters_figures(counters)->registered_bytes > 0);
	connect_socket_describe(sides[CLIENT].socket, &own);
	assert_int_equal(inc_connect_socket_info(sides[SERVICE].socket, &info), 0);
	assert_string_equal(info.peer, "client");
	assert_string_equal(info.local_name, "fake1");
	assert_string_equal(info.remote_name, "fake0");
	assert_true(info.local_port == 1 && info.remote_port == 1 && info.link_layer == 2 &&
		    info.mtu_bytes == 1024 && info.latency_ns == 2);
	assert_int_equal(info.remote_qpn, own.qp_num);
	assert_int_equal(info.settings.send_buf_cnt, 8);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), 0);
	assert_false(readable(CLIENT, 0) || readable(SERVICE, 0));
	assert_null(inc_connect_socket_error(sides[CLIENT].socket));
	nothing_is_left();
}

static void info_of_any_size(void **state)
{
	struct {
		struct inc_connect_socket_info info;
		uint8_t more[16];
	} out;

	connected();
	memset(&out, 0xff, sizeof(out));
	out.info.sz = sizeof(out);
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), 0);
	assert_int_equal(out.info.sz, sizeof(out));
	assert_int_equal(out.more[0] | out.more[15], 0);
	memset(&out, 0xff, sizeof(out));
	out.info.sz = offsetof(struct inc_connect_socket_info, local_name);
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), 0);
	assert_string_equal(out.info.peer, "service");
	assert_int_equal((uint8_t)out.info.local_name[0], 0xff);
	out.info.sz = 1;
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &out.info), -EINVAL);
	nothing_is_left();
}

static const struct {
	uint32_t buffers, ack_batch, signal_batch, transfers;
} sizes[] = {{8, 4, 4, 8},    {1, 1, 1, 1},    {7, 3, 5, 2},
	     {32, 8, 8, 128}, {16, 16, 16, 4}, {5, 1, 5, 40}};
#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void any_order_of_work(void **state)
{
	unsigned int seed, random;
	size_t k;
	int i;

	for (k = 0; k < N_SIZES; k++)
		for (seed = 1; seed <= 16; seed++) {
			random = seed;
			set(sizes[k].buffers, sizes[k].ack_batch, sizes[k].signal_batch,
			    sizes[k].transfers);
			fake_notify_late(seed % 2);
			connected();
			registered();
			walk(&random, 3000);
			settle();
			for (i = 0; i < SIDES; i++) {
				assert_null(inc_connect_socket_error(sides[i].socket));
				assert_int_equal(sides[i].taken, sides[!i].sent);
				assert_true(sides[i].taken > 0);
				assert_int_equal(sides[i].ticket, 0);
			}
			while (inc_connect_socket_flush(sides[CLIENT].socket))
				settle();
			nothing_is_left();
		}
}

static void figures_are_counted(void **state)
{
	const struct connect_figures before = *connect_counters_figures(counters);
	const struct connect_figures *after = connect_counters_figures(counters);
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	uint8_t bytes[256];
	uint64_t sent = 0;
	uint32_t n;

	connected();
	registered();
	for (n = 0; n < 4; n++) {
		sent += message(CLIENT, n, bytes);
		assert_int_equal(send_one(CLIENT), 0);
	}
	begin_transfer(CLIENT, 0x100);
	settle();
	begin_transfer(CLIENT, 0x001);
	settle();
	assert_int_equal(inc_connect_socket_info(sides[CLIENT].socket, &info), 0);
	assert_int_equal(info.messages_sent, 4);
	assert_int_equal(info.bytes_sent, sent);
	assert_int_equal(info.acks_received, 4);
	assert_int_equal(info.bytes_read, AREA);
	assert_int_equal(info.bytes_written, AREA);
	assert_int_equal(inc_connect_socket_info(sides[SERVICE].socket, &info), 0);
	assert_int_equal(info.messages_received, 4);
	assert_int_equal(info.bytes_received, sent);
	assert_int_equal(info.acks_sent, 4);
	assert_int_equal(after->sent_bytes - before.sent_bytes, sent);
	assert_int_equal(after->received_bytes - before.received_bytes, sent);
	assert_int_equal(after->read_bytes - before.read_bytes, AREA);
	assert_int_equal(after->written_bytes - before.written_bytes, AREA);
	nothing_is_left();
}

/* What may not be asked for, and what must wait. */
static void limits(void **state)
{
	struct inc_connect_socket *s;
	struct inc_connect_transfer t[9] = {{.size = 1}};
	struct inc_connect_region *none;
	uint8_t bytes[300] = {0};
	uint64_t ticket;
	int i;

	connected();
	registered();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_send(s, bytes, 0), -EMSGSIZE);
	assert_int_equal(inc_connect_socket_send(s, bytes, 257), -EMSGSIZE);
	assert_int_equal(inc_connect_socket_release(s), -EINVAL);
	assert_int_equal(take_one(CLIENT), -EAGAIN);
	for (i = 0; i < 8; i++)
		assert_int_equal(send_one(CLIENT), 0);
	assert_int_equal(send_one(CLIENT), -EAGAIN);
	assert_int_equal(inc_connect_socket_flush(s), -EAGAIN);
	assert_int_equal(inc_connect_socket_register(s, bytes, 0, true, &none), -EINVAL);
	for (i = 0; i < 9; i++)
		t[i] = (struct inc_connect_transfer){
			.region = sides[CLIENT].region, .local = sides[CLIENT].memory, .size = 1};
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 0, &ticket), -EINVAL);
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 9, &ticket), -EINVAL);
	t[0].size = 0;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].size = sizeof(sides[CLIENT].memory) + 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].size = 2;
	t[0].local = sides[CLIENT].memory[PARTS] - 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].local = (uint8_t *)sides[CLIENT].memory - 1;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	t[0].local = sides[SERVICE].memory;
	t[0].region = sides[SERVICE].region;
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t, 1, &ticket), -EINVAL);
	assert_int_equal(inc_connect_socket_check(s), 0);
	assert_int_equal(inc_connect_socket_check(s), -EAGAIN);
	assert_int_equal(inc_connect_socket_transfer(s, INC_CONNECT_READ, t + 1, 8, &ticket),
			 -EAGAIN);
	settle();
	assert_int_equal(inc_connect_socket_check(s), 0);
	assert_null(inc_connect_socket_error(s));
	nothing_is_left();
}

/* What has come before it was its owner's: progress() tells of it once. */
static void messages_before_the_hand_over(void **state)
{
	struct inc_err err = {""};

	assert_int_equal(begin(&err), 0);
	fake_settle(qp_of(CLIENT));
	service_is_ready();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(send_one(SERVICE), 0);
	fake_settle(qp_of(SERVICE));
	expect_event(CLIENT, CONNECT_EVENT_MESSAGE);
	expect_event(CLIENT, CONNECT_EVENT_PROBED);
	expect_no_event(CLIENT);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_READY, 1);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 2);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -EAGAIN);
	nothing_is_left();
}

/* The peer sends two messages and closes before the first completion is seen. */
static void a_close_before_the_hand_over(void **state)
{
	struct inc_err err = {""};

	assert_int_equal(begin(&err), 0);
	fake_execute(qp_of(CLIENT));
	service_is_ready();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(inc_connect_socket_close(sides[SERVICE].socket), -EAGAIN);
	fake_settle(qp_of(SERVICE));
	expect_event(CLIENT, CONNECT_EVENT_MESSAGE);
	expect_event(CLIENT, CONNECT_EVENT_PEER_CLOSED);
	expect_no_event(CLIENT);
	connect_socket_stop(sides[CLIENT].socket);
	connect_socket_hand_over(sides[CLIENT].socket, CONNECT_CLOSED, 1);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -ESHUTDOWN);
	check_over(CLIENT);
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), 0);
	nothing_is_left();
}

/* Its last message and the end of its queue pair are seen at once: it has closed, and has not
 * failed. */
static void a_close_and_a_failure_at_once(void **state)
{
	connected();
	assert_int_equal(send_one(SERVICE), 0);
	assert_int_equal(inc_connect_socket_close(sides[SERVICE].socket), -EAGAIN);
	assert_int_equal(send_one(CLIENT), 0);
	while (fake_execute(qp_of(SERVICE)))
		;
	fake_give_up(qp_of(CLIENT), IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), -ESHUTDOWN);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), -ESHUTDOWN);
	check_over(CLIENT);
	nothing_is_left();
}

static void one_comes(void)
{
	assert_int_equal(send_one(SERVICE), 0);
	fake_execute(qp_of(SERVICE));
}

/* Between the last look and the request for a notification: nobody tells of that. */
static void a_message_before_it_is_asked_for(void **state)
{
	connected();
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 0);
	one_comes();
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 1);
	fake_before_arming(one_comes);
	assert_int_equal(inc_connect_socket_progress(sides[CLIENT].socket), 1);
	assert_int_equal(take_one(CLIENT), 0);
	assert_int_equal(take_one(CLIENT), 0);
	nothing_is_left();
}

/* ---- whatever breaks, whenever -------------------------------------------------------------- */

enum breakage { A_CLOSES, BOTH_CLOSE, GIVES_UP, DESTROYED, FATAL, CALL_FAILS, N_BREAKAGES };

static void break_it(enum breakage what, int i, unsigned int random)
{
	struct inc_rdma_event event = {.kind = INC_RDMA_QP_FATAL, .text = "it is broken"};

	switch (what) {
	case BOTH_CLOSE:
		sides[!i].closes = true;
		inc_connect_socket_close(sides[!i].socket);
		__attribute__((fallthrough));
	case A_CLOSES:
		sides[i].closes = true;
		inc_connect_socket_close(sides[i].socket);
		break;
	case GIVES_UP:
		fake_give_up(qp_of(i), IBV_WC_RETRY_EXC_ERR);
		break;
	case DESTROYED:
		destroy(i);
		break;
	case FATAL:
		event.qp = qp_of(i);
		inc_rdma_tell(devices[i], &event);
		break;
	default:
		fake_fail_call(1 + random % 5);
	}
}

/* It has broken, and all that followed has happened. */
static void check_broken(enum breakage what, int i, const uint32_t sent[SIDES])
{
	const struct inc_connect_socket *a = sides[i].socket, *b = sides[!i].socket;

	if (what == A_CLOSES || what == BOTH_CLOSE) {
		assert_int_equal(a->state, CONNECT_CLOSED);
		assert_int_equal(b->state, CONNECT_CLOSED);
		assert_int_equal(inc_connect_socket_close(sides[i].socket), 0);
		/* the other one has all that came before the close */
		if (what == A_CLOSES)
			assert_int_equal(sides[!i].taken, sent[i]);
		assert_int_equal(take_one(!i), -ESHUTDOWN);
	}
	if (what == GIVES_UP || what == FATAL) {
		assert_int_equal(a->state, CONNECT_FAILED);
		assert_true(a->error != -ESHUTDOWN);
		assert_int_equal(take_one(i), a->error);
		assert_null(inc_connect_socket_error(b)); /* nobody has told it */
	}
	if (what == DESTROYED)
		assert_null(inc_connect_socket_error(b));
	if (b && !b->error) {
		fake_give_up(qp_of(!i), IBV_WC_RETRY_EXC_ERR);
		settle();
		assert_int_equal(b->state, CONNECT_FAILED);
		assert_true(b->error == -ETIMEDOUT || b->error == -ECANCELED);
		check_over(!i);
	}
}

static void break_at(enum breakage what, unsigned int seed, unsigned int steps)
{
	const int i = seed & 1;
	unsigned int random = seed;
	uint32_t sent[SIDES];

	set(sizes[seed % N_SIZES].buffers, sizes[seed % N_SIZES].ack_batch,
	    sizes[seed % N_SIZES].signal_batch, sizes[seed % N_SIZES].transfers);
	fake_notify_late(seed & 2);
	connected();
	registered();
	walk(&random, steps);
	sent[CLIENT] = sides[CLIENT].sent;
	sent[SERVICE] = sides[SERVICE].sent;
	break_it(what, i, rand_r(&random));
	walk(&random, 100);
	settle();
	/* a call that failed has ended somebody, and nothing but an end has come of it */
	if (what == CALL_FAILS && fake_has_failed())
		assert_true(sides[CLIENT].socket->error || sides[SERVICE].socket->error);
	else if (what != CALL_FAILS)
		check_broken(what, i, sent);
	nothing_is_left();
}

static void whatever_breaks_whenever(void **state)
{
	enum breakage what;
	unsigned int seed, steps;

	for (what = 0; what < N_BREAKAGES; what++)
		for (seed = 0; seed < 24; seed++)
			for (steps = 0; steps < 150; steps += 7)
				break_at(what, seed, steps);
}

/* Each call to the device fails once while the connection is made. */
static void every_call_may_fail(void **state)
{
	struct inc_err err;
	unsigned int n;
	int ret;

	for (n = 1;; n++) {
		err.msg[0] = '\0';
		fake_fail_call(n);
		ret = begin(&err);
		if (!fake_has_failed())
			break;
		assert_int_equal(ret, -ENOMEM);
		assert_ptr_equal(strstr(err.msg, "fake"), err.msg);
		nothing_is_left();
	}
	assert_int_equal(ret, 0);
	assert_true(n > 20);
	nothing_is_left();
}

static void a_failure_before_the_hand_over(void **state)
{
	enum connect_event event;
	struct inc_err err = {""};

	assert_int_equal(begin(&err), 0);
	expect_no_event(CLIENT);
	fake_give_up(qp_of(CLIENT), IBV_WC_RETRY_EXC_ERR);
	assert_true(readable(CLIENT, 0));
	assert_int_equal(connect_socket_event(sides[CLIENT].socket, &event, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "fake0/1 to service fake1/1: sending: "));
	nothing_is_left();

	/* behind the message, and before its owner has the socket */
	assert_int_equal(begin(&err), 0);
	fake_settle(qp_of(CLIENT));
	fake_give_up(qp_of(SERVICE), IBV_WC_RETRY_EXC_ERR);
	expect_event(SERVICE, CONNECT_EVENT_MESSAGE);
	connect_socket_hand_over(sides[SERVICE].socket, CONNECT_READY, 1);
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), -ECANCELED);
	check_over(SERVICE);
	nothing_is_left();
}

/* ---- a peer that lies ----------------------------------------------------------------------- */

static void say(int i, const uint32_t *immediate, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)sides[i].memory, bytes,
			      inc_connect_region_key(sides[i].region)};
	struct ibv_send_wr wr =
				   {
					   .opcode = IBV_WR_SEND,
					   .sg_list = &sge,
					   .num_sge = bytes ? 1 : 0,
				   },
			   *bad;

	if (immediate) {
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htobe32(*immediate);
	}
	assert_int_equal(ibv_post_send(qp_of(i), &wr, &bad), 0);
}

static void a_peer_that_lies(void **state)
{
	static const struct {
		uint32_t immediate, bytes;
		const char *text;
	} lies[] = {
		{0x01000001, 0, "buffers back that nobody has"},
		{0x02000000, 0, "a first message that is none"},
		{0x03000001, 0, "an immediate that means nothing"},
		{0xff000000, 0, "an immediate that means nothing"},
		{0x03000000, 5, "data beside an immediate"},
	};
	size_t k;
	int n;

	for (k = 0; k < sizeof(lies) / sizeof(lies[0]); k++) {
		connected();
		registered();
		say(CLIENT, &lies[k].immediate, lies[k].bytes);
		settle();
		assert_int_equal(sides[SERVICE].socket->error, -EPROTO);
		assert_non_null(
			strstr(inc_connect_socket_error(sides[SERVICE].socket), lies[k].text));
		check_over(SERVICE);
		nothing_is_left();
	}
	connected();
	registered();
	for (n = 0; n < 9; n++)
		say(CLIENT, NULL, 1);
	fake_settle(qp_of(CLIENT));
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), -EPROTO);
	assert_non_null(strstr(inc_connect_socket_error(sides[SERVICE].socket),
			       "more messages than there are buffers"));
	nothing_is_left();
}

static void a_peer_that_does_not_allow_it(void **state)
{
	struct inc_connect_transfer t;
	uint64_t ticket;

	connected();
	registered();
	t = (struct inc_connect_transfer){
		.region = sides[CLIENT].region,
		.local = sides[CLIENT].memory,
		.size = 10,
		.remote_key = inc_connect_region_key(sides[SERVICE].region) + 1000,
		.remote_address = inc_connect_region_address(sides[SERVICE].region),
	};
	assert_int_equal(inc_connect_socket_transfer(sides[CLIENT].socket, INC_CONNECT_WRITE, &t, 1,
						     &ticket),
			 0);
	assert_int_equal(inc_connect_socket_transferred(sides[CLIENT].socket, ticket), -EAGAIN);
	settle();
	assert_int_equal(inc_connect_socket_transferred(sides[CLIENT].socket, ticket), -EACCES);
	check_over(CLIENT);
	nothing_is_left();
}

/* ---- time and events ------------------------------------------------------------------------ */

static void wait_for(int i, int error)
{
	const uint64_t by_ns = inc_now_ns() + 20 * INC_NSEC_PER_SEC;
	struct inc_connect_socket *s = sides[i].socket;
	int ret;

	while ((ret = inc_connect_socket_progress(s)) >= 0) {
		assert_true(inc_now_ns() < by_ns);
		if (!ret)
			inc_connect_socket_wait(s, 20000);
	}
	assert_int_equal(ret, error);
	check_over(i);
}

static void a_close_that_nobody_answers(void **state)
{
	uint64_t start_ns;

	connected();
	start_ns = inc_now_ns();
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), -EAGAIN);
	assert_int_equal(send_one(CLIENT), -ESHUTDOWN);
	wait_for(CLIENT, -ESHUTDOWN);
	assert_true(inc_now_ns() - start_ns >= CONNECT_DRAIN_MS * INC_NSEC_PER_MSEC);
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), 0);
	nothing_is_left();
}

static void tell_port(int i, bool up)
{
	const struct inc_rdma_event event = {
		.kind = up ? INC_RDMA_PORT_UP : INC_RDMA_PORT_WENT_DOWN, .port = 1, .text = "port"};

	inc_rdma_tell(devices[i], &event);
}

static void a_port_that_goes_down(void **state)
{
	struct inc_connect_socket *s;
	uint64_t start_ns;

	connected();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_progress(s), 0);
	tell_port(CLIENT, false);
	assert_int_equal(inc_connect_socket_wait(s, 20000), 0);
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_true(s->port_down_at_ns && !readable(CLIENT, 0));
	tell_port(CLIENT, true);
	assert_true(readable(CLIENT, 0));
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_false(s->port_down_at_ns || s->wake_at_ns || readable(CLIENT, 0));
	start_ns = inc_now_ns();
	tell_port(CLIENT, false);
	wait_for(CLIENT, -ENETDOWN);
	assert_true(inc_now_ns() - start_ns >= CONNECT_PORT_DOWN_MS * INC_NSEC_PER_MSEC);
	assert_non_null(strstr(inc_connect_socket_error(s), "the port is down"));
	nothing_is_left();
}

static void a_port_that_is_down(void **state)
{
	struct inc_err err = {""};

	fake_port_state(IBV_PORT_DOWN);
	assert_int_equal(make(CLIENT, &err), -ENETDOWN);
	assert_string_equal(err.msg, "fake0/1: the port is down");
	nothing_is_left();
}

static void a_notification_of_nothing(void **state)
{
	struct inc_connect_socket *s;
	int n;

	connected();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_progress(s), 0);
	fake_notify_of_nothing(s->completions.cq);
	for (n = 0; readable(CLIENT, 0); n++) {
		assert_int_equal(inc_connect_socket_progress(s), 0);
		assert_true(n < 1000);
	}
	assert_int_equal(send_one(SERVICE), 0);
	fake_settle(qp_of(SERVICE));
	assert_true(readable(CLIENT, 0));
	nothing_is_left();
}

static void a_wait_ends_in_time(void **state)
{
	struct inc_connect_socket *s;

	connected();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_wait(s, -1), 0); /* nobody has looked yet */
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_int_equal(inc_connect_socket_wait(s, 0), -ETIMEDOUT);
	assert_int_equal(inc_connect_socket_wait(s, 10), -ETIMEDOUT);
	assert_int_equal(send_one(SERVICE), 0);
	fake_settle(qp_of(SERVICE));
	assert_int_equal(inc_connect_socket_wait(s, -1), 0);
	nothing_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(both_are_connected, reset),
		cmocka_unit_test_setup(info_of_any_size, reset),
		cmocka_unit_test_setup(figures_are_counted, reset),
		cmocka_unit_test_setup(limits, reset),
		cmocka_unit_test_setup(messages_before_the_hand_over, reset),
		cmocka_unit_test_setup(a_close_before_the_hand_over, reset),
		cmocka_unit_test_setup(a_failure_before_the_hand_over, reset),
		cmocka_unit_test_setup(a_close_and_a_failure_at_once, reset),
		cmocka_unit_test_setup(a_message_before_it_is_asked_for, reset),
		cmocka_unit_test_setup(every_call_may_fail, reset),
		cmocka_unit_test_setup(a_peer_that_lies, reset),
		cmocka_unit_test_setup(a_peer_that_does_not_allow_it, reset),
		cmocka_unit_test_setup(a_close_that_nobody_answers, reset),
		cmocka_unit_test_setup(a_port_that_goes_down, reset),
		cmocka_unit_test_setup(a_port_that_is_down, reset),
		cmocka_unit_test_setup(a_notification_of_nothing, reset),
		cmocka_unit_test_setup(a_wait_ends_in_time, reset),
		cmocka_unit_test_setup(any_order_of_work, reset),
		cmocka_unit_test_setup(whatever_breaks_whenever, reset),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("socket", tests, setup, teardown);
}
