/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The socket of a comm (hostlib/nccl/tcp.h), over loopback, with peers that misbehave, and the
 * handle by which a peer finds it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/nccl/tcp.h"

#define LIMIT_MS 10000

/* A listener on loopback and the two ends of a connection. */
struct tcp_pair {
	int listen_fd;
	union ha_address address;
	struct ha_socket a, b;
	/* descriptor of a peer that is a plain socket instead of a struct ha_socket; -1: none */
	int raw;
};

static void wait_for(int fd, short events)
{
	struct pollfd poller = {.fd = fd, .events = events};

	assert_int_equal(poll(&poller, 1, LIMIT_MS), 1);
}

static void fill(uint8_t msg[HA_MSG_BYTES], unsigned int n)
{
	unsigned int i;

	for (i = 0; i < HA_MSG_BYTES; i++)
		msg[i] = n * 7 + i;
}

static void connect_a(struct tcp_pair *pair)
{
	struct inc_err err = {""};

	assert_int_equal(ha_socket_connect(&pair->a, &pair->address, &err), 0);
}

static void accept_b(struct tcp_pair *pair)
{
	struct inc_err err = {""};

	wait_for(pair->listen_fd, POLLIN);
	assert_int_equal(ha_socket_accept(pair->listen_fd, &pair->b, &err), 1);
	wait_for(pair->a.fd, POLLOUT);
	assert_int_equal(ha_socket_connected(&pair->a, &err), 1);
}

static int begin(void **state)
{
	struct tcp_pair *pair = calloc(1, sizeof(*pair));
	struct inc_err err = {""};

	assert_non_null(pair);
	pair->a.fd = pair->b.fd = pair->raw = -1;
	pair->listen_fd = ha_socket_listen("=lo", &pair->address, &err);
	assert_true(pair->listen_fd >= 0);
	*state = pair;
	return 0;
}

static int end(void **state)
{
	struct tcp_pair *pair = *state;

	ha_socket_close(&pair->a);
	ha_socket_close(&pair->b);
	if (pair->raw >= 0)
		close(pair->raw);
	close(pair->listen_fd);
	free(pair);
	return 0;
}

/* Connects b to a plain socket. */
static void connect_raw(struct tcp_pair *pair)
{
	struct inc_err err = {""};

	pair->raw = socket(pair->address.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(pair->raw, &pair->address.sa, sizeof(pair->address.in4)), 0);
	wait_for(pair->listen_fd, POLLIN);
	assert_int_equal(ha_socket_accept(pair->listen_fd, &pair->b, &err), 1);
}

static int receive(struct ha_socket *socket, uint8_t msg[HA_MSG_BYTES])
{
	int ret = ha_socket_receive(socket, msg);

	while (!ret) {
		wait_for(socket->fd, POLLIN);
		ret = ha_socket_receive(socket, msg);
	}
	return ret;
}

static void there_and_back(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES], received[HA_MSG_BYTES];
	struct inc_err err = {""};
	unsigned int i;

	assert_int_equal(ha_socket_accept(pair->listen_fd, &pair->b, &err), 0);
	connect_a(pair);
	/* a message that is given before the connection is up is sent later */
	fill(msg, 99);
	assert_int_equal(ha_socket_send(&pair->a, msg), 0);
	accept_b(pair);
	assert_int_equal(ha_socket_receive(&pair->a, received), 0);
	assert_int_equal(receive(&pair->b, received), 1);
	assert_memory_equal(received, msg, HA_MSG_BYTES);
	for (i = 0; i < HA_SOCKET_QUEUE; i++) {
		fill(msg, i);
		assert_int_equal(ha_socket_send(i % 2 ? &pair->a : &pair->b, msg), 0);
	}
	for (i = 0; i < HA_SOCKET_QUEUE; i++) {
		fill(msg, i);
		assert_int_equal(receive(i % 2 ? &pair->b : &pair->a, received), 1);
		assert_memory_equal(received, msg, HA_MSG_BYTES);
	}
	assert_int_equal(ha_socket_receive(&pair->a, received), 0);
}

