/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of channels that the switch has. The table is in a file of its own, because tests have
 * another one. */
#ifndef INC_TERM_KINDS_H
#define INC_TERM_KINDS_H

#include "lib/conf/comm_conf.h"
#include "lib/channel/channel.h"

/* The functions of each kind of channels, indexed by enum inc_endpoint_kind. NULL: the switch has
 * no channels of this kind. */
extern const struct inc_channel_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS];

#endif
