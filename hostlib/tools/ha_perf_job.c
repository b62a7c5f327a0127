/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects the ranks and closes their comms, with the calls and the order that NCCL uses. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/base/numbers.h"
#include "lib/base/thread.h"
#include "hostlib/tools/ha_perf.h"

static enum ha_nccl_log_level log_level;

/* Reads the level at which the plugin's log is printed from NCCL_DEBUG, as NCCL does. */
static void read_log_level(void)
{
	static const char *const names[] = {"none", "version", "warn", "info", "abort", "trace"};
	const char *text = getenv("NCCL_DEBUG");

	for (size_t i = 0; text && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcasecmp(text, names[i]))
			log_level = i;
}

void ha_perf_plugin_log(enum ha_nccl_log_level level, unsigned long subsystems, const char *file,
			int line, const char *format, ...)
{
	char text[512];
	va_list ap;

	if (level > log_level)
		return;
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(stderr, "plugin: %s\n", text);
}

static struct ha_stream *add_stream(struct ha_perf *perf, bool sends, unsigned int peer,
				    unsigned int channel)
{
	struct ha_stream *stream = &perf->streams[perf->nstreams++];

	*stream = (struct ha_stream){.net = &perf->net,
				     .opts = &perf->opts.stream,
				     .sends = sends,
				     .peer = peer,
				     .channel = channel};
	return stream;
}

static int listen_all(struct ha_perf *perf)
{
	const unsigned int rank = perf->opts.rank, ranks = perf->opts.ranks;
	int err = 0;

	for (unsigned int c = 0; c < perf->opts.channels; c++) {
		if (perf->opts.mode == HA_PERF_RING) {
			add_stream(perf, true, (rank + 1) % ranks, c);
			add_stream(perf, false, (rank + ranks - 1) % ranks, c);
		} else {
			add_stream(perf, !rank, 1 - rank, c);
		}
	}
	for (unsigned int i = 0; i < perf->nstreams && !err; i++) {
		struct ha_stream *stream = &perf->streams[i];

		err = ha_stream_setup(stream, (int)perf->opts.dev,
				      !stream->sends &&
					      (!stream->channel || !perf->opts.one_listen));
	}
	return err;
}

/* Returns the stream whose listen must accept the comm of this stream. With --one-listen it is the
 * first receiving stream, which is that of channel 0. */
static struct ha_stream *listener_of(struct ha_perf *perf, struct ha_stream *stream)
{
	struct ha_stream *first = perf->streams;

	while (perf->opts.one_listen && first->sends)
		first++;
	return perf->opts.one_listen ? first : stream;
}

static int exchange_handles(struct ha_perf *perf)
{
	static uint8_t own[HA_PERF_MAX_CHANNELS][HA_NCCL_HANDLE_BYTES];
	static uint8_t all[HA_PERF_MAX_RANKS * sizeof(own)];
	const size_t bytes = perf->opts.channels * sizeof(own[0]);
	int err;

	for (unsigned int i = 0; i < perf->nstreams; i++)
		if (!perf->streams[i].sends)
			memcpy(own[perf->streams[i].channel],
			       listener_of(perf, &perf->streams[i])->handle, sizeof(own[0]));
	err = ha_bootstrap_gather(&perf->bootstrap, own, bytes, all, &perf->net.err);
	for (unsigned int i = 0; i < perf->nstreams && !err; i++)
		if (perf->streams[i].sends)
			memcpy(perf->streams[i].handle,
			       all + perf->streams[i].peer * bytes +
				       perf->streams[i].channel * sizeof(own[0]),
			       sizeof(own[0]));
	return err;
}

/* NCCL's proxy thread calls sched_yield() between its polls. Nothing has arrived for IDLE_NS on a
 * slow link, while a path fails over, or while another rank starts. Then the poll sleeps, because
 * the ranks, the plugin's threads and the network of a small machine need its CPUs. It sleeps for a
 * part of the time that it has waited, so that measured times are hardly longer. */
#define IDLE_NS      (200 * INC_NSEC_PER_USEC)
#define NAP_MAX_NS   (500 * INC_NSEC_PER_USEC)
#define NAP_FRACTION 8

void ha_perf_give_way(const struct ha_perf *perf)
{
	const uint64_t idle_ns = inc_now_ns() - perf->moved_at_ns;
	struct timespec nap;

	if (idle_ns < IDLE_NS) {
		sched_yield();
		return;
	}
	nap = inc_timespec_of_ns(inc_min64(idle_ns / NAP_FRACTION, NAP_MAX_NS));
	nanosleep(&nap, NULL);
}

