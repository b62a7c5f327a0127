// SPDX-License-Identifier: BSD-2-Clause
/* Reads and writes lines of JSON on a stream (stream_lines.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/net/race.h"
#include "lib/net/stream_lines.h"
#include "lib/net/wait.h"

/* How long one of several controllers has to answer in the first round of attempts. Each round
 * doubles it, for a slow network. */
#define FIRST_TRY_MS 700
/* The pause after each round, in which another controller may become the leader. */
#define ROUND_PAUSE_MS 150

ssize_t inc_stream_fill(struct inc_stream *stream, struct inc_lines *lines, struct inc_err *err)
{
	size_t room;
	char *space = inc_lines_space(lines, &room);
	ssize_t n;

	if (!space)
		return inc_err_set(err, ENOMEM, "%s", strerror(ENOMEM));
	n = inc_stream_receive(stream, space, room, err);
	if (n > 0)
		inc_lines_filled(lines, n);
	return n;
}

json_t *inc_stream_next(struct inc_stream *stream, struct inc_lines *lines, uint64_t deadline_ns,
			struct inc_err *err)
{
	json_t *object = NULL;
	ssize_t n;
	int ret;

	while (!(ret = inc_lines_next(lines, &object, err))) {
		n = inc_stream_fill(stream, lines, err);
		if (n == -EAGAIN) {
			ret = inc_stream_wait(stream, deadline_ns);
			if (!ret)
				continue;
			n = inc_err_set(err, -ret, "%s", strerror(-ret));
		}
		if (!n)
			inc_err_set(err, ECONNRESET, "closed the connection");
		if (n <= 0)
			return NULL;
	}
	return ret > 0 ? object : NULL;
}

int inc_stream_ping(struct inc_stream *stream, uint64_t deadline_ns, struct inc_err *err)
{
	struct inc_lines lines = {.max_line = INC_MEMBER_LINE_MAX};
	json_t *ping = inc_message_new(INC_MSG_PING, NULL), *got = NULL;
	size_t len;
	char *text = inc_line_of(ping, &len);
	int ret = text ? inc_stream_send(stream, text, len, deadline_ns) : -ENOMEM;

	json_decref(ping);
	free(text);
	if (ret)
		return inc_err_set(err, -ret, "%s", strerror(-ret));
	got = inc_stream_next(stream, &lines, deadline_ns, err);
	if (!got)
		ret = -ECONNRESET;
	else if (!inc_message_is(inc_message_type(got), INC_MSG_PONG))
		ret = inc_err_set(err, EPROTO, "%.200s",
				  json_string_value(json_object_get(got, "message"))
					  ?: "its answer to a ping is no pong");
	json_decref(got);
	inc_lines_free(&lines);
	return ret;
}

static int reach(struct inc_stream *stream, const struct inc_hostport *at, struct inc_tls *tls,
		 uint64_t deadline_ns, struct inc_err *err)
{
	const int fd = inc_reach(at, deadline_ns, err);
	int ret;

	if (fd < 0)
		return fd;
	ret = inc_stream_open(stream, fd, tls, at->host, deadline_ns, -1, err);
	if (ret)
		close(fd);
	return ret;
}

/* Tries one of several controllers. */
static int try_one(struct inc_stream *stream, const struct inc_hostport *at, struct inc_tls *tls,
		   uint64_t deadline_ns, struct inc_err *err)
{
	int ret = reach(stream, at, tls, deadline_ns, err);

	if (ret)
		return ret;
	ret = inc_stream_ping(stream, deadline_ns, err);
	if (ret)
		inc_stream_close(stream);
	return ret;
}

/* A controller that stands by does not listen, so a client that has no other address must learn
 * that there may be one. */
static const char *standby_hint(int error)
{
	return error == -ECONNREFUSED ? ": no controller accepts connections there (one that "
					"stands by does not, so name all controllers)"
				      : "";
}

int inc_stream_reach(struct inc_stream *stream, const struct inc_hostports *all, unsigned int *at,
		     struct inc_tls *tls, uint64_t deadline_ns, bool once, struct inc_err *err)
{
	uint64_t try_ns = FIRST_TRY_MS * INC_NSEC_PER_MSEC, give_up_at_ns;
	const struct inc_hostport *last;
	struct inc_err why = {""};
	unsigned int tries = 0;
	int ret;

	if (all->n == 1) {
		ret = reach(stream, &all->at[*at], tls, deadline_ns, &why);
		return ret ? inc_err_set(err, -ret, "%s%s", why.msg, standby_hint(ret)) : 0;
	}
	do {
		last = &all->at[*at];
		give_up_at_ns = inc_now_ns() + try_ns;
		ret = try_one(stream, last, tls,
			      give_up_at_ns < deadline_ns ? give_up_at_ns : deadline_ns, &why);
		if (!ret)
			return 0;
		*at = (*at + 1) % all->n;
		if (++tries % all->n)
			continue;
		if (once)
			break;
		inc_wait_poll(NULL, 0, ROUND_PAUSE_MS);
		try_ns *= 2;
	} while (inc_now_ns() < deadline_ns);
	return inc_err_set(err, -ret, "none of %u controllers answers; the last one, %s:%s: %s",
			   all->n, last->host, last->port, why.msg);
}
