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
	uint64_t bytes; /* size of the message in bytes, with this header */
	uint64_t hash;  /* hash of the elements that follow the header; 0: a pattern follows */
};

/* The memory of a stream's buffers. Without a GPU, memory of the host stands for that of a GPU. */
enum ha_stream_memory {
	HA_STREAM_HOST,
	HA_STREAM_GPU,    /* registered as a GPU's, by its address */
	HA_STREAM_DMABUF, /* registered as a GPU's, by a dma-buf of /dev/udmabuf */
};

struct ha_stream_opts {
	unsigned int group, in_flight;
	uint64_t limit_ms;
	bool check, flush, optional;
	enum ha_stream_memory memory;
	bool elements; /* messages carry the elements of a vector (mode ring), not a pattern */
};

/* The number of registrations for one stream's buffers. There are several, because NCCL also
 * registers neighbouring memory separately for each of its protocols. */
#define HA_STREAM_PIECES 3u

struct ha_stream_slot {
	/* The requests of a group's messages. A receive has only request[0]. */
	void *request[HA_NET_MAX_GROUP];
	/* the completed request of a receive, which ha_net_consumed() needs */
	void *received;
	/* size of each message that was sent, or of each posted buffer */
	size_t bytes[HA_NET_MAX_GROUP];
	int sizes[HA_NET_MAX_GROUP];
	uint64_t posted_at_ns;
	unsigned int tested; /* number of sends of the group that have been found complete */
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
	/* registration of each piece of the slots; NULL: not registered */
	void *mhandle[HA_STREAM_PIECES];
	uint8_t *memory;
	size_t memory_bytes;
	size_t stride; /* bytes of one message's buffer, with the guard behind it */
	size_t max_bytes;
	/* Number of groups that have buffers. It is twice in_flight, so that each buffer stays
	 * unused for a while. */
	unsigned int slots;
	struct ha_stream_slot *slot;
	/* Numbers of groups that were posted, have completed, and were read by the caller. */
	uint64_t posted, done, consumed;
	unsigned int part; /* number of messages of the next group that are posted already */
	/* For each tag, the sequence of a message that was skipped; UINT64_MAX: none. The next
	 * message shows whether it was lost or overtaken. */
	uint64_t missing[HA_NET_MAX_GROUP];
};

/* Prepares a stream: reads the device's properties, and makes a listen if `listens` is set.
 * Receivers need one, unless another stream's listen accepts them. All functions below with an int
 * result return -errno after an error, with the reason in net->err. */
int ha_stream_setup(struct ha_stream *stream, int dev, bool listens);
/* Tries once to connect a stream's comm, or to accept it on listen, which may be another stream's.
 * stream->comm stays NULL until a try has succeeded. */
int ha_stream_connect(struct ha_stream *stream, int dev, void *listen);
/* Closes a stream's listen, as soon as all its comms are accepted. */
int ha_stream_close_listen(struct ha_stream *stream);
/* Allocates and registers a stream's buffers, for messages of up to max_bytes. */
int ha_stream_start(struct ha_stream *stream, size_t max_bytes);
/* Connects both ends of a comm in this process, and allocates and registers their buffers. The
 * connection may take limit_ms. */
int ha_stream_join(struct ha_stream *send, int from, struct ha_stream *receive, int to,
		   size_t max_bytes);
/* Deregisters and closes everything that a stream has. Returns the first error. */
int ha_stream_close(struct ha_stream *stream);

/* Returns the buffer of the message with this sequence and tag. */
uint8_t *ha_stream_buffer(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* Returns the size that a sender gives to a message if the receiver has posted so many bytes. Some
 * messages are smaller than that, to test the sizes that a receive reports. */
size_t ha_stream_bytes(const struct ha_stream *stream, uint64_t sequence, size_t posted);
/* Writes header and pattern of a message into its buffer. In a ring it writes only the header,
 * because the elements are there already. */
void ha_stream_fill(const struct ha_stream *stream, uint64_t sequence, unsigned int tag,
		    size_t bytes);

/* These functions post the next group. They return 1, or 0 if that is not possible now. */
int ha_stream_send(struct ha_stream *stream, size_t bytes);
int ha_stream_receive(struct ha_stream *stream, size_t bytes);
/* Handles a stream's completed groups in order, and checks received messages. Returns the number of
 * groups. */
int ha_stream_poll(struct ha_stream *stream);
/* Frees the buffers of the oldest completed group, because the caller has read it. */
int ha_stream_consume(struct ha_stream *stream);
/* Whether all groups that were posted have completed. */
bool ha_stream_idle(const struct ha_stream *stream);
/* Checks that unused buffers of a stream have not changed since their messages were received. */
int ha_stream_check_unused(struct ha_stream *stream);
/* Describes, as text, what the stream waits for. */
void ha_stream_describe(const struct ha_stream *stream, char *text, size_t size);

/* ha_perf_verify.c: checks that a received message is the expected one. Returns 0, or -EBADMSG with
 * the reason in net->err. */
int ha_verify_message(struct ha_stream *stream, uint64_t sequence, unsigned int tag);
/* Whether a message has arrived. That is asked for receives whose completion does not guarantee
 * that the data is there. */
bool ha_verify_arrived(const struct ha_stream *stream, uint64_t sequence, unsigned int tag);
void ha_verify_poison(const struct ha_stream *stream, uint64_t sequence);
uint64_t ha_verify_hash(const uint8_t *data, size_t bytes);
void ha_verify_record(struct ha_stream *stream, uint64_t sequence);
int ha_verify_compare(struct ha_stream *stream, uint64_t slot);

#endif
