/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/peers.h"
#include "lib/base/clock.h"
#include "lib/base/os.h"

struct connect_peer {
	TAILQ_ENTRY(connect_peer) entry;
	uint64_t next;
	char name[];
};

static uint64_t random_start(void)
{
	uint64_t value;

	/* the kernel may have no random numbers yet shortly after boot, and then the time is random
	 * enough */
	if (inc_os.random(&value, sizeof(value), false))
		value = inc_now_ns();
	return value;
}

void connect_peers_init(struct connect_peers *peers)
{
	TAILQ_INIT(&peers->list);
	peers->n = 0;
}

static void forget(struct connect_peers *peers, struct connect_peer *peer)
{
	TAILQ_REMOVE(&peers->list, peer, entry);
	peers->n--;
	free(peer);
}

void connect_peers_free(struct connect_peers *peers)
{
	while (!TAILQ_EMPTY(&peers->list))
		forget(peers, TAILQ_FIRST(&peers->list));
}

static struct connect_peer *find(struct connect_peers *peers, const char *name)
{
	struct connect_peer *peer;

	TAILQ_FOREACH (peer, &peers->list, entry)
		if (!strcmp(peer->name, name))
			return peer;
	return NULL;
}

static struct connect_peer *add(struct connect_peers *peers, const char *name)
{
	const size_t size = strlen(name) + 1;
	struct connect_peer *peer = malloc(sizeof(*peer) + size);

	if (!peer)
		return NULL;
	if (peers->n == CONNECT_PEERS_KEPT)
		forget(peers, TAILQ_LAST(&peers->list, connect_peer_list));
	memcpy(peer->name, name, size);
	peer->next = random_start();
	TAILQ_INSERT_HEAD(&peers->list, peer, entry);
	peers->n++;
	return peer;
}

uint64_t connect_peers_next(struct connect_peers *peers, const char *name)
{
	struct connect_peer *peer = find(peers, name) ?: add(peers, name);

	if (!peer)
		/* no memory for a counter, so this connection's choice is random */
		return random_start();
	TAILQ_REMOVE(&peers->list, peer, entry);
	TAILQ_INSERT_HEAD(&peers->list, peer, entry);
	return peer->next++;
}
