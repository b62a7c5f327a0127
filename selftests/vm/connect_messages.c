/* SPDX-License-Identifier: BSD-2-Clause */
/* Transfers between two connected ends: messages, READ and WRITE. */
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

static struct inc_connect_socket_info info_of(int side)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};

	assert_int_equal(inc_connect_socket_info(held[side].socket, &info), 0);
	return info;
}

static void check_ends(void)
{
	const struct inc_connect_socket_info info[SIDES] = {info_of(CLIENT), info_of(SERVICE)};
	struct inc_connect_settings settings;
	int side;

	test_settings(&settings);
	for (side = 0; side < SIDES; side++) {
		assert_string_equal(info[side].local_name, ends[side].device);
		assert_string_equal(info[side].remote_name, ends[!side].device);
		assert_int_equal(info[side].local_port, 1);
		assert_int_equal(info[side].remote_port, 1);
		assert_int_equal(info[side].link_layer, INC_CONNECT_ETHERNET);
		/* 2048, because the lab's links have an MTU of 2200 */
		assert_int_equal(info[side].mtu_bytes, 2048);
		assert_int_equal(info[side].local_qpn, info[!side].remote_qpn);
		assert_memory_equal(info[side].settings, &settings, sizeof(settings));
		assert_true(info[side].peer[0] && info[side].latency_ns);
		assert_null(inc_connect_socket_error(held[side].socket));
	}
	printf("# a connect took %.1f ms, an accept %.1f ms\n", info[CLIENT].latency_ns / 1e6,
	       info[SERVICE].latency_ns / 1e6);
}

/* Tests which pair of ports is found and chosen. Both ends must report the same pair. */
void test_choice(void **state)
{
	sides_open(NULL);
	query_address();
	assert_int_equal(queried.devices, 1);
	assert_string_equal(queried.device.dev_name, ends[SERVICE].device);
	assert_int_equal(queried.device.n_ports, 1);
	assert_int_equal(queried.device.ports[0].port, 1);
	assert_int_equal(queried.device.ports[0].link_layer, INC_CONNECT_ETHERNET);

	open_pair(held);
	assert_int_equal(opened.choice.n_pairs, 1);
	assert_string_equal(opened.pair[0].local_name, ends[CLIENT].device);
	assert_string_equal(opened.pair[0].remote_name, ends[SERVICE].device);
	assert_int_equal(opened.pair[0].reason, INC_CONNECT_CHOSEN);
	check_ends();
	assert_true(figure(CLIENT, "inc_connect_connections") == 1);
	assert_true(figure(SERVICE, "inc_connect_connections") == 1);
	close_all(held, SIDES);
	assert_true(figure(CLIENT, "inc_connect_connections") == 0);
	assert_true(figure(SERVICE, "inc_connect_connections") == 0);
	sides_close();
}

/* ---- messages ------------------------------------------------------------------------------- */

#define MESSAGES 200

static size_t length_of(unsigned int i)
{
	static const size_t lengths[] = {1, 64, 2047, 2048, 2049, FEW - 1, FEW};

	return lengths[i % (sizeof(lengths) / sizeof(lengths[0]))];
}

/* numbers of messages from each side; their contents depend on these */
static unsigned int sent[SIDES], received[SIDES];

/* Sends and receives as many messages from a side as possible now. Returns true when all have
 * arrived. */
static bool stream_on(int from)
{
	struct inc_connect_socket *sender = held[from].socket, *receiver = held[!from].socket;
	uint8_t data[FEW];
	const void *got;
	size_t size;
	int ret;

	for (ret = 0; !ret && sent[from] < MESSAGES; sent[from] += !ret) {
		fill(data, length_of(sent[from]), 1000 * from + sent[from]);
		ret = inc_connect_socket_send(sender, data, length_of(sent[from]));
	}
	if (ret && ret != -EAGAIN)
		fail_msg("send: %s", inc_connect_socket_error(sender));
	for (; !(ret = inc_connect_socket_receive(receiver, &got, &size)); received[from]++) {
		assert_int_equal(size, length_of(received[from]));
		fill(data, size, 1000 * from + received[from]);
		assert_memory_equal(got, data, size);
		assert_int_equal(inc_connect_socket_release(receiver), 0);
	}
	if (ret != -EAGAIN)
		fail_msg("receive: %s", inc_connect_socket_error(receiver));
	return received[from] == MESSAGES;
}

static void check_counts(void)
{
	struct inc_connect_socket_info info;
	uint64_t bytes = 0;
	int side, i;

	for (i = 0; i < MESSAGES; i++)
		bytes += length_of(i);
	for (side = 0; side < SIDES; side++) {
		info = info_of(side);
		assert_int_equal(info.messages_sent, MESSAGES);
		assert_int_equal(info.messages_received, MESSAGES);
		assert_int_equal(info.bytes_sent, bytes);
		assert_int_equal(info.bytes_received, bytes);
		assert_true(info.credits_sent && info.credits_received);
	}
}

