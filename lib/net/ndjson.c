/* SPDX-License-Identifier: BSD-2-Clause */
#include <jansson.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"
#include "lib/net/loop.h"
#include "lib/net/ndjson.h"
#include "lib/net/tls_link.h"
#include "lib/net/wait.h"

#define UNREAD_MS       10 /* time to the next check whether unread bytes have completed a line */
#define DRAIN_TIMEOUT_S 1
#define DRAIN_MAX       256 /* limit of draining connections, because each holds a descriptor */
#define DRAIN_MAX_BYTES (4u << 20) /* limit of bytes that are discarded while draining */

struct inc_ndjson {
	struct bufferevent *bev;  /* the socket's bufferevent, which only reads */
	struct evbuffer *out;     /* bytes to be written to the socket */
	struct inc_tls_link *tls; /* TLS of the connection; NULL: it is not encrypted */
	struct event *writable;   /* event for a writable socket, added while `out` has bytes */
	struct inc_timer *stall;  /* time limit for the peer to read some bytes of `out` */
	struct inc_timer *pause;  /* timer of the owner's pause; NULL: the owner never pauses */
	struct inc_timer
		*timer; /* timer of an unfinished line, of a call of `closed`, or of draining */
	struct inc_ndjson_limits limits;
	struct inc_lines lines;
	struct inc_ndjson_ops ops;
	void *arg;
	bool line_open;    /* the timer runs because a line has begun */
	bool failed;       /* the connection has failed, so `closed` is due or was called */
	bool reported;     /* closed was called */
	bool dead;         /* the owner has freed the connection, and it is draining */
	bool peer_done;    /* the peer has closed its direction, but may still read */
	unsigned int busy; /* number of callbacks on the stack */
	size_t drained;
	int code;
	char reason[160];
	char peer[INC_PEER_TEXT_BYTES];
	LIST_ENTRY(inc_ndjson) entry; /* link in the list limits.draining, while dead is set */
};

static struct inc_ndjson_draining draining_here;

static void destroy(struct inc_ndjson *conn)
{
	inc_timer_free(conn->timer);
	inc_timer_free(conn->stall);
	inc_timer_free(conn->pause);
	if (conn->writable)
		event_free(conn->writable);
	if (conn->out)
		evbuffer_free(conn->out);
	if (conn->bev)
		bufferevent_free(conn->bev);
	inc_tls_link_free(conn->tls);
	inc_lines_free(&conn->lines);
	free(conn);
}

static void drain_end(struct inc_ndjson *conn)
{
	conn->limits.draining->n--;
	LIST_REMOVE(conn, entry);
	destroy(conn);
}

/* Marks the connection as failed. If a callback of the loop has found the failure, the call of
 * report() follows at once. If the owner itself has called a function, the timer calls report(). */
__attribute__((format(printf, 3, 4))) static void fail(struct inc_ndjson *conn, int code,
						       const char *fmt, ...)
{
	va_list ap;

	if (conn->failed || conn->dead)
		return;
	conn->failed = true;
	conn->code = code;
	va_start(ap, fmt);
	vsnprintf(conn->reason, sizeof(conn->reason), fmt, ap);
	va_end(ap);
	bufferevent_disable(conn->bev, EV_READ);
	inc_timer_arm(conn->timer, 0);
}

/*
 * Calls the owner's `closed` if the connection has failed. Only callbacks of the loop call this, as
 * their last statement. It must not wait for a later turn of the loop, because messages on other
 * connections must come after it. Otherwise a reconnected peer would count as a second one.
 */
static void report(struct inc_ndjson *conn)
{
	if (!conn->failed || conn->reported || conn->dead)
		return;
	conn->reported = true;
	conn->ops.closed(conn, conn->code, conn->reason, conn->arg);
}

