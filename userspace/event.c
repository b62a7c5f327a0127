/* SPDX-License-Identifier: BSD-2-Clause */
/* Events: they are logged, stored for queries, and sent to the controller, now or when it is
 * connected again. */
#include <string.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/switchd.h"

static const char *kind_of(const json_t *event)
{
	return json_string_value(json_object_get(event, "event"));
}

static json_int_t communicator_of(const json_t *event)
{
	return json_integer_value(json_object_get(event, "communicator"));
}

static size_t count_kind(const json_t *events, const char *kind)
{
	const json_t *e;
	size_t i, n = 0;

	json_array_foreach (events, i, e)
		n += !strcmp(kind_of(e), kind);
	return n;
}

/* Stores an event for queries. If the list is full, it removes the oldest event of the most
 * frequent kind, so that no kind displaces another. */
static void keep(json_t *events, json_t *event)
{
	size_t i, n, most = 0, oldest = 0;
	const json_t *e;

	if (json_array_size(events) >= INC_EVENTS_KEPT) {
		json_array_foreach (events, i, e) {
			n = count_kind(events, kind_of(e));
			if (n > most) {
				most = n;
				oldest = i;
			}
		}
		json_array_remove(events, oldest);
	}
	json_array_append(events, event);
}

/* Stores a failure for the controller. It replaces one of the same communicator, kind and ranks,
 * because a host may become unresponsive again and again. */
static void remember(struct inc_daemon *d, json_t *event)
{
	const json_t *e;
	size_t i;

	json_array_foreach (d->failures, i, e)
		if (communicator_of(e) == communicator_of(event) &&
		    !strcmp(kind_of(e), kind_of(event)) &&
		    json_equal(json_object_get(e, "ranks"), json_object_get(event, "ranks"))) {
			json_array_set(d->failures, i, event);
			return;
		}
	json_array_append(d->failures, event);
}

void inc_event_forget(struct inc_daemon *d, uint32_t communicator)
{
	size_t i = json_array_size(d->failures);

	while (i--)
		if (communicator_of(json_array_get(d->failures, i)) == communicator)
			json_array_remove(d->failures, i);
}

static bool is_port_away(const struct inc_daemon *d, const char *name)
{
	struct inc_engine_port port;
	size_t i;

	for (i = 0; d->engine->ops->port(d->engine, i, &port); i++)
		if (!strcmp(port.name, name))
			return port.lost;
	return false;
}

static bool stands_port(const struct inc_daemon *d, uint32_t place,
			const struct inc_engine_comm *comm)
{
	struct inc_engine_conn conn;
	bool away = false;
	uint32_t c;

	for (c = 0; c < comm->connections && !away; c++) {
		d->engine->ops->conn(d->engine, place, c, &conn);
		away = is_port_away(d, conn.port);
	}
	return away;
}

/* Whether a failure still holds. An unresponsive peer may have answered since. A lost port may be
 * back, unless the communicator has ended because of it. An event that names no rank is about the
 * parent, or about a port. */
static bool stands(const struct inc_daemon *d, const json_t *event)
{
	const json_t *rank = json_object_get(event, "rank");
	struct inc_engine_comm comm;
	struct inc_engine_conn conn;
	int place;
	uint32_t c;

	if (strcmp(kind_of(event), "unresponsive") && strcmp(kind_of(event), INC_EVENT_PORT_LOST))
		return true;
	place = inc_engine_find(d->engine, communicator_of(event), &comm);
	if (!strcmp(kind_of(event), INC_EVENT_PORT_LOST))
		return place >= 0 && (comm.ended || stands_port(d, place, &comm));
	for (c = 0; place >= 0 && c < comm.connections; c++) {
		d->engine->ops->conn(d->engine, place, c, &conn);
		if (rank ? !conn.up && conn.rank == json_integer_value(rank) : conn.up)
			return conn.unresponsive;
	}
	return false;
}

static bool holds(const json_t *list, const json_t *event)
{
	const json_t *e;
	size_t i;

	json_array_foreach (list, i, e)
		if (e == event)
			return true;
	return false;
}

static bool holds_communicator(const json_t *list, json_int_t number)
{
	const json_t *e;
	size_t i;

	json_array_foreach (list, i, e)
		if (communicator_of(e) == number)
			return true;
	return false;
}

json_t *inc_event_failures(const struct inc_daemon *d, const json_t *told)
{
	json_t *list = json_array(), *e;
	size_t i;

	json_array_foreach (d->failures, i, e)
		if (stands(d, e) &&
		    !(told ? holds(told, e) : holds_communicator(list, communicator_of(e))))
			json_array_append(list, e);
	return list;
}

void inc_event_notice(void *arg, const struct inc_notice *notice)
{
	struct inc_daemon *d = arg;
	json_t *ranks = json_array(), *object;
	struct inc_msg_event said = {
		.time_ns = inc_wall_ns(),
		.communicator = notice->communicator,
		.has_rank = notice->n_ranks,
		.rank = notice->ranks[0],
		.r = notice->chunk,
	};
	uint32_t i;

	for (i = 0; i < notice->n_ranks; i++)
		json_array_append_new(ranks, json_integer(notice->ranks[i]));
	if (notice->of_port)
		inc_warn("%s: %s", notice->event, notice->text);
	else
		inc_warn("%s: communicator %u, chunk %llu: %s", notice->event, notice->communicator,
			 (unsigned long long)notice->chunk, notice->text);
	snprintf(said.node, sizeof(said.node), "%s", d->conf.name);
	snprintf(said.event, sizeof(said.event), "%s", notice->event);
	snprintf(said.message, sizeof(said.message), "%s", notice->text);
	object = inc_message_new(INC_MSG_EVENT, &said);
	json_object_set_new(object, "ranks", ranks);
	if (!object)
		return;
	keep(d->events, object);
	if (!notice->of_port)
		remember(d, object);
	if (d->client)
		inc_client_event(d->client, object);
	else
		json_decref(object);
}
