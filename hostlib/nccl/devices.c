/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/choose.h"
#include "lib/net/netdev.h"
#include "lib/proto/roce.h"
#include "lib/rdma/gid.h"

#define SYS_RDMA  "/sys/class/infiniband"
#define SYS_NET   "/sys/class/net"
#define NO_DEVICE "/" /* a name that no device can have, because "/" cannot be in it */

/* A port that NCCL_IB_HCA allows, with properties of its device from /sys. */
struct found {
	const struct inc_rdma_device_info *device;
	const struct inc_rdma_port_info *port;
	char pci_path[sizeof(((struct ha_device *)0)->pci_path)];
	uint64_t guid;
	bool rxe;
};

/* ---- /sys ----------------------------------------------------------------------------------- */

/* Reads the first line of a device's attribute in /sys. Returns false if there is no such
 * attribute. */
static bool read_sys(const char *device, const char *attribute, char *line, size_t size)
{
	char path[PATH_MAX];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), SYS_RDMA "/%s/%s", device, attribute);
	file = fopen(path, "re");
	if (!file)
		return false;
	ok = fgets(line, size, file);
	fclose(file);
	if (ok)
		line[strcspn(line, "\n")] = '\0';
	return ok;
}

/* Resolves a link of /sys to the path of a PCI function. The result is "" if the link leads to
 * none. */
static void resolve(const char *link, char *out, size_t size)
{
	char path[PATH_MAX];

	out[0] = '\0';
	if (!realpath(link, path))
		return;
	ha_pci_path_trim(path);
	/* a truncated path could be the path of another device */
	if (strlen(path) < size)
		strcpy(out, path);
}

/* Converts the text of a GUID, such as "0002:c903:00a1:b2c3", to a number. */
static uint64_t parse_guid(const char *text)
{
	unsigned int part[4];

	if (sscanf(text, "%4x:%4x:%4x:%4x", &part[0], &part[1], &part[2], &part[3]) != 4)
		return 0;
	return (uint64_t)part[0] << 48 | (uint64_t)part[1] << 32 | (uint64_t)part[2] << 16 |
	       part[3];
}

static void ask_sys(struct found *found)
{
	const char *name = found->device->name;
	char line[64], link[PATH_MAX];

	/* only a device of rxe (software RoCE) has this file, which names its network interface */
	found->rxe = read_sys(name, "parent", line, sizeof(line));
	if (found->rxe)
		snprintf(link, sizeof(link), SYS_NET "/%s/device", line);
	else
		snprintf(link, sizeof(link), SYS_RDMA "/%s/device", name);
	resolve(link, found->pci_path, sizeof(found->pci_path));
	found->guid = read_sys(name, "sys_image_guid", line, sizeof(line)) ? parse_guid(line) : 0;
	if (!found->guid)
		found->guid = found->device->guid;
}

/* ---- which devices and ports ----------------------------------------------------------------- */

/* Whether NCCL_IB_HCA allows any port of this device. A device without an allowed port is not
 * opened. */
static bool any_port_passes(const struct ha_config *config, const char *name)
{
	int port;

	for (port = 1; port <= UINT8_MAX; port++)
		if (ha_iflist_passes(config->ib_hca, HA_IFLIST_DEVICES, name, port))
			return true;
	return false;
}

static int open_inventory(struct ha_devices *devices, struct inc_err *err)
{
	struct inc_rdma_filter_entry *entry;
	struct inc_rdma_filter filter = {0};
	struct ibv_device **list;
	int i, n = 0, ret;

	if (!devices->config->ib_hca && !ha_config_is_soft(devices->config))
		return inc_rdma_inventory_open(NULL, &devices->inventory, err);
	list = ibv_get_device_list(&n);
	entry = calloc(n + 1, sizeof(*entry));
	if (!entry) {
		ret = inc_err_set(err, ENOMEM, "devices: %s", strerror(ENOMEM));
		goto out;
	}
	for (i = 0; list && i < n && !ha_config_is_soft(devices->config); i++)
		if (any_port_passes(devices->config, ibv_get_device_name(list[i])))
			snprintf(entry[filter.entries++].device, sizeof(entry->device), "%s",
				 ibv_get_device_name(list[i]));
	/* NO_DEVICE keeps the list from being empty, because an empty list would allow all
	 * devices */
	if (!filter.entries)
		strcpy(entry[filter.entries++].device, NO_DEVICE);
	filter.entry = entry;
	ret = inc_rdma_inventory_open(&filter, &devices->inventory, err);
	free(entry);
out:
	if (list)
		ibv_free_device_list(list);
	return ret;
}

