/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads all network interfaces of this namespace from the kernel by netlink, and watches for
 * changes. All functions are called on the daemon's only thread.
 */
#ifndef INC_LINKS_H
#define INC_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <net/if.h>
#include "lib/base/err.h"

/* Number of times that the list of interfaces is read before the reader gives up, because the list
 * has changed during each time. */
#define INC_LINKS_TRIES 8
/* Time for which changes are gathered before the interfaces are read once for all of them, because
 * each read lists all interfaces. */
#define INC_LINKS_GATHER_MS 20

struct inc_link {
	char name[IF_NAMESIZE];
	uint32_t ifindex;
	/* the operator has set the interface up (IFF_UP); the carrier may be missing all the
	 * same */
	bool up;
	bool no_carrier;  /* no signal comes from the other end of the cable */
	unsigned int mtu; /* 0: not known */
	uint32_t xdp_id;  /* id of the interface's XDP program; 0: none */
};

/* Reads all interfaces into *out, which the caller frees. Returns their number, or -errno. -EINTR
 * means that interfaces changed during each of INC_LINKS_TRIES tries. */
int inc_links_read(struct inc_link **out);
/* These return the interface with this index or name, or NULL. */
const struct inc_link *inc_link_at(const struct inc_link *list, int n, uint32_t ifindex);
const struct inc_link *inc_link_called(const struct inc_link *list, int n, const char *name);

struct inc_links_watch;

/* Calls fn soon after any interface or IPv4 address has changed, and every second as well, because
 * the kernel sends no message when a bpf_link is detached. */
int inc_links_watch_start(struct event_base *base, void (*fn)(void *arg), void *arg,
			  struct inc_links_watch **out, struct inc_err *err);
void inc_links_watch_stop(struct inc_links_watch *w);

#endif