/* A message must arrive whole, even if it is split into single bytes. */
static void byte_by_byte(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[3 * HA_MSG_BYTES], received[HA_MSG_BYTES];
	unsigned int i, msgs = 0;
	int ret;

	connect_raw(pair);
	for (i = 0; i < 3; i++)
		fill(msg + i * HA_MSG_BYTES, i);
	for (i = 0; i < sizeof(msg); i++) {
		assert_int_equal(send(pair->raw, msg + i, 1, 0), 1);
		wait_for(pair->b.fd, POLLIN);
		ret = ha_socket_receive(&pair->b, received);
		assert_int_equal(ret, (i + 1) % HA_MSG_BYTES ? 0 : 1);
		if (ret)
			assert_memory_equal(received, msg + msgs++ * HA_MSG_BYTES, HA_MSG_BYTES);
	}
	assert_int_equal(msgs, 3);
	/* one and a half messages, and then the other half together with another message */
	assert_int_equal(send(pair->raw, msg, 192, 0), 192);
	assert_int_equal(receive(&pair->b, received), 1);
	assert_memory_equal(received, msg, HA_MSG_BYTES);
	assert_int_equal(ha_socket_receive(&pair->b, received), 0);
	assert_int_equal(send(pair->raw, msg + 192, 192, 0), 192);
	for (i = 1; i < 3; i++) {
		assert_int_equal(receive(&pair->b, received), 1);
		assert_memory_equal(received, msg + i * HA_MSG_BYTES, HA_MSG_BYTES);
	}
}

/* Messages that the kernel accepts in parts must arrive whole, whatever call sends the rest. */
static void partial_writes(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES], received[HA_MSG_BYTES];
	unsigned int sent = 0, got = 0;
	bool parted = false;
	int ends[2], small = 1;

	/* A Unix socket accepts as many bytes as its buffer has room for. TCP would accept so few
	 * bytes completely or not at all. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pair->b.fd = ends[0];
	pair->b.connected = true;
	pair->raw = ends[1];
	/* a too small size, which the kernel raises to its minimum */
	setsockopt(pair->b.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	while (pair->b.out_bytes < (HA_SOCKET_QUEUE - 1) * HA_MSG_BYTES) {
		fill(msg, sent++);
		assert_int_equal(ha_socket_send(&pair->b, msg), 0);
	}
	while (got < sent) {
		wait_for(pair->raw, POLLIN);
		assert_int_equal(recv(pair->raw, received, sizeof(received), MSG_WAITALL),
				 HA_MSG_BYTES);
		fill(msg, got++);
		assert_memory_equal(received, msg, HA_MSG_BYTES);
		assert_int_equal(ha_socket_receive(&pair->b, received), 0);
		parted = parted || (pair->b.out_at && pair->b.out_bytes);
	}
	assert_int_equal(pair->b.out_bytes, 0);
	assert_true(parted);
}

static void reads_nothing(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES] = {0}, received[HA_MSG_BYTES];
	unsigned int sent = 0;
	int ret = 0;

	connect_raw(pair);
	assert_int_equal(send(pair->raw, msg, sizeof(msg), 0), sizeof(msg));
	/* ends the loop if more bytes are accepted than any buffer of the kernel could hold */
	while (!ret && sent < 10000000) {
		ret = ha_socket_send(&pair->b, msg);
		sent += !ret;
	}
	assert_int_equal(ret, -ENOBUFS);
	assert_true(sent >= HA_SOCKET_QUEUE);
	assert_int_equal(ha_socket_send(&pair->b, msg), -ENOBUFS);
	/* a message that the peer sent before it closed is still received */
	assert_int_equal(receive(&pair->b, received), 1);
	assert_int_equal(ha_socket_receive(&pair->b, received), -ENOBUFS);
}

static void closes(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES], received[HA_MSG_BYTES];
	int ret;

	connect_raw(pair);
	fill(msg, 1);
	assert_int_equal(send(pair->raw, msg, sizeof(msg), 0), sizeof(msg));
	/* half a message, which the receiver discards */
	assert_int_equal(send(pair->raw, msg, 60, 0), 60);
	close(pair->raw);
	pair->raw = -1;
	assert_int_equal(receive(&pair->b, received), 1);
	assert_memory_equal(received, msg, HA_MSG_BYTES);
	assert_int_equal(receive(&pair->b, received), -ECONNRESET);
	assert_int_equal(ha_socket_receive(&pair->b, received), -ECONNRESET);
	ret = ha_socket_send(&pair->b, msg);
	assert_int_equal(ret, -ECONNRESET);
	ha_socket_close(&pair->b);
	assert_int_equal(ha_socket_receive(&pair->b, received), -ENOTCONN);
	assert_int_equal(ha_socket_send(&pair->b, msg), -ENOTCONN);
}

