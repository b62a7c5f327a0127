// SPDX-License-Identifier: BSD-2-Clause
/*
 * Key files (tls_key.h). Programs call these functions when they start, and when they make keys.
 * Any thread may call them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <openssl/crypto.h>
#include "lib/base/fd.h"
#include "lib/base/random.h"
#include "lib/net/tls_key.h"

/* Limit of a line, which has an identity, a blank, hex and a newline. A longer line is invalid. */
#define LINE_SIZE (INC_TLS_IDENTITY_MAX + 2 * INC_TLS_SECRET_MAX + 64)

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@";

int inc_tls_identity_check(const char *text, struct inc_err *err)
{
	const size_t n = strlen(text);

	if (!n || n > INC_TLS_IDENTITY_MAX || strspn(text, letters) != n)
		return inc_err_set(err, EINVAL, "identity \"%s\": 1 to %d letters, digits or -_.:@",
				   text, INC_TLS_IDENTITY_MAX);
	return 0;
}

/*
 * The permissions that a file with a secret must not have. systemd lets a service's user read a
 * credential by an ACL, whose mask is shown in place of the group's permissions. Other users
 * cannot enter that directory.
 */
static mode_t forbidden(const char *path)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY"), *name = strrchr(path, '/');
	const mode_t others = S_IRWXG | S_IRWXO;

	if (!dir || !*dir || !name || (size_t)(name - path) != strlen(dir) ||
	    memcmp(path, dir, name - path) != 0)
		return others;
	return others & ~S_IRGRP;
}

