/* SPDX-License-Identifier: BSD-2-Clause */
/* Families of figures as the text that a Prometheus server scrapes. Tools call this once. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include "lib/metric/metric.h"

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

static void print_sample(FILE *out, const char *name, const char *ending, const json_t *sample)
{
	json_t *labels = json_object_get(sample, "labels"), *value;
	const char *key, *between = "{";

	if (!json_is_integer(json_object_get(sample, "value")))
		return;
	fprintf(out, "%s%s", name, ending);
	json_object_foreach (labels, key, value) {
		if (!is_name(key) || !json_is_string(value))
			continue;
		fprintf(out, "%s%s=\"", between, key);
		put_escaped(out, json_string_value(value), true);
		fputc('"', out);
		between = ",";
	}
	fprintf(out, "%s %llu\n", *between == ',' ? "}" : "",
		(unsigned long long)json_integer_value(json_object_get(sample, "value")));
}

void inc_metric_print(FILE *out, const json_t *families)
{
	const char *name, *unit, *ending;
	json_t *family, *sample;
	size_t i, k;

	json_array_foreach (families, i, family) {
		name = text_of(family, "name");
		if (!is_name(name))
			continue;
		unit = text_of(family, "unit");
		ending = strcmp(text_of(family, "kind"), "counter") ? "" : "_total";
		fprintf(out, "# HELP %s%s ", name, ending);
		put_escaped(out, text_of(family, "text"), false);
		if (*unit) {
			fputs(" (", out);
			put_escaped(out, unit, false);
			fputc(')', out);
		}
		fprintf(out, "\n# TYPE %s%s %s\n", name, ending, *ending ? "counter" : "gauge");
		json_array_foreach (json_object_get(family, "samples"), k, sample)
			print_sample(out, name, ending, sample);
	}
}
