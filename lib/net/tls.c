// SPDX-License-Identifier: BSD-2-Clause
/*
 * TLS 1.3 by OpenSSL (tls.h). Programs make contexts when they start. OpenSSL calls the callbacks
 * here during the handshake, on the thread of the connection.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include "lib/base/printable.h"
#include "lib/net/tls.h"
#include "lib/net/tls_errors.h"

/* A pre-shared key belongs to one hash (RFC 8446, 4.2.11): SHA-256, which both of these suites
 * have. */
#define KEY_SUITES  "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
#define CERT_SUITES "TLS_AES_256_GCM_SHA384:" KEY_SUITES

/* number of the suite TLS_AES_128_GCM_SHA256 */
static const unsigned char key_suite[] = {0x13, 0x01};

struct inc_tls {
	SSL_CTX *ctx;
	bool server;
	unsigned int owners;
	/* the pre-shared keys; if n is 0, the context uses certificates instead */
	struct inc_tls_keys keys;
};

/* Returns the text of the first error in the queue, because that error has caused the others. */
static const char *reason(void)
{
	const unsigned long code = ERR_peek_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	if (code && ERR_SYSTEM_ERROR(code))
		text = strerror(ERR_GET_REASON(code));
	return text ? text : "no reason given";
}

static int failed(struct inc_err *err, int code, const char *what)
{
	const int ret = inc_err_set(err, code, "%s: %s", what, reason());

	ERR_clear_error();
	return ret;
}

/* Makes the session by which OpenSSL represents a pre-shared key. Returns NULL if there is no
 * memory. */
static SSL_SESSION *session_of(SSL *ssl, const struct inc_tls_key *key)
{
	const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, key_suite);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && cipher && SSL_SESSION_set_cipher(session, cipher) == 1 &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1 &&
	    SSL_SESSION_set1_master_key(session, key->secret, key->secret_bytes) == 1)
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

/* The identity that is stored if the client has offered a key with an identity that we do not
 * have. */
static const char unknown[] = "";

/* The identity that a client has offered and that we do not have, for the explanation of the
 * handshake that fails by it on this thread. "": there is none. */
static __thread char offered[INC_TLS_IDENTITY_MAX + 1];

/* Finds the key that the client has offered. An unknown identity is no error here, because
 * OpenSSL ends the handshake itself if there is neither a key nor a certificate. */
static int on_find(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
	struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	char name[INC_TLS_IDENTITY_MAX + 1];
	const struct inc_tls_key *key;

	*session = NULL;
	*offered = '\0';
	SSL_set_app_data(ssl, (char *)unknown);
	if (size >= sizeof(name) || memchr(identity, '\0', size))
		return 1;
	memcpy(name, identity, size);
	name[size] = '\0';
	key = inc_tls_keys_find(&tls->keys, name);
	if (!key) {
		snprintf(offered, sizeof(offered), "%s", name);
		inc_printable(offered);
		return 1;
	}
	*session = session_of(ssl, key);
	/* store the identity before the client has proved it, because inc_tls_identity() returns it
	 * only if the handshake has succeeded */
	SSL_set_app_data(ssl, (char *)key->identity);
	return *session != NULL;
}

/* Called when a client offers a key to a server that uses certificates. It records the offer, so
 * that inc_tls_why() can explain the failure. */
static int on_offer(SSL *ssl, const unsigned char *identity, size_t size, SSL_SESSION **session)
{
	*session = NULL;
	SSL_set_app_data(ssl, (char *)unknown);
	return 1;
}

/* Offers the client's own key to the server. md: a hash that the server has chosen. This cannot
 * offer a key that has another hash. */
static int on_use(SSL *ssl, const EVP_MD *md, const unsigned char **identity, size_t *size,
		  SSL_SESSION **session)
{
	struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const struct inc_tls_key *key = tls->keys.key;

	*session = NULL;
	if (md && !EVP_MD_is_a(md, "SHA256"))
		return 1;
	*session = session_of(ssl, key);
	*identity = (const unsigned char *)key->identity;
	*size = strlen(key->identity);
	return *session != NULL;
}

