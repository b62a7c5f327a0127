/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include "hostlib/src/transport.h"
#ifdef INCCL_HAVE_VERBS
#include "hostlib/src/verbs.h"
#endif

const struct inccl_transport *const inccl_transports[] = {
#ifdef INCCL_HAVE_VERBS
	&inccl_verbs,
#endif
	&inccl_verbs,
	&inccl_soft,
	NULL,
};
