/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Live rates: asks for all figures again and again, and divides the growth of each counter between
 * two answers by the time between them. A switch that has restarted in between, or a counter that
 * went backwards, has no rate for that interval.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "controller/incctl/incctl.h"
#include "lib/base/clock.h"
#include "lib/base/printing.h"
#include "lib/base/stdout.h"

#define CLEAR "\033[H\033[J"

/* All figures of the switches at one time, as {switch: {kind: {id: {figure: value}}}}. */
struct sample {
	json_t *figures;
	uint64_t at_ns;
};

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	stopped = 1;
	inc_printing_stop();
}

/* Lets SIGINT and SIGTERM stop the loop. A second signal ends the program at once. */
static void catch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static json_t *member_of(json_t *object, const char *key)
{
	json_t *member = json_object_get(object, key);

	if (!member) {
		member = json_object();
		json_object_set_new(object, key, member);
	}
	return member;
}

/* The families of metrics that incctl top reads. Each family describes objects of a kind. The
 * figures of connections are added up for their communicator. */
static const struct kind {
	const char *prefix;
	const char *kind;
	/* label of a sample that names the object; NULL: the object is the switch */
	const char *label;
	/* text that is put before a figure's name, because families share names */
	const char *before;
} kinds[] = {
	{"inc_switch_", "switch", NULL, ""},
	{"inc_counter_", "switch", NULL, "counter_"},
	{"inc_port_", "port", "port", ""},
	{"inc_communicator_", "communicator", "communicator", ""},
	{"inc_connection_", "communicator", "communicator", "connection_"},
};

static void add_family(json_t *sw, const struct kind *k, const char *figure, const json_t *samples)
{
	json_t *of_kind = member_of(sw, k->kind), *sample, *object;
	const char *id;
	char name[128];
	size_t i;

	snprintf(name, sizeof(name), "%s%s", k->before, figure);
	json_array_foreach (samples, i, sample) {
		id = k->label ? json_string_value(json_object_get(json_object_get(sample, "labels"),
								  k->label))
			      : "";
		if (!id)
			continue;
		object = member_of(of_kind, id);
		json_object_set_new(
			object, name,
			json_integer(json_integer_value(json_object_get(object, name)) +
				     json_integer_value(json_object_get(sample, "value"))));
	}
}

static json_t *collect(const json_t *data)
{
	json_t *all = json_object(), *entry, *family;
	const char *node, *name;
	size_t i, k, n;

	json_array_foreach (data, i, entry) {
		node = json_string_value(json_object_get(entry, "switch"));
		if (!node)
			continue;
		json_array_foreach (json_object_get(entry, "data"), k, family) {
			name = json_string_value(json_object_get(family, "name"));
			for (n = 0; name && n < sizeof(kinds) / sizeof(kinds[0]); n++)
				if (!strncmp(name, kinds[n].prefix, strlen(kinds[n].prefix)))
					add_family(member_of(all, node), &kinds[n],
						   name + strlen(kinds[n].prefix),
						   json_object_get(family, "samples"));
		}
	}
	return all;
}

/* The figures that incctl top shows. A counter is shown as a rate, whose name ends in _per_s, and
 * any other figure as it is. */
static const struct column {
	const char *kind;
	const char *figure;
	const char *name;
	bool rate;
} columns[] = {
	{"switch", "counter_rx", "packets_per_s", true},
	{"switch", "communicators", "communicators", false},
	{"switch", "communicators_limit", "communicators_limit", false},
	{"switch", "connections", "connections", false},
	{"switch", "connections_limit", "connections_limit", false},
	{"switch", "rows", "rows", false},
	{"switch", "rows_limit", "rows_limit", false},
	{"switch", "slots", "slots", false},
	{"switch", "slots_limit", "slots_limit", false},
	{"switch", "root_rows", "root_rows", false},
	{"switch", "root_rows_limit", "root_rows_limit", false},
	{"port", "rx_packets", "rx_packets_per_s", true},
	{"port", "rx_bytes", "rx_bytes_per_s", true},
	{"port", "tx_packets", "tx_packets_per_s", true},
	{"port", "tx_bytes", "tx_bytes_per_s", true},
	{"communicator", "results", "results_per_s", true},
	{"communicator", "connection_received", "packets_per_s", true},
	{"communicator", "connection_retransmits", "retransmits_per_s", true},
	{"communicator", "connections", "connections", false},
	{"communicator", "slots", "slots", false},
	{"communicator", "rows", "rows", false},
};

static json_t *show(const char *kind, const json_t *now, const json_t *before, uint64_t ns)
{
	json_t *shown = json_object(), *rate;

	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		const struct column *c = &columns[i];
		json_t *value = json_object_get(now, c->figure);

		if (strcmp(c->kind, kind) != 0)
			continue;
		if (c->rate)
			json_object_set_new(
				shown, c->name,
				incctl_rate(value, json_object_get(before, c->figure), ns));
		else
			json_object_set(shown, c->name, value ?: json_null());
	}
	/* Hosts receive the results, so bytes_per_s is the rate of the results' bytes. */
	rate = json_object_get(shown, "results_per_s");
	if (rate)
		json_object_set_new(shown, "bytes_per_s",
				    json_is_null(rate)
					    ? json_null()
					    : json_real(json_real_value(rate) *
							json_integer_value(json_object_get(
								now, "payload_bytes"))));
	return shown;
}

