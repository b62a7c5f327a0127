/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the parent is on the link. Children send first, so their frames tell; the parent's come
 * only after the first partial sum has reached it. What the neighbour table did not know when the
 * communicator was made it is made to find out: a datagram to the parent makes the kernel ask.
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

#define ASK_AGAIN_MS  200
#define LOOK_AGAIN_MS 5
#define DISCARD_PORT  9

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

/* The kernel's answer to the last question, if there is one by now. */
static bool look(struct inc_slowpath *sp, struct sp_comm *cm)
{
	struct sp_conn *c = &cm->conn[cm->cfg.children];
	const struct inc_conn_cfg *cfg = conn_cfg(sp, c);
	uint8_t mac[6];

	if (inc_neighbour_mac(cfg->ifindex, (struct in_addr){cfg->peer_addr}, mac))
		return false;
	inc_switch_found_peer(sp->sw, c->id, mac);
	inc_rto_heard(&c->rto); /* what could not be sent until now is not late */
	return true;
}

void sp_find_parent(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	const struct sp_conn *c = &cm->conn[cm->cfg.children];
	struct inc_conn_state st;
	int ret;

	if (!(cm->cfg.flags & INC_COMM_F_UP) || cm->phase != SP_COMM_RUNNING ||
	    now < cm->look_for_parent_at_ns)
		return;
	st = conn_state(sp, c);
	if (st.mac.word || st.mac_hint.word || look(sp, cm))
		return;
	cm->look_for_parent_at_ns = now + LOOK_AGAIN_MS * INC_NSEC_PER_MSEC;
	if (now < cm->ask_parent_at_ns)
		return;
	ret = provoke(conn_cfg(sp, c));
	if (ret && !cm->ask_parent_at_ns)
		inc_warn("communicator %u: the kernel cannot be made to look for the parent: %s",
			 cm->cfg.communicator, strerror(-ret));
	cm->ask_parent_at_ns = now + ASK_AGAIN_MS * INC_NSEC_PER_MSEC;
}
