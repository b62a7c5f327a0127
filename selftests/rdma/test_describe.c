/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The description of a fake device with three ports, whose queries may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "lib/rdma/device_priv.h"
#include "selftests/fakes/verbs.h"

#define PORTS 3

static struct inc_rdma_device *device;

static int open_device(void **state)
{
	struct inc_rdma_port_info port;

	device = fake_verbs_device("d", &port);
	fake_verbs_ports(device, PORTS);
	return 0;
}

static int refuse_nothing(void **state)
{
	memset(&fake_verbs_refused_queries, 0, sizeof(fake_verbs_refused_queries));
	return 0;
}

/* Each port has a link-local GID and one of an IPv4 address, which differ between ports. */
static void expect_gids(const struct inc_rdma_port_info *port)
{
	unsigned int i;

	assert_int_equal(port->fault.error, 0);
	assert_int_equal(port->gids, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(port->gid[i].index, 2 * i);
		assert_int_equal(port->gid[i].raw[0], i ? 0 : 0xfe);
		assert_int_equal(port->gid[i].raw[13], (i ? 0x4d : 0) + port->number - 1);
	}
}

static void all_ports(void **state)
{
	struct inc_rdma_device_info info = {0};
	unsigned int i;

	assert_int_equal(inc_rdma_describe(device, NULL, NULL, &info), 0);
	assert_int_equal(info.ports, PORTS);
	for (i = 0; i < PORTS; i++)
		expect_gids(&info.port[i]);
	inc_rdma_describe_free(&info);
}

/* If one port cannot be queried, the others must be described correctly. */
static void a_bad_port_hides_no_other(void **state)
{
	unsigned int bad, i, kind;

	for (kind = 0; kind < 2; kind++)
		for (bad = 0; bad < PORTS; bad++) {
			struct inc_rdma_device_info info = {0};

			fake_verbs_refused_queries.ports = kind ? 0 : 1u << (bad + 1);
			fake_verbs_refused_queries.gids = kind ? 1u << (bad + 1) : 0;
			assert_int_equal(inc_rdma_describe(device, NULL, NULL, &info), 0);
			for (i = 0; i < PORTS; i++)
				if (i != bad)
					expect_gids(&info.port[i]);
			assert_int_equal(info.port[bad].fault.error, kind ? -EPERM : -EIO);
			assert_string_equal(info.port[bad].fault.step,
					    kind ? "query GIDs" : "query");
			assert_int_equal(info.port[bad].gids, 0);
			inc_rdma_describe_free(&info);
		}
}

/* A port that the filter excludes does not matter. If the query of all GIDs fails, they are queried
 * one by one. */
static void entry_by_entry(void **state)
{
	static const struct inc_rdma_filter_entry second = {"d", 2};
	static const struct inc_rdma_filter filter = {&second, 1};
	struct inc_rdma_device_info info = {0};

	fake_verbs_refused_queries.whole_table = true;
	assert_int_equal(inc_rdma_describe(device, &filter, NULL, &info), 0);
	assert_int_equal(info.ports, 1);
	assert_int_equal(info.port[0].number, 2);
	expect_gids(&info.port[0]);
	inc_rdma_describe_free(&info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_ports, refuse_nothing),
		cmocka_unit_test_setup(a_bad_port_hides_no_other, refuse_nothing),
		cmocka_unit_test_setup(entry_by_entry, refuse_nothing),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("describe", tests, open_device, NULL);
}
