/* SPDX-License-Identifier: BSD-2-Clause */
/* Queries all properties of a device for its description. A refresh calls it, on its thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include "lib/rdma/device_priv.h"
#include "lib/rdma/info.h"

/* limit of the index of a GID, because struct ibv_global_route has no room for larger ones */
#define MAX_GID_INDEX UINT8_MAX

struct lane {
	unsigned int code, value;
};

/* The codes of a port's speed and width in ibv_query_port(3), each with its meaning: Mbit/s of one
 * lane, and number of lanes. */
static const struct lane speeds[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
				     {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
static const struct lane widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};

static uint64_t decode(const struct lane *table, unsigned int n, unsigned int code)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (table[i].code == code)
			return table[i].value;
	return 0;
}

static int describe_pkeys(struct inc_rdma_device *device, unsigned int n,
			  struct inc_rdma_port_info *port)
{
	uint16_t *pkey = calloc(n ?: 1, sizeof(*pkey));
	__be16 raw;
	int ret;

	if (!pkey)
		return -ENOMEM;
	port->pkey = pkey;
	for (; port->pkeys < n; port->pkeys++) {
		ret = ibv_query_pkey(device->ctx, port->number, port->pkeys, &raw);
		if (ret) {
			port->fault = (struct inc_rdma_fault){-(errno ?: EIO), "query P_Keys"};
			break;
		}
		pkey[port->pkeys] = ntohs(raw);
	}
	return 0;
}

static int describe_port(struct inc_rdma_device *device, const struct ibv_port_attr *attr,
			 struct inc_rdma_port_info *port)
{
	/* a link layer of 0 means InfiniBand, because an old library does not fill this field */
	port->link_layer = attr->link_layer ? (enum inc_rdma_link_layer)attr->link_layer
					    : INC_RDMA_LINK_INFINIBAND;
	port->state = (enum inc_rdma_port_state)attr->state;
	port->active_mtu_bytes = inc_rdma_mtu_bytes(attr->active_mtu);
	port->max_message_bytes = attr->max_msg_sz;
	port->speed_mbps = decode(speeds, sizeof(speeds) / sizeof(speeds[0]), attr->active_speed) *
			   decode(widths, sizeof(widths) / sizeof(widths[0]), attr->active_width);
	port->lid = attr->lid;
	return describe_pkeys(device, attr->pkey_tbl_len, port);
}