/* Sending to a closed peer returns an error and raises no SIGPIPE. */
static void sends_to_a_closed_peer(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES] = {0};

	connect_raw(pair);
	close(pair->raw);
	pair->raw = -1;
	wait_for(pair->b.fd, POLLIN);
	/* the peer's kernel answers the first message by a reset */
	assert_int_equal(ha_socket_send(&pair->b, msg), 0);
	wait_for(pair->b.fd, 0);
	assert_int_equal(ha_socket_send(&pair->b, msg), -ECONNRESET);
}

/* The peer resets the connection. A message that it sent before may be lost or received. No signal
 * may be raised. */
static void resets(void **state)
{
	const struct linger abort = {.l_onoff = 1};
	struct tcp_pair *pair = *state;
	uint8_t msg[HA_MSG_BYTES] = {0}, received[HA_MSG_BYTES];

	connect_raw(pair);
	setsockopt(pair->raw, SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
	close(pair->raw);
	pair->raw = -1;
	wait_for(pair->b.fd, POLLIN);
	ha_socket_send(&pair->b, msg);
	ha_socket_send(&pair->b, msg);
	assert_int_equal(ha_socket_receive(&pair->b, received), -ECONNRESET);
}

/* Any 128 bytes are a message for the socket, because it does not interpret them. */
static void garbage(void **state)
{
	struct tcp_pair *pair = *state;
	uint8_t bytes[5 * HA_MSG_BYTES], received[HA_MSG_BYTES];
	unsigned int i;

	connect_raw(pair);
	srandom(3);
	for (i = 0; i < sizeof(bytes); i++)
		bytes[i] = random();
	assert_int_equal(send(pair->raw, bytes, sizeof(bytes), 0), sizeof(bytes));
	for (i = 0; i < 5; i++) {
		assert_int_equal(receive(&pair->b, received), 1);
		assert_memory_equal(received, bytes + i * HA_MSG_BYTES, HA_MSG_BYTES);
	}
}

static void nobody_listens(void **state)
{
	struct tcp_pair *pair = *state;
	struct inc_err err = {""};
	int ret;

	close(pair->listen_fd);
	ret = ha_socket_connect(&pair->a, &pair->address, &err);
	if (!ret) {
		wait_for(pair->a.fd, POLLOUT);
		ret = ha_socket_connected(&pair->a, &err);
		assert_int_equal(ha_socket_connected(&pair->a, NULL), ret);
	}
	assert_int_equal(ret, -ECONNREFUSED);
	assert_non_null(strstr(err.msg, "refused"));
	pair->listen_fd = ha_socket_listen(NULL, &pair->address, &err);
	assert_true(pair->listen_fd >= 0);
}

static void interfaces(void **state)
{
	struct tcp_pair *pair = *state;
	union ha_address address;
	struct inc_err err = {""};

	/* checks that the text is read as an IPv4 loopback address with a port */
	assert_int_equal(pair->address.sa.sa_family, AF_INET);
	assert_int_equal(ntohl(pair->address.in4.sin_addr.s_addr) >> 24, 127);
	assert_int_not_equal(pair->address.in4.sin_port, 0);
	assert_int_equal(ha_socket_listen("=none0", &address, &err), -EADDRNOTAVAIL);
	assert_non_null(strstr(err.msg, "NCCL_SOCKET_IFNAME==none0"));
}

/* The socket works over IPv6, too, if the machine has it. */
static void ipv6(void **state)
{
	struct tcp_pair *pair = *state;
	union ha_address address = {
		.in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT}};
	uint8_t msg[HA_MSG_BYTES], received[HA_MSG_BYTES];
	socklen_t size = sizeof(address.in6);
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, &address.sa, size)) {
		if (fd >= 0)
			close(fd);
		skip();
	}
	assert_int_equal(listen(fd, 1), 0);
	getsockname(fd, &address.sa, &size);
	close(pair->listen_fd);
	pair->listen_fd = fd;
	pair->address = address;
	connect_a(pair);
	accept_b(pair);
	fill(msg, 6);
	assert_int_equal(ha_socket_send(&pair->b, msg), 0);
	assert_int_equal(receive(&pair->a, received), 1);
	assert_memory_equal(received, msg, HA_MSG_BYTES);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, begin, end)

/* The contents of a handle (hostlib/nccl/tcp.h). */

