/* SPDX-License-Identifier: BSD-2-Clause */
/* The devices, and their properties as each version of NCCL's interface wants them (plugin.h). */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/nccl/choose.h"
#include "hostlib/nccl/plugin.h"

/* most bytes of one message, the same as in NCCL's own transport */
#define MAX_MESSAGE_BYTES (1ull << 30)

/* ---- network interfaces --------------------------------------------------------------------- */

#define MAX_INTERFACES  16u
#define DEF_SPEED_MBPS  10000 /* of an interface that reports none */
#define SOFT_MAX_COMMS  256
#define OTHERS_EXCLUDED "^docker,lo,virbr" /* as NCCL does, if the user names no interface */

struct interface {
	char name[IFNAMSIZ];
	char address[INET_ADDRSTRLEN];
	int speed_mbps;
};

/* The interfaces, which are found once, because NCCL's devices do not change. */
static struct {
	pthread_mutex_t lock;
	bool known; /* the lock protects this, and what follows until it is set */
	unsigned int n;
	struct interface interface[MAX_INTERFACES];
} soft = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool ha_soft(const struct ha_plugin *plugin)
{
	const char *transport = ha_plugin_devices(plugin)->config->transport;

	return transport && !strcmp(transport, "soft");
}

static int speed_of(const char *name)
{
	char path[64 + IFNAMSIZ];
	int speed_mbps = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &speed_mbps) != 1)
		speed_mbps = 0;
	if (f)
		fclose(f);
	return speed_mbps > 0 ? speed_mbps : DEF_SPEED_MBPS;
}

static void add_interface(const struct ifaddrs *own, const char *list)
{
	struct interface *next = &soft.interface[soft.n];

	if (!own->ifa_addr || own->ifa_addr->sa_family != AF_INET || !(own->ifa_flags & IFF_UP) ||
	    !ha_iflist_passes(list, HA_IFLIST_INTERFACES, own->ifa_name, -1))
		return;
	/* an interface is one device, however many addresses it has */
	for (unsigned int i = 0; i < soft.n; i++)
		if (!strcmp(soft.interface[i].name, own->ifa_name))
			return;
	snprintf(next->name, sizeof(next->name), "%s", own->ifa_name);
	inet_ntop(AF_INET, &((const struct sockaddr_in *)own->ifa_addr)->sin_addr, next->address,
		  sizeof(next->address));
	next->speed_mbps = speed_of(next->name);
	soft.n++;
}

static void find_interfaces(const struct ha_config *config)
{
	struct ifaddrs *own = NULL;

	pthread_mutex_lock(&soft.lock);
	if (!soft.known && !getifaddrs(&own))
		for (const struct ifaddrs *at = own; at && soft.n < MAX_INTERFACES;
		     at = at->ifa_next)
			add_interface(at, config->socket_ifname ?: OTHERS_EXCLUDED);
	soft.known = true;
	pthread_mutex_unlock(&soft.lock);
	freeifaddrs(own);
}

/* ---- both kinds of devices ------------------------------------------------------------------ */

/* A device: one of its members is not NULL. */
struct place {
	const struct ha_device *rdma;
	const struct interface *interface;
};

/* Returns the number of devices, and fills *place for the device `dev` if there is one. */
static unsigned int find(unsigned int dev, struct place *place)
{
	const struct ha_plugin *plugin = ha_plugin_now();
	const struct ha_devices *devices = plugin ? ha_plugin_devices(plugin) : NULL;

	*place = (struct place){0};
	if (!plugin)
		return 0;
	if (!ha_soft(plugin)) {
		if (dev < devices->n)
			place->rdma = &devices->device[dev];
		return devices->n;
	}
	find_interfaces(devices->config);
	if (dev < soft.n)
		place->interface = &soft.interface[dev];
	return soft.n;
}

unsigned int ha_coll_ndevices(void)
{
	struct place place;

	return find(0, &place);
}

const char *ha_coll_device_name(unsigned int dev)
{
	struct place place;

	find(dev, &place);
	return place.rdma ? place.rdma->name : place.interface ? place.interface->name : "?";
}

int ha_coll_address(unsigned int dev, char *address, size_t size, struct inc_err *err)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct ha_place where;
	struct place place;
	int ret;

	find(dev, &place);
	if (place.interface) {
		snprintf(address, size, "%s", place.interface->address);
		return 0;
	}
	if (!place.rdma)
		return inc_err_set(err, ENODEV, "no device %u", dev);
	ret = ha_rail_place(ha_plugin_devices(ha_plugin_now()), &place.rdma->rail[0], &where, err);
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
	return ha_soft(ha_plugin_now()) ? INCCL_TRANSPORT_SOFT : INCCL_TRANSPORT_AUTO;
}

/* ---- properties ----------------------------------------------------------------------------- */

static void fill_interface(const struct interface *interface, struct ha_nccl_properties_v12 *props)
{
	props->name = (char *)interface->name;
	props->speed = interface->speed_mbps;
	props->port = 1;
	props->max_comms = SOFT_MAX_COMMS;
	props->max_recvs = 1;
}

static void fill_rdma(const struct ha_device *device, struct ha_nccl_properties_v12 *props)
{
	props->name = (char *)device->name;
	props->pci_path = device->pci_path[0] ? (char *)device->pci_path : NULL;
	props->guid = device->guid;
	props->speed = device->speed_mbps;
	props->port = device->rail[0].port;
	props->max_comms = device->max_comms;
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
	struct place place;

	if (!props || dev < 0 || (unsigned int)dev >= find(dev, &place))
		return HA_NCCL_INVALID_ARGUMENT;
	*props = (struct ha_nccl_properties_v12){
		/* no GPU memory is supported, because iflush cannot flush it */
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
	if (place.rdma)
		fill_rdma(place.rdma, props);
	else
		fill_interface(place.interface, props);
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
