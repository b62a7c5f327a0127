/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reaching one of several addresses. They are tried in their order, each with a head start on the
 * next; the first that answers is it. So an address that swallows what is sent to it
 * costs its head start, not the deadline.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/src/internal.h"

#define HEAD_START_MS 250

struct race {
	struct pollfd *runners; /* connections on their way; fd -1: it has failed */
	unsigned int started, running;
	int error; /* the last one that ended a try */
	int won;   /* descriptor, -1: none yet */
};

/* Where nobody listens, and the kernel takes that very port for the source, TCP connects a socket
 * to itself; it would keep the port from the controller that comes back. */
int inccl_connect_ended(int fd)
{
	static const struct linger at_once = {.l_onoff = 1};
	struct sockaddr_storage here, there;
	socklen_t len = sizeof(int), here_len = sizeof(here), there_len = sizeof(there);
	int err;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
		return errno;
	if (err)
		return err;
	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	if (getpeername(fd, (struct sockaddr *)&there, &there_len) ||
	    getsockname(fd, (struct sockaddr *)&here, &here_len))
		return errno;
	if (here_len != there_len || memcmp(&here, &there, here_len))
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return ECONNREFUSED;
}

/* The runner has arrived or failed. */
static void finish(struct race *race, struct pollfd *runner)
{
	int err = inccl_connect_ended(runner->fd);

	if (err) {
		race->error = err;
		close(runner->fd);
	} else {
		race->won = runner->fd;
	}
	runner->fd = -1;
}

static void start(struct race *race, const struct addrinfo *ai)
{
	struct pollfd *runner = &race->runners[race->started++];

	runner->events = POLLOUT;
	runner->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (runner->fd < 0) {
		race->error = errno;
		return;
	}
	if (!connect(runner->fd, ai->ai_addr, ai->ai_addrlen)) {
		finish(race, runner);
	} else if (errno == EINPROGRESS) {
		race->running++;
	} else {
		race->error = errno;
		close(runner->fd);
		runner->fd = -1;
	}
}

/* Until one has arrived or failed, or the time. */
static void watch(struct race *race, uint64_t until_ns)
{
	uint64_t now = inc_now_ns();
	unsigned int i;

	if (poll(race->runners, race->started,
		 until_ns > now ? (until_ns - now) / INC_NSEC_PER_MSEC + 1 : 0) <= 0)
		return;
	for (i = 0; i < race->started && race->won < 0; i++) {
		struct pollfd *runner = &race->runners[i];

		if (runner->fd < 0 || !runner->revents)
			continue;
		finish(race, runner);
		race->running--;
	}
}

static unsigned int count(const struct addrinfo *ai)
{
	unsigned int n = 0;

	for (; ai; ai = ai->ai_next)
		n++;
	return n;
}

int inccl_connect_any(const struct addrinfo *list, uint64_t deadline_ns)
{
	struct race race = {.error = EADDRNOTAVAIL, .won = -1};
	const struct addrinfo *next = list;
	uint64_t start_ns = 0, now = inc_now_ns(),
		 head_start_ns = HEAD_START_MS * INC_NSEC_PER_MSEC;
	unsigned int i, addresses = count(list);

	race.runners = calloc(addresses + 1, sizeof(*race.runners));
	if (!race.runners)
		return -ENOMEM;
	/* however short the time is, each has some of it */
	if (now < deadline_ns && (deadline_ns - now) / (addresses + 1) < head_start_ns)
		head_start_ns = (deadline_ns - now) / (addresses + 1);
	while (race.won < 0 && (next || race.running)) {
		now = inc_now_ns();
		if (now >= deadline_ns) {
			race.error = ETIMEDOUT;
			break;
		}
		if (next && (!race.running || now >= start_ns)) {
			start(&race, next);
			next = next->ai_next;
			start_ns = now + head_start_ns;
			continue;
		}
		watch(&race, next && start_ns < deadline_ns ? start_ns : deadline_ns);
	}
	for (i = 0; i < race.started; i++)
		if (race.runners[i].fd >= 0)
			close(race.runners[i].fd);
	free(race.runners);
	return race.won >= 0 ? race.won : -race.error;
}
