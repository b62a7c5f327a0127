/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints figures as the text that a Prometheus server scrapes. Tools print the text from JSON
 * families, and daemons print it from their tables of figures.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include "lib/metric/metric.h"

#define MICROSECONDS "microseconds"
#define ENDING_US    "_us"
#define NUMBER_SIZE  32 /* size of a number's text, with the final 0 */

/* The properties of a family as Prometheus has them: a counter's name ends with "_total", and times
 * are in seconds. */
struct family {
	const char *name;
	const char *unit;
	const char *text;
	bool counter;
	bool histogram;
};

static bool in_us(const struct family *f)
{
	const size_t n = strlen(f->name), ending = strlen(ENDING_US);

	return !strcmp(f->unit, MICROSECONDS) && n > ending &&
	       !strcmp(f->name + n - ending, ENDING_US);
}

static void put_name(FILE *out, const struct family *f)
{
	const size_t n = strlen(f->name) - (in_us(f) ? strlen(ENDING_US) : 0);

	fprintf(out, "%.*s%s%s", (int)n, f->name, in_us(f) ? "_seconds" : "",
		f->counter ? "_total" : "");
}

static const char *number_of(const struct family *f, uint64_t value, char text[NUMBER_SIZE])
{
	if (in_us(f))
		snprintf(text, NUMBER_SIZE, "%" PRIu64 ".%06" PRIu64, value / 1000000,
			 value % 1000000);
	else
		snprintf(text, NUMBER_SIZE, "%" PRIu64, value);
	return text;
}

static void put_value(FILE *out, const struct family *f, uint64_t value)
{
	char text[NUMBER_SIZE];

	fprintf(out, " %s\n", number_of(f, value, text));
}

/* Escapes the characters that would end a text in the output: a backslash, a newline and, in a
 * label, a quotation mark. */
static void put_escaped(FILE *out, const char *text, bool quoted)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || (quoted && *text == '"'))
			fprintf(out, "\\%c", *text);
		else
			fputc(*text, out);
	}
}

static void put_head(FILE *out, const struct family *f)
{
	fputs("# HELP ", out);
	put_name(out, f);
	fputc(' ', out);
	put_escaped(out, f->text, false);
	if (*f->unit) {
		fputs(" (", out);
		put_escaped(out, in_us(f) ? "seconds" : f->unit, false);
		fputc(')', out);
	}
	fputs("\n# TYPE ", out);
	put_name(out, f);
	fprintf(out, " %s\n", f->counter ? "counter" : f->histogram ? "histogram" : "gauge");
}

static void put_label(FILE *out, char *between, const char *name, const char *value)
{
	fprintf(out, "%c%s=\"", *between, name);
	put_escaped(out, value, true);
	fputc('"', out);
	*between = ',';
}

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key)) ?: "";
}

/* Whether text is a valid name for Prometheus. Names may come from a peer, so they are checked. */
static bool is_name(const char *text)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return text[0] && !isdigit((unsigned char)text[0]);
}

/* Prints the labels of a sample. le is the bound of a histogram's bucket, or NULL. It becomes the
 * label "le", so no other label may have that name. */
static void put_labels(FILE *out, const struct family *f, json_t *labels, const char *le)
{
	char between = '{';
	const char *key;
	json_t *value;

	json_object_foreach (labels, key, value)
		if (is_name(key) && json_is_string(value) && !(f->histogram && !strcmp(key, "le")))
			put_label(out, &between, key, json_string_value(value));
	if (le)
		put_label(out, &between, "le", le);
	if (between == ',')
		fputc('}', out);
}

static void print_json_sample(FILE *out, const struct family *f, const json_t *sample)
{
	const json_t *value = json_object_get(sample, "value");

	if (!json_is_integer(value))
		return;
	put_name(out, f);
	put_labels(out, f, json_object_get(sample, "labels"), NULL);
	put_value(out, f, json_integer_value(value));
}

