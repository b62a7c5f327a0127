// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* lib/net/tls: which peers are accepted, and that peers that are rejected receive no data. Both
 * sides are OpenSSL's, and memory takes the place of the network. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include "lib/net/tls.h"

#define DAY_S 86400L

static char dir[] = "/tmp/test_tls.XXXXXX";
static const char hex16[] = "00112233445566778899aabbccddeeff";

static const char *at(const char *name)
{
	/* paths that at() has returned, because a call uses up to four of them */
	static char path[4][sizeof(dir) + 64];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void put(const char *name, mode_t mode, const char *text)
{
	FILE *f = fopen(at(name), "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(at(name), mode), 0);
}

/* Makes a certificate for the common name cn and, if alt is set, for the host alt. ca signs the
 * certificate; if ca is NULL, it signs itself. It is valid for this number of days. Its key is in
 * NAME.key. */
struct signer {
	X509 *cert;
	EVP_PKEY *key;
};

static struct signer certify(const char *name, const char *cn, const char *alt,
			     const struct signer *ca, long days)
{
	struct signer made = {X509_new(), EVP_EC_gen("P-256")};
	X509_EXTENSION *ext;
	X509_NAME *subject;
	char file[64];
	FILE *f;

	assert_non_null(made.cert);
	assert_non_null(made.key);
	X509_set_version(made.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(made.cert), random());
	X509_gmtime_adj(X509_getm_notBefore(made.cert), -10 * DAY_S);
	X509_gmtime_adj(X509_getm_notAfter(made.cert), days * DAY_S);
	X509_set_pubkey(made.cert, made.key);
	subject = X509_get_subject_name(made.cert);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)cn, -1, -1,
				   0);
	X509_set_issuer_name(made.cert, ca ? X509_get_subject_name(ca->cert) : subject);
	if (!ca)
		alt = "critical,CA:TRUE";
	if (alt) {
		ext = X509V3_EXT_conf_nid(NULL, NULL,
					  ca ? NID_subject_alt_name : NID_basic_constraints, alt);
		assert_non_null(ext);
		X509_add_ext(made.cert, ext, -1);
		X509_EXTENSION_free(ext);
	}
	assert_true(X509_sign(made.cert, ca ? ca->key : made.key, EVP_sha256()) > 0);
	f = fopen(at(name), "w");
	assert_non_null(f);
	assert_int_equal(PEM_write_X509(f, made.cert), 1);
	fclose(f);
	snprintf(file, sizeof(file), "%s.key", name);
	put(file, 0600, "");
	f = fopen(at(file), "w");
	assert_non_null(f);
	assert_int_equal(PEM_write_PrivateKey(f, made.key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(f);
	return made;
}

static void discard(struct signer s)
{
	X509_free(s.cert);
	EVP_PKEY_free(s.key);
}

static struct inc_tls *side(bool server, const struct inc_tls_files *files)
{
	struct inc_err err = {0};
	struct inc_tls *tls = server ? inc_tls_server(files, &err) : inc_tls_client(files, &err);

	if (!tls)
		fail_msg("%s", err.msg);
	return tls;
}

static struct inc_tls *by_key(bool server, const char *name)
{
	return side(server, &(struct inc_tls_files){.key = at(name)});
}

static struct inc_tls *by_cert(bool server, const char *name, const char *ca)
{
	char key[64];

	snprintf(key, sizeof(key), "%s.key", name);
	return side(server,
		    &(struct inc_tls_files){.cert = at(name), .cert_key = at(key), .ca = at(ca)});
}

/* A server's end of a connection. The client's end is in memory. */
struct tls_pair {
	SSL *server, *client;
	BIO *wire; /* the client's end of the wire, if there is no client object */
	int server_ret, client_ret;
};

static struct tls_pair join(struct inc_tls *server, SSL *client)
{
	struct tls_pair p = {.server = inc_tls_start(server, NULL, NULL), .client = client};
	BIO *near, *far;

	assert_non_null(p.server);
	assert_int_equal(BIO_new_bio_pair(&near, 1 << 17, &far, 1 << 17), 1);
	SSL_set_bio(p.server, near, near);
	if (client)
		SSL_set_bio(client, far, far);
	else
		p.wire = far;
	return p;
}

static void part(struct tls_pair *p)
{
	SSL_free(p->server);
	SSL_free(p->client);
	BIO_free(p->wire);
}

/* Runs both sides for more turns than any handshake needs. */
static void shake(struct tls_pair *p)
{
	ERR_clear_error();
	for (int i = 0; i < 8; i++) {
		p->client_ret = SSL_do_handshake(p->client);
		if (p->client_ret != 1 && SSL_get_error(p->client, p->client_ret) == SSL_ERROR_SSL)
			ERR_clear_error();
		p->server_ret = SSL_do_handshake(p->server);
		if (p->server_ret != 1 && SSL_get_error(p->server, p->server_ret) == SSL_ERROR_SSL)
			break;
	}
}

/* Checks that the handshake succeeds, that the server gets the client's identity, and that a word
 * passes each way. */
static void let_in(struct inc_tls *server, struct inc_tls *client, const char *host,
		   const char *who)
{
	struct tls_pair p = join(server, inc_tls_start(client, host, NULL));
	char identity[INC_TLS_IDENTITY_MAX + 1], word[8] = "";
	struct inc_err err = {0};

	assert_int_equal(inc_tls_identity(p.server, identity, &err), -ENOTCONN);
	shake(&p);
	if (p.server_ret != 1)
		fail_msg("%s: %s", who, inc_tls_why(p.server, p.server_ret, &err) ? err.msg : "");
	assert_int_equal(p.client_ret, 1);
	assert_int_equal(SSL_version(p.server), TLS1_3_VERSION);
	assert_int_equal(inc_tls_identity(p.server, identity, &err), 0);
	assert_string_equal(identity, who);
	assert_int_equal(SSL_write(p.client, "ask", 4), 4);
	assert_int_equal(SSL_read(p.server, word, sizeof(word)), 4);
	assert_string_equal(word, "ask");
	assert_int_equal(SSL_write(p.server, "tell", 5), 5);
	assert_int_equal(SSL_read(p.client, word, sizeof(word)), 5);
	assert_string_equal(word, "tell");
	part(&p);
}

/* Checks that the server has read no data of the client, has no identity for it, and can send no
 * data. */
static void told_nothing(struct tls_pair *p)
{
	char identity[INC_TLS_IDENTITY_MAX + 1], word[8];
	struct inc_err err;

	assert_true(SSL_read(p->server, word, sizeof(word)) <= 0);
	assert_int_equal(inc_tls_identity(p->server, identity, &err), -ENOTCONN);
	assert_true(SSL_write(p->server, "tell", 5) <= 0);
	ERR_clear_error();
}

static void kept_out(struct inc_tls *server, SSL *client)
{
	struct tls_pair p = join(server, client);

	assert_non_null(client);
	shake(&p);
	assert_int_not_equal(p.server_ret, 1);
	if (SSL_is_init_finished(client))
		/* the client's side of the handshake may be complete */
		SSL_write(client, "ask", 4);
	told_nothing(&p);
	part(&p);
}

static void test_keys(void **state)
{
	struct inc_tls *server, *admin, *s0;
	struct inc_tls_keys all = {0}, one = {0};
	struct inc_err err = {0};

	all.key = calloc(2, sizeof(*all.key));
	assert_non_null(all.key);
	all.n = 2;
	assert_int_equal(inc_tls_key_make(&all.key[0], "switch:s0", &err), 0);
	assert_int_equal(inc_tls_key_make(&all.key[1], "admin", &err), 0);
	assert_memory_not_equal(all.key[0].secret, all.key[1].secret, INC_TLS_SECRET_DEFAULT);
	assert_int_equal(inc_tls_keys_write(at("all"), &all, &err), 0);
	assert_int_equal(inc_tls_keys_write(at("all"), &all, &err), -EEXIST);
	one.n = 1;
	one.key = &all.key[0];
	assert_int_equal(inc_tls_keys_write(at("s0"), &one, &err), 0);
	one.key = &all.key[1];
	assert_int_equal(inc_tls_keys_write(at("admin"), &one, &err), 0);
	inc_tls_keys_free(&all);
	server = by_key(true, "all");
	s0 = by_key(false, "s0");
	admin = by_key(false, "admin");
	let_in(server, s0, NULL, "switch:s0");
	let_in(server, admin, NULL, "admin");
	inc_tls_free(s0);
	inc_tls_free(admin);
	inc_tls_free(server);
	/* A connecting side shows its identity by its key, so a file with two keys is an error. */
	assert_null(inc_tls_client(&(struct inc_tls_files){.key = at("all")}, &err));
	assert_non_null(strstr(err.msg, "a file with exactly one"));
}

static void test_strangers_keys(void **state)
{
	static const char *const lines[] = {
		"switch:s0 ffffffffffffffffffffffffffffffff\n", /* a line with a wrong secret */
		/* a line with an identity that the server does not have */
		"switch:s9 00112233445566778899aabbccddeeff\n",
		/* a line with only the beginning of an identity */
		"switch:s 00112233445566778899aabbccddeeff\n",
		/* a line with more than an identity */
		"switch:s00 00112233445566778899aabbccddeeff\n",
		/* a line with another identity but the secret of switch:s0 */
		"admin 00112233445566778899aabbccddeeff\n",
	};
	struct inc_tls *server, *client;

	put("server", 0600,
	    "switch:s0 00112233445566778899aabbccddeeff\n"
	    "admin aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n");
	server = by_key(true, "server");
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		put("client", 0600, lines[i]);
		client = by_key(false, "client");
		kept_out(server, inc_tls_start(client, NULL, NULL));
		inc_tls_free(client);
	}
	put("client", 0600, "switch:s0 00112233445566778899aabbccddeeff\n");
	client = by_key(false, "client");
	let_in(server, client, NULL, "switch:s0");
	inc_tls_free(client);
	inc_tls_free(server);
}

static void test_certificates(void **state)
{
	struct signer ca = certify("ca", "the lab", NULL, NULL, 30);
	struct signer foreign = certify("foreign", "the lab", NULL, NULL, 30);
	struct inc_tls *server, *client, *key;

	discard(certify("server.pem", "controller", "DNS:node7,IP:10.0.0.1", &ca, 30));
	discard(certify("s0.pem", "switch:s0", NULL, &ca, 30));
	discard(certify("late.pem", "switch:s0", NULL, &ca, -1));
	discard(certify("alien.pem", "switch:s0", NULL, &foreign, 30));
	discard(certify("false.pem", "node7", "DNS:node7", &foreign, 30));
	server = by_cert(true, "server.pem", "ca");
	client = by_cert(false, "s0.pem", "ca");
	let_in(server, client, "node7", "switch:s0");
	let_in(server, client, "10.0.0.1", "switch:s0");
	/* A common name is no host name, and another host's name does not match. */
	kept_out(server, inc_tls_start(client, "controller", NULL));
	kept_out(server, inc_tls_start(client, "node8", NULL));
	kept_out(server, inc_tls_start(client, "10.0.0.2", NULL));
	assert_null(inc_tls_start(client, NULL, NULL));
	/* A valid certificate of a member is not that of a host. */
	inc_tls_free(server);
	server = by_cert(true, "s0.pem", "ca");
	kept_out(server, inc_tls_start(client, "switch:s0", NULL));
	inc_tls_free(server);
	server = by_cert(true, "false.pem", "ca");
	kept_out(server, inc_tls_start(client, "node7", NULL));
	put("client", 0600, "switch:s0 00112233445566778899aabbccddeeff\n");
	key = by_key(false, "client");
	kept_out(server, inc_tls_start(key, "node7", NULL));
	inc_tls_free(server);
	inc_tls_free(client);
	server = by_cert(true, "server.pem", "ca");
	kept_out(server, inc_tls_start(key, "node7", NULL));
	inc_tls_free(key);
	client = by_cert(false, "late.pem", "ca");
	kept_out(server, inc_tls_start(client, "node7", NULL));
	inc_tls_free(client);
	client = by_cert(false, "alien.pem", "ca");
	kept_out(server, inc_tls_start(client, "node7", NULL));
	inc_tls_free(client);
	inc_tls_free(server);
	discard(ca);
	discard(foreign);
}

/* Clients of other software: one with older TLS, one without a certificate, and one that shows a
 * certificate to a server that uses keys. */
static void test_other_clients(void **state)
{
	struct signer ca = certify("ca", "the lab", NULL, NULL, 30);
	struct inc_tls *server;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	assert_non_null(ctx);
	discard(certify("server.pem", "controller", "DNS:node7", &ca, 30));
	discard(certify("s0.pem", "switch:s0", NULL, &ca, 30));
	server = by_cert(true, "server.pem", "ca");
	for (int keyed = 0; keyed < 2; keyed++) {
		SSL *client;

		/* this client does not verify the server, and has no certificate */
		client = SSL_new(ctx);
		SSL_set_connect_state(client);
		kept_out(server, client);
		client = SSL_new(ctx);
		assert_int_equal(SSL_use_certificate_file(client, at("s0.pem"), SSL_FILETYPE_PEM),
				 1);
		assert_int_equal(
			SSL_use_PrivateKey_file(client, at("s0.pem.key"), SSL_FILETYPE_PEM), 1);
		assert_int_equal(SSL_set_max_proto_version(client, TLS1_2_VERSION), 1);
		SSL_set_connect_state(client);
		kept_out(server, client);
		inc_tls_free(server);
		put("server", 0600, "switch:s0 00112233445566778899aabbccddeeff\n");
		server = by_key(true, "server");
	}
	inc_tls_free(server);
	SSL_CTX_free(ctx);
	discard(ca);
}

static void test_no_client(void **state)
{
	static const char plain[] = "{\"op\":\"groups\",\"seq\":1}\n";
	struct inc_tls *server, *client;
	unsigned char bytes[1 << 14];
	struct inc_err err;
	struct tls_pair p;
	SSL *half;
	int n;

	put("server", 0600, "switch:s0 00112233445566778899aabbccddeeff\n");
	server = by_key(true, "server");
	p = join(server, NULL);
	assert_int_equal(BIO_write(p.wire, plain, strlen(plain)), strlen(plain));
	n = SSL_do_handshake(p.server);
	assert_int_equal(inc_tls_why(p.server, n, &err), -EPROTO);
	assert_non_null(strstr(err.msg, "TLS: "));
	told_nothing(&p);
	part(&p);
	srandom(1);
	for (int i = 0; i < 1000; i++) {
		p = join(server, NULL);
		n = 1 + random() % (int)sizeof(bytes);
		for (int j = 0; j < n; j++)
			bytes[j] = random();
		if (i % 2) /* every second client sends a handshake record with random contents */
			memcpy(bytes, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9);
		BIO_write(p.wire, bytes, n);
		SSL_do_handshake(p.server);
		told_nothing(&p);
		part(&p);
	}
	/* sends half of a valid handshake, byte by byte */
	client = by_key(false, "server");
	half = inc_tls_start(client, NULL, NULL);
	SSL_set_bio(half, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
	SSL_do_handshake(half);
	n = BIO_read(SSL_get_wbio(half), bytes, sizeof(bytes));
	assert_true(n > 100);
	p = join(server, NULL);
	for (int i = 0; i < n; i++) {
		assert_int_equal(BIO_write(p.wire, &bytes[i], 1), 1);
		SSL_do_handshake(p.server);
		told_nothing(&p);
	}
	/* the half was valid, because the server has answered */
	assert_true(BIO_pending(p.wire) > 0);
	part(&p);
	SSL_free(half);
	inc_tls_free(client);
	inc_tls_free(server);
}

static void refused(const struct inc_tls_files *files, const char *why)
{
	struct inc_err err = {0};

	assert_null(inc_tls_server(files, &err));
	if (!strstr(err.msg, why))
		fail_msg("\"%s\" is not in \"%s\"", why, err.msg);
	assert_null(strstr(err.msg, hex16)); /* no error message contains a secret */
}

static void refused_key(mode_t mode, const char *text, const char *why)
{
	put("bad", mode, text);
	refused(&(struct inc_tls_files){.key = at("bad")}, why);
}

/* Reads a key file that systemd has provided as a credential. An ACL lets the service's user read
 * it, which appears as read permission of the group. */
static void given_by_systemd(const char *line)
{
	struct inc_tls_keys keys;
	struct inc_err err;

	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", dir, 1), 0);
	put("given", 0440, line);
	assert_int_equal(inc_tls_keys_read(at("given"), &keys, &err), 0);
	inc_tls_keys_free(&keys);
	refused_key(0444, line, "mode 0444");
	refused_key(0460, line, "mode 0460");
	/* directories that do not contain the key file directly */
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", at("giv"), 1), 0);
	refused_key(0440, line, "mode 0440");
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "/", 1), 0);
	refused_key(0440, line, "mode 0440");
	assert_int_equal(setenv("CREDENTIALS_DIRECTORY", "", 1), 0);
	refused_key(0440, line, "mode 0440");
	unsetenv("CREDENTIALS_DIRECTORY");
	refused_key(0440, line, "mode 0440");
}

