/* SPDX-License-Identifier: BSD-2-Clause */
/* Transfers between two connected ends: messages, READ and WRITE. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "selftests/vm/connect_live.h"

/* ---- the chosen ports ----------------------------------------------------------------------- */

static void check_ends(const struct held held[SIDES], const struct inc_connect_settings *settings)
{
	struct inc_connect_socket_info info[SIDES];
	int side;

	for (side = 0; side < SIDES; side++) {
		info[side] = (struct inc_connect_socket_info){.sz = sizeof(info[side])};
		assert_int_equal(inc_connect_socket_info(held[side].socket, &info[side]), 0);
	}
	for (side = 0; side < SIDES; side++) {
		assert_string_equal(info[side].local_name, ends[side].device);
		assert_string_equal(info[side].remote_name, ends[!side].device);
		assert_int_equal(info[side].local_port, 1);
		assert_int_equal(info[side].remote_port, 1);
		assert_int_equal(info[side].link_layer, INC_CONNECT_ETHERNET);
		/* 2048, because the lab's links have an MTU of 2200 */
		assert_int_equal(info[side].mtu_bytes, 2048);
		assert_int_equal(info[side].local_qpn, info[!side].remote_qpn);
		assert_memory_equal(info[side].settings, settings, sizeof(*settings));
		assert_true(info[side].peer[0] && info[side].latency_ns);
		assert_null(inc_connect_socket_error(held[side].socket));
	}
	printf("# a connect took %.1f ms, an accept %.1f ms\n", info[CLIENT].latency_ns / 1e6,
	       info[SERVICE].latency_ns / 1e6);
}

/* Tests which pair of ports is found and chosen. Both ends must report the same pair. */
void test_choice(void **state)
{
	struct inc_connect_settings settings;
	struct held held[SIDES];
	struct outcome out;
	struct resources before;
	struct connect_sides s;

	sides_open(&s, NULL);
	test_settings(&settings);
	resources_now(&before);
	query_address(&s, s.address, &out);
	assert_int_equal(out.error, 0);
	assert_int_equal(out.devices, 1);
	assert_string_equal(out.device.dev_name, ends[SERVICE].device);
	assert_int_equal(out.device.n_ports, 1);
	assert_int_equal(out.device.ports[0].port, 1);
	assert_int_equal(out.device.ports[0].link_layer, INC_CONNECT_ETHERNET);

	open_address(&s, s.address, 0, &out);
	assert_int_equal(out.error, 0);
	assert_true(out.chosen);
	assert_int_equal(out.pairs, 1);
	assert_string_equal(out.pair[0].local_name, ends[CLIENT].device);
	assert_string_equal(out.pair[0].remote_name, ends[SERVICE].device);
	assert_int_equal(out.pair[0].reason, INC_CONNECT_CHOSEN);
	open_adopt(&s, &out, held);
	check_ends(held, &settings);
	assert_true(figure(&s, CLIENT, "inc_connect_connections") == 1);
	assert_true(figure(&s, SERVICE, "inc_connect_connections") == 1);
	close_pair(&s, held);
	assert_true(figure(&s, CLIENT, "inc_connect_connections") == 0);
	assert_true(figure(&s, SERVICE, "inc_connect_connections") == 0);
	resources_returned(&s, &before);
	sides_close(&s);
}

/* ---- messages ------------------------------------------------------------------------------- */

#define MESSAGES 200

