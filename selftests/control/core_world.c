// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/orphan.h"
#include "controller/store/persist_priv.h"
#include "core_world.h"
#include "lib/base/clock.h"

static const char topology[] =
	"name: core\n"
	"hosts: [{name: h0, ip: 10.77.0.1}, {name: h1, ip: 10.77.1.1}, {name: h2, ip: 10.77.2.1}]\n"
	"switches:\n"
	"- {name: s0, root: true, ports: [{name: p0, ip: 10.77.0.254, peer: h0},"
	" {name: p1, ip: 10.77.1.254, peer: h1}, {name: t, ip: 10.78.0.1, peer: s1}]}\n"
	"- {name: s1, ports: [{name: p0, ip: 10.77.2.254, peer: h2},"
	" {name: t, ip: 10.78.0.2, peer: s0}]}\n"
	"links: []\n";

static struct inc_topology *topo;

static char notes[1 << 15];
static size_t n_notes;

void world_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	n_notes += vsnprintf(notes + n_notes, sizeof(notes) - n_notes, fmt, ap);
	va_end(ap);
	if (n_notes > sizeof(notes) - 1)
		n_notes = sizeof(notes) - 1;
}

void world_require(bool condition, const char *fmt, ...)
{
	va_list ap;

	if (condition)
		return;
	printf("%s", notes);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(stdout);
	abort();
}

void world_push(struct world_queue *queue, struct world_said said)
{
	world_require(queue->n < WORLD_QUEUE, "a queue is full");
	queue->said[queue->n++] = said;
}

struct world_said world_pop(struct world_queue *queue)
{
	const struct world_said first = queue->said[0];

	memmove(queue->said, queue->said + 1, --queue->n * sizeof(first));
	return first;
}

/* ---- messages of the core ---- */

static bool has_said(const struct world_queue *queue, enum world_message kind)
{
	for (unsigned int i = 0; i < queue->n; i++) {
		if (queue->said[i].kind == kind)
			return true;
	}
	return false;
}

/* The member's program destroys its group. */
static void leave(struct world_member *m)
{
	m->state = MEMBER_LEAVES;
	world_push(&m->queue, (struct world_said){.kind = SAYS_BYE});
}

static void destroy(struct world_member *m)
{
	if (m->state == MEMBER_DESTROYS || has_said(&m->queue, SAYS_DESTROY))
		return;
	world_push(&m->queue,
		   (struct world_said){.kind = SAYS_DESTROY, .number = m->made.communicator});
}

static void take_made(struct world *w, struct world_member *m, const struct inc_msg_made *made)
{
	world_require(m->state == MEMBER_ASKS, "a communicator for a member in state %d", m->state);
	world_require(!w->database || store_has(INC_KEPT_COMMS, made->communicator),
		      "a communicator is told and not stored");
	m->made = *made;
	m->state = MEMBER_READIES;
	world_push(&m->queue,
		   (struct world_said){.kind = SAYS_READY, .number = made->communicator});
}

static void take_start(struct world *w, struct world_member *m)
{
	for (unsigned int i = 0; i < WORLD_MEMBERS; i++)
		world_require(w->members[i].made.communicator == m->made.communicator,
			      "a start before member %u has the communicator", i);
	m->state = MEMBER_RUNS;
	m->must = !w->job_ends;
}

/* The member learns that its group or communicator has failed, and destroys the communicator. */
static void take_failed(struct world_member *m)
{
	if (m->state == MEMBER_READIES || m->state == MEMBER_RUNS || m->state == MEMBER_RESUMES)
		destroy(m);
}

void world_refused(struct world_member *m)
{
	if (m->state == MEMBER_READIES)
		destroy(m);
	else if (m->state != MEMBER_LEAVES)
		leave(m);
}

