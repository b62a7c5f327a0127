/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Newline-delimited JSON over a stream socket in a libevent loop: one object per line.
 * A peer that sends garbage, lines too long, half a line and then nothing, or that does
 * not read what it asked for, ends its own connection and costs a bounded amount of
 * memory. Part of libinc_event.a. One thread per event base.
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

/* Connections whose owner is gone, and whose last words are on their way. All zero: none. */
struct inc_ndjson_draining {
	LIST_HEAD(, inc_ndjson) list;
	unsigned int n;
};

struct inc_ndjson_ops {
	/* One object. It belongs to the connection: incref to keep it. */
	void (*message)(struct inc_ndjson *conn, json_t *object, void *arg);
	/*
	 * The connection is over: code 0 for a close by the peer, else a positive errno;
	 * reason is one line. Called once, from the loop and never from within a function
	 * below; the owner answers with inc_ndjson_free.
	 */
	void (*closed)(struct inc_ndjson *conn, int code, const char *reason, void *arg);
	/* So many milliseconds are to pass before the next object is looked at; 0: none are. Until
	 * then nothing is read. May be NULL: never any. */
	unsigned int (*waits)(struct inc_ndjson *conn, void *arg);
	/* All that was queued is with the kernel. From the loop; may be NULL. */
	void (*written)(struct inc_ndjson *conn, void *arg);
};

struct inc_ndjson_limits {
	size_t max_line;                 /* bytes without the newline */
	size_t max_write;                /* bytes waiting to be read by the peer */
	unsigned int message_timeout_ms; /* from a line's first byte to its last, and for the
					  * peer to read something; 0: for ever */
	/* Where it waits for its end, of the same loop. NULL: the process's own, for who has one
	 * loop. */
	struct inc_ndjson_draining *draining;
};

/*
 * Takes over a connected socket: makes it non-blocking, on TCP sets keepalive and
 * no-delay. ops and limits are copied. NULL and err where that fails; the socket is
 * closed then, too.
 */
struct inc_ndjson *inc_ndjson_new(struct event_base *base, int fd,
				  const struct inc_ndjson_limits *limits,
				  const struct inc_ndjson_ops *ops, void *arg, struct inc_err *err);

/*
 * From here on by TLS, as the side that the context is of; before anything is sent or the loop runs
 * on. host: see inc_tls_start(). Nothing is said to a peer, and nothing of it is heard, before it
 * is proved. 0; or -errno and err: the connection is to be freed. It owns the context, too.
 */
int inc_ndjson_secure(struct inc_ndjson *conn, struct inc_tls *tls, const char *host,
		      struct inc_err *err);

/* Who the peer has proved to be, from the first message on. NULL: it speaks plainly, and may be
 * anybody. */
const char *inc_ndjson_identity(const struct inc_ndjson *conn);

/* Queues one object; the reference stays the caller's (inc_ndjson_send) or is stolen
 * (_new; NULL is -ENOMEM). Beyond max_write the connection ends (closed will be called)
 * and -ENOBUFS is returned. */
int inc_ndjson_send(struct inc_ndjson *conn, json_t *object);
int inc_ndjson_send_new(struct inc_ndjson *conn, json_t *object);

/* An error; seq: of the request that it answers, NULL: it has none. It stays the caller's. */
int inc_ndjson_send_error(struct inc_ndjson *conn, int code, json_t *seq, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Writes what is queued as far as the socket has room for it now. An owner calls it whose loop does
 * not run again. */
void inc_ndjson_flush(struct inc_ndjson *conn);

/*
 * Ends the connection, allowed inside the callbacks; none is called afterwards. What is
 * queued still goes out within a second, then the socket is closed. Where many wait so for peers
 * that do not hang up, further ones do not wait.
 */
void inc_ndjson_free(struct inc_ndjson *conn);

/* Closes at once what inc_ndjson_free left behind to drain (NULL: on the process's own list).
 * Before event_base_free; not from within the callbacks above. */
void inc_ndjson_drain_stop(struct inc_ndjson_draining *draining);

/* "10.77.0.1:40312", "[fd00::1]:40312", or "unix" */
const char *inc_ndjson_peer(const struct inc_ndjson *conn);
/* Whether the peer still has its direction open, by the kernel's TCP state. A connection can be
 * closed while bytes of it are unread, for example after a standstill of this process. 0: it is
 * open, or no TCP connection, or the kernel does not report the state. -ECONNRESET: the peer has
 * closed its direction, even if it still reads. */
int inc_ndjson_check_open(const struct inc_ndjson *conn, struct inc_err *err);

#endif
