/* SPDX-License-Identifier: BSD-2-Clause */
/* inc-switchd: what its files share. */
#ifndef INC_SWITCHD_H
#define INC_SWITCHD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <event2/event.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/net/ndjson.h"
#include "lib/net/scrape.h"
#include "lib/net/tls.h"
#include "loader/inc_limits.h"
#include "userspace/config.h"
#include "userspace/engine.h"

#define INC_EVENTS_KEPT 256

enum inc_xdp { INC_XDP_UNSAID, INC_XDP_IN_DRIVER, INC_XDP_IN_STACK };

struct inc_options {
	const char *config;
	const char *controller; /* HOST[:PORT] */
	const char *name;
	const char *instance;
	enum inc_xdp xdp; /* the command line's word, which options.c puts into settings */
	enum inc_attach attach;
	struct inc_settings settings;
	struct inc_tls_files tls; /* how the controller is spoken to; nothing given: plainly */
	int ready_fd;             /* -1: none */
	bool check_only;
	bool skip_icrc;
	bool fresh; /* nothing of a predecessor is taken over */
};

/* -1: go on; else the exit code (help, usage error). */
int inc_options_parse(int argc, char **argv, struct inc_options *opt);

struct inc_client;
struct inc_engine_port;
struct inc_interface_stats;
struct inc_links_watch;
struct inc_query_server;

struct inc_daemon {
	struct event_base *base;
	struct inc_options opt;
	struct inc_switch_conf conf; /* of the file; only the name with a controller */
	char instance[INC_INSTANCE_LEN];
	int lock_fd; /* of the instance; -1: not taken */
	struct inc_engine *engine;
	struct inc_comm_conf **comms; /* what each communicator was made from, by its place */
	json_t *events;               /* the last INC_EVENTS_KEPT */
	json_t *failures; /* events of the communicators there are: what a controller must know */
	struct inc_client *client;
	struct inc_query_server *server;
	struct inc_scrape *scrape;
	struct inc_links_watch *watch;
	uint64_t started_at_ns;
	bool leaving; /* inc_daemon_stop() leaves to the next daemon what runs without one */
};

/* daemon.c: everything up, in the order in which it can fail; and down again. */
int inc_daemon_start(struct inc_daemon *d, struct inc_err *err);
void inc_daemon_stop(struct inc_daemon *d);
/* One communicator, all of it or nothing. What conf leaves open of the switch's own ends is filled
 * in. */
int inc_daemon_configure(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err);
/* The other ends of connections that were configured without. */
int inc_daemon_connect(struct inc_daemon *d, uint32_t communicator, const struct inc_msg_peer *peer,
		       uint32_t n, struct inc_err *err);
int inc_daemon_remove(struct inc_daemon *d, uint32_t communicator, struct inc_err *err);

/* Brings what the switch knows of its ports up to date. */
void inc_daemon_check_ports(struct inc_daemon *d);

/* configured.c: what the communicators were made from, for those who ask. */
int inc_configured_init(struct inc_daemon *d);
void inc_configured_free(struct inc_daemon *d);
int inc_configured_add(struct inc_daemon *d, uint32_t place, const struct inc_comm_conf *conf);
void inc_configured_connect(struct inc_daemon *d, uint32_t place, const struct inc_msg_peer *peer,
			    uint32_t n);
void inc_configured_remove(struct inc_daemon *d, uint32_t place);
/* Calls the ports by the names that they have now, in settings and communicators. */
void inc_configured_rename(struct inc_daemon *d);
/* What the switch is in the communicator's tree: "leaf" where its children are hosts, "spine" where
 * switches are among them, "root". */
const char *inc_configured_role(const struct inc_daemon *d, uint32_t place);
/* The switch as its file would have it, without its communicators; and one of these added to it. A
 * new object. */
json_t *inc_configured_switch(const struct inc_daemon *d);
void inc_configured_append(const struct inc_daemon *d, uint32_t place, json_t *sw);

/* event.c: logs, keeps and reports. What stands is reported again to a controller that comes back.
 * An inc_notice_fn; arg: the daemon. */
void inc_event_notice(void *arg, const struct inc_notice *notice);
/* Failures that stand: the first of each communicator for told NULL, else all that are not in
 * that list. A new list. */
json_t *inc_event_failures(const struct inc_daemon *d, const json_t *told);
void inc_event_forget(struct inc_daemon *d, uint32_t communicator);

/* query.c: answers a "query" message on the connection it came from. */
void inc_query_answer(struct inc_daemon *d, struct inc_ndjson *conn, json_t *request);
/* Name, address, MAC and MTU of the ports. In "hello" a port has the name that the switch was given
 * for it, because the controller's topology has that one. */
json_t *inc_query_port_list(struct inc_daemon *d, bool given);

/* figures.c: all figures, as families and as text; and some as members of an object, as answers to
 * queries have them. */
void inc_figures_add_usage(const struct inc_engine_usage *usage, json_t *object);
void inc_figures_add_port(const struct inc_engine_port *port,
			  const struct inc_interface_stats *stats, json_t *object);
void inc_figures_add_comm(const struct inc_engine_comm *comm, json_t *object);
void inc_figures_add_conn(const struct inc_engine_conn *conn, json_t *object);
uint64_t inc_figures_uptime_s(const struct inc_daemon *d);
/* What is the switch's own: usage, counters, ports. */
void inc_figures_switch(const struct inc_daemon *d, json_t *families);
/* Of the communicator at this place, and of its connections. */
void inc_figures_comm(const struct inc_daemon *d, uint32_t place,
		      const struct inc_engine_comm *comm, json_t *families);
/* An inc_scrape_part; arg: the daemon. */
bool inc_figures_part(void *arg, struct inc_scrape_at *at, FILE *out);

/* query_server.c: <instance>.sock in inc_run_dir() */
int inc_query_server_start(struct inc_daemon *d, struct inc_query_server **out,
			   struct inc_err *err);
void inc_query_server_stop(struct inc_query_server *s);

/* switch_client.c */
int inc_client_start(struct inc_daemon *d, struct inc_client **out, struct inc_err *err);
void inc_client_stop(struct inc_client *c);
/* Steals the object; dropped where there is no connection. */
void inc_client_event(struct inc_client *c, json_t *event);
const char *inc_client_state(const struct inc_client *c);

#endif
