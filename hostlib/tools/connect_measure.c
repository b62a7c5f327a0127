/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Measures latency and bandwidth over a socket whose peer is inc-connect serve. Both sides sleep
 * while they wait, so each latency includes the wake-ups of the sides that wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/tools/connect_tool.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"

#define WARMUP    10 /* number of operations that are made before the timed ones */
#define SHOW_EACH 32 /* messages between two looks whether progress is to be shown */
/* interval in ms at which the event loop runs, because it handles events of ports and devices */
#define WAIT_MS 100
/* Most bytes that one call on the socket moves. Only the end of a call counts as progress, and even
 * on a slow link there must be some progress within the timeout. */
#define CALL_BYTES (4u << 20)

struct run {
	struct connect_tool *tool;
	struct inc_connect_socket *socket;
	const struct inc_connect_settings *settings; /* settings of the socket */
	uint32_t max_transfer_bytes;
	uint8_t *buffer; /* memory for one message or transfer of tool->bytes bytes */
	struct inc_connect_region *region;
	uint32_t remote_key;
	uint64_t remote_address;
	uint64_t *took_ns; /* time that each of the tool->iters operations took */
	/* Time of the last progress, and of the last answer of the peer's device. */
	uint64_t moved_at_ns, answered_at_ns;
	/* The part of the measurement that runs, and how many of its operations have begun. */
	const char *part;
	uint32_t begun, of;
	/* Whether a check of the peer is under way, and the result of count_moved() before it. */
	bool check_posted;
	uint64_t moved_before;
};

/* Returns a number that grows with each progress of the measurement. Checks of the peer do not
 * count. */
static uint64_t count_moved(const struct run *r)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};

	inc_connect_socket_info(r->socket, &info);
	return info.messages_received + info.credits_received + info.bytes_read +
	       info.bytes_written;
}

static void note_progress(struct run *r)
{
	r->answered_at_ns = inc_now_ns();
	if (!r->check_posted || count_moved(r) != r->moved_before)
		r->moved_at_ns = r->answered_at_ns;
	r->check_posted = false;
}

/* Checks whether the peer is still there, because there has been no progress for a while. A device
 * that retries for ever reports no error. Without unacknowledged requests, the loss of the peer is
 * not noticed at all. */
static int check_peer(struct run *r)
{
	const uint64_t most_ns = r->tool->timeout_ms * INC_NSEC_PER_MSEC, now_ns = inc_now_ns();
	int err = 0;

	if (!r->check_posted) {
		r->moved_before = count_moved(r);
		err = inc_connect_socket_check(r->socket);
		r->check_posted = !err;
	}
	if (err && err != -EAGAIN)
		return err;
	if (now_ns - r->answered_at_ns >= most_ns)
		return -EHOSTDOWN;
	return now_ns - r->moved_at_ns < most_ns ? 0 : -ETIMEDOUT;
}

/* Shows on a terminal how far the measurement has come. */
static void show_progress(const struct run *r)
{
	inc_log_progress("%s of %s: %u of %u operations", r->part, connect_mode_word(r->tool->mode),
			 r->begun, r->of);
}

/* Processes completions of the socket, or waits for some. The caller then retries the call that has
 * returned -EAGAIN. */
static int progress_or_wait(struct run *r)
{
	int ret = inc_connect_socket_progress(r->socket);

	if (ret > 0)
		note_progress(r);
	if (ret)
		return ret < 0 ? ret : 0;
	ret = inc_connect_socket_wait(r->socket, WAIT_MS);
	if (ret != -ETIMEDOUT)
		return ret;
	show_progress(r);
	event_base_loop(r->tool->base, EVLOOP_NONBLOCK);
	return check_peer(r);
}

static int send_one(struct run *r, const void *data, size_t size)
{
	int err;

	while ((err = inc_connect_socket_send(r->socket, data, size)) == -EAGAIN &&
	       !(err = progress_or_wait(r)))
		;
	return err;
}

/* Waits until all messages that were sent have arrived at the peer. */
static int flush(struct run *r)
{
	int err;

	while ((err = inc_connect_socket_flush(r->socket)) == -EAGAIN &&
	       !(err = progress_or_wait(r)))
		;
	return err;
}

