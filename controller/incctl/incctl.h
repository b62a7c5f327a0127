/* SPDX-License-Identifier: BSD-2-Clause */
/* incctl: shared by its files. incctl_ask.c asks the controller or a switch, and the others compute
 * and print. One thread, and one question at a time. */
#ifndef INC_INCCTL_H
#define INC_INCCTL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/tls.h"

struct incctl_target {
	const char *controller;   /* address of the controller: HOST[:PORT] */
	const char *socket;       /* path of a switch's socket; NULL: the controller is asked */
	struct inc_tls_files tls; /* keys for the controller; if none is given, TLS is not used */
	unsigned int timeout_ms;
};

/*
 * Asks a question, and returns the data of the answer. For questions to switches these are
 * [{"switch":…,"data":…}], from a controller and from a switch's own socket alike. communicator:
 * number of the only communicator of interest; 0: all. Returns NULL with the reason in err after an
 * error.
 */
json_t *incctl_ask(const struct incctl_target *target, const char *what, uint32_t communicator,
		   struct inc_err *err);

/* Sets the mode of a switch of the topology. Returns 0, or -EIO with the reason. */
int incctl_set_mode(const struct incctl_target *target, const char *sw, const char *mode,
		    struct inc_err *err);

/* An answer, and the middle between the times of the question and the answer. */
struct incctl_sample {
	json_t *data;
	uint64_t at_ns;
};
int incctl_sample(const struct incctl_target *target, const char *what, uint32_t communicator,
		  struct incctl_sample *out, struct inc_err *err);
/* Computes the growth of a counter per second, between two samples that are ns apart. Returns JSON
 * null if a sample lacks the counter, or if it went backwards. */
json_t *incctl_rate(const json_t *now, const json_t *before, uint64_t ns);

struct incctl_top {
	double interval_s;
	bool once; /* incctl_top() ends after one interval, without a loop */
	bool json; /* incctl_top() prints one JSON object in a line for each interval */
};
/* incctl_top.c: prints rates until a signal comes. Returns the exit code. */
int incctl_top(const struct incctl_target *target, const struct incctl_top *top);

/* incctl_printable.c: replaces the characters that a terminal must not receive (printable.h) in all
 * texts of an array or object, at any depth. Keys stay. */
void incctl_printable(json_t *value);

/* Reads a field of an object; "", false or 0 if it is absent. */
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

/* Prints the numbers of an array as "1 2 3", or "-" if there are none. */
const char *incctl_join_numbers(const json_t *array, char *buf, size_t size);

/* Print text tables on stdout. */
void incctl_print_groups(const json_t *data);
void incctl_print_communicators(const json_t *data);
void incctl_print_switches(const json_t *data);
void incctl_print_connections(const json_t *data);
void incctl_print_ports(const json_t *data);
void incctl_print_counters(const json_t *data);
void incctl_print_events(const json_t *data);
void incctl_print_status(const json_t *data);
/* Prints the rates that incctl_top() has computed for one interval. */
void incctl_print_top(const json_t *shown);
/* incctl_config.c: makes one file of switches from the pages of the answer to "config". */
json_t *incctl_config(const json_t *data);
void incctl_print_config(const json_t *config);
/* incctl_waiting.c: removes from data each missing peer that is a switch and itself waits for
 * another peer, so that only the last peer of such a chain stays. */
void incctl_waiting(json_t *data);
void incctl_print_waiting(const json_t *data);

/* incctl_tree.c: adds the figures of the switches' connections to the edges of the controller's
 * trees. before: an earlier sample, for rates, or without data. Returns 0, or -EBADMSG if an answer
 * is no tree, and nothing may be drawn. */
int incctl_tree(json_t *trees, const struct incctl_sample *before, const struct incctl_sample *now,
		struct inc_err *err);
void incctl_print_tree(const json_t *trees);
/* Prints the figures of an edge: "4711 received, 4700 acknowledged, 5 resent, 1200 packets/s", or
 * "" if its switch has not answered. */
const char *incctl_edge_text(const json_t *edge, char *buf, size_t size);
/* Whether a switch is a child in the tree. */
bool incctl_is_child(const json_t *tree, const char *sw);
/* incctl_draw.c: prints the trees as pictures. */
void incctl_print_dot(const json_t *trees);
void incctl_print_svg(const json_t *trees);

/* Prints Prometheus text. */
void incctl_print_metrics(const json_t *data);

#endif
