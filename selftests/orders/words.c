// SPDX-License-Identifier: BSD-2-Clause
/* Shared memory in words of 8 bytes, which are numbered in the order of first use. The numbers hold
 * for all runs of a search, so that tables by number stay small. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "search_priv.h"

#define MAX_REGIONS 8
#define MAX_SPUN    16

struct region {
	uint8_t *base;
	size_t size;
	uint16_t *number; /* number of each word of the region plus 1; 0: no number yet */
};

static struct region region[MAX_REGIONS];
static unsigned int regions, used, spun;
static uint64_t *memory[MAX_WORDS];
static const uint32_t *spun_on[MAX_SPUN];

static struct region *find(const void *at, size_t size)
{
	for (unsigned int i = 0; i < regions; i++)
		if ((const uint8_t *)at >= region[i].base &&
		    (const uint8_t *)at + size <= region[i].base + region[i].size)
			return &region[i];
	return NULL;
}

void search_share(void *memory_, size_t size)
{
	struct region *r = &region[regions++];

	assert(regions <= MAX_REGIONS && (uintptr_t)memory_ % 8 == 0 && size % 8 == 0);
	r->base = memory_;
	r->size = size;
	r->number = calloc(size / 8, sizeof(*r->number));
	assert(r->number);
}

void search_spins_on(const uint32_t *word)
{
	assert(spun < MAX_SPUN && words_shared(word, sizeof(*word)));
	spun_on[spun++] = word;
}

void search_forget(void)
{
	while (regions)
		free(region[--regions].number);
	used = spun = 0;
}

bool words_shared(const void *at, size_t size)
{
	return find(at, size);
}

bool words_spun_on(const void *at)
{
	for (unsigned int i = 0; i < spun; i++)
		if (spun_on[i] == at)
			return true;
	return false;
}

unsigned int words_number(const void *at)
{
	struct region *r = find(at, 1);
	size_t i = ((const uint8_t *)at - r->base) / 8;

	if (!r->number[i]) {
		assert(used < MAX_WORDS);
		memory[used] = (uint64_t *)r->base + i;
		r->number[i] = ++used;
	}
	return r->number[i] - 1;
}

uint64_t *words_memory(unsigned int word)
{
	return memory[word];
}

unsigned int words_used(void)
{
	return used;
}
