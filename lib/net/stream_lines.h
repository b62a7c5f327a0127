/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lines of JSON from a stream, for libinccl and for tools that send one question and wait for the
 * answer. Also connects to the controller that leads.
 */
#ifndef INC_STREAM_LINES_H
#define INC_STREAM_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/hostport.h"
#include "lib/net/lines.h"
#include "lib/net/stream.h"

/* Receives bytes into the line buffer; returns like inc_stream_receive(), or -ENOMEM. Call it
 * after inc_lines_next() has returned 0. */
ssize_t inc_stream_fill(struct inc_stream *stream, struct inc_lines *lines, struct inc_err *err);
/* Returns the next object, which the caller owns. NULL with one line in err: no object came until
 * the deadline, the peer has closed, or inc_lines_next() has rejected the line. */
json_t *inc_stream_next(struct inc_stream *stream, struct inc_lines *lines, uint64_t deadline_ns,
			struct inc_err *err);

/*
 * Connects to one of the controllers, with TLS if tls is not NULL. A single controller has all the
 * time until the deadline. Of several controllers the one that leads answers a ping at once; the
 * others do not listen. The attempts begin with number *at of the list and go round until one
 * answers: once if `once` is set, else until the deadline, because another controller may take
 * seconds to become the leader. Returns 0 with the stream and its number in *at. On failure
 * returns -errno, and the reason names the last controller if there are several.
 */
int inc_stream_reach(struct inc_stream *stream, const struct inc_hostports *all, unsigned int *at,
		     struct inc_tls *tls, uint64_t deadline_ns, bool once, struct inc_err *err);
/* Waits until the peer has answered a ping. The peer must not have been asked for anything else
 * yet. Returns 0 or -errno with the reason. */
int inc_stream_ping(struct inc_stream *stream, uint64_t deadline_ns, struct inc_err *err);

#endif
