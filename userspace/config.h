/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A switch's configuration from its static file: settings and communicators. A communicator has the
 * same fields as in the controller's "configure" message (lib/conf/comm_conf.h, docs/control.md).
 */
#ifndef INC_CONFIG_H
#define INC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>
#include <net/if.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"
#include "loader/inc_limits.h"

#define INC_SWITCH_NAME_LEN  INC_INSTANCE_LEN
#define INC_DEF_RTO_MIN_MS   5
#define INC_DEF_RTO_MAX_MS   1000
#define INC_DEF_ACK_DELAY_MS 2
#define INC_MAX_RTO_MS       60000
#define INC_MAX_ACK_DELAY_MS 1000
#define INC_DEF_THREADS      1
#define INC_MAX_THREADS      64

#define INC_METRICS_ADDR_LEN 64 /* size of the text ADDRESS:PORT, with the final 0 */

/* Names of the modes of XDP in files, on the command line and in answers to queries. */
#define INC_XDP_NATIVE  "native"
#define INC_XDP_GENERIC "generic"

/* Whether each communicator of passthrough mode has a CPU that handles all its packets. */
enum inc_steering_choice {
	INC_STEERING_AUTO, /* it has one if a port has several receive queues */
	INC_STEERING_ON,
	INC_STEERING_OFF,
	INC_STEERING_UNSAID, /* the command line has no choice */
};

/* Settings of a switch, from the command line or from the file. The values 0 and false mean "not
 * set". After inc_settings_complete() every setting has its value. */
struct inc_settings {
	bool mode_given;
	uint32_t mode; /* mode of communicators that do not set one: enum inc_mode_of_switch */
	bool xdp_given;
	bool generic;
	bool old_xdp_given; /* the file has settings.mode, the old name of settings.xdp */
	bool old_generic;
	bool steering_given;
	uint32_t steering; /* enum inc_steering_choice */
	char port[INC_MAX_PORTS][IF_NAMESIZE];
	uint32_t n_ports;
	uint32_t max_comms;
	uint32_t max_connections;
	uint32_t max_rows;
	uint32_t rto_min_ms;
	uint32_t rto_max_ms;
	uint32_t ack_delay_ms;
	uint32_t threads; /* number of worker threads of termination mode */
	bool poll_given;
	uint32_t poll_us; /* longest time that such a thread polls before it sleeps */
	bool metrics_given;
	char metrics[INC_METRICS_ADDR_LEN]; /* address at which metrics are served over HTTP */
	/* settings of queue pairs of the file's connections that do not have them */
	bool verbs_given;
	struct inc_verbs_conf verbs;
};

struct inc_switch_conf {
	char name[INC_SWITCH_NAME_LEN];
	/* the file has a number of the switch (id), as files in the original documents' form do */
	bool has_id;
	uint32_t id;
	bool root;
	struct inc_settings settings;
	/* settings.port[] was given; otherwise it has the ports of the connections */
	bool ports_given;
	struct inc_comm_conf *comm;
	uint32_t n_comms;
};

/* The schema of a switch in a file. Its lists communicators and connections have schemas of their
 * own (inc_comm_schema, inc_conn_schema). */
extern const struct inc_schema inc_switch_schema;

/*
 * Reads the switch called name from the file; if name is NULL, the only one in it. line: the
 * settings of the command line, whose mode overrides the file's. Returns 0, or -errno with a
 * message that names file, line and field. The whole switch is checked before this returns. The log
 * names fields that the file leaves out, and their values.
 */
int inc_config_load(const char *path, const char *name, const struct inc_settings *line,
		    struct inc_switch_conf *out, struct inc_err *err);
/*
 * Checks that the ports are given and that all communicators fit the limits in the settings. The
 * settings must be complete and merged with the command line's. Without this check the error would
 * appear only when the maps are filled. path: the file's name, for error messages.
 */
int inc_config_fits(const char *path, const struct inc_switch_conf *conf, struct inc_err *err);
void inc_config_free(struct inc_switch_conf *conf);

/* Reads the communicator in a "configure" message. */
int inc_config_json(const json_t *object, struct inc_comm_conf *out, struct inc_err *err);

/* Returns -EINVAL if the longest retransmission timeout is below the shortest one. Timeouts that
 * are not set count with their defaults. */
int inc_settings_check_timers(const struct inc_settings *s, struct inc_err *err);
/* Handles "mode: native" and "mode: generic", which are old forms of the setting xdp. Logs a
 * warning and sets xdp, unless xdp is set. where: the file or option, for the log. */
void inc_settings_old_xdp(struct inc_settings *s, bool generic, const char *where);
bool inc_settings_has_port(const struct inc_settings *s, const char *ifname);
/* Adds a port to the settings, unless they have it already. Returns false if the list is full. */
bool inc_settings_add_port(struct inc_settings *s, const char *ifname);
/* Returns 0 if text is an address at which metrics can be served, else -EINVAL. */
int inc_settings_check_metrics(const char *text, struct inc_err *err);
/* Copies those settings from more that s does not have. If both have a setting, that of s is used,
 * and only this function decides so. */
void inc_settings_merge(struct inc_settings *s, const struct inc_settings *more);
/* Sets all settings that are still missing to their defaults. */
void inc_settings_complete(struct inc_settings *s);

/* config_default.c: defaults for what a switch's file leaves out, which config.c uses. Files in the
 * form of the original documents have no names, no PSNs and no communicators. */

/* For each field of a table, the number of the file's mappings that lack the field. */
struct inc_absent {
	const struct inc_schema *schema;
	/* plural of the objects that the table describes, such as "connections" */
	const char *what;
	uint32_t times[INC_MAX_FIELDS];
	uint32_t of; /* number of mappings that were checked */
};

/* Counts the fields that a mapping of the file lacks, if the log shall name them (INC_TOLD,
 * INC_LATER). */
void inc_absent_count(struct inc_absent *absent, const struct inc_yaml_node *map);
/* Logs one line for each field that some mapping lacked, with the value that it got. */
void inc_absent_log(const struct inc_absent *absent, const char *path,
		    const struct inc_switch_conf *conf);

/* Chooses the port of a connection that does not name one: the interface that has the connection's
 * own address. */
int inc_default_port(const struct inc_yaml_node *node, struct inc_conn_conf *c,
		     struct inc_err *err);

#endif