static void on_timer(void *arg)
{
	struct inc_ndjson *conn = arg;

	if (conn->dead) {
		drain_end(conn);
		return;
	}
	/* if the kernel has unread bytes, this process is late and not the peer, as after a
	 * standstill */
	if (!conn->failed && inc_wait_has_unread(bufferevent_getfd(conn->bev))) {
		inc_timer_arm(conn->timer, UNREAD_MS);
		return;
	}
	if (!conn->failed) {
		conn->line_open = false;
		inc_ndjson_send_error(conn, ETIMEDOUT, NULL, "message not completed within %u ms",
				      conn->limits.message_timeout_ms);
		fail(conn, ETIMEDOUT, "message not completed within %u ms",
		     conn->limits.message_timeout_ms);
	}
	report(conn);
}

static void bad_line(struct inc_ndjson *conn, int code, const char *text)
{
	inc_ndjson_send_error(conn, code, NULL, "%s", text);
	fail(conn, code, "%s", text);
}

static void drain_input(struct inc_ndjson *conn)
{
	struct evbuffer *in = bufferevent_get_input(conn->bev);
	size_t n = evbuffer_get_length(in);

	evbuffer_drain(in, n);
	conn->drained += n;
	if (conn->drained > DRAIN_MAX_BYTES)
		drain_end(conn);
}

static void wait_to_write(struct inc_ndjson *conn)
{
	event_add(conn->writable, NULL);
	if (conn->limits.message_timeout_ms && !conn->dead)
		inc_timer_arm(conn->stall, conn->limits.message_timeout_ms);
}

static void peer_ended(struct inc_ndjson *conn)
{
	if (inc_lines_open(&conn->lines))
		fail(conn, EBADMSG, "closed in the middle of a line");
	else
		fail(conn, 0, "closed by peer");
}

/* Moves the bytes that TLS has for the peer to the queue of bytes to be written. */
static int queue_tls(struct inc_ndjson *conn)
{
	size_t n;
	const void *bytes = inc_tls_link_output(conn->tls, &n);

	if (n && evbuffer_add(conn->out, bytes, n) < 0)
		return -ENOMEM;
	inc_tls_link_sent(conn->tls);
	if (n && !event_pending(conn->writable, EV_WRITE, NULL))
		wait_to_write(conn);
	return 0;
}

/* Passes one piece of the received bytes to TLS. 0, or -errno. */
static int take_piece(struct inc_ndjson *conn, struct evbuffer *in, struct inc_err *err)
{
	struct evbuffer_iovec piece;
	int ret, queued;

	evbuffer_peek(in, -1, NULL, &piece, 1);
	ret = inc_tls_link_take(conn->tls, piece.iov_base, piece.iov_len, err);
	evbuffer_drain(in, piece.iov_len);
	queued = queue_tls(conn);
	if (!ret && queued)
		ret = inc_err_set(err, -queued, "out of memory");
	return ret;
}

/* Like evbuffer_remove(), for bytes that TLS has decrypted. */
static int remove_tls(struct inc_ndjson *conn, struct evbuffer *in, char *space, size_t room)
{
	struct inc_err err;
	ssize_t n;

	while (!(n = inc_tls_link_read(conn->tls, space, room, &err)) && evbuffer_get_length(in)) {
		n = take_piece(conn, in, &err);
		if (n)
			break;
	}
	/* decrypted bytes may cause an answer of TLS to the peer, such as new keys */
	if (queue_tls(conn) && n >= 0)
		n = inc_err_set(&err, ENOMEM, "out of memory");
	if (n == -ECONNRESET) {
		conn->peer_done = true;
		peer_ended(conn);
	} else if (n < 0) {
		fail(conn, -n, "%s", err.msg);
	}
	return n;
}

/* Moves received bytes to the line buffer. Returns false if there are none, or the connection has
 * failed. */
static bool take_bytes(struct inc_ndjson *conn, struct evbuffer *in)
{
	size_t room;
	char *space;
	int n;

	if (!evbuffer_get_length(in) && !conn->tls)
		return false;
	space = inc_lines_space(&conn->lines, &room);
	if (!space) {
		fail(conn, ENOMEM, "out of memory");
		return false;
	}
	n = conn->tls ? remove_tls(conn, in, space, room) : evbuffer_remove(in, space, room);
	if (n > 0)
		inc_lines_filled(&conn->lines, n);
	return n > 0;
}

