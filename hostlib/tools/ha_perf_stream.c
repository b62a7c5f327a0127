/* SPDX-License-Identifier: BSD-2-Clause */
/* A comm as a stream of messages: its buffers and requests. ha_perf_verify.c checks the
 * messages. */
#include <errno.h>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "hostlib/tools/ha_perf_stream.h"

#define GUARD_BYTES 64u
#define PAGE_BYTES  4096u

typedef unsigned long long ull;

uint8_t *ha_stream_buffer(const struct ha_stream *stream, uint64_t sequence, unsigned int tag)
{
	const size_t slot = sequence % stream->slots;

	return stream->memory + (slot * stream->opts->group + tag) * stream->stride;
}

size_t ha_stream_bytes(const struct ha_stream *stream, uint64_t sequence, size_t posted)
{
	const size_t less = sequence % 3 * 8;

	if (!stream->opts->check || stream->opts->elements || posted < 64 + less)
		return posted;
	return posted - less;
}

int ha_stream_setup(struct ha_stream *stream, int dev, bool listens)
{
	struct ha_net_properties props;
	const int err = ha_net_properties(stream->net, dev, &props);

	if (err || !listens)
		return err;
	return ha_net_listen(stream->net, dev, stream->handle, &stream->listen);
}

int ha_stream_connect(struct ha_stream *stream, int dev, void *listen)
{
	ha_net_hint_connect(stream->net);
	return stream->sends ? ha_net_connect(stream->net, dev, stream->handle, &stream->comm)
			     : ha_net_accept(stream->net, listen, &stream->comm);
}

int ha_stream_close_listen(struct ha_stream *stream)
{
	void *listen = stream->listen;

	stream->listen = NULL;
	return listen ? ha_net_close_listen(stream->net, listen) : 0;
}

/* Returns the number of pieces in which a stream's buffers are registered. Each piece has at least
 * one slot. A dma-buf is registered as a whole, because NCCL registers each from its beginning. */
static unsigned int count_pieces(const struct ha_stream *stream)
{
	if (stream->opts->memory == HA_STREAM_DMABUF)
		return 1;
	return stream->slots < HA_STREAM_PIECES ? stream->slots : HA_STREAM_PIECES;
}

static void *mhandle_of(const struct ha_stream *stream, uint64_t sequence)
{
	return stream->mhandle[sequence % stream->slots * count_pieces(stream) / stream->slots];
}

static int register_pieces(struct ha_stream *stream, int fd)
{
	const int type =
		stream->opts->memory == HA_STREAM_HOST ? HA_NCCL_PTR_HOST : HA_NCCL_PTR_CUDA;
	const unsigned int pieces = count_pieces(stream);
	const size_t slot_bytes = stream->opts->group * stream->stride;
	int err = 0;

	for (unsigned int i = 0; i < pieces && !err; i++) {
		const size_t from = (i * stream->slots + pieces - 1) / pieces * slot_bytes;
		const size_t next = ((i + 1) * stream->slots + pieces - 1) / pieces * slot_bytes;

		err = ha_net_reg(stream->net, stream->comm, stream->memory + from,
				 (i + 1 < pieces ? next : stream->memory_bytes) - from, type, fd,
				 &stream->mhandle[i]);
	}
	return err;
}

static int no_dmabuf(struct ha_stream *stream, const char *what)
{
	return inc_err_set(&stream->net->err, errno, "--memory dmabuf: %s: %s%s", what,
			   strerror(errno), errno == ENOENT ? " (modprobe udmabuf)" : "");
}

/* Maps memory for the buffers, which a new dma-buf contains, too. Returns the descriptor of the
 * dma-buf, or -errno. */
