/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pool of buffers of one size in one block of memory, for one communicator. Only the thread of
 * that communicator calls these functions.
 */
#ifndef INC_TERM_POOL_H
#define INC_TERM_POOL_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

struct inc_term_pool;

/* Creates a pool of n buffers, which have so many bytes each and are aligned to cache lines. Only
 * the buffers that are taken last have memory from the start, because soft endpoints stack posted
 * buffers and fill the last one first. The kernel allocates the others on first write. The error
 * message of -ENOMEM names n and bytes. */
int inc_term_pool_new(uint32_t n, uint32_t bytes, struct inc_term_pool **out, struct inc_err *err);
void inc_term_pool_free(struct inc_term_pool *p);

/* Takes a buffer from the pool: the one that was put back last, because it may still be in a cache.
 * Returns NULL if all are taken, which is an error of the caller. */
void *inc_term_pool_take(struct inc_term_pool *p);
void inc_term_pool_put(struct inc_term_pool *p, void *buffer);

/* Returns the number of buffers that are taken. */
uint32_t inc_term_pool_taken(const struct inc_term_pool *p);
/* Returns the whole memory of the pool, for devices that must register it. */
void *inc_term_pool_memory(const struct inc_term_pool *p, size_t *bytes);

/* Returns the bytes of memory that a pool of n buffers, of so many bytes each, takes. */
size_t inc_term_pool_bytes(uint32_t n, uint32_t bytes);

#endif
