/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waits for a descriptor, for code without an event loop, and asks the kernel about a connection
 * whose bytes have not all been read. Any thread may call the functions.
 */
#ifndef INC_WAIT_H
#define INC_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

/* poll() by inc_os.wait.poll(). */
int inc_wait_poll(struct pollfd *pfd, unsigned int n, int timeout_ms);
/* Waits until poll() reports one of events for fd. Returns 0, -ETIMEDOUT, or -ECANCELED if stop_fd
 * is readable. stop_fd -1: none. */
int inc_wait_for(int fd, short events, int stop_fd, uint64_t deadline_ns);

/* Whether the kernel holds bytes that the peer has sent and that this process has not read yet. */
bool inc_wait_has_unread(int fd);
/* Does the same as inc_ndjson_check_open(), for a descriptor: whether the peer has closed its
 * direction. */
int inc_wait_check_open(int fd, struct inc_err *err);

#endif
