/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * The state machine of one side of a connection (hostlib/connect/state.h). Every event is applied
 * in every reachable state, after every sequence of events. All actions so far are part of the
 * state. The test has its own list of the precondition and the effect of each action.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "selftests/connect/model_side.h"

#define MAX_SIDES 4096

static struct {
	struct model_side side;
	size_t before;
	enum connect_event by;
} known[MAX_SIDES];
static size_t n_known;

/* Prints the events that led to this state, beginning with the last one. */
static void show_trail(size_t i)
{
	for (; i; i = known[i].before)
		print_error("  %s: %s\n", connect_event_text(known[i].by),
			    connect_state_text(known[i].side.state));
}

static void must(bool holds, size_t from, enum connect_event event, const char *what)
{
	if (holds)
		return;
	print_error("%s, after %s in state %s\n", what, connect_event_text(event),
		    connect_state_text(known[from].side.state));
	show_trail(from);
	fail();
}

static bool is_final(enum connect_state state)
{
	return state == CONNECT_CLOSED || state == CONNECT_FAILED;
}

static void check_side(const struct model_side *s, size_t from, enum connect_event event)
{
	const struct model_side *was = &known[from].side;

	must(s->state != CONNECT_NEW || was->state == CONNECT_NEW, from, event,
	     "a return to the state NEW");
	if (is_final(s->state))
		must(!s->clock && !s->tcp && (s->qp == QP_NONE || s->qp == QP_ERR), from, event,
		     "a final state with a timer, TCP connection or queue pair");
	if (s->state == CONNECT_FAILED)
		must(s->told, from, event, "FAILED without a report to the owner");
	if (s->state == CONNECT_CLOSED && was->state != CONNECT_CLOSED && !s->told)
		must(event == CONNECT_EVENT_CLOSE, from, event,
		     "CLOSED without a close by the owner");
	if (s->state == CONNECT_READY || s->state == CONNECT_CLOSING)
		must(s->told == TOLD_READY && s->qp == QP_RTS && s->receives && !s->tcp, from,
		     event, "READY or CLOSING without one of its preconditions");
	if (s->state != CONNECT_NEW && s->state != CONNECT_READY && !is_final(s->state)) {
		must(s->clock, from, event, "a state without a timer");
		must(is_final(connect_next(s->state, CONNECT_EVENT_TIMEOUT).to), from, event,
		     "TIMEOUT does not end this state");
	}
	must(s->aiming == (s->state == CONNECT_AIMING || s->state == CONNECT_SEEKING), from, event,
	     "a step to RTR in progress in the wrong state, or missing");
	if (s->state == CONNECT_READY)
		must(!s->clock, from, event, "READY while a timer runs");
	if (!is_final(s->state)) {
		must(connect_next(s->state, CONNECT_EVENT_FAILED).to == CONNECT_FAILED, from, event,
		     "FAILED does not end this state");
		must(s->state == CONNECT_CLOSING ||
			     connect_next(s->state, CONNECT_EVENT_CLOSE).to != s->state,
		     from, event, "the owner cannot close in this state");
	}
}

static void remember(const struct model_side *s, size_t from, enum connect_event event)
{
	size_t i;

	for (i = 0; i < n_known; i++)
		if (!memcmp(&known[i].side, s, sizeof(*s)))
			return;
	assert_true(n_known < MAX_SIDES);
	known[n_known].side = *s;
	known[n_known].before = from;
	known[n_known].by = event;
	n_known++;
}

static void explore(void)
{
	enum connect_event event;
	size_t i;

	n_known = 1;
	memset(known, 0, sizeof(known));
	for (i = 0; i < n_known; i++) {
		for (event = 0; event < CONNECT_N_EVENTS; event++) {
			struct model_side s = known[i].side;
			const char *wrong = model_side_step(&s, event);

			must(!wrong, i, event, wrong);
			check_side(&s, i, event);
			remember(&s, i, event);
		}
	}
}

static void every_event_in_every_state(void **state)
{
	bool seen[CONNECT_N_STATES] = {false};
	uint32_t done = 0;
	size_t i;

	explore();
	for (i = 0; i < n_known; i++) {
		seen[known[i].side.state] = true;
		if (i)
			done |= connect_next(known[known[i].before].side.state, known[i].by)
					.actions;
	}
	for (i = 0; i < CONNECT_N_STATES; i++)
		assert_true(seen[i]);
	assert_int_equal(done, (1u << CONNECT_N_ACTIONS) - 1);
}

static void final_states_are_final(void **state)
{
	static const enum connect_state final[] = {CONNECT_CLOSED, CONNECT_FAILED};
	enum connect_event event;
	size_t i;

	for (i = 0; i < 2; i++)
		for (event = 0; event < CONNECT_N_EVENTS; event++) {
			const struct connect_step step = connect_next(final[i], event);

			assert_int_equal(step.to, final[i]);
			assert_int_equal(step.actions, 0);
		}
}

