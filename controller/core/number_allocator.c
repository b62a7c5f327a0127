/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocates the numbers of groups and communicators. Numbers begin at random and are never 0,
 * because those of an earlier controller may still be in use. With a database they continue where
 * the earlier controller stopped. A number that is skipped because it is in use is never allocated
 * by this controller, even when its switch or its members connect again later. Callers: group.c and
 * comm_config.c allocate numbers; switch.c, comm.c and resume.c ask whether a number was allocated
 * here.
 */
#include <stdlib.h>
#include "controller/core/number_allocator.h"
#include "lib/base/random.h"

int inc_number_allocator_init(struct inc_number_allocator *numbers, struct inc_err *err)
{
	const int ret = inc_random_bytes(&numbers->first, sizeof(numbers->first), err);

	if (ret)
		return ret;
	/* The first number is in the lower half of the range, so that numbers do not wrap for a
	 * long time. */
	numbers->first = numbers->first >> 1 ?: 1;
	numbers->next = numbers->first;
	return 0;
}

/* The amount of numbers that are not used after a restart with a database. A power failure can lose
 * the last transactions of the database, but their numbers may be in use. One transaction allocates
 * fewer numbers than this. */
#define PASSED_OVER (1u << 16)

void inc_number_allocator_restore(struct inc_number_allocator *numbers, uint32_t first,
				  uint32_t next)
{
	numbers->next = next + PASSED_OVER;
	/* The range from first to next must be less than half of all numbers, because
	 * inc_number_was_allocated() compares numbers that may wrap. */
	numbers->first =
		numbers->next - first > UINT32_MAX / 2 ? numbers->next - UINT32_MAX / 2 : first;
}

void inc_number_allocator_free(struct inc_number_allocator *numbers)
{
	free(numbers->skipped);
}

static bool skip(struct inc_number_allocator *numbers)
{
	const size_t room = numbers->skipped_room ? numbers->skipped_room * 2 : 64;

	if (numbers->n_skipped == numbers->skipped_room) {
		uint32_t *more = reallocarray(numbers->skipped, room, sizeof(*more));

		if (!more)
			return false;
		numbers->skipped = more;
		numbers->skipped_room = room;
	}
	numbers->skipped[numbers->n_skipped++] = numbers->next++;
	return true;
}

uint32_t inc_number_allocate(struct inc_number_allocator *numbers, inc_number_in_use *taken,
			     struct inc_core *core)
{
	while (!numbers->next || taken(core, numbers->next)) {
		if (!skip(numbers))
			return 0;
	}
	return numbers->next++;
}

bool inc_number_was_allocated(const struct inc_number_allocator *numbers, uint32_t number)
{
	/* skipped[] is searched by halves, because it ascends in the distance from `first` */
	size_t low = 0, high = numbers->n_skipped;

	if (number - numbers->first >= numbers->next - numbers->first)
		return false;
	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (numbers->skipped[mid] == number)
			return false;
		if (numbers->skipped[mid] - numbers->first < number - numbers->first)
			low = mid + 1;
		else
			high = mid;
	}
	return true;
}
