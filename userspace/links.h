/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The network interfaces of this namespace as the kernel has them now, read at once by netlink; and
 * when to read them again. All is called on the daemon's one thread.
 */
#ifndef INC_LINKS_H
#define INC_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <net/if.h>
#include "lib/base/err.h"

/* How often a list that changes while it is read is read again, before the reader gives up. */
#define INC_LINKS_TRIES 8
/* Changes within this time are looked at together, because each look reads all interfaces. */
#define INC_LINKS_GATHER_MS 20

struct inc_link {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	bool up;         /* as the operator wants it */
	uint32_t xdp_id; /* of its XDP program; 0: none */
};

/* All of them, in *out, which the caller frees. Returns how many, or -errno; -EINTR means that
 * interfaces changed during each of INC_LINKS_TRIES tries. */
int inc_links_read(struct inc_link **out);
/* NULL: there is none. */
const struct inc_link *inc_link_at(const struct inc_link *list, int n, uint32_t ifindex);
const struct inc_link *inc_link_called(const struct inc_link *list, int n, const char *name);

struct inc_links_watch;

/* Calls fn soon after any interface has changed, and every second, because a bpf_link that is
 * detached makes no message. */
int inc_links_watch_start(struct event_base *base, void (*fn)(void *arg), void *arg,
			  struct inc_links_watch **out, struct inc_err *err);
void inc_links_watch_stop(struct inc_links_watch *w);

#endif
