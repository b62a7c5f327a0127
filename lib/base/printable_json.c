/* SPDX-License-Identifier: BSD-2-Clause */
/* Apart from printable.c, so that who needs no JSON does not link it. */
#include <stdlib.h>
#include <string.h>
#include "lib/base/printable.h"

/* Valid UTF-8 stays valid: whole characters are replaced. */
static void clean_string(json_t *value)
{
	char *copy = strdup(json_string_value(value));

	if (!copy) {
		json_string_set(value, "?");
		return;
	}
	inc_printable(copy);
	json_string_set(value, copy);
	free(copy);
}

void inc_printable_json(json_t *value)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_string(value))
		clean_string(value);
	json_array_foreach (value, i, v)
		inc_printable_json(v);
	json_object_foreach (value, key, v)
		inc_printable_json(v);
}