/* Whether the owner wants a pause, in which the connection reads nothing. If so, starts it. */
static bool pauses(struct inc_ndjson *conn)
{
	const unsigned int ms = conn->pause ? conn->ops.waits(conn, conn->arg) : 0;

	if (!ms)
		return false;
	bufferevent_disable(conn->bev, EV_READ);
	inc_timer_arm(conn->pause, ms);
	return true;
}

/* Delivers all complete lines to the owner. */
static void take_lines(struct inc_ndjson *conn, struct evbuffer *in)
{
	struct inc_err err;
	json_t *object;
	int ret;

	while (!conn->failed && !conn->dead) {
		ret = inc_lines_next(&conn->lines, &object, &err);
		if (!ret && !take_bytes(conn, in))
			return;
		if (!ret)
			continue;
		if (conn->line_open) {
			conn->line_open = false;
			inc_timer_stop(conn->timer);
		}
		if (ret < 0) {
			bad_line(conn, -ret, err.msg);
			return;
		}
		conn->ops.message(conn, object, conn->arg);
		json_decref(object);
		if (!conn->failed && !conn->dead && pauses(conn))
			return;
	}
}

/* Processes all bytes that libevent has read, unless the connection pauses and so reads no more. So
 * libevent reads ahead only what one call of it reads, 16 KiB. */
static void on_read(struct bufferevent *bev, void *arg)
{
	struct evbuffer *in = bufferevent_get_input(bev);
	struct inc_ndjson *conn = arg;

	if (conn->dead) {
		drain_input(conn);
		return;
	}
	conn->busy++;
	take_lines(conn, in);
	if (!conn->failed && !conn->dead && inc_lines_open(&conn->lines) && !conn->line_open &&
	    conn->limits.message_timeout_ms) {
		conn->line_open = true;
		inc_timer_arm(conn->timer, conn->limits.message_timeout_ms);
	}
	conn->busy--;
	if (conn->busy)
		return;
	report(conn);
	if (conn->dead)
		drain_input(conn);
}

static void on_pause_over(void *arg)
{
	struct inc_ndjson *conn = arg;

	if (conn->failed || conn->dead || pauses(conn))
		return;
	bufferevent_enable(conn->bev, EV_READ);
	on_read(conn->bev, conn);
}

static void on_written(struct inc_ndjson *conn)
{
	/* Called when all queued bytes are sent. Shuts down our direction and waits for the peer's
	 * close. If we closed with the peer's bytes unread, TCP would send a reset, and the peer
	 * could lose our last lines. */
	if (conn->dead && conn->peer_done)
		drain_end(conn);
	else if (conn->dead)
		shutdown(bufferevent_getfd(conn->bev), SHUT_WR);
	else if (conn->ops.written && !conn->failed)
		conn->ops.written(conn, conn->arg);
}

static void on_broken(struct inc_ndjson *conn, int code, const char *reason)
{
	if (conn->dead) {
		drain_end(conn);
		return;
	}
	fail(conn, code, "%s", reason);
	report(conn);
}

/* Writes some of the queued bytes by sendmsg(). libevent's own writing would raise SIGPIPE, whose
 * handling a library must not change. Returns 0 or -errno; a socket without room is no error. */
