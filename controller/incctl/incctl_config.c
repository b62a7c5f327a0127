/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration of switches, as the file that inc-switchd --config reads. */
#include <stdio.h>
#include "controller/incctl/incctl.h"
#include "lib/conf/yaml.h"

/* Appends a page of a switch's answer to "config". Each page has some of the switch's
 * communicators. */
static void append_page(json_t *sw, const json_t *page)
{
	static const char *const lists[] = {"communicators", "connections"};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		json_array_extend(json_object_get(sw, lists[i]), json_object_get(page, lists[i]));
}

json_t *incctl_config(const json_t *data)
{
	json_t *switches = json_array(), *answer, *page, *sw;
	size_t i, k;

	json_array_foreach (data, i, answer) {
		sw = json_array_get(json_object_get(answer, "data"), 0);
		json_array_foreach (json_object_get(answer, "data"), k, page) {
			if (k)
				append_page(sw, page);
		}
		if (sw)
			json_array_append(switches, sw);
	}
	return json_pack("{s:o}", "switches", switches);
}

void incctl_print_config(const json_t *config)
{
	inc_yaml_write(stdout, config);
}
