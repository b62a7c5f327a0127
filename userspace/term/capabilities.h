/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of a switch in termination mode, for "hello". Called on the daemon's thread. */
#ifndef INC_TERM_CAPABILITIES_H
#define INC_TERM_CAPABILITIES_H

#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "userspace/config.h"

/* Fills in endpoints, kernels and set. Returns 0, or 1 if an endpoint may be missing for want of
 * memory or descriptors. If no port has an endpoint of any kind, returns -EOPNOTSUPP with the
 * reasons in err, or -ENOMEM if that is because of such a shortage. */
int inc_term_capabilities(const struct inc_settings *settings, struct inc_msg_engine *out,
			  struct inc_err *err);

#endif
