/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/net/lookup.h"
#include "lib/net/race.h"
#include "lib/net/wait.h"

#define HEAD_START_MS 250

/* Checks also whether the socket is connected to itself, which counts as refused. TCP does so if no
 * program listens on the port and the kernel chooses that very port as the source. Such a socket
 * would hold the port, so the controller could not listen there when it restarts. */
int inc_race_ended(int fd)
{
	static const struct linger at_once = {.l_onoff = 1};
	struct sockaddr_storage here, there;
	socklen_t here_len, there_len;
	int ret = inc_os.stream.result(fd);

	if (ret)
		return -ret;
	memset(&here, 0, sizeof(here));
	memset(&there, 0, sizeof(there));
	ret = inc_os.stream.peer(fd, &there, &there_len) ?: inc_os.stream.own(fd, &here, &here_len);
	if (ret)
		return -ret;
	if (here_len != there_len || memcmp(&here, &there, here_len))
		return 0;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	return ECONNREFUSED;
}

/* Handles the end of one attempt to connect, which is connected or has failed. runner: the
 * attempt. */
static void finish(struct inc_race *race, struct pollfd *runner)
{
	int err = inc_race_ended(runner->fd);

	if (err) {
		race->error = err;
		close(runner->fd);
	} else {
		race->won = runner->fd;
	}
	runner->fd = -1;
}

static void start(struct inc_race *race, const struct addrinfo *ai)
{
	struct pollfd *runner = &race->runner[race->started++];

	runner->events = POLLOUT;
	runner->fd = inc_os.stream.connect(ai->ai_addr, ai->ai_addrlen);
	if (runner->fd >= 0) {
		race->running++;
	} else {
		race->error = -runner->fd;
		runner->fd = -1;
	}
}

/* Checks the attempts that are under way, and handles those that are connected or have failed,
 * until one is connected. */
static void look(struct inc_race *race)
{
	unsigned int i;

	if (!race->running || inc_wait_poll(race->runner, race->started, 0) <= 0)
		return;
	for (i = 0; i < race->started && race->won < 0; i++) {
		struct pollfd *runner = &race->runner[i];

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

int inc_race_begin(struct inc_race *race, const struct addrinfo *list, uint64_t deadline_ns)
{
	const uint64_t now_ns = inc_now_ns();
	uint64_t share_ns;

	*race = (struct inc_race){
		.next = list,
		.addresses = count(list),
		.head_start_ns = HEAD_START_MS * INC_NSEC_PER_MSEC,
		.deadline_ns = deadline_ns,
		.error = EADDRNOTAVAIL,
		.won = -1,
	};
	race->runner = calloc(race->addresses + 1, sizeof(*race->runner));
	if (!race->runner)
		return -ENOMEM;
	/* shorten the head start if the deadline is near, so that every address is tried in time */
	share_ns = now_ns < deadline_ns ? (deadline_ns - now_ns) / (race->addresses + 1) : 0;
	if (share_ns < race->head_start_ns)
		race->head_start_ns = share_ns;
	return 0;
}

int inc_race_step(struct inc_race *race, uint64_t *next_at_ns)
{
	uint64_t now_ns;

	look(race);
	while (race->won < 0 && (race->next || race->running)) {
		now_ns = inc_now_ns();
		if (now_ns >= race->deadline_ns)
			return -ETIMEDOUT;
		if (!race->next || (race->running && now_ns < race->start_at_ns)) {
			*next_at_ns = race->next && race->start_at_ns < race->deadline_ns
					      ? race->start_at_ns
					      : race->deadline_ns;
			return -EINPROGRESS;
		}
		start(race, race->next);
		race->next = race->next->ai_next;
		race->start_at_ns = now_ns + race->head_start_ns;
		look(race); /* check at once, because an attempt may be connected without a wait */
	}
	return race->won >= 0 ? race->won : -race->error;
}

void inc_race_end(struct inc_race *race)
{
	unsigned int i;

	for (i = 0; i < race->started; i++)
		if (race->runner[i].fd >= 0)
			close(race->runner[i].fd);
	free(race->runner);
}

int inc_race_run(const struct addrinfo *list, uint64_t deadline_ns)
{
	struct inc_race race;
	uint64_t next_at_ns;
	int ret = inc_race_begin(&race, list, deadline_ns);

	if (ret)
		return ret;
	while ((ret = inc_race_step(&race, &next_at_ns)) == -EINPROGRESS)
		inc_wait_poll(race.runner, race.started, inc_ms_until(next_at_ns, inc_now_ns()));
	inc_race_end(&race);
	return ret;
}

int inc_reach(const struct inc_hostport *at, uint64_t deadline_ns, struct inc_err *err)
{
	struct addrinfo *list;
	int ret = inc_lookup_wait(at, deadline_ns, &list, err);

	if (ret)
		return ret;
	ret = inc_race_run(list, deadline_ns);
	freeaddrinfo(list);
	return ret < 0 ? inc_err_set(err, -ret, "%s", strerror(-ret)) : ret;
}