static size_t length_of(unsigned int i)
{
	static const size_t lengths[] = {1, 64, 2047, 2048, 2049, FEW - 1, FEW};

	return lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* Messages in one direction. Their contents depend on their numbers. */
struct stream {
	struct held *from, *to;
	unsigned int seed, sent, received;
};

static void check_next(struct stream *st, const void *got, size_t size)
{
	uint8_t want[FEW];

	assert_int_equal(size, length_of(st->received));
	fill(want, size, st->seed + st->received);
	assert_memory_equal(got, want, size);
	st->received++;
}

/* Sends and receives as many messages as possible now. Returns true when all messages have
 * arrived. */
static bool stream_on(struct stream *st)
{
	uint8_t data[FEW];
	const void *got;
	size_t size;
	int ret = 0;

	while (st->sent < MESSAGES) {
		size = length_of(st->sent);
		fill(data, size, st->seed + st->sent);
		ret = inc_connect_socket_send(st->from->socket, data, size);
		if (ret)
			break;
		st->sent++;
	}
	if (ret && ret != -EAGAIN)
		fail_msg("send: %s", inc_connect_socket_error(st->from->socket));
	while (!(ret = inc_connect_socket_receive(st->to->socket, &got, &size))) {
		check_next(st, got, size);
		assert_int_equal(inc_connect_socket_release(st->to->socket), 0);
	}
	if (ret != -EAGAIN)
		fail_msg("receive: %s", inc_connect_socket_error(st->to->socket));
	return st->received == MESSAGES;
}

static void check_counts(const struct held held[SIDES])
{
	struct inc_connect_socket_info info[SIDES];
	uint64_t bytes = 0;
	int side, i;

	for (i = 0; i < MESSAGES; i++)
		bytes += length_of(i);
	for (side = 0; side < SIDES; side++) {
		info[side] = (struct inc_connect_socket_info){.sz = sizeof(info[side])};
		assert_int_equal(inc_connect_socket_info(held[side].socket, &info[side]), 0);
		assert_int_equal(info[side].messages_sent, MESSAGES);
		assert_int_equal(info[side].messages_received, MESSAGES);
		assert_int_equal(info[side].bytes_sent, bytes);
		assert_int_equal(info[side].bytes_received, bytes);
		assert_true(info[side].credits_sent && info[side].credits_received);
	}
}

static void stream_both(const struct inc_connect_settings *settings)
{
	const struct connect_sides_opts opts = {.setting = settings};
	struct held held[SIDES];
	struct stream there, back;
	struct connect_sides s;
	uint8_t big[FEW + 1] = {0};
	int side, ret;

	sides_open(&s, &opts);
	open_pair(&s, held);
	there = (struct stream){.from = &held[CLIENT], .to = &held[SERVICE], .seed = 1};
	back = (struct stream){.from = &held[SERVICE], .to = &held[CLIENT], .seed = 1000};
	UNTIL(&s, stream_on(&there) & stream_on(&back));
	check_counts(held);
	for (side = 0; side < SIDES; side++) {
		UNTIL(&s, (ret = inc_connect_socket_flush(held[side].socket)) != -EAGAIN);
		assert_int_equal(ret, 0);
		assert_int_equal(inc_connect_socket_release(held[side].socket), -EINVAL);
		assert_int_equal(inc_connect_socket_send(held[side].socket, big, sizeof(big)),
				 -EMSGSIZE);
	}
	exchange(&s, held); /* the connection still works after the rejected calls */
	close_pair(&s, held);
	sides_close(&s);
}

/* Messages in both directions at once: with batches that divide the number of buffers and others
 * that do not, with one buffer, and with PSNs that wrap. */
void test_messages(void **state)
{
	struct inc_connect_settings settings;

	test_settings(&settings);
	stream_both(&settings);
	settings.start_psn = 0xfffff0;
	settings.send_buf_cnt = 7;
	settings.buf_ack_batch = 3;
	settings.buf_signal_batch = 5;
	stream_both(&settings);
	settings.send_buf_cnt = settings.buf_ack_batch = settings.buf_signal_batch = 1;
	stream_both(&settings);
}

/* A receiver that does not read holds up its sender, but not the other direction. */
void test_slow_reader(void **state)
{
	struct inc_connect_settings settings;
	struct held held[SIDES];
	struct connect_sides s;
	uint8_t data[8];
	uint32_t i;

	sides_open(&s, NULL);
	test_settings(&settings);
	open_pair(&s, held);
	for (i = 0; i < settings.send_buf_cnt; i++) {
		fill(data, sizeof(data), i);
		assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)),
				 0);
	}
	let_pass(&s, 300);
	assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)), -EAGAIN);
	for (i = 0; i < 3 * settings.send_buf_cnt; i++) { /* the other direction still works */
		send_message(&s, &held[SERVICE], data, sizeof(data));
		expect_message(&s, &held[CLIENT], data, sizeof(data));
	}
	assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)), -EAGAIN);
	for (i = 0; i < settings.send_buf_cnt; i++) {
		fill(data, sizeof(data), i);
		expect_message(&s, &held[SERVICE], data, sizeof(data));
	}
	exchange(&s, held);
	close_pair(&s, held);
	sides_close(&s);
}

/* ---- READ and WRITE ------------------------------------------------------------------------- */

#define ROOM (1u << 20) /* size of each side's memory in bytes */

/* The description of its memory that a side sends to its peer. */
struct told {
	uint64_t address;
	uint32_t key;
};

struct memory {
	uint8_t *mem;
	struct inc_connect_region *region;
	struct told told; /* the peer's description */
};

static void lend(struct connect_sides *s, struct held held[SIDES], struct memory m[SIDES],
		 bool remote)
{
	const void *got;
	struct told own;
	size_t size;
	int side, ret;

	for (side = 0; side < SIDES; side++) {
		m[side].mem = malloc(ROOM);
		assert_non_null(m[side].mem);
		fill(m[side].mem, ROOM, 7 + side);
		assert_int_equal(inc_connect_socket_register(held[side].socket, m[side].mem, ROOM,
							     remote, &m[side].region),
				 0);
		own.address = inc_connect_region_address(m[side].region);
		own.key = inc_connect_region_key(m[side].region);
		send_message(s, &held[side], &own, sizeof(own));
	}
	for (side = 0; side < SIDES; side++) {
		UNTIL(s, (ret = inc_connect_socket_receive(held[side].socket, &got, &size)) !=
				 -EAGAIN);
		assert_int_equal(ret, 0);
		assert_int_equal(size, sizeof(m[side].told));
		memcpy(&m[side].told, got, size);
		inc_connect_socket_release(held[side].socket);
	}
}

