/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One TLS connection without a socket. The owner passes in the bytes that the peer has sent, sends
 * on the bytes that come out for the peer, and reads and writes plain text. So ndjson.h, libinccl,
 * incctl and inc-lab keep their sockets and their own ways of waiting. One thread at a time may use
 * a connection.
 *
 * After each call of inc_tls_link_take(), _write() and _end() the owner sends the bytes of
 * inc_tls_link_output(), even if the call has failed, because they may be the alert with the
 * reason.
 */
#ifndef INC_TLS_LINK_H
#define INC_TLS_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "lib/base/err.h"
#include "lib/net/tls.h"

struct inc_tls_link;

/*
 * Makes a connection in the role of the context, which the connection owns, too. host: for a
 * client, see inc_tls_start(). The output has the client's first message already. NULL and err on
 * failure.
 */
struct inc_tls_link *inc_tls_link_new(struct inc_tls *tls, const char *host, struct inc_err *err);
/* Frees the connection. link may be NULL. */
void inc_tls_link_free(struct inc_tls_link *link);

/* Passes bytes that the peer has sent to the connection. Returns 0, or -errno with one line, after
 * which the connection is unusable. */
int inc_tls_link_take(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err);
/* Reads decrypted bytes and returns their number. 0: the connection needs more bytes of the peer
 * first. -ECONNRESET: the peer has ended its direction by an alert. Any other -errno comes with one
 * line: the connection is broken. */
ssize_t inc_tls_link_read(struct inc_tls_link *link, void *buf, size_t room, struct inc_err *err);

/* Encrypts bytes for the peer. Before the handshake is done, it only stores them. Returns 0, or
 * -errno with one line. */
int inc_tls_link_write(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err);
/* Returns the number of bytes that are stored until the handshake is done. */
size_t inc_tls_link_kept(const struct inc_tls_link *link);
/* Ends our direction by an alert. Discards bytes that are still stored. */
void inc_tls_link_end(struct inc_tls_link *link);

/* Returns the encrypted bytes for the peer. *n becomes their number, which may be 0. They are valid
 * until the next call of a function above. */
const void *inc_tls_link_output(struct inc_tls_link *link, size_t *n);
/* Reports that the owner has sent or copied all these bytes. */
void inc_tls_link_sent(struct inc_tls_link *link);

/* Whether the handshake has authenticated both sides. */
bool inc_tls_link_done(const struct inc_tls_link *link);
/* Returns the identity of the client, after the handshake. NULL: the handshake is not done, or we
 * are the client. */
const char *inc_tls_link_identity(const struct inc_tls_link *link);

#endif
