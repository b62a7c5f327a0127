// SPDX-License-Identifier: BSD-2-Clause
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "sim.h"

#define EVENTS_MOST 65536
/* start of the clock; it is not 0, because a time of 0 means "no time" */
#define BEGIN_NS (1000 * INC_NSEC_PER_SEC)

struct sim_figures sim_figures;
static void (*on_failure)(void);

struct event {
	uint64_t at_ns, number;
	sim_fn fn;
	void *arg;
	uint64_t arg2;
};

static struct {
	uint64_t seed, now_ns, numbers, hash, faults_end_ns;
	bool trace;
	struct rng rng;
	/* a heap of events: event i has the parent (i - 1) / 2, which happens earlier */
	struct event heap[EVENTS_MOST];
	unsigned int n;
} sim;

void sim_begin(uint64_t seed, bool trace)
{
	sim.seed = seed;
	sim.now_ns = BEGIN_NS;
	sim.numbers = 0;
	sim.hash = rng_mix(seed, 0);
	sim.trace = trace;
	sim.rng.state = rng_mix(seed, 1);
	sim.n = 0;
}

uint64_t sim_seed(void)
{
	return sim.seed;
}

uint64_t sim_now_ns(void)
{
	return sim.now_ns;
}

void sim_faults_end(uint64_t at_ns)
{
	sim.faults_end_ns = at_ns;
}

bool sim_faults(void)
{
	return sim.now_ns < sim.faults_end_ns;
}

uint32_t sim_below(uint32_t n)
{
	return rng_below(&sim.rng, n);
}

bool sim_chance(uint32_t permille)
{
	return rng_chance(&sim.rng, permille);
}

uint64_t sim_between(uint64_t from, uint64_t to)
{
	return from + rng_next(&sim.rng) % (to - from + 1);
}

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number);
}

void sim_at(uint64_t at_ns, sim_fn fn, void *arg, uint64_t arg2)
{
	struct event e = {.at_ns = at_ns > sim.now_ns ? at_ns : sim.now_ns,
			  .number = sim.numbers++,
			  .fn = fn,
			  .arg = arg,
			  .arg2 = arg2};
	unsigned int i = sim.n++;

	sim_require(sim.n < EVENTS_MOST, "more than %u events wait", EVENTS_MOST);
	for (; i && before(&e, &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
		sim.heap[i] = sim.heap[(i - 1) / 2];
	sim.heap[i] = e;
}

static struct event take(void)
{
	struct event first = sim.heap[0], last = sim.heap[--sim.n];
	unsigned int i = 0, child;

	while ((child = 2 * i + 1) < sim.n) {
		if (child + 1 < sim.n && before(&sim.heap[child + 1], &sim.heap[child]))
			child++;
		if (!before(&sim.heap[child], &last))
			break;
		sim.heap[i] = sim.heap[child];
		i = child;
	}
	sim.heap[i] = last;
	return first;
}

bool sim_step(void)
{
	struct event e;

	if (!sim.n)
		return false;
	e = take();
	sim.now_ns = e.at_ns;
	sim_figures.events++;
	e.fn(e.arg, e.arg2);
	return true;
}

void sim_hash_bytes(const void *data, size_t size)
{
	const uint8_t *at = data;
	uint64_t word;

	for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sim.hash = (sim.hash ^ word) * 0x9e3779b97f4a7c15;
		sim.hash ^= sim.hash >> 29;
	}
	word = size;
	memcpy(&word, at, size);
	sim.hash = rng_mix(sim.hash, word + (size << 56));
}

void sim_note(const char *where, const char *what, uint64_t a, uint64_t b, uint64_t c)
{
	const uint64_t numbers[] = {sim.now_ns, a, b, c};

	sim_hash_bytes(numbers, sizeof(numbers));
	sim_hash_bytes(where, strlen(where));
	sim_hash_bytes(what, strlen(what));
	if (sim.trace)
		printf("%12.3f us  %-6s %s %llu %llu %llu\n", (sim.now_ns - BEGIN_NS) / 1000.0,
		       where, what, (unsigned long long)a, (unsigned long long)b,
		       (unsigned long long)c);
}

bool sim_tracing(void)
{
	return sim.trace;
}

uint64_t sim_hash(void)
{
	return sim.hash;
}

void sim_fail(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	printf("seed %llu at %.3f us: ", (unsigned long long)sim.seed,
	       (sim.now_ns - BEGIN_NS) / 1000.0);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	if (on_failure)
		on_failure();
	fflush(stdout);
	_Exit(1);
}

void sim_on_failure(void (*fn)(void))
{
	on_failure = fn;
}

/* Prints the seed of a run in which the program crashes. */
static void on_crash(int number)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "seed %llu: signal %d\n",
			 (unsigned long long)sim_seed(), number);

	if (write(STDOUT_FILENO, text, n) != n)
		_exit(2);
	_exit(1);
}

void sim_catch_crashes(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
	static uint8_t stack[65536];
	const stack_t alternative = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction act = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
	unsigned int i;

	sigaltstack(&alternative, NULL);
	for (i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &act, NULL);
}
