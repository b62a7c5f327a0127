/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An all-reduce like that of NCCL's ring: a reduce-scatter and an all-gather, each of N - 1 steps.
 * A channel has a part of the vector, cut into N segments of CHUNKS chunks. Each chunk travels
 * round the ring as messages. Item i of a rank is chunk i % CHUNKS of step i / CHUNKS. An item can
 * be sent when the item CHUNKS places before it has been received and added.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/ha_perf.h"

#define CHUNKS 4u

struct ha_ring {
	uint64_t *vector;
	uint64_t count; /* number of elements of the vector in use */
	/* numbers of items that each channel has sent, and has received */
	uint64_t sent[HA_PERF_MAX_CHANNELS], got[HA_PERF_MAX_CHANNELS];
	/* number of receives that each channel has posted */
	uint64_t posted[HA_PERF_MAX_CHANNELS];
	/* the buffer of the channel's next message is filled already */
	bool filled[HA_PERF_MAX_CHANNELS];
};

/* Returns an element of a rank's vector. All 64 bits are used and sums wrap, so each rank's
 * contribution to each element changes the result. */
static uint64_t element(unsigned int rank, uint64_t iteration, uint64_t index)
{
	const uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull + iteration * 0xbf58476d1ce4e5b9ull;

	return (x ^ x >> 31) * (2 * rank + 0x94d049bb133111ebull);
}

size_t ha_ring_message_bytes(const struct ha_perf_opts *opts, uint64_t bytes)
{
	const uint64_t parts = (uint64_t)opts->channels * opts->ranks * CHUNKS;

	/* each of three divisions may round a part up by one element, so there is room for more */
	return sizeof(struct ha_message) +
	       (bytes / sizeof(uint64_t) / parts + 4) * sizeof(uint64_t);
}

int ha_ring_open(struct ha_perf *perf, size_t max_bytes)
{
	perf->ring = calloc(1, sizeof(*perf->ring));
	if (perf->ring)
		perf->ring->vector = calloc(max_bytes / sizeof(uint64_t) + 1, sizeof(uint64_t));
	return perf->ring && perf->ring->vector
		       ? 0
		       : inc_err_set(&perf->net.err, ENOMEM, "no memory for the vector");
}

void ha_ring_close(struct ha_perf *perf)
{
	if (perf->ring)
		free(perf->ring->vector);
	free(perf->ring);
	perf->ring = NULL;
}

static uint64_t items(const struct ha_perf *perf)
{
	return 2ull * (perf->opts.ranks - 1) * CHUNKS;
}

void ha_ring_begin(struct ha_perf *perf, uint64_t bytes, uint64_t iteration)
{
	struct ha_ring *ring = perf->ring;

	ring->count = bytes / sizeof(uint64_t);
	for (uint64_t i = 0; i < ring->count; i++)
		ring->vector[i] = element(perf->opts.rank, iteration, i);
	for (unsigned int c = 0; c < perf->opts.channels; c++) {
		ring->sent[c] = ring->got[c] = ring->posted[c] = 0;
		ring->filled[c] = false;
	}
}

/* Finds the elements of an item of the ring. Returns their number, and *at is the first. back is 0
 * for the item that is sent, and 1 for the one that is received. */
static uint64_t elements_of(const struct ha_perf *perf, unsigned int channel, uint64_t item,
			    unsigned int back, uint64_t **at)
{
	const uint64_t ranks = perf->opts.ranks, channels = perf->opts.channels;
	const uint64_t part = (perf->opts.rank + 2 * ranks - item / CHUNKS - back) % ranks;
	const uint64_t chunk = item % CHUNKS, count = perf->ring->count;
	const uint64_t from = count * channel / channels, to = count * (channel + 1) / channels;
	const uint64_t begin = from + (to - from) * part / ranks;
	const uint64_t end = from + (to - from) * (part + 1) / ranks;

	*at = perf->ring->vector + begin + (end - begin) * chunk / CHUNKS;
	return (end - begin) * (chunk + 1) / CHUNKS - (end - begin) * chunk / CHUNKS;
}

static int send_next(struct ha_perf *perf, unsigned int c, struct ha_stream *out)
{
	struct ha_ring *ring = perf->ring;
	uint64_t *from;
	size_t bytes;
	int got;

	if (ring->sent[c] == items(perf) ||
	    (ring->sent[c] >= CHUNKS && ring->got[c] + CHUNKS <= ring->sent[c]) ||
	    out->posted - out->done == perf->opts.stream.in_flight)
		return 0;
	bytes = elements_of(perf, c, ring->sent[c], 0, &from) * sizeof(*from);
	if (!ring->filled[c]) {
		memcpy(ha_stream_buffer(out, out->posted, 0) + sizeof(struct ha_message), from,
		       bytes);
		ha_stream_fill(out, out->posted, 0, sizeof(struct ha_message) + bytes);
		ring->filled[c] = true;
	}
	got = ha_stream_send(out, sizeof(struct ha_message) + bytes);
	if (got > 0) {
		ring->sent[c]++;
		ring->filled[c] = false;
	}
	return got;
}

