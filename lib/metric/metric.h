/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Figures are numbers that a program counts or measures. A list of figures in one macro makes the
 * fields of a struct and the table that explains them. Their JSON and Prometheus text are printed
 * by that table:
 *
 *	#define INC_DOOR_FIGURES(_, T) \
 *		_(T, opened, "", COUNTER, "times that it was opened") \
 *		_(T, angle, "degrees", GAUGE, "how far it is open")
 *	struct inc_door { INC_DOOR_FIGURES(INC_METRIC_FIELD, inc_door) };
 *	static const struct inc_metric door_metrics[] = {
 *		INC_DOOR_FIGURES(INC_METRIC_ROW, inc_door)};
 *
 * Programs send figures to each other as families, a JSON list of
 *	{"name","unit","kind":"counter|gauge","text","samples":[{"labels":{…},"value"}]}
 * or of histograms (histogram.h).
 */
#ifndef INC_METRIC_H
#define INC_METRIC_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <jansson.h>

enum inc_metric_kind {
	INC_METRIC_COUNTER, /* a number that only grows */
	INC_METRIC_GAUGE,
};

struct inc_metric {
	const char *name;
	const char *unit; /* unit of the figure; "" if the name contains it */
	enum inc_metric_kind kind;
	const char *text;
	size_t offset; /* offset of the uint64_t with the figure's value */
};

#define INC_METRIC_FIELD(T, name, unit, kind, text) uint64_t name;
#define INC_METRIC_ROW(T, name, unit, kind, text) \
	{#name, unit, INC_METRIC_##kind, text, offsetof(struct T, name)},

#define INC_METRIC_NAME_LEN 128 /* size of a family's full name, with the final 0 */

#define INC_METRICS(table) (table), sizeof(table) / sizeof((table)[0])

/* Adds a pair "name": value to the JSON object for each figure of the table, with the values from
 * the struct at values. */
void inc_metric_json(const struct inc_metric *table, size_t n, const void *values, json_t *object);

/*
 * Adds a sample of each figure to families. The sample of figure NAME goes into the family
 * "inc_<room>_<NAME>", which this function makes if it is missing. It takes over the caller's
 * reference to labels; NULL: no labels.
 */
void inc_metric_sample(json_t *families, const char *room, const struct inc_metric *table, size_t n,
		       const void *values, json_t *labels);

/*
 * Adds the families of more to families, and joins families of the same name. If from is not NULL,
 * each added sample gets the label from[0] with the value from[1].
 */
void inc_metric_merge(json_t *families, const json_t *more, const char *const from[2]);

/*
 * Prints families as Prometheus text, format 0.0.4. An object without a valid name is skipped. By
 * the conventions of Prometheus, names of counters end with "_total", and figures in microseconds
 * ("…_us") are shown in seconds ("…_seconds").
 */
void inc_metric_print(FILE *out, const json_t *families);

/* A label of a sample; lists of labels end with an empty one. */
struct inc_label {
	const char *name; /* name of the label: letters, digits and _ */
	const char *value;
};

/* These print Prometheus text in parts and without JSON: first the head of a figure's family, and
 * then its samples, each from the struct at values. labels may be NULL. */
void inc_metric_print_head(FILE *out, const char *room, const struct inc_metric *m);
void inc_metric_print_sample(FILE *out, const char *room, const struct inc_metric *m,
			     const void *values, const struct inc_label *labels);

#endif