int inc_tls_secret_open(const char *path, FILE **out, struct inc_err *err)
{
	/* O_NONBLOCK, because opening a FIFO would wait for a writer. */
	const int fd = inc_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
	struct stat st;
	int ret;

	if (fd < 0)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	if (fstat(fd, &st))
		ret = inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		ret = inc_err_set(err, EINVAL, "%s: a secret must be in a regular file", path);
	else if (st.st_mode & forbidden(path))
		ret = inc_err_set(err, EPERM,
				  "%s: mode %04o lets other users read the secret (chmod 600)",
				  path, st.st_mode & 07777);
	else if (!(*out = fdopen(fd, "r")))
		ret = inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	else
		return 0;
	close(fd);
	return ret;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* Parses a line of a key file. Returns NULL, or the error. The error quotes nothing of the line,
 * because the secret may stand in the wrong place. */
static const char *parse(char *line, struct inc_tls_key *key)
{
	const size_t name = strcspn(line, " \t");
	const char *hex = line + name + strspn(line + name, " \t");
	const size_t digits = strlen(hex);

	if (!*hex)
		return "the line needs an identity, a blank and a secret in hex";
	line[name] = '\0';
	if (inc_tls_identity_check(line, NULL))
		return "the identity is too long, or has other characters than letters, digits and "
		       "-_.:@";
	if (digits % 2 || digits < 2 * INC_TLS_SECRET_MIN || digits > 2 * INC_TLS_SECRET_MAX)
		return "the secret must have 32 to 128 hex digits, an even number";
	for (size_t i = 0; i < digits; i += 2) {
		const int high = hex_digit(hex[i]), low = hex_digit(hex[i + 1]);

		if (high < 0 || low < 0)
			return "the secret is not hex";
		key->secret[i / 2] = high << 4 | low;
	}
	key->secret_bytes = digits / 2;
	strcpy(key->identity, line);
	return NULL;
}

static int by_identity(const void *a, const void *b)
{
	const struct inc_tls_key *x = a, *y = b;

	return strcmp(x->identity, y->identity);
}

/* Returns the place for the next key, or NULL if there is no memory. It does not call realloc(),
 * because that leaves a copy of the secrets in freed memory. */
static struct inc_tls_key *next_key(struct inc_tls_keys *keys, size_t *room)
{
	if (keys->n == *room) {
		const size_t more = *room ? *room * 2 : 4;
		struct inc_tls_key *key = calloc(more, sizeof(*key));

		if (!key)
			return NULL;
		if (keys->n)
			memcpy(key, keys->key, keys->n * sizeof(*key));
		OPENSSL_cleanse(keys->key, keys->n * sizeof(*key));
		free(keys->key);
		keys->key = key;
		*room = more;
	}
	return &keys->key[keys->n];
}

/* Reads the next line, of at most LINE_SIZE, without its newline. Returns 1, 0 at the end of the
 * file, or -EINVAL with the error. fgets() would not do, because a NUL would hide the rest of the
 * line. */
static int next_line(FILE *f, char *line, const char **wrong)
{
	size_t n = 0;
	int c;

	while ((c = getc(f)) != EOF && c != '\n') {
		if (!c)
			*wrong = "there is a NUL in the line";
		else if (n == LINE_SIZE - 1)
			*wrong = "the line is too long";
		if (*wrong)
			return -EINVAL;
		line[n++] = c;
	}
	line[n] = '\0';
	return c != EOF || n;
}

static int read_lines(FILE *f, const char *path, char *line, struct inc_tls_keys *keys,
		      struct inc_err *err)
{
	const char *wrong = NULL;
	size_t room = 0;
	int ret;

	for (unsigned int number = 1; (ret = next_line(f, line, &wrong)); number++) {
		struct inc_tls_key *key;
		size_t n = strlen(line);

		if (ret < 0)
			return inc_err_set(err, EINVAL, "%s:%u: %s", path, number, wrong);
		while (n && strchr(" \t\r", line[n - 1]))
			line[--n] = '\0';
		if (!n || line[0] == '#')
			continue;
		if (keys->n == INC_TLS_KEYS_MAX)
			return inc_err_set(err, E2BIG, "%s:%u: more than %d keys", path, number,
					   INC_TLS_KEYS_MAX);
		key = next_key(keys, &room);
		if (!key)
			return inc_err_set(err, ENOMEM, "%s: %s", path, strerror(ENOMEM));
		wrong = parse(line, key);
		if (wrong)
			return inc_err_set(err, EINVAL, "%s:%u: %s", path, number, wrong);
		keys->n++;
	}
	if (ferror(f))
		return inc_err_set(err, EIO, "%s: %s", path, strerror(EIO));
	if (!keys->n)
		return inc_err_set(err, EINVAL, "%s: no key in it", path);
	return 0;
}

int inc_tls_keys_read(const char *path, struct inc_tls_keys *keys, struct inc_err *err)
{
	char line[LINE_SIZE], buffer[4096];
	FILE *f;
	int ret;

	*keys = (struct inc_tls_keys){0};
	ret = inc_tls_secret_open(path, &f, err);
	if (ret)
		return ret;
	/* a buffer that the C library allocates would leave the secrets on the heap */
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	ret = read_lines(f, path, line, keys, err);
	fclose(f);
	OPENSSL_cleanse(line, sizeof(line));
	OPENSSL_cleanse(buffer, sizeof(buffer));
	if (!ret)
		qsort(keys->key, keys->n, sizeof(*keys->key), by_identity);
	for (size_t i = 1; !ret && i < keys->n; i++)
		if (!strcmp(keys->key[i].identity, keys->key[i - 1].identity))
			ret = inc_err_set(err, EINVAL, "%s: identity \"%s\" is there twice", path,
					  keys->key[i].identity);
	if (ret)
		inc_tls_keys_free(keys);
	return ret;
}

const struct inc_tls_key *inc_tls_keys_find(const struct inc_tls_keys *keys, const char *identity)
{
	struct inc_tls_key wanted = {0};

	if (strlen(identity) > INC_TLS_IDENTITY_MAX)
		return NULL;
	strcpy(wanted.identity, identity);
	return bsearch(&wanted, keys->key, keys->n, sizeof(*keys->key), by_identity);
}

void inc_tls_keys_free(struct inc_tls_keys *keys)
{
	if (keys->key)
		OPENSSL_cleanse(keys->key, keys->n * sizeof(*keys->key));
	free(keys->key);
	*keys = (struct inc_tls_keys){0};
}

int inc_tls_key_make(struct inc_tls_key *key, const char *identity, struct inc_err *err)
{
	int ret = inc_tls_identity_check(identity, err);

	if (ret)
		return ret;
	*key = (struct inc_tls_key){.secret_bytes = INC_TLS_SECRET_DEFAULT};
	strcpy(key->identity, identity);
	return inc_random_bytes(key->secret, key->secret_bytes, err);
}

int inc_tls_keys_write(const char *path, const struct inc_tls_keys *keys, struct inc_err *err)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
	char buffer[4096];
	int ret = 0;

	if (fd < 0)
		return inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	if (!f) {
		ret = inc_err_set(err, errno, "%s: %s", path, strerror(errno));
		close(fd);
		unlink(path);
		return ret;
	}
	setvbuf(f, buffer, _IOFBF, sizeof(buffer));
	errno = 0;
	for (size_t i = 0; i < keys->n; i++) {
		fprintf(f, "%s ", keys->key[i].identity);
		for (size_t j = 0; j < keys->key[i].secret_bytes; j++)
			fprintf(f, "%02x", keys->key[i].secret[j]);
		fputc('\n', f);
	}
	/* an earlier write may have failed although the last one succeeded */
	if (fflush(f) || ferror(f))
		ret = inc_err_set(err, errno ?: EIO, "%s: %s", path, strerror(errno ?: EIO));
	if (fclose(f) && !ret)
		ret = inc_err_set(err, errno, "%s: %s", path, strerror(errno));
	OPENSSL_cleanse(buffer, sizeof(buffer));
	if (ret)
		unlink(path);
	return ret;
}
