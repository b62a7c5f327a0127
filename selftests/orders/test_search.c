// SPDX-License-Identifier: BSD-2-Clause
// COMPUTES: it waits for nothing
/*
 * Tests the search itself, on programs so small that all their outcomes are known: litmus tests of
 * the memory models, and random programs. A random program must have the same outcomes with the
 * reduction as with all orders. TIMEOUT: 1200
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "search.h"
#include "selftests/unit/report.h"

#define WORDS       4
#define MAX_OPS     8
#define MAX_OUTCOME 20000

enum kind { LOAD, STORE, ADD, FENCE, WAIT, ACQUIRE, RELEASE, LOCK, UNLOCK };

struct step {
	enum kind kind;
	unsigned int word;
	uint64_t value;
};

/* The shared words of a program. Each thread also has the list of values that it has loaded, which
 * is not shared. */
static struct {
	uint64_t word[WORDS];
	uint64_t lock, fence;
} memory;

struct toy {
	unsigned int threads;
	struct step step[SEARCH_THREADS][MAX_OPS];
	unsigned int steps[SEARCH_THREADS];
	uint64_t seen[SEARCH_THREADS][MAX_OPS];
	uint64_t outcome[MAX_OUTCOME]; /* hashes of the outcomes, in rising order */
	unsigned int outcomes;
};

static void reset(void *arg)
{
	struct toy *toy = arg;

	memset(&memory, 0, sizeof(memory));
	memset(toy->seen, 0, sizeof(toy->seen));
}

uint32_t __tsan_atomic32_exchange(volatile uint32_t *at, uint32_t value, int order);
void __tsan_read4(void *at);

/* Takes a lock as the data path locks a connection. */
static void lock(void)
{
	uint32_t *word = (uint32_t *)&memory.lock;

	do
		__tsan_read4(word);
	while (*(volatile uint32_t *)word || __tsan_atomic32_exchange(word, 1, __ATOMIC_SEQ_CST));
}

static void run(void *arg, unsigned int self)
{
	struct toy *toy = arg;

	for (unsigned int i = 0; i < toy->steps[self]; i++) {
		const struct step *s = &toy->step[self][i];
		uint64_t *word = &memory.word[s->word], *seen = &toy->seen[self][i];

		switch (s->kind) {
		case LOAD:
			*seen = search_load(word, SEARCH_PLAIN);
			break;
		case ACQUIRE:
			*seen = search_load(word, SEARCH_ACQUIRE);
			break;
		case STORE:
			search_store(word, s->value, SEARCH_PLAIN);
			break;
		case RELEASE:
			search_store(word, s->value, SEARCH_RELEASE);
			break;
		case ADD:
			*seen = search_fetch_add(word, s->value);
			break;
		case FENCE:
			search_fetch_add(&memory.fence, 0);
			break;
		case WAIT:
			search_wait(word, s->value);
			break;
		case LOCK:
			lock();
			break;
		case UNLOCK:
			__tsan_atomic32_exchange((uint32_t *)&memory.lock, 0, __ATOMIC_SEQ_CST);
			break;
		}
	}
}

static const char *keep(void *arg)
{
	struct toy *toy = arg;
	uint64_t hash = 1;
	unsigned int at = 0, i, k;

	for (i = 0; i < toy->threads; i++)
		for (k = 0; k < toy->steps[i]; k++)
			hash = rng_mix(hash, toy->seen[i][k]);
	for (i = 0; i < WORDS; i++)
		hash = rng_mix(hash, memory.word[i]);
	while (at < toy->outcomes && toy->outcome[at] < hash)
		at++;
	if (at < toy->outcomes && toy->outcome[at] == hash)
		return NULL;
	if (toy->outcomes == MAX_OUTCOME)
		return "more outcomes than there is room for";
	memmove(&toy->outcome[at + 1], &toy->outcome[at],
		(toy->outcomes++ - at) * sizeof(toy->outcome[0]));
	toy->outcome[at] = hash;
	return NULL;
}

static int try(struct toy *toy, enum search_model model, bool naive, struct search_result *result)
{
	struct search_program program = {"toy", toy->threads, reset, run, keep, NULL, toy};
	struct search_options options = {.model = model, .naive = naive};
	int ret;

	toy->outcomes = 0;
	search_share(&memory, sizeof(memory));
	search_spins_on((uint32_t *)&memory.lock);
	ret = search_run(&program, &options, result);
	search_forget();
	return ret;
}

/* --- litmus tests ------------------------------------------------------------------------ */

struct litmus {
	const char *name;
	/* steps of each thread, as pairs of a letter and a word (see parse()) */
	const char *thread[3];
	unsigned int outcomes[3]; /* numbers of outcomes in the models SC, x86 and arm64 */
	unsigned int runs;        /* number of runs in SC; 0: not checked */
};

/* The numbers of outcomes follow from the models in search.h. They were counted without the
 * search. */
static const struct litmus litmus[] = {
	{"store_buffering", {"S0 L1", "S1 L0"}, {3, 4, 4}, 3},
	{"message_passing", {"S0 S1", "L1 L0"}, {3, 3, 4}, 3},
	{"message_passing_with_barriers", {"S0 F S1", "L1 F L0"}, {3, 3, 3}, 0},
	{"message_passing_with_one_barrier", {"S0 F S1", "L1 L0"}, {3, 3, 4}, 0},
	{"message_passing_release_acquire", {"S0 R1", "A1 L0"}, {3, 3, 3}, 3},
	{"message_passing_by_atomics", {"S0 U1", "U1 L0"}, {3, 3, 3}, 0},
	{"message_passing_by_three", {"S0 U1", "U1 U2", "U2 L0"}, {7, 7, 7}, 0},
	{"coherence", {"S0 S0", "L0 L0"}, {6, 6, 6}, 6},
	{"lost_update", {"L0 S0", "L0 S0"}, {4, 4, 4}, 4},
	{"updates", {"U0", "U0", "U0"}, {6, 6, 6}, 6},
	{"apart", {"S0 L0", "S1 L1", "S2 L2"}, {1, 1, 1}, 1},
	{"locked", {"C L0 S0 O", "C L0 S0 O", "C L0 S0 O"}, {6, 6, 6}, 0},
	{"waits", {"S0 S1", "W1 L0"}, {1, 1, 2}, 1},
	{"waits_for_what_is_released", {"S0 R1", "W1 L0"}, {1, 1, 1}, 1},
};