static bool may_be_used(const struct ha_config *config, const struct inc_rdma_device_info *device,
			const struct inc_rdma_port_info *port)
{
	return !port->fault.error && port->link_layer != INC_RDMA_LINK_UNKNOWN &&
	       ha_iflist_passes(config->ib_hca, HA_IFLIST_DEVICES, device->name, port->number);
}

/* Lists the ports that NCCL_IB_HCA allows, whether they are up or not. Returns NULL if there is no
 * memory. */
static struct found *find_ports(const struct ha_devices *devices, const struct inc_rdma_list *list,
				unsigned int *n)
{
	const struct inc_rdma_device_info *device = list->device, *end = device + list->devices;
	struct found *found;
	unsigned int i, most = 0;

	for (; device < end; device++)
		most += device->fault.error ? 0 : device->ports;
	found = calloc(most ?: 1, sizeof(*found));
	*n = 0;
	for (device = list->device; found && device < end; device++) {
		for (i = 0; !device->fault.error && i < device->ports; i++) {
			if (!may_be_used(devices->config, device, &device->port[i]))
				continue;
			found[*n].device = device;
			found[*n].port = &device->port[i];
			ask_sys(&found[(*n)++]);
		}
	}
	return found;
}

/* ---- devices -------------------------------------------------------------------------------- */

static bool take_rail(const struct ha_devices *devices, struct ha_device *device, unsigned int i,
		      const struct found *found)
{
	struct ha_rail *rail = &device->rail[i];
	const struct ha_budget budget = ha_comms_budget(&found->device->limits, devices->config);
	const uint32_t max_message_bytes = found->port->max_message_bytes;

	rail->device = inc_rdma_inventory_device(devices->inventory, found->device->index,
						 found->device->name);
	if (!rail->device)
		return false;
	rail->index = found->device->index;
	rail->port = found->port->number;
	/* the lower limit of both rails counts, because a failover may lead to either of them */
	if (!i || budget.by_queue_pairs < device->budget.by_queue_pairs)
		device->budget.by_queue_pairs = budget.by_queue_pairs;
	if (!i || budget.by_completions < device->budget.by_completions)
		device->budget.by_completions = budget.by_completions;
	if (!i || budget.comms < device->budget.comms)
		device->budget.comms = budget.comms;
	if (!i || max_message_bytes < device->max_message_bytes)
		device->max_message_bytes = max_message_bytes;
	return true;
}

static bool take_device(const struct ha_devices *devices, struct ha_device *device,
			const struct found *found)
{
	*device = (struct ha_device){
		.guid = found->guid,
		.speed_mbps = found->port->speed_mbps,
		.affinity = HA_AFFINITY_NONE,
		.max_recvs = devices->config->max_recvs,
		.rxe = found->rxe,
	};
	strcpy(device->pci_path, found->pci_path);
	if (!take_rail(devices, device, 0, found))
		return false;
	if (device->rail[0].device->ports > 1)
		snprintf(device->name, sizeof(device->name), "%s:%u", found->device->name,
			 found->port->number);
	else
		snprintf(device->name, sizeof(device->name), "%s", found->device->name);
	return true;
}

/* Makes a device for NCCL of each port that is up. NCCL could not use a port that is down, but such
 * a port may stand by for another, because it may come up later. */
static int take_devices(struct ha_devices *devices, const struct found *found, unsigned int n)
{
	struct ha_candidate *candidate = calloc(n ?: 1, sizeof(*candidate));
	struct ha_device *device;
	unsigned int i, standby;

	devices->device = calloc(n ?: 1, sizeof(*devices->device));
	if (!candidate || !devices->device) {
		free(candidate);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++)
		candidate[i] = (struct ha_candidate){
			.device = found[i].device->name,
			.port = found[i].port->number,
			.up = inc_rdma_port_is_up(found[i].port->state),
			.link_layer = found[i].port->link_layer,
			.pci_path = found[i].pci_path,
		};
	for (i = 0; i < n; i++) {
		device = &devices->device[devices->n];
		if (!candidate[i].up || !take_device(devices, device, &found[i]))
			continue;
		devices->n++;
		if (!devices->config->enable_backup)
			continue;
		standby = ha_choose_standby(candidate, n, i, &device->affinity);
		if (standby == n || !take_rail(devices, device, 1, &found[standby]))
			device->affinity = HA_AFFINITY_NONE;
	}
	free(candidate);
	return 0;
}

