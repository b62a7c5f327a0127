/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The choice of a queue pair's port, among fake devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "lib/rdma/place.h"
#include "selftests/fakes/inventory.h"

static int find(enum inc_rdma_port_state state, struct inc_err *err)
{
	const struct inc_rdma_place_wish wish = {.device = "", .gid_index = -1};
	struct inc_rdma_place place;
	int ret;

	fake_inventory_reset();
	fake_inventory.n = 1;
	fake_inventory.state = state;
	ret = inc_rdma_place_find(&wish, inet_addr("10.9.0.1"), &place, err);
	inc_rdma_place_close(&place);
	return ret;
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
		assert_non_null(strstr(err.msg, "fake0/1: port is "));
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
