/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The controller around its core: connections, timers and questions of tools. Everything runs in
 * one event loop, and nothing blocks. Each message becomes an event for the core (inc_ctl_step()),
 * and carry.c carries out the actions that follow.
 *
 *   client   a connection on the member port: a member of a group, or a tool
 *   link     a connection on the switch port
 *   query    a tool's question that waits for the answers of switches
 */
#ifndef INC_CTL_H
#define INC_CTL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <jansson.h>
#include "controller/core/core.h"
#include "controller/core/event.h"
#include "controller/ctl_options.h"
#include "controller/store/persist.h"
#include "controller/timer.h"
#include "lib/base/err.h"
#include "lib/net/ndjson.h"
#include "lib/net/scrape.h"

#define CTL_WRITE_MAX   (4u << 20)
#define CTL_MAX_QUERIES 4 /* most questions of one client at a time */
/* most connections before their hello, besides those of the switches */
#define CTL_SPARE_LINKS 64
/* most connections that the controller has closed and the peer has not */
#define CTL_SPARE_CLOSING 64
/* descriptors of the controller itself: listeners, event loop, database, standard streams */
#define CTL_OWN_DESCRIPTORS 20
#define CTL_SIGNALS         3 /* number of handled signals: SIGTERM, SIGINT and SIGHUP */

struct inc_client;
struct inc_query;
struct inc_address_limit;
struct inc_switch_link;
struct inc_timer;

/* The connection of a switch of the topology. */
struct inc_ctl_switch {
	struct inc_switch_link *link; /* connection of the switch; NULL: the switch is absent */
	json_t *ports, *engines;      /* fields of the last hello, may be NULL */
};

struct inc_ctl {
	struct inc_ctl_options opt;
	struct event_base *base;
	struct inc_timeouts timeouts;
	struct inc_topology *topo;
	struct inc_tls *tls; /* keys of the peers that may connect; NULL: any peer may */
	struct event *signals[CTL_SIGNALS];
	struct inc_core core;
	struct inc_timeout *due; /* runs until the core's next timer is due */
	/* Actions are being carried out, so inc_ctl_step() leaves new ones to that loop. */
	bool carrying;
	struct inc_ctl_switch *switches; /* connections of the switches, by the topology's index */
	/* clients, the one that is silent for longest first */
	TAILQ_HEAD(client_list, inc_client) clients;
	unsigned int n_clients;
	LIST_HEAD(, inc_address_limit) address_limits;
	LIST_HEAD(, inc_switch_link) links;
	unsigned int n_links;
	unsigned int max_links;
	LIST_HEAD(, inc_query) queries;
	uint64_t next_query;
	struct inc_persist *persist; /* writer of the database; NULL: the controller has none */
	struct inc_persist_counts persisted;
	uint64_t started_at_ms;
	struct inc_ctl_figures figures;
	/* HTTP server of figures; NULL: the controller was started without --metrics */
	struct inc_scrape *scrape;
	struct inc_timer *keepalive; /* the tick of keepalive.c; NULL: no time limit */
};

struct inc_client {
	/* must be the first member, because an action names the client by it */
	struct inc_core_client core;
	struct inc_ctl *ctl;
	struct inc_address_limit *address_limit;
	struct inc_ndjson *conn;
	/* Runs while the client neither is in a group nor waits for one. */
	struct inc_timeout *idle;
	bool bye;
	unsigned int queries;      /* number of questions under way */
	unsigned int silent_ticks; /* ticks of keepalive.c since the member's last message */
	TAILQ_ENTRY(inc_client) entry;
};

/* Reads a field that is a text; "" if there is none. */
static inline const char *inc_ctl_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

/* carry.c */
/* Makes the core and its timer. Returns 0, or -errno with the reason. */
int inc_carry_start(struct inc_ctl *ctl, struct inc_err *err);
/* Frees the core, after all connections are closed. */
void inc_carry_stop(struct inc_ctl *ctl);
/* Steps the core, and carries out the actions that follow from the event. */
void inc_ctl_step(struct inc_ctl *ctl, const struct inc_core_event *event);

/* member.c */
/* Sends a message to a client, after the changes it depends on are in the database. */
void inc_client_send(const struct inc_client *client, enum inc_message_id id, const void *message);
void inc_client_refuse(const struct inc_client *client, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void inc_client_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg);
/* Restarts the client's idle time limit, which runs only while the client is without a group. */
void inc_client_idle(struct inc_client *client);
/* Ends the client's connection as if its peer had closed it. silent_ms: it has not answered for so
 * long; 0: another reason. Must not be called while actions are carried out. */
void inc_client_close(struct inc_client *client, unsigned int silent_ms, const char *reason);
/* Ends the client's connection without an event for the core. */
void inc_client_free(struct inc_client *client);
void inc_clients_free(struct inc_ctl *ctl);

/* link.c */
int inc_links_init(struct inc_ctl *ctl);
void inc_links_free(struct inc_ctl *ctl);
void inc_switch_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg);
/* Closes the switch's connection. The switch connects again by itself. */
void inc_switch_drop(struct inc_ctl *ctl, const struct inc_core_switch *sw, const char *reason);
/* Sends the answer to a hello. Returns 0, or -errno if the list of communicators to keep cannot be
 * sent. */
int inc_switch_welcome(struct inc_ctl *ctl, const struct inc_core_switch *sw, const uint32_t *keep,
		       uint32_t n);

/* switch_request.c */
/* A function that receives the result of a request: code 0 with the answer, or a positive errno
 * with its text. */
typedef void (*inc_switch_reply)(struct inc_ctl *ctl, struct inc_core_switch *sw, int code,
				 const char *text, json_t *answer, uint64_t arg);
/* Sends a request (configure, connect, remove or query) with a new seq. fields: the struct of the
 * message. reply is called once, later, from the loop. It gets the answer or the switch's error,
 * ETIMEDOUT or ECONNRESET. Returns -errno if the request could not be sent; then reply is not
 * called. */
int inc_switch_request(struct inc_ctl *ctl, struct inc_core_switch *sw, enum inc_message_id id,
		       const void *fields, inc_switch_reply reply, uint64_t arg);

/* Queries the page that begins at "from" (0: the first one). reply's arg is inc_page_arg(number,
 * from). */
int inc_switch_query(struct inc_ctl *ctl, struct inc_core_switch *sw, const char *what,
		     uint32_t number, uint32_t from, inc_switch_reply reply);
static inline uint64_t inc_page_arg(uint32_t number, uint32_t from)
{
	return (uint64_t)from << 32 | number;
}
/* Reads where the page after this answer begins; 0: it was the last one. */
uint32_t inc_page_next(const json_t *answer, uint64_t arg);

/* switch_ask.c: carries out an ACTION_ASK. The answer is an event, even if the switch cannot be
 * asked. */
void inc_switch_ask(struct inc_ctl *ctl, const struct inc_action *action);

/* metrics.c: prints the controller's figures, as an inc_scrape_part. arg: the struct inc_ctl. */
bool inc_ctl_figures_part(void *arg, struct inc_scrape_at *at, FILE *out);

/* query.c */
/* Handles message A, a tool's question. */
void inc_query_ask(struct inc_client *client, json_t *object);
/* query_tree.c: makes a communicator's entry in the answer to "tree". NULL: the communicator has no
 * tree yet. */
json_t *inc_query_tree(const struct inc_comm *comm);
void inc_query_client_gone(struct inc_client *client);
void inc_queries_free(struct inc_ctl *ctl);

#endif
