/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys and values of etcd as its gateway has them, in JSON and base64 (etcd.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/evp.h>
#include "lib/net/lines.h"
#include "controller/store/etcd.h"

#define PATH_MAX_BYTES 100
/* limit of a text that is parsed */
#define TEXT_MAX (64u << 20)

json_t *inc_etcd_text(const char *bytes, size_t n)
{
	unsigned char *text = malloc(4 * ((n + 2) / 3) + 1);
	json_t *string = NULL;

	if (text) {
		const int len = EVP_EncodeBlock(text, (const unsigned char *)bytes, (int)n);

		string = json_stringn((const char *)text, len);
	}
	free(text);
	return string;
}

char *inc_etcd_bytes(const json_t *text, size_t *n)
{
	const char *from = json_string_value(text);
	const size_t len = json_string_length(text);
	unsigned char *bytes;
	int got;

	if (!from)
		return NULL;
	bytes = malloc(len + 1);
	if (!bytes)
		return NULL;
	got = EVP_DecodeBlock(bytes, (const unsigned char *)from, (int)len);
	if (got < 0) {
		free(bytes);
		return NULL;
	}
	/* the last bytes of the result stand for the padding */
	for (size_t i = len; i > 0 && got > 0 && from[i - 1] == '='; i--)
		got--;
	bytes[got] = '\0';
	*n = got;
	return (char *)bytes;
}

static json_t *key_of(const struct inc_etcd *etcd, const char *path, int add)
{
	char key[INC_ETCD_PREFIX_MAX + PATH_MAX_BYTES];
	int n = snprintf(key, sizeof(key), "%s/%s", inc_etcd_prefix(etcd), path);

	if (n >= (int)sizeof(key))
		return NULL;
	key[n - 1] += add;
	return inc_etcd_text(key, n);
}

json_t *inc_etcd_key(const struct inc_etcd *etcd, const char *path)
{
	return key_of(etcd, path, 0);
}

json_t *inc_etcd_key_end(const struct inc_etcd *etcd, const char *path)
{
	return key_of(etcd, path, 1);
}

json_t *inc_etcd_put(const struct inc_etcd *etcd, const char *path, const char *value, size_t n)
{
	return json_pack("{s:{s:o, s:o}}", "request_put", "key", inc_etcd_key(etcd, path), "value",
			 inc_etcd_text(value, n));
}

json_t *inc_etcd_delete(const struct inc_etcd *etcd, const char *path)
{
	return json_pack("{s:{s:o}}", "request_delete_range", "key", inc_etcd_key(etcd, path));
}

json_t *inc_etcd_delete_all(const struct inc_etcd *etcd, const char *path)
{
	return json_pack("{s:{s:o, s:o}}", "request_delete_range", "key", inc_etcd_key(etcd, path),
			 "range_end", inc_etcd_key_end(etcd, path));
}

json_t *inc_etcd_read(const struct inc_etcd *etcd, const char *path)
{
	return json_pack("{s:{s:o}}", "request_range", "key", inc_etcd_key(etcd, path));
}

const json_t *inc_etcd_found(const json_t *answer, unsigned int i)
{
	const json_t *response = json_array_get(json_object_get(answer, "responses"), i);

	return json_array_get(json_object_get(json_object_get(response, "response_range"), "kvs"),
			      0);
}

const char *inc_etcd_path(const struct inc_etcd *etcd, const char *key)
{
	const char *prefix = inc_etcd_prefix(etcd);
	const size_t n = strlen(prefix);

	return strncmp(key, prefix, n) == 0 && key[n] == '/' ? key + n + 1 : NULL;
}

static json_t *parse(struct inc_lines *lines)
{
	json_t *object = NULL;
	size_t room;
	char *space = inc_lines_space(lines, &room);

	if (!space)
		return NULL;
	*space = '\n';
	inc_lines_filled(lines, 1);
	return inc_lines_next(lines, &object, NULL) > 0 ? object : NULL;
}

static bool append(struct inc_lines *lines, const char *bytes, size_t n)
{
	while (n) {
		size_t room;
		char *space = inc_lines_space(lines, &room);

		if (!space)
			return false;
		room = room < n ? room : n;
		memcpy(space, bytes, room);
		inc_lines_filled(lines, room);
		bytes += room;
		n -= room;
	}
	return true;
}

json_t *inc_etcd_parse(const char *bytes, size_t n)
{
	struct inc_lines lines = {.max_line = TEXT_MAX};
	json_t *object = append(&lines, bytes, n) ? parse(&lines) : NULL;

	inc_lines_free(&lines);
	return object;
}

int64_t inc_etcd_number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_integer(value) ? json_integer_value(value)
				      : strtoll(json_string_value(value) ?: "0", NULL, 10);
}
