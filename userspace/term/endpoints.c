/* SPDX-License-Identifier: BSD-2-Clause */
#include "userspace/term/endpoints.h"

const struct inc_term_endpoint_ops *const inc_term_kinds[INC_ENDPOINT_VERBS + 1] = {
	[INC_ENDPOINT_SOFT] = &inc_term_soft,
	[INC_ENDPOINT_VERBS] = &inc_term_verbs,
};
