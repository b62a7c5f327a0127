/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/core/comm.h"
#include "controller/core/core.h"
#include "controller/core/group.h"
#include "controller/core/switch.h"

/* Appends a copy of an action and of its payload to the core's list of actions. Returns NULL if
 * there is no memory. */
static struct inc_action *append(struct inc_core *core, struct inc_action action,
				 const void *payload, size_t size)
{
	struct inc_action *a = malloc(sizeof(*a) + size);

	if (!a)
		return NULL;
	*a = action;
	a->has_payload = payload;
	if (payload)
		memcpy(a->payload, payload, size);
	TAILQ_INSERT_TAIL(&core->actions.list, a, entry);
	return a;
}

struct inc_action *inc_action_next(struct inc_core *core)
{
	struct inc_action *first = TAILQ_FIRST(&core->actions.list);

	if (first)
		TAILQ_REMOVE(&core->actions.list, first, entry);
	return first;
}

void inc_actions_free(struct inc_action_list *list)
{
	struct inc_action *first;

	while ((first = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, first, entry);
		free(first);
	}
}

/* ---- clients ---- */

static void to_client(struct inc_core_client *client, enum inc_action_kind kind,
		      enum inc_message_id id, const void *message, size_t size)
{
	const struct inc_action action = {.kind = kind, .client = client, .id = id};

	if (!append(client->core, action, message, size))
		client->message_lost = client->core->actions.messages_lost = true;
}

void inc_act_send_bytes(struct inc_core_client *client, enum inc_message_id id, const void *message,
			size_t size)
{
	to_client(client, ACTION_SEND, id, message, size);
}

void inc_act_refuse(struct inc_core_client *client, int code, const struct inc_msg_error *about,
		    const char *fmt, ...)
{
	struct inc_msg_error error = about ? *about : (struct inc_msg_error){0};
	va_list ap;

	error.code = code;
	va_start(ap, fmt);
	vsnprintf(error.message, sizeof(error.message), fmt, ap);
	va_end(ap);
	inc_act_send(client, INC_MSG_ERROR, &error);
}

void inc_act_absent(struct inc_core_client *client, const char *text)
{
	struct inc_msg_absent absent;

	snprintf(absent.message, sizeof(absent.message), "%s", text);
	inc_act_send(client, INC_MSG_ABSENT, &absent);
}

void inc_act_idle(struct inc_core_client *client)
{
	to_client(client, ACTION_IDLE, 0, NULL, 0);
}

void inc_act_replaced(struct inc_core_client *client)
{
	client->member = NULL;
	to_client(client, ACTION_REPLACE, 0, NULL, 0);
}

bool inc_core_same_address(const struct inc_core_client *one, const struct inc_core_client *other)
{
	return strcmp(one->address, other->address) == 0;
}

/* ---- switches ---- */

static int ask(struct inc_core_switch *sw, enum inc_asked asked, uint32_t number,
	       const void *request, size_t size)
{
	const struct inc_action action = {
		.kind = ACTION_ASK, .sw = sw, .asked = asked, .number = number};

	if (!sw->connected)
		return -ENOTCONN;
	if (!append(sw->core, action, request, size))
		return -ENOMEM;
	sw->asked++;
	return 0;
}

int inc_act_configure(struct inc_core_switch *sw, const struct inc_comm_conf *conf)
{
	return ask(sw, ASKED_CONFIGURE, conf->communicator, conf, sizeof(*conf));
}

int inc_act_connect(struct inc_core_switch *sw, const struct inc_msg_connect *peers)
{
	return ask(sw, ASKED_CONNECT, peers->communicator, peers, sizeof(*peers));
}

int inc_act_ask_waiting(struct inc_core_switch *sw, uint32_t number)
{
	return ask(sw, ASKED_WAITING, number, NULL, 0);
}

int inc_act_ask_results(struct inc_core_switch *sw, uint32_t number)
{
	return ask(sw, ASKED_RESULTS, number, NULL, 0);
}

void inc_act_remove(struct inc_core_switch *sw, uint32_t number)
{
	if (ask(sw, ASKED_REMOVE, number, NULL, 0) == -ENOMEM)
		sw->to_drop = "no memory for a request to it";
}

int inc_act_welcome(struct inc_core_switch *sw, const uint32_t *keep, uint32_t n)
{
	const struct inc_action action = {.kind = ACTION_WELCOME, .sw = sw, .n_keep = n};

	return append(sw->core, action, keep, n * sizeof(*keep)) ? 0 : -ENOMEM;
}

/* ---- the database ---- */

/* Whether the last action of the list already stores this row. The core often stores one row
 * several times in succession, for example a group's row with each of its ranks. */
static bool is_last(const struct inc_core *core, enum inc_stored stored, uint32_t of,
		    unsigned int rank)
{
	const struct inc_action *last = TAILQ_LAST(&core->actions.list, inc_action_list);

	return last && last->kind == ACTION_STORE && last->stored == stored && last->of == of &&
	       last->rank == rank;
}

static void store(struct inc_core *core, enum inc_stored stored, uint32_t of, unsigned int rank)
{
	const struct inc_action action = {
		.kind = ACTION_STORE, .stored = stored, .of = of, .rank = rank};

	if (!core->actions.stores || !of || is_last(core, stored, of, rank))
		return;
	if (!append(core, action, NULL, 0))
		core->actions.rows_lost = true;
}

void inc_act_store_group(const struct inc_group *group)
{
	store(group->core, STORED_GROUP, group->number, 0);
}

void inc_act_store_rank(const struct inc_member *member)
{
	store(member->group->core, STORED_RANK, member->group->number, member->rank);
	inc_act_store_group(member->group);
}

void inc_act_store_ranks(const struct inc_group *group)
{
	store(group->core, STORED_RANKS, group->number, 0);
}

void inc_act_store_comm(const struct inc_comm *comm)
{
	store(comm->group->core, STORED_COMM, comm->number, 0);
}

void inc_act_store_state(const struct inc_comm *comm)
{
	store(comm->group->core, STORED_STATE, comm->number, 0);
}

void inc_act_delete_group(const struct inc_group *group)
{
	store(group->core, STORED_NO_GROUP, group->number, 0);
}

void inc_act_delete_comm(const struct inc_comm *comm)
{
	store(comm->group->core, STORED_NO_COMM, comm->number, 0);
}

void inc_act_store_switch(const struct inc_core_switch *sw)
{
	const struct inc_action action = {.kind = ACTION_STORE, .stored = STORED_SWITCH};
	const char *name = inc_switch_name(sw);

	if (sw->core->actions.stores && !append(sw->core, action, name, strlen(name) + 1))
		sw->core->actions.rows_lost = true;
}

int inc_act_commit(struct inc_core *core, uint32_t group, uint32_t communicator)
{
	const struct inc_action action = {
		.kind = ACTION_COMMIT, .group = group, .communicator = communicator};

	return append(core, action, NULL, 0) ? 0 : -ENOMEM;
}
