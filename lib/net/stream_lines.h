/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of JSON from a stream, for libinccl and for tools that send one question and wait for the
 * answer.
 */
#ifndef INC_STREAM_LINES_H
#define INC_STREAM_LINES_H

#include <stdint.h>
#include <sys/types.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/lines.h"
#include "lib/net/stream.h"

/* Receives bytes into the line buffer; returns like inc_stream_receive(), or -ENOMEM. Call it
 * after inc_lines_next() has returned 0. */
ssize_t inc_stream_fill(struct inc_stream *stream, struct inc_lines *lines, struct inc_err *err);
/* Returns the next object, which the caller owns. NULL with one line in err: no object came until
 * the deadline, the peer has closed, or inc_lines_next() has rejected the line. */
json_t *inc_stream_next(struct inc_stream *stream, struct inc_lines *lines, uint64_t deadline_ns,
			struct inc_err *err);

#endif
