/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that the files of inc-switchd share. */
#ifndef INC_SWITCHD_H
#define INC_SWITCHD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>
#include <event2/event.h>
#include <jansson.h>
#include <netinet/in.h>
#include "lib/base/err.h"
#include "lib/base/rate.h"
#include "lib/conf/comm_conf.h"
#include "lib/net/ndjson.h"
#include "lib/net/scrape.h"
#include "lib/net/tls.h"
#include "lib/conf/messages.h"
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
	enum inc_xdp xdp; /* value of the option --xdp, which options.c copies into settings */
	enum inc_steering_choice
		steering; /* value of --steering, which is copied in the same way */
	enum inc_attach attach;
	struct inc_settings settings;
	struct inc_tls_files tls; /* files for TLS with the controller; all NULL: no TLS */
	int ready_fd;             /* -1: none */
	bool check_only;
	bool skip_icrc;
	bool fresh; /* option --fresh: the daemon removes what an earlier daemon has left */
};

/* Parses the command line. Returns -1 if the daemon is to run, else the exit code (help, usage
 * error). */
int inc_options_parse(int argc, char **argv, struct inc_options *opt);

/* A failure, as the event that reported it, which is reported again to a controller that
 * reconnects. */
struct inc_failure {
	struct inc_msg_event event;
	bool told; /* the last "hello" contained this failure */
	TAILQ_ENTRY(inc_failure) entry;
};

struct inc_events {
	/* the latest events, oldest first, for the answer to a query */
	struct inc_msg_event kept[INC_EVENTS_KEPT];
	uint32_t n_kept;
	TAILQ_HEAD(, inc_failure) failures; /* failures of communicators that exist */
	struct inc_rate notice_lines;       /* limit of the log's lines about notices */
	uint32_t unlogged;                  /* number of events that this limit kept from the log */
};

struct inc_client;
struct inc_configured;
struct inc_interface_stats;
struct inc_links_watch;
struct inc_lldp_watch;
struct inc_query_server;

struct inc_daemon {
	struct event_base *base;
	struct inc_options opt;
	/* configuration from the file; with a controller only its name and settings are used, and
	 * they come from the command line */
	struct inc_switch_conf conf;
	char instance[INC_INSTANCE_LEN];
	/* descriptor of the instance's lock; -1: not held */
	int lock_fd;
	struct inc_engine *engine[INC_N_MODES]; /* engine of each mode; NULL: not opened yet */
	struct inc_engine_port port[INC_MAX_PORTS];
	uint32_t n_ports;
	struct inc_addr *addresses; /* addresses of this machine, when it was last looked */
	int n_addresses;            /* their number; 0 or -errno: not known */
	bool ports_changed;         /* the next check shall look at all communicators' ports */
	int ports_unread; /* errno of the last attempt to read the interfaces; 0: it worked */
	LIST_HEAD(, inc_configured) configured;
	/* looks for silent peers so far; if many communicators wait, they take turns */
	uint32_t turn;
	struct inc_events *events;
	struct inc_client *client;
	struct inc_query_server *server;
	struct inc_scrape *scrape;
	struct inc_links_watch *watch;
	struct inc_lldp_watch *lldp; /* NULL: LLDP frames cannot be received */
	uint64_t started_at_ns;
	/* inc_daemon_stop() leaves what works without a daemon running, for the next daemon */
	bool leaving;
	bool pins_private; /* the next daemon would not find the pins of this one */
};

/* daemon.c: starts all parts, and stops them. inc_daemon_stop() also cleans up after a start that
 * has failed. */
int inc_daemon_start(struct inc_daemon *d, struct inc_err *err);
void inc_daemon_stop(struct inc_daemon *d);
/* Creates a communicator, or nothing if that fails. The numbers of the switch's own ends that conf
 * leaves open are written to conf. */
int inc_daemon_configure(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err);
/* Sets the peers of connections that were configured without their peers. */
int inc_daemon_connect(struct inc_daemon *d, uint32_t communicator, const struct inc_msg_peer *peer,
		       uint32_t n, struct inc_err *err);
int inc_daemon_remove(struct inc_daemon *d, uint32_t communicator, struct inc_err *err);

