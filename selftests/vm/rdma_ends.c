/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/rdma/gid.h"
#include "selftests/vm/rdma_ends.h"

struct end ends[ENDS];

void shell(const char *fmt, ...)
{
	char cmd[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("%s failed", cmd);
}

struct inc_rdma_inventory *open_filtered(const struct inc_rdma_filter *filter)
{
	struct inc_rdma_inventory *inventory;
	struct inc_err err = {""};

	if (inc_rdma_inventory_open(filter, &inventory, &err))
		fail_msg("%s", err.msg);
	return inventory;
}

struct inc_rdma_inventory *open_all(void)
{
	return open_filtered(NULL);
}

const struct inc_rdma_device_info *find_device(const struct inc_rdma_list *list, const char *name)
{
	unsigned int i;

	for (i = 0; i < list->devices; i++)
		if (!strcmp(list->device[i].name, name))
			return &list->device[i];
	return NULL;
}

const struct inc_rdma_device_info *described(const struct inc_rdma_list *list, const char *name)
{
	const struct inc_rdma_device_info *device = find_device(list, name);

	if (!device || device->fault.error || device->ports != 1 || device->port[0].fault.error)
		fail_msg("%s is not described", name);
	return device;
}

const struct inc_rdma_gid *gid_of(const struct inc_rdma_device_info *device, uint32_t addr)
{
	uint8_t raw[16];
	const struct inc_rdma_gid_wish wish = {
		.type = INC_RDMA_GID_ROCE_V2, .raw = raw, .index = -1};

	inc_rdma_gid_of_ipv4(addr, raw);
	return inc_rdma_gid_find(&device->port[0], &wish);
}

int gid_index(const struct inc_rdma_device_info *device, uint32_t addr)
{
	const struct inc_rdma_gid *gid = gid_of(device, addr);

	return gid ? gid->index : -1;
}

bool read_ends(int argc, char **argv, const char *program)
{
	int i;

	for (i = 0; i < ENDS && argc >= 7; i++) {
		ends[i].device = argv[1 + 3 * i];
		ends[i].ifname = argv[2 + 3 * i];
		if (inet_pton(AF_INET, argv[3 + 3 * i], &ends[i].addr) != 1)
			break;
	}
	if (i < ENDS || argc > 8) {
		fprintf(stderr,
			"usage: %s DEVICE INTERFACE ADDRESS DEVICE INTERFACE ADDRESS [TEST]\n",
			program);
		return false;
	}
	if (argc == 8)
		cmocka_set_test_filter(argv[7]);
	return true;
}