/* ---- network interfaces (HA_NCCL_TRANSPORT=soft) ----------------------------------------------
 */

#define MAX_INTERFACES    16u
#define DEF_SPEED_MBPS    10000 /* of an interface that reports none */
#define MAX_MESSAGE_BYTES (1u << 30)

struct listed_interface {
	char name[IF_NAMESIZE];
	char pci_path[sizeof(((struct ha_device *)0)->pci_path)];
	bool up;
	int speed_mbps;
	uint64_t guid; /* the MAC address; 0: none */
};

struct interface_list {
	struct listed_interface at[MAX_INTERFACES];
	unsigned int n;
};

static int speed_of(const char *name)
{
	char path[64 + IF_NAMESIZE];
	int speed_mbps = 0;
	FILE *f;

	snprintf(path, sizeof(path), SYS_NET "/%s/speed", name);
	f = fopen(path, "re");
	if (f && fscanf(f, "%d", &speed_mbps) != 1)
		speed_mbps = 0;
	if (f)
		fclose(f);
	return speed_mbps > 0 ? speed_mbps : DEF_SPEED_MBPS;
}

static uint64_t mac_of(const struct ifaddrs *own, const char *name)
{
	const struct sockaddr_ll *link;
	uint64_t mac = 0;

	for (; own; own = own->ifa_next) {
		link = (const struct sockaddr_ll *)own->ifa_addr;
		if (!link || link->sll_family != AF_PACKET || strcmp(own->ifa_name, name) != 0)
			continue;
		for (unsigned int i = 0; i < 6 && i < link->sll_halen; i++)
			mac = mac << 8 | link->sll_addr[i];
	}
	return mac;
}

/* Adds an interface to the list by an entry of getifaddrs() that has an IPv4 address of it, unless
 * the list has it, is full, or the interface is not allowed. all: all entries. */
static void add_interface(struct interface_list *list, const struct ifaddrs *all,
			  const struct ifaddrs *own, const char *allowed)
{
	struct listed_interface *next = &list->at[list->n];
	char link[64 + IF_NAMESIZE];

	/* a name such as eth0:1 is the label of a further address of eth0 */
	if (!own->ifa_addr || own->ifa_addr->sa_family != AF_INET || list->n == MAX_INTERFACES ||
	    strchr(own->ifa_name, ':') ||
	    !ha_iflist_passes(allowed, HA_IFLIST_INTERFACES, own->ifa_name, -1))
		return;
	for (unsigned int i = 0; i < list->n; i++)
		if (!strcmp(list->at[i].name, own->ifa_name))
			return;
	snprintf(next->name, sizeof(next->name), "%s", own->ifa_name);
	snprintf(link, sizeof(link), SYS_NET "/%s/device", next->name);
	resolve(link, next->pci_path, sizeof(next->pci_path));
	next->up = own->ifa_flags & IFF_UP;
	next->speed_mbps = speed_of(next->name);
	next->guid = mac_of(all, next->name);
	list->n++;
}

static void take_interface(struct ha_device *device, const struct listed_interface *found,
			   const struct ha_config *config)
{
	*device = (struct ha_device){
		.guid = found->guid,
		.speed_mbps = found->speed_mbps,
		.affinity = HA_AFFINITY_NONE,
		.budget.comms = HA_MAX_COMMS,
		.max_recvs = config->max_recvs,
		.max_message_bytes = MAX_MESSAGE_BYTES,
		.rail[0].port = 1,
	};
	strcpy(device->name, found->name);
	strcpy(device->pci_path, found->pci_path);
	strcpy(device->rail[0].interface, found->name);
}