static void stream_both(const struct inc_connect_settings *settings)
{
	const struct connect_sides_opts opts = {.setting = settings};
	const uint8_t big[FEW + 1] = {0};
	int side;

	sides_open(&opts);
	open_pair(held);
	memset(sent, 0, sizeof(sent));
	memset(received, 0, sizeof(received));
	UNTIL(stream_on(CLIENT) & stream_on(SERVICE));
	check_counts();
	for (side = 0; side < SIDES; side++) {
		assert_int_equal(DONE(inc_connect_socket_flush(held[side].socket)), 0);
		assert_int_equal(inc_connect_socket_release(held[side].socket), -EINVAL);
		assert_int_equal(inc_connect_socket_send(held[side].socket, big, sizeof(big)),
				 -EMSGSIZE);
	}
	exchange(held); /* the connection still works after the rejected calls */
	close_all(held, SIDES);
	sides_close();
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
	uint8_t data[8] = {0};
	uint32_t i, n;

	sides_open(NULL);
	test_settings(&settings);
	n = settings.send_buf_cnt;
	open_pair(held);
	send_messages(&held[CLIENT], n, sizeof(data), 0);
	let_pass(300);
	assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)), -EAGAIN);
	for (i = 0; i < 3 * n; i++) { /* the other direction still works */
		send_messages(&held[SERVICE], 1, sizeof(data), i);
		expect_messages(&held[CLIENT], 1, sizeof(data), i);
	}
	assert_int_equal(inc_connect_socket_send(held[CLIENT].socket, data, sizeof(data)), -EAGAIN);
	expect_messages(&held[SERVICE], n, sizeof(data), 0);
	exchange(held);
	close_all(held, SIDES);
	sides_close();
}

/* ---- READ and WRITE ------------------------------------------------------------------------- */

#define ROOM (1u << 20) /* size of each side's memory in bytes */

static uint8_t memory[SIDES][ROOM] __attribute__((aligned(4096))), was[ROOM];
static struct inc_connect_region *regions[SIDES];

/* Registers each side's memory, for its peer too if `remote`. */
static void lend(bool remote)
{
	int side;

	for (side = 0; side < SIDES; side++) {
		fill(memory[side], ROOM, 7 + side);
		assert_int_equal(inc_connect_socket_register(held[side].socket, memory[side], ROOM,
							     remote, &regions[side]),
				 0);
	}
}

static void give_back(void)
{
	inc_connect_region_release(regions[CLIENT]);
	inc_connect_region_release(regions[SERVICE]);
}

/* Describes a transfer between a side's memory and the same place in its peer's. */
static struct inc_connect_transfer piece(int side, uint32_t at, uint32_t size)
{
	return (struct inc_connect_transfer){regions[side], memory[side] + at, size,
					     inc_connect_region_key(regions[!side]),
					     inc_connect_region_address(regions[!side]) + at};
}

/* Describes pieces of growing length, which follow each other from offset `at` in both memories. */
static uint32_t pieces(uint32_t n, uint32_t at, struct inc_connect_transfer *t)
{
	uint32_t i;

	for (i = 0; i < n; at += t[i++].size)
		t[i] = piece(CLIENT, at, 1 + i * 777);
	assert_true(at <= ROOM);
	return at;
}

static void transfer(struct held *h, enum inc_connect_direction direction,
		     const struct inc_connect_transfer *t, uint32_t n)
{
	uint64_t ticket;

	assert_int_equal(inc_connect_socket_transfer(h->socket, direction, t, n, &ticket), 0);
	if (DONE(inc_connect_socket_transferred(h->socket, ticket)))
		fail_msg("transfer: %s", inc_connect_socket_error(h->socket));
}

static void expect_refused(const struct inc_connect_transfer *t, uint32_t n)
{
	uint64_t ticket;

	assert_int_equal(
		inc_connect_socket_transfer(held[CLIENT].socket, INC_CONNECT_READ, t, n, &ticket),
		-EINVAL);
}

/* A batch that is too long, or that is not inside the memory, is rejected as a whole, and no part
 * of it is executed. */
static void check_refusals(void)
{
	struct inc_connect_settings settings;
	struct inc_connect_transfer t[33];
	uint64_t ticket;
	uint32_t i;
	int ret = 0;

	test_settings(&settings);
	assert_int_equal(settings.max_rdma_wr_per_post, 32);
	pieces(33, 0, t);
	expect_refused(t, 0);
	expect_refused(t, settings.max_rdma_wr_per_post + 1);
	t[1].local = memory[CLIENT] + ROOM - t[1].size + 1;
	expect_refused(t, 2);
	t[1].local = (void *)((uintptr_t)memory[CLIENT] - 1);
	expect_refused(t, 2);
	/* the loop polls no completions, so that all request slots are filled */
	for (i = 0; !ret && i <= settings.max_rdma_wr; i++)
		ret = inc_connect_socket_transfer(held[CLIENT].socket, INC_CONNECT_WRITE, t, 1,
						  &ticket);
	assert_int_equal(ret, -EAGAIN);
	assert_int_equal(i, settings.max_rdma_wr + 1);
}

