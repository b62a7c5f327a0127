/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of fields as JSON: reads messages, and prints any struct. It needs no libyaml. */
#include <jansson.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/base/printable.h"
#include "lib/conf/ranks.h"
#include "lib/conf/schema_priv.h"

static const void *member(const struct inc_source *map, const char *key)
{
	return json_object_get(map->value, key);
}

static bool list(const struct inc_source *at, size_t *n)
{
	*n = json_array_size(at->value);
	return json_is_array((const json_t *)at->value);
}

static const void *element(const struct inc_source *at, size_t i)
{
	return json_array_get(at->value, i);
}

/* Returns the value as text. NULL: its JSON type does not fit the field, such as a number in
 * quotes, or 1.0 for a whole number. */
static const char *text(struct inc_source *at, const struct inc_field *f)
{
	const bool number = f->kind == INC_UINT || f->kind == INC_INT || f->kind == INC_REAL ||
			    f->kind == INC_BOOL;
	const json_t *value = at->value;

	switch (json_typeof(value)) {
	case JSON_STRING:
		return number ? NULL : json_string_value(value);
	case JSON_INTEGER:
		snprintf(at->buf, sizeof(at->buf), "%lld", (long long)json_integer_value(value));
		return number ? at->buf : NULL;
	case JSON_REAL:
		snprintf(at->buf, sizeof(at->buf), "%.17g", json_real_value(value));
		return f->kind == INC_REAL ? at->buf : NULL;
	case JSON_TRUE:
		return f->kind == INC_BOOL ? "true" : NULL;
	case JSON_FALSE:
		return f->kind == INC_BOOL ? "false" : NULL;
	default:
		return NULL;
	}
}

/* Writes the path of a value inside a message, such as "connections[1].own_qp", for error
 * messages. */
static size_t path(const struct inc_source *at, char *buf, size_t size)
{
	size_t used;

	if (!at->in)
		return 0;
	used = path(at->in, buf, size);
	if (used >= size)
		return used;
	if (at->name)
		return used + snprintf(buf + used, size - used, "%s%s", used ? "." : "", at->name);
	return used + snprintf(buf + used, size - used, "[%zu]", at->index);
}

static int wrong(const struct inc_source *at, struct inc_err *err, const char *fmt, va_list ap)
{
	char where[160] = "";

	path(at, where, sizeof(where));
	return inc_err_vset(err, EINVAL, where, fmt, ap);
}

static int map(const struct inc_source *at, const struct inc_schema *schema, struct inc_err *err)
{
	return json_is_object((const json_t *)at->value)
		       ? 0
		       : inc_source_wrong(at, err, "is not an object");
}

int inc_schema_read_json(const struct inc_schema *schema, const json_t *object, void *out,
			 struct inc_err *err)
{
	static const struct inc_source_form json = {
		.is = INC_MESSAGE_ONLY,
		.map = map,
		.member = member,
		.list = list,
		.element = element,
		.text = text,
		.wrong = wrong,
	};
	const struct inc_source at = {.form = &json, .value = object};

	return inc_schema_read(schema, &at, out, err);
}

static uint64_t load(const struct inc_field *f, const void *in)
{
	switch (f->size) {
	case 1:
		return *(const uint8_t *)in;
	case 2:
		return *(const uint16_t *)in;
	case 4:
		return *(const uint32_t *)in;
	default:
		return *(const uint64_t *)in;
	}
}

/* Returns the text as a JSON string. The text is made printable, because it may have been cut in
 * the middle of a UTF-8 character, which JSON does not allow. */
static json_t *print_line(const char *in, size_t size)
{
	char line[size];

	memcpy(line, in, size);
	inc_printable(line);
	return json_string(line);
}

static json_t *print_ranks(const struct inc_ranks *set)
{
	char text[INC_RANKS_TEXT];

	inc_ranks_print(set, text, sizeof(text));
	return json_string(text);
}

static json_t *print_list(const struct inc_field *f, enum inc_field_form form, const void *object);

static json_t *print_value(const struct inc_field *f, enum inc_field_form form, const void *object)
{
	const char *in = (const char *)object + f->offset;
	const uint8_t *mac = (const uint8_t *)in;
	char text[INC_ADDR_TEXT];

	switch (f->kind) {
	case INC_UINT:
		return json_integer((json_int_t)load(f, in));
	case INC_INT:
		return json_integer(*(const int32_t *)in);
	case INC_REAL:
		return json_real(*(const double *)in);
	case INC_BOOL:
		return json_boolean(*(const bool *)in);
	case INC_IPV4:
		return json_string(inet_ntop(AF_INET, in, text, sizeof(text)));
	case INC_ADDR:
		return json_string(inc_addr_text(*(const struct inc_addr *)in, text));
	case INC_MAC:
		snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1],
			 mac[2], mac[3], mac[4], mac[5]);
		return json_string(text);
	case INC_RANKS:
		return print_ranks((const struct inc_ranks *)in);
	case INC_WORD:
		return json_string(in);
	case INC_LINE:
		return print_line(in, f->size);
	case INC_CHOICE:
		return json_string(f->names[load(f, in)] ?: f->other);
	case INC_ERRNO:
		return json_string(inc_errno_name(*(const int *)in) ?: "EIO");
	case INC_MAP:
		return inc_schema_print(f->of, form, in);
	case INC_LIST:
		return print_list(f, form, object);
	default:
		return json_null();
	}
}

static json_t *print_list(const struct inc_field *f, enum inc_field_form form, const void *object)
{
	const uint32_t n = *(const uint32_t *)((const char *)object + f->count);
	const char *in = (const char *)object + f->offset;
	json_t *list = json_array();

	for (uint32_t i = 0; list && i < n; i++, in += f->of->size) {
		json_t *element = f->of->fields[0].name ? inc_schema_print(f->of, form, in)
							: print_value(&f->of->fields[0], form, in);

		if (json_array_append_new(list, element)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

json_t *inc_schema_print(const struct inc_schema *schema, enum inc_field_form form, const void *in)
{
	json_t *object = json_object();

	for (size_t i = 0; object && i < schema->n; i++) {
		const struct inc_field *f = &schema->fields[i];

		if (!inc_field_in(f, form) || f->kind == INC_OTHER ||
		    (f->given && !*((const bool *)in + f->given)) ||
		    (f->kind == INC_UINT && f->empty && !load(f, (const char *)in + f->offset)))
			continue;
		if (json_object_set_new(object, f->name, print_value(f, form, in))) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}
