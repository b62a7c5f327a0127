// SPDX-License-Identifier: BSD-2-Clause
/* Reads and writes lines of JSON on a stream (stream_lines.h). */
#include <errno.h>
#include <string.h>
#include "lib/net/stream_lines.h"

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
