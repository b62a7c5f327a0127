/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connection: one CPU at a time works on it, and where on the link its peer is.
 *
 * Receive queues usually keep a connection's packets on one CPU, but a change of RSS, XPS on
 * the far side of a veth or generic XDP can put two of them on two. All state of a connection,
 * its row included, belongs to the program that holds its busy word; so a packet's fate, decided
 * from what is read under it, stays true until the program lets go.
 */
#ifndef INC_CONN_H
#define INC_CONN_H

#include "bpf/inc_match.h"

/* Looks at a word that another CPU holds; about 4 us, a few times what one packet takes. */
#define INC_BUSY_LOOKS 1024

/* Takes the connection; 0 where another CPU holds it for too long. */
__noinline int inc_enter(struct inc_conn_state *st)
{
	if (!st)
		return 0;
	for (__u32 i = 0; i < INC_BUSY_LOOKS; i++)
		if (!*(volatile __u32 *)&st->busy && !__sync_lock_test_and_set(&st->busy, 1))
			return 1;
	return 0;
}

static __always_inline void inc_leave(struct inc_conn_state *st)
{
	inc_publish32(&st->busy, 0);
}

/* Where frames to the peer go; the word 0: nothing is known yet. */
static __always_inline union inc_mac inc_peer_mac(const struct inc_conn_state *st)
{
	union inc_mac mac = {.word = *(volatile __u64 *)&st->mac.word};

	if (!mac.word)
		mac.word = *(volatile __u64 *)&st->mac_hint.word;
	return mac;
}

/* May the address that a packet came from be the peer's? */
static __always_inline bool inc_may_believe(const struct inc_match *m, const struct inc_packet *pkt)
{
	return !(m->cfg->flags & INC_CONN_F_FIXED_MAC) && inc_mac_unicast(pkt->mac.addr);
}

/*
 * No checksum covers the Ethernet header, so what one intact packet says of its sender is a
 * hint; what the next one says too is taken for a fact. The next: the network may repeat a
 * damaged packet as it is.
 */
static __always_inline void inc_hear_mac(const struct inc_match *m, const struct inc_packet *pkt)
{
	struct inc_conn_state *st = m->st;

	if (!inc_may_believe(m, pkt))
		return;
	if (pkt->mac.word == st->mac.word) {
		if (st->mac_hint.word)
			*(volatile __u64 *)&st->mac_hint.word = 0;
		return;
	}
	if (pkt->mac.word != st->mac_hint.word || st->hint_psn == INC_NO_PSN) {
		*(volatile __u64 *)&st->mac_hint.word = pkt->mac.word;
		st->hint_psn = pkt->psn;
	} else if (pkt->psn != st->hint_psn) {
		*(volatile __u64 *)&st->mac_hint.word = st->mac.word;
		st->hint_psn = INC_NO_PSN;
		*(volatile __u64 *)&st->mac.word = pkt->mac.word;
	}
}

/*
 * Where the answer to this packet goes. That a packet comes again means that our answer was lost,
 * so this one goes to the address that the packet itself came from: that is right if the peer has
 * moved; if the address was damaged on the way, one answer is lost.
 */
static __always_inline union inc_mac inc_answer_mac(const struct inc_match *m,
						    const struct inc_packet *pkt, bool again)
{
	if (again && inc_may_believe(m, pkt))
		return pkt->mac;
	return inc_peer_mac(m->st);
}

#endif
