/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The counters of a context (docs/connect.md, "Figures"), as metric families and as Prometheus
 * text. Sockets count on any thread and may outlive their context. So the counters are atomic, and
 * each socket holds a reference to them. Only the context's thread uses the histograms.
 */
#ifndef INC_CONNECT_FIGURES_H
#define INC_CONNECT_FIGURES_H

#include <jansson.h>
#include <stdint.h>
#include "lib/metric/metric.h"

#define CONNECT_FIGURES(_, T)                                                                     \
	_(T, connecting, "", GAUGE, "connections that this end has asked for and has not yet")    \
	_(T, accepting, "", GAUGE, "connections that clients have asked for and have not yet")    \
	_(T, connections, "", GAUGE, "sockets that have an owner, connected or not any more")     \
	_(T, connect_failed, "", COUNTER, "connections that this end has asked for and not got")  \
	_(T, accept_failed, "", COUNTER, "connections that clients have asked for and not got")   \
	_(T, accept_timeout, "", COUNTER,                                                         \
	  "of these, those that took longer than accept_timeout_ms")                              \
	_(T, sent_bytes, "bytes", COUNTER, "of messages that were sent")                          \
	_(T, received_bytes, "bytes", COUNTER, "of messages that have come")                      \
	_(T, read_bytes, "bytes", COUNTER, "of peers' memory that sockets of this end have read") \
	_(T, written_bytes, "bytes", COUNTER, "of peers' memory that they have written")          \
	_(T, registered_bytes, "bytes", GAUGE, "of memory that devices may use, buffers included")

struct connect_figures {
	CONNECT_FIGURES(INC_METRIC_FIELD, connect_figures)
};

struct connect_counters;

/* Makes a struct of counters that are 0, with one reference. Returns NULL if there is no memory. */
struct connect_counters *connect_counters_new(void);
struct connect_counters *connect_counters_hold(struct connect_counters *counters);
/* Drops a reference. The last one frees the counters. counters may be NULL. */
void connect_counters_release(struct connect_counters *counters);

/* Returns the numbers in a struct of counters. Only connect_count() and connect_uncount() may
 * change them. */
struct connect_figures *connect_counters_figures(struct connect_counters *counters);

/* Adds n to one of the context's counters, as in
 * connect_count(&connect_counters_figures(c)->sent_bytes, size). May be called on any thread. */
static inline void connect_count(uint64_t *figure, uint64_t n)
{
	__atomic_fetch_add(figure, n, __ATOMIC_RELAXED);
}

/* Subtracts n from one of the context's gauges. May be called on any thread. */
static inline void connect_uncount(uint64_t *gauge, uint64_t n)
{
	__atomic_fetch_sub(gauge, n, __ATOMIC_RELAXED);
}

enum connect_latency {
	CONNECT_LATENCY_CONNECT, /* time from inc_connect_open() until the client has the socket */
	/* Time from the arrival of a client's message connect until that of the client's first
	 * message on the new queue pair. */
	CONNECT_LATENCY_ACCEPT,
};

/* Number of peers that have histograms of their own. All further peers share one, so that the
 * metrics do not grow with the number of peers without limit. */
#define CONNECT_MAX_PEERS 32
/* name of the histograms that several peers share; no hostname looks like this */
#define CONNECT_OTHER_PEERS "(others)"

/* Records how long a connection took to become ready. peer is the address whose histogram counts
 * the time, too, or NULL without record_latency_per_peer. Called on the context's thread. */
void connect_counters_latency(struct connect_counters *counters, enum connect_latency which,
			      const char *peer, uint64_t latency_ns);

/* Returns all metric families of a context, for the answer to message stats. Called on the
 * context's thread. Returns NULL if there is no memory. */
json_t *connect_figures_families(const struct connect_counters *counters);

/* Returns a part of the context's metric families, so that a page can be written piece by piece.
 * Part 0 has the families that are not per peer, and each later part one family per peer. Returns
 * NULL if there is no such part, or no memory. */
json_t *connect_figures_part(const struct connect_counters *counters, unsigned int part);

/* Converts metric families, of this context or from a peer's answer, to Prometheus text. The caller
 * frees the text. Returns NULL if there is no memory. */
char *connect_figures_text(const json_t *families);

#endif
