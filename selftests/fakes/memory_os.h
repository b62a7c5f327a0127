/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time, random numbers and UDP sockets without a kernel, in the place of inc_os (lib/base/os.h).
 * The clock stands still until the test advances it, random numbers repeat in each run, and
 * datagrams pass through memory. A test uses it on one thread.
 */
#ifndef SELFTESTS_MEMORY_OS_H
#define SELFTESTS_MEMORY_OS_H

#include <stdint.h>

/* Replaces inc_os, and sets the clock and the random numbers to their start. No socket may be
 * open. */
void memory_os_begin(void);
void memory_os_pass_ns(uint64_t ns);

#endif
