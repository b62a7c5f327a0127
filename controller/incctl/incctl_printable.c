/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes texts of peers safe for the terminal on which incctl prints them. */
#include <stdlib.h>
#include <string.h>
#include "controller/incctl/incctl.h"
#include "lib/base/printable.h"

/* Replaces the characters of a text that a terminal must not receive. Whole characters are
 * replaced, so that valid UTF-8 stays valid. */
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

void incctl_printable(json_t *value)
{
	const char *key;
	json_t *v;
	size_t i;

	if (json_is_string(value))
		clean_string(value);
	json_array_foreach (value, i, v)
		incctl_printable(v);
	json_object_foreach (value, key, v)
		incctl_printable(v);
}
