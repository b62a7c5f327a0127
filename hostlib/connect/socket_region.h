/* SPDX-License-Identifier: BSD-2-Clause */
/* What a transfer needs of a region. The socket's thread. */
#ifndef INC_CONNECT_SOCKET_REGION_H
#define INC_CONNECT_SOCKET_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

/* Whether so many bytes at local are inside the region, which is this socket's. *key: the device's
 * name for it. */
bool connect_region_has(const struct inc_connect_region *region,
			const struct inc_connect_socket *socket, const void *local, uint32_t bytes,
			uint32_t *key);

#endif
