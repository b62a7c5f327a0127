/* SPDX-License-Identifier: BSD-2-Clause */
#include "userspace/term/capabilities.h"

const struct inc_channel_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_channel_soft,
	[INC_ENDPOINT_VERBS] = &inc_channel_verbs,
};
