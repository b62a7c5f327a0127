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
#define CTL_MAX_QUERIES 4 /* most questions of one client that are under way at a time */
/* most connections on the switch port that have not sent a hello, beside the switches' own */
#define CTL_SPARE_LINKS 64
/* most connections that the controller has closed and whose peers have not closed yet */
#define CTL_SPARE_CLOSING 64
/* descriptors of the controller itself: listeners, event loop, database, standard streams */
#define CTL_OWN_DESCRIPTORS 20
#define CTL_SIGNALS         3 /* number of handled signals: SIGTERM, SIGINT and SIGHUP */

struct inc_client;
struct inc_page;
struct inc_query;
struct inc_address_limit;
struct inc_lease;
struct inc_switch_link;
struct inc_timer;

/* The connection of a switch of the topology. */
struct inc_ctl_switch {
	struct inc_switch_link *link; /* the switch's connection; NULL: the switch is absent */
	json_t *ports, *engines;      /* lists of the switch's last hello; may be NULL */
	/* until this moment a loss of the connection is expected, because a ping has announced that
	 * the switch replaces it by another one */
	uint64_t renewal_ends_at_ns;
};

struct inc_ctl {
	struct inc_ctl_options opt;
	char **argv; /* the program's arguments, with which it begins again */
	struct event_base *base;
	struct inc_timeouts timeouts;
	struct inc_topology *topo;
	struct inc_tls *tls; /* keys of the peers that may connect; NULL: any peer may connect */
	struct event *signals[CTL_SIGNALS];
	struct inc_core core;
	/* runs while a part of the topology drains, so that it is removed afterwards */
	struct inc_timeout *drain;
	struct inc_timeout *due; /* timer that runs until the next time limit of the core ends */
	/* actions are being carried out, so inc_ctl_step() leaves new ones to the loop that does
	 * that */
	bool carrying;
	/* connections of the switches, at their indexes in the topology */
	struct inc_ctl_switch *switches;
	/* the clients, in the order of silence: the one that has been silent for longest is
	 * first */
	TAILQ_HEAD(client_list, inc_client) clients;
	unsigned int n_clients;
	LIST_HEAD(, inc_address_limit) address_limits;
	LIST_HEAD(, inc_switch_link) links;
	unsigned int n_links;
	unsigned int max_links;
	LIST_HEAD(, inc_query) queries;
	uint64_t next_query;
	struct inc_lease *lease;     /* lease by which this controller leads; NULL: it needs none */
	struct inc_persist *persist; /* writer of the database; NULL: the controller has none */
	struct inc_persist_counts persisted;
	uint64_t started_at_ms;
	struct inc_ctl_figures figures;
	/* HTTP server of figures; NULL: the controller was started without --metrics */
	struct inc_scrape *scrape;
	struct inc_page *page; /* page over HTTP; NULL: the controller was started without --http */
	/* timer of the ticks of keepalive.c; NULL: members have no time limit */
	struct inc_timer *keepalive;
};

struct inc_client {
	/* Must be the first member, because an action names the client by it (carry.c). */
	struct inc_core_client core;
	struct inc_ctl *ctl;
	struct inc_address_limit *address_limit;
	struct inc_ndjson *conn;
	/* Time limit of a silent client. It runs while the client neither is in a group nor waits
	 * for one. */
	struct inc_timeout *idle;
	bool bye;
	unsigned int queries; /* number of questions under way */
	/* number of ticks of keepalive.c since the client's last message */
	unsigned int silent_ticks;
	TAILQ_ENTRY(inc_client) entry;
};

/* Reads a text field of a JSON object; returns "" if there is none. */
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
/* Passes an event to the core, and carries out the actions that follow from it. */
void inc_ctl_step(struct inc_ctl *ctl, const struct inc_core_event *event);

/* Before bytes are written to a peer, which may have waited: does not return if this controller
 * may not lead any more. arg is the struct inc_ctl. */
void inc_ctl_before_write(void *arg);

/* reload.c */
int inc_reload_start(struct inc_ctl *ctl); /* Returns 0 or -ENOMEM. */
void inc_reload_stop(struct inc_ctl *ctl);
/* Reads the topology and the keys again, because this signal has come, and logs what has changed.
 * If one of them has a mistake, both stay as they are. */
void inc_reload(struct inc_ctl *ctl, int signal);

/* member.c */
/* Sends a message to a client. Before that, all changes are written to the database, because the
 * message may depend on them. */
void inc_client_send(const struct inc_client *client, enum inc_message_id id, const void *message);
/* Finds a switch of the topology by the name that a client has sent. Returns its index, or -ENOENT
 * with an error that lists the names that exist. */
