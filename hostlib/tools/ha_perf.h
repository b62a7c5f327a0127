/* SPDX-License-Identifier: BSD-2-Clause */
/* ha-nccl-perf: declarations that its files share. All data belongs to the main thread, except
 * struct ha_perf.service. */
#ifndef HA_PERF_H
#define HA_PERF_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/tools/ha_perf_net.h"
#include "hostlib/tools/ha_perf_stream.h"
#include "lib/base/err.h"
#include "lib/net/hostport.h"

#define HA_PERF_MAX_CHANNELS 64 /* as many as NCCL has */
#define HA_PERF_MAX_COMMS    16
#define HA_PERF_MAX_BYTES    (1ull << 30)
#define HA_PERF_MAX_GAPS     4096
#define HA_PERF_SIZE_FACTOR  4

/*
 * ha_perf_bootstrap.c: the bootstrap network of ha-nccl-perf, which is TCP connections from rank 0
 * to each other rank. It does for the ranks what NCCL's bootstrap network does. One thread. Calls
 * block for up to limit_ms.
 */

#define HA_PERF_MAX_RANKS 8

struct ha_bootstrap {
	unsigned int rank, ranks, limit_ms;
	/* Sockets to the other ranks, by rank; -1: none. Other ranks than 0 have only a socket to
	 * rank 0, in fd[0]. */
	int fd[HA_PERF_MAX_RANKS];
};

/* Connects all ranks to rank 0. Returns 0, or -errno with the reason in err. ha_bootstrap_close()
 * is due even after an error. */
int ha_bootstrap_open(struct ha_bootstrap *bootstrap, const struct inc_hostport *root,
		      struct inc_err *err);
void ha_bootstrap_close(struct ha_bootstrap *bootstrap);

/* Gathers a block of this many bytes from each rank, on every rank: all + r * bytes has the block
 * of rank r. own must not be part of all. The call is also a barrier, because no rank returns
 * before all ranks have called it. Returns 0, or -errno with the reason in err. */
int ha_bootstrap_gather(struct ha_bootstrap *bootstrap, const void *own, size_t bytes, void *all,
			struct inc_err *err);

/* Returns a rank whose connection to this rank has ended, or -1. Does not block. */
int ha_bootstrap_lost_rank(const struct ha_bootstrap *bootstrap);

enum ha_perf_mode { HA_PERF_PAIR, HA_PERF_RING, HA_PERF_GROUP };

struct ha_perf_opts {
	enum ha_perf_mode mode;
	const char *plugin;
	struct inc_hostport root;
	unsigned int api /* 0: newest */, rank, ranks, iters, warmup, channels, dev, seconds;
	unsigned int gap_ms /* 0: list none */, max_call_ms /* 0: no limit */;
	uint64_t bytes /* 0: min to max */, min_bytes, max_bytes;
	bool json, one_listen, service_thread, mark_calls;
	/* options of CollNet: `mode` is HA_PERF_RING then */
	bool collnet;
	unsigned int comms, cycles;
	enum ha_nccl_dtype dtype;
	enum ha_nccl_op op;
	struct ha_stream_opts stream;
};

struct ha_perf_gap {
	double start_ms, ms;
};

/* The measurements for one size. */
struct ha_perf_times {
	uint64_t bytes, count, room, *took_ns; /* took_ns: time of each iteration */
	/* Time of all timed rounds together, and the longest time between two completions. */
	uint64_t total_ns, stall_ns;
	/* Number of gaps, which are long times between two completions, and number of those for
	 * which gaps[] has no room. */
	unsigned int ngaps, more_gaps;
	struct ha_perf_gap gaps[HA_PERF_MAX_GAPS];
};

struct ha_perf {
	struct ha_perf_opts opts;
	struct ha_net net;
	struct ha_bootstrap bootstrap;
	/* bytes of the heap that the comms of --cycles have kept, the first one excepted */
	int64_t kept_bytes;
	unsigned int nstreams;
	/* The streams of this rank. In a ring, channel c sends on streams[2 * c] and receives on
	 * the next one. */
	struct ha_stream streams[2 * HA_PERF_MAX_CHANNELS];
	struct ha_perf_times times;
	/* Time when the measurement began, on the clock of moved_at_ns, and in ms since 1970. */
	uint64_t began_at_ns, wall_ms;
	uint64_t moved_at_ns; /* time of the last completion */
	/* time when this rank first found that another one had ended; 0: all are there */
	uint64_t lost_at_ns;
	struct ha_ring *ring;
	struct {
		pthread_t thread;
		bool runs, stop; /* the thread also reads `stop` */
		/* A copy of the main thread's net. It has call statistics of its own, because a net
		 * belongs to one thread. */
		struct ha_net net;
		int err;
	} service;
};

