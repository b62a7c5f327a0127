/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Functions for the public calls of the libraries: they copy structs of options, which begin with
 * their own size, and fill the caller's buffer for the text of an error.
 */
#ifndef INC_CALLER_H
#define INC_CALLER_H

#include <stddef.h>
#include "lib/base/err.h"

#define INC_CALLER_OPTS_REFUSED \
	"the options have a size or contents that this library does not know"

/*
 * Copies the caller's struct of options, whose first member is its size_t sz, into the library's
 * struct of known_size bytes. Members that an older caller's struct lacks become zero, and given
 * NULL makes all members zero. Returns 0, -EINVAL if sz is too small to be a size, or -E2BIG if
 * bytes behind known_size are not zero. After -E2BIG known has all members that the library knows,
 * so the caller's buffer for the error's text can be used.
 */
int inc_caller_opts(void *known, size_t known_size, const void *given);
/* Like inc_caller_opts(), but members that an older caller's struct lacks keep the values that
 * known has. given is not NULL. */
int inc_caller_opts_over(void *known, size_t known_size, const void *given);
/* Copies the error's text into the caller's buffer of size bytes. buf NULL: the caller has no
 * buffer. */
void inc_caller_explain(char *buf, size_t size, const struct inc_err *err);

#endif