static int receive_one(struct run *r, const void **data, size_t *size)
{
	int err;

	while ((err = inc_connect_socket_receive(r->socket, data, size)) == -EAGAIN &&
	       !(err = progress_or_wait(r)))
		;
	return err;
}

/* Sends a message and receives its echo. Both must have the same bytes. */
static int echo(struct run *r, uint64_t *took_ns)
{
	const uint64_t begin_at_ns = inc_now_ns();
	const void *data;
	size_t size;
	int err;

	err = send_one(r, r->buffer, r->tool->bytes) ?: receive_one(r, &data, &size);
	if (err)
		return err;
	*took_ns = (inc_now_ns() - begin_at_ns) / 2;
	if (size != r->tool->bytes || memcmp(data, r->buffer, size) != 0)
		return -EBADMSG;
	return inc_connect_socket_release(r->socket);
}

static uint32_t transfers_per_call(const struct run *r)
{
	const uint64_t n = CALL_BYTES / r->tool->bytes;

	if (n > r->settings->max_rdma_wr_per_post)
		return r->settings->max_rdma_wr_per_post;
	return n ? n : 1;
}

/* Makes n transfers, as many as possible at the same time, and waits for the end of the last
 * one. */
static int transfer(struct run *r, enum inc_connect_direction direction, uint32_t n)
{
	const struct inc_connect_transfer one = {
		.region = r->region,
		.local = r->buffer,
		.size = r->tool->bytes,
		.remote_key = r->remote_key,
		.remote_address = r->remote_address,
	};
	const uint32_t most = transfers_per_call(r);
	struct inc_connect_transfer *list = calloc(most, sizeof(*list));
	uint64_t ticket = 0;
	uint32_t i;
	int err = list ? 0 : -ENOMEM;

	for (i = 0; i < most && !err; i++)
		list[i] = one;
	for (; n && !err; n -= i) {
		i = n < most ? n : most;
		show_progress(r);
		while ((err = inc_connect_socket_transfer(r->socket, direction, list, i,
							  &ticket)) == -EAGAIN &&
		       !(err = progress_or_wait(r)))
			;
		r->begun += i;
	}
	while (!err && (err = inc_connect_socket_transferred(r->socket, ticket)) == -EAGAIN)
		err = progress_or_wait(r);
	free(list);
	return err;
}

static enum inc_connect_direction direction_of(const struct run *r)
{
	return r->tool->mode == CONNECT_READ ? INC_CONNECT_READ : INC_CONNECT_WRITE;
}

static int ask_memory(struct run *r)
{
	struct connect_memory memory = {.kind = CONNECT_COMMAND_MEMORY,
					.size = htobe32(r->tool->bytes)};
	const void *data;
	size_t size;
	int err;

	err = send_one(r, &memory, sizeof(memory)) ?: receive_one(r, &data, &size);
	if (err)
		return err;
	if (size != sizeof(memory) || *(const uint8_t *)data != CONNECT_COMMAND_MEMORY)
		return -EPROTO;
	memcpy(&memory, data, sizeof(memory));
	if (be32toh(memory.size) != r->tool->bytes)
		return -ENOMEM;
	r->remote_key = be32toh(memory.key);
	r->remote_address = be64toh(memory.address);
	return inc_connect_socket_release(r->socket);
}

static uint8_t pattern(size_t i)
{
	return (uint32_t)i * 2654435761u >> 24;
}

/* Writes a pattern to the peer's memory and reads it back. Both must have the same bytes. */
static int check_memory(struct run *r)
{
	size_t i;
	int err;

	for (i = 0; i < r->tool->bytes; i++)
		r->buffer[i] = pattern(i);
	err = transfer(r, INC_CONNECT_WRITE, 1);
	if (err)
		return err;
	memset(r->buffer, 0, r->tool->bytes);
	err = transfer(r, INC_CONNECT_READ, 1);
	for (i = 0; i < r->tool->bytes && !err; i++)
		if (r->buffer[i] != pattern(i))
			err = -EBADMSG;
	return err;
}

