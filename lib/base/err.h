/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An error with its text. Functions that can fail for a reason a user should read take a struct
 * inc_err * (NULL: no text is wanted) and return -errno. They fill it with one line that names the
 * object (file and line, interface, peer). The line may quote texts of peers, which are made
 * printable (printable.h).
 */
#ifndef INC_ERR_H
#define INC_ERR_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>

struct inc_err {
	char msg[512];
};

/* Stores the formatted line in err and returns -code (code is a positive errno). */
int inc_err_set(struct inc_err *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Like inc_err_set(), with "where: " before the text unless where is empty. */
int inc_err_vset(struct inc_err *err, int code, const char *where, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));
/* Appends a reason to the reasons in err: "first; second". Text beyond the end of the buffer is cut
 * off. */
void inc_err_add(struct inc_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the symbolic name of an errno, such as "EINVAL", as the control protocol sends it; NULL
 * if code is no errno of this system. */
const char *inc_errno_name(int code);
/* Returns the errno that has this name; 0 if no errno has the name, or name is NULL. */
int inc_errno_from_name(const char *name);
/* Whether a call has failed for want of memory or descriptors, so that a later one may succeed.
 * ret: 0 or -errno. */
static inline bool inc_err_is_shortage(int ret)
{
	return ret == -ENOMEM || ret == -ENOBUFS || ret == -EMFILE || ret == -ENFILE;
}

#endif
