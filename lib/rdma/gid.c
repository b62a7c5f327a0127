/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>
#include "lib/rdma/gid.h"

static bool is_global(const struct inc_rdma_gid *gid)
{
	static const uint8_t zero[16];
	bool link_local = gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;

	return memcmp(gid->raw, zero, sizeof(zero)) && !link_local;
}

/* Whether the GID belongs to an interface of another network namespace. Packets from it would
 * not leave by an interface of ours. If no interface of ours has the address, or the device does
 * not report an interface, the GID counts as ours. */
static bool is_foreign(const struct inc_rdma_gid *gid)
{
	return gid->ifindex && gid->own_ifindex && gid->ifindex != gid->own_ifindex;
}

static bool is_as_wished(const struct inc_rdma_gid *gid, const struct inc_rdma_gid_wish *wish)
{
	return gid->type == wish->type && !is_foreign(gid) &&
	       (!wish->raw || !memcmp(gid->raw, wish->raw, sizeof(gid->raw))) &&
	       (!wish->own_ifname || !strcmp(gid->own_ifname, wish->own_ifname)) &&
	       (!wish->global || (is_global(gid) && gid->own_ifindex)) &&
	       (wish->index < 0 || gid->index == wish->index);
}

const struct inc_rdma_gid *inc_rdma_gid_find(const struct inc_rdma_port_info *port,
					     const struct inc_rdma_gid_wish *wish)
{
	unsigned int i;

	for (i = 0; i < port->gids; i++)
		if (is_as_wished(&port->gid[i], wish))
			return &port->gid[i];
	return NULL;
}

void inc_rdma_gid_of_ipv4(uint32_t addr, uint8_t raw[16])
{
	memset(raw, 0, 10);
	raw[10] = raw[11] = 0xff;
	memcpy(raw + 12, &addr, sizeof(addr));
}

const char *inc_rdma_gid_print(const uint8_t raw[16], char buf[INC_RDMA_GID_TEXT_SIZE])
{
	return inet_ntop(AF_INET6, raw, buf, INC_RDMA_GID_TEXT_SIZE);
}

int inc_rdma_gid_parse(const char *text, uint8_t raw[16])
{
	struct in6_addr addr;

	if (inet_pton(AF_INET6, text, &addr) != 1)
		return -EINVAL;
	memcpy(raw, addr.s6_addr, sizeof(addr.s6_addr));
	return 0;
}