/* Whether an interface's IPv4 or IPv6 address equals a GID's 16 bytes. */
static bool is_address(const struct sockaddr *addr, const uint8_t raw[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	if (addr && addr->sa_family == AF_INET)
		return !memcmp(raw, mapped, sizeof(mapped)) &&
		       !memcmp(raw + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
	return addr && addr->sa_family == AF_INET6 &&
	       !memcmp(raw, &((const struct sockaddr_in6 *)addr)->sin6_addr, 16);
}

static void find_own_interface(struct inc_rdma_gid *gid, const struct ifaddrs *own)
{
	for (; own && !gid->own_ifindex; own = own->ifa_next) {
		if (!is_address(own->ifa_addr, gid->raw))
			continue;
		gid->own_ifindex = if_nametoindex(own->ifa_name);
		if (gid->own_ifindex)
			strncpy(gid->own_ifname, own->ifa_name, sizeof(gid->own_ifname) - 1);
	}
}

/* Stores the GIDs of one port. entry: the GIDs of all ports, n entries sorted by port and index. */
static int describe_gids(struct inc_rdma_port_info *port, const struct ibv_gid_entry *entry,
			 unsigned int n, const struct ifaddrs *own)
{
	struct inc_rdma_gid *gid = calloc(n ?: 1, sizeof(*gid));

	if (!gid)
		return -ENOMEM;
	port->gid = gid;
	for (; n; n--, entry++) {
		if (entry->port_num != port->number || entry->gid_index > MAX_GID_INDEX)
			continue;
		gid->index = entry->gid_index;
		gid->type = (enum inc_rdma_gid_type)entry->gid_type;
		memcpy(gid->raw, entry->gid.raw, sizeof(gid->raw));
		gid->ifindex = entry->ndev_ifindex;
		if (gid->type != INC_RDMA_GID_INFINIBAND)
			find_own_interface(gid, own);
		gid++;
		port->gids++;
	}
	return 0;
}

/* Queries the GIDs of one port one by one. Returns their number, or -errno. An entry of the table
 * may be empty. */
static ssize_t ask_each_gid(struct inc_rdma_device *device, unsigned int port, unsigned int size,
			    struct ibv_gid_entry *table)
{
	unsigned int i;
	ssize_t n = 0;
	int ret;

	for (i = 0; i < size; i++) {
		ret = ibv_query_gid_ex(device->ctx, port, i, &table[n], 0);
		if (ret && ret != ENODATA)
			return -ret;
		n += !ret;
	}
	return n;
}

/* Stores the GIDs of all ports. size[i]: number of entries in the table of port[i]; most: that of
 * all ports together. First this queries all GIDs of the device by one call. That call fails for
 * all ports if it fails for one. In that case this queries each entry alone. */
static int describe_all_gids(struct inc_rdma_device *device, struct inc_rdma_port_info *port,
			     unsigned int ports, const unsigned int *size, unsigned int most,
			     const struct ifaddrs *own)
{
	struct ibv_gid_entry *table = calloc(most ?: 1, sizeof(*table));
	bool at_once;
	unsigned int i;
	ssize_t n;
	int ret = 0;

	if (!table)
		return -ENOMEM;
	n = most ? ibv_query_gid_table(device->ctx, table, most, 0) : 0;
	at_once = n >= 0;
	for (i = 0; i < ports && !ret; i++) {
		if (!at_once)
			n = ask_each_gid(device, port[i].number, size[i], table);
		if (n < 0 && !port[i].fault.error)
			port[i].fault = (struct inc_rdma_fault){n, "query GIDs"};
		ret = describe_gids(&port[i], table, n < 0 ? 0 : n, own);
	}
	free(table);
	return ret;
}

int inc_rdma_describe(struct inc_rdma_device *device, const struct inc_rdma_filter *filter,
		      const struct ifaddrs *own, struct inc_rdma_device_info *info)
{
	struct inc_rdma_port_info *ports = calloc(device->ports ?: 1, sizeof(*ports)), *port;
	unsigned int number, gids = 0, size[UINT8_MAX] = {0};
	struct ibv_port_attr attr;
	int err, ret = 0;

	if (!ports)
		return -ENOMEM;
	info->port = ports;
	info->limits = device->limits;
	for (number = 1; number <= device->ports && !ret; number++) {
		err = ibv_query_port(device->ctx, number, &attr);
		/* count the GIDs of ports that do not pass the filter, too, because one query
		 * returns those of all ports */
		gids += err ? 0 : attr.gid_tbl_len;
		if (!inc_rdma_filter_passes(filter, device->name, number))
			continue;
		port = &ports[info->ports++];
		port->number = number;
		size[info->ports - 1] = err ? 0 : attr.gid_tbl_len;
		if (err)
			port->fault = (struct inc_rdma_fault){-err, "query"};
		else
			ret = describe_port(device, &attr, port);
	}
	return ret ?: describe_all_gids(device, ports, info->ports, size, gids, own);
}

void inc_rdma_describe_free(const struct inc_rdma_device_info *info)
{
	unsigned int i;

	for (i = 0; i < info->ports; i++) {
		free((void *)info->port[i].pkey);
		free((void *)info->port[i].gid);
	}
	free((void *)info->port);
}

static bool same_fault(const struct inc_rdma_fault *a, const struct inc_rdma_fault *b)
{
	return a->error == b->error && a->step == b->step;
}

static bool same_gid(const struct inc_rdma_gid *a, const struct inc_rdma_gid *b)
{
	return a->index == b->index && a->type == b->type &&
	       !memcmp(a->raw, b->raw, sizeof(a->raw)) && a->ifindex == b->ifindex &&
	       a->own_ifindex == b->own_ifindex && !strcmp(a->own_ifname, b->own_ifname);
}

static bool same_port(const struct inc_rdma_port_info *a, const struct inc_rdma_port_info *b)
{
	unsigned int i;

	if (a->number != b->number || !same_fault(&a->fault, &b->fault) ||
	    a->link_layer != b->link_layer || a->state != b->state ||
	    a->active_mtu_bytes != b->active_mtu_bytes ||
	    a->max_message_bytes != b->max_message_bytes || a->speed_mbps != b->speed_mbps ||
	    a->lid != b->lid || a->pkeys != b->pkeys || a->gids != b->gids)
		return false;
	for (i = 0; i < a->pkeys; i++)
		if (a->pkey[i] != b->pkey[i])
			return false;
	for (i = 0; i < a->gids; i++)
		if (!same_gid(&a->gid[i], &b->gid[i]))
			return false;
	return true;
}

bool inc_rdma_describe_same(const struct inc_rdma_device_info *a,
			    const struct inc_rdma_device_info *b)
{
	unsigned int i;

	/* limits are not compared, because a device whose limits change is removed and added
	 * again */
	if (a->index != b->index || strcmp(a->name, b->name) || !same_fault(&a->fault, &b->fault) ||
	    a->guid != b->guid || a->ports != b->ports)
		return false;
	for (i = 0; i < a->ports; i++)
		if (!same_port(&a->port[i], &b->port[i]))
			return false;
	return true;
}