static void give_back(struct memory m[SIDES])
{
	int side;

	for (side = 0; side < SIDES; side++) {
		inc_connect_region_release(m[side].region);
		free(m[side].mem);
	}
}

/* Describes pieces of growing length, which follow each other from offset `at` in both memories. */
static uint32_t pieces(const struct memory *m, uint32_t n, uint32_t at,
		       struct inc_connect_transfer *t)
{
	uint32_t i, size;

	for (i = 0; i < n; i++, at += size) {
		size = 1 + i * 777;
		t[i] = (struct inc_connect_transfer){m->region, m->mem + at, size, m->told.key,
						     m->told.address + at};
	}
	assert_true(at <= ROOM);
	return at;
}

static void transfer(struct connect_sides *s, struct held *h, enum inc_connect_direction direction,
		     const struct inc_connect_transfer *t, uint32_t n)
{
	uint64_t ticket;
	int ret;

	assert_int_equal(inc_connect_socket_transfer(h->socket, direction, t, n, &ticket), 0);
	UNTIL(s, (ret = inc_connect_socket_transferred(h->socket, ticket)) != -EAGAIN);
	if (ret)
		fail_msg("transfer: %s", inc_connect_socket_error(h->socket));
}

/* A batch that is too long, or that is not inside the memory, is rejected as a whole, and no part
 * of it is executed. */
static void check_refusals(struct held *h, const struct memory *m)
{
	struct inc_connect_settings settings;
	struct inc_connect_transfer t[33];
	uint64_t ticket;
	uint32_t i;
	int ret = 0;

	test_settings(&settings);
	assert_int_equal(settings.max_rdma_wr_per_post, 32);
	pieces(m, 33, 0, t);
	assert_int_equal(inc_connect_socket_transfer(h->socket, INC_CONNECT_READ, t, 0, &ticket),
			 -EINVAL);
	assert_int_equal(inc_connect_socket_transfer(h->socket, INC_CONNECT_READ, t,
						     settings.max_rdma_wr_per_post + 1, &ticket),
			 -EINVAL);
	t[1].local = m->mem + ROOM - t[1].size + 1;
	assert_int_equal(inc_connect_socket_transfer(h->socket, INC_CONNECT_READ, t, 2, &ticket),
			 -EINVAL);
	t[1].local = m->mem - 1;
	assert_int_equal(inc_connect_socket_transfer(h->socket, INC_CONNECT_READ, t, 2, &ticket),
			 -EINVAL);
	/* the loop polls no completions, so that all request slots are filled */
	for (i = 0; !ret && i <= settings.max_rdma_wr; i++)
		ret = inc_connect_socket_transfer(h->socket, INC_CONNECT_WRITE, t, 1, &ticket);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(i, settings.max_rdma_wr + 1);
}

void test_transfers(void **state)
{
	struct inc_connect_transfer t[32];
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	struct memory m[SIDES];
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s;
	uint32_t written, end;
	uint8_t *was;

	sides_open(&s, NULL);
	resources_now(&before);
	open_pair(&s, held);
	lend(&s, held, m, true);
	was = malloc(ROOM);
	assert_non_null(was);
	memcpy(was, m[SERVICE].mem, ROOM);

	written = pieces(&m[CLIENT], 30, 0, t);
	transfer(&s, &held[CLIENT], INC_CONNECT_WRITE, t, 30);
	assert_memory_equal(m[SERVICE].mem, m[CLIENT].mem, written);
	assert_memory_equal(m[SERVICE].mem + written, was + written, ROOM - written);
	/* 32 READs are more than the queue pair may have in progress at once */
	end = pieces(&m[CLIENT], 32, written, t);
	transfer(&s, &held[CLIENT], INC_CONNECT_READ, t, 32);
	assert_memory_equal(m[CLIENT].mem + written, was + written, end - written);
	t[0] = (struct inc_connect_transfer){m[SERVICE].region, m[SERVICE].mem, ROOM,
					     m[SERVICE].told.key, m[SERVICE].told.address};
	fill(m[CLIENT].mem, ROOM, 99);
	transfer(&s, &held[SERVICE], INC_CONNECT_READ, t, 1);
	assert_memory_equal(m[SERVICE].mem, m[CLIENT].mem, ROOM);
	assert_int_equal(inc_connect_socket_info(held[CLIENT].socket, &info), 0);
	assert_int_equal(info.bytes_written, written);
	assert_int_equal(info.bytes_read, end - written);
	check_refusals(&held[CLIENT], &m[CLIENT]);
	exchange(&s, held);
	free(was);
	give_back(m);
	close_pair(&s, held);
	resources_returned(&s, &before);
	sides_close(&s);
}

