/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which device, port and GID: those of the interface that has the member's address, of
 * type RoCE v2. The GID's index is looked up, never assumed: its place depends on the order in
 * which addresses came.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "hostlib/src/verbs.h"

#define MAX_GIDS 1024

/* The interface of this network namespace that has the address, 0 where none does. */
static unsigned int interface_of(uint32_t addr, char *name, size_t size)
{
	struct ifaddrs *list, *i;
	unsigned int index = 0;

	if (getifaddrs(&list))
		return 0;
	for (i = list; i && !index; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
		    ((struct sockaddr_in *)i->ifa_addr)->sin_addr.s_addr != addr)
			continue;
		index = if_nametoindex(i->ifa_name);
		snprintf(name, size, "%s", i->ifa_name);
	}
	freeifaddrs(list);
	return index;
}

static bool gid_is(const union ibv_gid *gid, uint32_t addr)
{
	struct in6_addr mapped = IN6ADDR_ANY_INIT;

	mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
	memcpy(mapped.s6_addr + 12, &addr, 4);
	return !memcmp(gid->raw, mapped.s6_addr, 16);
}

static unsigned int mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

/* Collects why each device would not do, for one line in the end. */
static void note(struct inc_err *why, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct inc_err *why, const char *fmt, ...)
{
	size_t len = strlen(why->msg);
	va_list ap;

	if (len && len + 2 < sizeof(why->msg)) {
		strcpy(why->msg + len, "; ");
		len += 2;
	}
	va_start(ap, fmt);
	vsnprintf(why->msg + len, sizeof(why->msg) - len, fmt, ap);
	va_end(ap);
}

static int find_gid(struct ibv_context *ctx, const struct verbs_config *config, uint32_t addr,
		    unsigned int ifindex, struct ibv_gid_entry *found)
{
	struct ibv_gid_entry *table = calloc(MAX_GIDS, sizeof(*table));
	ssize_t i, n;
	int ret = -ENOENT;

	if (!table)
		return -ENOMEM;
	n = ibv_query_gid_table(ctx, table, MAX_GIDS, 0);
	if (n < 0)
		ret = n;
	for (i = 0; i < n; i++) {
		if (table[i].gid_type != IBV_GID_TYPE_ROCE_V2 || !gid_is(&table[i].gid, addr) ||
		    (config->port && table[i].port_num != (uint32_t)config->port) ||
		    (config->gid_index >= 0 && table[i].gid_index != (uint32_t)config->gid_index))
			continue;
		/* A device that is visible here may belong to another network namespace. */
		if (ifindex && table[i].ndev_ifindex && table[i].ndev_ifindex != ifindex)
			continue;
		*found = table[i];
		ret = 0;
		break;
	}
	free(table);
	return ret;
}

static int try_device(struct ibv_device *dev, const struct verbs_config *config, uint32_t addr,
		      unsigned int ifindex, struct verbs_place *place, struct inc_err *why)
{
	const char *name = ibv_get_device_name(dev);
	struct ibv_port_attr port;
	struct ibv_gid_entry gid = {0};
	char text[INET_ADDRSTRLEN];
	__be16 pkey;
	int ret;

	inet_ntop(AF_INET, &addr, text, sizeof(text));
	place->ctx = ibv_open_device(dev);
	if (!place->ctx) {
		ret = -(errno ?: EIO);
		note(why, "%s: open: %s", name, strerror(-ret));
		return ret;
	}
	ret = find_gid(place->ctx, config, addr, ifindex, &gid);
	if (ret) {
		note(why, "%s: no RoCE v2 GID ::ffff:%s", name, text);
		goto close;
	}
	ret = -ibv_query_port(place->ctx, gid.port_num, &port);
	if (ret) {
		note(why, "%s/%u: query: %s", name, gid.port_num, strerror(-ret));
		goto close;
	}
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET || port.state != IBV_PORT_ACTIVE) {
		ret = -ENETDOWN;
		note(why, "%s/%u: port is %s", name, gid.port_num,
		     port.link_layer != IBV_LINK_LAYER_ETHERNET ? "not Ethernet"
								: ibv_port_state_str(port.state));
		goto close;
	}
	ret = -ibv_query_pkey(place->ctx, gid.port_num, config->pkey_index, &pkey);
	if (!ret)
		ret = -ibv_query_device(place->ctx, &place->attr);
	if (ret) {
		note(why, "%s/%u: query: %s", name, gid.port_num, strerror(-ret));
		goto close;
	}
	snprintf(place->device, sizeof(place->device), "%s", name);
	place->port = gid.port_num;
	place->gid_index = gid.gid_index;
	place->pkey = ntohs(pkey);
	place->mtu = mtu_bytes(port.active_mtu);
	return 0;

close:
	ibv_close_device(place->ctx);
	place->ctx = NULL;
	return ret;
}

int verbs_place_find(const struct verbs_config *config, uint32_t addr, struct verbs_place *place,
		     struct inc_err *err)
{
	struct inc_err why = {""};
	struct ibv_device **list;
	unsigned int ifindex;
	int i, n = 0, ret = -ENODEV;

	memset(place, 0, sizeof(*place));
	list = ibv_get_device_list(&n);
	if (!list || !n) {
		ret = inc_err_set(err, list ? ENODEV : errno ?: ENODEV, "no RDMA device here");
		goto out;
	}
	ifindex = interface_of(addr, place->ifname, sizeof(place->ifname));
	for (i = 0; i < n && ret; i++) {
		if (config->device[0] && strcmp(config->device, ibv_get_device_name(list[i])))
			continue;
		ret = try_device(list[i], config, addr, ifindex, place, &why);
	}
	if (ret && why.msg[0])
		inc_err_set(err, ENODEV, "%s", why.msg);
	else if (ret)
		inc_err_set(err, ENODEV, "no RDMA device '%s'", config->device);
	ret = ret ? -ENODEV : 0;
out:
	if (list)
		ibv_free_device_list(list);
	return ret;
}

void verbs_place_close(struct verbs_place *place)
{
	if (place->ctx)
		ibv_close_device(place->ctx);
	place->ctx = NULL;
}
