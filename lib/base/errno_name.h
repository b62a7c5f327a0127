/* SPDX-License-Identifier: BSD-2-Clause */
/* Symbolic names of errno values, as the control protocol sends them. */
#ifndef INC_ERRNO_NAME_H
#define INC_ERRNO_NAME_H

/* Returns the name of an errno, such as "EINVAL"; NULL if code is no errno of this system. */
const char *inc_errno_name(int code);
/* Returns the errno that has this name; 0 if no errno has the name, or name is NULL. */
int inc_errno_from_name(const char *name);

#endif
