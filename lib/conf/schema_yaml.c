/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables of fields as YAML: reads files. To print YAML, schema_json.c makes JSON and yaml.h prints
 * it.
 */
#include <errno.h>
#include "lib/conf/schema_priv.h"
#include "lib/conf/schema.h"
#include "lib/conf/yaml.h"

/* Rejects keys that are not in the table, because such a key is probably misspelt. */
static int map(const struct inc_source *at, const struct inc_schema *schema, struct inc_err *err)
{
	const char *known[2 * schema->n + 1];
	size_t n = 0;

	for (size_t i = 0; i < schema->n; i++) {
		if (!inc_field_in(&schema->fields[i], INC_FILE_ONLY))
			continue;
		known[n++] = schema->fields[i].name;
		if (schema->fields[i].alias)
			known[n++] = schema->fields[i].alias;
	}
	known[n] = NULL;
	return inc_yaml_check_keys(at->value, known, err);
}

static const void *member(const struct inc_source *at, const char *key)
{
	return inc_yaml_get(at->value, key);
}

static bool list(const struct inc_source *at, size_t *n)
{
	*n = inc_yaml_len(at->value);
	return inc_yaml_want_seq(at->value, NULL) == 0;
}

static const void *element(const struct inc_source *at, size_t i)
{
	return inc_yaml_at(at->value, i);
}

static const char *text(struct inc_source *at, const struct inc_field *field)
{
	return inc_yaml_text(at->value);
}

static int wrong(const struct inc_source *at, struct inc_err *err, const char *fmt, va_list ap)
{
	return inc_yaml_verror(at->value, err, fmt, ap);
}

int inc_schema_read_yaml(const struct inc_schema *schema, const struct inc_yaml_node *node,
			 void *out, struct inc_err *err)
{
	static const struct inc_source_form yaml = {
		.is = INC_FILE_ONLY,
		.map = map,
		.member = member,
		.list = list,
		.element = element,
		.text = text,
		.wrong = wrong,
	};
	const struct inc_source at = {.form = &yaml, .value = node};

	if (!node)
		return inc_err_set(err, EINVAL, "a mapping is missing");
	return inc_schema_read(schema, &at, out, err);
}
