/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that a received message is the expected one, and finds out what is wrong with it if
 * not. */
#include <errno.h>
#include <string.h>
#include "hostlib/tools/ha_perf_stream.h"

#define POISON 0xa5

typedef unsigned long long ull;

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

uint64_t ha_verify_hash(const uint8_t *data, size_t bytes)
{
	uint64_t hash = bytes, word;

	for (; bytes >= sizeof(word); bytes -= sizeof(word), data += sizeof(word)) {
		memcpy(&word, data, sizeof(word));
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	for (; bytes; bytes--, data++)
		hash = mix(hash ^ *data);
	return hash;
}

static uint64_t pattern_key(uint64_t sequence, unsigned int channel, unsigned int tag)
{
	return mix(sequence ^ (uint64_t)channel << 40 ^ (uint64_t)tag << 52);
}

void ha_stream_fill(const struct ha_stream *stream, uint64_t sequence, unsigned int tag,
		    size_t bytes)
{
	uint8_t *buffer = ha_stream_buffer(stream, sequence, tag);
	struct ha_message head = {sequence, stream->channel, tag, bytes, 0};
	const uint64_t key = pattern_key(sequence, stream->channel, tag);

	if (stream->opts->elements)
		head.hash = ha_verify_hash(buffer + sizeof(head), bytes - sizeof(head));
	else
		for (size_t at = sizeof(head); at < bytes; at += sizeof(uint64_t)) {
			const uint64_t word = mix(key + at);

			memcpy(buffer + at, &word,
			       bytes - at < sizeof(word) ? bytes - at : sizeof(word));
		}
	memcpy(buffer, &head, bytes < sizeof(head) ? bytes : sizeof(head));
}

/* Returns the offset of the first byte of a buffer that differs from message `sequence` of so many
 * bytes, or `bytes` if none does. */
static size_t first_difference(const struct ha_stream *stream, const uint8_t *buffer,
			       uint64_t sequence, unsigned int tag, size_t bytes)
{
	struct ha_message head = {sequence, stream->channel, tag, bytes, 0};
	const uint64_t key = pattern_key(sequence, stream->channel, tag);
	const size_t plain = bytes < sizeof(head) ? bytes : sizeof(head);

	if (stream->opts->elements)
		head.hash = ha_verify_hash(buffer + sizeof(head), bytes - sizeof(head));
	if (memcmp(buffer, &head, plain)) {
		size_t at = 0;

		while (buffer[at] == ((const uint8_t *)&head)[at])
			at++;
		return at;
	}
	if (stream->opts->elements)
		return bytes;
	for (size_t at = sizeof(head); at < bytes; at += sizeof(uint64_t)) {
		const uint64_t word = mix(key + at);
		const size_t n = bytes - at < sizeof(word) ? bytes - at : sizeof(word);

		if (memcmp(buffer + at, &word, n))
			return at;
	}
	return bytes;
}

void ha_verify_poison(const struct ha_stream *stream, uint64_t sequence)
{
	memset(ha_stream_buffer(stream, sequence, 0), POISON, stream->opts->group * stream->stride);
}

void ha_verify_record(struct ha_stream *stream, uint64_t sequence)
{
	struct ha_stream_slot *slot = &stream->slot[sequence % stream->slots];

	slot->hash = ha_verify_hash(ha_stream_buffer(stream, sequence, 0),
				    stream->opts->group * stream->stride);
	slot->hash_valid = true;
}

int ha_verify_compare(struct ha_stream *stream, uint64_t index)
{
	struct ha_stream_slot *slot = &stream->slot[index % stream->slots];

	if (!slot->hash_valid)
		return 0;
	slot->hash_valid = false;
	if (slot->hash == ha_verify_hash(ha_stream_buffer(stream, index, 0),
					 stream->opts->group * stream->stride))
		return 0;
	return inc_err_set(&stream->net->err, EBADMSG,
			   "late write: channel %u: buffer %u has changed after its completion",
			   stream->channel, (unsigned int)(index % stream->slots));
}

/* Returns the size of a received message. With a pattern it follows from the sequence, and with
 * elements the header has it. */
static size_t length(const struct ha_stream *stream, const uint8_t *buffer, uint64_t sequence,
		     size_t posted)
{
	struct ha_message head;

	if (!stream->opts->elements)
		return ha_stream_bytes(stream, sequence, posted);
	memcpy(&head, buffer, sizeof(head));
	return head.bytes >= sizeof(head) && head.bytes <= posted ? head.bytes : posted;
}

/* Whether the buffer has another whole message than the expected one. Its sequence is then in
 * *other. */
static bool is_other(const struct ha_stream *stream, const uint8_t *buffer, unsigned int tag,
		     uint64_t sequence, size_t posted, uint64_t *other)
{
	struct ha_message head;
	size_t bytes;

	if (posted < sizeof(head))
		return false;
	memcpy(&head, buffer, sizeof(head));
	*other = head.sequence;
	bytes = length(stream, buffer, head.sequence, posted);
	return head.sequence != sequence && head.channel == stream->channel && head.tag == tag &&
	       first_difference(stream, buffer, head.sequence, tag, bytes) == bytes;
}

/* Judges a message that was received in place of the expected one. A later message may have
 * overtaken it, or it is lost; the next message shows which. */
static int judge_order(struct ha_stream *stream, uint64_t sequence, unsigned int tag,
		       uint64_t other)
{
	uint64_t *missing = &stream->missing[tag];
	struct inc_err *err = &stream->net->err;

	if (*missing != UINT64_MAX && other == *missing)
		return inc_err_set(err, EBADMSG,
				   "reorder: channel %u tag %u: message %llu came before %llu",
				   stream->channel, tag, (ull)sequence, (ull)other);
	if (*missing != UINT64_MAX)
		return inc_err_set(err, EBADMSG, "loss: channel %u tag %u: message %llu is missing",
				   stream->channel, tag, (ull)*missing);
	if (other < sequence)
		return inc_err_set(err, EBADMSG,
				   "duplicate: channel %u tag %u: message %llu came again in place "
				   "of %llu",
				   stream->channel, tag, (ull)other, (ull)sequence);
	*missing = sequence;
	return 0;
}

static int judge_bytes(struct ha_stream *stream, uint64_t sequence, unsigned int tag, size_t posted)
{
	const struct ha_stream_slot *slot = &stream->slot[sequence % stream->slots];
	const uint8_t *buffer = ha_stream_buffer(stream, sequence, tag);
	const size_t bytes = length(stream, buffer, sequence, posted);
	size_t at = first_difference(stream, buffer, sequence, tag, bytes);
	struct inc_err *err = &stream->net->err;

	if (at < bytes)
		return inc_err_set(err, EBADMSG,
				   "torn: channel %u tag %u: message %llu of %zu bytes is wrong "
				   "from byte %zu on",
				   stream->channel, tag, (ull)sequence, bytes, at);
	if (!stream->opts->optional && (size_t)slot->sizes[tag] != bytes)
		return inc_err_set(err, EBADMSG,
				   "wrong size: channel %u tag %u: message %llu has %zu bytes, "
				   "test says %d",
				   stream->channel, tag, (ull)sequence, bytes, slot->sizes[tag]);
	for (at = bytes; at < stream->stride; at++)
		if (buffer[at] != POISON)
			return inc_err_set(err, EBADMSG,
					   "overrun: channel %u tag %u: message %llu of %zu bytes "
					   "has written byte %zu",
					   stream->channel, tag, (ull)sequence, bytes, at);
	return 0;
}

int ha_verify_message(struct ha_stream *stream, uint64_t sequence, unsigned int tag)
{
	const size_t posted = stream->slot[sequence % stream->slots].bytes[tag];
	const uint8_t *buffer = ha_stream_buffer(stream, sequence, tag);
	uint64_t other;

	if (is_other(stream, buffer, tag, sequence, posted, &other))
		return judge_order(stream, sequence, tag, other);
	if (stream->missing[tag] != UINT64_MAX)
		return inc_err_set(&stream->net->err, EBADMSG,
				   "loss: channel %u tag %u: message %llu is missing",
				   stream->channel, tag, (ull)stream->missing[tag]);
	return judge_bytes(stream, sequence, tag, posted);
}

bool ha_verify_arrived(const struct ha_stream *stream, uint64_t sequence, unsigned int tag)
{
	const size_t posted = stream->slot[sequence % stream->slots].bytes[tag];
	const size_t bytes = ha_stream_bytes(stream, sequence, posted);
	const uint8_t *buffer = ha_stream_buffer(stream, sequence, tag);
	uint64_t other;

	return is_other(stream, buffer, tag, sequence, posted, &other) ||
	       first_difference(stream, buffer, sequence, tag, bytes) == bytes;
}
