// SPDX-License-Identifier: BSD-2-Clause
/* A socket for programs without an event loop (stream.h). */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include "lib/base/clock.h"
#include "lib/net/stream.h"
#include "lib/net/wait.h"

#define LAST_WORDS_MS 1000 /* ms for sending an alert of TLS, or its answer to a change of keys */

static int send_all(int fd, const char *bytes, size_t n, uint64_t deadline_ns)
{
	int ret;

	while (n) {
		const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			bytes += sent;
			n -= sent;
		} else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			return -errno;
		} else {
			ret = inc_wait_for(fd, POLLOUT, -1, deadline_ns);
			if (ret)
				return ret;
		}
	}
	return 0;
}

/* Sends the bytes that TLS has for the peer. */
static int flush(struct inc_stream *stream, uint64_t deadline_ns)
{
	size_t n;
	const void *bytes = inc_tls_link_output(stream->tls, &n);
	const int ret = send_all(stream->fd, bytes, n, deadline_ns);

	inc_tls_link_sent(stream->tls);
	return ret;
}

static uint64_t soon(void)
{
	return inc_now_ns() + LAST_WORDS_MS * INC_NSEC_PER_MSEC;
}

/* Receives some bytes and passes them to TLS. 0, -EAGAIN, -ECONNRESET at the end, or -errno. */
static int take_some(struct inc_stream *stream, struct inc_err *err)
{
	/* the array is small, because it is on the caller's stack, which may be small */
	char bytes[4096];
	const ssize_t n = recv(stream->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	int ret;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n < 0)
		return inc_err_set(err, errno, "%s", strerror(errno));
	if (!n)
		return inc_err_set(err, ECONNRESET, "closed the connection");
	ret = inc_tls_link_take(stream->tls, bytes, n, err);
	flush(stream, soon());
	return ret;
}

static int shake_hands(struct inc_stream *stream, uint64_t deadline_ns, int stop_fd,
		       struct inc_err *err)
{
	int ret = flush(stream, deadline_ns);

	if (ret)
		return inc_err_set(err, -ret, "TLS: %s", strerror(-ret));
	while (!inc_tls_link_done(stream->tls)) {
		ret = inc_wait_for(stream->fd, POLLIN, stop_fd, deadline_ns);
		if (ret)
			return inc_err_set(err, -ret, "TLS: %s", strerror(-ret));
		ret = take_some(stream, err);
		if (ret && ret != -EAGAIN)
			return ret;
	}
	return 0;
}

int inc_stream_open(struct inc_stream *stream, int fd, struct inc_tls *tls, const char *host,
		    uint64_t deadline_ns, int stop_fd, struct inc_err *err)
{
	int ret;

	*stream = (struct inc_stream){.fd = fd};
	if (!tls)
		return 0;
	stream->tls = inc_tls_link_new(tls, host, err);
	ret = stream->tls ? shake_hands(stream, deadline_ns, stop_fd, err) : -EPROTO;
	if (!ret)
		return 0;
	inc_tls_link_free(stream->tls);
	*stream = (struct inc_stream){.fd = -1};
	return ret;
}

int inc_stream_send(struct inc_stream *stream, const void *bytes, size_t n, uint64_t deadline_ns)
{
	int ret;

	if (stream->fd < 0)
		return -ENOTCONN;
	if (stream->tls)
		ret = inc_tls_link_write(stream->tls, bytes, n, NULL) ?: flush(stream, deadline_ns);
	else
		ret = send_all(stream->fd, bytes, n, deadline_ns);
	/* a part of the bytes may have been sent, so no more may follow: shut the connection down,
	 * so that its reader sees the end */
	if (ret)
		shutdown(stream->fd, SHUT_RDWR);
	return ret;
}

ssize_t inc_stream_receive(struct inc_stream *stream, void *buf, size_t room, struct inc_err *err)
{
	ssize_t n;
	int ret;

	if (!stream->tls) {
		n = recv(stream->fd, buf, room, MSG_DONTWAIT);
		if (n >= 0)
			return n;
		return errno == EINTR || errno == EAGAIN
			       ? -EAGAIN
			       : inc_err_set(err, errno, "%s", strerror(errno));
	}
	while (!(n = inc_tls_link_read(stream->tls, buf, room, err))) {
		ret = take_some(stream, err);
		if (ret)
			return ret == -ECONNRESET ? 0 : ret;
	}
	return n == -ECONNRESET ? 0 : n;
}

int inc_stream_wait(const struct inc_stream *stream, uint64_t deadline_ns)
{
	return inc_wait_for(stream->fd, POLLIN, -1, deadline_ns);
}

void inc_stream_end(struct inc_stream *stream)
{
	if (stream->tls) {
		inc_tls_link_end(stream->tls);
		flush(stream, soon());
	}
	shutdown(stream->fd, SHUT_WR);
}

void inc_stream_close(struct inc_stream *stream)
{
	inc_tls_link_free(stream->tls);
	if (stream->fd >= 0)
		close(stream->fd);
	*stream = (struct inc_stream){.fd = -1};
}
