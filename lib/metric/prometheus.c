/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures as the text that a Prometheus server scrapes: from families by tools, from tables by
 * daemons. */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include "lib/metric/metric.h"

#define MICROSECONDS "microseconds"
#define ENDING_US    "_us"

/* What is counted is a total; times are seconds there, whatever they are here. */
struct family {
	const char *name;
	const char *unit;
	const char *text;
	bool counter;
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

static void put_value(FILE *out, const struct family *f, uint64_t value)
{
	if (in_us(f))
		fprintf(out, " %" PRIu64 ".%06" PRIu64 "\n", value / 1000000, value % 1000000);
	else
		fprintf(out, " %" PRIu64 "\n", value);
}

/* A backslash, a line's end and, in a label, a quotation mark would end the text. */
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
	fprintf(out, " %s\n", f->counter ? "counter" : "gauge");
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

/* What stands in the place of a name comes from the other end of a connection. */
static bool is_name(const char *text)
{
	size_t i;

	for (i = 0; text[i]; i++)
		if (!isalnum((unsigned char)text[i]) && text[i] != '_')
			return false;
	return text[0] && !isdigit((unsigned char)text[0]);
}

static void print_json_sample(FILE *out, const struct family *f, const json_t *sample)
{
	json_t *labels = json_object_get(sample, "labels"), *value;
	char between = '{';
	const char *key;

	if (!json_is_integer(json_object_get(sample, "value")))
		return;
	put_name(out, f);
	json_object_foreach (labels, key, value)
		if (is_name(key) && json_is_string(value))
			put_label(out, &between, key, json_string_value(value));
	if (between == ',')
		fputc('}', out);
	put_value(out, f, json_integer_value(json_object_get(sample, "value")));
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
		};

		if (!is_name(f.name))
			continue;
		put_head(out, &f);
		json_array_foreach (json_object_get(family, "samples"), k, sample)
			print_json_sample(out, &f, sample);
	}
}

/* name: room for the family's whole name. */
static struct family family_of(const char *room, const struct inc_metric *m,
			       char name[INC_METRIC_NAME_LEN])
{
	snprintf(name, INC_METRIC_NAME_LEN, "inc_%s_%s", room, m->name);
	return (struct family){name, m->unit, m->text, m->kind == INC_METRIC_COUNTER};
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
