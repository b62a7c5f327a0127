/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How the ranks of ha-nccl-perf meet: a star of TCP connections around rank 0, which stands for
 * NCCL's bootstrap network. One thread; calls block, for limit_ms at most.
 */
#ifndef HA_PERF_MEET_H
#define HA_PERF_MEET_H

#include <stddef.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

#define HA_MEET_MAX_RANKS 4

struct ha_meet {
	unsigned int rank, ranks, limit_ms;
	int fd[HA_MEET_MAX_RANKS]; /* rank 0: of each other rank; else [0] alone; -1: none */
};

/* 0, or -errno and why. ha_meet_close is due either way. */
int ha_meet_open(struct ha_meet *meet, const struct inc_hostport *root, struct inc_err *err);
void ha_meet_close(struct ha_meet *meet);

/* Each rank's block of this many bytes, in all: that of rank r at r * bytes. own may not be in it.
 * No rank returns before all have come. 0, or -errno and why. */
int ha_meet_gather(struct ha_meet *meet, const void *own, size_t bytes, void *all,
		   struct inc_err *err);

/* A rank that has ended, as far as this one sees; -1: none. Does not block. */
int ha_meet_gone(const struct ha_meet *meet);

#endif