static int prepare(struct run *r)
{
	size_t i;
	int err;

	r->buffer = malloc(r->tool->bytes);
	r->took_ns = calloc(r->tool->iters, sizeof(*r->took_ns));
	if (!r->buffer || !r->took_ns)
		return -ENOMEM;
	if (r->tool->mode == CONNECT_SEND) {
		for (i = 0; i < r->tool->bytes; i++)
			r->buffer[i] = pattern(i);
		r->buffer[0] = CONNECT_COMMAND_ECHO;
		return r->tool->bytes > r->settings->buf_size ? -EMSGSIZE : 0;
	}
	if (r->tool->bytes > r->max_transfer_bytes)
		return -EMSGSIZE;
	err = inc_connect_socket_register(r->socket, r->buffer, r->tool->bytes, false, &r->region);
	return err ?: ask_memory(r) ?: check_memory(r);
}

static int by_size(const void *one, const void *other)
{
	const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

	return a < b ? -1 : a > b;
}

static void begin_part(struct run *r, const char *part, uint32_t operations)
{
	r->part = part;
	r->begun = 0;
	r->of = operations;
}

static int measure_latency(struct run *r, struct connect_measured *measured)
{
	const uint32_t n = r->tool->iters;
	uint64_t begin_at_ns, took_ns = 0;
	int err;

	begin_part(r, "latency", WARMUP + n);
	for (uint32_t i = 0; i < WARMUP + n; i++) {
		show_progress(r);
		begin_at_ns = inc_now_ns();
		if (r->tool->mode == CONNECT_SEND) {
			err = echo(r, &took_ns);
			r->begun++;
		} else {
			err = transfer(r, direction_of(r), 1);
			took_ns = inc_now_ns() - begin_at_ns;
		}
		if (err)
			return err;
		if (i >= WARMUP)
			r->took_ns[i - WARMUP] = took_ns;
	}
	qsort(r->took_ns, n, sizeof(*r->took_ns), by_size);
	measured->min_us = r->took_ns[0] / 1e3;
	measured->median_us = r->took_ns[(n - 1) / 2] / 1e3;
	measured->p99_us = r->took_ns[((uint64_t)n * 99 + 99) / 100 - 1] / 1e3;
	return 0;
}

static int measure_bandwidth(struct run *r, struct connect_measured *measured)
{
	const uint32_t n = r->tool->iters;
	const uint64_t begin_at_ns = inc_now_ns();
	double took_s;
	int err = 0;

	begin_part(r, "bandwidth", n);
	r->buffer[0] = CONNECT_COMMAND_DROP;
	if (r->tool->mode == CONNECT_SEND) {
		for (; r->begun < n && !err; r->begun++) {
			/* the clock is read seldom, because that would cost bandwidth */
			if (r->begun % SHOW_EACH == 0)
				show_progress(r);
			err = send_one(r, r->buffer, r->tool->bytes);
		}
		err = err ?: flush(r);
	} else {
		err = transfer(r, direction_of(r), n);
	}
	if (err)
		return err;
	took_s = (inc_now_ns() - begin_at_ns) / 1e9;
	measured->operations_per_s = n / took_s;
	measured->gbps = measured->operations_per_s * r->tool->bytes * 8 / 1e9;
	return 0;
}

int connect_measure(struct connect_tool *tool, struct inc_connect_socket *socket,
		    struct connect_measured *measured)
{
	struct inc_connect_socket_info info = {.sz = sizeof(info)};
	struct run r = {.tool = tool,
			.socket = socket,
			.part = "check",
			.of = 2, /* a WRITE and a READ */
			.moved_at_ns = inc_now_ns()};
	int err;

	r.answered_at_ns = r.moved_at_ns;
	err = inc_connect_socket_info(socket, &info);
	r.settings = info.settings;
	r.max_transfer_bytes = info.max_transfer_bytes;
	err = err ?: prepare(&r);
	err = err ?: measure_latency(&r, measured);
	err = err ?: measure_bandwidth(&r, measured);
	inc_log_progress_end();
	inc_connect_region_release(r.region);
	free(r.took_ns);
	free(r.buffer);
	return err;
}
