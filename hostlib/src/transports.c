/* SPDX-License-Identifier: BSD-2-Clause */
#include <stddef.h>
#include "hostlib/src/endpoint.h"

const struct inccl_transport inccl_transports[] = {
	{INCCL_TRANSPORT_VERBS, &inc_channel_verbs},
	{INCCL_TRANSPORT_SOFT, &inc_channel_soft},
	{},
};
