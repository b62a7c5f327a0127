/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints JSON values as YAML, in the block style that people write. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "lib/conf/yaml.h"

/* Whether a text can be written without quotes, so that YAML reads it as the same text. It cannot
 * if it has an indicator, is a number, or is one of YAML's words. */
static bool plain(const char *text)
{
	static const char *const words[] = {"true", "false", "yes", "no", "on",
					    "off",  "null",  "y",   "n",  NULL};
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789_.-";

	if (!*text || !strchr(letters, *text) || strspn(text, more) != strlen(text))
		return false;
	for (const char *const *word = words; *word; word++) {
		if (strcasecmp(text, *word) == 0)
			return false;
	}
	return true;
}

/* Escapes DEL, which jansson prints like any letter, but which controls a terminal. */
static int put_ascii(const char *text, size_t len, void *out)
{
	for (; len; len--, text++) {
		if (*text == 0x7f)
			fputs("\\u007f", out);
		else
			fputc(*text, out);
	}
	return 0;
}

static void write_scalar(FILE *out, const json_t *value)
{
	if (json_is_string(value) && plain(json_string_value(value)))
		fputs(json_string_value(value), out);
	else
		json_dump_callback(value, put_ascii, out,
				   JSON_ENCODE_ANY | JSON_ENSURE_ASCII); /* JSON is YAML, too */
}

/* Prints a key like a value, because a peer may have chosen it, and it may go to a terminal. */
static void write_key(FILE *out, const char *key)
{
	json_t *text = json_string(key);

	write_scalar(out, text);
	json_decref(text);
}

static bool nests(const json_t *value)
{
	return json_object_size(value) || json_array_size(value);
}

static void write_nested(FILE *out, const json_t *value, int depth, bool continued);

static void write_entry(FILE *out, const json_t *value, int depth)
{
	if (nests(value)) {
		fputc('\n', out);
		write_nested(out, value, depth + 1, false);
	} else {
		fputc(' ', out);
		write_scalar(out, value);
		fputc('\n', out);
	}
}

/* Prints a mapping or list at a depth of indentation. continued: the dash of an outer list stands
 * on the first line already, so that line is not indented. */
static void write_nested(FILE *out, const json_t *value, int depth, bool continued)
{
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach ((json_t *)value, key, v) {
		fprintf(out, "%*s", continued ? 0 : depth * 2, "");
		write_key(out, key);
		fputc(':', out);
		continued = false;
		write_entry(out, v, depth);
	}
	json_array_foreach (value, i, v) {
		fprintf(out, "%*s-", continued ? 0 : depth * 2, "");
		continued = false;
		if (nests(v)) {
			fputc(' ', out);
			write_nested(out, v, depth + 1, true);
		} else {
			write_entry(out, v, depth);
		}
	}
}

void inc_yaml_write(FILE *out, const json_t *value)
{
	if (nests(value)) {
		write_nested(out, value, 0, false);
		return;
	}
	write_scalar(out, value);
	fputc('\n', out);
}
