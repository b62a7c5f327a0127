// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/orphan.h"
#include "controller/store/store_priv.h"
#include "selftests/control/fabric.h"
#include "selftests/fakes/core_peers.h"
#include "lib/base/clock.h"

static const char topology[] = "name: core\n" TWO_SWITCHES;

static struct inc_topology *topo;

static char notes[1 << 15];
static size_t n_notes;

void peers_note(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	n_notes += vsnprintf(notes + n_notes, sizeof(notes) - n_notes, fmt, ap);
	va_end(ap);
	if (n_notes > sizeof(notes) - 1)
		n_notes = sizeof(notes) - 1;
}

void peers_require(bool condition, const char *fmt, ...)
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

void peers_push(struct peers_queue *queue, struct peers_said said)
{
	peers_require(queue->n < PEERS_QUEUE, "a queue is full");
	queue->said[queue->n++] = said;
}

struct peers_said peers_pop(struct peers_queue *queue)
{
	const struct peers_said first = queue->said[0];

	memmove(queue->said, queue->said + 1, --queue->n * sizeof(first));
	return first;
}

/* ---- messages of the core ---- */

static bool has_said(const struct peers_queue *queue, enum peers_message kind)
{
	for (unsigned int i = 0; i < queue->n; i++) {
		if (queue->said[i].kind == kind)
			return true;
	}
	return false;
}

/* The member's program destroys its group. */
static void leave(struct peers_member *m)
{
	m->state = MEMBER_LEAVES;
	peers_push(&m->queue, (struct peers_said){.kind = SAYS_BYE});
}

static void destroy(struct peers_member *m)
{
	if (m->state == MEMBER_DESTROYS || has_said(&m->queue, SAYS_DESTROY))
		return;
	peers_push(&m->queue,
		   (struct peers_said){.kind = SAYS_DESTROY, .number = m->made.communicator});
}

static void take_made(struct core_peers *peers, struct peers_member *m,
		      const struct inc_msg_made *made)
{
	peers_require(m->state == MEMBER_ASKS, "a communicator for a member in state %d", m->state);
	peers_require(!peers->database || store_has(INC_KEPT_COMMS, made->communicator),
		      "a member is informed of a communicator that is not stored");
	m->made = *made;
	m->state = MEMBER_READIES;
	peers_push(&m->queue,
		   (struct peers_said){.kind = SAYS_READY, .number = made->communicator});
}

static void take_start(struct core_peers *peers, struct peers_member *m)
{
	for (unsigned int i = 0; i < PEERS_MEMBERS; i++)
		peers_require(peers->members[i].made.communicator == m->made.communicator,
			      "a start before member %u has the communicator", i);
	m->state = MEMBER_RUNS;
	m->must = !peers->job_ends;
}

/* The member learns that its group or communicator has failed, and destroys the communicator. */
static void take_failed(struct peers_member *m)
{
	if (m->state == MEMBER_READIES || m->state == MEMBER_RUNS || m->state == MEMBER_RESUMES)
		destroy(m);
}

void peers_refused(struct peers_member *m)
{
	if (m->state == MEMBER_READIES)
		destroy(m);
	else if (m->state != MEMBER_LEAVES)
		leave(m);
}

static void deliver(struct core_peers *peers, struct peers_member *m, enum inc_message_id id,
		    const void *message)
{
	if (m->dead || m->state == MEMBER_GONE)
		return;
	if (id == INC_MSG_ERROR || id == INC_MSG_FAILED)
		peers_note("  to member %zu: %s\n", m - peers->members,
			   id == INC_MSG_ERROR ? ((const struct inc_msg_error *)message)->message
					       : ((const struct inc_msg_failed *)message)->message);
	else
		peers_note("  to member %zu: message %d\n", m - peers->members, id);
	switch (id) {
	case INC_MSG_JOINED:
		m->group = ((const struct inc_msg_joined *)message)->group;
		peers_require(!peers->database || store_has(INC_KEPT_GROUPS, m->group),
			      "a member is informed of a group that is not stored");
		m->state = MEMBER_ASKS;
		peers_push(&m->queue, (struct peers_said){.kind = SAYS_ASK});
		break;
	case INC_MSG_MADE:
		take_made(peers, m, message);
		break;
	case INC_MSG_START:
		take_start(peers, m);
		break;
	case INC_MSG_RESUMED:
		m->state = MEMBER_RUNS;
		break;
	case INC_MSG_DESTROY:
		m->done = m->state == MEMBER_DESTROYS;
		leave(m);
		break;
	case INC_MSG_ABSENT:
		peers_require(m->state < MEMBER_RUNS, "a member that runs learns that it waits");
		break;
	case INC_MSG_FAILED:
		take_failed(m);
		break;
	case INC_MSG_NOTICE:
		break;
	case INC_MSG_ERROR:
		peers_refused(m);
		break;
	default:
		peers_require(false, "message %d for a member", id);
	}
}

