/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reaching one of several addresses by TCP. They are tried in their order, each with a head start
 * on the next; the first that answers is it. So an address that swallows what is sent to it costs
 * its head start, not the time limit.
 *
 * inc_race_run() and inc_reach() wait by themselves: libinccl, incctl and ha-nccl-perf. An event
 * loop has racing.h. Any thread, one at a time.
 */
#ifndef INC_RACE_H
#define INC_RACE_H

#include <poll.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;

struct inc_race {
	struct pollfd *runner;       /* connections on their way; fd -1: it has failed */
	const struct addrinfo *next; /* the first address that has not been tried */
	unsigned int addresses, started, running;
	uint64_t start_at_ns; /* of the next one */
	uint64_t head_start_ns, deadline_ns;
	int error; /* the last one that ended a try */
	int won;   /* descriptor, -1: none yet */
};

/* The list must outlive the race. 0 or -ENOMEM. inc_race_end() is due then. */
int inc_race_begin(struct inc_race *race, const struct addrinfo *list, uint64_t deadline_ns);
/*
 * Does what is due. Returns a connected socket, non-blocking, which is the caller's; -errno: no
 * address can be reached, -ETIMEDOUT at the deadline; or -EINPROGRESS: to be called again at
 * *next_at_ns, or as soon as one of the runners that have started can be written to.
 */
int inc_race_step(struct inc_race *race, uint64_t *next_at_ns);
/* Closes all sockets but the one that inc_race_step() has given. */
void inc_race_end(struct inc_race *race);

/* A whole race. A connected socket or -errno. */
int inc_race_run(const struct addrinfo *list, uint64_t deadline_ns);
/* The same by a name, whose look-up is within the time, too. The reason does not name the host. */
int inc_reach(const struct inc_hostport *at, uint64_t deadline_ns, struct inc_err *err);

/* A try that has ended: 0 where it reached somebody, else an errno. A socket that reached itself is
 * closed by the caller like any other, and frees its port at once. */
int inc_race_ended(int fd);

#endif
