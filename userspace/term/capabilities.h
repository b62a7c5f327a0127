/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of channels that a switch in termination mode has, and its capabilities for "hello".
 * Called on the daemon's thread. */
#ifndef INC_TERM_CAPABILITIES_H
#define INC_TERM_CAPABILITIES_H

#include "lib/base/err.h"
#include "lib/channel/channel.h"
#include "lib/conf/comm_conf.h"
#include "lib/conf/messages.h"
#include "userspace/config.h"

/* The functions of each kind of channels, indexed by enum inc_endpoint_kind. NULL: the switch has
 * no channels of this kind. The table is in a source of its own, because tests have another one. */
extern const struct inc_channel_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS];

/* Fills in endpoints, kernels and set. Returns 0, or 1 if an endpoint may be missing for want of
 * memory or descriptors. If no port has an endpoint of any kind, returns -EOPNOTSUPP with the
 * reasons in err, or -ENOMEM if that is because of such a shortage. */
int inc_term_capabilities(const struct inc_settings *settings, struct inc_msg_engine *out,
			  struct inc_err *err);

#endif
