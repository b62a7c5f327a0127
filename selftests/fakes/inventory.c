/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "lib/base/thread.h"
#include "lib/rdma/gid.h"
#include "lib/rdma/inventory.h"
#include "selftests/fakes/inventory.h"

struct fake_inventory fake_inventory;

struct port {
	struct inc_rdma_port_info info;
	struct inc_rdma_gid gid;
	uint16_t pkey;
};

struct counted {
	/* must be the first member, because pointers to it are cast to this struct */
	struct inc_rdma_list list;
	unsigned int refs;
	struct inc_rdma_device_info *device;
	struct port *port;
};

struct inc_rdma_inventory {
	int fd;
	struct counted *counted;
};

static struct inc_rdma_inventory *inventories[8];
static struct inc_rdma_device open_device;

void fake_inventory_reset(void)
{
	fake_inventory = (struct fake_inventory){.state = INC_RDMA_PORT_ACTIVE};
}

void fake_inventory_changed(void)
{
	size_t i;

	for (i = 0; i < sizeof(inventories) / sizeof(inventories[0]); i++)
		if (inventories[i])
			inc_signal_fd(inventories[i]->fd);
}

static struct counted *describe(void)
{
	struct counted *c = calloc(1, sizeof(*c));
	unsigned int i;

	c->refs = 1;
	c->device = calloc(fake_inventory.n + 1, sizeof(*c->device));
	c->port = calloc(fake_inventory.n + 1, sizeof(*c->port));
	c->list.device = c->device;
	c->list.devices = fake_inventory.n;
	for (i = 0; i < fake_inventory.n; i++) {
		struct port *port = &c->port[i];

		inc_rdma_gid_of_ipv4(htonl(0x0a090001 | i << 8), port->gid.raw);
		port->gid.type = INC_RDMA_GID_ROCE_V2;
		port->gid.own_ifindex = i + 1;
		port->info.number = 1;
		port->info.link_layer = INC_RDMA_LINK_ETHERNET;
		port->info.state = fake_inventory.state;
		port->info.active_mtu_bytes = 1024;
		port->info.max_message_bytes = 1 << 30;
		port->info.gid = &port->gid;
		port->info.gids = 1;
		port->pkey = 0xffff;
		port->info.pkey = &port->pkey;
		port->info.pkeys = 1;
		snprintf(c->device[i].name, sizeof(c->device[i].name), "fake%u", i);
		c->device[i].index = i;
		c->device[i].port = &port->info;
		c->device[i].ports = 1;
	}
	return c;
}

void inc_rdma_list_put(const struct inc_rdma_list *list)
{
	struct counted *c = (struct counted *)list;

	if (--c->refs)
		return;
	free(c->device);
	free(c->port);
	free(c);
}

int inc_rdma_inventory_open(const struct inc_rdma_filter *filter, struct inc_rdma_inventory **out,
			    struct inc_err *err)
{
	struct inc_rdma_inventory *inventory = calloc(1, sizeof(*inventory));
	size_t i;

	inventory->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	inventory->counted = describe();
	for (i = 0; inventories[i]; i++)
		;
	inventories[i] = inventory;
	*out = inventory;
	return 0;
}

void inc_rdma_inventory_close(struct inc_rdma_inventory *inventory)
{
	size_t i;

	if (!inventory)
		return;
	for (i = 0; inventories[i] != inventory; i++)
		;
	inventories[i] = NULL;
	inc_rdma_list_put(&inventory->counted->list);
	close(inventory->fd);
	free(inventory);
}

int inc_rdma_inventory_refresh(struct inc_rdma_inventory *inventory, struct inc_err *err)
{
	inc_rdma_list_put(&inventory->counted->list);
	inventory->counted = describe();
	return 1;
}

const struct inc_rdma_list *inc_rdma_inventory_get(struct inc_rdma_inventory *inventory)
{
	inventory->counted->refs++;
	return &inventory->counted->list;
}

struct inc_rdma_device *inc_rdma_inventory_device(struct inc_rdma_inventory *inventory,
						  uint8_t index, const char *name)
{
	return fake_inventory.shut ? NULL : &open_device;
}

void inc_rdma_device_put(struct inc_rdma_device *device)
{
}

int inc_rdma_inventory_fd(const struct inc_rdma_inventory *inventory)
{
	return inventory->fd;
}

int inc_rdma_inventory_take(struct inc_rdma_inventory *inventory)
{
	inc_drain_fd(inventory->fd);
	return 1;
}

int inc_rdma_fork_safe(void)
{
	return 0;
}