static int consume_item(struct ha_perf *perf, unsigned int c, struct ha_stream *in)
{
	const uint64_t item = perf->ring->got[c]++;
	const uint8_t *from = ha_stream_buffer(in, in->consumed, 0) + sizeof(struct ha_message);
	uint64_t *to, n = elements_of(perf, c, item, 1, &to), value;

	for (uint64_t i = 0; i < n; i++) {
		memcpy(&value, from + i * sizeof(value), sizeof(value));
		to[i] = item < items(perf) / 2 ? to[i] + value : value;
	}
	return ha_stream_consume(in);
}

static int advance_channel(struct ha_perf *perf, unsigned int c)
{
	struct ha_stream *out = &perf->streams[2 * c], *in = &perf->streams[2 * c + 1];
	struct ha_ring *ring = perf->ring;
	int n = 0, got = 1;

	while (got > 0 && ring->posted[c] < items(perf)) {
		/* like NCCL, posts room for the longest message; test() then reports the real
		 * size */
		got = ha_stream_receive(in, in->max_bytes);
		ring->posted[c] += got > 0;
	}
	if (got >= 0)
		got = ha_stream_poll(in);
	if (got >= 0)
		n += got;
	while (got >= 0 && in->consumed < in->done)
		got = consume_item(perf, c, in);
	while (got >= 0 && (got = send_next(perf, c, out)) > 0)
		;
	if (got >= 0)
		got = ha_stream_poll(out);
	if (got < 0)
		return got;
	out->consumed = out->done;
	return n + got;
}

int ha_ring_advance(struct ha_perf *perf)
{
	int n = 0;

	for (unsigned int c = 0; c < perf->opts.channels; c++) {
		const int got = advance_channel(perf, c);

		if (got < 0)
			return got;
		n += got;
	}
	return n;
}

bool ha_ring_complete(const struct ha_perf *perf)
{
	for (unsigned int c = 0; c < perf->opts.channels; c++)
		if (perf->ring->got[c] < items(perf) || perf->ring->sent[c] < items(perf) ||
		    !ha_stream_idle(&perf->streams[2 * c]))
			return false;
	return true;
}

int ha_ring_check(struct ha_perf *perf, uint64_t iteration)
{
	for (uint64_t i = 0; i < perf->ring->count; i++) {
		uint64_t sum = 0;

		for (unsigned int rank = 0; rank < perf->opts.ranks; rank++)
			sum += element(rank, iteration, i);
		if (perf->ring->vector[i] != sum)
			return inc_err_set(&perf->net.err, EBADMSG,
					   "wrong sum: iteration %llu element %llu",
					   (unsigned long long)iteration, (unsigned long long)i);
	}
	return 0;
}

/* ---- elements of CollNet -------------------------------------------------------------------- */

size_t ha_element_bytes(enum ha_nccl_dtype dtype)
{
	static const size_t sizes[HA_NCCL_NDTYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

	return sizes[dtype];
}

uint64_t ha_element_value(const struct ha_perf_opts *opts, unsigned int comm, unsigned int rank,
			  uint64_t i, uint64_t iteration)
{
	if (opts->op == HA_NCCL_PROD)
		return 1 + ((i + rank + iteration + comm) & 1);
	return 1 + (i * 7 + rank * 5 + iteration * 3 + comm) % 4;
}

uint64_t ha_element_expected(const struct ha_perf_opts *opts, unsigned int comm, uint64_t i,
			     uint64_t iteration)
{
	uint64_t all = ha_element_value(opts, comm, 0, i, iteration);

	for (unsigned int r = 1; r < opts->ranks; r++) {
		const uint64_t v = ha_element_value(opts, comm, r, i, iteration);

		all = opts->op == HA_NCCL_SUM                  ? all + v
		      : opts->op == HA_NCCL_PROD               ? all * v
		      : (opts->op == HA_NCCL_MAX) == (v > all) ? v
							       : all;
	}
	return all;
}

void ha_element_put(enum ha_nccl_dtype dtype, uint8_t *at, uint64_t v)
{
	const float f = (float)v;
	const double d = (double)v;
	uint32_t bits;
	uint16_t half;

	memcpy(&bits, &f, sizeof(bits));
	switch (dtype) {
	case HA_NCCL_FLOAT64:
		memcpy(at, &d, sizeof(d));
		return;
	case HA_NCCL_FLOAT32:
		memcpy(at, &f, sizeof(f));
		return;
	case HA_NCCL_BFLOAT16:
		half = (uint16_t)(bits >> 16);
		break;
	case HA_NCCL_FLOAT16:
		/* the exponents of float32 and float16 differ by 127 - 15 */
		half = v ? (uint16_t)((bits >> 13) - ((127 - 15) << 10)) : 0;
		break;
	default:
		memcpy(at, &v, ha_element_bytes(dtype));
		return;
	}
	memcpy(at, &half, sizeof(half));
}
