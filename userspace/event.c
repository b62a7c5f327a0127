/* SPDX-License-Identifier: BSD-2-Clause */
/* Logs events, stores them for queries, and sends them to the controller, now or when it is
 * connected again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/numbers.h"
#include "lib/net/lines.h"
#include "lib/roce/udp.h"
#include "userspace/interface.h"
#include "userspace/switchd.h"

/* The log has at most so many lines of notices at once, and then one line in each interval, because
 * a port may have hundreds of communicators. */
#define NOTICE_LINES       8
#define NOTICE_INTERVAL_NS (10 * INC_NSEC_PER_SEC)

/* Limit of the bytes of each list in "hello". The rest of its line has far fewer than twice as
 * many, and each event that a list lacks follows the welcome. */
#define LIST_BYTES (INC_SWITCH_LINE_MAX / 4)

int inc_events_open(struct inc_daemon *d)
{
	d->events = calloc(1, sizeof(*d->events));
	if (!d->events)
		return -ENOMEM;
	TAILQ_INIT(&d->events->failures);
	d->events->notice_lines =
		(struct inc_rate){.interval_ns = NOTICE_INTERVAL_NS, .burst = NOTICE_LINES};
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

/* Removes one event to make room: the oldest event of the most frequent kind. */
static void drop_one(struct inc_events *events)
{
	uint8_t kinds[INC_EVENTS_KEPT];
	uint32_t oldest;

	for (uint32_t i = 0; i < events->n_kept; i++)
		kinds[i] = events->kept[i].kind;
	oldest = inc_most_frequent(kinds, events->n_kept);
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

static bool lacks_port(const struct inc_daemon *d, const struct inc_comm_at *at)
{
	const struct inc_engine_port *port;
	struct inc_engine_conn conn;
	bool away = false;
	uint32_t c;

	for (c = 0; c < at->comm.connections && !away; c++) {
		at->engine->ops->conn(at->engine, at->place, c, &conn);
		port = inc_ports_find(d, conn.port);
		away = port && port->lost;
	}
	return away;
}

/* Whether an event is about the peer of a connection of its communicator. An event that names no
 * rank is about the parent. */
static bool is_about(const struct inc_msg_event *event, const struct inc_engine_conn *conn)
{
	return event->n_ranks ? !conn->up && conn->rank == event->ranks[0] : conn->up;
}

/* Finds the connection to the peer of an event. */
static bool find_conn(const struct inc_comm_at *at, const struct inc_msg_event *event,
		      struct inc_engine_conn *out)
{
	uint32_t c;

	for (c = 0; c < at->comm.connections; c++) {
		at->engine->ops->conn(at->engine, at->place, c, out);
		if (is_about(event, out))
			return true;
	}
	return false;
}

/* Whether the failure that an event reports still holds. An unresponsive peer may have answered
 * since, and packets may arrive again. A lost port may be back, unless the communicator has ended
 * because of it. */
bool inc_event_stands(const struct inc_daemon *d, const struct inc_msg_event *event)
{
	struct inc_engine_conn conn;
	struct inc_comm_at at;

	if (event->kind == INC_EVENT_KIND_PORT_UNFIT)
		return *inc_configured_lacks(d, event->communicator);
	if (event->kind != INC_EVENT_KIND_PORT_LOST && event->kind != INC_EVENT_KIND_UNRESPONSIVE &&
	    event->kind != INC_EVENT_KIND_UNDELIVERED)
		return true;
	if (!inc_daemon_find_comm(d, event->communicator, &at))
		return false;
	if (event->kind == INC_EVENT_KIND_PORT_LOST)
		return at.comm.ended || lacks_port(d, &at);
	return find_conn(&at, event, &conn) &&
	       (event->kind == INC_EVENT_KIND_UNRESPONSIVE ? conn.unresponsive
							   : conn.loss != INC_LOSS_NONE);
}

void inc_event_standing(const struct inc_daemon *d, uint32_t communicator,
			char text[INC_STANDING_TEXT])
{
	const struct inc_failure *f;
	size_t n;

	n = snprintf(text, INC_STANDING_TEXT, "%s", inc_configured_lacks(d, communicator));
	TAILQ_FOREACH (f, &d->events->failures, entry) {
		if (n >= INC_STANDING_TEXT)
			return;
		if (f->event.communicator == communicator &&
		    f->event.kind == INC_EVENT_KIND_UNDELIVERED && inc_event_stands(d, &f->event))
			n += snprintf(text + n, INC_STANDING_TEXT - n, "%s%s", n ? "; " : "",
				      f->event.message);
	}
}

/* Appends an entry to a list of "hello", unless the list has as many bytes as it may have. Returns
 * whether it was appended. */
static bool append(json_t *list, json_t *entry, size_t *bytes)
{
	const size_t n = json_dumpb(entry, NULL, 0, JSON_COMPACT) + 1;
	const bool fits = entry && *bytes + n <= LIST_BYTES && !json_array_append(list, entry);

	if (fits)
		*bytes += n;
	json_decref(entry);
	return fits;
}

/* Whether "hello" contains no earlier failure of the same communicator. */
static bool is_first(const struct inc_events *events, const struct inc_failure *failure)
{
	const struct inc_failure *f;

	TAILQ_FOREACH (f, &events->failures, entry) {
		if (f == failure)
			break;
		if (f->told && f->event.communicator == failure->event.communicator)
			return false;
	}
	return true;
}

json_t *inc_event_first_failures(struct inc_daemon *d)
{
	json_t *list = json_array();
	struct inc_failure *f;
	size_t bytes = 0;

	TAILQ_FOREACH (f, &d->events->failures, entry)
		f->told = !inc_event_is_notice(f->event.kind) && inc_event_stands(d, &f->event) &&
			  is_first(d->events, f) &&
			  append(list, inc_message_new(INC_MSG_EVENT, &f->event), &bytes);
	return list;
}

json_t *inc_event_notices(const struct inc_daemon *d)
{
	json_t *list = json_array();
	struct inc_comm_at at;
	size_t bytes = 0;

	INC_FOR_COMMS (d, &at) {
		struct inc_msg_notice notice = {.communicator = at.comm.communicator};

		inc_event_standing(d, notice.communicator, notice.message);
		if (*notice.message)
			append(list, inc_message_new(INC_MSG_NOTICE, &notice), &bytes);
	}
	return list;
}

/* Writes the likely causes of a loss, and how to find or remove them. */
static void advise(const char *port, enum inc_loss loss, char *buf, size_t size)
{
	char driver[INC_INTERFACE_DRIVER];

	inc_interface_driver(port, driver);
	if (loss == INC_LOSS_ALL)
		snprintf(buf, size,
			 "a firewall there, the cable or the port drops it "
			 "(there: " INC_FIREWALL_COMMAND "; ethtool -S %s)",
			 port);
	else if (!strcmp(driver, "veth"))
		snprintf(buf, size,
			 "the other end of this veth may lack NAPI (there: ethtool -K DEV gro off; "
			 "ethtool -K DEV gro on)");
	else
		snprintf(buf, size,
			 "driver %s may lack ndo_xdp_xmit, or may need an XDP program at the peer "
			 "(ethtool -S %s)",
			 *driver ? driver : "of this port", port);
}

/* Puts the port's name before the text of an event about lost packets, and advice behind it. */
static void complete(const struct inc_daemon *d, struct inc_msg_event *event)
{
	char text[sizeof(event->message)], advice[168];
	struct inc_engine_conn conn;
	struct inc_comm_at at;

	if (!inc_daemon_find_comm(d, event->communicator, &at) || !find_conn(&at, event, &conn))
		return;
	memcpy(text, event->message, sizeof(text));
	if (event->kind == INC_EVENT_KIND_DELIVERED) {
		snprintf(event->message, sizeof(event->message), "port %s: %.280s", conn.port,
			 text);
		return;
	}
	advise(conn.port, conn.loss, advice, sizeof(advice));
	snprintf(event->message, sizeof(event->message), "port %s: %.125s: %.167s", conn.port, text,
		 advice);
}

/* Adds to the report of a peer what the switch's own ports lack. */
static void add_lack(struct inc_daemon *d, struct inc_msg_event *event)
{
	const char *lacks = inc_configured_lacks_now(d, event->communicator);
	const size_t n = strlen(event->message);

	if (*lacks)
		snprintf(event->message + n, sizeof(event->message) - n, "; %s", lacks);
}

static void log_notice(struct inc_events *events, const struct inc_msg_event *event)
{
	if (inc_event_is_notice(event->kind) &&
	    inc_rate_take(&events->notice_lines, 1, inc_now_ns())) {
		events->unlogged++;
		return;
	}
	inc_warn("%s: communicator %u, chunk %llu: %s", inc_event_info[event->kind].name,
		 event->communicator, (unsigned long long)event->r, event->message);
	if (inc_event_is_notice(event->kind) && events->unlogged) {
		inc_warn("%u more such events were not logged (incctl events)", events->unlogged);
		events->unlogged = 0;
	}
}

void inc_events_by_port(const struct inc_daemon *d, const char *texts[INC_MAX_PORTS])
{
	const struct inc_engine_port *port;
	const struct inc_failure *f;
	struct inc_engine_conn conn;
	struct inc_comm_at at;

	memset(texts, 0, INC_MAX_PORTS * sizeof(texts[0]));
	TAILQ_FOREACH (f, &d->events->failures, entry) {
		if (f->event.kind != INC_EVENT_KIND_UNDELIVERED ||
		    !inc_daemon_find_comm(d, f->event.communicator, &at) ||
		    !find_conn(&at, &f->event, &conn) || !conn.loss)
			continue;
		port = inc_ports_find(d, conn.port);
		if (port && !texts[port - d->port])
			texts[port - d->port] = f->event.message;
	}
}

const char *inc_event_of_loss(const struct inc_daemon *d, uint32_t communicator,
			      const struct inc_engine_conn *conn)
{
	const struct inc_failure *f;

	TAILQ_FOREACH (f, &d->events->failures, entry)
		if (conn->loss && f->event.communicator == communicator &&
		    f->event.kind == INC_EVENT_KIND_UNDELIVERED && is_about(&f->event, conn))
			return f->event.message;
	return NULL;
}

/* Fills in the fields that all events have. */
static void stamp(const struct inc_daemon *d, struct inc_msg_event *event)
{
	event->time_ns = inc_wall_ns();
	snprintf(event->node, sizeof(event->node), "%s", d->conf.name);
	event->has_rank = event->n_ranks;
	event->rank = event->ranks[0];
}

/* Stores an event for queries, and sends it to the controller. */
static void spread(struct inc_daemon *d, const struct inc_msg_event *event)
{
	keep(d->events, event);
	if (d->client)
		inc_client_event(d->client, event);
}

void inc_event_notice(void *arg, const struct inc_msg_event *notice)
{
	struct inc_msg_event event = *notice;
	struct inc_daemon *d = arg;

	if (event.kind == INC_EVENT_KIND_UNDELIVERED || event.kind == INC_EVENT_KIND_DELIVERED)
		complete(d, &event);
	else if (event.kind == INC_EVENT_KIND_UNRESPONSIVE ||
		 event.kind == INC_EVENT_KIND_CONNECTION_ERROR)
		add_lack(d, &event);
	log_notice(d->events, &event);
	stamp(d, &event);
	if (event.kind != INC_EVENT_KIND_DELIVERED && event.kind != INC_EVENT_KIND_PORT_FIT)
		remember(d->events, &event);
	if (inc_event_is_notice(event.kind))
		inc_event_standing(d, event.communicator, event.stands);
	spread(d, &event);
}

/* Fills in an event about the present condition of a port. */
static void describe_port(const struct inc_daemon *d, const struct inc_engine_port *port,
			  struct inc_msg_event *event)
{
	const bool is_up = port->condition == INC_PORT_UP;

	event->kind = is_up ? INC_EVENT_KIND_PORT_BACK : INC_EVENT_KIND_PORT_LOST;
	if (is_up)
		snprintf(event->message, sizeof(event->message), "port %s is back", port->name);
	else
		snprintf(event->message, sizeof(event->message), "%.319s", port->reason);
	snprintf(event->port, sizeof(event->port), "%s", port->given);
	stamp(d, event);
}

void inc_event_port(struct inc_daemon *d, const struct inc_engine_port *port)
{
	struct inc_msg_event event = {};

	describe_port(d, port, &event);
	inc_warn("%s: %s", inc_event_info[event.kind].name,
		 *port->reason ? port->reason : event.message);
	spread(d, &event);
}

void inc_event_tell_ports(const struct inc_daemon *d, const struct inc_engine_port *told)
{
	for (uint32_t i = 0; i < d->n_ports; i++) {
		struct inc_msg_event event = {};

		if (strcmp(told[i].reason, d->port[i].reason) == 0)
			continue;
		describe_port(d, &d->port[i], &event);
		inc_client_event(d->client, &event);
	}
}