#define NONCE 0x0123456789abcdefull

static union ha_address address_v4(void)
{
	union ha_address address = {.in4 = {.sin_family = AF_INET, .sin_port = htons(4711)}};

	inet_pton(AF_INET, "10.1.2.3", &address.in4.sin_addr);
	return address;
}

static union ha_address address_v6(void)
{
	union ha_address address = {
		.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(4711), .sin6_scope_id = 3}};

	inet_pton(AF_INET6, "2001:db8::17", &address.in6.sin6_addr);
	return address;
}

static void handle_there_and_back(void **state)
{
	const union ha_address given[] = {address_v4(), address_v6()};
	union ha_address address;
	struct ha_handle handle;
	struct inc_err err = {""};
	unsigned int flags, i;
	uint64_t nonce;

	for (i = 0; i < 2; i++) {
		memset(&handle, 0xff, sizeof(handle));
		ha_handle_make(&handle, &given[i], i ? HA_HANDLE_DUAL : 0, NONCE);
		assert_int_equal(handle.comm, 0);
		assert_int_equal(ha_handle_read(&handle, &address, &flags, &nonce, &err), 0);
		assert_int_equal(flags, i ? HA_HANDLE_DUAL : 0);
		assert_true(nonce == NONCE);
		assert_int_equal(address.sa.sa_family, given[i].sa.sa_family);
		assert_int_equal(address.in4.sin_port, htons(4711));
		if (i) {
			assert_memory_equal(&address.in6.sin6_addr, &given[i].in6.sin6_addr, 16);
			assert_int_equal(address.in6.sin6_scope_id, 3);
		} else {
			assert_memory_equal(&address.in4.sin_addr, &given[i].in4.sin_addr, 4);
		}
	}
}

/* The format of a handle is fixed, because a peer on another machine or of another release reads
 * these bytes. */
static void handle_bytes(void **state)
{
	static const uint8_t expected[] = {/* bytes of magic, version, flags, family, 0 */
					   'H', 'A', 'H', 'N', 2, 1, 4, 0, 0x12, 0x67, 10, 1, 2, 3,
					   0, 0, /* bytes of port and address */
					   /* the remaining bytes of an IPv6 address */
					   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
					   0x23, /* bytes of scope and nonce */
					   0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0};
	const union ha_address address = address_v4();
	struct ha_handle handle;

	assert_int_equal(sizeof(handle), 128);
	ha_handle_make(&handle, &address, HA_HANDLE_DUAL, NONCE);
	assert_memory_equal(&handle, expected, sizeof(expected));
}

static void handle_refused(const struct ha_handle *handle, const char *why)
{
	union ha_address address;
	struct inc_err err = {""};
	unsigned int flags;
	uint64_t nonce;

	assert_int_equal(ha_handle_read(handle, &address, &flags, &nonce, &err), -EPROTO);
	assert_non_null(strstr(err.msg, why));
}

static void handle_foreign(void **state)
{
	const union ha_address address = address_v4();
	struct ha_handle good, handle;

	ha_handle_make(&good, &address, 0, NONCE);
	handle = good;
	handle.magic ^= 1;
	handle_refused(&handle, "magic");
	handle = good;
	handle.version++;
	handle_refused(&handle, "version 3, and this end's of version 2: ");
	handle = good;
	handle.version--;
	handle_refused(&handle, "version 1, and this end's of version 2: ");
	handle = good;
	handle.family = 5;
	handle_refused(&handle, "family 5");
	handle = good;
	handle.tcp_port = 0;
	handle_refused(&handle, "port 0");
	memset(&handle, 0, sizeof(handle));
	handle_refused(&handle, "magic");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_PAIR(there_and_back),
		WITH_PAIR(byte_by_byte),
		WITH_PAIR(partial_writes),
		WITH_PAIR(reads_nothing),
		WITH_PAIR(closes),
		WITH_PAIR(resets),
		WITH_PAIR(garbage),
		WITH_PAIR(nobody_listens),
		WITH_PAIR(interfaces),
		WITH_PAIR(ipv6),
		WITH_PAIR(sends_to_a_closed_peer),
		cmocka_unit_test(handle_there_and_back),
		cmocka_unit_test(handle_bytes),
		cmocka_unit_test(handle_foreign),
	};

	return cmocka_run_group_tests_name("socket and handle of a comm", tests, NULL, NULL);
}
