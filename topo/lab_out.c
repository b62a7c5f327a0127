// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/buffer.h>
#include <sys/eventfd.h>
#include "lib/base/thread.h"
#include "topo/lab_out.h"

#define FULL_BYTES (256 << 10)

struct lab_out {
	int fd;
	void (*drained)(void *arg);
	void *arg;
	struct event *event; /* event of wake_fd; owned */
	int wake_fd;
	pthread_t writer;
	pthread_mutex_t lock; /* protects the members after it */
	pthread_cond_t more;
	struct evbuffer *queue; /* queue of whole lines; owned */
	/* number of bytes that are queued or being written */
	size_t waiting_bytes;
	int failed; /* errno of the first write that has failed; 0: none has */
	/* line that is being written; only the writing thread uses it */
	char line[LAB_OUT_LINE_BYTES];
};

/* Writes a line. Returns 0, even if the reader has closed its end, or -errno. The thread may be
 * cancelled here, and while it waits for lines. */
static int write_line(int fd, const char *line, size_t len)
{
	while (len) {
		ssize_t n = write(fd, line, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			/* wait for room, because another process has made the pipe non-blocking */
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
			continue;
		}
		if (n <= 0)
			return n && errno == EPIPE ? 0 : n ? -errno : -EIO;
		line += n;
		len -= n;
	}
	return 0;
}

static void take_written(struct lab_out *out, size_t len, int ret)
{
	out->waiting_bytes -= len;
	if (ret && !out->failed)
		out->failed = -ret;
	if (!out->waiting_bytes)
		inc_signal_fd(out->wake_fd);
}

static void unlock(void *lock)
{
	pthread_mutex_unlock(lock);
}

static void *write_lines(void *arg)
{
	struct lab_out *out = arg;
	int ret, ignored;
	size_t len;

	for (;;) {
		pthread_mutex_lock(&out->lock);
		pthread_cleanup_push(unlock, &out->lock);
		while (!out->waiting_bytes)
			pthread_cond_wait(&out->more, &out->lock);
		len = evbuffer_search(out->queue, "\n", 1, NULL).pos + 1;
		evbuffer_remove(out->queue, out->line, len);
		pthread_cleanup_pop(1);
		ret = write_line(out->fd, out->line, len);
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored);
		pthread_mutex_lock(&out->lock);
		take_written(out, len, ret);
		pthread_mutex_unlock(&out->lock);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &ignored);
	}
	return NULL;
}

static void on_drained(int fd, short what, void *arg)
{
	struct lab_out *out = arg;

	inc_drain_fd(fd);
	out->drained(out->arg);
}

struct lab_out *lab_out_open(struct event_base *base, int fd, void (*drained)(void *arg), void *arg)
{
	struct lab_out *out = calloc(1, sizeof(*out));

	if (!out)
		return NULL;
	out->fd = fd;
	out->drained = drained;
	out->arg = arg;
	pthread_mutex_init(&out->lock, NULL);
	pthread_cond_init(&out->more, NULL);
	out->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (out->wake_fd < 0)
		goto free_out;
	out->queue = evbuffer_new();
	if (!out->queue)
		goto close_wake;
	out->event = event_new(base, out->wake_fd, EV_READ | EV_PERSIST, on_drained, out);
	if (!out->event)
		goto free_queue;
	if (!event_add(out->event, NULL) && !inc_thread_create(&out->writer, write_lines, out))
		return out;
	event_free(out->event);
free_queue:
	evbuffer_free(out->queue);
close_wake:
	close(out->wake_fd);
free_out:
	free(out);
	return NULL;
}

void lab_out_put(struct lab_out *out, const char *line, size_t len)
{
	pthread_mutex_lock(&out->lock);
	if (!evbuffer_add(out->queue, line, len))
		out->waiting_bytes += len;
	else if (!out->failed)
		out->failed = ENOMEM;
	pthread_cond_signal(&out->more);
	pthread_mutex_unlock(&out->lock);
}

size_t lab_out_waiting(struct lab_out *out)
{
	size_t bytes;

	pthread_mutex_lock(&out->lock);
	bytes = out->waiting_bytes;
	pthread_mutex_unlock(&out->lock);
	return bytes;
}

bool lab_out_is_full(struct lab_out *out)
{
	return lab_out_waiting(out) >= FULL_BYTES;
}

int lab_out_close(struct lab_out *out)
{
	int failed;

	pthread_cancel(out->writer);
	pthread_join(out->writer, NULL);
	failed = out->failed;
	event_free(out->event);
	evbuffer_free(out->queue);
	close(out->wake_fd);
	pthread_cond_destroy(&out->more);
	pthread_mutex_destroy(&out->lock);
	free(out);
	return failed;
}