static void deliver(struct world *w, struct world_member *m, enum inc_message_id id,
		    const void *message)
{
	if (m->dead || m->state == MEMBER_GONE)
		return;
	if (id == INC_MSG_ERROR || id == INC_MSG_FAILED)
		world_note("  to member %zu: %s\n", m - w->members,
			   id == INC_MSG_ERROR ? ((const struct inc_msg_error *)message)->message
					       : ((const struct inc_msg_failed *)message)->message);
	else
		world_note("  to member %zu: message %d\n", m - w->members, id);
	switch (id) {
	case INC_MSG_JOINED:
		m->group = ((const struct inc_msg_joined *)message)->group;
		world_require(!w->database || store_has(INC_KEPT_GROUPS, m->group),
			      "a group is told and not stored");
		m->state = MEMBER_ASKS;
		world_push(&m->queue, (struct world_said){.kind = SAYS_ASK});
		break;
	case INC_MSG_MADE:
		take_made(w, m, message);
		break;
	case INC_MSG_START:
		take_start(w, m);
		break;
	case INC_MSG_RESUMED:
		m->state = MEMBER_RUNS;
		break;
	case INC_MSG_DESTROY:
		m->done = m->state == MEMBER_DESTROYS;
		leave(m);
		break;
	case INC_MSG_FAILED:
		take_failed(m);
		break;
	case INC_MSG_ERROR:
		world_refused(m);
		break;
	default:
		world_require(false, "message %d for a member", id);
	}
}

static void forget(struct world_switch *sw, uint32_t number)
{
	for (unsigned int i = 0; i < sw->n; i++) {
		if (sw->has[i] == number)
			sw->has[i--] = sw->has[--sw->n];
	}
}

bool world_has(const struct world_switch *sw, uint32_t number)
{
	for (unsigned int i = 0; i < sw->n; i++) {
		if (sw->has[i] == number)
			return true;
	}
	return false;
}

static void welcome(struct world_switch *sw, const uint32_t *keep, uint32_t n)
{
	for (unsigned int i = 0; i < sw->n; i++) {
		bool kept = false;

		for (uint32_t k = 0; k < n; k++)
			kept |= keep[k] == sw->has[i];
		if (!kept)
			sw->has[i--] = sw->has[--sw->n];
	}
}

/* Carries a request to a switch out at once. The switch's answer waits in its queue. */
static void ask(struct world *w, const struct inc_action *action)
{
	struct world_switch *sw = &w->switches[action->sw->index];

	if (action->asked == ASKED_CONFIGURE) {
		world_require(!world_has(sw, action->number),
			      "a switch is told twice to make a communicator");
		sw->has[sw->n++] = action->number;
	} else if (action->asked == ASKED_REMOVE) {
		forget(sw, action->number);
	}
	world_push(&sw->queue, (struct world_said){SAYS_ANSWER, action->asked, action->number});
}

/* Do all members run, and do all switches have their communicator? The job can then get its
 * results, after which members destroy the communicator. */
static bool can_finish(const struct world *w)
{
	const uint32_t number = w->members[0].made.communicator;

	for (unsigned int i = 0; i < WORLD_MEMBERS; i++) {
		const struct world_member *m = &w->members[i];

		if ((m->state != MEMBER_RUNS && m->state != MEMBER_RESUMES) ||
		    has_said(&m->queue, SAYS_DESTROY))
			return false;
	}
	return world_has(&w->switches[0], number) && world_has(&w->switches[1], number);
}

static void finish(struct world *w)
{
	for (unsigned int i = 0; i < WORLD_MEMBERS; i++)
		destroy(&w->members[i]);
}

/* ---- actions ---- */

void world_step(struct world *w, const struct inc_core_event *event)
{
	inc_core_step(&w->core, event, w->now);
}

static void flush(struct world *w)
{
	struct inc_action *change;
	struct inc_err err;

	while ((change = TAILQ_FIRST(&w->unstored))) {
		TAILQ_REMOVE(&w->unstored, change, entry);
		inc_rows_write_change(NULL, &w->core, change, &err);
		free(change);
	}
	if (w->database)
		inc_rows_write_numbers(NULL, &w->core, &err);
}

static void forget_actions(struct world *w)
{
	inc_actions_free(&w->core.actions.list);
	inc_actions_free(&w->unstored);
}

static void carry_out(struct world *w, struct inc_action *action)
{
	struct world_member *m = (struct world_member *)action->client;

	if (action->kind == ACTION_STORE) {
		TAILQ_INSERT_TAIL(&w->unstored, action, entry);
		return;
	}
	flush(w);
	switch (action->kind) {
	case ACTION_SEND:
		deliver(w, m, action->id, action->has_payload ? action->payload : NULL);
		break;
	case ACTION_ASK:
		if (w->switches[action->sw->index].connected)
			ask(w, action);
		else
			world_step(w, &(struct inc_core_event){.kind = CORE_EVENT_ANSWER,
							       .sw = action->sw,
							       .asked = action->asked,
							       .of = action->number,
							       .code = ENOTCONN,
							       .unasked = true,
							       .text = "absent"});
		break;
	case ACTION_WELCOME:
		welcome(&w->switches[action->sw->index], (const uint32_t *)action->payload,
			action->n_keep);
		break;
	case ACTION_COMMIT:
		world_step(w, &(struct inc_core_event){.kind = CORE_EVENT_STORED,
						       .group = action->group,
						       .communicator = action->communicator});
		break;
	default:
		break;
	}
	free(action);
}

