/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets of ranks: those behind a connection, which a file and a message write as "0-3,8". The
 * controller makes them, the loader puts them into its map.
 */
#ifndef INC_RANKS_H
#define INC_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"

struct inc_ranks {
	uint64_t word[INC_MAX_RANKS / 64]; /* a bit per rank */
};

static inline void inc_ranks_add(struct inc_ranks *set, uint32_t rank)
{
	set->word[rank / 64] |= 1ull << rank % 64;
}

static inline bool inc_ranks_have(const struct inc_ranks *set, uint32_t rank)
{
	return rank < INC_MAX_RANKS && set->word[rank / 64] >> rank % 64 & 1;
}

uint32_t inc_ranks_count(const struct inc_ranks *set);
/* The lowest rank from this one on that is in the set; INC_MAX_RANKS: none is. */
uint32_t inc_ranks_next(const struct inc_ranks *set, uint32_t from);
void inc_ranks_join(struct inc_ranks *set, const struct inc_ranks *other);

/* "0-3,8": ranks and ranges in rising order, none twice. 0, or -EINVAL. */
int inc_ranks_parse(const char *text, struct inc_ranks *set);
/* The same text, cut at size; returns its length. A set has at most INC_RANKS_TEXT bytes of it. */
#define INC_RANKS_TEXT (INC_MAX_RANKS / 2 * sizeof("4095,"))
size_t inc_ranks_print(const struct inc_ranks *set, char *buf, size_t size);

#endif