int inc_client_find_switch(const struct inc_client *client, const char *name, struct inc_err *err);
void inc_client_refuse(const struct inc_client *client, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void inc_client_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg);
/* Restarts the time limit of a silent client. The limit runs only while the client is without a
 * group. */
void inc_client_idle(struct inc_client *client);
/* Ends the client's connection as if its peer had closed it. silent_ms is the time for which the
 * client has not answered, or 0 for another reason. Must not be called while actions are carried
 * out. */
void inc_client_close(struct inc_client *client, unsigned int silent_ms, const char *reason);
/* Ends the client's connection without an event for the core. */
void inc_client_free(struct inc_client *client);
void inc_clients_free(struct inc_ctl *ctl);

/* keepalive.c */
/* Starts the pings of members, according to opt.member_timeout_ms. Returns 0 or -ENOMEM. */
int inc_keepalive_start(struct inc_ctl *ctl);
void inc_keepalive_stop(struct inc_ctl *ctl);

/* link.c */
/* Sets the limits of connections, because each client needs a descriptor, and raises the limit of
 * open files for so many switches. If the process has too few descriptors, clients get three
 * quarters of them, so that switches can still connect. Returns 0, or -errno with the reason. Then
 * the limits of connections are as before. */
int inc_links_share_descriptors(struct inc_ctl *ctl, unsigned int n_switches, struct inc_err *err);
int inc_links_init(struct inc_ctl *ctl);
void inc_links_free(struct inc_ctl *ctl);
void inc_switch_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *addr, int len,
		       void *arg);
/* Closes a switch's connection for this reason. The switch connects again by itself. */
void inc_switch_drop(struct inc_ctl *ctl, const struct inc_core_switch *sw, const char *reason);
/* Sends a switch the answer to its hello. Returns 0, or -errno if the list of communicators that it
 * must keep cannot be sent. */
int inc_switch_welcome(struct inc_ctl *ctl, const struct inc_core_switch *sw, const uint32_t *keep,
		       uint32_t n);

/* switch_request.c */
/* A function that receives the result of a request to a switch. code is 0, with the answer, or a
 * positive errno with its text. */
typedef void (*inc_switch_reply)(struct inc_ctl *ctl, struct inc_core_switch *sw, int code,
				 const char *text, json_t *answer, uint64_t arg);
/* Sends a request (configure, connect, remove or query) with a new sequence number to a switch. The
 * struct of the message is in fields. The loop calls reply once, later, with the answer or the
 * switch's error, ETIMEDOUT or ECONNRESET. Returns -errno if the request could not be sent; then
 * reply is not called. */
int inc_switch_request(struct inc_ctl *ctl, struct inc_core_switch *sw, enum inc_message_id id,
		       const void *fields, inc_switch_reply reply, uint64_t arg);

/* Sends a switch a query for the page that begins at `from`, or for the first page if that is 0.
 * The reply function receives inc_page_arg(number, from) as its arg. */
int inc_switch_query(struct inc_ctl *ctl, struct inc_core_switch *sw, const char *what,
		     uint32_t number, uint32_t from, inc_switch_reply reply);
static inline uint64_t inc_page_arg(uint32_t number, uint32_t from)
{
	return (uint64_t)from << 32 | number;
}
/* Returns where the page after this answer begins, or 0 if the answer has the last page. */
uint32_t inc_page_next(const json_t *answer, uint64_t arg);

/* switch_ask.c: sends the request of an ACTION_ASK to a switch. The core receives the answer as an
 * event, even if the switch cannot be asked. */
void inc_switch_ask(struct inc_ctl *ctl, const struct inc_action *action);

/* metrics.c: prints a part of the controller's figures, as a function of type inc_scrape_part. arg
 * is the struct inc_ctl. */
bool inc_ctl_figures_part(void *arg, struct inc_scrape_at *at, FILE *out);

/* query.c */
/* Handles message A, a tool's question. */
void inc_query_ask(struct inc_client *client, json_t *object);
/* query_tree.c: makes the entry of a communicator in the answer to "tree". Returns NULL if the
 * communicator has no tree yet. */
json_t *inc_query_tree(const struct inc_comm *comm);
/* Adds the names of hosts, peer switches and jobs to a switch's answer to "connections" or
 * "waiting". */
void inc_query_add_names(const struct inc_core_switch *sw, json_t *data);
void inc_query_client_gone(struct inc_client *client);
void inc_queries_free(struct inc_ctl *ctl);

/* page.c: the page of --http, and what it shows of the switches' answers. */

#define INC_PAGE_EVENTS 50  /* most events on the page */
#define INC_PAGE_JOBS   256 /* most communicators whose speed the page shows */

