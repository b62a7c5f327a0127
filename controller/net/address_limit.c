// SPDX-License-Identifier: BSD-2-Clause
/* Limits for each address that connects (address_limit.h). */
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "controller/net/ctl.h"
#include "controller/net/address_limit.h"
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/net/listen.h"

#define BURST_S 4 /* seconds of an address's message rate that may be used up at once */
/* number of messages that a new connection counts as, because its handshake takes time */
#define CONNECTION  4
#define LOG_BURST   200 /* lines */
#define LOG_LINES_S 2

static void name_of(const struct sockaddr *addr, char name[INET6_ADDRSTRLEN])
{
	const void *bytes = addr->sa_family == AF_INET6
				    ? (const void *)&((const struct sockaddr_in6 *)addr)->sin6_addr
				    : (const void *)&((const struct sockaddr_in *)addr)->sin_addr;

	if (!inet_ntop(addr->sa_family, bytes, name, INET6_ADDRSTRLEN))
		strcpy(name, "?");
}

static struct inc_address_limit *new_limit(struct inc_ctl *ctl, const char *name)
{
	struct inc_address_limit *limit = calloc(1, sizeof(*limit));

	if (!limit)
		return NULL;
	strcpy(limit->name, name);
	if (ctl->opt.peer_messages_s)
		limit->messages.interval_ns = INC_NSEC_PER_SEC / ctl->opt.peer_messages_s;
	limit->messages.burst = (uint64_t)BURST_S * ctl->opt.peer_messages_s;
	limit->log.name = limit->name;
	limit->log.lines.interval_ns = INC_NSEC_PER_SEC / LOG_LINES_S;
	limit->log.lines.burst = LOG_BURST;
	LIST_INSERT_HEAD(&ctl->address_limits, limit, entry);
	return limit;
}

static void free_limit(struct inc_address_limit *limit)
{
	LIST_REMOVE(limit, entry);
	free(limit);
}

/* Finds the limit of an address; NULL if there is none. It also frees limits of other addresses
 * that have no connections and their whole budget. */
static struct inc_address_limit *find_limit(struct inc_ctl *ctl, const char *name, uint64_t now_ns)
{
	struct inc_address_limit *limit, *next, *found = NULL;

	for (limit = LIST_FIRST(&ctl->address_limits); limit; limit = next) {
		next = LIST_NEXT(limit, entry);
		if (!strcmp(limit->name, name))
			found = limit;
		else if (!limit->connections && inc_rate_full(&limit->messages, now_ns) &&
			 inc_rate_full(&limit->log.lines, now_ns))
			free_limit(limit);
	}
	return found;
}

struct inc_address_limit *inc_address_limit_admit(struct inc_ctl *ctl, int fd,
						  const struct sockaddr *addr)
{
	const uint64_t now_ns = inc_now_ns();
	char name[INET6_ADDRSTRLEN], why[128];
	struct inc_address_limit *limit;
	struct sockaddr_storage peer;
	socklen_t len;

	name_of(inc_os.stream.peer(fd, &peer, &len) ? addr : (struct sockaddr *)&peer, name);
	limit = find_limit(ctl, name, now_ns) ?: new_limit(ctl, name);
	if (!limit)
		return NULL;
	if (limit->connections >= ctl->opt.peer_connections) {
		snprintf(why, sizeof(why), "%s has %u connections", name, limit->connections);
	} else if (inc_rate_take(&limit->messages, CONNECTION, now_ns)) {
		snprintf(why, sizeof(why), "%s connects too often", name);
	} else {
		limit->connections++;
		return limit;
	}
	inc_listener_refused(why);
	return NULL;
}

void inc_address_limit_release(struct inc_address_limit *limit)
{
	if (limit)
		limit->connections--;
}

unsigned int inc_address_limit_wait_ms(struct inc_address_limit *limit)
{
	const uint64_t wait_ns = inc_rate_take(&limit->messages, 1, inc_now_ns());

	return (wait_ns + INC_NSEC_PER_MSEC - 1) / INC_NSEC_PER_MSEC;
}

void inc_address_limits_free(struct inc_ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->address_limits))
		free_limit(LIST_FIRST(&ctl->address_limits));
}