static void begin_core(struct world *w)
{
	const struct inc_core_options opt = {.group_timeout_ms = 60000,
					     .switch_timeout_ms = 5000,
					     .member_timeout_ms = 3000,
					     .job_communicators = 64};
	struct inc_err err = {""};

	world_require(!inc_core_init(&w->core, &opt, topo, w->now, &err), "%s", err.msg);
	if (w->database) {
		world_require(!inc_restore(&w->core, "memory", NULL, &err), "%s", err.msg);
		forget_actions(w);
		w->core.knows_all = true;
		w->core.actions.stores = true;
		inc_rows_write_all(NULL, &w->core, &err);
		inc_rows_write_numbers(NULL, &w->core, &err);
	}
	for (unsigned int s = 0; s < WORLD_SWITCHES; s++) {
		w->switches[s].connected = false;
		w->switches[s].queue = (struct world_queue){.n = 1, .said = {{.kind = SAYS_HELLO}}};
	}
}

/* The controller is killed, and another one starts. Running members reconnect to it. Members that
 * wait for an answer end, because the answer is lost. */
static void restart(struct world *w)
{
	world_note("  the controller is killed, and the next one begins\n");
	forget_actions(w);
	inc_core_free(&w->core);
	w->had_restart = true;
	for (unsigned int i = 0; i < WORLD_MEMBERS; i++) {
		struct world_member *m = &w->members[i];

		m->client = (struct inc_core_client){
			.core = &w->core, .address = m->client.address, .peer = m->client.peer};
		const bool destroys = has_said(&m->queue, SAYS_DESTROY);

		m->queue.n = 0;
		if (m->state == MEMBER_RUNS || m->state == MEMBER_RESUMES) {
			m->state = MEMBER_RESUMES;
			world_push(&m->queue, (struct world_said){.kind = SAYS_RESUME});
			if (destroys)
				destroy(m);
		} else {
			m->done |= m->state == MEMBER_DESTROYS;
			m->state = MEMBER_GONE;
		}
	}
	begin_core(w);
}

/* Carries out all actions of the core. If the controller dies among them, the remaining ones are
 * lost. */
static void carry(struct world *w)
{
	struct inc_action *action;

	for (;;) {
		if ((!TAILQ_EMPTY(&w->core.actions.list) || !TAILQ_EMPTY(&w->unstored)) &&
		    !w->had_restart && w->dies()) {
			restart(w);
			return;
		}
		action = inc_action_next(&w->core);
		if (!action)
			break;
		carry_out(w, action);
	}
	flush(w);
	for (unsigned int s = 0; s < WORLD_SWITCHES; s++)
		world_require(!w->core.switches[s].to_drop, "switch %u is to be dropped: %s", s,
			      w->core.switches[s].to_drop);
}

/* ---- functions that the test calls ---- */

void world_begin(struct world *w, enum inc_mode_of_switch mode, bool database, bool (*dies)(void))
{
	static const char *const addresses[] = {"10.77.0.1", "10.77.1.1", "10.77.2.1"};
	struct inc_err err = {""};

	if (!topo)
		world_require(
			!inc_topology_parse("core", topology, sizeof(topology) - 1, &topo, &err),
			"%s", err.msg);
	n_notes = 0;
	store_clear();
	*w = (struct world){.topo = topo,
			    .mode = mode,
			    .now = {INC_NSEC_PER_SEC, 1000},
			    .database = database,
			    .dies = dies};
	TAILQ_INIT(&w->unstored);
	begin_core(w);
	for (unsigned int i = 0; i < WORLD_MEMBERS; i++) {
		w->members[i].client = (struct inc_core_client){
			.core = &w->core, .address = addresses[i], .peer = addresses[i]};
		world_push(&w->members[i].queue, (struct world_said){.kind = SAYS_JOIN});
	}
}

void world_end(struct world *w)
{
	forget_actions(w);
	inc_core_free(&w->core);
}

