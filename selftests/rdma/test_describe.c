/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The description of a fake device with three ports. The test replaces libibverbs' functions, each
 * of which may fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "lib/rdma/device_priv.h"

#undef ibv_query_port

#define PORTS 3
#define GIDS  4 /* size of a port's GID table, in which entries 0 and 2 exist */

static struct {
	bool port[PORTS + 1]; /* for each port number: the port cannot be queried */
	bool gids[PORTS + 1]; /* for each port number: the port's GIDs cannot be queried */
	bool table;           /* the query of all the device's GIDs fails */
} fails;

int ibv_query_port(struct ibv_context *ctx, uint8_t number, struct _compat_ibv_port_attr *out)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)out;

	*attr = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
				       .gid_tbl_len = GIDS,
				       .link_layer = IBV_LINK_LAYER_ETHERNET};
	return fails.port[number] ? EIO : 0;
}

static void fill(struct ibv_gid_entry *entry, unsigned int port, unsigned int index)
{
	*entry = (struct ibv_gid_entry){
		.gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_ROCE_V2};
	entry->gid.raw[14] = port;
	entry->gid.raw[15] = 1 + index;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	assert_true(index < GIDS);
	if (fails.gids[port])
		return EPERM;
	if (index % 2)
		return ENODATA;
	fill(entry, port, index);
	return 0;
}

/* Replaces libibverbs' function. It fails as in the kernel if a port fails, or if the table is too
 * small. */
ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *table, size_t most,
			     uint32_t flags, size_t size)
{
	unsigned int port, index;
	ssize_t n = 0;

	if (fails.table || most < PORTS * GIDS)
		return -EINVAL;
	for (port = 1; port <= PORTS; port++)
		for (index = 0; index < GIDS; index += 2) {
			if (fails.gids[port])
				return -EPERM;
			fill(&table[n++], port, index);
		}
	return n;
}

static struct ibv_context ctx;
static struct inc_rdma_device device = {.name = "d", .ctx = &ctx, .ports = PORTS};

static void expect_gids(const struct inc_rdma_port_info *port)
{
	unsigned int i;

	assert_int_equal(port->fault.error, 0);
	assert_int_equal(port->gids, 2);
	for (i = 0; i < 2; i++) {
		assert_int_equal(port->gid[i].index, 2 * i);
		assert_int_equal(port->gid[i].raw[14], port->number);
		assert_int_equal(port->gid[i].raw[15], 1 + 2 * i);
	}
}

static void all_ports(void **state)
{
	struct inc_rdma_device_info info = {0};
	unsigned int i;

	memset(&fails, 0, sizeof(fails));
	assert_int_equal(inc_rdma_describe(&device, NULL, NULL, &info), 0);
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

			memset(&fails, 0, sizeof(fails));
			(kind ? fails.gids : fails.port)[bad + 1] = true;
			assert_int_equal(inc_rdma_describe(&device, NULL, NULL, &info), 0);
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

	memset(&fails, 0, sizeof(fails));
	fails.table = true;
	assert_int_equal(inc_rdma_describe(&device, &filter, NULL, &info), 0);
	assert_int_equal(info.ports, 1);
	assert_int_equal(info.port[0].number, 2);
	expect_gids(&info.port[0]);
	inc_rdma_describe_free(&info);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ports),
		cmocka_unit_test(a_bad_port_hides_no_other),
		cmocka_unit_test(entry_by_entry),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("describe", tests, NULL, NULL);
}
