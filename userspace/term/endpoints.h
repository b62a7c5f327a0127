/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of endpoints that there are, in a file of its own: tests have others. */
#ifndef INC_TERM_ENDPOINTS_H
#define INC_TERM_ENDPOINTS_H

#include "lib/conf/comm_conf.h"
#include "userspace/term/endpoint.h"

/* By enum inc_endpoint_kind; NULL: the switch has none of this kind. */
extern const struct inc_term_endpoint_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS];

#endif
