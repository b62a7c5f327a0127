/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of inc-controller's command line, and its figures. */
#ifndef INC_CTL_OPTIONS_H
#define INC_CTL_OPTIONS_H

#include <stdint.h>
#include <stdbool.h>
#include "lib/metric/metric.h"
#include "lib/net/tls.h"

struct inc_ctl_options {
	const char *topology;
	const char *database; /* path of the database; "none": no database */
	const char *listen;
	unsigned int member_port;
	unsigned int switch_port;
	unsigned int group_timeout_ms;
	unsigned int client_timeout_ms;
	unsigned int switch_timeout_ms;
	unsigned int member_timeout_ms; /* time after which a silent member is lost; 0: no limit */
	unsigned int max_clients;
	unsigned int peer_connections; /* most connections of one address */
	unsigned int peer_messages_s;  /* most messages per second of one address; 0: no limit */
	unsigned int job_communicators;
	unsigned int job_slots;   /* quota of slots; 0: any number */
	struct inc_tls_files tls; /* files with keys; if none is given, TLS is not used */
	bool insecure;            /* the controller may listen without TLS on any address */
	const char *metrics;      /* address where figures are read over HTTP; NULL: none */
};

#define INC_CTL_FIGURES(_, T)                                               \
	_(T, member_messages, "", COUNTER, "messages of members and tools") \
	_(T, switch_messages, "", COUNTER, "messages of switches")

struct inc_ctl_figures { /* counted since the controller's start */
	INC_CTL_FIGURES(INC_METRIC_FIELD, inc_ctl_figures)
};

#endif
