/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables of fields: what both readers share is the text of a value and what it must be. */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/errno_name.h"
#include "lib/conf/schema.h"
#include "lib/proto/roce.h"

/* A value of a file or of a message. */
struct source {
	const struct inc_yaml_node *yaml; /* of a file; else */
	const json_t *json;
	const struct source *in; /* of a message: where it stands, for errors */
	const char *name;        /* NULL: element index of a list */
	size_t index;
	char buf[32];
};

static size_t path(const struct source *at, char *buf, size_t size)
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

static int wrong(const struct source *at, struct inc_err *err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int wrong(const struct source *at, struct inc_err *err, const char *fmt, ...)
{
	char text[300], where[160] = "";
	va_list ap;

	if (!err)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (at->yaml)
		return inc_yaml_error(at->yaml, err, "%s", text);
	path(at, where, sizeof(where));
	return inc_err_set(err, EINVAL, "%s%s%s", where, *where ? ": " : "", text);
}

/* A list of the names: "red, green or blue". */
static void list_names(const char *const *names, char *buf, size_t size)
{
	size_t used = snprintf(buf, size, "%s", names[0]);

	for (names++; *names && used < size; names++)
		used += snprintf(buf + used, size - used, "%s%s", names[1] ? ", " : " or ", *names);
}

/* What stands behind "is not" in a message, but for bounds. */
static const char *expected(const struct inc_field *f, char *buf, size_t size)
{
	switch (f->kind) {
	case INC_UINT:
		return "a whole number";
	case INC_REAL:
		return "a number";
	case INC_BOOL:
		return "true or false";
	case INC_IPV4:
		return "an IPv4 address";
	case INC_MAC:
		return "a MAC address (02:00:00:00:00:01)";
	case INC_WORD:
		snprintf(buf, size, "%s (1 to %zu characters without blanks)", f->what ?: "a text",
			 f->size - 1);
		return buf;
	case INC_CHOICE:
		list_names(f->names, buf, size);
		return buf;
	case INC_ERRNO:
		return "the name of an error";
	case INC_MAP:
		return "a mapping";
	case INC_LIST:
		return "a list";
	default:
		return "a text";
	}
}

const char *inc_field_domain(const struct inc_field *f, char *buf, size_t size)
{
	const char *what;

	if (f->kind == INC_UINT && !f->good && (f->min || f->max != UINT64_MAX))
		snprintf(buf, size, "%llu to %llu", (unsigned long long)f->min,
			 (unsigned long long)f->max);
	else if (f->kind == INC_UINT && f->good)
		snprintf(buf, size, "%s", f->what);
	else if (f->kind == INC_REAL)
		snprintf(buf, size, "a number from %llu to %llu", (unsigned long long)f->min,
			 (unsigned long long)f->max);
	else if (f->kind == INC_MAP)
		snprintf(buf, size, "an object");
	else if (f->kind == INC_OTHER)
		snprintf(buf, size, "%s", f->what ?: "");
	else if (f->kind == INC_LIST && !f->of->fields[0].name) {
		what = inc_field_domain(&f->of->fields[0], buf, size);
		memmove(buf + 9, what, strnlen(what, size - 10) + 1);
		memcpy(buf, "list of: ", 9);
	} else {
		what = expected(f, buf, size);
		if (what != buf)
			snprintf(buf, size, "%s", what);
	}
	return buf;
}

/* The text of a scalar. NULL: it is none, or in JSON not of the field's kind. */
static const char *text_of(struct source *at, const struct inc_field *f)
{
	const bool number = f->kind == INC_UINT || f->kind == INC_REAL || f->kind == INC_BOOL;

	if (at->yaml)
		return inc_yaml_text(at->yaml);
	switch (json_typeof(at->json)) {
	case JSON_STRING:
		return number ? NULL : json_string_value(at->json);
	case JSON_INTEGER:
		snprintf(at->buf, sizeof(at->buf), "%lld", (long long)json_integer_value(at->json));
		return number ? at->buf : NULL;
	case JSON_REAL: /* 1.0 is no whole number */
		snprintf(at->buf, sizeof(at->buf), "%.17g", json_real_value(at->json));
		return f->kind == INC_REAL ? at->buf : NULL;
	case JSON_TRUE:
		return f->kind == INC_BOOL ? "true" : NULL;
	case JSON_FALSE:
		return f->kind == INC_BOOL ? "false" : NULL;
	default:
		return NULL;
	}
}

static void store(const struct inc_field *f, void *out, uint64_t value)
{
	switch (f->size) {
	case 1:
		*(uint8_t *)out = value;
		break;
	case 2:
		*(uint16_t *)out = value;
		break;
	case 4:
		*(uint32_t *)out = value;
		break;
	default:
		*(uint64_t *)out = value;
	}
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

/* The readers of a kind: 0, -EINVAL where the text is not what expected() says, or -ERANGE after a
 * message of their own. */
static int read_uint(const struct inc_field *f, const struct source *at, const char *text,
		     void *out, struct inc_err *err)
{
	unsigned long long value;
	char *end;

	/* strtoull takes blanks and signs, and reads 010 as octal: none of that here */
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (*end)
		return -EINVAL;
	if (!errno && f->good && !f->good(value)) {
		wrong(at, err, "%.64s is not %s", text, f->what);
		return -ERANGE;
	}
	if (errno || (!f->good && (value < f->min || value > f->max))) {
		wrong(at, err, "%.64s is not between %llu and %llu", text,
		      (unsigned long long)f->min, (unsigned long long)f->max);
		return -ERANGE;
	}
	store(f, out, value);
	return 0;
}

static int read_real(const struct inc_field *f, const struct source *at, const char *text,
		     void *out, struct inc_err *err)
{
	double value;
	char *end;

	value = strtod(text, &end);
	if (end == text || *end || !isfinite(value) || *text == ' ')
		return -EINVAL;
	if (value < (double)f->min || value > (double)f->max) {
		wrong(at, err, "%.64s is not between %llu and %llu", text,
		      (unsigned long long)f->min, (unsigned long long)f->max);
		return -ERANGE;
	}
	*(double *)out = value;
	return 0;
}

static int read_bool(const char *text, void *out)
{
	static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*(bool *)out = i & 1;
			return 0;
		}
	}
	return -EINVAL;
}