static void forget(struct peers_switch *sw, uint32_t number)
{
	for (unsigned int i = 0; i < sw->n; i++) {
		if (sw->has[i] == number)
			sw->has[i--] = sw->has[--sw->n];
	}
}

bool peers_has(const struct peers_switch *sw, uint32_t number)
{
	for (unsigned int i = 0; i < sw->n; i++) {
		if (sw->has[i] == number)
			return true;
	}
	return false;
}

static void welcome(struct peers_switch *sw, const uint32_t *keep, uint32_t n)
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
static void ask(struct core_peers *peers, const struct inc_action *action)
{
	struct peers_switch *sw = &peers->switches[action->sw->index];

	if (action->asked == ASKED_CONFIGURE) {
		peers_require(!peers_has(sw, action->number),
			      "the core asks a switch twice to make a communicator");
		sw->has[sw->n++] = action->number;
	} else if (action->asked == ASKED_REMOVE) {
		forget(sw, action->number);
	}
	peers_push(&sw->queue, (struct peers_said){SAYS_ANSWER, action->asked, action->number});
}

/* Do all members run, and do all switches have their communicator? The job can then get its
 * results, after which members destroy the communicator. */
static bool can_finish(const struct core_peers *peers)
{
	const uint32_t number = peers->members[0].made.communicator;

	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		const struct peers_member *m = &peers->members[i];

		if ((m->state != MEMBER_RUNS && m->state != MEMBER_RESUMES) ||
		    has_said(&m->queue, SAYS_DESTROY))
			return false;
	}
	return peers_has(&peers->switches[0], number) && peers_has(&peers->switches[1], number);
}

static void finish(struct core_peers *peers)
{
	for (unsigned int i = 0; i < PEERS_MEMBERS; i++)
		destroy(&peers->members[i]);
}

/* ---- actions ---- */

void peers_step(struct core_peers *peers, const struct inc_core_event *event)
{
	inc_core_step(&peers->core, event, peers->now);
}

static void flush(struct core_peers *peers)
{
	struct inc_action *change;
	struct inc_err err;

	while ((change = TAILQ_FIRST(&peers->unstored))) {
		TAILQ_REMOVE(&peers->unstored, change, entry);
		inc_rows_write_change(NULL, &peers->core, change, &err);
		free(change);
	}
	if (peers->database)
		inc_rows_write_numbers(NULL, &peers->core, &err);
}

static void forget_actions(struct core_peers *peers)
{
	inc_actions_free(&peers->core.actions.list);
	inc_actions_free(&peers->unstored);
}

static void carry_out(struct core_peers *peers, struct inc_action *action)
{
	struct peers_member *m = (struct peers_member *)action->client;

	if (action->kind == ACTION_STORE) {
		TAILQ_INSERT_TAIL(&peers->unstored, action, entry);
		return;
	}
	flush(peers);
	switch (action->kind) {
	case ACTION_SEND:
		deliver(peers, m, action->id, action->has_payload ? action->payload : NULL);
		break;
	case ACTION_ASK:
		if (peers->switches[action->sw->index].connected)
			ask(peers, action);
		else
			peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_ANSWER,
								   .sw = action->sw,
								   .asked = action->asked,
								   .of = action->number,
								   .code = ENOTCONN,
								   .unasked = true,
								   .text = "absent"});
		break;
	case ACTION_WELCOME:
		welcome(&peers->switches[action->sw->index], (const uint32_t *)action->payload,
			action->n_keep);
		break;
	case ACTION_COMMIT:
		peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_STORED,
							   .group = action->group,
							   .communicator = action->communicator});
		break;
	default:
		break;
	}
	free(action);
}

