/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects to one of several addresses by TCP. They are tried in their order, each a head start
 * after the one before, and the first that answers wins. So an address that does not answer delays
 * the next by its head start only, not by the whole time limit.
 *
 * libinccl, incctl and ha-nccl-perf use inc_race_run() and inc_reach(), which block. Event loops
 * use racing.h. Any thread, one at a time.
 */
#ifndef INC_RACE_H
#define INC_RACE_H

#include <poll.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;

struct inc_race {
	struct pollfd *runner;       /* connections being established; fd -1: failed */
	const struct addrinfo *next; /* the first address that has not been tried */
	unsigned int addresses, started, running;
	uint64_t start_at_ns; /* when the next address is tried */
	uint64_t head_start_ns, deadline_ns;
	int error; /* of the attempt that failed last */
	int won;   /* the connected descriptor, -1: none yet */
};

/* Begins a race. The list must outlive it. 0, and inc_race_end() must be called later; or
 * -ENOMEM. */
int inc_race_begin(struct inc_race *race, const struct addrinfo *list, uint64_t deadline_ns);
/*
 * Starts attempts that are due and checks those under way. Returns a connected non-blocking
 * socket, which the caller owns; -errno if no address can be reached, -ETIMEDOUT at the deadline;
 * or -EINPROGRESS. Then the caller calls again at *next_at_ns, or as soon as one of the started
 * runners is writable.
 */
int inc_race_step(struct inc_race *race, uint64_t *next_at_ns);
/* Closes all sockets but the one that inc_race_step() has returned. */
void inc_race_end(struct inc_race *race);

/* A complete race. Returns a connected socket or -errno. */
int inc_race_run(const struct addrinfo *list, uint64_t deadline_ns);
/* The same for a name; the time for its look-up counts, too. err does not name the host. */
int inc_reach(const struct inc_hostport *at, uint64_t deadline_ns, struct inc_err *err);

/* The result of an attempt that has ended: 0 if it is connected to a peer, else an errno.
 * ECONNREFUSED also means that the socket is connected to itself; the caller closes it like any
 * other, and that frees its port at once. */
int inc_race_ended(int fd);

#endif