/* Makes a device of each interface that is up. One that is down may stand by. */
static int take_interfaces(struct ha_devices *devices, const struct interface_list *list)
{
	struct ha_candidate candidate[MAX_INTERFACES];
	struct ha_device *device;
	unsigned int i, standby;

	devices->device = calloc(list->n ?: 1, sizeof(*devices->device));
	if (!devices->device)
		return -ENOMEM;
	for (i = 0; i < list->n; i++)
		candidate[i] = (struct ha_candidate){.device = list->at[i].name,
						     .port = 1,
						     .up = list->at[i].up,
						     .link_layer = INC_RDMA_LINK_ETHERNET,
						     .pci_path = list->at[i].pci_path};
	for (i = 0; i < list->n; i++) {
		if (!list->at[i].up)
			continue;
		device = &devices->device[devices->n++];
		take_interface(device, &list->at[i], devices->config);
		if (!devices->config->enable_backup)
			continue;
		standby = ha_choose_standby(candidate, list->n, i, &device->affinity);
		if (standby == list->n)
			continue;
		device->rail[1].port = 1;
		strcpy(device->rail[1].interface, list->at[standby].name);
	}
	return 0;
}

/* Finds the interfaces that NCCL_SOCKET_IFNAME allows, each with the one that stands by for it. */
static int find_interfaces(struct ha_devices *devices)
{
	const char *allowed = devices->config->socket_ifname ?: HA_IFLIST_USUAL;
	struct interface_list *list = calloc(1, sizeof(*list));
	struct ifaddrs *all;
	int ret;

	if (!list)
		return -ENOMEM;
	ret = getifaddrs(&all) ? -errno : 0;
	if (!ret) {
		for (const struct ifaddrs *own = all; own; own = own->ifa_next)
			add_interface(list, all, own, allowed);
		freeifaddrs(all);
		ret = take_interfaces(devices, list);
	}
	free(list);
	return ret;
}

/* ---- both kinds of devices ------------------------------------------------------------------ */

int ha_devices_open(struct ha_devices *devices, const struct ha_config *config, struct inc_err *err)
{
	const struct inc_rdma_list *list;
	struct found *found;
	unsigned int n;
	int ret;

	*devices = (struct ha_devices){.config = config};
	ret = open_inventory(devices, err);
	if (ret)
		return ret;
	if (ha_config_is_soft(config)) {
		ret = find_interfaces(devices);
	} else {
		list = inc_rdma_inventory_get(devices->inventory);
		found = find_ports(devices, list, &n);
		ret = found ? take_devices(devices, found, n) : -ENOMEM;
		free(found);
		inc_rdma_list_put(list);
	}
	if (ret) {
		ha_devices_close(devices);
		return inc_err_set(err, -ret, "devices: %s", strerror(-ret));
	}
	return 0;
}

void ha_devices_close(struct ha_devices *devices)
{
	unsigned int i, rail;

	for (i = 0; i < devices->n; i++)
		for (rail = 0; rail < HA_RAILS; rail++)
			inc_rdma_device_put(devices->device[i].rail[rail].device);
	free(devices->device);
	inc_rdma_inventory_close(devices->inventory);
	*devices = (struct ha_devices){0};
}

/* ---- where a rail is ------------------------------------------------------------------------ */

/* Chooses the GID of a port: RoCE v2 before v1, and a routable address before a link-local one. If
 * NCCL_IB_GID_INDEX is set, only the GID at that index may be chosen. */
static const struct inc_rdma_gid *find_gid(const struct inc_rdma_port_info *port, int index)
{
	static const enum inc_rdma_gid_type types[] = {INC_RDMA_GID_ROCE_V2, INC_RDMA_GID_ROCE_V1};
	const struct inc_rdma_gid *gid = NULL;
	unsigned int i;

	for (i = 0; !gid && i < 2 * sizeof(types) / sizeof(types[0]); i++)
		gid = inc_rdma_gid_find(port, &(struct inc_rdma_gid_wish){
						      .type = types[i / 2],
						      .global = index < 0 && i % 2 == 0,
						      .index = index,
					      });
	return gid;
}

static int place_port(const struct ha_config *config, const char *name,
		      const struct inc_rdma_port_info *port, struct ha_place *place,
		      struct inc_err *err)
{
	const struct inc_rdma_gid *gid;

