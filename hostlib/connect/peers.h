/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters that spread the connections to a peer over the pairs of ports (select.h). Each peer has
 * a counter, which goes up by one with each connection. The counter begins at random, so that many
 * clients do not all begin with the same pair. Only one thread may use a struct connect_peers.
 */
#ifndef INC_CONNECT_PEERS_H
#define INC_CONNECT_PEERS_H

#include <stdint.h>
#include <sys/queue.h>

/* The number of peers that have a counter. For a further peer the one that was used longest ago is
 * dropped. */
#define CONNECT_PEERS_KEPT 1024

TAILQ_HEAD(connect_peer_list, connect_peer);

struct connect_peers {
	/* the peers with a counter, the one that was used last in front */
	struct connect_peer_list list;
	unsigned int n;
};

void connect_peers_init(struct connect_peers *peers);
void connect_peers_free(struct connect_peers *peers);
/* Returns the counter for the next connection to the peer with this name, by which select.h chooses
 * a pair of ports. */
uint64_t connect_peers_next(struct connect_peers *peers, const char *name);

#endif
