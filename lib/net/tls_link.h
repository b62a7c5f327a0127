/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One TLS connection whose bytes somebody else moves: what the peer sent goes in, what it is to get
 * comes out, and in between is what both sides say. So the sockets of ndjson.h, libinccl, incctl
 * and inc-lab stay with those who have them, with their own ways of waiting. One thread at a time.
 *
 * After each call of inc_tls_link_take(), _write() and _end() the owner sends on what
 * inc_tls_link_output() gives, also after one that failed: it may be the alert that says why.
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
 * host: of who connects, see inc_tls_start(). What who connects has to say first is in the output
 * already; it owns the context, too. NULL and err where that fails.
 */
struct inc_tls_link *inc_tls_link_new(struct inc_tls *tls, const char *host, struct inc_err *err);
/* NULL is nothing. */
void inc_tls_link_free(struct inc_tls_link *link);

/* Bytes of the peer, any number. 0; or -errno with one line: nothing further can be said. */
int inc_tls_link_take(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err);
/* What the peer has said: so many bytes; 0: more must be taken first; -ECONNRESET: it says nothing
 * more, and said so; another -errno with one line: the connection is broken. */
ssize_t inc_tls_link_read(struct inc_tls_link *link, void *buf, size_t room, struct inc_err *err);

/* Says something; before the peer is proved it is kept. 0, or -errno with one line. */
int inc_tls_link_write(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err);
/* How much is kept so. */
size_t inc_tls_link_kept(const struct inc_tls_link *link);
/* Says that no more will be said. What is kept is dropped. */
void inc_tls_link_end(struct inc_tls_link *link);

/* Bytes for the peer, until the next call of a function above: *n of them, maybe 0. */
const void *inc_tls_link_output(struct inc_tls_link *link, size_t *n);
/* All of them have been taken over. */
void inc_tls_link_sent(struct inc_tls_link *link);

/* Both sides are proved. */
bool inc_tls_link_done(const struct inc_tls_link *link);
/* Who has connected, from then on. NULL before, and where it is us. */
const char *inc_tls_link_identity(const struct inc_tls_link *link);

#endif