static int read_ipv4(const struct source *at, const char *text, void *out, struct inc_err *err)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, text, &addr) != 1)
		return -EINVAL;
	if (!inc_addr_unicast(ntohl(addr.s_addr))) {
		wrong(at, err, "%.64s is not a unicast address", text);
		return -ERANGE;
	}
	*(struct in_addr *)out = addr;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_mac(const char *text, void *out)
{
	uint8_t mac[6];

	if (strlen(text) != 17)
		return -EINVAL;
	for (int i = 0; i < 6; i++) {
		int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
			return -EINVAL;
		mac[i] = high << 4 | low;
	}
	memcpy(out, mac, sizeof(mac));
	return 0;
}

static int read_word(const struct inc_field *f, const char *text, char *out)
{
	size_t n = strlen(text);

	if (n < 1 || n >= f->size)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			return -EINVAL;
	}
	memcpy(out, text, n + 1);
	return 0;
}

/* It may be passed on to anybody: control characters become blanks. */
static int read_line(const struct inc_field *f, const char *text, char *out)
{
	size_t i;

	for (i = 0; text[i] && i + 1 < f->size; i++) {
		unsigned char c = text[i];

		out[i] = c < ' ' || c == 0x7f ? ' ' : c > '~' ? '?' : c;
	}
	out[i] = '\0';
	return 0;
}

static int read_choice(const struct inc_field *f, const char *text, void *out)
{
	for (uint64_t i = 0; f->names[i]; i++) {
		if (strcmp(text, f->names[i]) == 0) {
			store(f, out, i);
			return 0;
		}
	}
	return -EINVAL;
}

static int read_errno(const char *text, void *out)
{
	int code = inc_errno_from_name(text);

	if (!code)
		return -EINVAL;
	*(int *)out = code;
	return 0;
}

static int read_text(const struct inc_field *f, const struct source *at, const char *text,
		     void *out, struct inc_err *err)
{
	switch (f->kind) {
	case INC_UINT:
		return read_uint(f, at, text, out, err);
	case INC_REAL:
		return read_real(f, at, text, out, err);
	case INC_BOOL:
		return read_bool(text, out);
	case INC_IPV4:
		return read_ipv4(at, text, out, err);
	case INC_MAC:
		return read_mac(text, out);
	case INC_WORD:
		return read_word(f, text, out);
	case INC_LINE:
		return read_line(f, text, out);
	case INC_CHOICE:
		return read_choice(f, text, out);
	case INC_ERRNO:
		return read_errno(text, out);
	default:
		return -EINVAL;
	}
}

static int read_scalar(const struct inc_field *f, struct source *at, void *out, struct inc_err *err)
{
	const char *text = text_of(at, f);
	char what[128];
	int ret;

	if (!text)
		return wrong(at, err, "is not %s", expected(f, what, sizeof(what)));
	if (!*text && f->empty)
		return 0;
	if (!*text && f->kind != INC_LINE)
		return wrong(at, err, "is empty");
	ret = read_text(f, at, text, out, err);
	if (ret == -EINVAL)
		wrong(at, err, "'%.64s' is not %s", text, expected(f, what, sizeof(what)));
	return ret ? -EINVAL : 0;
}

static int read_fields(const struct inc_schema *schema, const struct source *map, void *out,
		       struct inc_err *err);

static int read_elements(const struct inc_field *f, const struct source *at, size_t n, char *out,
			 struct inc_err *err)
{
	int ret;

	for (size_t i = 0; i < n; i++) {
		struct source element = {.in = at, .index = i};
		char *to = out + i * f->of->size;

		if (at->yaml)
			element.yaml = inc_yaml_at(at->yaml, i);
		else
			element.json = json_array_get(at->json, i);
		ret = f->of->fields[0].name ? read_fields(f->of, &element, to, err)
					    : read_scalar(&f->of->fields[0], &element, to, err);
		if (ret)
			return ret;
	}
	return 0;
}