static int map_dmabuf(struct ha_stream *stream)
{
	const int memfd = memfd_create("ha-nccl-perf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct udmabuf_create create = {
		.memfd = memfd, .flags = UDMABUF_FLAGS_CLOEXEC, .size = stream->memory_bytes};
	const int udmabuf = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int fd;

	if (udmabuf < 0) {
		fd = no_dmabuf(stream, "/dev/udmabuf");
	} else if (memfd < 0 || ftruncate(memfd, (off_t)stream->memory_bytes) ||
		   fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		fd = no_dmabuf(stream, "memfd");
	} else {
		fd = ioctl(udmabuf, UDMABUF_CREATE, &create);
		if (fd < 0)
			fd = no_dmabuf(stream, "UDMABUF_CREATE");
	}
	if (fd >= 0)
		stream->memory = mmap(NULL, stream->memory_bytes, PROT_READ | PROT_WRITE,
				      MAP_SHARED, memfd, 0);
	if (udmabuf >= 0)
		close(udmabuf);
	if (memfd >= 0)
		close(memfd);
	return fd;
}

/* Allocates and registers the memory of the buffers. NCCL closes the descriptor of a dma-buf behind
 * the call, too. */
static int make_memory(struct ha_stream *stream)
{
	const bool dmabuf = stream->opts->memory == HA_STREAM_DMABUF;
	int fd = -1, err;

	if (dmabuf)
		fd = map_dmabuf(stream);
	else
		stream->memory = mmap(NULL, stream->memory_bytes, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stream->memory == MAP_FAILED)
		stream->memory = NULL;
	if (dmabuf && fd < 0)
		return fd;
	err = stream->memory
		      ? register_pieces(stream, fd)
		      : inc_err_set(&stream->net->err, ENOMEM, "no memory for %zu bytes of buffers",
				    stream->memory_bytes);
	if (fd >= 0)
		close(fd);
	return err;
}

int ha_stream_start(struct ha_stream *stream, size_t max_bytes)
{
	size_t bytes;

	stream->slots = 2 * stream->opts->in_flight;
	stream->max_bytes = max_bytes;
	stream->stride = (max_bytes + GUARD_BYTES + 63) / 64 * 64;
	stream->posted = stream->done = stream->consumed = 0;
	for (int i = 0; i < HA_NET_MAX_GROUP; i++)
		stream->missing[i] = UINT64_MAX;
	bytes = stream->slots * stream->opts->group * stream->stride;
	stream->memory_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
	stream->slot = calloc(stream->slots, sizeof(*stream->slot));
	if (!stream->slot)
		return inc_err_set(&stream->net->err, ENOMEM, "no memory for %u slots",
				   stream->slots);
	return make_memory(stream);
}

static int connect_ends(struct ha_stream *send, int from, struct ha_stream *receive, int to)
{
	const uint64_t end_at_ns = inc_now_ns() + send->opts->limit_ms * INC_NSEC_PER_MSEC;
	int err = 0;

	while (!err && (!send->comm || !receive->comm)) {
		if (!send->comm)
			err = ha_stream_connect(send, from, NULL);
		if (!err && !receive->comm)
			err = ha_stream_connect(receive, to, receive->listen);
		if (!err && inc_now_ns() > end_at_ns)
			err = inc_err_set(&send->net->err, ETIMEDOUT, "no comm after %llu ms",
					  (ull)send->opts->limit_ms);
		sched_yield();
	}
	return err;
}

int ha_stream_join(struct ha_stream *send, int from, struct ha_stream *receive, int to,
		   size_t max_bytes)
{
	int err = ha_stream_setup(send, from, false);

	err = err ?: ha_stream_setup(receive, to, true);
	memcpy(send->handle, receive->handle, sizeof(send->handle));
	err = err ?: connect_ends(send, from, receive, to);
	err = err ?: ha_stream_close_listen(receive);
	err = err ?: ha_stream_start(send, max_bytes);
	return err ?: ha_stream_start(receive, max_bytes);
}

int ha_stream_close(struct ha_stream *stream)
{
	int err = 0, more;

	for (unsigned int i = 0; i < HA_STREAM_PIECES; i++) {
		if (!stream->mhandle[i])
			continue;
		more = ha_net_dereg(stream->net, stream->comm, stream->mhandle[i]);
		err = err ? err : more;
		stream->mhandle[i] = NULL;
	}
	if (stream->comm) {
		more = stream->sends ? ha_net_close_send(stream->net, stream->comm)
				     : ha_net_close_recv(stream->net, stream->comm);
		err = err ? err : more;
	}
	more = ha_stream_close_listen(stream);
	err = err ? err : more;
	stream->comm = NULL;
	if (stream->memory)
		munmap(stream->memory, stream->memory_bytes);
	free(stream->slot);
	stream->memory = NULL;
	stream->slot = NULL;
	return err;
}

