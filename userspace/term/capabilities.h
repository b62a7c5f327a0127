/* SPDX-License-Identifier: BSD-2-Clause */
/* What a switch can do in termination mode, for "hello". The daemon's thread. */
#ifndef INC_TERM_CAPABILITIES_H
#define INC_TERM_CAPABILITIES_H

#include "lib/base/err.h"
#include "lib/conf/messages.h"
#include "userspace/config.h"

/* Fills endpoints, kernels and set. -EOPNOTSUPP: no port has an endpoint of any kind, and why. */
int inc_term_capabilities(const struct inc_settings *settings, struct inc_msg_engine *out,
			  struct inc_err *err);

#endif
