/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects to one of several addresses by TCP. The addresses are tried in their order. Each attempt
 * begins a head start, which is a fixed time, after the one before, and the first address that
 * answers wins. So an address that does not answer delays the next by its head start only, not by
 * the whole time limit.
 *
 * libinccl, incctl and ha-nccl-perf use inc_race_run() and inc_reach(), which block. Event loops
 * use racing.h. Any thread may call the functions, one thread at a time.
 */
#ifndef INC_RACE_H
#define INC_RACE_H

#include <poll.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;

struct inc_race {
	/* the attempts to connect, one socket each; fd -1: the attempt has failed */
	struct pollfd *runner;
	const struct addrinfo *next; /* the first address for which there was no attempt yet */
	unsigned int addresses, started, running;
	uint64_t start_at_ns; /* time when the attempt for the address `next` begins */
	uint64_t head_start_ns, deadline_ns;
	int error; /* errno of the attempt that failed last */
	int won;   /* the connected descriptor; -1: none yet */
};

/* Begins a race among the addresses in list, which must outlive the race. Returns 0, after which
 * inc_race_end() must be called, or -ENOMEM. */
int inc_race_begin(struct inc_race *race, const struct addrinfo *list, uint64_t deadline_ns);
/*
 * Starts attempts that are due and checks those under way. Returns a connected non-blocking socket,
 * which the caller owns; -errno if no address can be reached, -ETIMEDOUT at the deadline; or
 * -EINPROGRESS. In the last case the caller calls again at *next_at_ns, or as soon as one of the
 * sockets in race->runner is writable.
 */
int inc_race_step(struct inc_race *race, uint64_t *next_at_ns);
/* Closes all sockets but the one that inc_race_step() has returned. */
void inc_race_end(struct inc_race *race);

/* Runs a complete race. Returns a connected socket or -errno. */
int inc_race_run(const struct addrinfo *list, uint64_t deadline_ns);
/* Looks up a name, and runs a complete race among its addresses. The time limit includes the
 * look-up. Returns like inc_race_run(). err does not name the host. */
int inc_reach(const struct inc_hostport *at, uint64_t deadline_ns, struct inc_err *err);

/* Returns the result of an attempt that has ended: 0 if it is connected to a peer, else an errno.
 * ECONNREFUSED also means that the socket is connected to itself. The caller closes such a socket
 * like any other, which frees its port at once. */
int inc_race_ended(int fd);

#endif
