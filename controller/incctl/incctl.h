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
#include "lib/net/tls.h"

struct incctl_target {
	const char *controller;   /* HOST[:PORT] */
	const char *socket;       /* path of a switch's socket; NULL: ask the controller */
	struct inc_tls_files tls; /* how the controller is asked; nothing given: plainly */
	unsigned int timeout_ms;
};

/*
 * Asks and returns the data: for the questions of switches [{"switch":…,"data":…}], the
 * same from a controller and from a switch's own socket. communicator: what is of this one alone;
 * 0: of all. NULL and err on failure.
 */
json_t *incctl_ask(const struct incctl_target *target, const char *what, uint32_t communicator,
		   struct inc_err *err);

/* Changes the mode of a switch of the topology: 0, or -EIO with why not. */
int incctl_set_mode(const struct incctl_target *target, const char *sw, const char *mode,
		    struct inc_err *err);

/* The same as at an instant, between the question and the answer; 0 or -EIO. */
struct incctl_sample {
	json_t *data;
	uint64_t at_ns;
};
int incctl_sample(const struct incctl_target *target, const char *what, uint32_t communicator,
		  struct incctl_sample *out, struct inc_err *err);
/* A count's growth per second, from one sample to another so much later; null where one of them
 * does not have it, or it went backwards. */
json_t *incctl_rate(const json_t *now, const json_t *before, uint64_t ns);

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

/* A field; "", false and 0 where it is absent. */
static inline const char *incctl_text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}
static inline bool incctl_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
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

/* incctl_tree.c: puts the figures of connections, as the switches have answered, on the edges of
 * the controller's trees; before: the same earlier, for rates, or without data. 0, or -EBADMSG: one
 * of them is no tree, and nothing may be drawn. */
int incctl_tree(json_t *trees, const struct incctl_sample *before, const struct incctl_sample *now,
		struct inc_err *err);
void incctl_print_tree(const json_t *trees);
/* "4711 received, 4700 acknowledged, 5 resent, 1200 packets/s", of an edge; "" where its switch has
 * not answered. */
const char *incctl_edge_text(const json_t *edge, char *buf, size_t size);
/* Whether a switch is behind another one of the tree. */
bool incctl_is_child(const json_t *tree, const char *sw);
/* incctl_draw.c: the same as pictures. */
void incctl_print_dot(const json_t *trees);
void incctl_print_svg(const json_t *trees);

/* Prometheus text. */
void incctl_print_metrics(const json_t *data);

#endif