/* Whether a JSON list has exactly n numbers, none of them negative. growing: each number must also
 * be larger than the one before. */
static bool are_numbers(const json_t *list, size_t n, bool growing)
{
	json_int_t last = -1, number;
	const json_t *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) != n)
		return false;
	json_array_foreach (list, i, item) {
		number = json_integer_value(item);
		if (!json_is_integer(item) || number < 0 || (growing && number <= last))
			return false;
		last = number;
	}
	return true;
}

static void put_series(FILE *out, const struct family *f, const char *ending, json_t *labels,
		       const char *le)
{
	put_name(out, f);
	fprintf(out, "_%s", ending);
	put_labels(out, f, labels, le);
}

/* Prints a histogram. A bucket of Prometheus counts all values up to its bound, so it includes
 * the buckets before it. */
static void print_histogram(FILE *out, const struct family *f, const json_t *sample)
{
	const json_t *bounds = json_object_get(sample, "bounds"),
		     *counts = json_object_get(sample, "counts"),
		     *sum = json_object_get(sample, "sum"), *bound;
	json_t *labels = json_object_get(sample, "labels");
	const size_t n = json_array_size(bounds);
	char le[NUMBER_SIZE];
	uint64_t count = 0;
	size_t i;

	if (!are_numbers(bounds, n, true) || !are_numbers(counts, n + 1, false) ||
	    !json_is_integer(sum) || json_integer_value(sum) < 0)
		return;
	json_array_foreach (bounds, i, bound) {
		count += json_integer_value(json_array_get(counts, i));
		number_of(f, json_integer_value(bound), le);
		put_series(out, f, "bucket", labels, le);
		fprintf(out, " %" PRIu64 "\n", count);
	}
	count += json_integer_value(json_array_get(counts, n));
	put_series(out, f, "bucket", labels, "+Inf");
	fprintf(out, " %" PRIu64 "\n", count);
	put_series(out, f, "sum", labels, NULL);
	put_value(out, f, json_integer_value(sum));
	put_series(out, f, "count", labels, NULL);
	fprintf(out, " %" PRIu64 "\n", count);
}

void inc_metric_print(FILE *out, const json_t *families)
{
	json_t *family, *sample;
	size_t i, k;

	json_array_foreach (families, i, family) {
		const struct family f = {
			.name = text_of(family, "name"),
			.unit = text_of(family, "unit"),
			.text = text_of(family, "text"),
			.counter = !strcmp(text_of(family, "kind"), "counter"),
			.histogram = !strcmp(text_of(family, "kind"), "histogram"),
		};

		if (!is_name(f.name))
			continue;
		put_head(out, &f);
		json_array_foreach (json_object_get(family, "samples"), k, sample)
			(f.histogram ? print_histogram : print_json_sample)(out, &f, sample);
	}
}

/* Returns a figure's family as Prometheus names it. name: a buffer for the family's full name. */
static struct family family_of(const char *room, const struct inc_metric *m,
			       char name[INC_METRIC_NAME_LEN])
{
	snprintf(name, INC_METRIC_NAME_LEN, "inc_%s_%s", room, m->name);
	return (struct family){name, m->unit, m->text, m->kind == INC_METRIC_COUNTER, false};
}

void inc_metric_print_head(FILE *out, const char *room, const struct inc_metric *m)
{
	char name[INC_METRIC_NAME_LEN];
	const struct family f = family_of(room, m, name);

	put_head(out, &f);
}

void inc_metric_print_sample(FILE *out, const char *room, const struct inc_metric *m,
			     const void *values, const struct inc_label *labels)
{
	char name[INC_METRIC_NAME_LEN], between = '{';
	const struct family f = family_of(room, m, name);
	uint64_t value;

	memcpy(&value, (const char *)values + m->offset, sizeof(value));
	put_name(out, &f);
	for (; labels && labels->name; labels++)
		put_label(out, &between, labels->name, labels->value);
	if (between == ',')
		fputc('}', out);
	put_value(out, &f, value);
}