	if (!inc_rdma_port_is_up(port->state))
		return inc_err_set(err, ENETDOWN, "%s port %u: %s", name, port->number,
				   inc_rdma_port_state_name(port->state));
	if (config->pkey_index >= port->pkeys)
		return inc_err_set(
			err, EADDRNOTAVAIL,
			"%s port %u: NCCL_IB_PKEY is %u, but the port has %u partition keys", name,
			port->number, config->pkey_index, port->pkeys);
	*place = (struct ha_place){
		.link_layer = port->link_layer,
		.lid = port->lid,
		.pkey = port->pkey[config->pkey_index],
		.mtu_bytes = port->active_mtu_bytes,
		.max_message_bytes = port->max_message_bytes,
	};
	if (port->link_layer != INC_RDMA_LINK_ETHERNET)
		return 0;
	gid = find_gid(port, config->gid_index);
	if (!gid && config->gid_index >= 0)
		return inc_err_set(err, EADDRNOTAVAIL,
				   "%s port %u: no GID of RoCE at NCCL_IB_GID_INDEX, %d", name,
				   port->number, config->gid_index);
	if (!gid)
		return inc_err_set(err, EADDRNOTAVAIL,
				   "%s port %u: no GID of RoCE: does its interface have an "
				   "address?",
				   name, port->number);
	place->gid_index = gid->index;
	memcpy(place->gid, gid->raw, sizeof(place->gid));
	return 0;
}

/* Reads the first IPv4 address of an interface. Returns 0 or -errno. */
static int read_address(const char *name, struct in_addr *address, struct inc_err *err)
{
	const struct ifaddrs *own;
	struct ifaddrs *all;
	bool found = false;

	if (getifaddrs(&all))
		return inc_err_set(err, errno, "%s: %s", name, strerror(errno));
	for (own = all; own && !found; own = own->ifa_next) {
		found = own->ifa_addr && own->ifa_addr->sa_family == AF_INET &&
			!strcmp(own->ifa_name, name);
		if (found)
			*address = ((const struct sockaddr_in *)own->ifa_addr)->sin_addr;
	}
	freeifaddrs(all);
	return found ? 0 : inc_err_set(err, EADDRNOTAVAIL, "%s has no IPv4 address", name);
}

/* Does the same as ha_rail_place() for a rail that is an interface. */
static int place_interface(const struct ha_rail *rail, struct ha_place *place, struct inc_err *err)
{
	const char *name = rail->interface;
	struct in_addr address = {0};
	unsigned int flags, mtu;
	int ret;

	if (inc_interface_flags(name, &flags))
		return inc_err_set(err, ENODEV, "%s: gone", name);
	if (!(flags & IFF_UP) || !(flags & IFF_RUNNING))
		return inc_err_set(err, ENETDOWN, "%s: %s", name,
				   flags & IFF_UP ? "no carrier" : "down");
	ret = read_address(name, &address, err);
	if (ret)
		return ret;
	mtu = inc_interface_mtu(name);
	mtu = mtu > INC_MAX_OVERHEAD ? inc_rdma_mtu_bytes(inc_rdma_mtu_code(mtu - INC_MAX_OVERHEAD))
				     : 0;
	if (!mtu)
		return inc_err_set(err, EMSGSIZE,
				   "%s: its MTU is less than %u (ip link set dev %s "
				   "mtu 1500)",
				   name, INC_MAX_OVERHEAD + INC_RDMA_MTU_MIN_BYTES, name);
	*place = (struct ha_place){.pkey = INC_PKEY_DEFAULT,
				   .gid = {[10] = 0xff, [11] = 0xff},
				   .mtu_bytes = mtu,
				   .max_message_bytes = MAX_MESSAGE_BYTES};
	memcpy(place->gid + HA_MAPPED_BYTES, &address, sizeof(address));
	return 0;
}

int ha_rail_place(const struct ha_devices *devices, const struct ha_rail *rail,
		  struct ha_place *place, struct inc_err *err)
{
	const struct inc_rdma_device_info *device;
	const struct inc_rdma_port_info *port;
	const struct inc_rdma_list *list;
	const char *name = ha_rail_name(rail);
	int ret;

	if (!rail->device)
		return place_interface(rail, place, err);
	list = inc_rdma_inventory_get(devices->inventory);
	device = inc_rdma_device_find(list, rail->index, name);
	port = device && !device->fault.error ? inc_rdma_port_find(device, rail->port) : NULL;
	if (port && !port->fault.error)
		ret = place_port(devices->config, name, port, place, err);
	else
		ret = inc_err_set(err, ENODEV, "%s port %u: gone", name, rail->port);
	inc_rdma_list_put(list);
	return ret;
}