static int write_some(struct inc_ndjson *conn)
{
	struct iovec part[8];
	struct msghdr message = {.msg_iov = part};
	ssize_t n;

	if (conn->limits.before_write)
		conn->limits.before_write(conn->limits.before_write_arg);
	n = evbuffer_peek(conn->out, -1, NULL, part, sizeof(part) / sizeof(part[0]));
	message.msg_iovlen = n < 8 ? n : 8;
	n = sendmsg(bufferevent_getfd(conn->bev), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	evbuffer_drain(conn->out, n);
	return 0;
}

/* Writes queued bytes. stalled: the peer has read nothing for the time limit. After a standstill of
 * this process that time may have passed although the socket has room. */
static void write_more(struct inc_ndjson *conn, bool stalled)
{
	const size_t waits = evbuffer_get_length(conn->out);
	int ret = write_some(conn);

	event_del(conn->writable);
	inc_timer_stop(conn->stall);
	if (!ret && stalled && evbuffer_get_length(conn->out) == waits)
		on_broken(conn, ETIMEDOUT, "peer does not read");
	else if (ret)
		on_broken(conn, -ret, strerror(-ret));
	else if (evbuffer_get_length(conn->out))
		wait_to_write(conn);
	else
		on_written(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	write_more(arg, false);
}

static void on_stall(void *arg)
{
	write_more(arg, true);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct inc_ndjson *conn = arg;
	int code = EVUTIL_SOCKET_ERROR();

	conn->peer_done |= !!(what & BEV_EVENT_EOF);
	if (conn->dead) {
		/* a peer that has closed only its own direction still reads our lines */
		if (!(what & BEV_EVENT_EOF) || !evbuffer_get_length(conn->out))
			drain_end(conn);
		return;
	}
	if (what & BEV_EVENT_ERROR)
		fail(conn, code ? code : EIO, "%s", strerror(code ? code : EIO));
	else
		peer_ended(conn);
	report(conn);
}

static void tune_socket(struct inc_ndjson *conn, int fd)
{
	static const int on = 1, idle_s = 10, interval_s = 5, probes = 3;
	static const unsigned int user_timeout_ms = 25000;
	if (inc_hostport_peer_text(fd, conn->peer, sizeof(conn->peer)))
		return;
	/* a socket option that the kernel refuses only makes lines or the detection of a dead peer
	 * slower, so no refusal is an error */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

struct inc_ndjson *inc_ndjson_new(struct event_base *base, int fd,
				  const struct inc_ndjson_limits *limits,
				  const struct inc_ndjson_ops *ops, void *arg, struct inc_err *err)
{
	struct inc_ndjson *conn = calloc(1, sizeof(*conn));

	if (!conn)
		goto err_memory;
	conn->limits = *limits;
	conn->limits.draining = limits->draining ?: &draining_here;
	conn->lines.max_line = limits->max_line;
	conn->ops = *ops;
	conn->arg = arg;
	evutil_make_socket_nonblocking(fd);
	conn->timer = inc_timer_new(base, on_timer, conn);
	conn->stall = inc_timer_new(base, on_stall, conn);
	conn->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	conn->out = evbuffer_new();
	conn->writable = event_new(base, fd, EV_WRITE, on_writable, conn);
	conn->pause = ops->waits ? inc_timer_new(base, on_pause_over, conn) : NULL;
	if ((ops->waits && !conn->pause) || !conn->timer || !conn->stall || !conn->bev ||
	    !conn->out || !conn->writable)
		goto err_memory;
	tune_socket(conn, fd);
	bufferevent_setcb(conn->bev, on_read, NULL, on_event, conn);
	bufferevent_disable(conn->bev, EV_WRITE);
	if (bufferevent_enable(conn->bev, EV_READ))
		goto err_memory;
	return conn;

err_memory:
	inc_err_set(err, ENOMEM, "out of memory for a connection");
	if (!conn || !conn->bev)
		close(fd);
	if (conn)
		destroy(conn);
	return NULL;
}

int inc_ndjson_secure(struct inc_ndjson *conn, struct inc_tls *tls, const char *host,
		      struct inc_err *err)
{
	conn->tls = inc_tls_link_new(tls, host, err);
	if (!conn->tls)
		return -EPROTO;
	return queue_tls(conn) ? inc_err_set(err, ENOMEM, "out of memory") : 0;
}

const char *inc_ndjson_identity(const struct inc_ndjson *conn)
{
	return conn->tls ? inc_tls_link_identity(conn->tls) : NULL;
}

/* Adds a line to the queue of bytes to be written. */
static int queue(struct inc_ndjson *conn, const char *text, size_t len)
{
	struct inc_err err;
	int ret;

	if (conn->tls) {
		ret = inc_tls_link_write(conn->tls, text, len, &err) ?: queue_tls(conn);
	} else {
		ret = evbuffer_add(conn->out, text, len) < 0 ? -ENOMEM : 0;
		if (!ret && !event_pending(conn->writable, EV_WRITE, NULL))
			wait_to_write(conn);
	}
	if (ret)
		fail(conn, -ret, "%s", strerror(-ret));
	return ret;
}

int inc_ndjson_send(struct inc_ndjson *conn, json_t *object)
{
	size_t len, waits;
	char *text;
	int ret = 0;

	if (conn->failed || conn->dead)
		return -ENOTCONN;
	text = inc_line_of(object, &len);
	if (!text)
		return -ENOMEM;
	waits = evbuffer_get_length(conn->out) + (conn->tls ? inc_tls_link_kept(conn->tls) : 0);
	if (waits + len > conn->limits.max_write) {
		fail(conn, ENOBUFS,
		     "%zu bytes wait to be read, and %zu more are over the limit of %zu", waits,
		     len, conn->limits.max_write);
		ret = -ENOBUFS;
	} else {
		ret = queue(conn, text, len);
	}
	free(text);
	return ret;
}

int inc_ndjson_send_new(struct inc_ndjson *conn, json_t *object)
{
	int ret;

	if (!object)
		return -ENOMEM;
	ret = inc_ndjson_send(conn, object);
	json_decref(object);
	return ret;
}

int inc_ndjson_send_error(struct inc_ndjson *conn, int code, json_t *seq, const char *fmt, ...)
{
	struct inc_msg_error error = {.code = code};
	json_t *object;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error.message, sizeof(error.message), fmt, ap);
	va_end(ap);
	object = inc_message_new(INC_MSG_ERROR, &error);
	if (object && seq)
		json_object_set(object, "seq", seq);
	return inc_ndjson_send_new(conn, object);
}

void inc_ndjson_flush(struct inc_ndjson *conn)
{
	size_t before = 0, waits = conn->failed ? 0 : evbuffer_get_length(conn->out);

	/* repeat the call while the queue shrinks, because one call writes only a few pieces */
	for (; waits && waits != before; waits = evbuffer_get_length(conn->out)) {
		before = waits;
		if (write_some(conn))
			return;
	}
}

void inc_ndjson_free(struct inc_ndjson *conn)
{
	struct inc_ndjson_draining *draining;

	if (!conn || conn->dead)
		return;
	draining = conn->limits.draining;
	conn->dead = true;
	LIST_INSERT_HEAD(&draining->list, conn, entry);
	draining->n++;
	if (conn->tls) {
		inc_tls_link_end(conn->tls);
		queue_tls(conn);
	}
	inc_timer_stop(conn->stall);
	if (!evbuffer_get_length(conn->out)) {
		shutdown(bufferevent_getfd(conn->bev), SHUT_WR);
		if (conn->peer_done) {
			inc_timer_arm(conn->timer, 0);
			return;
		}
	}
	/* even with a timeout of 0 the loop writes what the socket accepts before the timer runs */
	inc_timer_arm(conn->timer, draining->n > DRAIN_MAX ? 0 : DRAIN_TIMEOUT_S * 1000);
	if (!conn->peer_done)
		bufferevent_enable(conn->bev, EV_READ);
}

void inc_ndjson_drain_stop(struct inc_ndjson_draining *draining)
{
	if (!draining)
		draining = &draining_here;
	while (!LIST_EMPTY(&draining->list))
		drain_end(LIST_FIRST(&draining->list));
}

const char *inc_ndjson_peer(const struct inc_ndjson *conn)
{
	return conn->peer;
}

int inc_ndjson_check_open(const struct inc_ndjson *conn, struct inc_err *err)
{
	return inc_wait_check_open(bufferevent_getfd(conn->bev), err);
}