struct inc_page_port {
	bool known;      /* a switch has reported the port */
	bool down;       /* the port cannot be used */
	bool rated;      /* The rates are known. */
	char reason[96]; /* why the port is down, or that what is sent there is lost */
	uint64_t rx_bytes, tx_bytes;
	double rx_mbit, tx_mbit; /* rates in Mbit/s */
};

/* The last answers of a switch. */
struct inc_page_switch {
	struct inc_page_port *ports; /* at the same indexes as in the topology */
	unsigned int n_ports;
	uint64_t ports_at_ns;
	json_t *waiting; /* with the names of peers */
	/* the communicators in which the switch waits for a peer below it, by their numbers */
	uint32_t *waits_below;
	size_t n_waits_below;
	unsigned int turn; /* number of questions so far */
	uint32_t from[3];  /* by kind of question, the page for which the next one asks */
	bool asked;        /* a question is under way */
};

/* The speed of a communicator, by the answers of the switch at its root. */
struct inc_page_speed {
	uint32_t communicator;
	uint64_t results, at_ns;
	double results_per_s, mbit_per_s;
	uint32_t busy; /* the last answers, one bit each: 1 if results were made before it */
	unsigned int answers;
};

struct inc_page_event {
	uint64_t time_ns;
	char from[INC_TOPO_NAME_MAX]; /* name of the switch, or "controller" */
	const char *kind;
	uint32_t communicator;
	char message[320];
};

/* The last picture, for readers that come within a second of each other. */
struct inc_page_drawn {
	char *text; /* NULL: nothing was drawn yet */
	size_t len;
	uint64_t at_ns;
};

struct inc_page {
	struct inc_ctl *ctl;
	struct inc_page_drawn *drawn;
	struct inc_scrape *scrape;
	struct inc_scrape_site site;
	struct inc_scrape_header headers[8];
	char policy[400], *style;
	uint64_t asked_at_ns; /* when the switches were last asked */
	uint64_t read_at_ns;  /* when the page was last read */
	struct inc_page_switch *switches;
	unsigned int n_switches;
	struct inc_page_speed speeds[INC_PAGE_JOBS];
	struct inc_page_event events[INC_PAGE_EVENTS];
	unsigned int n_events; /* number of events so far; the oldest ones are overwritten */
	uint64_t n_records;    /* number of the core's records that the page has */
};

/* Starts the page if the controller's options want it. Returns 0, or -errno with the reason. */
int inc_page_start(struct inc_ctl *ctl, struct inc_err *err);
void inc_page_stop(struct inc_ctl *ctl);
/* Forgets the switches' answers, because the topology has given the switches other indexes. An
 * answer that is under way is ignored or counts for the switch's new index. */
void inc_page_renumbered(struct inc_ctl *ctl);
/* Adds an event that a switch has sent to the page, if there is one. */
void inc_page_event(struct inc_ctl *ctl, const struct inc_core_switch *sw,
		    const struct inc_msg_event *said);
/* Adds the records that the core has made since the last call to the page, if there is one. */
void inc_page_take_records(struct inc_ctl *ctl);
/* Finds the speed of a communicator. Returns NULL if it is not known. */
const struct inc_page_speed *inc_page_speed(const struct inc_page *page, uint32_t communicator);

/* Whether the switch waits for a peer below it in this communicator, by its last answer. */
bool inc_page_waits_below(const struct inc_page_switch *side, uint32_t communicator);

/* page_view.c */
/* Prints a part of the page, and moves *at behind it. Returns false if it was the last part. */
bool inc_page_print(const struct inc_page *page, struct inc_scrape_at *at, FILE *out);
/* page_picture.c: prints the part with the picture, which is drawn once a second at most. */
void inc_page_picture(const struct inc_page *page, FILE *out);
/* The rates of a link. Up is towards the root of the picture. */
struct inc_page_rates {
	const char *port; /* name of the port; "": the link has no port of a switch */
	bool known, down;
	double up_mbit, down_mbit;
	const char *reason;
};
/* Finds the rates of a link. upper is the index of its end that is nearer to the root. */
void inc_page_link_rates(const struct inc_page *page, const struct inc_topo_link *link,
			 unsigned int upper, struct inc_page_rates *out);
const char *inc_page_end_name(const struct inc_topology *topo, const struct inc_topo_end *end);
/* Returns the name of the switch's port at an end, or "" if there is none. */
const char *inc_page_port_name(const struct inc_topology *topo, const struct inc_topo_end *end);
/* Prints a rate in Gbit/s, without the unit. */
const char *inc_page_gbit(double mbit, char *buf, size_t size);
/* The page's style, without that of its picture, and its script. */
extern const char inc_page_style[], inc_page_script[];

#endif
