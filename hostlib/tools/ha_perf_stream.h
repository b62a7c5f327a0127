/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A comm of ha-nccl-perf, seen as a stream of numbered groups of messages: its buffers, what is in
 * flight, and whether what comes is what was sent. A group has a message for each of the
 * tags 0 to group - 1; all but mode group have one.
 *
 * A message begins, as far as it has room, with struct ha_message, and goes on with a pattern made
 * of its sequence, channel and tag, or, in a ring, with elements whose hash is in the header.
 */
#ifndef HA_PERF_STREAM_H
#define HA_PERF_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/tools/ha_perf_net.h"

struct ha_message {
	uint64_t sequence;
	uint32_t channel, tag;
	uint64_t bytes; /* with this */
	uint64_t hash;  /* of what is behind it; of a pattern 0 */
};

struct ha_stream_opts {
	unsigned int group, in_flight;
	uint64_t limit_ms;
	bool check, flush, optional, elements /* behind the header: a ring */;
};

/* Registrations of a stream's buffers: NCCL has one per protocol, of neighbouring memory. */
#define HA_STREAM_PIECES 3u

struct ha_stream_slot {
	void *request[HA_NET_MAX_GROUP]; /* a receive: the first alone */
	void *received; /* the request of a receive, when it is no request any more */
	size_t bytes[HA_NET_MAX_GROUP]; /* as posted, or sent */
	int sizes[HA_NET_MAX_GROUP];
	uint64_t posted_at_ns;
	unsigned int tested; /* messages of a group of sends that are complete */
	bool flushing, waits_for_data, kept /* hash is that of what was received */;
	uint64_t hash;
};

struct ha_stream {
	struct ha_net *net;
	const struct ha_stream_opts *opts;
	bool sends;
	unsigned int peer, channel;
	uint8_t handle[HA_NCCL_HANDLE_BYTES];
	void *listen, *comm;
	void *mhandle[HA_STREAM_PIECES]; /* of a piece of the slots each; NULL: none */
	uint8_t *memory;
	size_t stride; /* of a message's buffer, with the guard behind it */
	size_t max_bytes;
	unsigned int slots; /* twice those in flight: a buffer rests before it is used again */
	struct ha_stream_slot *slot;
	uint64_t posted, done, taken;       /* groups; taken: by who checks or adds them */
	unsigned int part;                  /* messages of the next group that are posted */
	uint64_t missing[HA_NET_MAX_GROUP]; /* skipped: the next message says why. UINT64_MAX: none
					     */
};

/* Asks for the device's properties; a receiver listens, unless another stream's listen is to serve
 * it. 0 or -errno, and net->err, as all of these. */
int ha_stream_setup(struct ha_stream *stream, int dev, bool listens);
/* One try to connect or to accept, by the listen of this stream or of another; stream->comm is NULL
 * until one has succeeded. */
int ha_stream_connect(struct ha_stream *stream, int dev, void *listen);
/* As soon as what it was for is accepted. */
int ha_stream_close_listen(struct ha_stream *stream);
/* Buffers for messages of up to max_bytes, registered. */
int ha_stream_start(struct ha_stream *stream, size_t max_bytes);
/* Does all of that for both ends of a comm in this process, with limit_ms for the connection. */
int ha_stream_join(struct ha_stream *send, int from, struct ha_stream *receive, int to,
		   size_t max_bytes);
/* Deregisters and closes what there is; the first failure. */
int ha_stream_close(struct ha_stream *stream);

/* The buffer of a message. */
uint8_t *ha_stream_buffer(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* What a message of the pattern carries where the receiver has posted this many bytes: now and then
 * less, so that the sizes that a receive reports say something. */
size_t ha_stream_bytes(const struct ha_stream *stream, uint64_t sequence, size_t posted);
/* Writes a message's header and pattern; of a ring the header, the elements are there. */
void ha_stream_fill(const struct ha_stream *stream, uint64_t sequence, unsigned int tag,
		    size_t bytes);

/* Posts the next group. 1, 0: not now, or -errno and net->err. */
int ha_stream_send(struct ha_stream *stream, size_t bytes);
int ha_stream_receive(struct ha_stream *stream, size_t bytes);
/* Takes what is complete, in order, and checks it. How many groups, or -errno and net->err. */
int ha_stream_poll(struct ha_stream *stream);
/* The oldest group that is complete has been taken: its buffers are free. 0 or -errno. */
int ha_stream_take(struct ha_stream *stream);
/* Nothing posted waits. */
bool ha_stream_idle(const struct ha_stream *stream);
/* Looks at all buffers that rest, once more. 0 or -errno. */
int ha_stream_check_rest(struct ha_stream *stream);
/* What it waits for, as text. */
void ha_stream_describe(const struct ha_stream *stream, char *text, size_t size);

/* ha_perf_verify.c: is this what was to come? 0, or -EBADMSG and the story in net->err. */
int ha_verify_message(struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* The same as a question: of a receive whose completion does not mean that the data is there. */
bool ha_verify_arrived(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
void ha_verify_poison(const struct ha_stream *stream, uint64_t sequence);
uint64_t ha_verify_hash(const uint8_t *data, size_t bytes);
void ha_verify_keep(struct ha_stream *stream, uint64_t sequence);
int ha_verify_kept(struct ha_stream *stream, uint64_t slot);

#endif
