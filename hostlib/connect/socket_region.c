/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that the owner of a socket registers for transfers (inc_connect.h). */
#include <errno.h>
#include <stdlib.h>
#include "hostlib/connect/socket_priv.h"

struct inc_connect_region {
	struct inc_connect_socket *socket;
	struct ibv_mr *mr;
};

int inc_connect_socket_register(struct inc_connect_socket *socket, void *memory, size_t size,
				bool remote, struct inc_connect_region **region)
{
	int access = IBV_ACCESS_LOCAL_WRITE, ret;
	struct inc_connect_region *r;

	if (!size)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	if (remote)
		access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	r->mr = ibv_reg_mr(socket->device->pd, memory, size, access);
	if (!r->mr) {
		ret = -errno;
		free(r);
		return ret;
	}
	r->socket = socket;
	connect_count(&connect_socket_figures(socket)->registered_bytes, size);
	*region = r;
	return 0;
}

uint64_t inc_connect_region_address(const struct inc_connect_region *region)
{
	return (uintptr_t)region->mr->addr;
}

uint32_t inc_connect_region_key(const struct inc_connect_region *region)
{
	return region->mr->rkey;
}

void inc_connect_region_release(struct inc_connect_region *region)
{
	if (!region)
		return;
	connect_uncount(&connect_socket_figures(region->socket)->registered_bytes,
			region->mr->length);
	ibv_dereg_mr(region->mr);
	free(region);
}

bool connect_region_has(const struct inc_connect_region *region,
			const struct inc_connect_socket *socket, const void *local, uint32_t bytes,
			uint32_t *key)
{
	const uintptr_t start = (uintptr_t)region->mr->addr, at = (uintptr_t)local;

	*key = region->mr->lkey;
	return region->socket == socket && at >= start && at - start <= region->mr->length &&
	       bytes <= region->mr->length - (at - start);
}
