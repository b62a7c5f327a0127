/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of a switch in termination mode, for "hello". Called on the daemon's thread. */
#ifndef INC_TERM_CAPABILITIES_H
#define INC_TERM_CAPABILITIES_H

#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "userspace/config.h"

/* Fills in endpoints, kernels and set. Returns -EOPNOTSUPP, with the reasons in err, if no port has
 * an endpoint of any kind. */
int inc_term_capabilities(const struct inc_settings *settings, struct inc_msg_engine *out,
			  struct inc_err *err);

#endif
