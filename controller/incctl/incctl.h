/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: what its files share. It asks (incctl_ask.c) and prints (incctl_print.c,
 * incctl_config.c); one thread, one question at a time. */
#ifndef INC_INCCTL_H
#define INC_INCCTL_H

#include <stdbool.h>
#include <jansson.h>
#include "lib/base/err.h"

struct incctl_target {
	const char *controller; /* HOST[:PORT] */
	const char *socket;     /* path of a switch's socket; NULL: ask the controller */
	unsigned int timeout_ms;
};

/*
 * Asks and returns the data: for the questions of switches [{"switch":…,"data":…}], the
 * same from a controller and from a switch's own socket. NULL and err on failure.
 */
json_t *incctl_ask(const struct incctl_target *target, const char *what, struct inc_err *err);

struct incctl_top {
	unsigned int interval_s;
	bool once; /* one interval, and the end */
	bool json; /* one object a line for each interval */
};
/* incctl_top.c: prints rates until a signal comes. The exit code. */
int incctl_top(const struct incctl_target *target, const struct incctl_top *top);

/* incctl_printable.c: makes every text in an array or object fit for a terminal (printable.h),
 * however deep. Keys stay. */
void incctl_printable(json_t *value);

/* Text tables on stdout. */
void incctl_print_groups(const json_t *data);
void incctl_print_communicators(const json_t *data);
void incctl_print_switches(const json_t *data);
void incctl_print_connections(const json_t *data);
void incctl_print_ports(const json_t *data);
void incctl_print_counters(const json_t *data);
void incctl_print_events(const json_t *data);
void incctl_print_waiting(const json_t *data);
void incctl_print_status(const json_t *data);
/* What incctl_top() has computed for one interval. */
void incctl_print_top(const json_t *shown);
/* incctl_config.c: the answers to "config", page by page, as one file of switches. */
json_t *incctl_config(const json_t *data);
void incctl_print_config(const json_t *config);
/* Prometheus text. */
void incctl_print_metrics(const json_t *data);

#endif
