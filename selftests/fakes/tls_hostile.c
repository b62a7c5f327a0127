// SPDX-License-Identifier: BSD-2-Clause
/* Makes records of TLS 1.3 itself (tls_hostile.h; RFC 8446, 5.2 and 7.3). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include "selftests/fakes/tls_hostile.h"

#define SECRET_BYTES 32 /* bytes of a SHA-256 hash */
#define KEY_BYTES    16 /* bytes of an AES-128 key */
#define IV_BYTES     12
#define TAG_BYTES    16
#define HEAD_BYTES   5
/* number of key updates, one more than KEY_UPDATES_MAX in lib/net/tls_link.c */
#define UPDATES 17

struct tls_hostile {
	SSL *ssl;
	BIO *in, *out; /* ends of the SSL object: bytes that it receives, and bytes that it sends */
	uint8_t secret[SECRET_BYTES], key[KEY_BYTES], iv[IV_BYTES];
	uint64_t sequence;
};

/* HKDF-Expand-Label(secret, label, "", n) for up to one hash's length. */
static void expand(const uint8_t *secret, const char *label, uint8_t *out, size_t n)
{
	uint8_t info[64] = {0, n, 6 + strlen(label), 't', 'l', 's', '1', '3', ' '};
	const size_t len = 9 + strlen(label);
	uint8_t made[SECRET_BYTES];

	memcpy(info + 9, label, strlen(label));
	info[len] = 0;     /* the context of HKDF-Expand-Label is empty */
	info[len + 1] = 1; /* counter of HKDF-Expand, because this is the first block */
	HMAC(EVP_sha256(), secret, SECRET_BYTES, info, len + 2, made, NULL);
	memcpy(out, made, n);
}

static void use_secret(struct tls_hostile *h)
{
	expand(h->secret, "key", h->key, sizeof(h->key));
	expand(h->secret, "iv", h->iv, sizeof(h->iv));
	h->sequence = 0;
}

/* The index under which an SSL object stores its struct tls_hostile, because the product uses the
 * app_data. */
static int place(void)
{
	static int index = -1;

	if (index < 0)
		index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	return index;
}

/* Callback of OpenSSL for the key log. It gets the secrets as lines: LABEL RANDOM SECRET. */
static void on_secret(const SSL *ssl, const char *line)
{
	const char *label =
		SSL_is_server(ssl) ? "SERVER_TRAFFIC_SECRET_0 " : "CLIENT_TRAFFIC_SECRET_0 ";
	struct tls_hostile *h = SSL_get_ex_data(ssl, place());
	const char *hex = strrchr(line, ' ') + 1;
	unsigned int byte;

	/* the context may be shared with an SSL object of the product, which has no struct
	 * tls_hostile */
	if (!h || strncmp(line, label, strlen(label)) != 0 || strlen(hex) != 2 * SECRET_BYTES)
		return;
	for (size_t i = 0; i < SECRET_BYTES; i++) {
		sscanf(hex + 2 * i, "%2x", &byte);
		h->secret[i] = byte;
	}
	use_secret(h);
}

struct tls_hostile *tls_hostile_new(struct inc_tls *tls)
{
	struct tls_hostile *h = calloc(1, sizeof(*h));

	h->ssl = inc_tls_start(tls, NULL, NULL);
	h->in = BIO_new(BIO_s_mem());
	h->out = BIO_new(BIO_s_mem());
	SSL_set_bio(h->ssl, h->in, h->out);
	SSL_set_ex_data(h->ssl, place(), h);
	SSL_CTX_set_keylog_callback(SSL_get_SSL_CTX(h->ssl), on_secret);
	SSL_do_handshake(h->ssl); /* the handshake starts now if this side connects */
	ERR_clear_error();
	return h;
}

void tls_hostile_free(struct tls_hostile *h)
{
	SSL_free(h->ssl);
	free(h);
	ERR_clear_error();
}

void tls_hostile_take(struct tls_hostile *h, const void *bytes, size_t n)
{
	if (tls_hostile_done(h))
		return;
	BIO_write(h->in, bytes, n);
	SSL_do_handshake(h->ssl);
	ERR_clear_error();
}

bool tls_hostile_done(const struct tls_hostile *h)
{
	return SSL_is_init_finished(h->ssl);
}

const void *tls_hostile_output(struct tls_hostile *h, size_t *n)
{
	char *bytes;
	const long size = BIO_get_mem_data(h->out, &bytes);

	*n = size > 0 ? size : 0;
	return bytes;
}

void tls_hostile_sent(struct tls_hostile *h)
{
	BIO_reset(h->out);
}

void tls_hostile_record(struct tls_hostile *h, uint8_t type, const void *bytes, size_t n)
{
	const size_t body = n + 1 + TAG_BYTES;
	const uint8_t head[HEAD_BYTES] = {SSL3_RT_APPLICATION_DATA, 3, 3, body >> 8, body};
	uint8_t plain[TLS_HOSTILE_RECORD_MAX + 1], sealed[sizeof(plain) + TAG_BYTES],
		nonce[IV_BYTES];
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	int len;

	memcpy(plain, bytes, n);
	plain[n] = type;
	memcpy(nonce, h->iv, sizeof(nonce));
	for (unsigned int i = 0; i < 8; i++)
		nonce[IV_BYTES - 1 - i] ^= h->sequence >> 8 * i;
	h->sequence++;
	EVP_EncryptInit_ex(ctx, EVP_aes_128_gcm(), NULL, h->key, nonce);
	EVP_EncryptUpdate(ctx, NULL, &len, head, sizeof(head));
	EVP_EncryptUpdate(ctx, sealed, &len, plain, n + 1);
	EVP_EncryptFinal_ex(ctx, sealed + len, &len);
	EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, sealed + n + 1);
	EVP_CIPHER_CTX_free(ctx);
	tls_hostile_raw(h, head, sizeof(head));
	tls_hostile_raw(h, sealed, body);
}

void tls_hostile_update(struct tls_hostile *h, bool asks)
{
	const uint8_t update[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, asks};

	tls_hostile_record(h, SSL3_RT_HANDSHAKE, update, sizeof(update));
	expand(h->secret, "traffic upd", h->secret, sizeof(h->secret));
	use_secret(h);
}

void tls_hostile_raw(struct tls_hostile *h, const void *bytes, size_t n)
{
	BIO_write(h->out, bytes, n);
}

void tls_hostile_flood(struct tls_hostile *h)
{
	static const uint8_t sealed_wrongly[HEAD_BYTES + 32] = {SSL3_RT_APPLICATION_DATA, 3, 3, 0,
								32};

	for (unsigned int i = 0; i < UPDATES; i++)
		tls_hostile_update(h, false);
	tls_hostile_raw(h, sealed_wrongly, sizeof(sealed_wrongly));
}

void tls_hostile_half(struct tls_hostile *h)
{
	static const uint8_t half[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1};

	tls_hostile_record(h, SSL3_RT_HANDSHAKE, half, sizeof(half));
}
