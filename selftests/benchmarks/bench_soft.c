/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a pair of soft endpoints of a termination switch moves: messages both ways between two
 * threads, and one to many, as results go. Prints Gbit/s of payload each way, and what a KiB of
 * both ways costs each thread.
 *
 *	bench_soft [-s SECONDS] [-m BYTES] [-w MESSAGES] [-p PAYLOAD] [-n NETNS]
 *		[OWN-ADDRESS PEER-ADDRESS]
 *
 * -n: the peer's socket is in this network namespace (a file, as /run/netns/NAME), so that packets
 * cross a link.
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
#include "lib/proto/roce.h"
#include "userspace/term/endpoint.h"

#define MAX_CHANNELS 8

struct end {
	struct side *side;
	struct inc_term_channel *ch;
	struct inc_term_numbers own;
	uint64_t sent, done;
};

struct side {
	const char *addr;
	struct inc_term_device *dev;
	struct end end[MAX_CHANNELS];
	bool sends;
	bool one_buffer; /* to all channels, as results are */
	uint8_t *out, *in;
	uint64_t bytes; /* received */
	uint64_t cpu_ns;
	pthread_t thread;
};

static unsigned int seconds = 2, message = 65536 - 4096, window = 16, payload = 1024;
static unsigned int n_channels;
static const char *netns;
static atomic_bool stop;

static void die(const char *what, const struct inc_err *err)
{
	fprintf(stderr, "bench_soft: %s: %s\n", what, err->msg);
	exit(1);
}

static void on_message(void *ctx, const struct inc_term_message *m)
{
	struct end *e = ctx;

	e->side->bytes += m->length;
	inc_term_soft.post(e->ch, m->buffer);
}

static void on_sent(void *ctx)
{
	((struct end *)ctx)->done++;
}

static void on_lost(void *ctx, enum inc_term_reason reason, const char *text)
{
	fprintf(stderr, "bench_soft: lost: %s\n", text);
	exit(1);
}

static const struct inc_term_handler handler = {on_message, on_sent, on_lost};

/* Its socket stays in the namespace that it was opened in. */
static int open_in(const char *ns, const struct inc_term_device_opts *opts,
		   struct inc_term_device **dev, struct inc_err *err)
{
	int own = open("/proc/self/ns/net", O_RDONLY), fd = ns ? open(ns, O_RDONLY) : -1, ret;

	if (ns && (fd < 0 || setns(fd, CLONE_NEWNET))) {
		perror(ns);
		exit(1);
	}
	ret = inc_term_soft.open(opts, dev, err);
	if (ns && setns(own, CLONE_NEWNET)) {
		perror("setns");
		exit(1);
	}
	close(own);
	if (ns)
		close(fd);
	return ret;
}

static void open_side(struct side *s, const char *ns)
{
	struct inc_term_device_opts opts = {
		.ifname = "lo",
		.rto_min_ns = 5 * INC_NSEC_PER_MSEC,
		.rto_max_ns = INC_NSEC_PER_SEC,
		.handler = &handler,
	};
	struct inc_term_channel_opts channel = {
		.pkey = INC_PKEY_DEFAULT,
		.payload = payload,
		.max_message = message,
		.messages = window,
		.what = "bench",
	};
	struct inc_err err;
	unsigned int i, m;

	inet_pton(AF_INET, s->addr, &opts.own_ip);
	if (open_in(ns, &opts, &s->dev, &err))
		die("open", &err);
	s->out = calloc(n_channels * window, message);
	s->in = calloc(n_channels * window, message);
	for (i = 0; i < n_channels; i++) {
		s->end[i].side = s;
		s->end[i].sent = s->end[i].done = 0;
		channel.ctx = &s->end[i];
		if (inc_term_soft.make(s->dev, &channel, &s->end[i].ch, &s->end[i].own, &err))
			die("make", &err);
		for (m = 0; m < window; m++)
			inc_term_soft.post(s->end[i].ch, s->in + (i * window + m) * message);
	}
}

static void connect_side(struct side *s, const struct side *peer)
{
	struct inc_err err;
	unsigned int i;

	for (i = 0; i < n_channels; i++) {
		struct inc_term_peer_addr to = {
			.udp_port = peer->end[i].own.udp_port,
			.qpn = peer->end[i].own.qpn,
			.psn = peer->end[i].own.psn,
		};

		inet_pton(AF_INET, peer->addr, &to.ip);
		if (inc_term_soft.connect(s->end[i].ch, &to, &err))
			die("connect", &err);
	}
}

