/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/tools/npy.h"
#include "lib/base/outfile.h"

#define MAGIC     "\x93NUMPY"
#define MAGIC_LEN 6
/* most bytes of a .npy file's header; arrays of plain numbers have shorter ones */
#define HEADER_MAX 65536

/* For each type of elements, its text in NumPy's notation: byte order, kind, bytes per element. */
static const char *const types[] = {
	[INCCL_INT32] = "<i4",   [INCCL_UINT32] = "<u4",  [INCCL_INT64] = "<i8",
	[INCCL_UINT64] = "<u8",  [INCCL_INT16] = "<i2",   [INCCL_UINT16] = "<u2",
	[INCCL_INT8] = "|i1",    [INCCL_UINT8] = "|u1",   [INCCL_FLOAT32] = "<f4",
	[INCCL_FLOAT16] = "<f2", [INCCL_FLOAT64] = "<f8",
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static size_t element_bytes(const struct npy *npy)
{
	return types[npy->dtype][2] - '0';
}

size_t npy_bytes(const struct npy *npy)
{
	return npy->count * element_bytes(npy);
}

struct text {
	const char *at, *end;
};

static void blanks(struct text *t)
{
	while (t->at < t->end && (*t->at == ' ' || *t->at == '\n' || *t->at == '\t'))
		t->at++;
}

static bool take(struct text *t, const char *word)
{
	size_t len = strlen(word);

	blanks(t);
	if ((size_t)(t->end - t->at) < len || memcmp(t->at, word, len) != 0)
		return false;
	t->at += len;
	return true;
}

/* Reads a Python string: 'text' or "text". Escapes in it are not supported. */
static bool take_string(struct text *t, char *out, size_t size)
{
	const char *close;
	char quote;

	blanks(t);
	if (t->at == t->end || (*t->at != '\'' && *t->at != '"'))
		return false;
	quote = *t->at++;
	close = memchr(t->at, quote, t->end - t->at);
	if (!close || (size_t)(close - t->at) >= size)
		return false;
	memcpy(out, t->at, close - t->at);
	out[close - t->at] = 0;
	t->at = close + 1;
	return true;
}

static bool take_number(struct text *t, uint64_t *out)
{
	uint64_t v = 0;
	const char *begin;

	blanks(t);
	for (begin = t->at; t->at < t->end && *t->at >= '0' && *t->at <= '9'; t->at++) {
		if (v > (UINT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (*t->at - '0');
	}
	*out = v;
	return t->at > begin;
}

/* Reads the shape of an array, which is a Python tuple such as (), (3,) or (3, 4). */
static bool take_shape(struct text *t, struct npy *npy)
{
	bool comma = true;

	npy->ndim = 0;
	if (!take(t, "("))
		return false;
	while (!take(t, ")")) {
		if (!comma || npy->ndim == NPY_MAX_DIMS || !take_number(t, &npy->shape[npy->ndim]))
			return false;
		npy->ndim++;
		comma = take(t, ",");
		if (!comma && npy->ndim == 1)
			return false; /* (3) is no tuple in Python, but the number 3 */
	}
	return true;
}

static int take_type(struct text *t, struct npy *npy, struct inc_err *err)
{
	char type[32];
	size_t i;

	if (!take_string(t, type, sizeof(type)))
		return inc_err_set(err, EINVAL, "type is not plain, such as '<i4' or '<f4'");
	for (i = 0; i < N_TYPES; i++) {
		if (types[i] && !strcmp(type, types[i])) {
			npy->dtype = (enum inccl_dtype)i;
			return 0;
		}
	}
	return inc_err_set(
		err, EINVAL,
		"type '%s': want little-endian integers of 1 to 8 bytes, or floats of 2, "
		"4 or 8 ('<i4', '<f4')",
		type);
}

static int parse_dict(struct text *t, struct npy *npy, struct inc_err *err)
{
	bool descr = false, order = false, shape = false;
	char key[32];

	if (!take(t, "{"))
		goto malformed;
	while (!take(t, "}")) {
		if (!take_string(t, key, sizeof(key)) || !take(t, ":"))
			goto malformed;
		if (!strcmp(key, "descr") && !descr) {
			descr = true;
			if (take_type(t, npy, err))
				return -EINVAL;
		} else if (!strcmp(key, "fortran_order") && !order) {
			order = true;
			if (take(t, "True"))
				return inc_err_set(err, EINVAL, "Fortran order, want C order");
			if (!take(t, "False"))
				goto malformed;
		} else if (!strcmp(key, "shape") && !shape) {
			shape = true;
			if (!take_shape(t, npy))
				goto malformed;
		} else {
			return inc_err_set(err, EINVAL, "unexpected or repeated key in the header");
		}
		if (!take(t, ",")) {
			if (!take(t, "}"))
				goto malformed;
			break;
		}
	}
	blanks(t);
	if (t->at != t->end)
		goto malformed;
	if (!descr || !order || !shape)
		return inc_err_set(err, EINVAL, "header without descr, fortran_order or shape");
	return 0;

malformed:
	return inc_err_set(err, EINVAL, "malformed header");
}

int npy_parse(const void *buf, size_t len, uint64_t size, struct npy *npy, struct inc_err *err)
{
	const uint8_t *p = buf;
	uint64_t count = 1;
	size_t head, text;
	struct text t;
	unsigned int i;
	int ret;

	memset(npy, 0, sizeof(*npy));
	if (len < MAGIC_LEN + 4 || memcmp(p, MAGIC, MAGIC_LEN) != 0)
		return inc_err_set(err, EINVAL, "not a .npy file");
	if (p[6] == 1) {
		head = MAGIC_LEN + 4;
		text = p[8] | p[9] << 8;
	} else if (p[6] == 2) {
		head = MAGIC_LEN + 6;
		if (len < head)
			return inc_err_set(err, EINVAL, "truncated header");
		text = p[8] | p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
	} else {
		return inc_err_set(err, EINVAL, ".npy version %u.%u, want 1.0 or 2.0", p[6], p[7]);
	}
	if (p[7])
		return inc_err_set(err, EINVAL, ".npy version %u.%u, want 1.0 or 2.0", p[6], p[7]);
	if (text > HEADER_MAX || text > len - head)
		return inc_err_set(err, EINVAL, "truncated header");
	t.at = (const char *)p + head;
	t.end = t.at + text;
	ret = parse_dict(&t, npy, err);
	if (ret)
		return ret;
	for (i = 0; i < npy->ndim; i++)
		if (__builtin_mul_overflow(count, npy->shape[i], &count) ||
		    count > SIZE_MAX / element_bytes(npy) / 2)
			return inc_err_set(err, EINVAL, "more elements than memory can hold");
	npy->count = count;
	npy->header_bytes = head + text;
	if (size - npy->header_bytes != npy_bytes(npy))
		return inc_err_set(err, EINVAL, "%llu bytes of data, the shape needs %llu",
				   (unsigned long long)(size - npy->header_bytes),
				   (unsigned long long)npy_bytes(npy));
	return 0;
}

static int read_all(int fd, void *buf, size_t len, off_t offset)
{
	char *p = buf;
	ssize_t n;

	while (len) {
		n = pread(fd, p, len, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		p += n;
		len -= n;
		offset += n;
	}
	return 0;
}

int npy_load(const char *path, struct npy *npy, struct inc_err *err)
{
	char *head = NULL;
	struct inc_err why = {""};
	struct stat st;
	size_t len;
	int fd, ret;

	memset(npy, 0, sizeof(*npy));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		ret = inc_err_set(err, errno, "%s: %s", path, strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		ret = inc_err_set(err, EINVAL, "%s: not a regular file", path);
		goto out;
	}
	len = st.st_size < HEADER_MAX + 16 ? st.st_size : HEADER_MAX + 16;
	head = malloc(len + 1);
	ret = head ? read_all(fd, head, len, 0) : -ENOMEM;
	if (ret) {
		inc_err_set(err, -ret, "%s: %s", path, strerror(-ret));
		goto out;
	}
	ret = npy_parse(head, len, st.st_size, npy, &why);
	if (ret) {
		inc_err_set(err, -ret, "%s: %s", path, why.msg);
		goto out;
	}
	npy->data = malloc(npy_bytes(npy) + 1);
	ret = npy->data ? read_all(fd, npy->data, npy_bytes(npy), npy->header_bytes) : -ENOMEM;
	if (ret) {
		inc_err_set(err, -ret, "%s: %s", path, strerror(-ret));
		npy_free(npy);
	}
out:
	free(head);
	if (fd >= 0)
		close(fd);
	return ret;
}

void npy_free(struct npy *npy)
{
	free(npy->data);
	npy->data = NULL;
}

/* Writes the header of version 1.0, as numpy.save() does. It is padded so that the data begin at a
 * multiple of 64 bytes. */
static void write_file(FILE *f, const struct npy *npy, const void *data)
{
	char text[64 + NPY_MAX_DIMS * 22];
	size_t len, total;
	unsigned int i;

	len = sprintf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
		      types[npy->dtype]);
	for (i = 0; i < npy->ndim; i++)
		len += sprintf(text + len, "%s%llu", i ? ", " : "",
			       (unsigned long long)npy->shape[i]);
	len += sprintf(text + len, "%s), }", npy->ndim == 1 ? "," : "");
	total = (MAGIC_LEN + 4 + len + 1 + 63) / 64 * 64 - MAGIC_LEN - 4;
	fwrite(MAGIC "\1", 1, MAGIC_LEN + 1, f);
	putc(0, f);
	putc(total & 0xff, f);
	putc(total >> 8, f);
	fprintf(f, "%-*s\n", (int)total - 1, text);
	fwrite(data, 1, npy_bytes(npy), f);
}

int npy_save(const char *path, const struct npy *npy, const void *data, struct inc_err *err)
{
	struct inc_outfile out;
	int ret = inc_outfile_open(&out, path, err);

	if (ret)
		return ret;
	write_file(out.f, npy, data);
	return inc_outfile_close(&out, true, err);
}
