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

/* Most peers with a counter. The peer that was used longest ago is dropped to make room. */
#define CONNECT_PEERS_KEPT 1024

TAILQ_HEAD(connect_peer_list, connect_peer);

struct connect_peers {
	struct connect_peer_list list; /* the most recently used peer first */
	unsigned int n;
};

void connect_peers_init(struct connect_peers *peers);
void connect_peers_free(struct connect_peers *peers);
/* Returns the counter for the next connection to the peer with this name (select.h uses it). */
uint64_t connect_peers_next(struct connect_peers *peers, const char *name);

#endif
