/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose turn it is among the pairs of ports (select.h): one counter per peer, which begins at
 * random, so that many clients do not all begin with the same pair, and then goes up by one. One
 * thread per struct.
 */
#ifndef INC_CONNECT_PEERS_H
#define INC_CONNECT_PEERS_H

#include <stdint.h>
#include <sys/queue.h>

#define CONNECT_PEERS_KEPT 1024 /* of which is remembered; who was asked longest ago makes room */

TAILQ_HEAD(connect_peer_list, connect_peer);

struct connect_peers {
	struct connect_peer_list list; /* who was asked last stands first */
	unsigned int n;
};

void connect_peers_init(struct connect_peers *peers);
void connect_peers_free(struct connect_peers *peers);
/* The counter for the next connection to the peer of this name. */
uint64_t connect_peers_next(struct connect_peers *peers, const char *name);

#endif
