/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs rounds of iterations and measures their times. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/printing.h"
#include "hostlib/tools/ha_perf.h"

static volatile sig_atomic_t interrupted, terminated;

static void on_signal(int number)
{
	if (number == SIGTERM)
		terminated = 1;
	else
		interrupted = 1;
	inc_printing_stop();
}

void ha_perf_catch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static int check_sigterm(struct ha_perf *perf)
{
	return terminated ? inc_err_set(&perf->net.err, ECANCELED, "ended by SIGTERM") : 0;
}

static int note_iteration(struct ha_perf *perf, uint64_t took_ns)
{
	struct ha_perf_times *times = &perf->times;

	if (times->count == times->room) {
		const uint64_t room = times->room ? 2 * times->room : 1024;
		uint64_t *more = realloc(times->took_ns, room * sizeof(*more));

		if (!more)
			return inc_err_set(&perf->net.err, ENOMEM, "no memory for the times");
		times->took_ns = more;
		times->room = room;
	}
	times->took_ns[times->count++] = took_ns;
	inc_log_progress("%llu bytes: %llu iterations so far", (unsigned long long)times->bytes,
			 (unsigned long long)times->count);
	return 0;
}

static void note_gap(struct ha_perf *perf, uint64_t gap_ns)
{
	struct ha_perf_times *times = &perf->times;

	if (times->ngaps == HA_PERF_MAX_GAPS) {
		times->more_gaps++;
		return;
	}
	times->gaps[times->ngaps++] = (struct ha_perf_gap){
		.start_ms = (double)(perf->moved_at_ns - perf->began_at_ns) / 1e6,
		.ms = (double)gap_ns / 1e6};
}

/* Handles a completion: records the time since the completion before. */
static void note_completion(struct ha_perf *perf, bool timed)
{
	const uint64_t now_ns = inc_now_ns(), gap_ns = now_ns - perf->moved_at_ns;
	struct ha_perf_times *times = &perf->times;

	if (timed && gap_ns > times->stall_ns)
		times->stall_ns = gap_ns;
	if (timed && perf->opts.gap_ms && gap_ns >= perf->opts.gap_ms * INC_NSEC_PER_MSEC)
		note_gap(perf, gap_ns);
	perf->moved_at_ns = now_ns;
}

/* Posts messages, up to the one with number `to`, and handles completions. Returns the number of
 * messages that have completed, or -errno. */
static int advance(struct ha_perf *perf, uint64_t bytes, uint64_t to)
{
	const bool check = perf->opts.stream.check;
	int n = 0, got = 1;

	for (unsigned int i = 0; i < perf->nstreams; i++) {
		struct ha_stream *stream = &perf->streams[i];

		for (got = 1; got > 0 && stream->posted < to;) {
			if (!stream->sends) {
				got = ha_stream_receive(stream, bytes);
				continue;
			}
			/* the buffers of a group must not change while a part of the group is
			 * posted */
			if (check && !stream->part &&
			    stream->posted - stream->done < perf->opts.stream.in_flight)
				for (unsigned int tag = 0; tag < perf->opts.stream.group; tag++)
					ha_stream_fill(
						stream, stream->posted, tag,
						ha_stream_bytes(stream, stream->posted, bytes));
			got = ha_stream_send(stream, bytes);
		}
		if (got < 0)
			return got;
		got = ha_stream_poll(stream);
		if (got < 0)
			return got;
		n += got;
		for (got = 0; !got && stream->consumed < stream->done;)
			got = ha_stream_consume(stream);
		if (got < 0)
			return got;
	}
	return n;
}

static uint64_t slowest(const struct ha_perf *perf)
{
	uint64_t done = UINT64_MAX;

	for (unsigned int i = 0; i < perf->nstreams; i++)
		if (perf->streams[i].done < done)
			done = perf->streams[i].done;
	return done;
}

/* Records the times of those messages of channel 0 that have completed since *had: from their post
 * until now. */
static int note_messages(struct ha_perf *perf, uint64_t *had)
{
	const struct ha_stream *stream = &perf->streams[0];
	int err = 0;

	for (; *had < stream->done && !err; ++*had)
		err = note_iteration(perf, perf->moved_at_ns -
						   stream->slot[*had % stream->slots].posted_at_ns);
	return err;
}