static bool is_full(const struct ha_stream *stream)
{
	return stream->posted - stream->done == stream->opts->in_flight ||
	       stream->posted - stream->consumed == stream->slots;
}

/* Sends the next group of messages. The order of the tags in it changes from group to group. */
int ha_stream_send(struct ha_stream *stream, size_t bytes)
{
	const unsigned int n = stream->opts->group;
	struct ha_stream_slot *slot = &stream->slot[stream->posted % stream->slots];

	if (is_full(stream))
		return 0;
	ha_net_hint_transfer(stream->net, true);
	for (; stream->part < n; stream->part++) {
		const unsigned int tag = (stream->part + stream->posted) % n;
		int err;

		slot->bytes[tag] = ha_stream_bytes(stream, stream->posted, bytes);
		err = ha_net_isend(stream->net, stream->comm,
				   ha_stream_buffer(stream, stream->posted, tag), slot->bytes[tag],
				   (int)tag, mhandle_of(stream, stream->posted),
				   &slot->request[tag]);
		if (err)
			return err;
		if (!slot->request[tag])
			return 0;
	}
	stream->part = 0;
	slot->tested = 0;
	slot->posted_at_ns = inc_now_ns();
	stream->posted++;
	return 1;
}

int ha_stream_receive(struct ha_stream *stream, size_t bytes)
{
	const unsigned int n = stream->opts->group;
	struct ha_stream_slot *slot = &stream->slot[stream->posted % stream->slots];
	void *data[HA_NET_MAX_GROUP];
	int tags[HA_NET_MAX_GROUP], err;

	if (is_full(stream))
		return 0;
	err = ha_verify_compare(stream, stream->posted);
	if (err)
		return err;
	if (stream->opts->check && !stream->part)
		ha_verify_poison(stream, stream->posted);
	/* a retry must not poison the buffers again, because that is done only once for a group */
	stream->part = 1;
	for (unsigned int tag = 0; tag < n; tag++) {
		data[tag] = ha_stream_buffer(stream, stream->posted, tag);
		tags[tag] = (int)tag;
		slot->bytes[tag] = bytes;
	}
	/* Without --optional-completion request[0] keeps the request of the last flush, as in
	 * NCCL. */
	if (stream->opts->optional)
		slot->request[0] = HA_NCCL_OPTIONAL_RECV_COMPLETION;
	ha_net_hint_transfer(stream->net, false);
	err = ha_net_irecv(stream->net, stream->comm, (int)n, data, bytes, tags,
			   mhandle_of(stream, stream->posted), &slot->request[0]);
	if (err || !slot->request[0])
		return err;
	if (slot->request[0] == HA_NCCL_OPTIONAL_RECV_COMPLETION)
		return inc_err_set(&stream->net->err, EPROTO,
				   "irecv has not replaced the request of an optional completion");
	slot->received = slot->request[0];
	slot->flushing = slot->waits_for_data = false;
	stream->part = 0;
	slot->posted_at_ns = inc_now_ns();
	stream->posted++;
	return 1;
}

static int poll_send(struct ha_stream *stream, struct ha_stream_slot *slot)
{
	const unsigned int n = stream->opts->group;

	while (slot->tested < n) {
		const unsigned int tag = (slot->tested + stream->done) % n;
		int size = -1, done, err;

		err = ha_net_test(stream->net, slot->request[tag], &done, &size);
		if (err || !done)
			return err;
		if (size >= 0 && (size_t)size != slot->bytes[tag])
			return inc_err_set(&stream->net->err, EBADMSG,
					   "wrong size: channel %u tag %u: message %llu was sent "
					   "with %zu bytes, test says %d",
					   stream->channel, tag, (ull)stream->done,
					   slot->bytes[tag], size);
		slot->tested++;
	}
	return 1;
}

