/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "lib/rdma/gid.h"
#include "lib/rdma/inventory.h"
#include "lib/rdma/place.h"

static bool port_will_do(const struct inc_rdma_device_info *device,
			 const struct inc_rdma_port_info *port,
			 const struct inc_rdma_place_wish *wish, struct inc_err *why)
{
	if (port->fault.error)
		inc_err_add(why, "%s/%u: %s: %s", device->name, port->number, port->fault.step,
			    strerror(-port->fault.error));
	else if (port->link_layer != INC_RDMA_LINK_ETHERNET)
		inc_err_add(why, "%s/%u: port is not Ethernet", device->name, port->number);
	else if (!inc_rdma_port_is_up(port->state))
		inc_err_add(why, "%s/%u: port is %s", device->name, port->number,
			    inc_rdma_port_state_name(port->state));
	else if (wish->pkey_index >= port->pkeys)
		inc_err_add(why, "%s/%u: P_Key index %u: the port has %u", device->name,
			    port->number, wish->pkey_index, port->pkeys);
	else
		return true;
	return false;
}

/* Whether a device has a place that meets the requirements. If it has, fills in *place, except its
 * member device; otherwise gives the reason in why. */
static bool choose(const struct inc_rdma_device_info *device,
		   const struct inc_rdma_place_wish *wish, uint32_t addr,
		   struct inc_rdma_place *place, struct inc_err *why)
{
	const struct inc_rdma_gid *gid = NULL;
	const struct inc_rdma_port_info *port = NULL;
	char text[INC_RDMA_GID_TEXT_SIZE];
	uint8_t raw[16];
	unsigned int i;

	if (device->fault.error) {
		inc_err_add(why, "%s: %s: %s", device->name, device->fault.step,
			    strerror(-device->fault.error));
		return false;
	}
	inc_rdma_gid_of_ipv4(addr, raw);
	for (i = 0; i < device->ports && !gid; i++) {
		port = &device->port[i];
		gid = inc_rdma_gid_find(port, &(struct inc_rdma_gid_wish){
						      .type = INC_RDMA_GID_ROCE_V2,
						      .raw = raw,
						      .index = wish->gid_index,
					      });
	}
	if (!gid) {
		inc_err_add(why, "%s: no RoCE v2 GID %s", device->name,
			    inc_rdma_gid_print(raw, text));
		return false;
	}
	if (!port_will_do(device, port, wish, why))
		return false;
	place->port = port->number;
	place->gid_index = gid->index;
	place->pkey = port->pkey[wish->pkey_index];
	place->mtu_bytes = port->active_mtu_bytes;
	place->max_message_bytes = port->max_message_bytes;
	memcpy(place->ifname, gid->own_ifname, sizeof(place->ifname));
	return true;
}

int inc_rdma_place_find(const struct inc_rdma_place_wish *wish, uint32_t addr,
			struct inc_rdma_place *place, struct inc_err *err)
{
	struct inc_rdma_filter_entry only = {.port = wish->port};
	struct inc_rdma_filter filter = {.entry = &only, .entries = 1};
	struct inc_rdma_inventory *inventory;
	const struct inc_rdma_list *list;
	struct inc_err why = {""};
	int ret, error = ENODEV;
	unsigned int i;

	memset(place, 0, sizeof(*place));
	snprintf(only.device, sizeof(only.device), "%s", wish->device);
	ret = inc_rdma_inventory_open(&filter, &inventory, err);
	if (ret)
		return ret;
	list = inc_rdma_inventory_get(inventory);
	for (i = 0; i < list->devices && !place->device; i++)
		if (choose(&list->device[i], wish, addr, place, &why))
			place->device = inc_rdma_inventory_device(inventory, list->device[i].index,
								  list->device[i].name);
		else if (inc_err_is_shortage(list->device[i].fault.error))
			error = -list->device[i].fault.error;
	if (place->device)
		ret = 0;
	else if (why.msg[0])
		ret = inc_err_set(err, error, "%s", why.msg);
	else if (list->passed_over)
		ret = inc_err_set(err, ENODEV, "no RDMA device '%s'", wish->device);
	else
		ret = inc_err_set(err, ENODEV, "no RDMA device here");
	inc_rdma_list_put(list);
	inc_rdma_inventory_close(inventory);
	return ret;
}

void inc_rdma_place_close(struct inc_rdma_place *place)
{
	inc_rdma_device_put(place->device);
	place->device = NULL;
}
