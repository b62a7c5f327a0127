/* SPDX-License-Identifier: BSD-2-Clause */
/* ha-nccl-perf: declarations that its files share. All data belongs to the main thread, but for
 * struct ha_perf.service. */
#ifndef HA_PERF_H
#define HA_PERF_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/ha_perf_net.h"
#include "lib/net/hostport.h"
#include "hostlib/tools/ha_perf_meet.h"
#include "hostlib/tools/ha_perf_stream.h"

#define HA_PERF_MAX_CHANNELS 32
#define HA_PERF_MAX_BYTES    (1ull << 30)
#define HA_PERF_MAX_GAPS     4096
#define HA_PERF_SIZE_FACTOR  4

enum ha_perf_mode { HA_PERF_PAIR, HA_PERF_RING, HA_PERF_GROUP };

struct ha_perf_opts {
	enum ha_perf_mode mode;
	const char *plugin;
	struct inc_hostport root;
	unsigned int api /* 0: the newest */, rank, ranks, iters, warmup, channels, dev, seconds;
	unsigned int gap_ms /* 0: none is listed */, max_call_ms /* 0: no limit */;
	uint64_t bytes /* 0: min to max */, min_bytes, max_bytes;
	bool json, one_listen, service_thread;
	struct ha_stream_opts stream;
};

struct ha_perf_gap {
	double start_ms, ms;
};

/* What one size has given. */
struct ha_perf_times {
	uint64_t bytes, count, room, *took_ns; /* per iteration */
	uint64_t total_ns, stall_ns;           /* in timed rounds; stall: the longest gap */
	unsigned int ngaps, more_gaps;         /* more: that are not listed */
	struct ha_perf_gap gaps[HA_PERF_MAX_GAPS];
};

struct ha_perf {
	struct ha_perf_opts opts;
	struct ha_net net;
	struct ha_meet meet;
	unsigned int nstreams;
	struct ha_stream streams[2 * HA_PERF_MAX_CHANNELS]; /* a ring: channel c sends by 2 c */
	struct ha_perf_times times;
	uint64_t began_at_ns, wall_ms; /* of what gaps count from; the wall's in ms since 1970 */
	uint64_t moved_at_ns;          /* the last completion */
	struct ha_ring *ring;
	struct {
		pthread_t thread;
		bool runs, stop;   /* stop: read by the thread, too */
		struct ha_net net; /* as that of the other thread, with its own figures */
		int err;
	} service;
};

/* ha_perf_opts.c: -1: go on; else the exit code. */
int ha_perf_parse(struct ha_perf_opts *opts, int argc, char **argv);

/* ha_perf_job.c: meets the others and connects; closes all comms. 0 or -errno, and net.err.
 * Whatever became of them, close and free are due. */
int ha_perf_open(struct ha_perf *perf);
int ha_perf_close(struct ha_perf *perf);
void ha_perf_free(struct ha_perf *perf);
/* Nothing has moved: is it time to give up? 0 or -errno. what: is waited for; look finds that out.
 */
int ha_perf_look_at(struct ha_perf *perf, const char *what);
int ha_perf_look(struct ha_perf *perf);

/* ha_perf_greet.c: whose comm is whose, where one listen has accepted them all. 0 or -errno. */
int ha_perf_greet(struct ha_perf *perf);

/* ha_perf_run.c: from now on SIGINT ends the rounds of --seconds, of rank 0 those of all ranks, and
 * SIGTERM ends this rank with an error, its comms closed with what is in flight. */
void ha_perf_take_signals(void);
/* ha_perf_run.c: one size. 0 or -errno. */
int ha_perf_size(struct ha_perf *perf, uint64_t bytes);

/* ha_perf_ring.c: an all-reduce, from its data to the comparison of its sum. advance: how
 * many messages have moved, or -errno. */
int ha_ring_open(struct ha_perf *perf, size_t max_bytes);
void ha_ring_close(struct ha_perf *perf);
size_t ha_ring_message_bytes(const struct ha_perf_opts *opts, uint64_t bytes);
void ha_ring_begin(struct ha_perf *perf, uint64_t bytes, uint64_t iteration);
int ha_ring_advance(struct ha_perf *perf);
bool ha_ring_complete(const struct ha_perf *perf);
int ha_ring_check(struct ha_perf *perf, uint64_t iteration);

/* ha_perf_report.c: what is printed begins, has a row per size, and ends, after the last call. */
int ha_report_begin(struct ha_perf *perf);
int ha_report_size(struct ha_perf *perf);
int ha_report_end(struct ha_perf *perf);

#endif
