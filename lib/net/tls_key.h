/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Key files: pre-shared keys, each with the identity that it proves. A line is an identity, a blank
 * and the secret in hex. Empty lines and lines that begin with # are ignored. A client's file has
 * one key, a server's file the keys of all clients. Only the file's owner may have the right to
 * read it. Contexts (tls.h) and programs that make keys use these functions. Any thread may call
 * them.
 */
#ifndef INC_TLS_KEY_H
#define INC_TLS_KEY_H

#include <stddef.h>
#include <stdio.h>
#include "lib/base/err.h"

/* longest identity, in bytes, which are letters, digits and "-_.:@" */
#define INC_TLS_IDENTITY_MAX   128
#define INC_TLS_SECRET_MIN     16 /* shortest secret, in bytes */
#define INC_TLS_SECRET_MAX     64
#define INC_TLS_SECRET_DEFAULT 32
#define INC_TLS_KEYS_MAX       65536 /* limit of keys in one file */

struct inc_tls_key {
	char identity[INC_TLS_IDENTITY_MAX + 1];
	size_t secret_bytes;
	unsigned char secret[INC_TLS_SECRET_MAX];
};

struct inc_tls_keys {
	size_t n;
	struct inc_tls_key *key; /* array of keys, sorted by identity; owned */
};

/* Checks whether a text can be an identity. Returns 0, or -EINVAL and a sentence that quotes the
 * text. */
int inc_tls_identity_check(const char *text, struct inc_err *err);

/*
 * Opens a file with a secret. It must be a regular file, and only its owner may have the right to
 * read or write it. In $CREDENTIALS_DIRECTORY its group may read it, too, because an ACL that
 * systemd sets looks like that. 0 and *out, or -errno with a message that names the file.
 */
int inc_tls_secret_open(const char *path, FILE **out, struct inc_err *err);

/* Reads a key file, which must have at least one key, and no identity twice. Returns 0, or -errno
 * with a message. The message names file and line but quotes nothing of the line. On failure *keys
 * is empty. */
int inc_tls_keys_read(const char *path, struct inc_tls_keys *keys, struct inc_err *err);
/* Finds a key by its identity. Returns NULL if there is none. */
const struct inc_tls_key *inc_tls_keys_find(const struct inc_tls_keys *keys, const char *identity);
/* Overwrites the secrets and frees the keys. */
void inc_tls_keys_free(struct inc_tls_keys *keys);

/* Makes a key with a random secret. Returns 0 or -errno. */
int inc_tls_key_make(struct inc_tls_key *key, const char *identity, struct inc_err *err);
/* Writes keys to a new file with mode 0600. -EEXIST: the path exists. Returns 0, or -errno with a
 * message. On failure there is no new file. */
int inc_tls_keys_write(const char *path, const struct inc_tls_keys *keys, struct inc_err *err);

#endif
