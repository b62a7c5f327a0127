/* SPDX-License-Identifier: BSD-2-Clause */
/* What the callers of our libraries give: structs of options that begin with their own size, and
 * room for the story of a failure. */
#ifndef INC_CALLER_H
#define INC_CALLER_H

#include <stddef.h>
#include "lib/base/err.h"

#define INC_CALLER_OPTS_REFUSED "its options are not this library's"

/*
 * Copies the caller's struct, whose first member is its size_t sz, into ours of size known; what an
 * older caller does not have is zero. given NULL: all zero. 0; -EINVAL: sz can be none; -E2BIG:
 * bytes that this library does not know are not zero. With an error known has what there is to copy
 * all the same: where to explain it, above all.
 */
int inc_caller_opts(void *known, size_t known_size, const void *given);
/* The same over what known has: there an older caller's struct leaves it as it is. given is not
 * NULL. */
int inc_caller_opts_over(void *known, size_t known_size, const void *given);
/* The story into the caller's buf of so many bytes, if there is one. */
void inc_caller_explain(char *buf, size_t size, const struct inc_err *err);

#endif
