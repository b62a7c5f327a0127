// SPDX-License-Identifier: BSD-2-Clause
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "lib/base/printable.h"
#include "selftests/fuzz/fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	setenv("INC_LOG_LEVEL", "error", 1);
	inc_log_init("fuzz");
	return 0;
}

void fuzz_wrong(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

void fuzz_check_shown(const char *text, bool lines)
{
	char *copy = strdup(text), *p;

	fuzz_require(copy, "no memory");
	for (p = copy; lines && (p = strchr(p, '\n')); p++)
		*p = ' ';
	p = strdup(copy);
	fuzz_require(p, "no memory");
	inc_printable(p);
	fuzz_require(!strcmp(p, copy), "not fit for a terminal: %s", text);
	free(p);
	free(copy);
}

void fuzz_check_refusal(const struct inc_err *err, const char *where)
{
	fuzz_require(err->msg[0], "refused without a message");
	fuzz_check_shown(err->msg, false);
	fuzz_require(!where || !strncmp(err->msg, where, strlen(where)),
		     "does not begin with '%s': %s", where, err->msg);
}

void fuzz_check_file_refusal(const struct inc_err *err, const char *file)
{
	const size_t n = strlen(file);
	unsigned int line;

	fuzz_check_refusal(err, file);
	fuzz_require((sscanf(err->msg + n, ":%u: %*c", &line) == 1 && line) ||
			     !strncmp(err->msg + n, ": ", 2),
		     "no place: %s", err->msg);
}

static uint32_t take(struct fuzz_bytes *bytes, size_t n)
{
	uint32_t value = 0;

	for (; n && bytes->size; n--, bytes->size--)
		value = value << 8 | *bytes->data++;
	return value;
}

uint8_t fuzz_take8(struct fuzz_bytes *bytes)
{
	return take(bytes, 1);
}

uint16_t fuzz_take16(struct fuzz_bytes *bytes)
{
	return take(bytes, 2);
}

uint32_t fuzz_take32(struct fuzz_bytes *bytes)
{
	return take(bytes, 4);
}

static char *take_chars(struct fuzz_bytes *bytes, size_t n)
{
	char *text = malloc(n + 1);

	fuzz_require(text, "no memory");
	memcpy(text, bytes->data, n);
	text[n] = 0;
	bytes->data += n;
	bytes->size -= n;
	return text;
}

char *fuzz_take_line(struct fuzz_bytes *bytes)
{
	const uint8_t *end;
	char *line;

	if (!bytes->size)
		return NULL;
	end = memchr(bytes->data, '\n', bytes->size);
	line = take_chars(bytes, end ? (size_t)(end - bytes->data) : bytes->size);
	if (end)
		fuzz_take8(bytes);
	return line;
}

char *fuzz_take_text(struct fuzz_bytes *bytes)
{
	return take_chars(bytes, bytes->size);
}

const char *fuzz_file(const void *data, size_t size)
{
	static char path[40];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	fuzz_require(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size,
		     "no file of %zu bytes", size);
	return path;
}