int ha_perf_check_progress(struct ha_perf *perf, const char *what, uint64_t grace_ns)
{
	const uint64_t now_ns = inc_now_ns();
	int gone;

	if (now_ns - perf->moved_at_ns > perf->opts.stream.limit_ms * INC_NSEC_PER_MSEC)
		return inc_err_set(&perf->net.err, ETIMEDOUT, "no progress for %llu ms: %s",
				   (unsigned long long)perf->opts.stream.limit_ms, what);
	gone = ha_bootstrap_lost_rank(&perf->bootstrap);
	if (gone < 0)
		return 0;
	if (!perf->lost_at_ns)
		perf->lost_at_ns = now_ns;
	if (now_ns - perf->lost_at_ns >= grace_ns)
		return inc_err_set(&perf->net.err, ECONNRESET, "rank %d has ended: %s", gone, what);
	return 0;
}

/* NCCL does not learn that another rank has ended, so its calls under way end only by the plugin's
 * error. A rank with such calls waits for that error for this long, because it has a better reason.
 */
#define PLUGIN_ERROR_NS (3 * INC_NSEC_PER_SEC)

int ha_perf_wait(struct ha_perf *perf)
{
	char what[160] = "nothing is posted";
	uint64_t grace_ns = 0;
	int err;

	ha_perf_give_way(perf);
	for (unsigned int i = 0; i < perf->nstreams; i++) {
		ha_stream_describe(&perf->streams[i], what, sizeof(what));
		if (!ha_stream_idle(&perf->streams[i])) {
			grace_ns = PLUGIN_ERROR_NS;
			break;
		}
	}
	err = ha_perf_check_progress(perf, what, grace_ns);
	/* a missing message is reported instead of the timeout, because it explains the timeout */
	for (unsigned int i = 0; i < perf->nstreams && err; i++)
		if (ha_stream_check_unused(&perf->streams[i]))
			break;
	return err;
}

/* Tries to connect or accept the comm of one stream. Like NCCL, it closes the comm's listen as soon
 * as the comm is accepted. */
static int connect_one(struct ha_perf *perf, struct ha_stream *stream)
{
	const int err =
		ha_stream_connect(stream, (int)perf->opts.dev, listener_of(perf, stream)->listen);

	return err || !stream->comm || perf->opts.one_listen ? err : ha_stream_close_listen(stream);
}

/* Connects all streams. None of the plugin's calls blocks, so connect and accept are called in
 * turns until every stream has its comm. */
static int connect_all(struct ha_perf *perf)
{
	unsigned int have = 0;
	int err = 0;

	perf->moved_at_ns = inc_now_ns();
	while (have < perf->nstreams && !err) {
		char what[80];

		have = 0;
		for (unsigned int i = 0; i < perf->nstreams && !err; i++) {
			struct ha_stream *stream = &perf->streams[i];

			if (!stream->comm)
				err = connect_one(perf, stream);
			if (stream->comm)
				have++;
			else
				snprintf(what, sizeof(what), "%s rank %u channel %u",
					 stream->sends ? "connect to" : "accept from", stream->peer,
					 stream->channel);
		}
		if (have < perf->nstreams && !err)
			err = ha_perf_check_progress(perf, what, 0);
		ha_perf_give_way(perf);
	}
	for (unsigned int i = 0; i < perf->nstreams && !err; i++)
		err = ha_stream_close_listen(&perf->streams[i]);
	return err;
}

static int check_device(struct ha_perf *perf)
{
	struct ha_net_properties props;
	int ndev, err = ha_survey(&perf->net, &ndev);

	if (err)
		return err;
	if (perf->opts.dev >= (unsigned int)ndev)
		return inc_err_set(&perf->net.err, ENODEV, "no device %u: the plugin has %d",
				   perf->opts.dev, ndev);
	err = ha_net_properties(&perf->net, (int)perf->opts.dev, &props);
	if (err)
		return err;
	if (!(props.ptr_support & HA_NCCL_PTR_HOST))
		return inc_err_set(&perf->net.err, ENOTSUP,
				   "device %u does not support host memory", perf->opts.dev);
	if ((unsigned int)props.max_recvs < perf->opts.stream.group)
		return inc_err_set(&perf->net.err, ENOTSUP,
				   "device %u groups %d receives at most, not %u", perf->opts.dev,
				   props.max_recvs, perf->opts.stream.group);
	return 0;
}

