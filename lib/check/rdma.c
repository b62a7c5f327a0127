/* SPDX-License-Identifier: BSD-2-Clause */
/* Examines the RDMA devices of a host (inspect.h). */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "lib/check/inspect.h"
#include "lib/rdma/inventory.h"

/* Whether the GID is the one by which RoCEv2 uses the IPv4 address, or any IPv4 address if own is
 * 0. */
static bool is_of(const struct inc_rdma_gid *gid, struct in_addr own)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return gid->type == INC_RDMA_GID_ROCE_V2 && !memcmp(gid->raw, mapped, sizeof(mapped)) &&
	       (!own.s_addr || !memcmp(gid->raw + sizeof(mapped), &own, sizeof(own)));
}

static const struct inc_rdma_gid *find_gid(const struct inc_rdma_port_info *port,
					   struct in_addr own)
{
	unsigned int i;

	for (i = 0; i < port->gids; i++)
		if (is_of(&port->gid[i], own))
			return &port->gid[i];
	return NULL;
}

/* Examines a port. Returns whether it has the GID of the own address. */
static bool judge_port(struct inc_findings *f, const struct inc_rdma_device_info *device,
		       const struct inc_rdma_port_info *port, struct in_addr own)
{
	const struct inc_rdma_gid *gid = find_gid(port, own);
	char where[80];

	snprintf(where, sizeof(where), "rdma %.40s:%u", device->name, port->number);
	if (port->fault.error)
		inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, where, "port", "%s: %s",
				      port->fault.step, strerror(-port->fault.error)),
			     "Ranks cannot use this port.", "examine the kernel's log: dmesg");
	else if (port->link_layer != INC_RDMA_LINK_ETHERNET)
		inc_find(f, INC_FINDING_SKIPPED, where, "port", "its link layer is %s",
			 inc_rdma_link_layer_name(port->link_layer));
	else if (!inc_rdma_port_is_up(port->state))
		inc_find_fix(inc_find(f, INC_FINDING_WARNING, where, "port", "it is %s",
				      inc_rdma_port_state_name(port->state)),
			     "Ranks cannot use this port.",
			     "set its interface up, and connect its cable");
	else if (gid)
		inc_find(f, INC_FINDING_OK, where, "gid",
			 "active, packets of %u bytes, RoCEv2 GID %u of interface %s",
			 port->active_mtu_bytes, gid->index,
			 *gid->own_ifname ? gid->own_ifname : "elsewhere");
	return gid;
}

void inc_rdma_judge(struct inc_findings *f, const struct inc_rdma_list *devices, struct in_addr own)
{
	char ip[INET_ADDRSTRLEN];
	bool has_gid = false;
	unsigned int i, p;

	if (!devices->devices) {
		inc_find(f, INC_FINDING_OK, "rdma", "devices", "none, so ranks use UDP sockets");
		return;
	}
	for (i = 0; i < devices->devices; i++) {
		const struct inc_rdma_device_info *device = &devices->device[i];

		if (device->fault.error)
			inc_find_fix(inc_find(f, INC_FINDING_PROBLEM, "rdma", "devices",
					      "%s: %s: %s", device->name, device->fault.step,
					      strerror(-device->fault.error)),
				     "Ranks cannot use this device.",
				     "give this user the right to open /dev/infiniband/uverbs*, "
				     "and examine the kernel's log: dmesg");
		for (p = 0; p < device->ports; p++)
			has_gid |= judge_port(f, device, &device->port[p], own);
	}
	if (has_gid)
		return;
	inet_ntop(AF_INET, &own, ip, sizeof(ip));
	inc_find_fix(
		inc_find(f, INC_FINDING_WARNING, "rdma", "gid", "no port has a RoCEv2 GID of %s",
			 own.s_addr ? ip : "an IPv4 address"),
		"Ranks use UDP sockets, which take more CPU time than a device.",
		"give the device's interface the address: ip addr add ADDRESS/PREFIX dev IFNAME");
}

void inc_inspect_rdma(struct inc_findings *f, struct in_addr own, bool *has_devices)
{
	struct inc_rdma_inventory *inventory;
	const struct inc_rdma_list *list;
	struct inc_err err;

	*has_devices = false;
	if (inc_rdma_inventory_open(NULL, &inventory, &err)) {
		inc_find(f, INC_FINDING_SKIPPED, "rdma", "devices", "%.200s", err.msg);
		return;
	}
	list = inc_rdma_inventory_get(inventory);
	*has_devices = list->devices;
	inc_rdma_judge(f, list, own);
	inc_rdma_list_put(list);
	inc_rdma_inventory_close(inventory);
}
