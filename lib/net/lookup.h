/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Looks up the addresses of a host's name. getaddrinfo() may block for any time, so a separate
 * thread calls it. The owner of the look-up waits for a descriptor, within the owner's own time
 * limit, and may give up at any moment. The thread then ends when getaddrinfo() returns. The thread
 * blocks all signals. A shared object with this code must stay loaded until then (-z nodelete).
 *
 * race.h, inc-switchd, libinc_connect and ha-nccl-perf use it. A look-up belongs to one thread at
 * a time. A child of fork() must not use its parent's look-ups.
 */
#ifndef INC_LOOKUP_H
#define INC_LOOKUP_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;
struct inc_lookup;

/* Converts a host that is a numeric address, without any look-up. Returns 0 and *list, which the
 * caller frees by freeaddrinfo(). -ENOENT: the host is a name. Any other -errno comes with the
 * reason. */
int inc_lookup_number(const struct inc_hostport *at, struct addrinfo **list, struct inc_err *err);

/* Begins a look-up. Returns 0, or -errno with the reason. */
int inc_lookup_start(const struct inc_hostport *at, struct inc_lookup **out, struct inc_err *err);

/* Returns the descriptor of the look-up, which is readable as soon as there is an answer. The
 * look-up owns the descriptor. */
int inc_lookup_fd(const struct inc_lookup *lookup);

/*
 * Returns the answer and frees the look-up. On success it returns 0 and *list, which the caller
 * frees by freeaddrinfo(). -EINPROGRESS: there is no answer yet, and the look-up goes on. On other
 * errors the reason is the text of gai_strerror(). -EAGAIN: no name server has answered; -ENOMEM;
 * an -errno of the system; -EHOSTUNREACH: there is no such name, or it has no address.
 */
int inc_lookup_end(struct inc_lookup *lookup, struct addrinfo **list, struct inc_err *err);

/* Gives up the look-up, with or without an answer. Returns at once. NULL is allowed. */
void inc_lookup_cancel(struct inc_lookup *lookup);

/* A complete look-up of a number or a name, for an owner without an event loop. Returns the
 * values of inc_lookup_end(), or -ETIMEDOUT with the reason. */
int inc_lookup_wait(const struct inc_hostport *at, uint64_t deadline_ns, struct addrinfo **list,
		    struct inc_err *err);

#endif
