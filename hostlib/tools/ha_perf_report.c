/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of ha-nccl-perf: a table, or one JSON object. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include "lib/base/stdout.h"
#include "hostlib/tools/ha_perf.h"

/* the rows of all sizes for the JSON object; NULL: the program prints a table */
static json_t *rows;

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int ha_report_begin(struct ha_perf *perf)
{
	if (perf->opts.json) {
		rows = json_array();
		return rows ? 0 : inc_err_set(&perf->net.err, ENOMEM, "no memory");
	}
	printf("# %s, version %u of the interface, rank %u of %u\n%12s %10s %10s %10s %10s %10s "
	       "%10s\n",
	       perf->opts.plugin, perf->net.api, perf->opts.rank, perf->opts.ranks, "bytes",
	       "iterations", "median us", "min us", "max us", "Gbit/s", "stall ms");
	return 0;
}

/* Returns the bandwidth in 10^9 bits per second: in a ring that of the vector, else that of the
 * messages of all channels. */
static double gbit_s(const struct ha_perf *perf)
{
	const struct ha_perf_times *times = &perf->times;
	const unsigned int each =
		perf->opts.mode == HA_PERF_RING ? 1 : perf->opts.channels * perf->opts.stream.group;

	return times->total_ns ? 8.0 * (double)times->bytes * each * (double)times->count /
					 (double)times->total_ns
			       : 0;
}

int ha_report_size(struct ha_perf *perf)
{
	struct ha_perf_times *times = &perf->times;
	json_t *gaps;
	double median_us, min_us, max_us;

	qsort(times->took_ns, times->count, sizeof(*times->took_ns), compare);
	median_us = (double)times->took_ns[times->count / 2] / 1e3;
	min_us = (double)times->took_ns[0] / 1e3;
	max_us = (double)times->took_ns[times->count - 1] / 1e3;
	if (!perf->opts.json) {
		printf("%12llu %10llu %10.1f %10.1f %10.1f %10.3f %10.1f\n",
		       (unsigned long long)times->bytes, (unsigned long long)times->count,
		       median_us, min_us, max_us, gbit_s(perf), (double)times->stall_ns / 1e6);
		for (unsigned int i = 0; i < times->ngaps; i++)
			printf("# gap of %.1f ms from %.1f ms on\n", times->gaps[i].ms,
			       times->gaps[i].start_ms);
		if (times->more_gaps)
			printf("# and %u gaps more\n", times->more_gaps);
		return 0;
	}
	gaps = json_array();
	for (unsigned int i = 0; i < times->ngaps; i++)
		json_array_append_new(gaps,
				      json_pack("{s:f,s:f}", "start_ms", times->gaps[i].start_ms,
						"ms", times->gaps[i].ms));
	return json_array_append_new(
		       rows,
		       json_pack("{s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:o,s:i}", "bytes",
				 (json_int_t)times->bytes, "iterations", (json_int_t)times->count,
				 "median_us", median_us, "min_us", min_us, "max_us", max_us,
				 "gbit_s", gbit_s(perf), "stall_ms", (double)times->stall_ns / 1e6,
				 "gaps", gaps, "gaps_not_listed", (int)times->more_gaps))
		       ? inc_err_set(&perf->net.err, ENOMEM, "no memory")
		       : 0;
}

int ha_report_end(struct ha_perf *perf)
{
	json_t *longest = json_object(), *calls = json_object(), *object;
	int err = 0;

	for (int i = 0; i < HA_NET_NCALLS; i++) {
		const double max_us = (double)perf->net.calls[i].max_ns / 1e3;

		if (!perf->net.calls[i].count)
			continue;
		json_object_set_new(longest, ha_net_call_name(i), json_real(max_us));
		json_object_set_new(calls, ha_net_call_name(i),
				    json_integer((json_int_t)perf->net.calls[i].count));
		if (!perf->opts.json)
			printf("# %s: %llu calls, the longest of %.1f us\n", ha_net_call_name(i),
			       (unsigned long long)perf->net.calls[i].count, max_us);
	}
	if (perf->opts.json) {
		object = json_pack("{s:i,s:i,s:i,s:I,s:O,s:O,s:O}", "rank", (int)perf->opts.rank,
				   "ranks", (int)perf->opts.ranks, "api", (int)perf->net.api,
				   "started_at_ms", (json_int_t)perf->wall_ms, "sizes", rows,
				   "calls", calls, "max_call_us", longest);
		if (object && perf->opts.cycles)
			json_object_set_new(object, "kept_bytes", json_integer(perf->kept_bytes));
		err = !object || json_dumpf(object, stdout, JSON_COMPACT) || puts("") < 0;
		json_decref(object);
		json_decref(rows);
		rows = NULL;
	}
	json_decref(longest);
	json_decref(calls);
	if (err)
		return inc_err_set(&perf->net.err, EIO, "cannot print the result");
	return inc_stdout_flush(&perf->net.err);
}
