/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits of each address that connects, on both ports together: so many connections, so many
 * messages a second, so many lines of the log. One that wants more waits, or is not let in, and
 * nobody else notices. Addresses are forgotten once they are gone and owe nothing.
 */
#ifndef INC_CTL_ADDRESS_LIMIT_H
#define INC_CTL_ADDRESS_LIMIT_H

#include <netinet/in.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include "lib/base/log.h"
#include "lib/base/rate.h"

struct inc_ctl;

struct inc_address_limit {
	char name[INET6_ADDRSTRLEN];
	unsigned int connections;
	struct inc_rate messages;
	struct inc_log_account log;
	LIST_ENTRY(inc_address_limit) entry;
};

/* One more connection; inc_address_limit_release() when it ends. NULL: it is not to be, and the log
 * says why at times. */
struct inc_address_limit *inc_address_limit_admit(struct inc_ctl *ctl, const struct sockaddr *addr);
/* NULL is nothing. */
void inc_address_limit_release(struct inc_address_limit *limit);

/* Milliseconds until its next message may be taken; 0: one is. */
unsigned int inc_address_limit_wait_ms(struct inc_address_limit *limit);

/* At the end, after all connections. */
void inc_address_limits_free(struct inc_ctl *ctl);

#endif
