/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The choice of a queue pair's port. The test replaces the inventory's functions and describes a
 * device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "lib/rdma/gid.h"
#include "lib/rdma/inventory.h"
#include "lib/rdma/place.h"

#define ADDR "10.1.2.3"

static struct inc_rdma_gid gid = {.type = INC_RDMA_GID_ROCE_V2};
static uint16_t pkey = 0xffff;
static struct inc_rdma_port_info port = {.number = 1,
					 .link_layer = INC_RDMA_LINK_ETHERNET,
					 .gid = &gid,
					 .gids = 1,
					 .pkey = &pkey,
					 .pkeys = 1};
static struct inc_rdma_device_info device = {.name = "made_up", .port = &port, .ports = 1};
static struct inc_rdma_list list = {.device = &device, .devices = 1};
static char opened; /* a variable whose address stands for a device or an inventory */

int inc_rdma_inventory_open(const struct inc_rdma_filter *filter, struct inc_rdma_inventory **out,
			    struct inc_err *err)
{
	*out = (void *)&opened;
	return 0;
}

void inc_rdma_inventory_close(struct inc_rdma_inventory *inventory)
{
}

const struct inc_rdma_list *inc_rdma_inventory_get(struct inc_rdma_inventory *inventory)
{
	return &list;
}

struct inc_rdma_device *inc_rdma_inventory_device(struct inc_rdma_inventory *inventory,
						  uint8_t index, const char *name)
{
	return (void *)&opened;
}

void inc_rdma_list_put(const struct inc_rdma_list *l)
{
}

static int find(enum inc_rdma_port_state state, struct inc_err *err)
{
	const struct inc_rdma_place_wish wish = {.device = "", .gid_index = -1};
	struct inc_rdma_place place;

	port.state = state;
	inc_rdma_gid_of_ipv4(inet_addr(ADDR), gid.raw);
	return inc_rdma_place_find(&wish, inet_addr(ADDR), &place, err);
}

/* The choice must agree with inc_rdma_port_is_up(), which all users of ports call. */
static void ports_that_are_up(void **state)
{
	struct inc_err err;

	assert_int_equal(find(INC_RDMA_PORT_ACTIVE, &err), 0);
	assert_int_equal(find(INC_RDMA_PORT_ACTIVE_DEFER, &err), 0);
}

static void ports_that_are_not(void **state)
{
	static const enum inc_rdma_port_state down[] = {INC_RDMA_PORT_DOWN, INC_RDMA_PORT_INIT,
							INC_RDMA_PORT_ARMED};
	struct inc_err err;

	for (size_t i = 0; i < sizeof(down) / sizeof(*down); i++) {
		assert_int_equal(find(down[i], &err), -ENODEV);
		assert_non_null(strstr(err.msg, "made_up/1: port is "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ports_that_are_up),
		cmocka_unit_test(ports_that_are_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