static size_t largest_message(const struct ha_perf_opts *opts)
{
	const uint64_t bytes = opts->bytes ? opts->bytes : opts->max_bytes;

	return opts->mode == HA_PERF_RING ? ha_ring_message_bytes(opts, bytes) : bytes;
}

#define SERVICE_BYTES 4096

/* Makes and closes comms on a thread of its own while the main thread sends on others, as NCCL's
 * service thread does. */
static void *serve(void *arg)
{
	struct ha_perf *perf = arg;
	const struct ha_stream empty = {.net = &perf->service.net, .opts = &perf->opts.stream};
	const int dev = (int)perf->opts.dev;
	int err;

	do {
		struct ha_stream send = empty, receive = empty;

		send.sends = true;
		err = ha_stream_join(&send, dev, &receive, dev, SERVICE_BYTES);
		err = ha_stream_close(&send) ?: err;
		err = ha_stream_close(&receive) ?: err;
	} while (!err && !__atomic_load_n(&perf->service.stop, __ATOMIC_ACQUIRE));
	perf->service.err = err;
	return NULL;
}

static int start_service(struct ha_perf *perf)
{
	int err;

	perf->service.net = perf->net;
	memset(perf->service.net.calls, 0, sizeof(perf->service.net.calls));
	err = inc_thread_create(&perf->service.thread, serve, perf);
	if (err)
		return inc_err_set(&perf->net.err, -err, "service thread: %s", strerror(-err));
	perf->service.runs = true;
	return 0;
}

static int stop_service(struct ha_perf *perf)
{
	struct ha_net *net = &perf->service.net;

	if (!perf->service.runs)
		return 0;
	__atomic_store_n(&perf->service.stop, true, __ATOMIC_RELEASE);
	pthread_join(perf->service.thread, NULL);
	for (int i = 0; i < HA_NET_NCALLS; i++) {
		perf->net.calls[i].count += net->calls[i].count;
		if (perf->net.calls[i].max_ns < net->calls[i].max_ns)
			perf->net.calls[i].max_ns = net->calls[i].max_ns;
	}
	if (perf->service.err)
		inc_err_set(&perf->net.err, -perf->service.err, "service thread: %s", net->err.msg);
	return perf->service.err;
}

int ha_perf_open(struct ha_perf *perf)
{
	const struct ha_perf_opts *opts = &perf->opts;
	int err;

	perf->bootstrap = (struct ha_bootstrap){.rank = opts->rank,
						.ranks = opts->ranks,
						.limit_ms = (unsigned int)opts->stream.limit_ms,
						.fd = {[0 ... HA_PERF_MAX_RANKS - 1] = -1}};
	read_log_level();
	err = ha_net_open(&perf->net, opts->plugin, opts->api);
	perf->net.marks = opts->mark_calls;
	if (!err && opts->stream.optional && perf->net.api < 9)
		err = inc_err_set(&perf->net.err, ENOTSUP,
				  "optional completions need version 9 or later");
	if (!err)
		err = ha_net_init(&perf->net, ha_perf_plugin_log);
	if (opts->collnet)
		return err ? err : ha_perf_coll_open(perf);
	if (!err)
		err = check_device(perf);
	if (!err)
		err = ha_bootstrap_open(&perf->bootstrap, &opts->root, &perf->net.err);
	if (!err)
		err = listen_all(perf);
	if (!err)
		err = exchange_handles(perf);
	if (!err)
		err = connect_all(perf);
	if (!err && opts->one_listen)
		err = ha_perf_match(perf);
	for (unsigned int i = 0; i < perf->nstreams && !err; i++)
		err = ha_stream_start(&perf->streams[i], largest_message(opts));
	if (!err && opts->mode == HA_PERF_RING)
		err = ha_ring_open(perf, opts->bytes ? opts->bytes : opts->max_bytes);
	if (!err && opts->service_thread)
		err = start_service(perf);
	return err;
}

int ha_perf_close(struct ha_perf *perf)
{
	int err = perf->opts.collnet ? ha_perf_coll_close(perf) : stop_service(perf);

	for (unsigned int i = 0; i < perf->nstreams; i++) {
		const int more = ha_stream_close(&perf->streams[i]);

		err = err ? err : more;
	}
	ha_ring_close(perf);
	return err ? err : ha_net_finalize(&perf->net);
}

void ha_perf_free(struct ha_perf *perf)
{
	ha_net_close(&perf->net);
	ha_bootstrap_close(&perf->bootstrap);
	free(perf->times.took_ns);
}
