/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices, and their properties as each version of NCCL's interface wants them (plugin.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/nccl/plugin.h"

/* most bytes of one message, the same as in NCCL's own transport */
#define MAX_MESSAGE_BYTES (1ull << 30)

/* ---- devices -------------------------------------------------------------------------------- */

/* Returns the number of devices, and sets *device to the device `dev`, or to NULL if there is no
 * such device. */
static unsigned int find(unsigned int dev, const struct ha_device **device)
{
	const struct ha_plugin *plugin = ha_plugin_now();
	const struct ha_devices *devices = plugin ? ha_plugin_devices(plugin) : NULL;

	*device = devices && dev < devices->n ? &devices->device[dev] : NULL;
	return devices ? devices->n : 0;
}

unsigned int ha_coll_ndevices(void)
{
	const struct ha_device *device;

	return find(0, &device);
}

const char *ha_coll_device_name(unsigned int dev)
{
	const struct ha_device *device;

	find(dev, &device);
	return device ? device->name : "?";
}

int ha_coll_address(unsigned int dev, char *address, size_t size, struct inc_err *err)
{
	static const uint8_t mapped[HA_MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};
	const struct ha_device *device;
	struct ha_place where;
	int ret;

	find(dev, &device);
	if (!device)
		return inc_err_set(err, ENODEV, "no device %u", dev);
	ret = ha_rail_place(ha_plugin_devices(ha_plugin_now()), &device->rail[0], &where, err);
	if (ret)
		return ret;
	if (memcmp(where.gid, mapped, sizeof(mapped)))
		return inc_err_set(err, EADDRNOTAVAIL,
				   "GID %u is no IPv4 address (NCCL_IB_GID_INDEX)",
				   where.gid_index);
	inet_ntop(AF_INET, where.gid + sizeof(mapped), address, size);
	return 0;
}

enum inccl_transport_kind ha_coll_transport(void)
{
	return ha_config_is_soft(ha_plugin_devices(ha_plugin_now())->config) ? INCCL_TRANSPORT_SOFT
									     : INCCL_TRANSPORT_AUTO;
}

void ha_coll_verbs(unsigned int dev, char text[HA_COLL_VERBS_TEXT])
{
	const struct ha_device *device;

	find(dev, &device);
	text[0] = '\0';
	if (!device || !device->rail[0].device)
		return;
	snprintf(text, HA_COLL_VERBS_TEXT, "device=%s,port=%u%s", ha_rail_name(&device->rail[0]),
		 device->rail[0].port, ha_plugin_devices(ha_plugin_now())->config->verbs);
}

/* ---- properties ----------------------------------------------------------------------------- */

static void fill(const struct ha_device *device, struct ha_nccl_properties_v12 *props)
{
	props->name = (char *)device->name;
	props->pci_path = device->pci_path[0] ? (char *)device->pci_path : NULL;
	props->guid = device->guid;
	if (device->peer_memory)
		props->ptr_support |= HA_NCCL_PTR_CUDA;
	if (device->dma_buf)
		props->ptr_support |= HA_NCCL_PTR_DMABUF;
	props->speed = device->speed_mbps;
	props->port = device->rail[0].port;
	props->max_comms = device->budget.comms;
	props->max_recvs = device->max_recvs;
	if (device->max_message_bytes && device->max_message_bytes < MAX_MESSAGE_BYTES)
		props->max_p2p_bytes = props->max_coll_bytes = device->max_message_bytes;
}

/* The members of each older version, taken from those of version 12. */
#define COMMON(all)                                                             \
	.name = (all).name, .pci_path = (all).pci_path, .guid = (all).guid,     \
	.ptr_support = (all).ptr_support, .reg_is_global = (all).reg_is_global, \
	.speed = (all).speed, .port = (all).port, .latency = (all).latency,     \
	.max_comms = (all).max_comms, .max_recvs = (all).max_recvs,             \
	.device_type = (all).device_type, .device_version = (all).device_version

/* Fills the struct of version 12, which has all members. */
enum ha_nccl_result ha_net_properties_v12(int dev, struct ha_nccl_properties_v12 *props)
{
	const struct ha_device *device;

	if (!props || dev < 0 || (unsigned int)dev >= find(dev, &device))
		return HA_NCCL_INVALID_ARGUMENT;
	*props = (struct ha_nccl_properties_v12){
		.ptr_support = HA_NCCL_PTR_HOST,
		.reg_is_global = 0,
		.force_flush = 0,
		.latency = 0,
		.device_type = HA_NCCL_DEVICE_HOST,
		.device_version = HA_NCCL_DEVICE_INVALID_VERSION,
		.virtual_device = {.ndevs = 1, .devs = {dev}},
		.max_p2p_bytes = MAX_MESSAGE_BYTES,
		.max_coll_bytes = MAX_MESSAGE_BYTES,
		.max_multi_request_size = 1,
		.rail_id = HA_NCCL_ID_UNDEF,
		.plane_id = HA_NCCL_ID_UNDEF,
	};
	fill(device, props);
	return HA_NCCL_SUCCESS;
}

enum ha_nccl_result ha_net_properties_v11(int dev, struct ha_nccl_properties_v11 *props)
{
	struct ha_nccl_properties_v12 all;
	const enum ha_nccl_result ret =
		props ? ha_net_properties_v12(dev, &all) : HA_NCCL_INVALID_ARGUMENT;

	if (!ret)
		*props = (struct ha_nccl_properties_v11){
			COMMON(all),
			.force_flush = all.force_flush,
			.virtual_device = {.ndevs = 1, .devs = {dev}},
			.max_p2p_bytes = all.max_p2p_bytes,
			.max_coll_bytes = all.max_coll_bytes,
			.max_multi_request_size = all.max_multi_request_size,
		};
	return ret;
}

enum ha_nccl_result ha_net_properties_v9(int dev, struct ha_nccl_properties_v9 *props)
{
	struct ha_nccl_properties_v11 all;
	const enum ha_nccl_result ret =
		props ? ha_net_properties_v11(dev, &all) : HA_NCCL_INVALID_ARGUMENT;

	/* the properties of version 11 are those of version 9 with one more member at the end */
	static_assert(offsetof(struct ha_nccl_properties_v11, max_multi_request_size) ==
			      sizeof(*props),
		      "version 9 is the beginning of version 11");
	if (!ret)
		memcpy(props, &all, sizeof(*props));
	return ret;
}

enum ha_nccl_result ha_net_properties_v8(int dev, struct ha_nccl_properties_v8 *props)
{
	struct ha_nccl_properties_v12 all;
	const enum ha_nccl_result ret =
		props ? ha_net_properties_v12(dev, &all) : HA_NCCL_INVALID_ARGUMENT;

	if (!ret)
		*props = (struct ha_nccl_properties_v8){COMMON(all)};
	return ret;
}
