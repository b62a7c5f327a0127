/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registrations of an RDMA device. A registration splices the pages into a pipe, which really pins
 * them, and a "read by DMA" reads the pipe. So a stale registration shows other data than the
 * program has at that address. Nothing is ever written by DMA.
 */
#ifndef SELFTESTS_FAKES_REGISTRATION_H
#define SELFTESTS_FAKES_REGISTRATION_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/rdma/cache.h"

/* Only the first bytes of a registration are pinned. */
#define FAKE_REGISTRATION_BYTES 16384ul

/* A protection domain: a limit on pinned memory, which all its users share. */
struct fake_domain {
	pthread_mutex_t lock;
	size_t pinned, limit; /* pinned bytes and their limit; limit 0: no limit */
};

/* The calls of a cache, whose protection domain is a struct fake_domain. */
extern const struct inc_rdma_cache_ops fake_registration_ops;

/* Reads the first FAKE_REGISTRATION_BYTES bytes of the registration as the device sees them. */
void fake_registration_read(const struct inc_rdma_mr *mr, uint8_t *buf);

#endif
