/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: what its files share. It asks (incctl_ask.c) and prints (incctl_print.c,
 * incctl_config.c); one thread, one question at a time. */
#ifndef INC_INCCTL_H
#define INC_INCCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
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
	double interval_s;
	bool once; /* one interval, and the end */
	bool json; /* one object a line for each interval */
};
/* incctl_top.c: prints rates until a signal comes. The exit code. */
int incctl_top(const struct incctl_target *target, const struct incctl_top *top);

/* incctl_printable.c: makes every text in an array or object fit for a terminal (printable.h),
 * however deep. Keys stay. */
void incctl_printable(json_t *value);

/* A field, "" and 0 where it is absent. */
static inline const char *incctl_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}
static inline long long incctl_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* Numbers of an array as "1 2 3", "-" where there are none. */
const char *incctl_join_numbers(const json_t *array, char *buf, size_t size);

/* Text tables on stdout. */
void incctl_print_groups(const json_t *data);
void incctl_print_communicators(const json_t *data);
void incctl_print_switches(const json_t *data);
void incctl_print_connections(const json_t *data);
void incctl_print_ports(const json_t *data);
void incctl_print_counters(const json_t *data);
void incctl_print_events(const json_t *data);
void incctl_print_status(const json_t *data);
/* What incctl_top() has computed for one interval. */
void incctl_print_top(const json_t *shown);
/* incctl_config.c: the answers to "config", page by page, as one file of switches. */
json_t *incctl_config(const json_t *data);
void incctl_print_config(const json_t *config);
/* incctl_waiting.c: who is waited for in the end: of a chain of switches each of which waits for
 * the next, the last one alone stays. Changes data. */
void incctl_waiting(json_t *data);
void incctl_print_waiting(const json_t *data);

/* incctl_tree.c: trees of the controller with the figures of connections, which the switches have
 * answered, before and behind interval_s (0: no rates; before is not looked at). only: this
 * communicator's alone; 0: all. Changes trees; 0 or -ENOENT. */
int incctl_tree(json_t *trees, uint32_t only, const json_t *before, const json_t *behind,
		double interval_s);
void incctl_print_tree(const json_t *trees);
/* "4711 results, 5 resent, 12.3 Mbit/s", of an edge; "" where its switch has not answered. */
const char *incctl_edge_text(const json_t *edge, char *buf, size_t size);
/* Whether a switch is behind another one of the tree. */
bool incctl_is_child(const json_t *tree, const char *sw);
/* incctl_draw.c: the same as pictures. */
void incctl_print_dot(const json_t *trees);
void incctl_print_svg(const json_t *trees);

/* Prometheus text. */
void incctl_print_metrics(const json_t *data);

#endif
