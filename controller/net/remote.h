/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits of each address that connects, on both ports together: so many connections, so many
 * messages a second, so many lines of the log. One that wants more waits, or is not let in, and
 * nobody else notices. Addresses are forgotten once they are gone and owe nothing.
 */
#ifndef INC_CTL_REMOTE_H
#define INC_CTL_REMOTE_H

#include <netinet/in.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include "lib/base/log.h"
#include "lib/base/rate.h"

struct inc_ctl;

struct inc_remote {
	char name[INET6_ADDRSTRLEN];
	unsigned int connections;
	struct inc_rate messages;
	struct inc_log_account log;
	LIST_ENTRY(inc_remote) entry;
};

/* One more connection; inc_remote_gone() when it ends. NULL: it is not to be, and the log says why
 * at times. */
struct inc_remote *inc_remote_connects(struct inc_ctl *ctl, const struct sockaddr *addr);
/* NULL is nothing. */
void inc_remote_gone(struct inc_remote *remote);

/* Milliseconds until its next message may be taken; 0: one is. */
unsigned int inc_remote_waits(struct inc_remote *remote);

/* At the end, after all connections. */
void inc_remotes_free(struct inc_ctl *ctl);

#endif