/* A peer must not access memory that was not registered for it. */
void test_memory_that_is_not_lent(void **state)
{
	enum inc_connect_direction direction;
	struct inc_connect_transfer t;
	struct memory m[SIDES];
	struct held held[SIDES];
	struct connect_sides s;
	uint64_t ticket;
	uint8_t *was = malloc(ROOM);
	int ret;

	assert_non_null(was);
	for (direction = INC_CONNECT_READ; direction <= INC_CONNECT_WRITE; direction++) {
		sides_open(&s, NULL);
		open_pair(&s, held);
		lend(&s, held, m, false);
		memcpy(was, m[direction == INC_CONNECT_WRITE].mem, ROOM);
		pieces(&m[CLIENT], 1, 0, &t);
		assert_int_equal(
			inc_connect_socket_transfer(held[CLIENT].socket, direction, &t, 1, &ticket),
			0);
		UNTIL(&s, held[CLIENT].error);
		ret = inc_connect_socket_transferred(held[CLIENT].socket, ticket);
		assert_int_equal(ret, held[CLIENT].error);
		assert_non_null(inc_connect_socket_error(held[CLIENT].socket));
		printf("# %s\n", inc_connect_socket_error(held[CLIENT].socket));
		assert_memory_equal(was, m[direction == INC_CONNECT_WRITE].mem, ROOM);
		give_back(m);
		let_go(&held[CLIENT]);
		let_go(&held[SERVICE]);
		sides_close(&s);
	}
	free(was);
}

/* ---- ownership of sockets ------------------------------------------------------------------- */

#define ROUNDS 100

/* Returns each message to its sender. The thread uses only the socket. */
static void *echo(void *arg)
{
	struct inc_connect_socket *socket = arg;
	const void *got;
	size_t size;
	int i, ret;

	for (i = 0; i < ROUNDS; i++) {
		while ((ret = inc_connect_socket_receive(socket, &got, &size)) == -EAGAIN)
			if ((ret = inc_connect_socket_wait(socket, DEADLINE_S * 1000)) ||
			    (ret = inc_connect_socket_progress(socket)) < 0)
				return "no message";
		if (ret || inc_connect_socket_send(socket, got, size) ||
		    inc_connect_socket_release(socket))
			return "no echo";
	}
	return NULL;
}

/* Two threads without an event base: any one thread can use a socket. */
void test_threads(void **state)
{
	struct held held[SIDES];
	struct connect_sides s;
	uint8_t data[64];
	const void *got;
	pthread_t thread;
	void *story;
	size_t size;
	int i, ret;

	sides_open(&s, NULL);
	open_pair(&s, held);
	assert_int_equal(inc_connect_socket_wait(held[CLIENT].socket, 0), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, echo, held[SERVICE].socket), 0);
	for (i = 0; i < ROUNDS; i++) {
		fill(data, sizeof(data), i);
		assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)),
				 0);
		while ((ret = inc_connect_socket_receive(held[CLIENT].socket, &got, &size)) ==
		       -EAGAIN) {
			assert_int_equal(
				inc_connect_socket_wait(held[CLIENT].socket, DEADLINE_S * 1000), 0);
			assert_true(inc_connect_socket_progress(held[CLIENT].socket) >= 0);
		}
		assert_int_equal(ret, 0);
		assert_int_equal(size, sizeof(data));
		assert_memory_equal(got, data, size);
		inc_connect_socket_release(held[CLIENT].socket);
	}
	assert_int_equal(pthread_join(thread, &story), 0);
	if (story)
		fail_msg("%s: %s", (char *)story, inc_connect_socket_error(held[SERVICE].socket));
	close_pair(&s, held);
	sides_close(&s);
}

/* Sockets remain usable after the contexts and the service that created them are gone. */
void test_context_goes_first(void **state)
{
	struct held held[SIDES];
	struct resources before;
	struct connect_sides s, gone;

	sides_open(&s, NULL);
	sides_close(&s); /* the first round is not counted, because it makes one-time allocations */
	resources_now(&before);
	sides_open(&s, NULL);
	open_pair(&s, held);
	gone = s;
	inc_connect_service_close(s.service);
	inc_connect_destroy(s.ctx[CLIENT]);
	inc_connect_destroy(s.ctx[SERVICE]);
	gone.service = NULL;
	gone.ctx[CLIENT] = gone.ctx[SERVICE] = NULL;
	exchange(&gone, held);
	close_pair(&gone, held);
	sides_close(&gone);
	resources_returned(NULL, &before);
}