/* Reads the steps of a litmus test. Stores are numbered, so that each store has a different
 * value. */
static void parse(struct toy *toy, const struct litmus *what)
{
	static const char letters[] = "LSUFWARCO";

	memset(toy, 0, sizeof(*toy));
	for (unsigned int t = 0; t < 3 && what->thread[t]; t++) {
		toy->threads++;
		for (const char *p = what->thread[t]; *p; p++) {
			const char *letter = *p == ' ' ? NULL : strchr(letters, *p);
			struct step *s = &toy->step[t][toy->steps[t]];

			if (!letter)
				continue;
			*s = (struct step){.kind = letter - letters,
					   .value = 1 + t * 16 + toy->steps[t]};
			if (s->kind == WAIT)
				s->value = 1;
			if (p[1] >= '0' && p[1] < '0' + WORDS)
				s->word = *++p - '0';
			toy->steps[t]++;
		}
	}
}

static void test_litmus(struct toy *toy)
{
	static const char *const model[] = {"sc", "x86", "arm64"};
	struct search_result result;

	for (unsigned int i = 0; i < sizeof(litmus) / sizeof(litmus[0]); i++) {
		const struct litmus *l = &litmus[i];

		for (unsigned int m = SEARCH_SC; m <= SEARCH_ARM64; m++) {
			char name[96];

			snprintf(name, sizeof(name), "%s_%s", l->name, model[m]);
			parse(toy, l);
			if (try(toy, m, false, &result))
				report_fail(name, "%s", result.why);
			else if (toy->outcomes != l->outcomes[m])
				report_fail(name, "%u outcomes, not %u", toy->outcomes,
					    l->outcomes[m]);
			else if (m == SEARCH_SC && l->runs && result.runs != l->runs)
				report_fail(name, "%llu orders, not %u",
					    (unsigned long long)result.runs, l->runs);
			else
				report_ok("%s (%u outcomes, %llu orders)", name, toy->outcomes,
					  (unsigned long long)result.runs);
		}
	}
}

/* --- random programs --------------------------------------------------------------------- */

/* Draws a random program. The first thread never waits, and stores into every word for which other
 * threads wait. */
static void draw(struct toy *toy, struct rng *rng)
{
	static const enum kind kinds[] = {LOAD,  LOAD, STORE,   STORE,   ADD,
					  FENCE, WAIT, ACQUIRE, RELEASE, LOCK};

	memset(toy, 0, sizeof(*toy));
	toy->threads = 2 + rng_below(rng, 2);
	for (unsigned int t = 0; t < toy->threads; t++) {
		unsigned int n = 1 + rng_below(rng, toy->threads == 2 ? 4 : 3), i;
		bool locked = false;

		for (i = 0; i < n; i++) {
			struct step *s = &toy->step[t][i];

			*s = (struct step){.kind = kinds[rng_below(rng, 10)],
					   .word = rng_below(rng, 2),
					   .value = 1 + t * 16 + i};
			if (s->kind == LOCK && (locked || i + 1 == n))
				s->kind = LOAD;
			locked |= s->kind == LOCK;
			if (s->kind == WAIT && (!t || locked))
				s->kind = STORE;
			if (s->kind == WAIT)
				s->value = 1;
		}
		if (!t)
			for (unsigned int w = 0; w < 2; w++)
				toy->step[t][i++] = (struct step){STORE, w, 60 + w};
		if (locked)
			toy->step[t][i++].kind = UNLOCK;
		toy->steps[t] = i;
	}
}

static void test_random(struct toy *toy, struct toy *all, unsigned int programs)
{
	static const char *const names[] = {"reduction_loses_nothing_sc",
					    "reduction_loses_nothing_x86",
					    "reduction_loses_nothing_arm64"};

	for (unsigned int m = SEARCH_SC; m <= SEARCH_ARM64; m++) {
		uint64_t reduced = 0, naive = 0, most = 0;
		struct search_result result;
		struct rng rng = {m};
		unsigned int i;

		for (i = 0; i < programs; i++) {
			draw(toy, &rng);
			*all = *toy;
			if (try(toy, m, false, &result))
				break;
			reduced += result.runs + result.cut;
			if (try(all, m, true, &result))
				break;
			naive += result.runs;
			most = all->outcomes > most ? all->outcomes : most;
			if (toy->outcomes == all->outcomes &&
			    !memcmp(toy->outcome, all->outcome, toy->outcomes * sizeof(uint64_t)))
				continue;
			snprintf(result.why, sizeof(result.why), "%u outcomes of %u", toy->outcomes,
				 all->outcomes);
			break;
		}
		if (i < programs)
			report_fail(names[m], "program %u: %s", i, result.why);
		else
			report_ok("%s (%u programs with up to %llu outcomes: %llu orders of %llu)",
				  names[m], programs, (unsigned long long)most,
				  (unsigned long long)reduced, (unsigned long long)naive);
	}
}

int main(void)
{
	static struct toy toy, all;
	const char *full = getenv("FULL");

	test_litmus(&toy);
	test_random(&toy, &all, full ? 3000 : 50);
	return report_exit();
}