static int run_messages(struct ha_perf *perf, uint64_t bytes, unsigned int iters, bool timed)
{
	const uint64_t to = slowest(perf) + iters;
	uint64_t had = perf->streams[0].done;

	while (slowest(perf) < to) {
		const int n = advance(perf, bytes, to);
		int err = 0;

		if (n < 0)
			return n;
		if (n)
			note_completion(perf, timed);
		else
			err = ha_perf_wait(perf);
		if (n && timed)
			err = note_messages(perf, &had);
		err = err ? err : check_sigterm(perf);
		if (err)
			return err;
	}
	return 0;
}

/* The functions of a vector that all ranks reduce. */
static const struct vector {
	void (*begin)(struct ha_perf *perf, uint64_t bytes, uint64_t iteration);
	bool (*complete)(const struct ha_perf *perf);
	int (*advance)(struct ha_perf *perf);
	int (*check)(struct ha_perf *perf, uint64_t iteration);
} ring = {ha_ring_begin, ha_ring_complete, ha_ring_advance, ha_ring_check},
  collnet = {ha_perf_coll_begin, ha_perf_coll_complete, ha_perf_coll_advance, ha_perf_coll_check};

static int run_vectors(struct ha_perf *perf, uint64_t bytes, unsigned int iters, bool timed)
{
	const struct vector *vector = perf->opts.collnet ? &collnet : &ring;

	for (unsigned int i = 0; i < iters; i++) {
		uint64_t begin_ns;
		int err = 0;

		vector->begin(perf, bytes, i);
		perf->moved_at_ns = begin_ns = inc_now_ns();
		while (!vector->complete(perf) && !err) {
			const int n = vector->advance(perf);

			if (n < 0)
				return n;
			if (n)
				note_completion(perf, timed);
			else
				err = ha_perf_wait(perf);
			err = err ? err : check_sigterm(perf);
		}
		if (!err && timed)
			err = note_iteration(perf, inc_now_ns() - begin_ns);
		if (!err && perf->opts.stream.check)
			err = vector->check(perf, i);
		if (err)
			return err;
	}
	return 0;
}

/* Waits for all ranks, because waiting for a late rank must not be timed. *more becomes the value
 * of rank 0. */
static int synchronize(struct ha_perf *perf, uint32_t *more)
{
	uint32_t all[HA_PERF_MAX_RANKS];
	int err = ha_bootstrap_gather(&perf->bootstrap, more, sizeof(*more), all, &perf->net.err);

	*more = err ? 0 : all[0];
	return err;
}

static int run_round(struct ha_perf *perf, uint64_t bytes, unsigned int iters, bool timed)
{
	uint32_t more = 0;
	uint64_t begin_ns;
	int err = synchronize(perf, &more);

	if (err)
		return err;
	perf->moved_at_ns = begin_ns = inc_now_ns();
	err = perf->opts.mode == HA_PERF_RING ? run_vectors(perf, bytes, iters, timed)
					      : run_messages(perf, bytes, iters, timed);
	if (timed)
		perf->times.total_ns += perf->moved_at_ns - begin_ns;
	for (unsigned int i = 0; i < perf->nstreams && !err; i++)
		err = ha_stream_check_unused(&perf->streams[i]);
	return err;
}

int ha_perf_size(struct ha_perf *perf, uint64_t bytes)
{
	const struct ha_perf_opts *opts = &perf->opts;
	const uint64_t end_at_ns = inc_now_ns() + opts->seconds * INC_NSEC_PER_SEC;
	uint32_t more;
	int err = run_round(perf, bytes, opts->warmup, false);

	perf->times.bytes = bytes;
	perf->times.count = perf->times.total_ns = perf->times.stall_ns = 0;
	perf->times.ngaps = perf->times.more_gaps = 0;
	do {
		if (!err)
			err = run_round(perf, bytes, opts->iters, true);
		more = !interrupted && inc_now_ns() < end_at_ns;
		if (!err)
			err = synchronize(perf, &more);
	} while (!err && more);
	return err;
}
