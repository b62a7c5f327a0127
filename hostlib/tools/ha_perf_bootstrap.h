/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bootstrap network of ha-nccl-perf: TCP connections from rank 0 to each other rank. It does
 * for the ranks what NCCL's bootstrap network does. One thread. Calls block for up to limit_ms.
 */
#ifndef HA_PERF_BOOTSTRAP_H
#define HA_PERF_BOOTSTRAP_H

#include <stddef.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"

#define HA_PERF_MAX_RANKS 4

struct ha_bootstrap {
	unsigned int rank, ranks, limit_ms;
	/* Sockets to the other ranks, by rank; -1: none. Other ranks than 0 have only a socket to
	 * rank 0, in fd[0]. */
	int fd[HA_PERF_MAX_RANKS];
};

/* Connects all ranks to rank 0. Returns 0, or -errno with the reason in err. ha_bootstrap_close()
 * is due even after an error. */
int ha_bootstrap_open(struct ha_bootstrap *bootstrap, const struct inc_hostport *root,
		      struct inc_err *err);
void ha_bootstrap_close(struct ha_bootstrap *bootstrap);

/* Gathers a block of this many bytes from each rank, on every rank: all + r * bytes has the block
 * of rank r. own must not be part of all. The call is also a barrier, because no rank returns
 * before all ranks have called it. Returns 0, or -errno with the reason in err. */
int ha_bootstrap_gather(struct ha_bootstrap *bootstrap, const void *own, size_t bytes, void *all,
			struct inc_err *err);

/* Returns a rank whose connection to this rank has ended, or -1. Does not block. */
int ha_bootstrap_lost_rank(const struct ha_bootstrap *bootstrap);

#endif
