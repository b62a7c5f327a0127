/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What somebody may do who has proved an identity (docs/control.md, "Keys"). Each function returns
 * 0, or -EACCES with one line for the log and the peer. NULL as an identity is a peer that speaks
 * plainly, which the controller was told to let in: it may do anything.
 */
#ifndef INC_CTL_RIGHTS_H
#define INC_CTL_RIGHTS_H

#include "lib/base/err.h"

/* To be heard on the member port, and to ask. */
int inc_right_ask(const char *identity, struct inc_err *err);
/* To be a member of this job's groups. */
int inc_right_join(const char *identity, const char *job, struct inc_err *err);
/* To change what switches do. */
int inc_right_change(const char *identity, struct inc_err *err);
/* To be this switch. */
int inc_right_serve(const char *identity, const char *name, struct inc_err *err);

#endif
