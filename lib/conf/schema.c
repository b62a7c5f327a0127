/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads fields by their tables: checks the text of a value, and reads a mapping of a message
 * (schema_json.c) or of a file (schema_yaml.c).
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/base/printable.h"
#include "lib/conf/ranks.h"
#include "lib/conf/schema_priv.h"
#include "lib/proto/roce.h"

int inc_source_wrong(const struct inc_source *at, struct inc_err *err, const char *fmt, ...)
{
	va_list ap;
	int ret;

	va_start(ap, fmt);
	ret = at->form->wrong(at, err, fmt, ap);
	va_end(ap);
	return ret;
}

/* Writes the names of a choice as "red, green or blue". */
static void list_names(const char *const *names, char *buf, size_t size)
{
	size_t used = snprintf(buf, size, "%s", names[0]);

	for (names++; *names && used < size; names++)
		used += snprintf(buf + used, size - used, "%s%s", names[1] ? ", " : " or ", *names);
}

/* Describes a valid value of a field, for error messages of the form "'x' is not ...". Bounds are
 * reported by the code that reads the value. */
static const char *expected(const struct inc_field *f, char *buf, size_t size)
{
	switch (f->kind) {
	case INC_UINT:
		return "a whole number";
	case INC_INT:
		return "a whole number from -2147483648 to 2147483647";
	case INC_REAL:
		return "a number";
	case INC_BOOL:
		return "true or false";
	case INC_IPV4:
		return "an IPv4 address";
	case INC_ADDR:
		return "an IPv4 or IPv6 address";
	case INC_MAC:
		return "a MAC address (02:00:00:00:00:01)";
	case INC_RANKS:
		return "ranks in rising order (0-3,8)";
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
	char element[128];
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
		snprintf(buf, size, "list of: %s",
			 inc_field_domain(&f->of->fields[0], element, sizeof(element)));
	} else {
		what = expected(f, buf, size);
		if (what != buf)
			snprintf(buf, size, "%s", what);
	}
	return buf;
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

/* The functions below read one kind of fields each. They return 0, -EINVAL if the text is not what
 * expected() describes, or -ERANGE after they have reported the error themselves. */
static int read_uint(const struct inc_field *f, const struct inc_source *at, const char *text,
		     void *out, struct inc_err *err)
{
	unsigned long long value;
	char *end;

	/* reject texts that do not begin with a digit, because strtoull() accepts blanks and
	 * signs */
	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, strncmp(text, "0x", 2) == 0 ? 16 : 10);
	if (*end)
		return -EINVAL;
	if (!errno && f->good && !f->good(value)) {
		inc_source_wrong(at, err, "%.64s is not %s", text, f->what);
		return -ERANGE;
	}
	if (errno || (!f->good && (value < f->min || value > f->max))) {
		inc_source_wrong(at, err, "%.64s is not between %llu and %llu", text,
				 (unsigned long long)f->min, (unsigned long long)f->max);
		return -ERANGE;
	}
	store(f, out, value);
	return 0;
}

static int read_int(const char *text, void *out)
{
	long long value;
	char *end;

	if (*text != '-' && (*text < '0' || *text > '9'))
		return -EINVAL;
	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno || end == text || *end || value < INT32_MIN || value > INT32_MAX)
		return -EINVAL;
	*(int32_t *)out = value;
	return 0;
}

