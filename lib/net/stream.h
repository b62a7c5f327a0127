/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connected TCP socket, with TLS or without, for programs without an event loop: libinccl,
 * incctl and inc-lab. One thread at a time.
 */
#ifndef INC_STREAM_H
#define INC_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "lib/base/err.h"
#include "lib/net/tls_link.h"

struct inc_stream {
	int fd;                   /* the socket; -1: none */
	struct inc_tls_link *tls; /* TLS of the socket; NULL: no TLS */
};

/*
 * Takes over the socket. If tls is not NULL, a TLS handshake authenticates both sides before the
 * deadline. host: see inc_tls_start(). stop_fd: the wait ends when this descriptor becomes
 * readable; -1: none. Returns 0, or -errno with one line (-ECANCELED: stopped). On failure the
 * caller still owns the socket.
 */
int inc_stream_open(struct inc_stream *stream, int fd, struct inc_tls *tls, const char *host,
		    uint64_t deadline_ns, int stop_fd, struct inc_err *err);
/* Sends all bytes, or returns -errno: -ETIMEDOUT if the peer has not read them by the deadline.
 * After a failure the connection is shut down. */
int inc_stream_send(struct inc_stream *stream, const void *bytes, size_t n, uint64_t deadline_ns);
/*
 * Receives the bytes that have come, and returns their number. 0: the peer has closed. -EAGAIN: no
 * bytes yet, so wait until the socket is readable. Any other -errno comes with one line. Call this
 * until it returns -EAGAIN, because bytes that TLS has decrypted already do not make the socket
 * readable.
 */
ssize_t inc_stream_receive(struct inc_stream *stream, void *buf, size_t room, struct inc_err *err);
/* Waits until the socket is readable. Returns 0 or -ETIMEDOUT. */
int inc_stream_wait(const struct inc_stream *stream, uint64_t deadline_ns);
/* Ends our direction of the connection. The peer may still send. */
void inc_stream_end(struct inc_stream *stream);
/* Closes the socket and sets fd to -1. A closed stream is allowed. */
void inc_stream_close(struct inc_stream *stream);

#endif
