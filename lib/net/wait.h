/* SPDX-License-Identifier: BSD-2-Clause */
/* Waiting for a descriptor, for those who have no event loop. Any thread. */
#ifndef INC_WAIT_H
#define INC_WAIT_H

#include <stdint.h>

/* Until fd has what events (poll's) say. 0, -ETIMEDOUT; or -ECANCELED: stop_fd (-1: none) can be
 * read. */
int inc_wait_for(int fd, short events, int stop_fd, uint64_t deadline_ns);

#endif
