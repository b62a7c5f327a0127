/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/figures.h"
#include "hostlib/include/inc_connect.h"
#include "lib/base/clock.h"
#include "lib/base/printable.h"
#include "lib/metric/histogram.h"

#define CONNECT_LATENCIES(_, T)                                          \
	_(T, connect_latency_us, "microseconds", inc_histogram_times_us, \
	  "from a request of this end to its socket")                    \
	_(T, accept_latency_us, "microseconds", inc_histogram_times_us,  \
	  "from a client's request to the first message on its socket")

struct connect_latencies {
	CONNECT_LATENCIES(INC_HISTOGRAM_FIELD, connect_latencies)
};

static const struct inc_metric figure_table[] = {CONNECT_FIGURES(INC_METRIC_ROW, connect_figures)};
static const struct inc_histogram_metric latency_table[] = {
	CONNECT_LATENCIES(INC_HISTOGRAM_ROW, connect_latencies)};

struct connect_counters {
	atomic_uint references;
	struct connect_figures figures;
	struct connect_latencies latencies;
	struct {
		char name[INC_CONNECT_HOST_SIZE];
		struct connect_latencies latencies;
	} peers[CONNECT_MAX_PEERS];
	unsigned int n_peers;
	struct connect_latencies others;
	bool has_others;
};

struct connect_counters *connect_counters_new(void)
{
	struct connect_counters *c = calloc(1, sizeof(*c));

	if (c)
		atomic_init(&c->references, 1);
	return c;
}

struct connect_counters *connect_counters_hold(struct connect_counters *counters)
{
	atomic_fetch_add(&counters->references, 1);
	return counters;
}

void connect_counters_release(struct connect_counters *counters)
{
	if (counters && atomic_fetch_sub(&counters->references, 1) == 1)
		free(counters);
}

struct connect_figures *connect_counters_figures(struct connect_counters *counters)
{
	return &counters->figures;
}

/* Returns the histograms of latency of a peer. The first CONNECT_MAX_PEERS peers have their own,
 * and all others share `others`. */
static struct connect_latencies *latencies_of(struct connect_counters *c, const char *peer)
{
	char name[INC_CONNECT_HOST_SIZE];
	unsigned int i;

	snprintf(name, sizeof(name), "%s", peer);
	/* the name goes into JSON, and jansson rejects text that is not UTF-8 */
	inc_printable(name);
	for (i = 0; i < c->n_peers; i++)
		if (!strcmp(c->peers[i].name, name))
			return &c->peers[i].latencies;
	if (i == CONNECT_MAX_PEERS) {
		c->has_others = true;
		return &c->others;
	}
	memcpy(c->peers[i].name, name, sizeof(name));
	c->n_peers++;
	return &c->peers[i].latencies;
}

static void observe(struct connect_latencies *l, enum connect_latency which, uint64_t latency_us)
{
	inc_histogram_observe(which == CONNECT_LATENCY_CONNECT ? &l->connect_latency_us
							       : &l->accept_latency_us,
			      &inc_histogram_times_us, latency_us);
}

void connect_counters_latency(struct connect_counters *counters, enum connect_latency which,
			      const char *peer, uint64_t latency_ns)
{
	const uint64_t latency_us = latency_ns / INC_NSEC_PER_USEC;

	observe(&counters->latencies, which, latency_us);
	if (peer)
		observe(latencies_of(counters, peer), which, latency_us);
}

static void sample_own(json_t *families, const struct connect_counters *counters)
{
	const struct connect_figures now = {
#define LOAD(T, name, unit, kind, text) \
	.name = __atomic_load_n(&counters->figures.name, __ATOMIC_RELAXED),
		CONNECT_FIGURES(LOAD, )
#undef LOAD
	};

	inc_metric_sample(families, "connect", INC_METRICS(figure_table), &now, NULL);
	inc_histogram_sample(families, "connect", INC_METRICS(latency_table), &counters->latencies,
			     NULL);
}

/* Adds the histograms of each peer to the families. They are families of their own, so that the sum
 * over a family counts no connection twice. */
static void sample_peers(json_t *families, const struct connect_counters *counters,
			 const struct inc_histogram_metric *table, size_t n)
{
	unsigned int i;

	for (i = 0; i < counters->n_peers; i++)
		inc_histogram_sample(families, "connect_peer", table, n,
				     &counters->peers[i].latencies,
				     json_pack("{s:s}", "peer", counters->peers[i].name));
	if (counters->has_others)
		inc_histogram_sample(families, "connect_peer", table, n, &counters->others,
				     json_pack("{s:s}", "peer", CONNECT_OTHER_PEERS));
}

json_t *connect_figures_families(const struct connect_counters *counters)
{
	json_t *families = json_array();

	sample_own(families, counters);
	sample_peers(families, counters, INC_METRICS(latency_table));
	return families;
}

json_t *connect_figures_part(const struct connect_counters *counters, unsigned int part)
{
	json_t *families;

	if (part > sizeof(latency_table) / sizeof(latency_table[0]))
		return NULL;
	families = json_array();
	if (part)
		sample_peers(families, counters, &latency_table[part - 1], 1);
	else
		sample_own(families, counters);
	return families;
}

/* Replaces control characters in figures from a peer, because they must not control the reader's
 * terminal. */
static void make_printable(char *text)
{
	char *end;

	for (; (end = strchr(text, '\n')); text = end + 1) {
		*end = '\0';
		inc_printable(text);
		*end = '\n';
	}
}

char *connect_figures_text(const json_t *families)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	inc_metric_print(out, families);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	make_printable(text);
	return text;
}
