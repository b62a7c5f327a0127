/* SPDX-License-Identifier: BSD-2-Clause */
/* Until hostlib/nccl/devices.c and protocol.c are there. */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "hostlib/nccl/devices.h"
#include "lib/rdma/gid.h"

int ha_rail_place(const struct ha_devices *devices, const struct ha_rail *rail,
		  struct ha_place *place, struct inc_err *err)
{
	const struct inc_rdma_list *list = inc_rdma_inventory_get(devices->inventory);
	const struct inc_rdma_device_info *device =
		inc_rdma_device_find(list, rail->index, rail->device->name);
	const struct inc_rdma_port_info *port = inc_rdma_port_find(device, rail->port);
	const struct inc_rdma_gid *gid = inc_rdma_gid_find(
		port, &(struct inc_rdma_gid_wish){
			      .type = INC_RDMA_GID_ROCE_V2, .global = true, .index = -1});
	int ret = 0;

	if (!inc_rdma_port_is_up(port->state)) {
		ret = inc_err_set(err, ENETDOWN, "%s: port down", device->name);
	} else {
		*place = (struct ha_place){.link_layer = port->link_layer,
					   .state = port->state,
					   .gid_index = gid->index,
					   .mtu_bytes = port->active_mtu_bytes,
					   .max_message_bytes = port->max_message_bytes};
		memcpy(place->gid, gid->raw, 16);
	}
	inc_rdma_list_put(list);
	return ret;
}

void ha_slot_encode(const struct ha_slot *slot, struct ha_slot_wire *wire)
{
	*wire = (struct ha_slot_wire){
		.address = htobe64(slot->address),
		.rkey = htonl(slot->rkey),
		.bytes = htonl(slot->bytes),
		.tag = htonl(slot->tag),
		.epoch = htonl(slot->epoch),
		.index = slot->index,
		.slots = slot->slots,
		.sequence = htonl(slot->sequence),
	};
}
