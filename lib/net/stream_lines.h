/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of JSON from a stream: libinccl's, and those of tools that ask one question and wait for
 * its answer. */
#ifndef INC_STREAM_LINES_H
#define INC_STREAM_LINES_H

#include <stdint.h>
#include <sys/types.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/lines.h"
#include "lib/net/stream.h"

/* Into the lines what there is, as inc_stream_receive(); -ENOMEM besides. After inc_lines_next()
 * has returned 0. */
ssize_t inc_stream_fill(struct inc_stream *stream, struct inc_lines *lines, struct inc_err *err);
/* The next object, which is the caller's. NULL and one line: nothing until the deadline, the peer
 * has ended, or what inc_lines_next() refuses. */
json_t *inc_stream_next(struct inc_stream *stream, struct inc_lines *lines, uint64_t deadline_ns,
			struct inc_err *err);

#endif
