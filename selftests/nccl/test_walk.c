/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * Random walks of both ends of a comm, with many requests, groups of receives, sequence numbers
 * that wrap, and faults and repairs over many epochs. WALK_SEED=n repeats only the walk of that
 * seed. TIMEOUT: 300
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/nccl/harness_ends.h"

#define WALKS       40u
#define STEPS       100000u
#define TRAIL       40u
#define FAULT_EVERY 300u

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static struct ends_shape draw(uint64_t *seed)
{
	const uint32_t group = 1 + (uint32_t)(next_random(seed) % HA_GROUP);

	return (struct ends_shape){
		.messages = 64 + (unsigned int)(next_random(seed) % 1024),
		.group = group,
		.tags = 1 + (unsigned int)(next_random(seed) % 4) * 2,
		.window = 1 + group + (unsigned int)(next_random(seed) % (HA_REQUESTS - 16)),
		.start = UINT32_MAX - (uint32_t)(next_random(seed) % 600),
		.faults = (unsigned int)(next_random(seed) % 200),
		.repairs = ENDS_EPOCHS,
		.extra_epochs = ENDS_EPOCHS - 1,
		.dual = true,
		.fatal = next_random(seed) % 4 == 0,
		.late_path = next_random(seed) % 2,
		.triggers = next_random(seed) % 2,
	};
}

/* Chooses the next event, which is rarely a fault, so that requests complete between faults and a
 * path can come up again. */
static struct ends_event choose(const struct ends_event *events, unsigned int n, uint64_t *seed)
{
	unsigned int i = (unsigned int)(next_random(seed) % n);

	while (ends_is_fault(events[i]) && next_random(seed) % FAULT_EVERY)
		i = (unsigned int)(next_random(seed) % n);
	return events[i];
}

static void walk(struct ends *b, uint64_t number, unsigned int *done, uint32_t *epochs)
{
	uint64_t seed = 0x9e3779b97f4a7c15u * (number + 1);
	const struct ends_shape shape = draw(&seed);
	struct ends_event events[ENDS_EVENTS], trail[TRAIL];
	unsigned int i, n;
	bool quiet = false;

	ends_init(b, &shape);
	for (i = 0; i < STEPS && !b->broken; i++) {
		n = ends_events(b, events, &quiet);
		if (quiet && ends_are_over(b))
			break;
		trail[i % TRAIL] = choose(events, n, &seed);
		ends_step(b, trail[i % TRAIL]);
	}
	if (!b->broken)
		ends_check_end(b);
	if (b->broken) {
		print_error("WALK_SEED=%llu, step %u: %s; the last events:\n",
			    (unsigned long long)number, i, b->broken);
		for (n = i > TRAIL ? i - TRAIL : 0; n < i; n++)
			ends_print(b, trail[n % TRAIL]);
		fail();
	}
	*done += b->sender.end.state == HA_DONE;
	*epochs += b->sender.end.epoch;
}

static void test_walks(void **state)
{
	const char *only = getenv("WALK_SEED");
	static struct ends memory;
	struct ends *b = &memory;
	unsigned int done = 0;
	uint32_t epochs = 0;
	uint64_t i;

	if (only) {
		walk(b, strtoull(only, NULL, 0), &done, &epochs);
	} else {
		for (i = 0; i < WALKS; i++)
			walk(b, i, &done, &epochs);
		print_message("# %u of %u walks to the end, %u failovers\n", done, WALKS, epochs);
		assert_true(done > WALKS / 4);
		assert_true(epochs > 2 * WALKS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_walks)};

	return cmocka_run_group_tests_name("nccl walk", tests, NULL, NULL);
}