/* Gives no passphrase for an encrypted private key, because programs start without a user who
 * could type it. */
static int on_passphrase(char *buf, int size, int writes, void *arg)
{
	return 0;
}

static int take_key_file(struct inc_tls *tls, const char *path, struct inc_err *err)
{
	const int ret = inc_tls_keys_read(path, &tls->keys, err);

	if (ret)
		return ret;
	if (!tls->server && tls->keys.n != 1)
		return inc_err_set(err, EINVAL,
				   "%s: %zu keys, but a client needs a file with exactly one", path,
				   tls->keys.n);
	if (tls->server)
		SSL_CTX_set_psk_find_session_callback(tls->ctx, on_find);
	else
		SSL_CTX_set_psk_use_session_callback(tls->ctx, on_use);
	if (SSL_CTX_set_ciphersuites(tls->ctx, KEY_SUITES) != 1)
		return failed(err, EPROTO, "TLS suites");
	return 0;
}

static int take_private_key(struct inc_tls *tls, const char *path, struct inc_err *err)
{
	EVP_PKEY *key;
	FILE *f;
	int ret = inc_tls_secret_open(path, &f, err);

	if (ret)
		return ret;
	key = PEM_read_PrivateKey(f, NULL, on_passphrase, NULL);
	fclose(f);
	if (!key || SSL_CTX_use_PrivateKey(tls->ctx, key) != 1 ||
	    SSL_CTX_check_private_key(tls->ctx) != 1)
		ret = failed(err, EINVAL, path);
	EVP_PKEY_free(key);
	return ret;
}

static int take_certificates(struct inc_tls *tls, const struct inc_tls_files *files,
			     struct inc_err *err)
{
	STACK_OF(X509_NAME) * names;

	if (SSL_CTX_set_ciphersuites(tls->ctx, CERT_SUITES) != 1)
		return failed(err, EPROTO, "TLS suites");
	if (SSL_CTX_use_certificate_chain_file(tls->ctx, files->cert) != 1)
		return failed(err, EINVAL, files->cert);
	if (SSL_CTX_load_verify_file(tls->ctx, files->ca) != 1)
		return failed(err, EINVAL, files->ca);
	if (tls->server) {
		names = SSL_load_client_CA_file(files->ca);
		if (!names)
			return failed(err, EINVAL, files->ca);
		SSL_CTX_set_client_CA_list(tls->ctx, names);
		SSL_CTX_set_psk_find_session_callback(tls->ctx, on_offer);
	}
	return take_private_key(tls, files->cert_key, err);
}

static int check_files(const struct inc_tls_files *files, struct inc_err *err)
{
	const int certs = !!files->cert + !!files->cert_key + !!files->ca;

	if (files->key && certs)
		return inc_err_set(
			err, EINVAL,
			"there are a key file and certificates: use one of them, not both");
	if (!files->key && certs != 3)
		return inc_err_set(
			err, EINVAL,
			"a key file is needed, or a certificate, its key and the CA's certificate");
	return 0;
}

