/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/base/errno_name.h"
#include "controller/net/field.h"

int inc_field_u64(const json_t *object, const char *key, bool required, uint64_t min, uint64_t max,
		  uint64_t *out, struct inc_err *err)
{
	const json_t *v = json_object_get(object, key);

	if (!v)
		return required ? inc_err_set(err, EINVAL, "'%s' is missing", key) : 0;
	/* JSON integers are signed 64 bits here: larger ones have not been parsed */
	if (!json_is_integer(v) || json_integer_value(v) < 0 ||
	    (uint64_t)json_integer_value(v) < min || (uint64_t)json_integer_value(v) > max)
		return inc_err_set(err, EINVAL, "'%s' is not a number from %llu to %llu", key,
				   (unsigned long long)min, (unsigned long long)max);
	*out = json_integer_value(v);
	return 0;
}

int inc_field_u32(const json_t *object, const char *key, bool required, uint32_t min, uint32_t max,
		  uint32_t *out, struct inc_err *err)
{
	uint64_t v = *out;
	int ret = inc_field_u64(object, key, required, min, max, &v, err);

	*out = v;
	return ret;
}

int inc_field_bool(const json_t *object, const char *key, bool *out, struct inc_err *err)
{
	const json_t *v = json_object_get(object, key);

	if (!v)
		return 0;
	/* host libraries written in C tend to say 0 and 1 */
	if (json_is_integer(v) && (json_integer_value(v) == 0 || json_integer_value(v) == 1)) {
		*out = json_integer_value(v);
		return 0;
	}
	if (!json_is_boolean(v))
		return inc_err_set(err, EINVAL, "'%s' is neither true nor false", key);
	*out = json_is_true(v);
	return 0;
}

int inc_field_word(const json_t *object, const char *key, bool required, char *out, size_t size,
		   struct inc_err *err)
{
	const json_t *v = json_object_get(object, key);
	const char *text = json_string_value(v);
	size_t n;

	if (!v)
		return required ? inc_err_set(err, EINVAL, "'%s' is missing", key) : 0;
	n = text ? strlen(text) : 0;
	if (n < 1 || n >= size)
		goto bad;
	for (size_t i = 0; i < n; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			goto bad;
	}
	memcpy(out, text, n + 1);
	return 0;
bad:
	return inc_err_set(err, EINVAL, "'%s' is not a text of 1 to %zu characters without blanks",
			   key, size - 1);
}

int inc_field_line(const json_t *object, const char *key, char *out, size_t size,
		   struct inc_err *err)
{
	const char *text = json_string_value(json_object_get(object, key));
	size_t i;

	if (!text)
		return inc_err_set(err, EINVAL, "'%s' is not a text", key);
	for (i = 0; text[i] && i + 1 < size; i++) {
		unsigned char c = text[i];

		out[i] = c < ' ' || c == 0x7f ? ' ' : c > '~' ? '?' : c;
	}
	out[i] = '\0';
	return 0;
}

int inc_field_errno(const json_t *object, const char *key, int *out, struct inc_err *err)
{
	const char *name = inc_field_text(object, key);

	int code = inc_errno_from_name(name);

	if (code) {
		*out = code;
		return 0;
	}
	return inc_err_set(err, EINVAL, "'%s' is not the name of an error", key);
}

const char *inc_field_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}
