/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Newline-delimited JSON without the socket: turns received bytes into objects, and an object into
 * a line. The rules for lines are here for all users: ndjson.h in the daemons' event loops,
 * libinccl, incctl and inc-lab. A carriage return before the newline and empty lines are ignored.
 */
#ifndef INC_LINES_H
#define INC_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <jansson.h>
#include "lib/base/err.h"

/* Limits of a line of the control plane, without the newline (docs/control.md): between the
 * controller and members or tools, and between the controller and switches. */
#define INC_MEMBER_LINE_MAX (64u << 10)
#define INC_SWITCH_LINE_MAX (1u << 20)
/* Limit of the answer that a tool receives, which may have the connections of several switches. */
#define INC_ANSWER_MAX (64u << 20)

/* A struct that is zero but for max_line is ready for use. */
struct inc_lines {
	size_t max_line; /* bytes, without the newline */
	char *buf;       /* owned */
	size_t room;
	size_t start, end; /* of the bytes that were received and not yet returned as objects */
	size_t scanned;    /* there is no newline before it, so that each byte is searched once */
};

void inc_lines_free(struct inc_lines *l);

/* Returns where the next bytes may be written: *room of them, at least one. NULL: no memory.
 * Call it only after inc_lines_next() has returned 0. */
char *inc_lines_space(struct inc_lines *l, size_t *room);
/* Reports that n bytes were written there. */
void inc_lines_filled(struct inc_lines *l, size_t n);

/*
 * Takes the next object from the received bytes. 1: *object, owned by the caller; 0: more bytes
 * are needed; -EMSGSIZE: the line is too long; -EBADMSG: it is not JSON, or not an object. On
 * errors err has the text for the peer.
 */
int inc_lines_next(struct inc_lines *l, json_t **object, struct inc_err *err);

/* Whether a line has begun and not ended. */
static inline bool inc_lines_open(const struct inc_lines *l)
{
	return l->end > l->start;
}

/* Returns the object as a line with its newline, *len bytes, which the caller frees. NULL: no
 * memory, or no object. */
char *inc_line_of(const json_t *object, size_t *len);

#endif
