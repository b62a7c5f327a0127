// SPDX-License-Identifier: BSD-2-Clause
/* Limits of each address (remote.h). */
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "controller/net/ctl.h"
#include "controller/net/remote.h"
#include "lib/base/clock.h"
#include "lib/net/listen.h"

#define BURST_S     4   /* so many seconds' messages may come at once */
#define CONNECTION  4   /* messages that a connection costs, for its handshake */
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

static struct inc_remote *new_remote(struct inc_ctl *ctl, const char *name)
{
	struct inc_remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return NULL;
	strcpy(remote->name, name);
	if (ctl->opt.peer_messages_s)
		remote->messages.interval_ns = INC_NSEC_PER_SEC / ctl->opt.peer_messages_s;
	remote->messages.burst = (uint64_t)BURST_S * ctl->opt.peer_messages_s;
	remote->log.name = remote->name;
	remote->log.lines.interval_ns = INC_NSEC_PER_SEC / LOG_LINES_S;
	remote->log.lines.burst = LOG_BURST;
	LIST_INSERT_HEAD(&ctl->remotes, remote, entry);
	return remote;
}

static void free_remote(struct inc_remote *remote)
{
	LIST_REMOVE(remote, entry);
	free(remote);
}

/* The address of this name, NULL: none. Those that are gone and owe nothing are forgotten on the
 * way. */
static struct inc_remote *find_remote(struct inc_ctl *ctl, const char *name, uint64_t now_ns)
{
	struct inc_remote *remote, *next, *found = NULL;

	for (remote = LIST_FIRST(&ctl->remotes); remote; remote = next) {
		next = LIST_NEXT(remote, entry);
		if (!strcmp(remote->name, name))
			found = remote;
		else if (!remote->connections && inc_rate_full(&remote->messages, now_ns) &&
			 inc_rate_full(&remote->log.lines, now_ns))
			free_remote(remote);
	}
	return found;
}

struct inc_remote *inc_remote_connects(struct inc_ctl *ctl, const struct sockaddr *addr)
{
	const uint64_t now_ns = inc_now_ns();
	char name[INET6_ADDRSTRLEN], why[128];
	struct inc_remote *remote;

	name_of(addr, name);
	remote = find_remote(ctl, name, now_ns) ?: new_remote(ctl, name);
	if (!remote)
		return NULL;
	if (remote->connections >= ctl->opt.peer_connections) {
		snprintf(why, sizeof(why), "%s has %u", name, remote->connections);
	} else if (inc_rate_take(&remote->messages, CONNECTION, now_ns)) {
		snprintf(why, sizeof(why), "%s makes them too fast", name);
	} else {
		remote->connections++;
		return remote;
	}
	inc_listener_refused(why);
	return NULL;
}

void inc_remote_gone(struct inc_remote *remote)
{
	if (remote)
		remote->connections--;
}

unsigned int inc_remote_waits(struct inc_remote *remote)
{
	const uint64_t wait_ns = inc_rate_take(&remote->messages, 1, inc_now_ns());

	return (wait_ns + INC_NSEC_PER_MSEC - 1) / INC_NSEC_PER_MSEC;
}

void inc_remotes_free(struct inc_ctl *ctl)
{
	while (!LIST_EMPTY(&ctl->remotes))
		free_remote(LIST_FIRST(&ctl->remotes));
}
