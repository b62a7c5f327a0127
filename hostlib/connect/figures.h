/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a context counts (docs/connect.md, "Figures"), as families and as Prometheus text. Sockets
 * count, too, from any thread and after the end of their context: so the numbers are atomic, and
 * who counts holds a reference. The histograms are the context's thread's alone.
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

/* All 0, with one reference. NULL: no memory. */
struct connect_counters *connect_counters_new(void);
struct connect_counters *connect_counters_hold(struct connect_counters *counters);
/* The last one frees them. NULL is fine. */
void connect_counters_release(struct connect_counters *counters);

/* Where the numbers are; only connect_count() and connect_uncount() change them. */
struct connect_figures *connect_counters_figures(struct connect_counters *counters);

/* connect_count(&connect_counters_figures(c)->sent_bytes, size). Any thread. */
static inline void connect_count(uint64_t *figure, uint64_t n)
{
	__atomic_fetch_add(figure, n, __ATOMIC_RELAXED);
}

/* Of a gauge. Any thread. */
static inline void connect_uncount(uint64_t *gauge, uint64_t n)
{
	__atomic_fetch_sub(gauge, n, __ATOMIC_RELAXED);
}

enum connect_latency {
	CONNECT_LATENCY_CONNECT, /* from the request to ready */
	CONNECT_LATENCY_ACCEPT,  /* from a client's connect to its first message */
};

/* Peers that have histograms of their own; what comes from further ones is counted together, so
 * that a page stays a page whoever connects. */
#define CONNECT_MAX_PEERS   32
#define CONNECT_OTHER_PEERS "(others)" /* no host has this name */

/* How long a connection took to become ready. peer: the address of whom it is counted for as well,
 * NULL unless record_latency_per_peer. The context's thread. */
void connect_counters_latency(struct connect_counters *counters, enum connect_latency which,
			      const char *peer, uint64_t latency_ns);

/* For the answer to stats. The context's thread. NULL: no memory. */
json_t *connect_figures_families(const struct connect_counters *counters);

/* The same families in parts, for a page: what is not of a peer, and then one that is after the
 * other. NULL: there are no more, or there is no memory. */
json_t *connect_figures_part(const struct connect_counters *counters, unsigned int part);

/* Families, ours or a peer's, as Prometheus text, which the caller frees. NULL: no memory. */
char *connect_figures_text(const json_t *families);

#endif
