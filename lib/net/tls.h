/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TLS 1.3 for the connections of the control plane, by OpenSSL. It uses pre-shared keys or
 * certificates, and always authenticates both sides, which gives the identity of the client. This
 * module makes an SSL for a socket or a bufferevent; its owner reads and writes. Session tickets,
 * resumption, early data and older versions are disabled. A context may serve many threads, an SSL
 * one at a time.
 */
#ifndef INC_TLS_H
#define INC_TLS_H

#include <stdbool.h>
#include <openssl/types.h>
#include "lib/base/err.h"
#include "lib/base/opt.h"
#include "lib/net/tls_key.h"

struct inc_tls; /* A context of TLS, which all connections of one side share. It owns its keys. */

/* The names of the files that were given: either key alone, or the other three. NULL: not given. */
struct inc_tls_files {
	const char *key;      /* keys (tls_key.h); the file of a client has one key */
	const char *cert;     /* PEM: our own certificate, then those between it and the CA's */
	const char *cert_key; /* PEM: private key of cert, not encrypted; the file has mode 0600 */
	const char *ca;       /* PEM: the CA that signs the other side's certificate */
};

/* The options --key, --tls-cert, --tls-cert-key and --tls-ca, for a member struct inc_tls_files of
 * a program's settings. inc_tls_server() and inc_tls_client() check the files. */
extern const struct inc_opt inc_tls_options[];

/* Whether any of the files was given. */
bool inc_tls_wanted(const struct inc_tls_files *files);

/* Returns the files that the environment names: INCCL_KEY, INCCL_TLS_CERT, INCCL_TLS_CERT_KEY,
 * INCCL_TLS_CA. */
struct inc_tls_files inc_tls_of_environment(void);

/* These make the context of the side that listens, and of the side that connects. On failure they
 * return NULL, and err has one line that names the file. */
struct inc_tls *inc_tls_server(const struct inc_tls_files *files, struct inc_err *err);
struct inc_tls *inc_tls_client(const struct inc_tls_files *files, struct inc_err *err);
/* Adds an owner to the context, who calls inc_tls_free(), too. Any thread may call this. */
struct inc_tls *inc_tls_hold(struct inc_tls *tls);
/* Releases the context; the last owner's call frees it. Call it after all of its SSLs have been
 * freed. NULL is allowed. */
void inc_tls_free(struct inc_tls *tls);

/*
 * Makes the SSL of one connection, before the handshake; for SSL_free(). host: for a client, the
 * name or address that the certificate of the other side must have (subjectAltName). With a key it
 * is not needed, because the key authenticates the other side. NULL and err on failure.
 */
SSL *inc_tls_start(struct inc_tls *tls, const char *host, struct inc_err *err);

/*
 * Returns the identity of the peer, which is that of its key, or the common name of its
 * certificate. 0: the handshake is done. -ENOTCONN: it is not done. -EACCES with a message: the
 * certificate has no such name.
 */
int inc_tls_identity(SSL *ssl, char identity[INC_TLS_IDENTITY_MAX + 1], struct inc_err *err);

/* Explains in one line why an SSL function that returned ret has failed, without the peer's
 * name. Empties this thread's queue of OpenSSL errors. Returns -EPROTO, or -errno of the socket. */
int inc_tls_why(SSL *ssl, int ret, struct inc_err *err);

/* The options --key, --tls-cert, --tls-cert-key and --tls-ca, for a member struct inc_tls_files of
 * a program's settings. They are the same for every program on the control plane.
 * inc_tls_server() and inc_tls_client() check the files. */
extern const struct inc_opt inc_tls_options[];

#endif