static int read_list(const struct inc_field *f, const struct source *at, void *object,
		     struct inc_err *err)
{
	size_t n = at->yaml ? inc_yaml_len(at->yaml) : json_array_size(at->json);
	uint32_t *count = (uint32_t *)((char *)object + f->count);

	if (at->yaml ? inc_yaml_want_seq(at->yaml, NULL) != 0 : !json_is_array(at->json))
		return wrong(at, err, "is not a list");
	if (n < f->min || n > f->max)
		return wrong(at, err, "has %zu entries, not %llu to %llu", n,
			     (unsigned long long)f->min, (unsigned long long)f->max);
	*count = n;
	return read_elements(f, at, n, (char *)object + f->offset, err);
}

static int read_absent(const struct inc_field *f, const struct source *map, void *object,
		       struct inc_err *err)
{
	if (f->need == INC_REQUIRED || (f->need == INC_TOLD && !map->yaml))
		return wrong(map, err, "'%s' is missing", f->name);
	/* a text has no default but what the struct holds */
	if (f->need != INC_OPTIONAL &&
	    (f->kind == INC_UINT || f->kind == INC_BOOL || f->kind == INC_CHOICE))
		store(f, (char *)object + f->offset, f->def);
	return 0;
}

static bool in_form(const struct inc_field *f, enum inc_field_form form)
{
	return f->form == INC_EVERYWHERE || f->form == form;
}

static int read_field(const struct inc_field *f, const struct source *map, void *object,
		      struct inc_err *err)
{
	struct source at = {.in = map, .name = f->name};
	char *out = (char *)object + f->offset;

	if (map->yaml)
		at.yaml = inc_yaml_get(map->yaml, f->name);
	else
		at.json = json_object_get(map->json, f->name);
	if (f->given)
		*((char *)object + f->given) = at.yaml || at.json;
	if (!at.yaml && !at.json)
		return read_absent(f, map, object, err);
	switch (f->kind) {
	case INC_OTHER:
		return 0;
	case INC_MAP:
		return read_fields(f->of, &at, out, err);
	case INC_LIST:
		return read_list(f, &at, object, err);
	default:
		return read_scalar(f, &at, out, err);
	}
}

static int check_keys(const struct inc_schema *schema, const struct inc_yaml_node *map,
		      struct inc_err *err)
{
	const char *known[schema->n + 1];
	size_t n = 0;

	for (size_t i = 0; i < schema->n; i++) {
		if (in_form(&schema->fields[i], INC_FILE_ONLY))
			known[n++] = schema->fields[i].name;
	}
	known[n] = NULL;
	return inc_yaml_check_keys(map, known, err);
}

static int read_fields(const struct inc_schema *schema, const struct source *map, void *out,
		       struct inc_err *err)
{
	const enum inc_field_form form = map->yaml ? INC_FILE_ONLY : INC_MESSAGE_ONLY;
	int ret;

	if (map->yaml) {
		ret = check_keys(schema, map->yaml, err);
		if (ret)
			return ret;
	} else if (!json_is_object(map->json)) {
		return wrong(map, err, "is not an object");
	}
	for (size_t i = 0; i < schema->n; i++) {
		if (!in_form(&schema->fields[i], form))
			continue;
		ret = read_field(&schema->fields[i], map, out, err);
		if (ret)
			return ret;
	}
	return 0;
}

int inc_schema_read_yaml(const struct inc_schema *schema, const struct inc_yaml_node *map,
			 void *out, struct inc_err *err)
{
	const struct source at = {.yaml = map};

	if (!map)
		return inc_err_set(err, EINVAL, "a mapping is missing");
	return read_fields(schema, &at, out, err);
}

int inc_schema_read_json(const struct inc_schema *schema, const json_t *object, void *out,
			 struct inc_err *err)
{
	const struct source at = {.json = object};

	return read_fields(schema, &at, out, err);
}

static json_t *print_list(const struct inc_field *f, enum inc_field_form form, const void *object);

static json_t *print_value(const struct inc_field *f, enum inc_field_form form, const void *object)
{
	const char *in = (const char *)object + f->offset;
	const uint8_t *mac = (const uint8_t *)in;
	char text[32];

	switch (f->kind) {
	case INC_UINT:
		return json_integer((json_int_t)load(f, in));
	case INC_REAL:
		return json_real(*(const double *)in);
	case INC_BOOL:
		return json_boolean(*(const bool *)in);
	case INC_IPV4:
		return json_string(inet_ntop(AF_INET, in, text, sizeof(text)));
	case INC_MAC:
		snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1],
			 mac[2], mac[3], mac[4], mac[5]);
		return json_string(text);
	case INC_WORD:
	case INC_LINE:
		return json_string(in);
	case INC_CHOICE:
		return json_string(f->names[load(f, in)]);
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

		if (!in_form(f, form) || f->kind == INC_OTHER ||
		    (f->given && !*((const bool *)in + f->given)))
			continue;
		if (json_object_set_new(object, f->name, print_value(f, form, in))) {
			json_decref(object);
			return NULL;
		}
	}
	return object;
}
