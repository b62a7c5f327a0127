/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of inc-controller's command line, and its figures. */
#ifndef INC_CTL_OPTIONS_H
#define INC_CTL_OPTIONS_H

#include <stdint.h>
#include <stdbool.h>
#include "controller/store/etcd.h"
#include "lib/base/opt.h"
#include "lib/metric/metric.h"
#include "lib/net/tls.h"

/* The options of --plan and --check (plan_command.c). */
struct inc_plan_command {
	const char *topology; /* NULL: no plan is wanted */
	/* file with the costs for --plan; NULL: the table inc_plan_measured */
	const char *costs;
	unsigned int ranks; /* ranks of the job of --plan; 0: as many as the topology has hosts */
	uint64_t bytes;
	int type; /* enum inc_plan_type */
	int mode; /* enum inc_mode_of_switch */
	unsigned int cores;
	bool json;
};

extern const struct inc_opt inc_plan_options[];

/* Prints the plan that --plan asks for. Returns the program's exit code, and logs the reason of a
 * failure. */
int inc_plan_run(const struct inc_plan_command *cmd);

/* Reads the topology for --check, and prints what it has, as a JSON object if json is set. Returns
 * the program's exit code, and logs the reason of a failure. */
int inc_topology_check(const char *path, bool json);

/* The options of --discover (discover.c). */
struct inc_discover_command {
	bool wanted;
	unsigned int seconds; /* how long switches may take to connect */
};

extern const struct inc_opt inc_discover_options[];

struct inc_ctl_options;
/* Looks for switches, and prints the topology that they see. Returns the program's exit code, and
 * logs the reason of a failure. */
int inc_discover(const struct inc_ctl_options *opt);

struct inc_ctl_options {
	const char *topology;
	bool check;           /* only check the topology file */
	const char *database; /* path of the database, or etcd://...; "none": no database */
	struct inc_etcd_files etcd;
	const char *listen;
	unsigned int member_port;
	unsigned int switch_port;
	unsigned int group_timeout_ms;
	unsigned int client_timeout_ms;
	unsigned int switch_timeout_ms;
	/* time of silence after which a member is lost; 0: no limit */
	unsigned int member_timeout_ms;
	unsigned int max_clients;
	unsigned int peer_connections; /* most connections of one address */
	unsigned int peer_messages_s;  /* most messages per second of one address; 0: no limit */
	unsigned int job_communicators;
	unsigned int job_slots; /* most slots that a job may use; 0: any number */
	/* files with the controller's keys; if there is none, TLS is not used */
	struct inc_tls_files tls;
	bool insecure; /* the controller may listen on any address without TLS */
	struct inc_plan_command plan;
	struct inc_discover_command discover;
	const char *http;    /* address of the page; NULL: none */
	const char *metrics; /* address at which figures can be read over HTTP; NULL: none */
};

#define INC_CTL_FIGURES(_, T)                                               \
	_(T, member_messages, "", COUNTER, "messages of members and tools") \
	_(T, switch_messages, "", COUNTER, "messages of switches")

struct inc_ctl_figures { /* counted since the controller's start */
	INC_CTL_FIGURES(INC_METRIC_FIELD, inc_ctl_figures)
};

#endif
