/* SPDX-License-Identifier: BSD-2-Clause */
/* The transports, in the order in which "auto" tries them. */
#include <stddef.h>
#include "hostlib/src/transport.h"

const struct inccl_transport *const inccl_transports[] = {
	&inccl_verbs,
	&inccl_soft,
	NULL,
};