/* Runs the statement that follows once for each engine e that is open. A break in it ends the
 * statement for this engine only. */
#define INC_FOR_ENGINES(d, e)                                           \
	for (uint32_t e##_mode = 0; e##_mode < INC_N_MODES; e##_mode++) \
		for (struct inc_engine *e = (d)->engine[e##_mode]; e; e = NULL)

/* A communicator that was found, and where it is: its engine, and its place there. */
struct inc_comm_at {
	struct inc_engine *engine;
	uint32_t place;
	struct inc_engine_comm comm; /* the communicator's state at the time when it was found */
};

/* Runs the statement that follows once for each communicator of all engines. */
#define INC_FOR_COMMS(d, at) for (uint32_t cursor_ = 0; inc_daemon_next_comm(d, &cursor_, at);)

/* engine.c: opens the engine of passthrough mode if that is the settings' mode, or if the
 * instance's last daemon has left something of it. Other engines are opened when they are needed.
 */
int inc_engines_open(struct inc_daemon *d, struct inc_err *err);
/* Logs the engines' totals and closes the engines. If d->leaving is set, what works without a
 * daemon goes on. */
void inc_engines_close(struct inc_daemon *d);
/* Fills out with the capabilities of the engine for a mode. Returns 0; 1 if there was no memory or
 * descriptor for all of them; or -errno with the reason. The error is -EOPNOTSUPP or -EPERM if this
 * switch cannot have that engine, and -ENOMEM if it may have it later. */
int inc_engines_offer(struct inc_daemon *d, enum inc_mode_of_switch mode,
		      struct inc_msg_engine *out, struct inc_err *err);
/* Adds a communicator to the engine of its mode, like add_comm() of that engine, which is opened
 * first if necessary. */
int inc_engines_add_comm(struct inc_daemon *d, struct inc_comm_conf *conf, struct inc_err *err);
/* Finds the next communicator of any engine, and moves the cursor behind it. The first call has
 * cursor 0. A cursor stays valid while communicators come and go. */
bool inc_daemon_next_comm(const struct inc_daemon *d, uint32_t *cursor, struct inc_comm_at *at);
bool inc_daemon_find_comm(const struct inc_daemon *d, uint32_t communicator,
			  struct inc_comm_at *at);
/* These sum up the figures, and the counters, of all engines. */
void inc_engines_usage(const struct inc_daemon *d, struct inc_engine_usage *out);
int inc_engines_counters(const struct inc_daemon *d, struct inc_engine_counters *out,
			 struct inc_err *err);

/* ports.c: adds a port of the switch, and attaches it to all engines that are open. */
int inc_ports_attach(struct inc_daemon *d, const char *ifname, struct inc_err *err);
/* Compares all ports with the kernel's interfaces, updates their condition and names, repairs what
 * has been lost, and reports changes. */
void inc_ports_check(struct inc_daemon *d);
/* Logs a warning for each port whose MTU or address does not fit the communicator. Ports that are
 * down were reported before. */
void inc_ports_warn(const struct inc_daemon *d, const struct inc_comm_conf *conf);
/* Reads the MTUs of all ports, for a report that cannot wait for the next check. */
void inc_ports_read_mtu(struct inc_daemon *d);
/* Returns the port that has this name at present, or NULL. */
const struct inc_engine_port *inc_ports_find(const struct inc_daemon *d, const char *name);
/* Whether the ports of a communicator are as it needs them: up, with a carrier, and with an MTU and
 * addresses that fit, as they were at the last check. Returns 0, or -errno with a text that names
 * the port and a remedy. conn: the connection that lacks something. */
int inc_ports_fit(const struct inc_daemon *d, const struct inc_comm_conf *conf, uint32_t *conn,
		  struct inc_err *err);

/* configured.c: stores the configurations of the communicators, for queries. */
int inc_configured_add(struct inc_daemon *d, const struct inc_comm_conf *conf);
void inc_configured_connect(struct inc_daemon *d, uint32_t communicator,
			    const struct inc_msg_peer *peer, uint32_t n);
void inc_configured_remove(struct inc_daemon *d, uint32_t communicator);
void inc_configured_free(struct inc_daemon *d);
/* Replaces the ports' names in settings and communicators by their present names. */
void inc_configured_rename(struct inc_daemon *d);
/* Reports communicators whose ports no longer are as they need them, and those of which that is
 * over. Called when something about the ports has changed. */
void inc_configured_watch(struct inc_daemon *d);
/* Does the same for new communicators with peers that have sent nothing and do not answer ARP
 * requests. Called about once a second. */
void inc_configured_ask(struct inc_daemon *d);
/* Returns what the communicator's ports lack now, as inc_ports_fit() writes it, with the MTUs that
 * the ports have now. The text lasts until the next call. */
const char *inc_configured_lacks_now(struct inc_daemon *d, uint32_t communicator);
/* Returns what the communicator's ports lack, as inc_ports_fit() writes it; "": nothing. */
const char *inc_configured_lacks(const struct inc_daemon *d, uint32_t communicator);
/* Does the same for one port: returns "" if the communicator lacks nothing of it. */
const char *inc_configured_lacks_at(const struct inc_daemon *d, uint32_t communicator,
				    const struct inc_engine_port *port);
/* Fills in, for each port whose text is NULL, what the port lacks for one of the communicators. The
 * text belongs to the communicator. */
void inc_configured_by_port(const struct inc_daemon *d, const char *texts[INC_MAX_PORTS]);
/* The switch's role in the communicator's tree: "leaf" if its children are hosts, "spine" if some
 * of them are switches, or "root". */
const char *inc_configured_role(const struct inc_daemon *d, uint32_t communicator);
/* inc_configured_switch() returns a new JSON object with the switch in the form of its file,
 * without communicators. inc_configured_append() adds a communicator to that object. */
json_t *inc_configured_switch(const struct inc_daemon *d);
void inc_configured_append(const struct inc_daemon *d, uint32_t communicator, json_t *sw);

/* event.c: logs, stores and reports an event. The function is an inc_notice_fn, and arg is the
 * daemon. Failures that still hold are reported again to a controller that reconnects. */
void inc_event_notice(void *arg, const struct inc_msg_event *event);
/* Does the same as inc_event_notice() for the present condition of a port, which is an event about
 * no communicator. */
void inc_event_port(struct inc_daemon *d, const struct inc_engine_port *port);
/* Sends that event, to the controller only, for each port whose reason is not that in told, the
 * ports as the last hello describes them. */
void inc_event_tell_ports(const struct inc_daemon *d, const struct inc_engine_port *told);
int inc_events_open(struct inc_daemon *d);
void inc_events_close(struct inc_daemon *d);
/* Whether the failure that an event reports still holds. */
bool inc_event_stands(const struct inc_daemon *d, const struct inc_msg_event *event);
/* Writes all that the switch finds wrong with a communicator now although that goes on: what its
 * ports lack, and peers at which nearly nothing arrives. Writes "" if that is nothing. */
#define INC_STANDING_TEXT 320
void inc_event_standing(const struct inc_daemon *d, uint32_t communicator,
			char text[INC_STANDING_TEXT]);
/* Return lists for "hello": the first failure of each communicator that still holds, and what
 * inc_event_standing() writes of each. A list ends before "hello" has too many bytes for a line.
 * The failures that are not in it are not marked as told, and inc_client_event() sends them after
 * the welcome, with notices, which end no communicator. */
json_t *inc_event_first_failures(struct inc_daemon *d);
json_t *inc_event_notices(const struct inc_daemon *d);
void inc_event_forget(struct inc_daemon *d, uint32_t communicator);
/* Returns the text of the event that reports that packets to the peer of a connection are lost,
 * while that is so, or NULL. */
const char *inc_event_of_loss(const struct inc_daemon *d, uint32_t communicator,
			      const struct inc_engine_conn *conn);
/* Finds for each port the text of an event that reports that packets which are sent there are lost,
 * while that is so. NULL: there is none. */
void inc_events_by_port(const struct inc_daemon *d, const char *texts[INC_MAX_PORTS]);

/* query.c: answers a "query" message on the connection from which the message came. */
void inc_query_answer(struct inc_daemon *d, struct inc_ndjson *conn, json_t *request);
/* Returns the name, address, MAC address and MTU of each port. given: with the names that the
 * switch was started with, as in "hello", because the controller's topology has these. */
json_t *inc_query_port_list(struct inc_daemon *d, bool given);

/* figures.c: all figures, as families and as text. These four functions add the figures of one
 * thing to an object, for answers to queries. */
void inc_figures_add_usage(const struct inc_engine_usage *usage, json_t *object);
void inc_figures_add_port(const struct inc_engine_port *port,
			  const struct inc_interface_stats *stats, json_t *object);
void inc_figures_add_comm(const struct inc_engine_comm *comm, json_t *object);
void inc_figures_add_conn(const struct inc_engine_conn *conn, json_t *object);
uint64_t inc_figures_uptime_s(const struct inc_daemon *d);
/* Adds the figures of the switch itself: usage, counters and ports. */
void inc_figures_switch(const struct inc_daemon *d, json_t *families);
/* Adds the figures of a communicator, and of its connections. */
void inc_figures_comm(const struct inc_daemon *d, const struct inc_comm_at *at, json_t *families);
/* Prints one part of a scrape. It is an inc_scrape_part, whose arg is the daemon. */
bool inc_figures_part(void *arg, struct inc_scrape_at *part, FILE *out);

/* instance.c: the directory for files of the daemon's instances. It is INC_RUN_DIR or, for a user
 * who may not write there, a directory of that user, which is created if it does not exist. Returns
 * NULL, with the reason in err, if there is no such directory. */
const char *inc_run_dir(struct inc_err *err);
/* Locks the instance. The daemon holds the lock while it runs, and the kernel releases it however
 * the daemon ends. Returns the descriptor of the lock, or -EBUSY if another daemon holds it. */
int inc_instance_lock(const char *instance, struct inc_err *err);
void inc_instance_unlock(const char *instance, int fd);

/* query_server.c: the socket <instance>.sock in inc_run_dir() */
int inc_query_server_start(struct inc_daemon *d, struct inc_query_server **out,
			   struct inc_err *err);
void inc_query_server_stop(struct inc_query_server *s);

/* switch_client.c: the connection to the controller */
int inc_client_start(struct inc_daemon *d, struct inc_client **out, struct inc_err *err);
void inc_client_stop(struct inc_client *c);
/* Connects again if a port has something that the last hello lacks: an interface, an address, a
 * device or a larger MTU. Only a hello names these to the controller. The present connection ends
 * when the controller has accepted another one. */
void inc_client_check_ports(struct inc_client *c);
/* Sends an event if the controller is connected. */
void inc_client_event(struct inc_client *c, const struct inc_msg_event *event);
const char *inc_client_state(const struct inc_client *c);

/* renewal.c: tries a second connection before the present one is closed for a new hello */
struct inc_addresses;
struct inc_renewal;
struct inc_renewal_owner {
	/* The controller accepts a new connection, so the present one may be closed. */
	void (*accepted)(void *arg, const char *why);
	/* An attempt has failed a while ago. The owner checks whether a hello is still needed. */
	void (*due)(void *arg);
	void *arg;
};
/* Returns NULL if there is no memory. */
struct inc_renewal *inc_renewal_new(struct inc_daemon *d, const struct inc_renewal_owner *owner);
void inc_renewal_free(struct inc_renewal *r);
/* Begins an attempt, unless one is under way, and reads the key before it. why: what the last hello
 * lacks. The texts and addresses must stay valid until the attempt ends. If the controller accepts
 * no connection, this logs an error with the cause and the remedy, and calls owner.due() later. */
void inc_renewal_try(struct inc_renewal *r, const char *name, struct inc_addresses *addresses,
		     struct inc_tls **tls, const char *why);
/* Ends the attempt that is under way. closing: the connection to the controller that the caller
 * closes next; NULL: it closes none. Unless that has failed, a ping on it announces that the switch
 * will connect again. A daemon that was killed announces nothing, so the controller waits longer
 * for one that has. */
void inc_renewal_end(struct inc_renewal *r, struct inc_ndjson *closing);
/* Reads the key or the certificates again for the next connection, if *tls is not NULL. If the
 * files cannot be read, *tls stays, and the log has the reason once. */
void inc_renewal_read_key(struct inc_renewal *r, struct inc_tls **tls);

#endif
