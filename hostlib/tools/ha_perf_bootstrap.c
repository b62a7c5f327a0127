/* SPDX-License-Identifier: BSD-2-Clause */
/* The bootstrap network of ha-nccl-perf: all ranks connect to rank 0. */
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
#include "hostlib/tools/ha_perf.h"

#define LISTENERS 8 /* most addresses of its name on which rank 0 listens */
/* time limit in ms of one attempt to connect to rank 0, over all its addresses */
#define TRY_MS 1000

/* Sends all bytes (event POLLOUT), or receives them (event POLLIN), before the deadline. Returns 0
 * or -errno. */
static int transfer(int fd, void *data, size_t bytes, short event, uint64_t end_at_ms)
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

/* Listens on each address of this machine that a name has, because the other ranks may reach only
 * some of them. Returns the number of sockets, or -errno of the last address. */
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

/* Accepts a connection of another rank, and reads its rank. Returns true if that rank was still
 * missing. */
static bool accept_rank(struct ha_bootstrap *bootstrap, int fd, uint64_t end_at_ms)
{
	const int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uint32_t rank;

	if (peer < 0)
		return false;
	if (transfer(peer, &rank, sizeof(rank), POLLIN, end_at_ms) || !ntohl(rank) ||
	    ntohl(rank) >= bootstrap->ranks || bootstrap->fd[ntohl(rank)] >= 0) {
		close(peer);
		return false;
	}
	bootstrap->fd[ntohl(rank)] = peer;
	return true;
}

static int accept_ranks(struct ha_bootstrap *bootstrap, const struct addrinfo *info,
			uint64_t end_at_ms)
{
	struct pollfd at[LISTENERS];
	const int n = listen_at_all(info, bootstrap->ranks, at);
	unsigned int have = 1;
	int err = n < 0 ? n : 0;

	while (!err && have < bootstrap->ranks) {
		const uint64_t now_ms = inc_now_ms();

		if (now_ms >= end_at_ms)
			err = -ETIMEDOUT;
		if (err || poll(at, n, (int)(end_at_ms - now_ms)) <= 0)
			continue;
		for (int i = 0; i < n && have < bootstrap->ranks; i++)
			have += at[i].revents && accept_rank(bootstrap, at[i].fd, end_at_ms);
	}
	for (int i = 0; i < n; i++)
		close(at[i].fd);
	return err;
}

/* Connects to rank 0 and sends this rank's number. Rank 0 may start later, so its addresses are
 * tried repeatedly. */
static int connect_to_root(struct ha_bootstrap *bootstrap, const struct addrinfo *info,
			   uint64_t end_at_ms)
{
	uint32_t rank = htonl(bootstrap->rank);

	for (;;) {
		const uint64_t now_ms = inc_now_ms();
		const uint64_t try_until_ms =
			end_at_ms - now_ms > TRY_MS ? now_ms + TRY_MS : end_at_ms;
		int fd;

		if (now_ms >= end_at_ms)
			return -ETIMEDOUT;
		fd = inc_race_run(info, try_until_ms * INC_NSEC_PER_MSEC);
		if (fd >= 0) {
			bootstrap->fd[0] = fd;
			return transfer(fd, &rank, sizeof(rank), POLLOUT, end_at_ms);
		}
		poll(NULL, 0, 20);
	}
}

int ha_bootstrap_open(struct ha_bootstrap *bootstrap, const struct inc_hostport *root,
		      struct inc_err *err)
{
	const uint64_t end_at_ms = inc_now_ms() + bootstrap->limit_ms;
	struct addrinfo *info;
	struct inc_err why;
	const int yes = 1;
	int code;

	for (int i = 0; i < HA_PERF_MAX_RANKS; i++)
		bootstrap->fd[i] = -1;
	code = inc_lookup_wait(root, end_at_ms * INC_NSEC_PER_MSEC, &info, &why);
	if (code)
		return inc_err_set(err, -code, "%s: %s", root->host, why.msg);
	code = bootstrap->rank ? connect_to_root(bootstrap, info, end_at_ms)
			       : accept_ranks(bootstrap, info, end_at_ms);
	freeaddrinfo(info);
	for (int i = 0; i < HA_PERF_MAX_RANKS; i++)
		if (bootstrap->fd[i] >= 0)
			setsockopt(bootstrap->fd[i], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	return code ? inc_err_set(err, -code, "ranks do not meet at %s port %s: %s", root->host,
				  root->port, strerror(-code))
		    : 0;
}

void ha_bootstrap_close(struct ha_bootstrap *bootstrap)
{
	for (int i = 0; i < HA_PERF_MAX_RANKS; i++)
		if (bootstrap->fd[i] >= 0)
			close(bootstrap->fd[i]);
}

int ha_bootstrap_gather(struct ha_bootstrap *bootstrap, const void *own, size_t bytes, void *all,
			struct inc_err *err)
{
	const uint64_t end_at_ms = inc_now_ms() + bootstrap->limit_ms;
	uint8_t *blocks = all;
	unsigned int i = 0;
	int code = 0;

	memcpy(blocks + bootstrap->rank * bytes, own, bytes);
	if (bootstrap->rank) {
		code = transfer(bootstrap->fd[0], blocks + bootstrap->rank * bytes, bytes, POLLOUT,
				end_at_ms);
		if (!code)
			code = transfer(bootstrap->fd[0], blocks, bootstrap->ranks * bytes, POLLIN,
					end_at_ms);
		return code ? inc_err_set(err, -code, "rank 0: %s", strerror(-code)) : 0;
	}
	for (i = 1; i < bootstrap->ranks && !code; i++)
		code = transfer(bootstrap->fd[i], blocks + i * bytes, bytes, POLLIN, end_at_ms);
	if (code)
		return inc_err_set(err, -code, "rank %u: %s", i - 1, strerror(-code));
	for (i = 1; i < bootstrap->ranks && !code; i++)
		code = transfer(bootstrap->fd[i], blocks, bootstrap->ranks * bytes, POLLOUT,
				end_at_ms);
	return code ? inc_err_set(err, -code, "rank %u: %s", i - 1, strerror(-code)) : 0;
}

int ha_bootstrap_lost_rank(const struct ha_bootstrap *bootstrap)
{
	char byte;

	for (int i = 0; i < HA_PERF_MAX_RANKS; i++) {
		ssize_t n;

		if (bootstrap->fd[i] < 0)
			continue;
		n = recv(bootstrap->fd[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
			return i;
	}
	return -1;
}
