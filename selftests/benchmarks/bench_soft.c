/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures a pair of soft endpoints of a termination switch: messages in both directions between
 * two threads, and one message to many peers, as results are sent. Prints Gbit/s of payload in each
 * direction, and the CPU time of each thread for a KiB in both directions.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/opt.h"
#include "lib/base/addr.h"
#include "lib/proto/roce.h"
#include "lib/channel/channel.h"

#define MAX_CHANNELS 8

struct end {
	struct soft_side *side;
	struct inc_channel *ch;
	struct inc_channel_own own;
	uint64_t sent, done;
};

struct soft_side {
	const char *addr;
	struct inc_channel_device *dev;
	struct end end[MAX_CHANNELS];
	bool sends;
	bool one_buffer; /* all channels send the same buffer, as a switch does with a result */
	uint8_t *out, *in;
	uint64_t bytes; /* bytes that this side has received */
	uint64_t cpu_ns;
	pthread_t thread;
};

static struct settings {
	unsigned int seconds, message, window, payload;
	const char *netns, *own, *peer;
	bool json;
} set;
static unsigned int n_channels;
static atomic_bool stop;

static void die(const char *what, const struct inc_err *err)
{
	fprintf(stderr, "bench_soft: %s: %s\n", what, err->msg);
	exit(1);
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct end *e = ctx;

	e->side->bytes += m->length;
	inc_channel_soft.post(e->ch, m->buffer);
}

