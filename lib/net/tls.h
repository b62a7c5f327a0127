/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 for the control plane's connections, by OpenSSL: with pre-shared keys or with
 * certificates, always with both sides proved, and with an identity of who connected. What this
 * gives is an SSL that is ready for a socket or a bufferevent; who owns that does the reading and
 * writing. No tickets, no resumption, no early data, nothing older than 1.3. A context may serve
 * many threads, an SSL one at a time.
 */
#ifndef INC_TLS_H
#define INC_TLS_H

#include <stdbool.h>
#include <openssl/types.h>
#include "lib/base/err.h"
#include "lib/net/tls_key.h"

struct inc_tls; /* what all connections of one side share; owns its keys */

/* Either key alone, or the other three; NULL: not given. */
struct inc_tls_files {
	const char *key;      /* tls_key.h; who connects has one key in it */
	const char *cert;     /* PEM: its own, then those between it and the CA's */
	const char *cert_key; /* PEM, not encrypted; mode 0600 */
	const char *ca;       /* PEM: who signs the other side's */
};

/* Whether any of them is given. */
bool inc_tls_wanted(const struct inc_tls_files *files);

/* As the environment has them: INCCL_KEY, INCCL_TLS_CERT, INCCL_TLS_CERT_KEY, INCCL_TLS_CA. */
struct inc_tls_files inc_tls_of_environment(void);

/* The side that listens, and the one that connects. NULL and err: one line that names the file. */
struct inc_tls *inc_tls_server(const struct inc_tls_files *files, struct inc_err *err);
struct inc_tls *inc_tls_client(const struct inc_tls_files *files, struct inc_err *err);
/* Another owner: it gives it back by inc_tls_free(), too. Any thread. */
struct inc_tls *inc_tls_hold(struct inc_tls *tls);
/* After all that inc_tls_start() gave; the last owner's ends it. NULL is nothing. */
void inc_tls_free(struct inc_tls *tls);

/*
 * One connection, the handshake still to be made; for SSL_free(). host: of who connects, the name
 * or address that the other side's certificate must have (subjectAltName); a key proves the other
 * side by itself. NULL and err where that fails.
 */
SSL *inc_tls_start(struct inc_tls *tls, const char *host, struct inc_err *err);

/*
 * Who has connected: the identity of its key, or its certificate's common name. 0 once the
 * handshake is done; -ENOTCONN before; -EACCES with a message where the certificate names nobody.
 */
int inc_tls_identity(SSL *ssl, char identity[INC_TLS_IDENTITY_MAX + 1], struct inc_err *err);

/* Why an SSL function that returned ret failed, as one line without the peer's name; empties
 * OpenSSL's queue of errors of this thread. Returns -EPROTO, or -errno of the socket. */
int inc_tls_why(SSL *ssl, int ret, struct inc_err *err);

#endif
