/* SPDX-License-Identifier: BSD-2-Clause */
/* A queue pair that is connected to itself (verbs_loop.c), for the tests of both files. */
#ifndef VERBS_LOOP_H
#define VERBS_LOOP_H

#include "hostlib/src/internal.h"
#include "hostlib/src/endpoint.h"

#define DEADLINE_S 60

static const struct inccl_transport peer_verbs = {INCCL_TRANSPORT_VERBS, &inc_channel_verbs};

struct loopback {
	struct inccl_endpoint *ep;
	struct inccl_own own;
	struct inc_channel_peer peer;
	unsigned int message_packets;
	uint32_t seq;
	bool armed_waits; /* waits sleep in poll() instead of spinning */
};

void loopback_open(struct loopback *l, unsigned int message_packets, unsigned int window,
		   uint32_t psn, const char *options);
void loopback_connect(struct loopback *l);
/* Makes progress until message `goal` is complete. If `goal` is UINT64_MAX, until the endpoint is
 * quiet. Returns 0 or the error. */
int drive(struct loopback *l, uint64_t goal);
/* Fills `send`, sends it so that it arrives in `recv`, and compares both buffers. */
void echo_checked(struct loopback *l, enum inccl_mode mode, uint8_t *send, uint8_t *recv,
		  size_t len, unsigned int seed);
void *pages(void *at, size_t len); /* maps private, anonymous pages */

/* tests of verbs_memory.c */
void test_cache(void **state);
void test_cache_churn(void **state);
void test_cache_slow_watcher(void **state);
void test_shared_memory(void **state);
void test_huge_pages(void **state);
void test_locked_memory_is_shared(void **state);
void test_fork(void **state);

#endif
