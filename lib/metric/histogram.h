/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Histograms: for each of a few bounds how many values were at most that bound, and the sum of the
 * values. A list of histograms in one macro makes the fields and the table, as for figures
 * (metric.h):
 *
 *	#define INC_DOOR_HISTOGRAMS(_, T) \
 *		_(T, open_us, "microseconds", inc_histogram_times_us, "how long it stays open")
 *	struct inc_door_times { INC_DOOR_HISTOGRAMS(INC_HISTOGRAM_FIELD, inc_door_times) };
 *	static const struct inc_histogram_metric door_histograms[] = {
 *		INC_DOOR_HISTOGRAMS(INC_HISTOGRAM_ROW, inc_door_times)};
 *
 * Histograms are sent in families of figures, with the kind "histogram" and samples
 *	{"labels":{…},"bounds":[100,200],"counts":[4,0,1],"sum":1017}
 * where the last of counts has the values above all bounds.
 */
#ifndef INC_HISTOGRAM_H
#define INC_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#define INC_HISTOGRAM_MAX 24 /* limit of bounds */

struct inc_histogram_bounds {
	unsigned int n;
	uint64_t bound[INC_HISTOGRAM_MAX]; /* bounds in ascending order */
};

/* Bounds for times in microseconds: 1, 2 and 5 times powers of ten, from 100 us to 20 s. */
extern const struct inc_histogram_bounds inc_histogram_times_us;

/* The counts of a histogram. If all members are zero, no value has been counted yet. */
struct inc_histogram {
	/* number of values above the bound before it, up to this bound, for each bound */
	uint64_t counts[INC_HISTOGRAM_MAX + 1];
	uint64_t sum;
};

struct inc_histogram_metric {
	const char *name;
	const char *unit;
	const struct inc_histogram_bounds *bounds;
	const char *text;
	size_t offset; /* offset of the struct inc_histogram with the values */
};

#define INC_HISTOGRAM_FIELD(T, name, unit, bounds, text) struct inc_histogram name;
#define INC_HISTOGRAM_ROW(T, name, unit, bounds, text) \
	{#name, unit, &bounds, text, offsetof(struct T, name)},

/* Counts a value. bounds: the bounds of the histogram's row in the table. */
void inc_histogram_observe(struct inc_histogram *histogram,
			   const struct inc_histogram_bounds *bounds, uint64_t value);

/* Adds a sample of the histogram to families, as inc_metric_sample() does for figures. */
void inc_histogram_sample(json_t *families, const char *room,
			  const struct inc_histogram_metric *table, size_t n, const void *values,
			  json_t *labels);

#endif
