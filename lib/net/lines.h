/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Newline-delimited JSON without the socket: bytes in, objects out, and an object as a line. What
 * a line may be is decided here for all who speak it: ndjson.h in the daemons' loops, libinccl,
 * incctl, inc-lab. A carriage return before the newline and empty lines mean nothing.
 */
#ifndef INC_LINES_H
#define INC_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>
#include "lib/base/err.h"

/* Lines of the control plane, without the newline (docs/control.md): of members and tools to the
 * controller, and from it; between switches and the controller. */
#define INC_MEMBER_LINE_MAX (64u << 10)
#define INC_SWITCH_LINE_MAX (1u << 20)
/* A tool's answer: several switches' connections fit. */
#define INC_ANSWER_MAX (64u << 20)

/* Zero but for max_line is a fresh one. */
struct inc_lines {
	size_t max_line; /* bytes, without the newline */
	char *buf;       /* owned */
	size_t room;
	size_t start, end; /* of what has come and was not taken */
	size_t scanned;    /* before it there is no newline: every byte is looked at once */
};

void inc_lines_free(struct inc_lines *l);

/* Where the next bytes may be put: *room of them, at least one. NULL: no memory. After
 * inc_lines_next() has returned 0. */
char *inc_lines_space(struct inc_lines *l, size_t *room);
/* So many have been put there. */
void inc_lines_filled(struct inc_lines *l, size_t n);

/*
 * The next object. 1: *object, which is the caller's; 0: more bytes are needed; -EMSGSIZE: the line
 * is too long; -EBADMSG: it is no JSON, or no object. err then has the words for the peer.
 */
int inc_lines_next(struct inc_lines *l, json_t **object, struct inc_err *err);

/* Has a line begun, and not ended? */
static inline bool inc_lines_open(const struct inc_lines *l)
{
	return l->end > l->start;
}

/* The object as a line with its newline: *len bytes, to be freed. NULL: no memory, or no object. */
char *inc_line_of(const json_t *object, size_t *len);

#endif
