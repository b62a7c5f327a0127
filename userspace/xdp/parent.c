/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the parent is on the link. Children send first, so their frames tell; the parent's come
 * only after the first partial sum has reached it. What the neighbour table did not know when the
 * communicator was made, or knew no more than from long ago, it is made to find out: a datagram to
 * the parent makes the kernel ask.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/xdp/neighbour.h"
#include "userspace/xdp/slowpath_priv.h"

/* After how long an answer of the kernel is looked for: at first, and, twice as long each time, at
 * most. */
#define LOOK_FIRST_MS   5
#define LOOK_MOST_MS    1000
#define SILENT_TIMEOUTS 2 /* in a row: perhaps the parent is somewhere else */
#define DISCARD_PORT    9

/* An empty datagram from the port's address. Whether it gets there does not matter. */
static int provoke(const struct inc_conn_cfg *cfg)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = cfg->peer_addr,
				 .sin_port = htons(DISCARD_PORT)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), ret = 0;
	char name[IF_NAMESIZE];

	if (fd < 0)
		return -errno;
	if (!if_indextoname(cfg->ifindex, name) ||
	    setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, name, strlen(name)) ||
	    sendto(fd, "", 0, 0, (struct sockaddr *)&to, sizeof(to)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Is it not known where the parent is, or is it silent there? */
static bool is_lost(const struct sp_conn *c, const struct inc_conn_state *st)
{
	return !(st->mac.word || st->mac_hint.word) || c->rto.backoff >= SILENT_TIMEOUTS;
}

/* The kernel's answer to the last question, if there is one by now that tells something new. */
static bool look(struct inc_slowpath *sp, struct sp_conn *c, const struct inc_conn_state *st)
{
	const struct inc_conn_cfg *cfg = conn_cfg(sp, c);
	uint8_t mac[6];

	if (inc_neighbour_mac(cfg->ifindex, (struct in_addr){cfg->peer_addr}, mac) ||
	    (st->mac.word && !memcmp(st->mac.addr, mac, sizeof(mac))))
		return false;
	inc_switch_found_peer(sp->sw, c->id, st->mac, mac);
	inc_rto_heard(&c->rto); /* what could not get there until now is not late */
	return true;
}

static void ask(struct inc_slowpath *sp, const struct sp_comm *cm, const struct inc_conn_cfg *cfg)
{
	int ret = inc_neighbour_forget(cfg->ifindex, (struct in_addr){cfg->peer_addr});

	ret = ret ?: provoke(cfg);
	if (ret && !cm->look_for_parent_wait_ns)
		inc_warn("communicator %u: the kernel cannot be made to look for the parent: %s",
			 cm->cfg.communicator, strerror(-ret));
}

void sp_find_parent(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	struct sp_conn *c = &cm->conn[cm->cfg.children];
	uint64_t wait = cm->look_for_parent_wait_ns;
	struct inc_conn_state st;

	if (!(cm->cfg.flags & INC_COMM_F_UP) || cm->phase != SP_COMM_RUNNING ||
	    now < cm->look_for_parent_at_ns || conn_cfg(sp, c)->flags & INC_CONN_F_FIXED_MAC)
		return;
	st = conn_state(sp, c);
	if (!is_lost(c, &st) || (wait && look(sp, c, &st))) {
		cm->look_for_parent_wait_ns = 0;
		return;
	}
	ask(sp, cm, conn_cfg(sp, c));
	wait = wait ? 2 * wait : LOOK_FIRST_MS * INC_NSEC_PER_MSEC;
	cm->look_for_parent_wait_ns =
		wait < LOOK_MOST_MS * INC_NSEC_PER_MSEC ? wait : LOOK_MOST_MS * INC_NSEC_PER_MSEC;
	cm->look_for_parent_at_ns = now + cm->look_for_parent_wait_ns;
}