static void begin_core(struct core_peers *peers)
{
	const struct inc_core_options opt = {.group_timeout_ms = 60000,
					     .switch_timeout_ms = 5000,
					     .member_timeout_ms = 3000,
					     .job_communicators = 64};
	struct inc_err err = {""};

	peers_require(!inc_core_init(&peers->core, &opt, topo, peers->now, &err), "%s", err.msg);
	if (peers->database) {
		peers_require(!inc_restore(&peers->core, "memory", NULL, &err), "%s", err.msg);
		forget_actions(peers);
		peers->core.knows_all = true;
		peers->core.actions.stores = true;
		inc_rows_write_all(NULL, &peers->core, &err);
		inc_rows_write_numbers(NULL, &peers->core, &err);
	}
	for (unsigned int s = 0; s < PEERS_SWITCHES; s++) {
		peers->switches[s].connected = false;
		peers->switches[s].queue =
			(struct peers_queue){.n = 1, .said = {{.kind = SAYS_HELLO}}};
	}
}

/* The controller is killed, and another one starts. Running members reconnect to it. Members that
 * wait for an answer end, because the answer is lost. */
static void restart(struct core_peers *peers)
{
	peers_note("  the controller is killed, and the next one begins\n");
	forget_actions(peers);
	inc_core_free(&peers->core);
	peers->had_restart = true;
	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		struct peers_member *m = &peers->members[i];

		m->client = (struct inc_core_client){
			.core = &peers->core, .address = m->client.address, .peer = m->client.peer};
		const bool destroys = has_said(&m->queue, SAYS_DESTROY);

		m->queue.n = 0;
		if (m->state == MEMBER_RUNS || m->state == MEMBER_RESUMES) {
			m->state = MEMBER_RESUMES;
			peers_push(&m->queue, (struct peers_said){.kind = SAYS_RESUME});
			if (destroys)
				destroy(m);
		} else {
			m->done |= m->state == MEMBER_DESTROYS;
			m->state = MEMBER_GONE;
		}
	}
	begin_core(peers);
}

/* Carries out all actions of the core. If the controller dies among them, the remaining ones are
 * lost. */
static void carry(struct core_peers *peers)
{
	struct inc_action *action;

	for (;;) {
		if ((!TAILQ_EMPTY(&peers->core.actions.list) || !TAILQ_EMPTY(&peers->unstored)) &&
		    !peers->had_restart && peers->dies()) {
			restart(peers);
			return;
		}
		action = inc_action_next(&peers->core);
		if (!action)
			break;
		carry_out(peers, action);
	}
	flush(peers);
	for (unsigned int s = 0; s < PEERS_SWITCHES; s++)
		peers_require(!peers->core.switches[s]->to_drop, "switch %u is to be dropped: %s",
			      s, peers->core.switches[s]->to_drop);
}

/* ---- functions that the test calls ---- */

void peers_begin(struct core_peers *peers, enum inc_mode_of_switch mode, bool database,
		 bool (*dies)(void))
{
	static const char *const addresses[] = {"10.77.0.1", "10.77.1.1", "10.77.2.1"};
	struct inc_err err = {""};

	if (!topo)
		peers_require(
			!inc_topology_parse("core", topology, sizeof(topology) - 1, &topo, &err),
			"%s", err.msg);
	n_notes = 0;
	store_clear();
	*peers = (struct core_peers){.topo = topo,
				     .mode = mode,
				     .now = {INC_NSEC_PER_SEC, 1000},
				     .database = database,
				     .dies = dies};
	TAILQ_INIT(&peers->unstored);
	begin_core(peers);
	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		peers->members[i].client = (struct inc_core_client){
			.core = &peers->core, .address = addresses[i], .peer = addresses[i]};
		peers_push(&peers->members[i].queue, (struct peers_said){.kind = SAYS_JOIN});
	}
}

void peers_end(struct core_peers *peers)
{
	forget_actions(peers);
	inc_core_free(&peers->core);
}

