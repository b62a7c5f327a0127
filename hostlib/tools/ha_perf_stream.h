/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A comm as a stream of numbered groups of messages. The stream has buffers and posted requests,
 * and checks that the messages received are those that were sent. A group has a message for each
 * tag from 0 to group - 1. Only mode group has more than one message per group.
 *
 * A message begins with as much of struct ha_message as fits. A pattern follows, which depends on
 * the message's sequence, channel and tag. In a ring, elements follow whose hash is in the header.
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
	uint64_t bytes; /* size of the message, header included */
	uint64_t hash;  /* hash of the elements behind the header; 0 for a pattern */
};

struct ha_stream_opts {
	unsigned int group, in_flight;
	uint64_t limit_ms;
	bool check, flush, optional;
	bool elements; /* the messages carry elements instead of a pattern, as in mode ring */
};

/* The number of registrations of a stream's buffers. NCCL also registers neighbouring memory
 * separately for each of its protocols. */
#define HA_STREAM_PIECES 3u

struct ha_stream_slot {
	/* requests of the messages; receives use only request[0] */
	void *request[HA_NET_MAX_GROUP];
	void *received;                 /* the completed request of a receive */
	size_t bytes[HA_NET_MAX_GROUP]; /* size of each message that was posted or sent */
	int sizes[HA_NET_MAX_GROUP];
	uint64_t posted_at_ns;
	unsigned int tested; /* number of sends of the group that have completed */
	bool flushing, waits_for_data, hash_valid /* hash is set */;
	uint64_t hash;
};

struct ha_stream {
	struct ha_net *net;
	const struct ha_stream_opts *opts;
	bool sends;
	unsigned int peer, channel;
	uint8_t handle[HA_NCCL_HANDLE_BYTES];
	void *listen, *comm;
	void *mhandle[HA_STREAM_PIECES]; /* registration of each piece of the slots; NULL: none */
	uint8_t *memory;
	size_t stride; /* bytes of a message's buffer, including its guard */
	size_t max_bytes;
	/* number of slots: twice in_flight, so that each buffer stays unused for a while */
	unsigned int slots;
	struct ha_stream_slot *slot;
	/* numbers of groups; consumed counts those that the caller has read */
	uint64_t posted, done, consumed;
	unsigned int part; /* messages that are posted already of the group that is being posted */
	/* sequence of a skipped message, by tag; the next message shows whether it was lost or
	 * overtaken. UINT64_MAX: none */
	uint64_t missing[HA_NET_MAX_GROUP];
};

/* Reads the device's properties. listens: make a listen, as receivers do unless another stream's
 * listen accepts them. All functions with an int result return -errno after an error, with the
 * reason in net->err. */
int ha_stream_setup(struct ha_stream *stream, int dev, bool listens);
/* Tries once to connect or to accept. listen: of this stream or of another. stream->comm stays NULL
 * until a try has succeeded. */
int ha_stream_connect(struct ha_stream *stream, int dev, void *listen);
/* Closes the listen. Called as soon as its comms are accepted. */
int ha_stream_close_listen(struct ha_stream *stream);
/* Allocates and registers buffers for messages of up to max_bytes. */
int ha_stream_start(struct ha_stream *stream, size_t max_bytes);
/* Connects both ends of a comm in this process, and allocates and registers their buffers.
 * Connecting may take limit_ms. */
int ha_stream_join(struct ha_stream *send, int from, struct ha_stream *receive, int to,
		   size_t max_bytes);
/* Deregisters and closes everything. Returns the first error. */
int ha_stream_close(struct ha_stream *stream);

/* Returns the buffer of a message. */
uint8_t *ha_stream_buffer(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* Returns the size of a message if the receiver has posted this many bytes. Some messages are
 * smaller, so that the sizes that a receive reports are tested. */
size_t ha_stream_bytes(const struct ha_stream *stream, uint64_t sequence, size_t posted);
/* Writes a message's header and pattern. In a ring it writes only the header, because the elements
 * are in the buffer already. */
void ha_stream_fill(const struct ha_stream *stream, uint64_t sequence, unsigned int tag,
		    size_t bytes);

/* Posts the next group. Returns 1, or 0 if that is not possible now. */
int ha_stream_send(struct ha_stream *stream, size_t bytes);
int ha_stream_receive(struct ha_stream *stream, size_t bytes);
/* Handles completed groups in order and checks them. Returns their number. */
int ha_stream_poll(struct ha_stream *stream);
/* The caller has read the oldest completed group, so its buffers may be used again. */
int ha_stream_consume(struct ha_stream *stream);
/* Whether all posted groups are complete. */
bool ha_stream_idle(const struct ha_stream *stream);
/* Checks once more that unused buffers have not changed since their messages were received. */
int ha_stream_check_unused(struct ha_stream *stream);
/* Describes, as text, what the stream waits for. */
void ha_stream_describe(const struct ha_stream *stream, char *text, size_t size);

/* ha_perf_verify.c: checks that a received message is the expected one. Returns 0, or -EBADMSG with
 * the reason in net->err. */
int ha_verify_message(struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* Whether the message has arrived, for receives whose completion does not guarantee that the data
 * is there. */
bool ha_verify_arrived(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
void ha_verify_poison(const struct ha_stream *stream, uint64_t sequence);
uint64_t ha_verify_hash(const uint8_t *data, size_t bytes);
void ha_verify_record(struct ha_stream *stream, uint64_t sequence);
int ha_verify_compare(struct ha_stream *stream, uint64_t slot);

#endif