static void send_some(struct side *s)
{
	unsigned int i;
	bool room = true;

	if (s->one_buffer) {
		for (i = 0; i < n_channels; i++)
			room &= s->end[i].sent - s->end[i].done < window;
		if (!room)
			return;
	}
	for (i = 0; i < n_channels; i++) {
		struct end *e = &s->end[i];

		while (e->sent - e->done < window) {
			inc_term_soft.send(
				e->ch,
				s->out + ((s->one_buffer ? 0 : i * window) + e->sent % window) *
						 message,
				message, false, 0);
			e->sent++;
			if (s->one_buffer)
				break;
		}
	}
}

static void *run(void *arg)
{
	struct side *s = arg;
	uint64_t now_ns, at_ns;
	bool more;

	while (!stop) {
		if (s->sends)
			send_some(s);
		inc_term_soft.flush(s->dev);
		more = inc_term_soft.progress(s->dev);
		now_ns = inc_now_ns();
		at_ns = inc_term_soft.deadline_ns(s->dev);
		if (!more && at_ns > now_ns) {
			struct pollfd pfd = {.fd = inc_term_soft.fd(s->dev), .events = POLLIN};

			poll(&pfd, 1,
			     at_ns - now_ns > 100 * INC_NSEC_PER_MSEC
				     ? 100
				     : (int)((at_ns - now_ns) / INC_NSEC_PER_MSEC) + 1);
		}
	}
	s->cpu_ns = inc_clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

static void measure(const char *what, struct side s[2], unsigned int channels, bool both,
		    bool one_buffer)
{
	struct inc_term_channel_figures f;
	uint64_t begin_ns;
	double ns;
	uint64_t bytes, resent = 0, timeouts = 0, naks = 0, rnrs = 0;
	unsigned int i, d;

	n_channels = channels;
	stop = false;
	for (d = 0; d < 2; d++) {
		s[d].sends = d == 0 || both;
		s[d].one_buffer = one_buffer;
		s[d].bytes = 0;
		open_side(&s[d], d ? netns : NULL);
	}
	connect_side(&s[0], &s[1]);
	connect_side(&s[1], &s[0]);
	begin_ns = inc_now_ns();
	for (d = 0; d < 2; d++)
		pthread_create(&s[d].thread, NULL, run, &s[d]);
	sleep(seconds);
	stop = true;
	for (d = 0; d < 2; d++)
		pthread_join(s[d].thread, NULL);
	ns = inc_now_ns() - begin_ns;
	for (d = 0; d < 2; d++) {
		for (i = 0; i < n_channels; i++) {
			inc_term_soft.figures(s[d].end[i].ch, &f);
			resent += f.retransmits;
			timeouts += f.timeouts;
			naks += f.naks_sent;
			rnrs += f.rnrs_sent;
			inc_term_soft.shut(s[d].end[i].ch, 0);
		}
		inc_term_soft.close(s[d].dev);
		free(s[d].in);
		free(s[d].out);
	}
	bytes = s[0].bytes + s[1].bytes;
	printf("%-24s %7.2f Gbit/s there %7.2f back; CPU ns per KiB: %4.0f and %4.0f; %llu "
	       "packets again, %llu timeouts, %llu NAKs, %llu RNR NAKs\n",
	       what, s[1].bytes * 8 / ns, s[0].bytes * 8 / ns, s[0].cpu_ns * 1024.0 / bytes,
	       s[1].cpu_ns * 1024.0 / bytes, (unsigned long long)resent,
	       (unsigned long long)timeouts, (unsigned long long)naks, (unsigned long long)rnrs);
}

int main(int argc, char **argv)
{
	struct side s[2] = {{.addr = "127.0.0.1"}, {.addr = "127.0.0.1"}};
	unsigned int v;
	int c;

	while ((c = getopt(argc, argv, "s:m:w:p:n:")) != -1) {
		if (c == 'n') {
			netns = optarg;
			continue;
		}
		v = optarg ? atoi(optarg) : 0;
		if (c == '?' || !v)
			return 2;
		*(c == 's' ? &seconds : c == 'm' ? &message : c == 'w' ? &window : &payload) = v;
	}
	if (argc == optind + 2) {
		s[0].addr = argv[optind];
		s[1].addr = argv[optind + 1];
	}
	printf("messages of %u bytes, %u at a time, payload %u, %s to %s\n", message, window,
	       payload, s[0].addr, s[1].addr);
	measure("one channel, one way", s, 1, false, false);
	measure("one channel, both ways", s, 1, true, false);
	measure("one buffer to 8", s, 8, false, true);
	measure("a buffer each to 8", s, 8, false, false);
	return 0;
}
