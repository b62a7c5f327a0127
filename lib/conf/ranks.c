/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/conf/ranks.h"

uint32_t inc_ranks_count(const struct inc_ranks *set)
{
	uint32_t n = 0;

	for (size_t i = 0; i < INC_MAX_RANKS / 64; i++)
		n += __builtin_popcountll(set->word[i]);
	return n;
}

uint32_t inc_ranks_next(const struct inc_ranks *set, uint32_t from)
{
	for (; from < INC_MAX_RANKS; from = (from / 64 + 1) * 64) {
		uint64_t left = set->word[from / 64] >> from % 64;

		if (left)
			return from + __builtin_ctzll(left);
	}
	return INC_MAX_RANKS;
}

void inc_ranks_join(struct inc_ranks *set, const struct inc_ranks *other)
{
	for (size_t i = 0; i < INC_MAX_RANKS / 64; i++)
		set->word[i] |= other->word[i];
}

/* Reads a rank at *text and moves *text behind it; INC_MAX_RANKS: there is no valid rank. */
static uint32_t read_rank(const char **text)
{
	uint32_t rank = 0;
	const char *p = *text;

	while (*p >= '0' && *p <= '9' && rank < INC_MAX_RANKS)
		rank = rank * 10 + (*p++ - '0');
	if (p == *text || rank >= INC_MAX_RANKS)
		return INC_MAX_RANKS;
	*text = p;
	return rank;
}

int inc_ranks_parse(const char *text, struct inc_ranks *set)
{
	struct inc_ranks out = {};
	uint32_t first, last, least = 0;

	do {
		first = last = read_rank(&text);
		if (*text == '-') {
			text++;
			last = read_rank(&text);
		}
		if (first < least || last < first || last >= INC_MAX_RANKS)
			return -EINVAL;
		for (; first <= last; first++)
			inc_ranks_add(&out, first);
		least = last + 1;
	} while (*text++ == ',');
	if (text[-1])
		return -EINVAL;
	*set = out;
	return 0;
}

size_t inc_ranks_print(const struct inc_ranks *set, char *buf, size_t size)
{
	uint32_t first = inc_ranks_next(set, 0), last;
	size_t used = 0;

	if (size)
		*buf = '\0';
	for (; first < INC_MAX_RANKS && used < size; first = inc_ranks_next(set, last + 1)) {
		for (last = first; inc_ranks_have(set, last + 1); last++)
			;
		used += snprintf(buf + used, size - used, last > first ? "%s%u-%u" : "%s%u",
				 used ? "," : "", first, last);
	}
	return used;
}
