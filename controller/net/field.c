/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
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

const char *inc_field_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}