static void every_end_stops_everything(void **state)
{
	const uint32_t all = CONNECT_DO(STOP_CLOCK) | CONNECT_DO(HANG_UP) | CONNECT_DO(STOP);
	enum connect_state from;
	enum connect_event event;

	for (from = 0; from < CONNECT_CLOSED; from++)
		for (event = 0; event < CONNECT_N_EVENTS; event++) {
			const struct connect_step step = connect_next(from, event);

			if (is_final(step.to))
				assert_int_equal(step.actions & all, all);
		}
}

static void irrelevant_events_change_nothing(void **state)
{
	struct connect_step step = connect_next(CONNECT_READY, CONNECT_EVENT_MESSAGE);

	assert_int_equal(step.to, CONNECT_READY);
	assert_int_equal(step.actions, 0);
	/* a client that hangs up after the service's answer may be ready; before the answer it
	 * cannot be */
	assert_int_equal(connect_next(CONNECT_ACCEPTED, CONNECT_EVENT_LOST).to, CONNECT_ACCEPTED);
	assert_int_equal(connect_next(CONNECT_ANSWERING, CONNECT_EVENT_LOST).to, CONNECT_FAILED);
	/* a client that hangs up while its address is resolved cannot be ready either */
	assert_int_equal(connect_next(CONNECT_SEEKING, CONNECT_EVENT_LOST).to, CONNECT_FAILED);
	/* a client that has the answer does not need the TCP connection any more */
	assert_int_equal(connect_next(CONNECT_AIMING, CONNECT_EVENT_LOST).to, CONNECT_AIMING);
	assert_int_equal(connect_next(CONNECT_PROBING, CONNECT_EVENT_LOST).to, CONNECT_PROBING);
	assert_int_equal(connect_next(CONNECT_ASKING, CONNECT_EVENT_LOST).to, CONNECT_FAILED);
}

static void a_close_may_overtake_the_first_completion(void **state)
{
	struct connect_step step = connect_next(CONNECT_PROBING, CONNECT_EVENT_PEER_CLOSED);

	assert_int_equal(step.to, CONNECT_CLOSED);
	assert_true(step.actions & CONNECT_DO(REPORT_READY));
}

struct doer {
	enum connect_state state;
	uint32_t done;
	uint32_t fails; /* mask of the actions that shall fail; each may fail only once */
	enum connect_state told_in;
};

static int do_it(void *arg, enum connect_action_bit action)
{
	struct doer *d = arg;

	/* no action may happen twice before a failure */
	assert_false(d->done >> action & 1 && d->fails);
	d->done |= 1u << action;
	if (action >= CONNECT_ACTION_REPORT_READY)
		d->told_in = d->state;
	if (!(d->fails >> action & 1))
		return 0;
	d->fails = 0;
	return -1;
}

/* If an action fails on the way to a state, the owner gets only the report of the failure. If the
 * owner already has the socket, it gets no report. */
static void an_action_that_fails(void **state)
{
	const uint32_t ends = CONNECT_DO(STOP_CLOCK) | CONNECT_DO(HANG_UP) | CONNECT_DO(STOP);
	enum connect_action_bit action;
	enum connect_state from;
	enum connect_event event;
	bool told;

	for (from = 0; from < CONNECT_N_STATES; from++)
		for (event = 0; event < CONNECT_N_EVENTS; event++) {
			const struct connect_step step = connect_next(from, event);
			struct doer d = {.state = from};

			told = connect_follow(&d.state, event, do_it, &d);
			assert_int_equal(d.done, step.actions);
			assert_int_equal(d.state, step.to);
			assert_int_equal(told, step.actions >= CONNECT_DO(REPORT_READY));
			assert_true(!told || d.told_in == step.to);
			for (action = 0; action < CONNECT_ACTION_REPORT_READY; action++) {
				if (!(step.actions & ~ends & 1u << action))
					continue;
				d = (struct doer){.state = from, .fails = 1u << action};
				told = connect_follow(&d.state, event, do_it, &d);
				assert_int_equal(d.state, CONNECT_FAILED);
				assert_int_equal(told, from != CONNECT_READY);
				assert_true(!told || d.told_in == CONNECT_FAILED);
				assert_int_equal(d.done & ends, ends);
				assert_false(d.done & CONNECT_DO(REPORT_READY));
				/* the actions after the failed one must not have begun */
				assert_false(d.done & ~ends & ~CONNECT_DO(REPORT_FAILED) &
					     ~((2u << action) - 1));
			}
		}
}

static void all_have_texts_of_their_own(void **state)
{
	unsigned int i, k;

	for (i = 0; i < CONNECT_N_STATES; i++)
		for (k = 0; k < i; k++)
			assert_string_not_equal(connect_state_text(i), connect_state_text(k));
	for (i = 0; i < CONNECT_N_EVENTS; i++)
		for (k = 0; k < i; k++)
			assert_string_not_equal(connect_event_text(i), connect_event_text(k));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_event_in_every_state),
		cmocka_unit_test(final_states_are_final),
		cmocka_unit_test(every_end_stops_everything),
		cmocka_unit_test(irrelevant_events_change_nothing),
		cmocka_unit_test(a_close_may_overtake_the_first_completion),
		cmocka_unit_test(an_action_that_fails),
		cmocka_unit_test(all_have_texts_of_their_own),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
