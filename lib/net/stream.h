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
	int fd;                   /* -1: none */
	struct inc_tls_link *tls; /* NULL: no TLS */
};

/*
 * Takes over the socket. With tls (NULL: none) the handshake authenticates both sides before the
 * deadline; host: see inc_tls_start(). stop_fd: the wait ends when it becomes readable; -1: none.
 * 0; or -errno with one line (-ECANCELED: stopped), and then the caller still owns the socket.
 */
int inc_stream_open(struct inc_stream *stream, int fd, struct inc_tls *tls, const char *host,
		    uint64_t deadline_ns, int stop_fd, struct inc_err *err);
/* Sends all bytes, or returns -errno: -ETIMEDOUT if the peer has not read them by the deadline.
 * After a failure the connection is shut down. */
int inc_stream_send(struct inc_stream *stream, const void *bytes, size_t n, uint64_t deadline_ns);
/*
 * Receives what is there and returns its length. 0: the peer has closed; -EAGAIN: nothing yet, so
 * wait until the socket is readable; or another -errno with one line. Call it until it returns
 * -EAGAIN, because bytes that TLS has decrypted already do not make the socket readable.
 */
ssize_t inc_stream_receive(struct inc_stream *stream, void *buf, size_t room, struct inc_err *err);
/* Waits until the socket is readable. 0, or -ETIMEDOUT. */
int inc_stream_wait(const struct inc_stream *stream, uint64_t deadline_ns);
/* Ends our direction; the peer may still send. */
void inc_stream_end(struct inc_stream *stream);
/* Closes the socket and sets fd to -1. A closed stream is allowed. */
void inc_stream_close(struct inc_stream *stream);

#endif
