/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sets of ranks, such as the ranks behind a connection. Files and messages write a set as "0-3,8".
 * The controller makes the sets, and the loader puts them into its map.
 */
#ifndef INC_RANKS_H
#define INC_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/desc.h"

struct inc_ranks {
	uint64_t word[INC_MAX_RANKS / 64]; /* one bit for each rank */
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
/* Returns the lowest rank of the set that is at least from; INC_MAX_RANKS: there is none. */
uint32_t inc_ranks_next(const struct inc_ranks *set, uint32_t from);
void inc_ranks_join(struct inc_ranks *set, const struct inc_ranks *other);

/* Parses a set such as "0-3,8", which has ranks and ranges in rising order, and none twice. Returns
 * 0 or -EINVAL. */
int inc_ranks_parse(const char *text, struct inc_ranks *set);
/* Writes the set as a text such as "0-3,8", cut at size; returns the text's length. The text of a
 * set has at most INC_RANKS_TEXT bytes. */
#define INC_RANKS_TEXT (INC_MAX_RANKS / 2 * sizeof("4095,"))
size_t inc_ranks_print(const struct inc_ranks *set, char *buf, size_t size);

#endif
