// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 4000
 *
 * Target: how incctl prints the answers of a controller or a switch. The data of any answer goes
 * through every view: tables, trees, pictures, YAML and Prometheus text. The output must contain no
 * control characters. The lines after the first one are an earlier state of the same data, and
 * trees.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/incctl/incctl.h"
#include "lib/base/clock.h"
#include "selftests/fuzz/fuzz.h"

static void print_config(const json_t *data)
{
	json_t *config = incctl_config(data);

	incctl_printable(config);
	incctl_print_config(config);
	json_decref(config);
}

static void print_waiting(const json_t *data)
{
	json_t *copy = json_deep_copy(data);

	incctl_waiting(copy);
	incctl_print_waiting(copy);
	json_decref(copy);
}

static void (*const views[])(const json_t *data) = {
	incctl_print_groups,   incctl_print_communicators,
	incctl_print_switches, incctl_print_connections,
	incctl_print_ports,    incctl_print_counters,
	incctl_print_events,   incctl_print_status,
	incctl_print_top,      incctl_print_metrics,
	print_config,          print_waiting,
};
static void (*const tree_views[])(const json_t *trees) = {
	incctl_print_tree,
	incctl_print_dot,
	incctl_print_svg,
};

/* Checks what a view writes to stdout. */
static void show(void (*view)(const json_t *data), const json_t *data)
{
	FILE *usual = stdout;
	char *text = NULL;
	size_t len = 0;

	stdout = open_memstream(&text, &len);
	fuzz_require(stdout, "no memory");
	view(data);
	fclose(stdout);
	stdout = usual;
	fuzz_require(strlen(text) == len, "a NUL in the output");
	fuzz_check_shown(text, true);
	free(text);
}

static json_t *take_json(struct fuzz_bytes *bytes)
{
	char *line = fuzz_take_line(bytes);
	json_t *value = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;

	free(line);
	return value;
}

static void show_trees(json_t *trees, json_t *then, json_t *now)
{
	const struct incctl_sample before = {then, 0}, after = {now, INC_NSEC_PER_SEC};
	struct inc_err err = {""};
	size_t i;

	if (incctl_tree(trees, &before, &after, &err)) {
		fuzz_check_refusal(&err, NULL);
		return;
	}
	incctl_printable(trees);
	for (i = 0; i < sizeof(tree_views) / sizeof(tree_views[0]); i++)
		show(tree_views[i], trees);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	json_t *now = take_json(&bytes), *then = take_json(&bytes), *trees = take_json(&bytes);
	size_t i;

	/* incctl_ask() returns only arrays */
	if (json_is_array(now)) {
		incctl_printable(now);
		for (i = 0; i < sizeof(views) / sizeof(views[0]); i++)
			show(views[i], now);
	}
	if (json_is_array(trees) && (!then || json_is_array(then)) && json_is_array(now))
		show_trees(trees, then, now);
	json_decref(now);
	json_decref(then);
	json_decref(trees);
	return 0;
}
