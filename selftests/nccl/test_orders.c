/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every order of events at both ends of a comm, for small shapes. The search visits all reachable
 * states, and applies each event once in each state. States are compared completely. The search
 * checks the properties of docs/nccl-failover.md. TIMEOUT: 600
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "selftests/nccl/harness_ends.h"

#define MAX_BYTES 16384u
#define MAX_DEPTH 2000u

struct seen {
	struct seen *next;
	uint32_t bytes;
	bool on_the_way; /* the state is on the path from the start to the search's current state */
	uint8_t data[];
};

static struct search {
	struct seen **heads;
	size_t n_heads, states;
	struct ends_event trail[MAX_DEPTH];
	unsigned int depth;
	struct ends start;
	const char *broken;
} search;

/* Packs a state by leaving out zeros: the number of zero words before a word, a mask of the word's
 * nonzero bytes, and these bytes. */
static uint32_t pack(const struct ends *b, uint8_t *out)
{
	const uint64_t *words = (const uint64_t *)b;
	uint32_t n = 0, zeros = 0;
	size_t i;
	int k;

	for (i = 0; i < sizeof(*b) / 8; i++) {
		uint64_t word = words[i];
		uint8_t *mask;

		if (!word) {
			zeros++;
			continue;
		}
		out[n++] = (uint8_t)zeros;
		out[n++] = (uint8_t)(zeros >> 8);
		mask = &out[n++];
		*mask = 0;
		for (k = 0; k < 8; k++, word >>= 8) {
			if (word & 0xff) {
				*mask |= (uint8_t)(1 << k);
				out[n++] = (uint8_t)word;
			}
		}
		assert_true(n < MAX_BYTES - 16);
		zeros = 0;
	}
	return n;
}

static uint64_t hash(const uint8_t *data, uint32_t bytes)
{
	uint64_t h = 14695981039346656037u;
	uint32_t i;

	for (i = 0; i < bytes; i++)
		h = (h ^ data[i]) * 1099511628211u;
	return h ^ h >> 29;
}

static void grow(void)
{
	const size_t n = search.n_heads ? search.n_heads * 4 : 1u << 14;
	struct seen **heads = calloc(n, sizeof(*heads)), *s, *next;
	size_t i;

	assert_non_null(heads);
	for (i = 0; i < search.n_heads; i++) {
		for (s = search.heads[i]; s; s = next) {
			const uint64_t at = hash(s->data, s->bytes) % n;

			next = s->next;
			s->next = heads[at];
			heads[at] = s;
		}
	}
	free(search.heads);
	search.heads = heads;
	search.n_heads = n;
}

/* Finds the state among those that were visited, or adds it. Sets *is_new if it was added. */
static struct seen *remember(const struct ends *b, bool *is_new)
{
	static struct ends copy;
	static uint8_t data[MAX_BYTES];
	struct seen *s, **head;
	uint32_t bytes;

	memcpy(&copy, b, sizeof(copy));
	ends_normalize(&copy);
	bytes = pack(&copy, data);
	if (search.states >= search.n_heads)
		grow();
	head = &search.heads[hash(data, bytes) % search.n_heads];
	*is_new = false;
	for (s = *head; s; s = s->next)
		if (s->bytes == bytes && !memcmp(s->data, data, bytes))
			return s;
	*is_new = true;
	s = malloc(sizeof(*s) + bytes);
	assert_non_null(s);
	*s = (struct seen){.next = *head, .bytes = bytes};
	memcpy(s->data, data, bytes);
	*head = s;
	search.states++;
	return s;
}

static void forget(void)
{
	struct seen *s, *next;
	size_t i;

	for (i = 0; i < search.n_heads; i++)
		for (s = search.heads[i]; s; s = next) {
			next = s->next;
			free(s);
		}
	free(search.heads);
	search.heads = NULL;
	search.n_heads = search.states = 0;
}

