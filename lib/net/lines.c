/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/net/lines.h"

#define ROOM_MIN 4096

void inc_lines_free(struct inc_lines *l)
{
	free(l->buf);
	l->buf = NULL;
	l->room = l->start = l->end = l->scanned = 0;
}

char *inc_lines_space(struct inc_lines *l, size_t *room)
{
	/* limit of a line, with its carriage return and newline */
	const size_t most = l->max_line + 2;
	size_t want;
	char *more;

	if (l->start) {
		memmove(l->buf, l->buf + l->start, l->end - l->start);
		l->end -= l->start;
		l->scanned -= l->start;
		l->start = 0;
	}
	if (l->end == l->room) {
		want = l->room ? 2 * l->room : ROOM_MIN;
		if (want > most)
			want = most;
		more = realloc(l->buf, want);
		if (!more)
			return NULL;
		l->buf = more;
		l->room = want;
	}
	*room = l->room - l->end;
	return l->buf + l->end;
}

void inc_lines_filled(struct inc_lines *l, size_t n)
{
	l->end += n;
}

static int read_object(const char *line, size_t len, json_t **object, struct inc_err *err)
{
	json_error_t error;
	json_t *value;

	value = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	/* err does not quote the line, because the excerpt that jansson reports may cut a UTF-8
	 * character in the middle */
	if (!value)
		return inc_err_set(err, EBADMSG, "not JSON (column %d)", error.column);
	if (!json_is_object(value)) {
		json_decref(value);
		return inc_err_set(err, EBADMSG, "not a JSON object");
	}
	*object = value;
	return 1;
}

/* first byte of the TLS alert with which a peer that expects TLS answers a line of JSON; no JSON
 * begins with this byte */
#define TLS_ALERT 0x15

int inc_lines_next(struct inc_lines *l, json_t **object, struct inc_err *err)
{
	const char *line, *newline;
	size_t len;

	while (inc_lines_open(l)) {
		line = l->buf + l->start;
		if (*line == TLS_ALERT)
			return inc_err_set(err, EBADMSG,
					   "the other side speaks TLS: a key or a "
					   "certificate is needed (--key or --tls-cert; "
					   "in a job INCCL_KEY or INCCL_TLS_CERT)");
		newline = memchr(l->buf + l->scanned, '\n', l->end - l->scanned);
		len = newline ? newline - line : (ptrdiff_t)(l->end - l->start);
		if (len && line[len - 1] == '\r')
			len--;
		if (len > l->max_line)
			return inc_err_set(err, EMSGSIZE, "line too long");
		if (!newline) {
			l->scanned = l->end;
			return 0;
		}
		l->start = l->scanned = newline + 1 - l->buf;
		if (len)
			return read_object(line, len, object, err);
	}
	/* free the buffer of the line, because a peer that has sent a long line may send nothing
	 * for days */
	inc_lines_free(l);
	return 0;
}

char *inc_line_of(const json_t *object, size_t *len)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	if (!text)
		return NULL;
	*len = strlen(text);
	text[(*len)++] = '\n'; /* the newline takes the place of the text's final 0 */
	return text;
}
