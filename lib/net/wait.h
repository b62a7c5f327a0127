/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for a descriptor, for those who have no event loop; and what the kernel knows of a
 * connection whose bytes have not all been read. Any thread. */
#ifndef INC_WAIT_H
#define INC_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"

/* Until fd has what events (poll's) say. 0, -ETIMEDOUT; or -ECANCELED: stop_fd (-1: none) can be
 * read. */
int inc_wait_for(int fd, short events, int stop_fd, uint64_t deadline_ns);

/* Whether bytes of the peer wait in the kernel. */
bool inc_wait_has_unread(int fd);
/* inc_ndjson_check_open() of a descriptor. */
int inc_wait_check_open(int fd, struct inc_err *err);

#endif
