/* SPDX-License-Identifier: BSD-2-Clause */
/* Files and messages with random damage, the same on every run. */
#ifndef DAMAGE_H
#define DAMAGE_H

#include <stddef.h>

#define DAMAGE_MAX 4096

unsigned int damage_rnd(unsigned int n);
/* base with one to four wounds, in a block of its own length, so that a sanitizer sees one byte too
 * far. The caller frees it. */
char *damage(const char *base, size_t len, size_t *out_len);

#endif
