// SPDX-License-Identifier: BSD-2-Clause
/* The search. Threads are coroutines, and the search walks depth first through the tree of their
 * orders. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include "search_priv.h"

#define STACK_BYTES (256 * 1024)

enum state {
	READY, /* the thread's next access is pending */
	ENDED,
};

static struct {
	ucontext_t context;
	enum state state;
	struct op pending;
	uint8_t stack[STACK_BYTES] __attribute__((aligned(64)));
} thread[SEARCH_THREADS];

struct search search;
static ucontext_t outside;
static bool starting; /* threads run up to their first access, before the search begins */

static uint64_t latest(const struct op *op)
{
	unsigned int w = words_number(op->at);

	return search.options.model == SEARCH_SC ? *words_memory(w) : memory_latest(w);
}

static unsigned int enabled(void)
{
	unsigned int mask = 0;

	for (unsigned int t = 0; t < search.program->threads; t++)
		if (thread[t].state == READY &&
		    (!thread[t].pending.wait ||
		     races_ready(&thread[t].pending, latest(&thread[t].pending))))
			mask |= 1u << t;
	return mask;
}

/* Mask of the threads that sleep in the state after the last event, which means that they need not
 * be tried. */
static unsigned int sleepers(void)
{
	const struct node *last = &search.node[search.events - 1];
	unsigned int mask = 0, t;

	if (!search.events)
		return 0;
	for (t = 0; t < search.program->threads; t++)
		if ((last->sleep | last->done) >> t & 1 && t != last->thread &&
		    races_independent(&thread[t].pending, &search.event[search.events - 1].op))
			mask |= 1u << t;
	return mask;
}

/* Copies from the last state how many values each thread's next load need not try again. */
static void keep_tried(struct node *node)
{
	const struct node *last = node - 1;
	const struct event *e = &search.event[search.events - 1];
	unsigned int t, w;

	for (t = 0; search.events && t < search.program->threads; t++) {
		const struct op *next = &thread[t].pending;

		if (t == last->thread || !races_is_view(next))
			continue;
		node->tried[t] = last->tried[t];
		w = words_number(next->at);
		/* the last event woke the thread, because it depends on the thread's next access */
		if ((last->sleep | last->done) >> t & 1 && !races_independent(next, &e->op))
			node->tried[t] = memory_values(w) - 1;
	}
}

/* Would the search preempt a thread if this thread ran next? */
static bool preempts(const struct node *node, unsigned int t)
{
	return node->last != NO_THREAD && t != node->last && node->enabled >> node->last & 1;
}

/* Mask of the threads that may run next within the bound of preemptions. */
static unsigned int within_bound(const struct node *node, unsigned int mask)
{
	unsigned int allowed = mask, t;

	if (!search.options.bounded || node->preempted < search.options.preemptions)
		return mask;
	for (t = 0; t < search.program->threads; t++)
		if (preempts(node, t))
			allowed &= ~(1u << t);
	search.result->bound_met |= allowed != mask;
	return allowed;
}

/* Makes a new node. Returns the thread that runs first in it, or NO_THREAD if every choice has been
 * tried. */
static unsigned int open_node(void)
{
	struct node *node = &search.node[search.events];
	unsigned int mask = enabled(), last = search.self, awake;

	assert(search.events < MAX_EVENTS);
	*node = (struct node){.enabled = mask, .last = NO_THREAD};
	if (search.events) {
		node->last = node[-1].thread;
		node->preempted = node[-1].preempted + preempts(node - 1, node[-1].thread) +
				  (node[-1].choice > 0);
	}
	if (search.options.naive)
		node->backtrack = mask;
	else {
		node->sleep = sleepers();
		keep_tried(node);
	}
	awake = within_bound(node, mask & ~node->sleep);
	if (!awake) {
		search.cut = mask;
		return NO_THREAD;
	}
	last = node->last;
	node->thread =
		last < NO_THREAD && awake >> last & 1 ? last : (unsigned)__builtin_ctz(awake);
	node->backtrack |= 1u << node->thread;
	return node->thread;
}

/* Chooses the thread that runs next. Returns NO_THREAD if the run is over. */
static unsigned int choose(void)
{
	if (search.events < search.prefix)
		return search.node[search.events].thread;
	return open_node();
}

static void go(unsigned int to)
{
	unsigned int from = search.self;

	if (to == from)
		return;
	search.self = to;
	swapcontext(from == NO_THREAD ? &outside : &thread[from].context,
		    to == NO_THREAD ? &outside : &thread[to].context);
}

/* Lets the access happen. In a model with views, a load returns the value that the node's choice
 * selects. Every other access uses the latest value. */
static void see(struct event *e, struct node *node)
{
	const struct op *op = &e->op;
	unsigned int w = words_number(op->at), choices = 1;
	uint64_t value;

	e->before = latest(op);
	if (search.options.model == SEARCH_SC)
		return;
	if (!op->reads) {
		memory_store(e->thread, op);
		return;
	}
	if (races_is_view(op)) {
		choices = memory_choices(e->thread, w);
		if (choices > memory_values(w) - node->tried[e->thread])
			choices = memory_values(w) - node->tried[e->thread];
		if (choices > 1 && search.options.bounded &&
		    node->preempted >= search.options.preemptions) {
			search.result->bound_met = true;
			choices = 1;
		}
		e->source = memory_source(w, node->choice);
	}
	assert(choices && choices <= MAX_CHOICES);
	node->choices = choices;
	value = memory_load(e->thread, w, node->choice, op->sync);
	if (op->sync == SEARCH_FULL)
		memory_fence(e->thread, SEARCH_FULL);
	if (op->writes)
		memory_store(e->thread, op);
	*words_memory(w) = value;
}