static void on_sent(void *ctx)
{
	((struct end *)ctx)->done++;
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	fprintf(stderr, "bench_soft: lost: %s\n", loss->text);
	exit(1);
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

/* Opens the device in a network namespace. Its socket stays there when the thread returns. */
static int open_in(const char *ns, const struct inc_channel_device_opts *opts,
		   struct inc_channel_device **dev, struct inc_err *err)
{
	int own = open("/proc/self/ns/net", O_RDONLY), fd = ns ? open(ns, O_RDONLY) : -1, ret;

	if (ns && (fd < 0 || setns(fd, CLONE_NEWNET))) {
		perror(ns);
		exit(1);
	}
	ret = inc_channel_soft.open(opts, dev, err);
	if (ns && setns(own, CLONE_NEWNET)) {
		perror("setns");
		exit(1);
	}
	close(own);
	if (ns)
		close(fd);
	return ret;
}

static void open_side(struct soft_side *s, const char *ns)
{
	struct inc_channel_device_opts opts = {
		.rto_min_ns = 5 * INC_NSEC_PER_MSEC,
		.rto_max_ns = INC_NSEC_PER_SEC,
		.handler = &handler,
	};
	struct inc_channel_opts channel = {
		.ifname = "lo",
		.pkey = INC_PKEY_DEFAULT,
		.payload = set.payload,
		.max_message_bytes = set.message,
		.messages = set.window,
		.what = "bench",
	};
	struct inc_err err;
	unsigned int i, m;

	inc_addr_parse(s->addr, &opts.own_ip);
	if (open_in(ns, &opts, &s->dev, &err))
		die("open", &err);
	s->out = calloc(n_channels * set.window, set.message);
	s->in = calloc(n_channels * set.window, set.message);
	for (i = 0; i < n_channels; i++) {
		s->end[i].side = s;
		s->end[i].sent = s->end[i].done = 0;
		channel.ctx = &s->end[i];
		if (inc_channel_soft.make(s->dev, &channel, &s->end[i].ch, &s->end[i].own, &err))
			die("make", &err);
		for (m = 0; m < set.window; m++)
			inc_channel_soft.post(s->end[i].ch,
					      s->in + (i * set.window + m) * set.message);
	}
}

static void connect_side(struct soft_side *s, const struct soft_side *peer)
{
	struct inc_err err;
	unsigned int i;

	for (i = 0; i < n_channels; i++) {
		struct inc_channel_peer to = {
			.end.udp_port = peer->end[i].own.end.udp_port,
			.end.qpn = peer->end[i].own.end.qpn,
			.end.psn = peer->end[i].own.end.psn,
		};

		inc_addr_parse(peer->addr, &to.end.ip);
		if (inc_channel_soft.connect(s->end[i].ch, &to, &err))
			die("connect", &err);
	}
}

static void send_some(struct soft_side *s)
{
	unsigned int i;
	bool room = true;

	if (s->one_buffer) {
		for (i = 0; i < n_channels; i++)
			room &= s->end[i].sent - s->end[i].done < set.window;
		if (!room)
			return;
	}
	for (i = 0; i < n_channels; i++) {
		struct end *e = &s->end[i];

		while (e->sent - e->done < set.window) {
			inc_channel_soft.send(e->ch,
					      s->out + ((s->one_buffer ? 0 : i * set.window) +
							e->sent % set.window) *
							       set.message,
					      set.message, false, 0);
			e->sent++;
			if (s->one_buffer)
				break;
		}
	}
}

static void *run(void *arg)
{
	struct soft_side *s = arg;
	uint64_t now_ns, at_ns;
	bool more;

	while (!stop) {
		if (s->sends)
			send_some(s);
		inc_channel_soft.flush(s->dev);
		more = inc_channel_soft.progress(s->dev);
		inc_channel_soft.flush(s->dev);
		now_ns = inc_now_ns();
		at_ns = inc_channel_soft.deadline_ns(s->dev);
		if (!more && at_ns > now_ns) {
			struct pollfd pfd = {.fd = inc_channel_soft.fd(s->dev, NULL),
					     .events = POLLIN};

			poll(&pfd, 1,
			     at_ns - now_ns > 100 * INC_NSEC_PER_MSEC
				     ? 100
				     : (int)((at_ns - now_ns) / INC_NSEC_PER_MSEC) + 1);
		}
	}
	s->cpu_ns = inc_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* Numbers of retransmissions and of their causes, summed over all channels. */
struct repairs {
	unsigned long long resent, timeouts, naks, rnrs;
};

static void close_side(struct soft_side *s, struct repairs *sum)
{
	struct inc_channel_figures f;
	unsigned int i;

	for (i = 0; i < n_channels; i++) {
		inc_channel_soft.figures(s->end[i].ch, &f);
		sum->resent += f.retransmits;
		sum->timeouts += f.timeouts;
		sum->naks += f.naks_sent;
		sum->rnrs += f.rnrs_sent;
		inc_channel_soft.shut(s->end[i].ch, 0);
	}
	inc_channel_soft.close(s->dev);
	free(s->in);
	free(s->out);
}

static void print(const char *what, const struct soft_side s[2], double ns, const struct repairs *r)
{
	const double kib = (double)(s[0].bytes + s[1].bytes) / 1024;

	printf(set.json ? "{\"what\":\"%s\",\"there_gbps\":%.3f,\"back_gbps\":%.3f,"
			  "\"one_ns_per_kib\":%.1f,\"other_ns_per_kib\":%.1f,\"retransmits\":"
			  "%llu,\"timeouts\":%llu,\"naks\":%llu,\"rnr_naks\":%llu}\n"
			: "%-24s %7.2f Gbit/s there %7.2f back; CPU ns per KiB: %4.0f and %4.0f; "
			  "%llu packets again, %llu timeouts, %llu NAKs, %llu RNR NAKs\n",
	       what, s[1].bytes * 8 / ns, s[0].bytes * 8 / ns, s[0].cpu_ns / kib, s[1].cpu_ns / kib,
	       r->resent, r->timeouts, r->naks, r->rnrs);
}

static void measure(const char *what, struct soft_side s[2], unsigned int channels, bool both,
		    bool one_buffer)
{
	struct repairs sum = {};
	uint64_t begin_ns;
	double ns;
	unsigned int d;

	n_channels = channels;
	stop = false;
	for (d = 0; d < 2; d++) {
		s[d].sends = d == 0 || both;
		s[d].one_buffer = one_buffer;
		s[d].bytes = 0;
		open_side(&s[d], d ? set.netns : NULL);
	}
	connect_side(&s[0], &s[1]);
	connect_side(&s[1], &s[0]);
	begin_ns = inc_now_ns();
	for (d = 0; d < 2; d++)
		pthread_create(&s[d].thread, NULL, run, &s[d]);
	sleep(set.seconds);
	stop = true;
	for (d = 0; d < 2; d++)
		pthread_join(s[d].thread, NULL);
	ns = inc_now_ns() - begin_ns;
	for (d = 0; d < 2; d++)
		close_side(&s[d], &sum);
	print(what, s, ns, &sum);
}

static const struct inc_opt options[] = {
	{.name = "seconds",
	 .value = "N",
	 .preset = "2",
	 .help = "of each measurement",
	 INC_OPT_NUMBER(struct settings, seconds, 1, 60)},
	{.name = "bytes",
	 .value = "N",
	 .preset = "61440",
	 .help = "of a message",
	 INC_OPT_NUMBER(struct settings, message, 1, 1 << 20)},
	{.name = "window",
	 .value = "N",
	 .preset = "16",
	 .help = "messages under way",
	 INC_OPT_NUMBER(struct settings, window, 1, 1024)},
	{.name = "payload",
	 .value = "N",
	 .preset = "1024",
	 .help = "bytes of a packet: " INC_RC_PAYLOADS_TEXT,
	 INC_OPT_NUMBER(struct settings, payload, INC_MIN_PAYLOAD, INC_MAX_RC_PAYLOAD)},
	{.name = "netns",
	 .value = "FILE",
	 .help = "the peer's network namespace, so that packets cross a link",
	 INC_OPT_TEXT(struct settings, netns, inc_path_check)},
	{.name = "own",
	 .value = "ADDRESS",
	 .preset = "127.0.0.1",
	 .help = "of one end",
	 INC_OPT_TEXT(struct settings, own, inc_addr_check)},
	{.name = "peer",
	 .value = "ADDRESS",
	 .preset = "127.0.0.1",
	 .help = "of the other end",
	 INC_OPT_TEXT(struct settings, peer, inc_addr_check)},
	{.name = "json",
	 .help = "an object a line instead of text",
	 INC_OPT_FLAG(struct settings, json)},
	{},
};

static const struct inc_program program = {
	.name = "bench_soft",
	.about = "What a pair of soft endpoints of a termination switch moves, in Gbit/s, and what "
		 "a KiB costs either thread.",
	.groups = {{options, 0}},
};

int main(int argc, char **argv)
{
	struct soft_side s[2] = {};
	int ret;

	ret = inc_opt_parse(&program, argc, argv, &set, NULL);
	if (ret >= 0)
		return ret;
	s[0].addr = set.own;
	s[1].addr = set.peer;
	if (!set.json)
		printf("messages of %u bytes, %u at a time, payload %u, %s to %s\n", set.message,
		       set.window, set.payload, set.own, set.peer);
	measure("one channel, one way", s, 1, false, false);
	measure("one channel, both ways", s, 1, true, false);
	measure("one buffer to 8", s, 8, false, true);
	measure("a buffer each to 8", s, 8, false, false);
	return 0;
}
