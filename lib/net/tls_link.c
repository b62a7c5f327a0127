// SPDX-License-Identifier: BSD-2-Clause
/* One TLS connection (tls_link.h), which is OpenSSL between two memory BIOs. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include "lib/net/tls_errors.h"
#include "lib/net/tls_link.h"

/* Limit of the peer's requests for new traffic keys, because each costs work and an answer. Normal
 * peers hardly ever send one, because a key is good for 2^24 records. */
#define KEY_UPDATES_MAX 16

struct inc_tls_link {
	struct inc_tls *tls;
	SSL *ssl;
	/* encrypted bytes from the peer, and for the peer; owned by ssl */
	BIO *in, *out;
	/* plain bytes that were written before the handshake was done */
	BIO *kept;
	/* identity of the client that the handshake has authenticated; "": none yet, or we are the
	 * client */
	char identity[INC_TLS_IDENTITY_MAX + 1];
	unsigned int key_updates;
	bool begun;  /* the peer has sent bytes */
	bool done;   /* the handshake has authenticated both sides */
	bool broken; /* the connection is unusable */
};

static void on_message(int write, int version, int type, const void *buf, size_t len, SSL *ssl,
		       void *arg)
{
	struct inc_tls_link *link = arg;

	if (!write && type == SSL3_RT_HANDSHAKE && len &&
	    *(const unsigned char *)buf == SSL3_MT_KEY_UPDATE)
		link->key_updates++;
}

struct inc_tls_link *inc_tls_link_new(struct inc_tls *tls, const char *host, struct inc_err *err)
{
	struct inc_tls_link *link = calloc(1, sizeof(*link));
	INC_TLS_OWN_ERRORS();

	if (link) {
		link->in = BIO_new(BIO_s_mem());
		link->out = BIO_new(BIO_s_mem());
		link->kept = BIO_new(BIO_s_mem());
	}
	if (!link || !link->in || !link->out || !link->kept) {
		inc_err_set(err, ENOMEM, "TLS: %s", strerror(ENOMEM));
		goto fail;
	}
	link->ssl = inc_tls_start(tls, host, err);
	if (!link->ssl)
		goto fail;
	link->tls = inc_tls_hold(tls);
	SSL_set_bio(link->ssl, link->in, link->out);
	SSL_set_msg_callback(link->ssl, on_message);
	SSL_set_msg_callback_arg(link->ssl, link);
	if (!SSL_is_server(link->ssl))
		/* a client begins the handshake, which cannot be done yet, so the return value does
		 * not matter */
		SSL_do_handshake(link->ssl);
	return link;

fail:
	if (link) {
		BIO_free(link->in);
		BIO_free(link->out);
		link->in = link->out = NULL;
	}
	inc_tls_link_free(link);
	return NULL;
}

void inc_tls_link_free(struct inc_tls_link *link)
{
	INC_TLS_OWN_ERRORS();

	if (!link)
		return;
	SSL_free(link->ssl);
	inc_tls_free(link->tls);
	BIO_free(link->kept);
	free(link);
}

static int broken(struct inc_tls_link *link, int ret, struct inc_err *err)
{
	link->broken = true;
	return inc_tls_why(link->ssl, ret, err);
}

/* Fails because the peer's first byte does not begin a TLS record, and answers with an alert.
 * OpenSSL sends nothing to such a peer, whose program could then not report the reason. */
static int not_tls(struct inc_tls_link *link, struct inc_err *err)
{
	static const unsigned char protocol_version[] = {
		SSL3_RT_ALERT, 3, 3, 0, 2, SSL3_AL_FATAL, TLS1_AD_PROTOCOL_VERSION};

	BIO_write(link->out, protocol_version, sizeof(protocol_version));
	link->broken = true;
	return inc_err_set(err, EPROTO, "the other side does not speak TLS");
}

/* Encrypts all bytes, one record at a time, as OpenSSL does. This empties the queue of errors
 * before each record, because a handshake that succeeded may have left some errors there. */
static int write_all(struct inc_tls_link *link, const char *bytes, size_t n, struct inc_err *err)
{
	int ret;

	while (n) {
		ERR_clear_error();
		ret = SSL_write(link->ssl, bytes, n < INT_MAX ? n : INT_MAX);
		if (ret <= 0)
			return broken(link, ret, err);
		bytes += ret;
		n -= ret;
	}
	return 0;
}

