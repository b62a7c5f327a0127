/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Newline-delimited JSON without the socket: turns received bytes into objects, and an object into
 * a line. The rules for lines are here for all their users, which are ndjson.h in the daemons'
 * event loops, libinccl, incctl and inc-lab. A carriage return before the newline and empty lines
 * are ignored.
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

/* Received bytes that are not yet returned as objects. A struct that is zero but for max_line is
 * ready for use. */
struct inc_lines {
	size_t max_line; /* limit of a line, without its newline */
	char *buf;       /* buffer of received bytes, owned */
	size_t room;
	/* range in buf of the bytes that were received and not yet returned as objects */
	size_t start, end;
	/* buf has no newline before this position, so that the search reads each byte once */
	size_t scanned;
};

void inc_lines_free(struct inc_lines *l);

/* Returns where the next received bytes may be written. *room becomes their number, which is at
 * least one. Returns NULL if there is no memory. Call this only after inc_lines_next() has returned
 * 0. */
char *inc_lines_space(struct inc_lines *l, size_t *room);
/* Reports that n received bytes were written to the space of inc_lines_space(). */
void inc_lines_filled(struct inc_lines *l, size_t n);

/*
 * Returns the next object from the received bytes. 1: *object is the object, which the caller owns.
 * 0: more bytes are needed. -EMSGSIZE: the line is too long. -EBADMSG: the line is not JSON, or not
 * an object. On errors err has the text for the peer.
 */
int inc_lines_next(struct inc_lines *l, json_t **object, struct inc_err *err);

/* Whether a line has begun and has not ended yet. */
static inline bool inc_lines_open(const struct inc_lines *l)
{
	return l->end > l->start;
}

/* Returns the object as a line with its newline. *len becomes the line's length, and the caller
 * frees the line. NULL: there is no memory, or no object. */
char *inc_line_of(const json_t *object, size_t *len);

#endif
