/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connected TCP socket, by TLS or plainly, for those who have no event loop: libinccl, incctl and
 * inc-lab. Whoever has one waits by itself until the socket can be read. One thread at a time.
 */
#ifndef INC_STREAM_H
#define INC_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "lib/base/err.h"
#include "lib/net/tls_link.h"

struct inc_stream {
	int fd;                   /* -1: none */
	struct inc_tls_link *tls; /* NULL: plain */
};

/*
 * Takes the socket over. With tls (NULL: plain) both sides prove themselves first, until the
 * deadline; host: see inc_tls_start(). stop_fd: ends the wait when it can be read; -1: nothing
 * does. 0; or -errno with one line (-ECANCELED: stopped), and the socket is the caller's still.
 */
int inc_stream_open(struct inc_stream *stream, int fd, struct inc_tls *tls, const char *host,
		    uint64_t deadline_ns, int stop_fd, struct inc_err *err);
/* All of it, or -errno: what the peer does not take until the deadline is -ETIMEDOUT. After a
 * failure the connection is over. */
int inc_stream_send(struct inc_stream *stream, const void *bytes, size_t n, uint64_t deadline_ns);
/*
 * What there is: so many bytes; 0: the peer has ended; -EAGAIN: nothing, wait until the socket can
 * be read; another -errno with one line. To be called until it is -EAGAIN: what TLS has read ahead
 * does not show at the socket.
 */
ssize_t inc_stream_receive(struct inc_stream *stream, void *buf, size_t room, struct inc_err *err);
/* Until the socket can be read. 0, or -ETIMEDOUT. */
int inc_stream_wait(const struct inc_stream *stream, uint64_t deadline_ns);
/* Says no more; the peer may. */
void inc_stream_end(struct inc_stream *stream);
/* fd is -1 then. On one that is closed: nothing. */
void inc_stream_close(struct inc_stream *stream);

#endif