static void test_files(void **state)
{
	char line[1024], long_name[INC_TLS_IDENTITY_MAX + 2];

	refused(&(struct inc_tls_files){.key = at("absent")}, "absent: No such file");
	refused(&(struct inc_tls_files){.key = dir}, "regular file");
	refused(&(struct inc_tls_files){0}, "a key file is needed");
	refused(&(struct inc_tls_files){.key = "a", .cert = "b"}, "not both");
	refused(&(struct inc_tls_files){.cert = "a", .ca = "b"}, "the CA's");
	snprintf(line, sizeof(line), "# mine\n\nadmin %s\n", hex16);
	refused_key(0640, line, "mode 0640 lets other users read the secret");
	refused_key(0604, line, "mode 0604");
	given_by_systemd(line);
	refused_key(0600, "# mine\n", "no key in it");
	snprintf(line, sizeof(line), "# mine\n%s\n", hex16);
	refused_key(0600, line, "bad:2: the line needs an identity");
	snprintf(line, sizeof(line), "admin %sg0\n", hex16);
	refused_key(0600, line, "bad:1: the secret is not hex");
	snprintf(line, sizeof(line), "admin %.30s\n", hex16);
	refused_key(0600, line, "bad:1: the secret must have");
	snprintf(line, sizeof(line), "admin %s0\n", hex16);
	refused_key(0600, line, "bad:1: the secret must have");
	snprintf(line, sizeof(line), "admin %s more\n", hex16);
	refused_key(0600, line, "bad:1: the secret");
	snprintf(line, sizeof(line), "\"%s\" %s\n", hex16, hex16);
	refused_key(0600, line, "bad:1: the identity is too long");
	snprintf(line, sizeof(line), "admin %s\nb %s\nadmin %s\n", hex16, hex16, hex16);
	refused_key(0600, line, "\"admin\" is there twice");
	snprintf(line, sizeof(line), "admin%400s%s\n", "", hex16);
	refused_key(0600, line, "bad:1: the line is too long");
	memset(long_name, 'a', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	snprintf(line, sizeof(line), "%s %s\n", long_name, hex16);
	refused_key(0600, line, "bad:1: the identity is too long");
}

static void test_certificate_files(void **state)
{
	struct signer ca = certify("ca", "the lab", NULL, NULL, 30);
	struct inc_tls_files files = {0};

	discard(certify("one.pem", "one", NULL, &ca, 30));
	discard(certify("two.pem", "two", NULL, &ca, 30));
	files = (struct inc_tls_files){
		.cert = at("one.pem"), .cert_key = at("two.pem.key"), .ca = at("ca")};
	refused(&files, "two.pem.key: ");
	files.cert_key = at("one.pem.key");
	assert_int_equal(chmod(files.cert_key, 0644), 0);
	refused(&files, "one.pem.key: mode 0644");
	assert_int_equal(chmod(files.cert_key, 0600), 0);
	inc_tls_free(side(true, &files));
	files.ca = at("absent");
	refused(&files, "absent: ");
	discard(ca);
}

static int set_up(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[sizeof(dir) + 16];

	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_strangers_keys),
		cmocka_unit_test(test_certificates),
		cmocka_unit_test(test_other_clients),
		cmocka_unit_test(test_no_client),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_certificate_files),
	};

	return cmocka_run_group_tests_name("tls", tests, set_up, tear_down);
}