static int read_real(const struct inc_field *f, const struct inc_source *at, const char *text,
		     void *out, struct inc_err *err)
{
	double value;
	char *end;

	value = strtod(text, &end);
	if (end == text || *end || !isfinite(value) || *text == ' ')
		return -EINVAL;
	if (value < (double)f->min || value > (double)f->max) {
		inc_source_wrong(at, err, "%.64s is not between %llu and %llu", text,
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

static int read_ipv4(const struct inc_source *at, const char *text, void *out, struct inc_err *err)
{
	struct in_addr addr;

	if (inet_pton(AF_INET, text, &addr) != 1)
		return -EINVAL;
	if (!inc_addr_unicast(ntohl(addr.s_addr))) {
		inc_source_wrong(at, err, "%.64s is not a unicast address", text);
		return -ERANGE;
	}
	*(struct in_addr *)out = addr;
	return 0;
}

static int read_addr(const struct inc_source *at, const char *text, void *out, struct inc_err *err)
{
	struct inc_addr addr;
	const int ret = inc_addr_parse_host(text, &addr);

	if (ret == -ERANGE)
		inc_source_wrong(at, err, "%.64s %s", text, inc_addr_fault(addr));
	if (!ret)
		*(struct inc_addr *)out = addr;
	return ret;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_mac(const struct inc_source *at, const char *text, void *out, struct inc_err *err)
{
	static const uint8_t none[6];
	uint8_t mac[6];

	if (strlen(text) != 17)
		return -EINVAL;
	for (int i = 0; i < 6; i++) {
		int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

		if (high < 0 || low < 0 || (i < 5 && text[3 * i + 2] != ':'))
			return -EINVAL;
		mac[i] = high << 4 | low;
	}
	if (!inc_mac_unicast(mac) || !memcmp(mac, none, sizeof(mac))) {
		inc_source_wrong(at, err, "%.64s is not a unicast address", text);
		return -ERANGE;
	}
	memcpy(out, mac, sizeof(mac));
	return 0;
}

static int read_word(const struct inc_field *f, const char *text, char *out)
{
	size_t n = strlen(text);

	if (n >= f->size || !inc_is_word(text))
		return -EINVAL;
	memcpy(out, text, n + 1);
	return 0;
}

/* Reads a line of text and makes it printable: control characters become blanks, and bytes that are
 * not ASCII become '?', because the line may be sent on to any peer. */
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
	uint64_t i = 0;

	while (f->names[i] && strcmp(text, f->names[i]) != 0)
		i++;
	if (!f->names[i] && (!f->other || !inc_is_word(text)))
		return -EINVAL;
	store(f, out, i);
	return 0;
}

static int read_errno(const char *text, void *out)
{
	int code = inc_errno_from_name(text);

	if (!code)
		return -EINVAL;
	*(int *)out = code;
	return 0;
}

static int read_text(const struct inc_field *f, const struct inc_source *at, const char *text,
		     void *out, struct inc_err *err)
{
	switch (f->kind) {
	case INC_UINT:
		return read_uint(f, at, text, out, err);
	case INC_INT:
		return read_int(text, out);
	case INC_REAL:
		return read_real(f, at, text, out, err);
	case INC_BOOL:
		return read_bool(text, out);
	case INC_IPV4:
		return read_ipv4(at, text, out, err);
	case INC_ADDR:
		return read_addr(at, text, out, err);
	case INC_MAC:
		return read_mac(at, text, out, err);
	case INC_RANKS:
		return inc_ranks_parse(text, out);
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

static int read_scalar(const struct inc_field *f, struct inc_source *at, void *out,
		       struct inc_err *err)
{
	const char *text = at->form->text(at, f);
	char what[128];
	int ret;

	if (!text)
		return inc_source_wrong(at, err, "is not %s", expected(f, what, sizeof(what)));
	if (!*text && f->empty)
		return 0;
	if (f->kind == INC_UINT && f->empty && strcmp(text, "0") == 0) {
		store(f, out, 0);
		return 0;
	}
	if (!*text && f->kind != INC_LINE)
		return inc_source_wrong(at, err, "is empty");
	ret = read_text(f, at, text, out, err);
	if (ret == -EINVAL)
		inc_source_wrong(at, err, "'%.64s' is not %s", text,
				 expected(f, what, sizeof(what)));
	return ret ? -EINVAL : 0;
}

static int read_list(const struct inc_field *f, const struct inc_source *at, void *object,
		     struct inc_err *err)
{
	struct inc_source element = {.form = at->form, .in = at};
	char *out = (char *)object + f->offset;
	size_t n;
	int ret;

	if (!at->form->list(at, &n))
		return inc_source_wrong(at, err, "is not a list");
	if (n < f->min || n > f->max)
		return inc_source_wrong(at, err, "has %zu entries, not %llu to %llu", n,
					(unsigned long long)f->min, (unsigned long long)f->max);
	for (; element.index < n; element.index++, out += f->of->size) {
		element.value = at->form->element(at, element.index);
		ret = f->of->fields[0].name ? inc_schema_read(f->of, &element, out, err)
					    : read_scalar(&f->of->fields[0], &element, out, err);
		if (ret)
			return ret;
	}
	*(uint32_t *)((char *)object + f->count) = n;
	return 0;
}

static int read_absent(const struct inc_field *f, const struct inc_source *map, void *object,
		       struct inc_err *err)
{
	if (f->need == INC_REQUIRED || (f->need == INC_TOLD && map->form->is == INC_MESSAGE_ONLY))
		return inc_source_wrong(map, err, "'%s' is missing", f->name);
	if (f->need == INC_LATER && map->form->is == INC_MESSAGE_ONLY)
		return 0;
	/* an absent text keeps the content that the struct has already, so only fields of these
	 * kinds get the default of their row */
	if (f->need != INC_OPTIONAL && f->need != INC_HINT &&
	    (f->kind == INC_UINT || f->kind == INC_INT || f->kind == INC_BOOL ||
	     f->kind == INC_CHOICE))
		store(f, (char *)object + f->offset, f->def);
	return 0;
}

static int read_present(const struct inc_field *f, struct inc_source *at, void *object,
			struct inc_err *err)
{
	char *out = (char *)object + f->offset;

	switch (f->kind) {
	case INC_OTHER:
		return 0;
	case INC_MAP:
		return inc_schema_read(f->of, at, out, err);
	case INC_LIST:
		return read_list(f, at, object, err);
	default:
		return read_scalar(f, at, out, err);
	}
}

/* Whether the field of a message is a MAC address of zeros, which means that a port has no MAC
 * address. */
static bool is_no_mac(const struct inc_field *f, struct inc_source *at)
{
	const char *text;

	if (f->kind != INC_MAC || at->form->is != INC_MESSAGE_ONLY)
		return false;
	text = at->form->text(at, f);
	return text && !strcmp(text, "00:00:00:00:00:00");
}

static int read_field(const struct inc_field *f, const struct inc_source *map, void *object,
		      struct inc_err *err)
{
	struct inc_source at = {.form = map->form, .in = map, .name = f->name};
	bool there;
	int ret = 0;

	at.value = map->form->member(map, f->name);
	if (f->alias && map->form->is == INC_FILE_ONLY && map->form->member(map, f->alias)) {
		if (at.value)
			return inc_source_wrong(map, err, "'%s' and '%s' are the same", f->name,
						f->alias);
		at.name = f->alias;
		at.value = map->form->member(map, f->alias);
	}
	there = at.value && !is_no_mac(f, &at);
	if (there && f->need == INC_HINT)
		there = read_present(f, &at, object, NULL) == 0;
	else if (there)
		ret = read_present(f, &at, object, err);
	else
		ret = read_absent(f, map, object, err);
	if (f->given)
		*((bool *)object + f->given) = there;
	return ret;
}

int inc_schema_read(const struct inc_schema *schema, const struct inc_source *map, void *out,
		    struct inc_err *err)
{
	int ret = map->form->map(map, schema, err);

	for (size_t i = 0; i < schema->n && !ret; i++) {
		if (inc_field_in(&schema->fields[i], map->form->is))
			ret = read_field(&schema->fields[i], map, out, err);
	}
	return ret;
}