unsigned int search_point(const struct op *op)
{
	unsigned int me = search.self, i;
	struct event *e;

	memory_commit();
	thread[me].pending = *op;
	if (search.options.model == SEARCH_X86) {
		thread[me].pending.sync |= op->reads ? SEARCH_ACQUIRE : 0;
		thread[me].pending.sync |= op->writes ? SEARCH_RELEASE : 0;
	}
	go(starting ? NO_THREAD : choose());
	i = search.events++;
	e = &search.event[i];
	e->op = thread[me].pending;
	e->thread = me;
	see(e, &search.node[i]);
	races_event(i);
	return i;
}

static void run_thread(void)
{
	unsigned int me = search.self;

	search.program->thread(search.program->arg, me);
	memory_commit();
	thread[me].state = ENDED;
	go(starting ? NO_THREAD : choose());
	abort(); /* unreachable, because a thread that has ended is never resumed */
}

void search_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(search.result->why, sizeof(search.result->why), fmt, ap);
	va_end(ap);
	if (search.self < NO_THREAD)
		go(NO_THREAD);
}

unsigned int search_self(void)
{
	return search.self;
}

static void start(unsigned int t)
{
	thread[t].state = READY;
	getcontext(&thread[t].context);
	thread[t].context.uc_stack.ss_sp = thread[t].stack;
	thread[t].context.uc_stack.ss_size = STACK_BYTES;
	thread[t].context.uc_link = NULL;
	makecontext(&thread[t].context, run_thread, 0);
	go(t);
}

/* Checks the outcome of the run when all threads have ended or none can go on. */
static void check_run(void)
{
	const char *why;
	unsigned int t;

	for (t = 0; t < search.program->threads; t++)
		if (thread[t].state != ENDED) {
			search_fail("thread %u waits for ever", t);
			return;
		}
	why = search.program->check(search.program->arg);
	if (why)
		search_fail("%s", why);
}

static void run_once(void)
{
	unsigned int t, to;

	search.program->reset(search.program->arg);
	search.events = 0;
	search.self = NO_THREAD;
	search.cut = false;
	races_begin();
	memory_begin();
	starting = true;
	for (t = 0; t < search.program->threads && !search.result->why[0]; t++)
		start(t);
	starting = false;
	to = search.result->why[0] ? NO_THREAD : choose();
	if (to != NO_THREAD)
		go(to);
	if (search.options.model != SEARCH_SC)
		for (t = 0; t < words_used(); t++)
			*words_memory(t) = memory_latest(t);
	search.result->accesses += search.events;
	if (search.events > search.result->longest)
		search.result->longest = search.events;
	if (!search.result->why[0] && !search.cut)
		check_run();
	if (search.cut)
		search.result->cut++;
	else
		search.result->runs++;
}

/* Prepares the next order, from the deepest node that has a choice which was not tried. Returns
 * false if there is none. */
static bool advance(void)
{
	for (unsigned int i = search.events; i--;) {
		struct node *node = &search.node[i];
		unsigned int left;

		if (node->choice + 1 < node->choices) {
			node->choice++;
			search.prefix = i + 1;
			return true;
		}
		node->done |= 1u << node->thread;
		left = within_bound(node, node->backtrack & ~node->done & ~node->sleep);
		if (left) {
			node->thread = __builtin_ctz(left);
			node->choice = node->choices = 0;
			search.prefix = i + 1;
			return true;
		}
	}
	return false;
}

/* Prints the trace, one line for each access. Consecutive accesses of one thread to one word share
 * a line.
 */
static void print_trace(void)
{
	const struct search_program *p = search.program;

	fprintf(stderr, "# %s: %s, by this order:\n", p->name, search.result->why);
	for (unsigned int i = 0; i < search.events; i++) {
		const struct event *e = &search.event[i];
		const char *name = p->word ? p->word(p->arg, e->op.at) : "word";

		fprintf(stderr, "#   thread %u %s%s%s %s, %u bytes%s%s%s\n", e->thread,
			e->op.reads ? "loads" : "", e->op.reads && e->op.writes ? " and " : "",
			e->op.writes ? "stores" : "", name, e->op.size,
			e->op.sync & SEARCH_ACQUIRE ? ", acquires" : "",
			e->op.sync & SEARCH_RELEASE ? ", releases" : "",
			search.node[i].choice ? ", an older value" : "");
	}
}

int search_run(const struct search_program *program, const struct search_options *options,
	       struct search_result *result)
{
	memset(result, 0, sizeof(*result));
	search.program = program;
	search.options = *options;
	search.result = result;
	search.prefix = 0;
	assert(program->threads <= SEARCH_THREADS);
	for (;;) {
		run_once();
		if (result->why[0]) {
			print_trace();
			return -1;
		}
		if (options->max_runs && result->runs >= options->max_runs)
			return 0;
		if (!advance())
			break;
	}
	result->complete = true;
	return 0;
}