void test_transfers(void **state)
{
	struct inc_connect_transfer t[32];
	uint32_t written, end;

	sides_open(NULL);
	open_pair(held);
	lend(true);
	memcpy(was, memory[SERVICE], ROOM);

	written = pieces(30, 0, t);
	transfer(&held[CLIENT], INC_CONNECT_WRITE, t, 30);
	assert_memory_equal(memory[SERVICE], memory[CLIENT], written);
	assert_memory_equal(memory[SERVICE] + written, was + written, ROOM - written);
	/* 32 READs are more than the queue pair may have in progress at once */
	end = pieces(32, written, t);
	transfer(&held[CLIENT], INC_CONNECT_READ, t, 32);
	assert_memory_equal(memory[CLIENT] + written, was + written, end - written);
	t[0] = piece(SERVICE, 0, ROOM);
	fill(memory[CLIENT], ROOM, 99);
	transfer(&held[SERVICE], INC_CONNECT_READ, t, 1);
	assert_memory_equal(memory[SERVICE], memory[CLIENT], ROOM);
	assert_int_equal(info_of(CLIENT).bytes_written, written);
	assert_int_equal(info_of(CLIENT).bytes_read, end - written);
	check_refusals();
	exchange(held);
	give_back();
	close_all(held, SIDES);
	sides_close();
}

/* A peer must not access memory that was not registered for it. */
void test_memory_that_is_not_lent(void **state)
{
	enum inc_connect_direction direction;
	struct inc_connect_transfer t;
	uint64_t ticket;
	int goal, ret;

	for (direction = INC_CONNECT_READ; direction <= INC_CONNECT_WRITE; direction++) {
		goal = direction == INC_CONNECT_WRITE ? SERVICE : CLIENT;
		sides_open(NULL);
		open_pair(held);
		lend(false);
		memcpy(was, memory[goal], ROOM);
		pieces(1, 0, &t);
		ret = inc_connect_socket_transfer(held[CLIENT].socket, direction, &t, 1, &ticket);
		assert_int_equal(ret, 0);
		UNTIL(held[CLIENT].error);
		ret = inc_connect_socket_transferred(held[CLIENT].socket, ticket);
		assert_int_equal(ret, held[CLIENT].error);
		assert_non_null(inc_connect_socket_error(held[CLIENT].socket));
		printf("# %s\n", inc_connect_socket_error(held[CLIENT].socket));
		assert_memory_equal(was, memory[goal], ROOM);
		give_back();
		let_go(held, SIDES);
		sides_close();
	}
}

/* ---- ownership of sockets ------------------------------------------------------------------- */

#define ROUNDS 100

static int await_message(struct inc_connect_socket *socket, const void **got, size_t *size)
{
	int ret;

	while ((ret = inc_connect_socket_receive(socket, got, size)) == -EAGAIN)
		if ((ret = inc_connect_socket_wait(socket, DEADLINE_S * 1000)) ||
		    (ret = inc_connect_socket_progress(socket)) < 0)
			break;
	return ret;
}

/* Returns each message to its sender. The thread uses only the socket. */
static void *echo(void *arg)
{
	struct inc_connect_socket *socket = arg;
	const void *got;
	size_t size;
	int i;

	for (i = 0; i < ROUNDS; i++)
		if (await_message(socket, &got, &size) ||
		    inc_connect_socket_send(socket, got, size) ||
		    inc_connect_socket_release(socket))
			return "no echo";
	return NULL;
}

/* Two threads without an event base: any one thread can use a socket. */
void test_threads(void **state)
{
	struct inc_connect_socket *client;
	uint8_t data[64];
	const void *got;
	pthread_t thread;
	void *story;
	size_t size;
	int i;

	sides_open(NULL);
	open_pair(held);
	client = held[CLIENT].socket;
	assert_int_equal(inc_connect_socket_wait(client, 0), -ETIMEDOUT);
	assert_int_equal(pthread_create(&thread, NULL, echo, held[SERVICE].socket), 0);
	for (i = 0; i < ROUNDS; i++) {
		fill(data, sizeof(data), i);
		assert_int_equal(inc_connect_socket_send(client, data, sizeof(data)), 0);
		assert_int_equal(await_message(client, &got, &size), 0);
		assert_int_equal(size, sizeof(data));
		assert_memory_equal(got, data, size);
		inc_connect_socket_release(client);
	}
	assert_int_equal(pthread_join(thread, &story), 0);
	if (story)
		fail_msg("%s: %s", (char *)story, inc_connect_socket_error(held[SERVICE].socket));
	close_all(held, SIDES);
	sides_close();
}

/* Sockets remain usable after the contexts and the service that created them are gone. */
void test_context_goes_first(void **state)
{
	struct resources before;

	sides_open(NULL);
	sides_free(); /* the first round is not counted, because it makes one-time allocations */
	resources_now(&before);
	sides_open(NULL);
	open_pair(held);
	inc_connect_service_close(sides.service);
	inc_connect_destroy(sides.ctx[CLIENT]);
	inc_connect_destroy(sides.ctx[SERVICE]);
	sides.service = NULL;
	sides.ctx[CLIENT] = sides.ctx[SERVICE] = NULL;
	exchange(held);
	close_all(held, SIDES);
	sides_free();
	resources_returned(&before);
}
