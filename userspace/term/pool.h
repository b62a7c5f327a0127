/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of one size in one piece of memory: those of a communicator. Used by the one thread that
 * the communicator belongs to.
 */
#ifndef INC_TERM_POOL_H
#define INC_TERM_POOL_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

struct inc_term_pool;

/* n buffers of so many bytes each, aligned to a cache line. Only the buffers that are taken last
 * are backed by memory now, because soft endpoints keep posted buffers on a stack and fill the last
 * one first; the kernel allocates the rest on first write. -ENOMEM, with what was wanted. */
int inc_term_pool_new(uint32_t n, uint32_t bytes, struct inc_term_pool **out, struct inc_err *err);
void inc_term_pool_free(struct inc_term_pool *p);

/* The one that was put back last, which may still be in a cache. Taking more than there are is an
 * error of the caller: NULL. */
void *inc_term_pool_take(struct inc_term_pool *p);
void inc_term_pool_put(struct inc_term_pool *p, void *buffer);

/* How many are out. */
uint32_t inc_term_pool_taken(const struct inc_term_pool *p);
/* All of its memory, for devices that must know of it. */
void *inc_term_pool_memory(const struct inc_term_pool *p, size_t *bytes);

/* What a pool of such buffers takes. */
size_t inc_term_pool_bytes(uint32_t n, uint32_t bytes);

#endif
