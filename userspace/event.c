/* SPDX-License-Identifier: BSD-2-Clause */
/* Logs events, stores them for queries, and sends them to the controller, now or when it is
 * connected again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "userspace/switchd.h"

int inc_events_open(struct inc_daemon *d)
{
	d->events = calloc(1, sizeof(*d->events));
	if (!d->events)
		return -ENOMEM;
	TAILQ_INIT(&d->events->failures);
	return 0;
}

void inc_events_close(struct inc_daemon *d)
{
	struct inc_failure *f;

	if (!d->events)
		return;
	while ((f = TAILQ_FIRST(&d->events->failures))) {
		TAILQ_REMOVE(&d->events->failures, f, entry);
		free(f);
	}
	free(d->events);
}

/* Removes one event to make room: the oldest event of the most frequent kind, so that no kind
 * displaces another. */
static void drop_one(struct inc_events *events)
{
	uint32_t i, n[INC_EVENT_KIND_MAX] = {}, oldest = 0;

	for (i = 0; i < events->n_kept; i++)
		n[events->kept[i].kind]++;
	for (i = 0; i < events->n_kept; i++)
		if (n[events->kept[i].kind] > n[events->kept[oldest].kind])
			oldest = i;
	memmove(&events->kept[oldest], &events->kept[oldest + 1],
		(--events->n_kept - oldest) * sizeof(events->kept[0]));
}

static void keep(struct inc_events *events, const struct inc_msg_event *event)
{
	if (events->n_kept == INC_EVENTS_KEPT)
		drop_one(events);
	events->kept[events->n_kept++] = *event;
}

static bool is_again(const struct inc_msg_event *a, const struct inc_msg_event *b)
{
	return a->communicator == b->communicator && a->kind == b->kind &&
	       a->n_ranks == b->n_ranks &&
	       !memcmp(a->ranks, b->ranks, a->n_ranks * sizeof(a->ranks[0]));
}

/* Stores a failure, so that a controller that reconnects receives it. It replaces an earlier one of
 * the same communicator, kind and ranks, because a host may become unresponsive again and again. */
static void remember(struct inc_events *events, const struct inc_msg_event *event)
{
	struct inc_failure *f;

	TAILQ_FOREACH (f, &events->failures, entry)
		if (is_again(&f->event, event))
			break;
	if (!f) {
		f = malloc(sizeof(*f));
		if (!f) {
			inc_error("communicator %u: no memory for an event, which a controller "
				  "that connects later does not receive",
				  event->communicator);
			return;
		}
		TAILQ_INSERT_TAIL(&events->failures, f, entry);
	}
	f->event = *event;
	f->told = false;
}

void inc_event_forget(struct inc_daemon *d, uint32_t communicator)
{
	struct inc_failure *f = TAILQ_FIRST(&d->events->failures), *next;

	for (; f; f = next) {
		next = TAILQ_NEXT(f, entry);
		if (f->event.communicator != communicator)
			continue;
		TAILQ_REMOVE(&d->events->failures, f, entry);
		free(f);
	}
}

static bool is_port_away(const struct inc_daemon *d, const char *name)
{
	uint32_t i;

	for (i = 0; i < d->n_ports; i++)
		if (!strcmp(d->port[i].name, name))
			return d->port[i].lost;
	return false;
}

static bool lacks_port(const struct inc_daemon *d, const struct inc_comm_at *at)
{
	struct inc_engine_conn conn;
	bool away = false;
	uint32_t c;

	for (c = 0; c < at->comm.connections && !away; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		away = is_port_away(d, conn.port);
	}
	return away;
}

/* Whether the peer of an event is still unresponsive. An event that names no rank is about the
 * parent. */
static bool is_unresponsive(const struct inc_comm_at *at, const struct inc_msg_event *event)
{
	struct inc_engine_conn conn;
	uint32_t c;

	for (c = 0; c < at->comm.connections; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		if (event->has_rank ? !conn.up && conn.rank == event->rank : conn.up)
			return conn.unresponsive;
	}
	return false;
}

/* Whether the failure that an event reports still holds. An unresponsive peer may have answered
 * since. A lost port may be back, unless the communicator has ended because of it. */
bool inc_event_stands(const struct inc_daemon *d, const struct inc_msg_event *event)
{
	const bool of_port = event->kind == INC_EVENT_KIND_PORT_LOST;
	struct inc_comm_at at;

	if (!of_port && event->kind != INC_EVENT_KIND_UNRESPONSIVE)
		return true;
	if (!inc_daemon_find_comm(d, event->communicator, &at))
		return false;
	return of_port ? at.comm.ended || lacks_port(d, &at) : is_unresponsive(&at, event);
}

/* Stores an event and sends it to the controller. */
static void spread(struct inc_daemon *d, struct inc_msg_event *event)
{
	event->time_ns = inc_wall_ns();
	snprintf(event->node, sizeof(event->node), "%s", d->conf.name);
	event->has_rank = event->n_ranks;
	event->rank = event->ranks[0];
	keep(d->events, event);
	if (d->client)
		inc_client_event(d->client, event);
}

void inc_event_notice(void *arg, const struct inc_msg_event *notice)
{
	struct inc_msg_event event = *notice;
	struct inc_daemon *d = arg;

	inc_warn("%s: communicator %u, chunk %llu: %s", inc_event_info[event.kind].name,
		 event.communicator, (unsigned long long)event.r, event.message);
	spread(d, &event);
	remember(d->events, &event);
}

void inc_event_port(struct inc_daemon *d, enum inc_event_kind kind, const char *text)
{
	struct inc_msg_event event = {.kind = kind};

	inc_warn("%s: %s", inc_event_info[kind].name, text);
	snprintf(event.message, sizeof(event.message), "%s", text);
	spread(d, &event);
}
