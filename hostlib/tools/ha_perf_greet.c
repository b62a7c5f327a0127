/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Comms of one listen: they are accepted in any order, so each says first which channel it is.
 */
#include <errno.h>
#include <sched.h>
#include "lib/base/clock.h"
#include "hostlib/tools/ha_perf.h"

struct greeting {
	uint32_t channel;
	void *mhandle, *request;
	bool done;
};

#define MAX_GREETINGS (2 * HA_PERF_MAX_CHANNELS)

/* The other ends' are the same: all ranks have the same options. */
static int begin(struct ha_perf *perf, unsigned int i, struct greeting *g)
{
	struct ha_stream *stream = &perf->streams[i];

	*g = (struct greeting){.channel = stream->sends ? stream->channel : UINT32_MAX};
	return ha_net_reg(&perf->net, stream->comm, &g->channel, sizeof(g->channel), &g->mhandle);
}

static int post(struct ha_perf *perf, const struct ha_stream *stream, struct greeting *g)
{
	void *data = &g->channel;
	int tag = 0;

	if (stream->sends)
		return ha_net_isend(&perf->net, stream->comm, data, sizeof(g->channel), tag,
				    g->mhandle, &g->request);
	return ha_net_irecv(&perf->net, stream->comm, 1, &data, sizeof(g->channel), &tag,
			    g->mhandle, &g->request);
}

/* 0 or -errno; g->done where it is over. */
static int go_on(struct ha_perf *perf, const struct ha_stream *stream, struct greeting *g)
{
	int done = 0, size = 0, err = 0;

	if (!g->request)
		err = post(perf, stream, g);
	if (!err && g->request)
		err = ha_net_test(&perf->net, g->request, &done, &size);
	if (!err && done && !stream->sends)
		err = ha_net_consumed(&perf->net, stream->comm, 1, g->request);
	g->done = done;
	if (done)
		perf->moved_at_ns = inc_now_ns();
	return err;
}

/* Gives each receiving stream the comm that has named its channel. */
static int take_places(struct ha_perf *perf, const struct greeting *greetings)
{
	void *comm[HA_PERF_MAX_CHANNELS] = {NULL};
	unsigned int i;

	for (i = 0; i < perf->nstreams; i++) {
		const uint32_t channel = greetings[i].channel;

		if (perf->streams[i].sends)
			continue;
		if (channel >= perf->opts.channels || comm[channel])
			return inc_err_set(&perf->net.err, EBADMSG,
					   "a comm says that it is channel %u of %u%s", channel,
					   perf->opts.channels,
					   channel < perf->opts.channels ? ", as another one" : "");
		comm[channel] = perf->streams[i].comm;
	}
	for (i = 0; i < perf->nstreams; i++)
		if (!perf->streams[i].sends)
			perf->streams[i].comm = comm[perf->streams[i].channel];
	return 0;
}

static int greet(struct ha_perf *perf, struct greeting *greetings)
{
	unsigned int left = perf->nstreams;
	int err = 0;

	perf->moved_at_ns = inc_now_ns();
	while (left && !err) {
		left = 0;
		for (unsigned int i = 0; i < perf->nstreams && !err; i++) {
			if (!greetings[i].done)
				err = go_on(perf, &perf->streams[i], &greetings[i]);
			left += !greetings[i].done;
		}
		sched_yield();
		if (left && !err)
			err = ha_perf_look_at(perf, "the first message of a comm");
	}
	return err;
}

int ha_perf_greet(struct ha_perf *perf)
{
	static struct greeting greetings[MAX_GREETINGS];
	unsigned int i, registered = 0;
	int err = 0, more;

	while (registered < perf->nstreams && !err) {
		err = begin(perf, registered, &greetings[registered]);
		registered += !err;
	}
	if (!err)
		err = greet(perf, greetings);
	for (i = 0; i < registered; i++) {
		more = ha_net_dereg(&perf->net, perf->streams[i].comm, greetings[i].mhandle);
		err = err ? err : more;
	}
	return err ? err : take_places(perf, greetings);
}