unsigned int world_enabled(const struct world *w, struct world_event events[])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < WORLD_MEMBERS; i++) {
		if (w->members[i].queue.n)
			events[n++] = (struct world_event){WORLD_MEMBER, i};
	}
	for (unsigned int s = 0; s < WORLD_SWITCHES; s++) {
		if (w->switches[s].queue.n)
			events[n++] = (struct world_event){WORLD_SWITCH, s};
	}
	if (can_finish(w))
		events[n++] = (struct world_event){WORLD_FINISH, 0};
	if (!n && inc_core_due_at_ns(&w->core))
		events[n++] = (struct world_event){WORLD_TIME, 0};
	if (!n || w->had_death)
		return n;
	for (unsigned int i = 0; i < WORLD_MEMBERS; i++) {
		if (w->members[i].state != MEMBER_GONE)
			events[n++] = (struct world_event){WORLD_KILL, i};
	}
	for (unsigned int s = 0; s < WORLD_SWITCHES; s++) {
		if (!w->switches[s].connected)
			continue;
		events[n++] = (struct world_event){WORLD_CUT, s};
		events[n++] = (struct world_event){WORLD_CRASH, s};
	}
	return n;
}

static void note(const struct world *w, const struct world_event *event)
{
	switch (event->what) {
	case WORLD_MEMBER:
		world_note("member %u says %d\n", event->i,
			   w->members[event->i].queue.said[0].kind);
		break;
	case WORLD_SWITCH:
		world_note("switch %u says %d (%d)\n", event->i,
			   w->switches[event->i].queue.said[0].kind,
			   w->switches[event->i].queue.said[0].asked);
		break;
	default:
		world_note("%s %u\n",
			   event->what == WORLD_KILL    ? "dies: member"
			   : event->what == WORLD_CUT   ? "is cut off: switch"
			   : event->what == WORLD_CRASH ? "its daemon dies: switch"
			   : event->what == WORLD_TIME  ? "time passes"
							: "the job has its results",
			   event->i);
	}
}

void world_do(struct world *w, const struct world_event *event)
{

	note(w, event);
	w->job_ends |= event->what == WORLD_KILL || event->what == WORLD_CRASH;
	w->had_death |= w->job_ends || event->what == WORLD_CUT;
	for (unsigned int i = 0; w->job_ends && i < WORLD_MEMBERS; i++)
		w->members[i].must = false;
	switch (event->what) {
	case WORLD_MEMBER:
		world_member_says(w, event->i);
		break;
	case WORLD_SWITCH:
		world_switch_says(w, event->i);
		break;
	case WORLD_FINISH:
		finish(w);
		break;
	case WORLD_KILL:
		w->members[event->i].dead = true;
		world_lose(w, &w->members[event->i], false);
		break;
	case WORLD_CUT:
	case WORLD_CRASH:
		world_cut(w, event->i, event->what == WORLD_CRASH);
		break;
	case WORLD_TIME:
		w->now.awake_ns = inc_core_due_at_ns(&w->core);
		world_step(w, &(struct inc_core_event){.kind = CORE_EVENT_TIME});
		break;
	}
	carry(w);
}

void world_check_end(const struct world *w)
{
	unsigned int t, i;

	for (i = 0; i < WORLD_MEMBERS; i++) {
		const struct world_member *m = &w->members[i];

		world_require(m->state == MEMBER_GONE, "member %u waits for ever, in state %d", i,
			      m->state);
		world_require(m->done || w->had_death || w->had_restart,
			      "member %u fails without a reason", i);
		world_require(m->done || !m->must, "member %u fails although its job could run", i);
	}
	world_require(LIST_EMPTY(&w->core.groups), "a group is left");
	world_require(LIST_EMPTY(&w->core.derivations), "a derivation is left");
	world_require(LIST_EMPTY(&w->core.orphans), "an unclaimed communicator is left");
	for (i = 0; i < WORLD_SWITCHES; i++)
		world_require(!w->switches[i].n && !w->core.switches[i].n_qpns,
			      "switch %u has %u communicators and %zu numbers", i, w->switches[i].n,
			      w->core.switches[i].n_qpns);
	for (t = 0; t < INC_N_KEPT_TABLES; t++)
		world_require(t == INC_KEPT_NUMBERS || !store_rows(t), "%u rows of %s are left",
			      store_rows(t), inc_kept_layouts[t].name);
}
