/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a switch is told by its file: settings, and communicators as the controller's "configure"
 * has them, too (lib/conf/comm_conf.h; docs/control.md).
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
#include "loader/inc_limits.h"

#define INC_SWITCH_NAME_LEN  INC_INSTANCE_LEN
#define INC_DEF_RTO_MIN_MS   5
#define INC_DEF_RTO_MAX_MS   1000
#define INC_DEF_ACK_DELAY_MS 2
#define INC_MAX_RTO_MS       60000
#define INC_MAX_ACK_DELAY_MS 1000
#define INC_DEF_THREADS      1
#define INC_MAX_THREADS      64

#define INC_METRICS_ADDR_LEN 64 /* ADDRESS:PORT, with the final 0 */

/* The modes of XDP, as files, the command line and answers say them. */
#define INC_XDP_NATIVE  "native"
#define INC_XDP_GENERIC "generic"

/* What the command line and the settings of the file say. 0: not said; once complete, each is what
 * holds. */
struct inc_settings {
	bool mode_given;
	uint32_t mode; /* enum inc_mode_of_switch: of communicators that do not say it */
	bool xdp_given;
	bool generic;
	bool old_xdp_given; /* settings.mode, from when there was one mode and XDP had two */
	bool old_generic;
	char port[INC_MAX_PORTS][IF_NAMESIZE];
	uint32_t n_ports;
	uint32_t max_comms;
	uint32_t max_connections;
	uint32_t max_rows;
	uint32_t rto_min_ms;
	uint32_t rto_max_ms;
	uint32_t ack_delay_ms;
	uint32_t threads; /* of termination mode */
	bool metrics_given;
	char metrics[INC_METRICS_ADDR_LEN]; /* where figures are read over HTTP */
};

struct inc_switch_conf {
	char name[INC_SWITCH_NAME_LEN];
	bool has_id; /* the documents' number of the switch */
	uint32_t id;
	bool root;
	struct inc_settings settings;
	bool ports_given; /* in settings; else they are those of the connections */
	struct inc_comm_conf *comm;
	uint32_t n_comms;
};

/* The table of a switch in a file. communicators and connections are their own tables'. */
extern const struct inc_schema inc_switch_schema;

/*
 * Reads the switch called name from the file (NULL: the only one in it). line: what the command
 * line says; if that is a mode, it wins over the file's. 0 or -errno, with a message that names
 * file, line and field. All of it is checked before the call returns. What the file leaves out is
 * logged.
 */
int inc_config_load(const char *path, const char *name, const struct inc_settings *line,
		    struct inc_switch_conf *out, struct inc_err *err);
/*
 * Whether a switch can be all of this, once the settings are merged with the command line's and
 * complete: what would otherwise fail when the maps are filled. path is for the message.
 */
int inc_config_fits(const char *path, const struct inc_switch_conf *conf, struct inc_err *err);
void inc_config_free(struct inc_switch_conf *conf);

/* The communicator of a "configure" message. */
int inc_config_json(const json_t *object, struct inc_comm_conf *out, struct inc_err *err);

/* 0, or -EINVAL: the longest time to a resend is below the shortest, with defaults where they are
 * not said. */
int inc_settings_check_timers(const struct inc_settings *s, struct inc_err *err);
/* native and generic were words of mode before they were of xdp: warns, and takes them as that. */
void inc_settings_old_xdp(struct inc_settings *s, bool generic, const char *where);
bool inc_settings_has_port(const struct inc_settings *s, const char *ifname);
/* False where the port list is full. */
bool inc_settings_add_port(struct inc_settings *s, const char *ifname);
/* Whether a text is where figures can be read: 0 or -EINVAL. */
int inc_settings_check_metrics(const char *text, struct inc_err *err);
/* Fills what is not said in s from more: the only place that says which of two wins. */
void inc_settings_merge(struct inc_settings *s, const struct inc_settings *more);
/* Gives what is still not said its default. Behind this, nobody asks whether something was said. */
void inc_settings_complete(struct inc_settings *s);

#endif
