/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random bytes, and random numbers of 24 bits for initial PSNs and queue pair numbers. These are
 * random so that packets of an earlier connection between the same ends do not match the new one.
 * Any thread may call these functions.
 */
#ifndef INC_RANDOM_H
#define INC_RANDOM_H

#include <stddef.h>
#include <stdint.h>
#include "lib/base/err.h"

/* Fills `out` with up to 256 random bytes. Returns 0, or -errno with err. */
int inc_random_bytes(void *out, size_t size, struct inc_err *err);
/* Draws a random number of 24 bits. Returns 0, or -errno with err. */
int inc_random24(uint32_t *out, struct inc_err *err);
/* Draws a random queue pair number that is at least min. */
int inc_random_qpn(uint32_t min, uint32_t *qpn, struct inc_err *err);

#endif
