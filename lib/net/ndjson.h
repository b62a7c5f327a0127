/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Newline-delimited JSON over a stream socket in a libevent loop: one object per line. Memory for
 * a peer is bounded. The connection ends if its peer sends invalid or too long lines, leaves a
 * line unfinished, or does not read its answers. Part of libinc_event.a. One thread per event
 * base.
 */
#ifndef INC_NDJSON_H
#define INC_NDJSON_H

#include <stddef.h>
#include <sys/queue.h>
#include <event2/event.h>
#include <jansson.h>
#include "lib/base/err.h"
#include "lib/net/tls.h"

struct inc_ndjson;

/* A list of draining connections: their owner has freed them, and their last lines are still being
 * sent. A struct of zeros is an empty list. */
struct inc_ndjson_draining {
	LIST_HEAD(, inc_ndjson) list;
	unsigned int n;
};

struct inc_ndjson_ops {
	/* Delivers one object. The connection holds the reference to it, so a callee that stores
	 * the object increments the count. */
	void (*message)(struct inc_ndjson *conn, json_t *object, void *arg);
	/*
	 * Reports that the connection has ended. code is 0 if the peer has closed it, else a
	 * positive errno; reason is one line. This is called once, from the loop and never from
	 * within a function below. The owner then calls inc_ndjson_free().
	 */
	void (*closed)(struct inc_ndjson *conn, int code, const char *reason, void *arg);
	/* Asks the owner to pause: returns for how many milliseconds the connection shall deliver
	 * and read nothing; 0: no pause. The function may be NULL, and then the connection never
	 * pauses. */
	unsigned int (*waits)(struct inc_ndjson *conn, void *arg);
	/* Reports that all queued bytes have been given to the kernel. It is called from the loop,
	 * and may be NULL. */
	void (*written)(struct inc_ndjson *conn, void *arg);
};

struct inc_ndjson_limits {
	size_t max_line;  /* limit of a line, without its newline */
	size_t max_write; /* limit of the bytes queued for the peer */
	/* time limit for the completion of a line, and for the peer to read some of the queue; 0:
	 * no limit */
	unsigned int message_timeout_ms;
	/* List to which the connection goes when it drains. All connections of a list belong to one
	 * event loop. NULL: the list of the process, if it has only one loop. */
	struct inc_ndjson_draining *draining;
	/* Called before bytes are written to the socket, also when the connection drains. It need
	 * not return if this process may not send any more. NULL: there is no such function. */
	void (*before_write)(void *arg);
	void *before_write_arg;
};

/*
 * Takes over a connected socket: makes it non-blocking, and sets keepalive and no-delay on TCP.
 * ops and limits are copied. On failure it returns NULL with err, and has closed the socket.
 */
struct inc_ndjson *inc_ndjson_new(struct event_base *base, int fd,
				  const struct inc_ndjson_limits *limits,
				  const struct inc_ndjson_ops *ops, void *arg, struct inc_err *err);

/*
 * Switches the connection to TLS, in the role of the context (client or server). Call it before
 * anything is sent and before the loop runs again. host: see inc_tls_start(). No line is sent or
 * delivered before the peer is authenticated. The connection and the caller both own the context.
 * Returns 0, or -errno with err. On failure the caller frees the connection.
 */
int inc_ndjson_secure(struct inc_ndjson *conn, struct inc_tls *tls, const char *host,
		      struct inc_err *err);

/* Returns the authenticated identity of the peer, from the first message on. NULL: the connection
 * is not encrypted, and the peer may be anyone. */
const char *inc_ndjson_identity(const struct inc_ndjson *conn);

/* These queue one object. inc_ndjson_send() leaves the caller its reference to the object, and
 * inc_ndjson_send_new() takes it over. The latter returns -ENOMEM for NULL. If more than max_write
 * bytes would wait, the connection ends (closed will be called) and -ENOBUFS is returned. */
int inc_ndjson_send(struct inc_ndjson *conn, json_t *object);
int inc_ndjson_send_new(struct inc_ndjson *conn, json_t *object);

/* Queues an error message. seq: the number of the request that the error answers; NULL: none. The
 * caller keeps its reference to seq. */
int inc_ndjson_send_error(struct inc_ndjson *conn, int code, json_t *seq, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Writes as much of the queue as the socket accepts without blocking. Owners call this if their
 * loop does not run again. */
void inc_ndjson_flush(struct inc_ndjson *conn);

/*
 * Ends the connection. The owner may call this inside the callbacks, and no callback comes
 * afterwards. Queued bytes are still sent for up to a second, then the socket is closed. If many
 * connections drain already because their peers do not close, this one is closed without waiting.
 */
void inc_ndjson_free(struct inc_ndjson *conn);

/* Closes at once all connections that drain (NULL: those on the list of the process). Call it
 * before event_base_free(), and not from within the callbacks above. */
void inc_ndjson_drain_stop(struct inc_ndjson_draining *draining);

/* Returns the address of the peer: "10.77.0.1:40312", "[fd00::1]:40312", or "unix". */
const char *inc_ndjson_peer(const struct inc_ndjson *conn);
/*
 * Whether the peer still has its direction open, by the kernel's TCP state. The peer may have
 * closed it while its last bytes are unread, for example after a standstill of this process.
 * Returns 0: the direction is open, or this is no TCP connection, or the kernel does not report the
 * state. -ECONNRESET: the peer has closed its direction, even if it still reads.
 */
int inc_ndjson_check_open(const struct inc_ndjson *conn, struct inc_err *err);

#endif
