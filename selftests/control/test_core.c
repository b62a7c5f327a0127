// SPDX-License-Identifier: BSD-2-Clause
/*
 * TIMEOUT: 300
 *
 * Plays every order of events of the controller's core. Three members join, ask for a communicator
 * over two switches, run and leave. Any message may arrive next. At any moment one member or one
 * switch dies, or a switch's connection breaks, or a switch replaces its connection. Before any
 * action one controller may be killed, and the next one starts with the database. At the end no
 * member waits, and nothing is left in the core, the switches or the database. A replaced
 * connection alone makes no member fail.
 *
 * The search replays the choices from the start, and does not go on from a state that it has
 * already reached.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/core_peers.h"
#include "lib/base/log.h"

#define DEEPEST 400
#define EVENTS  32

static struct {
	unsigned int chosen[DEEPEST], of[DEEPEST], n, at;
	uint64_t *seen;
	size_t room, states;
	unsigned long runs, ends;
} search;

static bool may_restart;

/* Makes the next choice of n alternatives. First it repeats the choices that are replayed. After
 * them it takes the first alternative. */
static unsigned int choose(unsigned int n)
{
	peers_require(search.at < DEEPEST, "a way of more than %d choices", DEEPEST);
	if (search.at == search.n) {
		search.chosen[search.n] = 0;
		search.of[search.n++] = n;
	}
	peers_require(search.of[search.at] == n, "choice %u is not the same again", search.at);
	return search.chosen[search.at++];
}

static bool dies(void)
{
	return may_restart && choose(2);
}

/* Prepares the choices of the next order. Returns false if all orders were played. */
static bool next_way(void)
{
	while (search.n && search.chosen[search.n - 1] + 1 == search.of[search.n - 1])
		search.n--;
	if (!search.n)
		return false;
	search.chosen[search.n - 1]++;
	return true;
}

static void grow(void)
{
	uint64_t *old = search.seen;
	const size_t room = search.room;

	search.room = room ? room * 2 : 1 << 16;
	search.seen = calloc(search.room, sizeof(*search.seen));
	for (size_t i = 0; i < room; i++) {
		size_t at = old[i] & (search.room - 1);

		while (old[i] && search.seen[at])
			at = (at + 1) & (search.room - 1);
		if (old[i])
			search.seen[at] = old[i];
	}
	free(old);
}

/* Has no state with this hash been reached before? */
static bool is_new(uint64_t hash)
{
	size_t at;

	if (search.states * 2 >= search.room)
		grow();
	hash = hash ?: 1;
	for (at = hash & (search.room - 1); search.seen[at]; at = (at + 1) & (search.room - 1)) {
		if (search.seen[at] == hash)
			return false;
	}
	search.seen[at] = hash;
	search.states++;
	return true;
}

static void run(enum inc_mode_of_switch mode, bool database)
{
	const unsigned int replayed = search.n;
	struct peers_event events[EVENTS];
	static struct core_peers peers;
	uint64_t before, after = 0;
	unsigned int n;

	search.at = 0;
	search.runs++;
	peers_begin(&peers, mode, database, dies);
	while ((n = peers_enabled(&peers, events))) {
		const struct peers_event *next = &events[choose(n)];

		peers_do(&peers, next);
		before = after;
		after = peers_hash(&peers);
		peers_require(next->what != PEERS_TIME || after != before,
			      "nothing happens any more, and time only passes");
		if (search.at >= replayed && !is_new(after))
			break;
	}
	if (!n) {
		search.ends++;
		peers_check_end(&peers);
	}
	peers_end(&peers);
}

static void search_all(enum inc_mode_of_switch mode, bool database, bool restarts)
{
	memset(&search, 0, sizeof(search));
	may_restart = restarts;
	do
		run(mode, database);
	while (next_way());
	printf("# %zu states, %lu ways, %lu of them to an end\n", search.states, search.runs,
	       search.ends);
	free(search.seen);
}

static void deaths(void **state)
{
	search_all(INC_PASSTHROUGH, true, false);
}

static void deaths_and_restarts(void **state)
{
	search_all(INC_PASSTHROUGH, true, true);
}

static void deaths_and_restarts_without_a_database(void **state)
{
	search_all(INC_PASSTHROUGH, false, true);
}

static void deaths_and_restarts_in_termination_mode(void **state)
{
	search_all(INC_TERMINATION, true, true);
}

static void quiet(const char *line, size_t len)
{
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(deaths),
		cmocka_unit_test(deaths_and_restarts),
		cmocka_unit_test(deaths_and_restarts_without_a_database),
		cmocka_unit_test(deaths_and_restarts_in_termination_mode),
	};

	inc_log_sink(quiet);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