static int begin_flush(struct ha_stream *stream, struct ha_stream_slot *slot)
{
	void *data[HA_NET_MAX_GROUP];

	for (unsigned int tag = 0; tag < stream->opts->group; tag++)
		data[tag] = ha_stream_buffer(stream, stream->done, tag);
	slot->flushing = true;
	return ha_net_iflush(stream->net, stream->comm, (int)stream->opts->group, data, slot->sizes,
			     mhandle_of(stream, stream->done), &slot->request[0]);
}

/* Tests the receive of a group. Returns 1 if it is complete and correct, 0 if it is not complete,
 * or -errno. */
static int poll_receive(struct ha_stream *stream, struct ha_stream_slot *slot)
{
	int done, err = 0;

	if (!slot->waits_for_data && slot->request[0]) {
		if (!slot->flushing)
			memset(slot->sizes, 0, sizeof(slot->sizes));
		err = ha_net_test(stream->net, slot->request[0], &done,
				  slot->flushing ? NULL : slot->sizes);
		if (err || !done)
			return err;
		/* a flush's request stays in request[0] until the next receive, as in NCCL */
		if (!slot->flushing) {
			slot->request[0] = NULL;
			if (stream->opts->flush)
				err = begin_flush(stream, slot);
			/* without a request there is nothing that a flush must wait for */
			if (err || slot->request[0])
				return err;
		}
	}
	if (!stream->opts->check)
		return 1;
	slot->waits_for_data = stream->opts->optional;
	for (unsigned int tag = 0; tag < stream->opts->group; tag++) {
		if (stream->opts->optional && !ha_verify_arrived(stream, stream->done, tag))
			return 0;
		err = ha_verify_message(stream, stream->done, tag);
		if (err)
			return err;
	}
	ha_verify_record(stream, stream->done);
	return 1;
}

int ha_stream_poll(struct ha_stream *stream)
{
	int n = 0;

	while (stream->done < stream->posted) {
		struct ha_stream_slot *slot = &stream->slot[stream->done % stream->slots];
		const int err =
			stream->sends ? poll_send(stream, slot) : poll_receive(stream, slot);

		if (err < 0)
			return err;
		if (!err)
			break;
		stream->done++;
		n++;
	}
	return n;
}

int ha_stream_consume(struct ha_stream *stream)
{
	const struct ha_stream_slot *slot = &stream->slot[stream->consumed++ % stream->slots];

	if (stream->sends)
		return 0;
	return ha_net_consumed(stream->net, stream->comm, (int)stream->opts->group, slot->received);
}

bool ha_stream_idle(const struct ha_stream *stream)
{
	return stream->done == stream->posted;
}

int ha_stream_check_unused(struct ha_stream *stream)
{
	for (unsigned int tag = 0; tag < stream->opts->group; tag++)
		if (stream->missing[tag] != UINT64_MAX)
			return inc_err_set(&stream->net->err, EBADMSG,
					   "reorder or loss: channel %u tag %u: message %llu did "
					   "not come in its place",
					   stream->channel, tag, (ull)stream->missing[tag]);
	for (unsigned int i = 0; i < stream->slots; i++) {
		const int err = ha_verify_compare(stream, i);

		if (err)
			return err;
	}
	return 0;
}

void ha_stream_describe(const struct ha_stream *stream, char *text, size_t size)
{
	const struct ha_stream_slot *slot = &stream->slot[stream->done % stream->slots];

	snprintf(text, size, "%s rank %u channel %u: message %llu %s, %llu posted",
		 stream->sends ? "send to" : "receive from", stream->peer, stream->channel,
		 (ull)stream->done,
		 stream->done == stream->posted
			 ? (stream->sends ? "waits for isend" : "waits for irecv")
		 : slot->waits_for_data ? "waits for its data"
		 : slot->flushing       ? "waits for iflush"
					: "waits for test",
		 (ull)stream->posted);
}