/* Encrypts the bytes that were written before the handshake was done. */
static int flush_kept(struct inc_tls_link *link, struct inc_err *err)
{
	char *bytes;
	const long n = BIO_get_mem_data(link->kept, &bytes);
	int ret;

	if (n <= 0)
		return 0;
	ret = write_all(link, bytes, n, err);
	BIO_reset(link->kept);
	return ret;
}

static int shake_hands(struct inc_tls_link *link, struct inc_err *err)
{
	int ret;

	if (link->done)
		return 0;
	ret = SSL_do_handshake(link->ssl);
	if (ret <= 0)
		return SSL_get_error(link->ssl, ret) == SSL_ERROR_WANT_READ
			       ? 0
			       : broken(link, ret, err);
	if (SSL_is_server(link->ssl)) {
		ret = inc_tls_identity(link->ssl, link->identity, err);
		link->broken |= !!ret;
		if (ret)
			return ret;
	}
	link->done = true;
	return flush_kept(link, err);
}

int inc_tls_link_take(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err)
{
	INC_TLS_OWN_ERRORS();

	if (link->broken)
		return inc_err_set(err, EPROTO, "TLS: broken");
	if (!n)
		return 0;
	if (!link->begun && *(const unsigned char *)bytes != SSL3_RT_HANDSHAKE &&
	    *(const unsigned char *)bytes != SSL3_RT_ALERT)
		return not_tls(link, err);
	link->begun = true;
	if (n > INT_MAX || BIO_write(link->in, bytes, n) != (int)n) {
		link->broken = true;
		return inc_err_set(err, ENOMEM, "TLS: %s", strerror(ENOMEM));
	}
	return shake_hands(link, err);
}

ssize_t inc_tls_link_read(struct inc_tls_link *link, void *buf, size_t room, struct inc_err *err)
{
	int n;
	INC_TLS_OWN_ERRORS();

	if (link->broken)
		return inc_err_set(err, EPROTO, "TLS: broken");
	if (!link->done)
		return 0;
	n = SSL_read(link->ssl, buf, room < INT_MAX ? room : INT_MAX);
	if (link->key_updates > KEY_UPDATES_MAX) {
		link->broken = true;
		return inc_err_set(err, EPROTO, "TLS: the other side changes keys too often");
	}
	if (n > 0)
		return n;
	switch (SSL_get_error(link->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		return 0;
	case SSL_ERROR_ZERO_RETURN:
		return inc_err_set(err, ECONNRESET, "closed by peer");
	default:
		return broken(link, n, err);
	}
}

int inc_tls_link_write(struct inc_tls_link *link, const void *bytes, size_t n, struct inc_err *err)
{
	INC_TLS_OWN_ERRORS();

	if (link->broken)
		return inc_err_set(err, EPROTO, "TLS: broken");
	if (!n)
		return 0;
	if (n > INT_MAX)
		return inc_err_set(err, EMSGSIZE, "TLS: %zu bytes at once", n);
	if (!link->done) {
		if (BIO_write(link->kept, bytes, n) == (int)n)
			return 0;
		link->broken = true;
		return inc_err_set(err, ENOMEM, "TLS: %s", strerror(ENOMEM));
	}
	return write_all(link, bytes, n, err);
}

size_t inc_tls_link_kept(const struct inc_tls_link *link)
{
	return BIO_pending(link->kept);
}

void inc_tls_link_end(struct inc_tls_link *link)
{
	INC_TLS_OWN_ERRORS();

	BIO_reset(link->kept);
	if (!link->broken && link->done)
		SSL_shutdown(link->ssl);
}

const void *inc_tls_link_output(struct inc_tls_link *link, size_t *n)
{
	char *bytes;
	const long size = BIO_get_mem_data(link->out, &bytes);

	*n = size > 0 ? size : 0;
	return bytes;
}

void inc_tls_link_sent(struct inc_tls_link *link)
{
	BIO_reset(link->out);
}

bool inc_tls_link_done(const struct inc_tls_link *link)
{
	return link->done;
}

const char *inc_tls_link_identity(const struct inc_tls_link *link)
{
	return *link->identity ? link->identity : NULL;
}
