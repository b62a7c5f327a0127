/* SPDX-License-Identifier: BSD-2-Clause */
/* The ranks of ha-nccl-perf meet at rank 0. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/net/lookup.h"
#include "lib/net/race.h"
#include "hostlib/tools/ha_perf_meet.h"

#define LISTENERS 8    /* addresses of rank 0 */
#define TRY_MS    1000 /* for one try of all addresses */

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
	const int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int yes = 1;

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

/* At all addresses of the name that are this machine's, because the others may reach only some of
 * them. How many sockets, or -errno of the last address. */
static int listen_at_all(const struct addrinfo *info, unsigned int backlog, struct pollfd *at)
{
	int n = 0, err = -EADDRNOTAVAIL;

	for (; info && n < LISTENERS; info = info->ai_next) {
		const int fd = listen_at(info, backlog);

		if (fd < 0)
			err = fd;
		else
			at[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	return n ?: err;
}

/* A rank that has come to one of the sockets, if it says a number that is still missing. */
static bool take(struct ha_meet *meet, int fd, uint64_t end_at_ms)
{
	const int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uint32_t rank;

	if (peer < 0)
		return false;
	if (move(peer, &rank, sizeof(rank), POLLIN, end_at_ms) || !ntohl(rank) ||
	    ntohl(rank) >= meet->ranks || meet->fd[ntohl(rank)] >= 0) {
		close(peer);
		return false;
	}
	meet->fd[ntohl(rank)] = peer;
	return true;
}

static int serve(struct ha_meet *meet, const struct addrinfo *info, uint64_t end_at_ms)
{
	struct pollfd at[LISTENERS];
	const int n = listen_at_all(info, meet->ranks, at);
	unsigned int have = 1;
	int err = n < 0 ? n : 0;

	while (!err && have < meet->ranks) {
		const uint64_t now_ms = inc_now_ms();

		if (now_ms >= end_at_ms)
			err = -ETIMEDOUT;
		if (err || poll(at, n, (int)(end_at_ms - now_ms)) <= 0)
			continue;
		for (int i = 0; i < n && have < meet->ranks; i++)
			have += at[i].revents && take(meet, at[i].fd, end_at_ms);
	}
	for (int i = 0; i < n; i++)
		close(at[i].fd);
	return err;
}

/* Rank 0 may come later, so all its addresses are tried again and again. */
static int call(struct ha_meet *meet, const struct addrinfo *info, uint64_t end_at_ms)
{
	uint32_t rank = htonl(meet->rank);

	for (;;) {
		const uint64_t now_ms = inc_now_ms();
		const uint64_t try_until_ms =
			end_at_ms - now_ms > TRY_MS ? now_ms + TRY_MS : end_at_ms;
		int fd;

		if (now_ms >= end_at_ms)
			return -ETIMEDOUT;
		fd = inc_race_run(info, try_until_ms * INC_NSEC_PER_MSEC);
		if (fd >= 0) {
			meet->fd[0] = fd;
			return move(fd, &rank, sizeof(rank), POLLOUT, end_at_ms);
		}
		poll(NULL, 0, 20);
	}
}

int ha_meet_open(struct ha_meet *meet, const struct inc_hostport *root, struct inc_err *err)
{
	const uint64_t end_at_ms = inc_now_ms() + meet->limit_ms;
	struct addrinfo *info;
	struct inc_err why;
	const int yes = 1;
	int code;

	for (int i = 0; i < HA_MEET_MAX_RANKS; i++)
		meet->fd[i] = -1;
	code = inc_lookup_wait(root, end_at_ms * INC_NSEC_PER_MSEC, &info, &why);
	if (code)
		return inc_err_set(err, -code, "%s: %s", root->host, why.msg);
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
