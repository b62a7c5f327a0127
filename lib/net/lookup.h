/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The addresses of a host's name. getaddrinfo() waits as long as the resolver likes, so a thread of
 * its own calls it. The owner waits for a descriptor, within the owner's own time limit, and may
 * give up at any moment. The thread then ends by itself when the resolver does. It blocks all
 * signals. A shared object with this code has to stay loaded until then (-z nodelete).
 *
 * Used by race.h, inc-switchd, libinc_connect and ha-nccl-perf. A look-up belongs to one thread at
 * a time. A child of fork() has no part in the look-ups of its parent.
 */
#ifndef INC_LOOKUP_H
#define INC_LOOKUP_H

#include <stdint.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

struct addrinfo;
struct inc_lookup;

/* Whether the host is an address in numbers. Nothing is asked and nothing waits. 0 and *list, which
 * is for freeaddrinfo(); -ENOENT: it is a name; or another -errno with the reason. */
int inc_lookup_number(const struct inc_hostport *at, struct addrinfo **list, struct inc_err *err);

/* Begins a look-up. 0, or -errno with the reason. */
int inc_lookup_start(const struct inc_hostport *at, struct inc_lookup **out, struct inc_err *err);

/* It can be read as soon as there is an answer. It is the look-up's. */
int inc_lookup_fd(const struct inc_lookup *lookup);

/*
 * Takes the answer, which ends the look-up. 0 and *list, which is for freeaddrinfo(); -EINPROGRESS:
 * there is none yet, and the look-up goes on. Otherwise the reason is gai_strerror()'s, and the
 * error is -EAGAIN: no name server has answered; -ENOMEM; an -errno of the system; or
 * -EHOSTUNREACH: there is no such name, or it has no address.
 */
int inc_lookup_end(struct inc_lookup *lookup, struct addrinfo **list, struct inc_err *err);

/* Gives up, whether or not there is an answer. Returns at once. NULL is fine. */
void inc_lookup_cancel(struct inc_lookup *lookup);

/* All of it for an owner without an event loop: a number or a name. As inc_lookup_end(), or
 * -ETIMEDOUT with the reason. */
int inc_lookup_wait(const struct inc_hostport *at, uint64_t deadline_ns, struct addrinfo **list,
		    struct inc_err *err);

#endif
