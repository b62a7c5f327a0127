// SPDX-License-Identifier: BSD-2-Clause
/*
 * Prints the metrics page of a switch whose engine only counts, as a scraper receives it. Prints
 * "part LINES" on stderr for each part of the page. test_figures runs this program for a switch
 * with the greatest number of metrics, and for their names. Arguments: number of communicators, and
 * of connections of each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "loader/inc_loader.h"
#include "userspace/switchd.h"
#include "userspace/xdp/slowpath.h"

static const struct inc_metric slowpath_metrics[] = {
	INC_SLOWPATH_FIGURES(INC_METRIC_ROW, inc_slowpath_stats)};

static uint32_t n_comms, n_conns;

/* --- replacements of functions of userspace/engine.c --- */

void inc_engines_usage(const struct inc_daemon *d, struct inc_engine_usage *out)
{
	*out = (struct inc_engine_usage){.communicators = n_comms,
					 .communicators_limit = INC_MAX_COMMS};
}

bool inc_daemon_next_comm(const struct inc_daemon *d, uint32_t *cursor, struct inc_comm_at *at)
{
	const uint32_t place = (*cursor)++;

	*at = (struct inc_comm_at){
		.engine = d->engine[INC_PASSTHROUGH],
		.place = place,
		.comm = {.communicator = 1000 + place, .connections = n_conns, .results = place}};
	return place < n_comms;
}

int inc_engines_counters(const struct inc_daemon *d, struct inc_engine_counters *out,
			 struct inc_err *err)
{
	*out = (struct inc_engine_counters){.n = INC_CTR_MAX};
	for (size_t i = 0; i < INC_CTR_MAX; i++)
		out->counter[i] = (struct inc_engine_counter){.name = inc_counter_info[i].name,
							      .class = inc_counter_info[i].class,
							      .text = inc_counter_info[i].text};
	return 0;
}

/* --- the engine --- */

static void conn(const struct inc_engine *e, uint32_t place, uint32_t i,
		 struct inc_engine_conn *out)
{
	*out = (struct inc_engine_conn){
		.up = i + 1 == n_conns, .rank = i, .received = place * 100 + i, .rtt_us = 1500000};
}

static void tell_metrics(const struct inc_engine *e, json_t *families)
{
	static const struct inc_slowpath_stats stats;

	inc_metric_sample(families, "slowpath", INC_METRICS(slowpath_metrics), &stats, NULL);
}

static unsigned int count_lines(const char *text)
{
	unsigned int n = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct inc_engine_ops ops = {.conn = conn, .tell_metrics = tell_metrics};
	struct inc_engine engine = {.ops = &ops};
	struct inc_daemon d = {.conf = {.name = "s0"},
			       .engine = {[INC_PASSTHROUGH] = &engine},
			       .port = {{.name = "lo", .ifindex = 1}},
			       .n_ports = 1};
	struct inc_scrape_at at = {};
	bool more = true;

	if (argc != 3)
		return 2;
	n_comms = atoi(argv[1]);
	n_conns = atoi(argv[2]);
	while (more) {
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);

		more = inc_figures_part(&d, &at, out);
		fclose(out);
		fprintf(stderr, "part %u\n", count_lines(text));
		fputs(text, stdout);
		free(text);
	}
	return 0;
}