static int set_up(struct inc_tls *tls, const struct inc_tls_files *files, struct inc_err *err)
{
	tls->ctx = SSL_CTX_new(tls->server ? TLS_server_method() : TLS_client_method());
	if (!tls->ctx)
		return failed(err, ENOMEM, "TLS");
	if (SSL_CTX_set_min_proto_version(tls->ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_max_proto_version(tls->ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_set_num_tickets(tls->ctx, 0) != 1 ||
	    /* OpenSSL represents a key as a session. A server that verifies peers requires a
	     * session ID context, and the sessions of clients have none, so set one. */
	    (tls->server &&
	     SSL_CTX_set_session_id_context(tls->ctx, (const unsigned char *)"inc", 3) != 1))
		return failed(err, EPROTO, "TLS 1.3");
	SSL_CTX_set_app_data(tls->ctx, tls);
	SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_options(tls->ctx, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION |
					      SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(tls->ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					   SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* With keys no side sends a certificate. OpenSSL requires a certificate of a peer that
	 * shows no key, so it rejects such a peer. */
	SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return files->key ? take_key_file(tls, files->key, err)
			  : take_certificates(tls, files, err);
}

static struct inc_tls *new_side(bool server, const struct inc_tls_files *files, struct inc_err *err)
{
	struct inc_tls *tls;
	INC_TLS_OWN_ERRORS();

	if (check_files(files, err))
		return NULL;
	tls = calloc(1, sizeof(*tls));
	if (!tls) {
		inc_err_set(err, ENOMEM, "TLS: %s", strerror(ENOMEM));
		return NULL;
	}
	tls->server = server;
	tls->owners = 1;
	if (set_up(tls, files, err)) {
		inc_tls_free(tls);
		return NULL;
	}
	return tls;
}

bool inc_tls_wanted(const struct inc_tls_files *files)
{
	return files->key || files->cert || files->cert_key || files->ca;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

struct inc_tls_files inc_tls_of_environment(void)
{
	return (struct inc_tls_files){
		.key = variable("INCCL_KEY"),
		.cert = variable("INCCL_TLS_CERT"),
		.cert_key = variable("INCCL_TLS_CERT_KEY"),
		.ca = variable("INCCL_TLS_CA"),
	};
}

struct inc_tls *inc_tls_server(const struct inc_tls_files *files, struct inc_err *err)
{
	return new_side(true, files, err);
}

struct inc_tls *inc_tls_client(const struct inc_tls_files *files, struct inc_err *err)
{
	return new_side(false, files, err);
}

struct inc_tls *inc_tls_hold(struct inc_tls *tls)
{
	__atomic_add_fetch(&tls->owners, 1, __ATOMIC_RELAXED);
	return tls;
}

void inc_tls_free(struct inc_tls *tls)
{
	INC_TLS_OWN_ERRORS();

	if (!tls || __atomic_sub_fetch(&tls->owners, 1, __ATOMIC_ACQ_REL))
		return;
	SSL_CTX_free(tls->ctx);
	inc_tls_keys_free(&tls->keys);
	free(tls);
}

static bool expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
	/* Do not compare the host with the common name, which is an identity here and which any
	 * client may have. */
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
				       X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

SSL *inc_tls_start(struct inc_tls *tls, const char *host, struct inc_err *err)
{
	SSL *ssl = SSL_new(tls->ctx);

	if (!ssl) {
		failed(err, ENOMEM, "TLS");
		return NULL;
	}
	if (tls->server) {
		SSL_set_accept_state(ssl);
		return ssl;
	}
	SSL_set_connect_state(ssl);
	if (!tls->keys.n && (!host || !*host || !expect_host(ssl, host))) {
		inc_err_set(err, EINVAL, "\"%s\": no name for a certificate", host ? host : "");
		ERR_clear_error();
		SSL_free(ssl);
		return NULL;
	}
	return ssl;
}

int inc_tls_identity(SSL *ssl, char identity[INC_TLS_IDENTITY_MAX + 1], struct inc_err *err)
{
	const struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const char *of_key = SSL_get_app_data(ssl);
	X509 *cert = SSL_get0_peer_certificate(ssl);
	X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;
	int n;

	if (!SSL_is_init_finished(ssl))
		return inc_err_set(err, ENOTCONN, "the handshake is not done");
	if (tls->keys.n && of_key && *of_key) {
		strcpy(identity, of_key);
		return 0;
	}
	/* Ask for the length first, because a name that was cut to the buffer would be another
	 * identity. */
	n = subject ? X509_NAME_get_text_by_NID(subject, NID_commonName, NULL, 0) : -1;
	if (n < 1 || n > INC_TLS_IDENTITY_MAX ||
	    X509_NAME_get_text_by_NID(subject, NID_commonName, identity,
				      INC_TLS_IDENTITY_MAX + 1) != n ||
	    strlen(identity) != (size_t)n)
		return inc_err_set(err, EACCES,
				   "the certificate has no common name of 1 to %d bytes",
				   INC_TLS_IDENTITY_MAX);
	return inc_tls_identity_check(identity, err) ? -EACCES : 0;
}

/* Explains a failed handshake if one side uses keys and the other certificates, or if a
 * certificate cannot sign. NULL: the error has another cause. */
static const char *mixed_up(const SSL *ssl, unsigned long code)
{
	const struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

	if (SSL_is_init_finished(ssl) || ERR_GET_LIB(code) != ERR_LIB_SSL)
		return NULL;
	switch (ERR_GET_REASON(code)) {
	/* OpenSSL has found no certificate of this side that can sign */
	case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
		if (tls->server && !tls->keys.n)
			return "our certificate's key makes no signature that the other side "
			       "accepts";
		return tls->server && tls->keys.n && !SSL_get_app_data(ssl)
			       ? "the other side offers no key; maybe it uses certificates"
			       : NULL;
	case SSL_R_CERTIFICATE_VERIFY_FAILED:
		return !tls->server && tls->keys.n
			       ? "the other side shows a certificate and accepts no key"
			       : NULL;
	/* the client uses keys, so it has no CA and rejects our certificate */
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
		return tls->server && !tls->keys.n && SSL_get_app_data(ssl)
			       ? "the other side offers a key, but we use certificates"
			       : NULL;
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
		return !tls->server && !tls->keys.n
			       ? "the other side shows no certificate; maybe it uses keys, or "
				 "its certificate cannot sign in TLS 1.3"
			       : NULL;
	default:
		return NULL;
	}
}

/* Explains a failed handshake by a wrong key; NULL: the error has another cause. OpenSSL reports
 * only the consequence, which does not help to correct the key file. */
static const char *wrong_key(const SSL *ssl, unsigned long code)
{
	const struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

	if (!tls->keys.n || SSL_is_init_finished(ssl) || ERR_GET_LIB(code) != ERR_LIB_SSL)
		return NULL;
	switch (ERR_GET_REASON(code)) {
	case SSL_R_BINDER_DOES_NOT_VERIFY:
		return tls->server ? "we have another secret for" : NULL;
	/* we have neither the client's key nor a certificate */
	case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
		return !tls->server ? NULL
		       : *offered   ? "we have no key for"
				    : "we have no such key";
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
		return tls->server ? NULL : "the other side has another secret for";
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
		return tls->server ? NULL : "the other side has no key for";
	default:
		return NULL;
	}
}

/* Returns the identity of the key that the handshake used. That is our own key if we are the
 * client, else the key that the client has offered. "": no key. */
static const char *key_meant(const SSL *ssl)
{
	const struct inc_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const char *named = SSL_get_app_data(ssl);

	return !tls->server ? tls->keys.key->identity : named && *named ? named : offered;
}

int inc_tls_why(SSL *ssl, int ret, struct inc_err *err)
{
	const int saved = errno, kind = SSL_get_error(ssl, ret);
	const unsigned long first = ERR_peek_error();
	const char *mixed = mixed_up(ssl, first), *key = wrong_key(ssl, first);
	const bool certificate = ERR_GET_LIB(first) == ERR_LIB_SSL &&
				 ERR_GET_REASON(first) == SSL_R_CERTIFICATE_VERIFY_FAILED;
	int code;

	if (kind == SSL_ERROR_ZERO_RETURN)
		code = inc_err_set(err, ECONNRESET, "TLS: closed by the peer");
	else if (mixed)
		code = inc_err_set(err, EPROTO, "TLS: %s", mixed);
	else if (certificate)
		code = inc_err_set(err, EPROTO, "TLS: the peer's certificate: %s",
				   X509_verify_cert_error_string(SSL_get_verify_result(ssl)));
	else if (kind == SSL_ERROR_SYSCALL && !first)
		code = inc_err_set(err, saved ? saved : ECONNRESET, "TLS: %s",
				   saved ? strerror(saved) : "cut off by the peer");
	else if (key)
		code = inc_err_set(err, EPROTO, "TLS: %s%s%s", key, *key_meant(ssl) ? " " : "",
				   key_meant(ssl));
	else
		code = failed(err, EPROTO, "TLS");
	offered[0] = '\0'; /* the next handshake on this thread may offer none */
	ERR_clear_error();
	return code;
}
