/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carries out the core's actions: messages to clients and switches, rows of the database, and the
 * timer. An action may cause an event at once, for example if a switch cannot be asked. The core
 * takes that event before the next one from outside, and the actions of that event are carried out
 * after those that are left.
 */
#include <errno.h>
#include <stdlib.h>
#include "controller/core/action.h"
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/core/switch.h"
#include "controller/net/ctl.h"
#include "controller/store/lease.h"
#include "lib/base/clock.h"

static struct inc_core_now now_of(struct inc_ctl *ctl)
{
	return (struct inc_core_now){.awake_ns = inc_timeouts_now_ns(&ctl->timeouts),
				     .clock_ms = inc_now_ms(),
				     .wall_ns = inc_wall_ns()};
}

/* Returns the client that an action names by its field `core`, which is the first field of struct
 * inc_client. */
static struct inc_client *client_of(const struct inc_action *action)
{
	return (struct inc_client *)action->client;
}

static void carry_commit(struct inc_ctl *ctl, const struct inc_action *action)
{
	struct inc_core_event event = {.kind = CORE_EVENT_STORED,
				       .group = action->group,
				       .communicator = action->communicator};
	struct inc_err err;

	event.stored = inc_persist_now(ctl->persist, &err);
	event.because = &err;
	inc_ctl_step(ctl, &event);
}

static void carry_welcome(struct inc_ctl *ctl, const struct inc_action *action)
{
	if (inc_switch_welcome(ctl, action->sw, (const uint32_t *)action->payload, action->n_keep))
		inc_switch_drop(ctl, action->sw, "no memory for its welcome");
}

static void carry_out(struct inc_ctl *ctl, struct inc_action *action)
{
	switch (action->kind) {
	case ACTION_SEND:
		inc_client_send(client_of(action), action->id,
				action->has_payload ? action->payload : NULL);
		break;
	case ACTION_IDLE:
		inc_client_idle(client_of(action));
		break;
	case ACTION_REPLACE:
		inc_client_free(client_of(action));
		break;
	case ACTION_ASK:
		inc_switch_ask(ctl, action);
		break;
	case ACTION_WELCOME:
		carry_welcome(ctl, action);
		break;
	case ACTION_STORE:
		inc_persist_add(ctl->persist, action);
		return; /* inc_persist_add() now owns the action and frees it */
	case ACTION_COMMIT:
		carry_commit(ctl, action);
		break;
	}
	free(action);
}

/* Closes the connections of peers for which the core had no memory to append an action. A client's
 * connection is closed later, from the loop, because the caller may be walking over the clients.
 * Returns whether a switch's connection was closed. */
static bool end_lost(struct inc_ctl *ctl)
{
	struct inc_client *client;
	bool any = false;

	for (unsigned int i = 0; i < ctl->topo->n_switches; i++) {
		const struct inc_core_switch *sw = ctl->core.switches[i];

		if (!sw->to_drop || !ctl->switches[i].link)
			continue;
		inc_switch_drop(ctl, sw, sw->to_drop);
		any = true;
	}
	if (!ctl->core.actions.messages_lost)
		return any;
	ctl->core.actions.messages_lost = false;
	TAILQ_FOREACH (client, &ctl->clients, entry) {
		if (client->core.message_lost)
			inc_timeout_arm(client->idle, 0);
	}
	return any;
}

static void wake_when_due(struct inc_ctl *ctl)
{
	const uint64_t due_at_ns = inc_core_due_at_ns(&ctl->core);

	if (due_at_ns)
		inc_timeout_arm_at(ctl->due, due_at_ns);
	else
		inc_timeout_stop(ctl->due);
}

static void carry(struct inc_ctl *ctl)
{
	struct inc_action *action;

	ctl->carrying = true;
	do {
		while ((action = inc_action_next(&ctl->core)))
			carry_out(ctl, action);
	} while (end_lost(ctl));
	ctl->carrying = false;
}

void inc_ctl_step(struct inc_ctl *ctl, const struct inc_core_event *event)
{
	inc_core_step(&ctl->core, event, now_of(ctl));
	inc_page_take_records(ctl);
	wake_when_due(ctl);
	/* If memory for a change of the database was lacking, all rows are written now, because a
	 * message of this step may depend on that change. */
	if (ctl->core.actions.rows_lost) {
		ctl->core.actions.rows_lost = false;
		inc_persist_lost(ctl->persist);
	}
	if (!ctl->carrying)
		carry(ctl);
}

void inc_ctl_before_write(void *arg)
{
	const struct inc_ctl *ctl = arg;

	inc_lease_check(ctl->lease);
}

static void on_due(void *arg)
{
	inc_ctl_step(arg, &(struct inc_core_event){.kind = CORE_EVENT_TIME});
}

int inc_carry_start(struct inc_ctl *ctl, struct inc_err *err)
{
	const struct inc_core_options opt = {
		.group_timeout_ms = ctl->opt.group_timeout_ms,
		.switch_timeout_ms = ctl->opt.switch_timeout_ms,
		.member_timeout_ms = ctl->opt.member_timeout_ms,
		.job_communicators = ctl->opt.job_communicators,
		.job_slots = ctl->opt.job_slots,
	};

	ctl->due = inc_timeout_new(&ctl->timeouts, on_due, ctl);
	if (!ctl->due)
		return inc_err_set(err, ENOMEM, "out of memory");
	return inc_core_init(&ctl->core, &opt, ctl->topo, now_of(ctl), err);
}

void inc_carry_stop(struct inc_ctl *ctl)
{
	if (ctl->core.topo)
		inc_core_free(&ctl->core);
	inc_timeout_free(ctl->due);
}
