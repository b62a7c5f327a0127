/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A standard output of inc-lab run that never stops its event loop. A thread of its own writes what
 * is queued, because only a thread can wait for every kind of reader: a pipe, a terminal that is
 * stopped, a file on a network. All calls are the event loop's.
 */
#ifndef INC_LAB_OUT_H
#define INC_LAB_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <event2/event.h>

#define LAB_OUT_LINE_BYTES ((64 << 10) + 64) /* a line at most, with its prefix and newline */

struct lab_out;

/* drained is called in the loop each time when the queue has run empty. NULL: no memory, thread or
 * descriptor. */
struct lab_out *lab_out_open(struct event_base *base, int fd, void (*drained)(void *arg),
			     void *arg);
/* Queues one line, whose newline is its last byte and its only one. The thread writes it with one
 * call. */
void lab_out_put(struct lab_out *out, const char *line, size_t len);
/* Whether so much is queued that nothing more should be read for this output. */
bool lab_out_is_full(struct lab_out *out);
/* The bytes that are queued or being written. */
size_t lab_out_waiting(struct lab_out *out);
/* Gives up what is still queued. Returns the errno of the first write that failed, or 0; a reader
 * that has gone is no failure. */
int lab_out_close(struct lab_out *out);

#endif