static const char *job_of(const json_t *groups, const char *communicator)
{
	json_t *group, *number;
	char text[24];
	size_t i, k;

	json_array_foreach (groups, i, group) {
		json_array_foreach (json_object_get(group, "communicators"), k, number) {
			snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(number));
			if (!strcmp(text, communicator))
				return json_string_value(json_object_get(group, "job"));
		}
	}
	return NULL;
}

static void show_kind(const char *kind, const char *node, json_t *now, json_t *before, uint64_t ns,
		      const json_t *groups, json_t *list)
{
	json_t *value, *shown, *all;
	const char *id, *job;

	json_object_foreach (json_object_get(now, kind), id, value) {
		shown = show(kind, value, json_object_get(json_object_get(before, kind), id), ns);
		all = json_pack("{s:s}", "switch", node);
		if (*id)
			json_object_set_new(all, kind, json_string(id));
		job = strcmp(kind, "communicator") ? NULL : job_of(groups, id);
		if (job)
			json_object_set_new(all, "job", json_string(job));
		json_object_update(all, shown);
		json_decref(shown);
		json_array_append_new(list, all);
	}
}

static json_int_t uptime_of(const json_t *sw)
{
	return json_integer_value(json_object_get(
		json_object_get(json_object_get(sw, "switch"), ""), "uptime_seconds"));
}

static json_t *compare(const struct sample *before, const struct sample *now, const json_t *groups)
{
	const uint64_t ns = now->at_ns - before->at_ns;
	json_t *switches = json_array(), *ports = json_array(), *comms = json_array(), *sw, *old;
	const char *node;

	json_object_foreach (now->figures, node, sw) {
		old = json_object_get(before->figures, node);
		if (uptime_of(sw) < uptime_of(old))
			/* the switch has restarted, so its counters began anew and have no rate */
			old = NULL;
		show_kind("switch", node, sw, old, ns, groups, switches);
		show_kind("port", node, sw, old, ns, groups, ports);
		show_kind("communicator", node, sw, old, ns, groups, comms);
	}
	return json_pack("{s:f, s:o, s:o, s:o}", "interval_s", (double)ns / INC_NSEC_PER_SEC,
			 "switches", switches, "ports", ports, "communicators", comms);
}

static int take_sample(const struct incctl_target *target, struct sample *out, struct inc_err *err)
{
	struct incctl_sample all;
	json_t *entry;
	const char *text;
	size_t i;
	int ret;

	ret = incctl_sample(target, "metrics", 0, &all, err);
	if (ret)
		return ret;
	out->at_ns = all.at_ns;
	json_array_foreach (all.data, i, entry) {
		text = json_string_value(json_object_get(entry, "error"));
		if (text)
			fprintf(stderr, "incctl: switch %s: %s\n",
				json_string_value(json_object_get(entry, "switch")) ?: "?", text);
	}
	out->figures = collect(all.data);
	json_decref(all.data);
	return 0;
}

/* Waits until this time, or until a signal comes. */
static void wait_until(uint64_t at_ns)
{
	const struct timespec at = inc_timespec_of_ns(at_ns);

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static int print_shown(json_t *shown, const struct incctl_top *top, struct inc_err *err)
{
	int ret;

	inc_printing_begin();
	if (top->json) {
		json_dumpf(shown, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
		putchar('\n');
	} else {
		if (isatty(STDOUT_FILENO))
			fputs(CLEAR, stdout);
		incctl_printable(shown);
		incctl_print_top(shown);
		if (!isatty(STDOUT_FILENO) && !top->once)
			putchar('\n');
	}
	ret = inc_stdout_flush(err);
	inc_printing_end();
	return ret;
}

int incctl_top(const struct incctl_target *target, const struct incctl_top *top)
{
	struct sample before = {}, now = {};
	json_t *groups, *shown;
	struct inc_err err;
	int ret;

	catch_signals();
	ret = take_sample(target, &before, &err);
	while (!ret && !stopped) {
		wait_until(before.at_ns + (uint64_t)(top->interval_s * INC_NSEC_PER_SEC));
		if (stopped)
			break;
		ret = take_sample(target, &now, &err);
		if (ret)
			break;
		groups = target->socket ? NULL : incctl_ask(target, "groups", 0, &err);
		shown = compare(&before, &now, groups);
		ret = print_shown(shown, top, &err);
		json_decref(shown);
		json_decref(groups);
		json_decref(before.figures);
		before = now;
		now = (struct sample){};
		if (top->once)
			break;
	}
	json_decref(before.figures);
	if (ret && !stopped)
		fprintf(stderr, "incctl: %s\n", err.msg);
	return ret && !stopped ? 1 : 0;
}
