/* SPDX-License-Identifier: BSD-2-Clause */
/* Access to a region for transfers. Called on the socket's thread. */
#ifndef INC_CONNECT_SOCKET_REGION_H
#define INC_CONNECT_SOCKET_REGION_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/include/inc_connect.h"

/* Whether the registered region belongs to this socket and contains so many bytes at address local.
 * *key receives the region's local key. */
bool connect_region_has(const struct inc_connect_region *region,
			const struct inc_connect_socket *socket, const void *local, uint32_t bytes,
			uint32_t *key);

#endif
