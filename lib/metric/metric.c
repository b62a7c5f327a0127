/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes figures and histograms as JSON. Daemons call these functions from their event loop, and
 * tools call them once. */
#include <string.h>
#include "lib/metric/histogram.h"
#include "lib/metric/metric.h"

static json_t *value_of(const struct inc_metric *m, const void *values)
{
	uint64_t v;

	memcpy(&v, (const char *)values + m->offset, sizeof(v));
	return json_integer((json_int_t)v);
}

void inc_metric_json(const struct inc_metric *table, size_t n, const void *values, json_t *object)
{
	size_t i;

	for (i = 0; i < n; i++)
		json_object_set_new(object, table[i].name, value_of(&table[i], values));
}

/* Finds the family of this name. The search begins at the end, because samples of one family are
 * added one after another. */
static json_t *find_family(json_t *families, const char *name)
{
	size_t i = json_array_size(families);
	const char *has;
	json_t *family;

	while (i--) {
		family = json_array_get(families, i);
		has = json_string_value(json_object_get(family, "name"));
		if (has && !strcmp(has, name))
			return family;
	}
	return NULL;
}

/* The head of a family: the properties that all its samples share. */
struct head {
	const char *name;
	const char *unit;
	const char *kind;
	const char *text;
};

static void add_sample(json_t *families, const char *room, const struct head *head, json_t *sample)
{
	char name[INC_METRIC_NAME_LEN];
	json_t *family;

	snprintf(name, sizeof(name), "inc_%s_%s", room, head->name);
	family = find_family(families, name);
	if (!family) {
		family = json_pack("{s:s, s:s, s:s, s:s, s:[]}", "name", name, "unit", head->unit,
				   "kind", head->kind, "text", head->text, "samples");
		json_array_append_new(families, family);
	}
	json_array_append_new(json_object_get(family, "samples"), sample);
}

void inc_metric_sample(json_t *families, const char *room, const struct inc_metric *table, size_t n,
		       const void *values, json_t *labels)
{
	size_t i;

	labels = labels ?: json_object();
	for (i = 0; i < n; i++) {
		const struct inc_metric *m = &table[i];
		const struct head head = {m->name, m->unit,
					  m->kind == INC_METRIC_COUNTER ? "counter" : "gauge",
					  m->text};

		add_sample(families, room, &head,
			   json_pack("{s:O, s:o}", "labels", labels, "value", value_of(m, values)));
	}
	json_decref(labels);
}

static json_t *numbers(const uint64_t *number, size_t n)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < n; i++)
		json_array_append_new(list, json_integer((json_int_t)number[i]));
	return list;
}

void inc_histogram_sample(json_t *families, const char *room,
			  const struct inc_histogram_metric *table, size_t n, const void *values,
			  json_t *labels)
{
	size_t i;

	labels = labels ?: json_object();
	for (i = 0; i < n; i++) {
		const struct inc_histogram_metric *m = &table[i];
		const struct inc_histogram *h = (const void *)((const char *)values + m->offset);
		const struct head head = {m->name, m->unit, "histogram", m->text};

		add_sample(families, room, &head,
			   json_pack("{s:O, s:o, s:o, s:I}", "labels", labels, "bounds",
				     numbers(m->bounds->bound, m->bounds->n), "counts",
				     numbers(h->counts, m->bounds->n + 1), "sum",
				     (json_int_t)h->sum));
	}
	json_decref(labels);
}

void inc_metric_merge(json_t *families, const json_t *more, const char *const from[2])
{
	json_t *family, *into, *sample, *copy;
	const char *name;
	size_t i, k;

	json_array_foreach (more, i, family) {
		name = json_string_value(json_object_get(family, "name"));
		if (!name)
			continue;
		into = find_family(families, name);
		if (!into) {
			into = json_copy(family);
			json_object_set_new(into, "samples", json_array());
			json_array_append_new(families, into);
		}
		json_array_foreach (json_object_get(family, "samples"), k, sample) {
			copy = json_deep_copy(sample);
			if (from)
				json_object_set_new(json_object_get(copy, "labels"), from[0],
						    json_string(from[1]));
			json_array_append_new(json_object_get(into, "samples"), copy);
		}
	}
}

const struct inc_histogram_bounds inc_histogram_times_us = {
	.n = 17,
	.bound = {100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000,
		  1000000, 2000000, 5000000, 10000000, 20000000},
};

void inc_histogram_observe(struct inc_histogram *histogram,
			   const struct inc_histogram_bounds *bounds, uint64_t value)
{
	unsigned int i = 0;

	while (i < bounds->n && value > bounds->bound[i])
		i++;
	histogram->counts[i]++;
	histogram->sum += value;
}
