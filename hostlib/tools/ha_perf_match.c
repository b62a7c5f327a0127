/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * With --one-listen, comms are accepted in any order. So the sender first sends the number of its
 * channel on each comm, from which the receiver learns to which channel the comm belongs.
 */
#include <errno.h>
#include "lib/base/clock.h"
#include "hostlib/tools/ha_perf.h"

struct channel_message {
	uint32_t channel;
	void *mhandle, *request;
	bool done;
};

#define MAX_MESSAGES (2 * HA_PERF_MAX_CHANNELS)

/* Registers the buffer of the message that has the channel's number. The peer does the same,
 * because all ranks have the same options. */
static int register_message(struct ha_perf *perf, unsigned int i, struct channel_message *m)
{
	struct ha_stream *stream = &perf->streams[i];

	*m = (struct channel_message){.channel = stream->sends ? stream->channel : UINT32_MAX};
	return ha_net_reg(&perf->net, stream->comm, &m->channel, sizeof(m->channel),
			  HA_NCCL_PTR_HOST, -1, &m->mhandle);
}

static int post(struct ha_perf *perf, const struct ha_stream *stream, struct channel_message *m)
{
	void *data = &m->channel;
	int tag = 0;

	if (stream->sends)
		return ha_net_isend(&perf->net, stream->comm, data, sizeof(m->channel), tag,
				    m->mhandle, &m->request);
	return ha_net_irecv(&perf->net, stream->comm, 1, &data, sizeof(m->channel), &tag,
			    m->mhandle, &m->request);
}

/* Posts the message that has the channel's number, or tests whether it is complete (m->done).
 * Returns 0 or -errno. */
static int progress(struct ha_perf *perf, const struct ha_stream *stream, struct channel_message *m)
{
	int done = 0, size = 0, err = 0;

	if (!m->request)
		err = post(perf, stream, m);
	if (!err && m->request)
		err = ha_net_test(&perf->net, m->request, &done, &size);
	if (!err && done && !stream->sends)
		err = ha_net_consumed(&perf->net, stream->comm, 1, m->request);
	m->done = done;
	if (done)
		perf->moved_at_ns = inc_now_ns();
	return err;
}

/* Assigns to each receiving stream the comm on which its channel's number was received. */
static int assign_comms(struct ha_perf *perf, const struct channel_message *messages)
{
	void *comm[HA_PERF_MAX_CHANNELS] = {NULL};
	unsigned int i;

	for (i = 0; i < perf->nstreams; i++) {
		const uint32_t channel = messages[i].channel;

		if (perf->streams[i].sends)
			continue;
		if (channel >= perf->opts.channels || comm[channel])
			return inc_err_set(&perf->net.err, EBADMSG,
					   "the sender of a comm has named channel %u of %u%s",
					   channel, perf->opts.channels,
					   channel < perf->opts.channels ? ", as another sender has"
									 : "");
		comm[channel] = perf->streams[i].comm;
	}
	for (i = 0; i < perf->nstreams; i++)
		if (!perf->streams[i].sends)
			perf->streams[i].comm = comm[perf->streams[i].channel];
	return 0;
}

static int exchange_channels(struct ha_perf *perf, struct channel_message *messages)
{
	unsigned int left = perf->nstreams;
	int err = 0;

	perf->moved_at_ns = inc_now_ns();
	while (left && !err) {
		left = 0;
		for (unsigned int i = 0; i < perf->nstreams && !err; i++) {
			if (!messages[i].done)
				err = progress(perf, &perf->streams[i], &messages[i]);
			left += !messages[i].done;
		}
		ha_perf_give_way(perf);
		if (left && !err)
			err = ha_perf_check_progress(perf, "the first message of a comm", 0);
	}
	return err;
}

int ha_perf_match(struct ha_perf *perf)
{
	static struct channel_message messages[MAX_MESSAGES];
	unsigned int i, registered = 0;
	int err = 0, more;

	while (registered < perf->nstreams && !err) {
		err = register_message(perf, registered, &messages[registered]);
		registered += !err;
	}
	if (!err)
		err = exchange_channels(perf, messages);
	for (i = 0; i < registered; i++) {
		more = ha_net_dereg(&perf->net, perf->streams[i].comm, messages[i].mhandle);
		err = err ? err : more;
	}
	return err ? err : assign_comms(perf, messages);
}