/* ha_perf_opts.c. Reads the command line. Returns -1 if the program shall continue, else its exit
 * code. */
int ha_perf_parse(struct ha_perf_opts *opts, int argc, char **argv);

/* ha_perf_job.c. ha_perf_open() finds the other ranks and connects, and ha_perf_close() closes all
 * comms. Both return 0, or -errno with the reason in net.err. ha_perf_close() and ha_perf_free()
 * are due even after an error. */
int ha_perf_open(struct ha_perf *perf);
int ha_perf_close(struct ha_perf *perf);
void ha_perf_free(struct ha_perf *perf);
/* These functions are called when nothing has completed. The first one lets other threads run, and
 * ha_perf_wait() does that, too. The other two return -errno if the time limit has passed or a rank
 * has ended, else 0. Their text `what` names what this rank waits for, which ha_perf_wait() finds
 * out itself. A rank that has ended is an error only after grace_ns. */
void ha_perf_give_way(const struct ha_perf *perf);
int ha_perf_check_progress(struct ha_perf *perf, const char *what, uint64_t grace_ns);
int ha_perf_wait(struct ha_perf *perf);

/* Prints a line of the plugin's log, if NCCL_DEBUG asks for lines of this level. */
void ha_perf_plugin_log(enum ha_nccl_log_level level, unsigned long subsystems, const char *file,
			int line, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ha_perf_match.c: finds out to which channel each comm belongs, if a single listen has accepted
 * all comms. Returns 0 or -errno. */
int ha_perf_match(struct ha_perf *perf);

/* ha_perf_run.c. From this call on SIGINT ends the rounds of --seconds; on rank 0 it ends those of
 * all ranks. SIGTERM ends this rank with an error, and closes its comms while requests are
 * posted. */
void ha_perf_catch_signals(void);
/* ha_perf_run.c: measures messages of one size. Returns 0 or -errno. */
int ha_perf_size(struct ha_perf *perf, uint64_t bytes);

/* ha_perf_ring.c: an all-reduce over the ring of ranks. ha_ring_begin() fills the vector,
 * ha_ring_check() compares the sum, and ha_ring_advance() returns how many messages have moved, or
 * -errno. */
int ha_ring_open(struct ha_perf *perf, size_t max_bytes);
void ha_ring_close(struct ha_perf *perf);
size_t ha_ring_message_bytes(const struct ha_perf_opts *opts, uint64_t bytes);
void ha_ring_begin(struct ha_perf *perf, uint64_t bytes, uint64_t iteration);
int ha_ring_advance(struct ha_perf *perf);
bool ha_ring_complete(const struct ha_perf *perf);
int ha_ring_check(struct ha_perf *perf, uint64_t iteration);

/* ha_perf_coll.c: --collnet. ha_perf_coll_open() finds the other ranks, sets up and connects the
 * communicators, and ha_perf_coll_close() closes what there is of them. The other functions are
 * those of a ring, for one vector in each communicator. */
int ha_perf_coll_open(struct ha_perf *perf);
int ha_perf_coll_close(struct ha_perf *perf);
void ha_perf_coll_begin(struct ha_perf *perf, uint64_t bytes, uint64_t iteration);
int ha_perf_coll_advance(struct ha_perf *perf);
bool ha_perf_coll_complete(const struct ha_perf *perf);
int ha_perf_coll_check(struct ha_perf *perf, uint64_t iteration);

/* ha_perf_ring.c: the elements of vectors of CollNet. Element i of a rank's vector is a small
 * number, so that the result is exact in each type. */
size_t ha_element_bytes(enum ha_nccl_dtype dtype);
uint64_t ha_element_value(const struct ha_perf_opts *opts, unsigned int comm, unsigned int rank,
			  uint64_t i, uint64_t iteration);
uint64_t ha_element_expected(const struct ha_perf_opts *opts, unsigned int comm, uint64_t i,
			     uint64_t iteration);
/* Writes a small natural number as an element of this type. */
void ha_element_put(enum ha_nccl_dtype dtype, uint8_t *at, uint64_t v);

/* ha_perf_report.c: these functions print the head, a row for each size, and the end of the
 * report. */
int ha_report_begin(struct ha_perf *perf);
int ha_report_size(struct ha_perf *perf);
int ha_report_end(struct ha_perf *perf);

#endif
