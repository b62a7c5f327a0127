/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A standard output of inc-lab run, whose writes never block the event loop. A separate thread
 * writes the queue, because only a thread can wait for every kind of reader: a pipe, a stopped
 * terminal, a file on a network. Only the event loop's thread calls these functions.
 */
#ifndef INC_LAB_OUT_H
#define INC_LAB_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <event2/event.h>

/* size of the longest line, with its prefix and newline */
#define LAB_OUT_LINE_BYTES ((64 << 10) + 64)

struct lab_out;

/* Opens an output that writes to fd. The event loop calls drained each time the queue has become
 * empty. Returns NULL if there is no memory, thread or descriptor. */
struct lab_out *lab_out_open(struct event_base *base, int fd, void (*drained)(void *arg),
			     void *arg);
/* Queues one line, whose only newline is its last byte. The thread writes the line by one call. */
void lab_out_put(struct lab_out *out, const char *line, size_t len);
/* Whether the queue is so long that the caller should read no more from what it copies to this
 * output. */
bool lab_out_is_full(struct lab_out *out);
/* Returns the number of bytes that are queued or being written. */
size_t lab_out_waiting(struct lab_out *out);
/* Closes the output and discards its queue. Returns the errno of the first write that failed, or
 * 0; a reader that has closed its end is no failure. */
int lab_out_close(struct lab_out *out);

#endif
