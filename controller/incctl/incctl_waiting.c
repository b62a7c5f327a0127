/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The peers that switches wait for. In a tree a missing rank is missing at its own switch, at the
 * switch above and so on, and all other switches wait for the root. Only the switch that the rank
 * is attached to is of interest.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "controller/incctl/incctl.h"
#include "lib/base/log.h"

static bool is_up(const json_t *missing)
{
	return json_is_true(json_object_get(missing, "up"));
}

/* Finds the list of peers that a switch waits for in a communicator. Returns NULL if it waits for
 * none, or has not answered. */
static json_t *missed_at(const json_t *data, const char *sw, long long communicator)
{
	json_t *slot, *entry;
	size_t i, k;

	json_array_foreach (data, i, slot) {
		if (strcmp(incctl_text(slot, "switch"), sw) != 0)
			continue;
		json_array_foreach (json_object_get(slot, "data"), k, entry) {
			if (incctl_number(entry, "communicator") == communicator)
				return json_object_get(entry, "missing");
		}
	}
	return NULL;
}

/* Whether a missing peer of the switch is a switch that waits for a peer itself. If that peer is
 * below, it must wait for a peer below it; if it is the parent, for any peer but this switch. */
static bool is_explained(const json_t *data, const char *sw, long long communicator,
			 const json_t *missing)
{
	const char *peer = incctl_text(missing, "peer");
	json_t *other;
	size_t i;

	if (!*peer)
		return false;
	json_array_foreach (missed_at(data, peer, communicator), i, other) {
		if (is_up(missing) ? is_up(other) || strcmp(incctl_text(other, "peer"), sw) != 0
				   : !is_up(other))
			return true;
	}
	return false;
}

void incctl_waiting(json_t *data)
{
	json_t *before = json_deep_copy(data), *slot, *entry, *missing;
	size_t i, k;

	json_array_foreach (data, i, slot) {
		const char *sw = incctl_text(slot, "switch");

		json_array_foreach (json_object_get(slot, "data"), k, entry) {
			json_t *list = json_object_get(entry, "missing");

			for (size_t m = json_array_size(list); m--;) {
				missing = json_array_get(list, m);
				if (is_explained(before, sw, incctl_number(entry, "communicator"),
						 missing))
					json_array_remove(list, m);
			}
		}
	}
	json_decref(before);
}

static void print_missing(const json_t *missing)
{
	json_t *m;
	size_t i;

	json_array_foreach (missing, i, m) {
		const char *host = incctl_text(m, "host"), *peer = incctl_text(m, "peer");
		const char *ranks = incctl_text(m, "ranks");

		printf("%s", i ? ", " : "");
		if (*peer && *ranks)
			printf("switch %s (rank%s %s)", peer, strpbrk(ranks, ",-") ? "s" : "",
			       ranks);
		else if (*peer || is_up(m))
			printf("%s %s", *peer ? "switch" : "its parent", peer);
		else if (*ranks)
			printf("ranks %s", ranks);
		else
			printf("rank %lld", incctl_number(m, "rank"));
		if (*host)
			printf(" (%s)", host);
		if (json_object_get(m, "since_ms"))
			printf(" since %.1f s",
			       json_number_value(json_object_get(m, "since_ms")) / 1e3);
		if (*incctl_text(m, "reason"))
			printf(": %s", incctl_text(m, "reason"));
	}
}

/* A line of the output of incctl waiting: the peers that a switch waits for in a communicator. */
struct line {
	const json_t *sw, *entry;
	long long since_ms; /* time in ms for which the longest missing peer has been missing */
};

static long long longest(const json_t *entry)
{
	long long most_ms = 0, since_ms;
	const json_t *m;
	size_t i;

	json_array_foreach (json_object_get(entry, "missing"), i, m) {
		since_ms = incctl_number(m, "since_ms");
		most_ms = since_ms > most_ms ? since_ms : most_ms;
	}
	return most_ms;
}

static int longest_first(const void *a, const void *b)
{
	const struct line *one = a, *other = b;

	return one->since_ms == other->since_ms ? 0 : one->since_ms > other->since_ms ? -1 : 1;
}

static size_t count_entries(const json_t *data)
{
	const json_t *sw;
	size_t i, n = 0;

	json_array_foreach (data, i, sw)
		n += json_array_size(json_object_get(sw, "data"));
	return n;
}

static void print_line(const struct line *line, bool several)
{
	char arrived[400];

	if (several)
		printf("%s: ", incctl_text(line->sw, "switch"));
	printf("communicator %lld chunk %lld waits for ",
	       incctl_number(line->entry, "communicator"), incctl_number(line->entry, "chunk"));
	print_missing(json_object_get(line->entry, "missing"));
	printf("; arrived: %s\n", incctl_join_numbers(json_object_get(line->entry, "arrived"),
						      arrived, sizeof(arrived)));
}

size_t incctl_print_group_waits(const json_t *groups)
{
	const json_t *group, *wait;
	size_t i, k, n = 0;

	json_array_foreach (groups, i, group) {
		json_array_foreach (json_object_get(group, "waits"), k, wait) {
			if (json_object_get(wait, "comm"))
				printf("communicator %lld of ", incctl_number(wait, "comm"));
			printf("group %lld of job %s waits for %s%s since %.1f s%s%s\n",
			       incctl_number(group, "group"), incctl_text(group, "job"),
			       incctl_text(wait, "for"),
			       json_object_get(wait, "comm") ? "" : " to join",
			       incctl_number(wait, "since_ms") / 1e3,
			       *incctl_text(wait, "reason") ? "; " : "",
			       incctl_text(wait, "reason"));
			n++;
		}
	}
	return n;
}

void incctl_print_waiting(const json_t *data)
{
	struct line *lines = calloc(count_entries(data) + 1, sizeof(*lines));
	const json_t *sw, *entry;
	size_t n = 0, i, k;

	if (!lines) {
		inc_error("no memory for what waits");
		return;
	}
	json_array_foreach (data, i, sw)
		json_array_foreach (json_object_get(sw, "data"), k, entry)
			if (json_array_size(json_object_get(entry, "missing")))
				lines[n++] = (struct line){sw, entry, longest(entry)};
	qsort(lines, n, sizeof(*lines), longest_first);
	for (i = 0; i < n; i++)
		print_line(&lines[i], json_array_size(data) > 1);
	free(lines);
}