static void show_trail(void)
{
	struct ends *b = malloc(sizeof(*b));
	unsigned int i;

	assert_non_null(b);
	memcpy(b, &search.start, sizeof(*b));
	for (i = 0; i < search.depth; i++) {
		ends_step(b, search.trail[i]);
		ends_print(b, search.trail[i]);
	}
	free(b);
}

/* Do all properties hold in this state and in all states that follow from it? */
static bool visit(const struct ends *b)
{
	struct ends_event events[ENDS_EVENTS];
	struct ends *next = malloc(sizeof(*next));
	struct seen *here;
	unsigned int i, n;
	bool is_new, quiet;

	assert_non_null(next);
	memcpy(next, b, sizeof(*next));
	n = ends_events(next, events, &quiet);
	if (quiet && ends_are_over(next))
		ends_check_end(next);
	if (next->broken)
		search.broken = next->broken;
	here = remember(next, &is_new);
	if (!is_new && here->on_the_way && !search.broken)
		/* the search has reached a state on its own path, so the events can repeat for
		 * ever */
		search.broken = "hang";
	here->on_the_way = true;
	for (i = 0; is_new && i < n && !search.broken; i++) {
		assert_true(search.depth < MAX_DEPTH);
		memcpy(next, b, sizeof(*next));
		search.trail[search.depth++] = events[i];
		ends_step(next, events[i]);
		if (visit(next))
			search.depth--;
	}
	here->on_the_way = false;
	free(next);
	return !search.broken;
}

static void try(const char *name, struct ends_shape shape)
{
	search.depth = 0;
	search.broken = NULL;
	ends_init(&search.start, &shape);
	if (!visit(&search.start)) {
		print_error("%s: %s\n", name, search.broken);
		show_trail();
		forget();
		fail();
	}
	print_message("# %s: %zu states\n", name, search.states);
	forget();
}

static const struct ends_shape base = {.messages = 2,
				       .group = 1,
				       .tags = 2,
				       .window = 2,
				       .faults = 1,
				       .extra_epochs = 1,
				       .dual = true,
				       .fatal = true,
				       .triggers = true};

static void test_one_fault(void **state)
{
	struct ends_shape shape = base;

	shape.messages = 1;
	try("one message", shape);
	shape.late_path = true;
	try("one message, the standby comes up at some time", shape);
	try("two messages of two tags", base);
	shape = base;
	shape.tags = shape.window = 1;
	try("two messages, one at a time", shape);
}

static void test_group(void **state)
{
	struct ends_shape shape = base;

	shape.group = 2;
	shape.start = UINT32_MAX;
	try("a group of two, numbers wrap", shape);
}

static void test_two_faults(void **state)
{
	struct ends_shape shape = base;

	shape.messages = 1;
	shape.faults = 2;
	try("one message, two faults", shape);
	shape.faults = 1;
	shape.repairs = 1;
	shape.extra_epochs = 2;
	try("one message, one fault, the path comes back", shape);
	shape.faults = 2;
	shape.triggers = false;
	try("one message, two faults, the path comes back", shape);
}

static void test_three_faults(void **state)
{
	struct ends_shape shape = base;

	shape.messages = 1;
	shape.faults = 3;
	shape.triggers = false;
	try("one message, three faults", shape);
}

static void test_two_messages_two_faults(void **state)
{
	struct ends_shape shape = base;

	shape.tags = 1;
	shape.faults = 2;
	shape.triggers = false;
	try("two messages of one tag, two faults", shape);
}

static void test_no_standby(void **state)
{
	struct ends_shape shape = base;

	shape.extra_epochs = 0;
	try("two messages, no standby ever up", shape);
	shape.dual = false;
	try("two messages, a single path", shape);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_fault),
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_two_faults),
		cmocka_unit_test(test_three_faults),
		cmocka_unit_test(test_two_messages_two_faults),
		cmocka_unit_test(test_no_standby),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("nccl orders", tests, NULL, NULL);
}
