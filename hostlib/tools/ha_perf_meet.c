/* SPDX-License-Identifier: BSD-2-Clause */
/* The ranks of ha-nccl-perf meet at rank 0. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/tools/ha_perf_meet.h"

/* The whole of it, before the deadline: 0 or -errno. */
static int move(int fd, void *data, size_t bytes, short event, uint64_t end_at_ms)
{
	uint8_t *at = data;

	while (bytes) {
		struct pollfd p = {.fd = fd, .events = event};
		const uint64_t now_ms = inc_now_ms();
		ssize_t n;

		if (now_ms >= end_at_ms)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)(end_at_ms - now_ms)) <= 0)
			continue;
		n = event == POLLIN ? recv(fd, at, bytes, MSG_DONTWAIT)
				    : send(fd, at, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (!n)
			return -ECONNRESET;
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0) {
			at += n;
			bytes -= n;
		}
	}
	return 0;
}

static int listen_at(const struct addrinfo *info, unsigned int backlog)
{
	const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, (int)backlog)) {
		const int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static int serve(struct ha_meet *meet, const struct addrinfo *info, uint64_t end_at_ms)
{
	const int fd = listen_at(info, meet->ranks);
	unsigned int have = 1;
	int err = fd < 0 ? fd : 0;

	while (!err && have < meet->ranks) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		const uint64_t now_ms = inc_now_ms();
		uint32_t rank;
		int peer;

		if (now_ms >= end_at_ms)
			err = -ETIMEDOUT;
		if (err || poll(&p, 1, (int)(end_at_ms - now_ms)) <= 0)
			continue;
		peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (peer < 0)
			continue;
		if (move(peer, &rank, sizeof(rank), POLLIN, end_at_ms) || !ntohl(rank) ||
		    ntohl(rank) >= meet->ranks || meet->fd[ntohl(rank)] >= 0) {
			close(peer);
			continue;
		}
		meet->fd[ntohl(rank)] = peer;
		have++;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* Rank 0 may come later. */
static int call(struct ha_meet *meet, const struct addrinfo *info, uint64_t end_at_ms)
{
	uint32_t rank = htonl(meet->rank);

	for (;;) {
		const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			return -errno;
		if (!connect(fd, info->ai_addr, info->ai_addrlen)) {
			meet->fd[0] = fd;
			return move(fd, &rank, sizeof(rank), POLLOUT, end_at_ms);
		}
		close(fd);
		if (inc_now_ms() >= end_at_ms)
			return -ETIMEDOUT;
		poll(NULL, 0, 20);
	}
}

int ha_meet_open(struct ha_meet *meet, const struct inc_hostport *root, struct inc_err *err)
{
	const uint64_t end_at_ms = inc_now_ms() + meet->limit_ms;
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *info;
	const int yes = 1;
	int code;

	for (int i = 0; i < HA_MEET_MAX_RANKS; i++)
		meet->fd[i] = -1;
	code = getaddrinfo(root->host, root->port, &hints, &info);
	if (code)
		return inc_err_set(err, EINVAL, "%s: %s", root->host, gai_strerror(code));
	code = meet->rank ? call(meet, info, end_at_ms) : serve(meet, info, end_at_ms);
	freeaddrinfo(info);
	for (int i = 0; i < HA_MEET_MAX_RANKS; i++)
		if (meet->fd[i] >= 0)
			setsockopt(meet->fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return code ? inc_err_set(err, -code, "ranks do not meet at %s port %s: %s", root->host,
				  root->port, strerror(-code))
		    : 0;
}

void ha_meet_close(struct ha_meet *meet)
{
	for (int i = 0; i < HA_MEET_MAX_RANKS; i++)
		if (meet->fd[i] >= 0)
			close(meet->fd[i]);
}

int ha_meet_gather(struct ha_meet *meet, const void *own, size_t bytes, void *all,
		   struct inc_err *err)
{
	const uint64_t end_at_ms = inc_now_ms() + meet->limit_ms;
	uint8_t *blocks = all;
	unsigned int i = 0;
	int code = 0;

	memcpy(blocks + meet->rank * bytes, own, bytes);
	if (meet->rank) {
		code = move(meet->fd[0], blocks + meet->rank * bytes, bytes, POLLOUT, end_at_ms);
		if (!code)
			code = move(meet->fd[0], blocks, meet->ranks * bytes, POLLIN, end_at_ms);
		return code ? inc_err_set(err, -code, "rank 0: %s", strerror(-code)) : 0;
	}
	for (i = 1; i < meet->ranks && !code; i++)
		code = move(meet->fd[i], blocks + i * bytes, bytes, POLLIN, end_at_ms);
	if (code)
		return inc_err_set(err, -code, "rank %u: %s", i - 1, strerror(-code));
	for (i = 1; i < meet->ranks && !code; i++)
		code = move(meet->fd[i], blocks, meet->ranks * bytes, POLLOUT, end_at_ms);
	return code ? inc_err_set(err, -code, "rank %u: %s", i - 1, strerror(-code)) : 0;
}

int ha_meet_gone(const struct ha_meet *meet)
{
	char byte;

	for (int i = 0; i < HA_MEET_MAX_RANKS; i++) {
		ssize_t n;

		if (meet->fd[i] < 0)
			continue;
		n = recv(meet->fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
			return i;
	}
	return -1;
}
