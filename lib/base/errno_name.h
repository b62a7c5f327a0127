/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbolic names of errno values, as the control protocol says them. */
#ifndef INC_ERRNO_NAME_H
#define INC_ERRNO_NAME_H

/* "EINVAL"; NULL for a number that is no error of this system. */
const char *inc_errno_name(int code);
/* The value of a name; 0 for what is none (or NULL). */
int inc_errno_from_name(const char *name);

#endif
