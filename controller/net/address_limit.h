/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits for each address that connects, over both ports: connections, messages per second and
 * lines of the log. The messages of an address that exceeds its limit wait, and its connections are
 * refused, without an effect on other addresses. The limit of an address is freed when it has no
 * connections and its whole budget is available again.
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

/* Counts one connection more for the peer's address, until inc_address_limit_release(). addr is the
 * address that accept() has returned, because a connection that is reset already has no other.
 * Returns NULL if the connection is refused, which the log reports at times. */
struct inc_address_limit *inc_address_limit_admit(struct inc_ctl *ctl, int fd,
						  const struct sockaddr *addr);
/* Counts one connection less for the address of the limit. limit may be NULL. */
void inc_address_limit_release(struct inc_address_limit *limit);

/* Returns the milliseconds until the address may send its next message. If that is 0, the message
 * is counted. */
unsigned int inc_address_limit_wait_ms(struct inc_address_limit *limit);

/* Frees the limits of all addresses. Called when the controller ends, after all connections are
 * closed. */
void inc_address_limits_free(struct inc_ctl *ctl);

#endif