unsigned int peers_enabled(const struct core_peers *peers, struct peers_event events[])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		if (peers->members[i].queue.n)
			events[n++] = (struct peers_event){PEERS_MEMBER, i};
	}
	for (unsigned int s = 0; s < PEERS_SWITCHES; s++) {
		if (peers->switches[s].queue.n)
			events[n++] = (struct peers_event){PEERS_SWITCH, s};
	}
	if (can_finish(peers))
		events[n++] = (struct peers_event){PEERS_FINISH, 0};
	if (!n && inc_core_due_at_ns(&peers->core))
		events[n++] = (struct peers_event){PEERS_TIME, 0};
	if (!n || peers->had_death || peers->had_renewal)
		return n;
	for (unsigned int i = 0; i < PEERS_MEMBERS; i++) {
		if (peers->members[i].state != MEMBER_GONE)
			events[n++] = (struct peers_event){PEERS_KILL, i};
	}
	for (unsigned int s = 0; s < PEERS_SWITCHES; s++) {
		if (!peers->switches[s].connected)
			continue;
		events[n++] = (struct peers_event){PEERS_CUT, s};
		events[n++] = (struct peers_event){PEERS_CRASH, s};
		events[n++] = (struct peers_event){PEERS_RENEW, s};
	}
	return n;
}

static void note(const struct core_peers *peers, const struct peers_event *event)
{
	switch (event->what) {
	case PEERS_MEMBER:
		peers_note("member %u says %d\n", event->i,
			   peers->members[event->i].queue.said[0].kind);
		break;
	case PEERS_SWITCH:
		peers_note("switch %u says %d (%d)\n", event->i,
			   peers->switches[event->i].queue.said[0].kind,
			   peers->switches[event->i].queue.said[0].asked);
		break;
	default:
		peers_note("%s %u\n",
			   event->what == PEERS_KILL    ? "dies: member"
			   : event->what == PEERS_CUT   ? "is cut off: switch"
			   : event->what == PEERS_CRASH ? "its daemon dies: switch"
			   : event->what == PEERS_RENEW ? "connects again: switch"
			   : event->what == PEERS_TIME  ? "time passes"
							: "the job has its results",
			   event->i);
	}
}

void peers_do(struct core_peers *peers, const struct peers_event *event)
{

	note(peers, event);
	peers->job_ends |= event->what == PEERS_KILL || event->what == PEERS_CRASH;
	peers->had_death |= peers->job_ends || event->what == PEERS_CUT;
	peers->had_renewal |= event->what == PEERS_RENEW;
	for (unsigned int i = 0; peers->job_ends && i < PEERS_MEMBERS; i++)
		peers->members[i].must = false;
	switch (event->what) {
	case PEERS_MEMBER:
		peers_member_says(peers, event->i);
		break;
	case PEERS_SWITCH:
		peers_switch_says(peers, event->i);
		break;
	case PEERS_FINISH:
		finish(peers);
		break;
	case PEERS_KILL:
		peers->members[event->i].dead = true;
		peers_lose(peers, &peers->members[event->i], false);
		break;
	case PEERS_CUT:
	case PEERS_CRASH:
	case PEERS_RENEW:
		peers_cut(peers, event->i, event->what);
		break;
	case PEERS_TIME:
		peers->now.awake_ns = inc_core_due_at_ns(&peers->core);
		peers_step(peers, &(struct inc_core_event){.kind = CORE_EVENT_TIME});
		break;
	}
	carry(peers);
}

void peers_check_end(const struct core_peers *peers)
{
	unsigned int t, i;

	for (i = 0; i < PEERS_MEMBERS; i++) {
		const struct peers_member *m = &peers->members[i];

		peers_require(m->state == MEMBER_GONE, "member %u waits for ever, in state %d", i,
			      m->state);
		peers_require(m->done || peers->had_death || peers->had_restart,
			      "member %u fails without a reason", i);
		peers_require(m->done || !m->must, "member %u fails although its job could run", i);
	}
	peers_require(LIST_EMPTY(&peers->core.groups), "a group is left");
	peers_require(LIST_EMPTY(&peers->core.derivations), "a derivation is left");
	peers_require(LIST_EMPTY(&peers->core.orphans), "an unclaimed communicator is left");
	for (i = 0; i < PEERS_SWITCHES; i++)
		peers_require(!peers->switches[i].n && !peers->core.switches[i]->n_qpns,
			      "switch %u has %u communicators and %zu numbers", i,
			      peers->switches[i].n, peers->core.switches[i]->n_qpns);
	for (t = 0; t < INC_N_KEPT_TABLES; t++)
		peers_require(t == INC_KEPT_NUMBERS || !store_rows(t), "%u rows of %s are left",
			      store_rows(t), inc_kept_layouts[t].name);
}
