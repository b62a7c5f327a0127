/* SPDX-License-Identifier: BSD-2-Clause */
#include "userspace/term/endpoints.h"

const struct inc_term_endpoint_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_term_soft,
	[INC_ENDPOINT_VERBS] = &inc_term_verbs,
};
