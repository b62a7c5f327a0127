/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the MAC address of a peer whose packets do not show it. A parent sends nothing before it
 * has received something, so at first its address may be unknown. A host that waits for a result
 * may change its MAC address, and so may the router in front of it, without sending a packet that
 * shows it.
 *
 * The kernel's neighbour table is read if no address is known, or if the peer does not answer at
 * the known ones. Its answer is a third address for retransmissions, until the peer has answered.
 * The data path uses it only if no other address is known. So a forged ARP packet cannot cut off a
 * peer that answers.
 */
#include <errno.h>
#include <string.h>
#include <netinet/in.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/neighbour.h"
#include "userspace/xdp/slowpath_priv.h"

/* Bounds of the time that the kernel has for its answer before it is asked again. The wait doubles
 * each time. */
#define LOOK_FIRST_MS 5
#define LOOK_MOST_MS  1000
/* number of timeouts in a row after which the peer's known addresses may be wrong */
#define SILENT_TIMEOUTS 2

static bool is_unknown(const struct inc_conn_state *st)
{
	return !(st->mac.word || st->mac_hint.word);
}

/* Whether to ask the kernel for the peer's address. An unknown address of a child alone is no
 * reason, because a child sends first. */
static bool is_lost(const struct sp_comm *cm, uint32_t peer, const struct sp_conn *c,
		    const struct inc_conn_state *st)
{
	return (is_parent(cm, peer) && is_unknown(st)) || c->rto.backoff >= SILENT_TIMEOUTS;
}

/* Drops the kernel's address if the data path has the same one now, or if the peer has answered
 * from another one. The address stays if the data path has it as a hint, because the peer's next
 * packet shows which of the two is right. */
static void settle(struct sp_conn *c, const struct inc_conn_state *st)
{
	if (c->rto.backoff < c->found_backoff) {
		c->found_answered = true;
		c->found_backoff = c->rto.backoff;
	}
	if (c->found.word == st->mac.word ||
	    (c->found_answered && c->found.word != st->mac_hint.word))
		c->found.word = 0;
}

/* Returns the interface that has the kernel's entry of a peer: the port's own, which may be a VLAN
 * device. */
static uint32_t interface_of(const struct inc_slowpath *sp, const struct inc_conn_cfg *cfg)
{
	const struct inc_switch_port *port = inc_switch_port_on(sp->sw, cfg->ifindex);

	return port ? port->own_ifindex : cfg->ifindex;
}

/*
 * Reads the kernel's address of the peer. Returns true if it is the first address from the kernel.
 * If the kernel's address changes later, the new one is used, but it neither restarts the count of
 * attempts nor is tried at once. Otherwise forged ARP packets could take all attempts from the
 * addresses that the peer has shown.
 */
static bool look(struct inc_slowpath *sp, struct sp_conn *c, const struct inc_conn_state *st)
{
	const struct inc_conn_cfg *cfg = conn_cfg(sp, c);
	union inc_mac mac = {.known = 1};
	bool first;

	if (inc_neighbour_mac(interface_of(sp, cfg), inc_addr_of_ipv4(cfg->peer.ip), mac.addr) ||
	    mac.word == st->mac.word || mac.word == c->found.word)
		return false;
	if (is_unknown(st)) {
		/* the address goes to the data path and not into c->found; the data path ignores it
		 * if the peer's packets have shown an address meanwhile */
		inc_switch_found_peer(sp->sw, c->id, mac.addr);
		return true;
	}
	first = !c->found.word;
	if (first)
		c->found_backoff = c->rto.backoff;
	c->found = mac;
	c->found_answered = false;
	return first;
}

static void ask(struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer)
{
	const struct sp_conn *c = &cm->conn[peer];
	const struct inc_conn_cfg *cfg = conn_cfg(sp, c);
	const uint32_t at = interface_of(sp, cfg);
	int ret = inc_neighbour_forget(at, inc_addr_of_ipv4(cfg->peer.ip));
	char name[INC_PEER_TEXT];

	ret = ret ?: inc_neighbour_provoke(at, inc_addr_of_ipv4(cfg->peer.ip));
	if (ret && !c->look_wait_ns)
		inc_warn("communicator %u: the kernel cannot be made to look for %s: %s",
			 cm->cfg.communicator, sp_peer_name(sp, cm, peer, name), strerror(-ret));
}

void sp_find_peer(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
		  const struct inc_conn_state *st, uint64_t now)
{
	struct sp_conn *c = &cm->conn[peer];
	uint64_t wait = c->look_wait_ns;

	settle(c, st);
	if (conn_cfg(sp, c)->flags & INC_CONN_F_FIXED_MAC || now < c->look_at_ns)
		return;
	if (!is_lost(cm, peer, c, st)) {
		c->look_wait_ns = 0;
		return;
	}
	if (!look(sp, c, st))
		ask(sp, cm, peer);
	else
		sp_probe(sp, cm, peer, now);
	wait = wait ? 2 * wait : LOOK_FIRST_MS * INC_NSEC_PER_MSEC;
	c->look_wait_ns =
		wait < LOOK_MOST_MS * INC_NSEC_PER_MSEC ? wait : LOOK_MOST_MS * INC_NSEC_PER_MSEC;
	c->look_at_ns = now + c->look_wait_ns;
}

int sp_peer_mac(const struct sp_conn *c, const struct inc_conn_state *st, union inc_mac *mac)
{
	const unsigned int attempts =
		c->rto.backoff > c->found_backoff ? c->rto.backoff - c->found_backoff : 0;
	union inc_mac known[3];
	unsigned int n = 0;

	if (c->found.word)
		known[n++] = c->found;
	if (st->mac.word && st->mac.word != c->found.word)
		known[n++] = st->mac;
	if (st->mac_hint.word && st->mac_hint.word != c->found.word)
		known[n++] = st->mac_hint;
	if (!n)
		return -ENOENT;
	*mac = known[attempts % n];
	return 0;
}
