/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The functions about devices that have no side effects: path MTUs, filters, GIDs and limits, and
 * what `incctl check` finds of RDMA devices and of interfaces. The test supplies the descriptions
 * of devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/check/inspect.h"
#include "lib/rdma/gid.h"
#include "lib/rdma/info.h"
#include "lib/rdma/inventory.h"
#include "lib/rdma/qp.h"

static void mtu_codes(void **state)
{
	static const struct {
		unsigned int bytes, code;
	} known[] = {{0, 0},    {255, 0},  {256, 1},  {511, 1},  {512, 2}, {1024, 3},
		     {2047, 3}, {2048, 4}, {4095, 4}, {4096, 5}, {~0u, 5}};
	size_t i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(inc_rdma_mtu_code(known[i].bytes), known[i].code);
	for (i = 1; i <= 5; i++)
		assert_int_equal(inc_rdma_mtu_bytes(i), 128 << i);
	assert_int_equal(inc_rdma_mtu_bytes(0), 0);
	assert_int_equal(inc_rdma_mtu_bytes(6), 0);
	assert_int_equal(inc_rdma_mtu_bytes(~0u), 0);
}

static void filters(void **state)
{
	static const struct inc_rdma_filter_entry entry[] = {{"mlx5_0", 0}, {"mlx5_1", 2}, {"", 3}};
	static const struct inc_rdma_filter named = {entry, 2}, third = {entry, 3}, none = {0};

	assert_true(inc_rdma_filter_passes(NULL, "rxe0", 1));
	assert_true(inc_rdma_filter_passes(&none, "rxe0", 1));
	assert_true(inc_rdma_filter_passes(&named, "mlx5_0", 0));
	assert_true(inc_rdma_filter_passes(&named, "mlx5_0", 7));
	/* the filter names one port of the device */
	assert_true(inc_rdma_filter_passes(&named, "mlx5_1", 0));
	assert_true(inc_rdma_filter_passes(&named, "mlx5_1", 2));
	assert_false(inc_rdma_filter_passes(&named, "mlx5_1", 1));
	/* the name must match completely */
	assert_false(inc_rdma_filter_passes(&named, "mlx5_10", 0));
	assert_false(inc_rdma_filter_passes(&named, "mlx5_", 0));
	assert_true(inc_rdma_filter_passes(&third, "mlx5_1", 3));
	assert_true(inc_rdma_filter_passes(&third, "rxe0", 3));
	assert_false(inc_rdma_filter_passes(&third, "rxe0", 1));
}

static void devices_and_ports_by_name(void **state)
{
	static const struct inc_rdma_port_info ports[] = {{.number = 1}, {.number = 3}};
	static const struct inc_rdma_device_info devices[] = {
		{.index = 0, .name = "rxe0"},
		{.index = 2, .name = "rxe2", .port = ports, .ports = 2},
	};
	static const struct inc_rdma_list list = {devices, 2, 0};

	assert_ptr_equal(inc_rdma_device_find(&list, 0, "rxe0"), &devices[0]);
	assert_ptr_equal(inc_rdma_device_find(&list, 2, "rxe2"), &devices[1]);
	assert_null(inc_rdma_device_find(&list, 1, "rxe2"));
	assert_null(inc_rdma_device_find(&list, 2, "rxe0"));
	assert_ptr_equal(inc_rdma_port_find(&devices[1], 1), &ports[0]);
	assert_ptr_equal(inc_rdma_port_find(&devices[1], 3), &ports[1]);
	assert_null(inc_rdma_port_find(&devices[1], 2));
	assert_null(inc_rdma_port_find(&devices[1], 0));
	assert_null(inc_rdma_port_find(&devices[0], 1));
}

/* ---- GIDs ------------------------------------------------------------------------------- */

#define FE80                         \
	{                            \
		0xfe, 0x80, [15] = 9 \
	}
#define FEBF                         \
	{                            \
		0xfe, 0xbf, [15] = 9 \
	}
#define FEC0                         \
	{                            \
		0xfe, 0xc0, [15] = 9 \
	}
#define V4(d)                                                \
	{                                                    \
		[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, d \
	}
#define GLOBAL                       \
	{                            \
		0x20, 0x01, [15] = 7 \
	}

static const struct inc_rdma_gid table[] = {
	{0, INC_RDMA_GID_ROCE_V1, FE80, 4, 4, "eth4"},
	{1, INC_RDMA_GID_ROCE_V2, FE80, 4, 4, "eth4"},
	{2, INC_RDMA_GID_ROCE_V1, V4(1), 4, 4, "eth4"},
	{3, INC_RDMA_GID_ROCE_V2, V4(3), 9, 5,
	 /* the name eth5 belongs to another interface in the device's namespace */
	 "eth5"},
	{4, INC_RDMA_GID_ROCE_V2, V4(4), 4, 0, ""}, /* no interface of this namespace has the GID */
	{5, INC_RDMA_GID_ROCE_V2, {0}, 4, 4, "eth4"},
	{7, INC_RDMA_GID_ROCE_V2, V4(1), 4, 4, "eth4"},
	/* the device does not report the GID's interface */
	{8, INC_RDMA_GID_ROCE_V2, V4(8), 0, 6, "eth6"},
	{9, INC_RDMA_GID_ROCE_V2, GLOBAL, 4, 4, "eth4"},
	{200, INC_RDMA_GID_ROCE_V2, V4(1), 4, 4, "eth4"},
};
static const struct inc_rdma_port_info port = {
	.number = 1,
	.gid = table,
	.gids = sizeof(table) / sizeof(table[0]),
};

/* The index of the GID that is found for this wish, or -1. */
static int found(struct inc_rdma_gid_wish wish)
{
	const struct inc_rdma_gid *gid = inc_rdma_gid_find(&port, &wish);

	return gid ? gid->index : -1;
}

static int by_address(uint8_t last, enum inc_rdma_gid_type type, int index)
{
	const uint8_t raw[16] = V4(last);

	return found((struct inc_rdma_gid_wish){.type = type, .raw = raw, .index = index});
}

static void gids_by_type_and_address(void **state)
{
	assert_int_equal(by_address(1, INC_RDMA_GID_ROCE_V2, -1), 7);
	assert_int_equal(by_address(1, INC_RDMA_GID_ROCE_V1, -1), 2);
	assert_int_equal(by_address(1, INC_RDMA_GID_INFINIBAND, -1), -1);
	assert_int_equal(by_address(2, INC_RDMA_GID_ROCE_V2, -1), -1);
	/* a GID of another network namespace, although this one has the same address */
	assert_int_equal(by_address(3, INC_RDMA_GID_ROCE_V2, -1), -1);
	/* nothing contradicts these GIDs */
	assert_int_equal(by_address(4, INC_RDMA_GID_ROCE_V2, -1), 4);
	assert_int_equal(by_address(8, INC_RDMA_GID_ROCE_V2, -1), 8);
	/* with a given index, only that entry matches */
	assert_int_equal(by_address(1, INC_RDMA_GID_ROCE_V2, 200), 200);
	assert_int_equal(by_address(1, INC_RDMA_GID_ROCE_V2, 2), -1);
	assert_int_equal(by_address(1, INC_RDMA_GID_ROCE_V2, 6), -1);
}

static void gids_by_interface_and_the_first_global_one(void **state)
{
	struct inc_rdma_gid_wish wish = {.type = INC_RDMA_GID_ROCE_V2, .index = -1};

	wish.own_ifname = "eth4";
	assert_int_equal(found(wish), 1);
	wish.global = true;
	assert_int_equal(found(wish), 7); /* the first GID that is neither link-local nor zero */
	wish.own_ifname = "eth6";
	assert_int_equal(found(wish), 8);
	wish.own_ifname = "eth5";
	assert_int_equal(found(wish), -1);
	wish.own_ifname = "eth";
	assert_int_equal(found(wish), -1);
	wish.own_ifname = NULL;
	/* the result is not entry 4, whose GID no interface of this namespace has */
	assert_int_equal(found(wish), 7);
	wish.type = INC_RDMA_GID_ROCE_V1;
	assert_int_equal(found(wish), 2);
}

/* fe80::/10 is link-local, so febf:: is and fec0:: is not. */
static void link_local_is_ten_bits(void **state)
{
	static const struct inc_rdma_gid edges[] = {
		{0, INC_RDMA_GID_ROCE_V2, FEBF, 4, 4, "eth4"},
		{1, INC_RDMA_GID_ROCE_V2, FEC0, 4, 4, "eth4"},
	};
	static const struct inc_rdma_port_info edge = {.number = 1, .gid = edges, .gids = 2};
	const struct inc_rdma_gid_wish wish = {
		.type = INC_RDMA_GID_ROCE_V2, .global = true, .index = -1};

	assert_ptr_equal(inc_rdma_gid_find(&edge, &wish), &edges[1]);
}

static void gids_as_text(void **state)
{
	static const char *const bad[] = {"", "10.0.0.1", "fe80::1%eth0", "1:2:3",
					  "::ffff:1.2.3.4 "};
	static const uint8_t v4[16] = V4(1);
	char text[INC_RDMA_GID_TEXT_SIZE];
	uint8_t raw[16];
	size_t i;

	inc_rdma_gid_of_ipv4(htonl(0x0a000001), raw);
	assert_memory_equal(raw, v4, 16);
	assert_string_equal(inc_rdma_gid_print(raw, text), "::ffff:10.0.0.1");
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_int_equal(inc_rdma_gid_parse(inc_rdma_gid_print(table[i].raw, text), raw),
				 0);
		assert_memory_equal(raw, table[i].raw, 16);
	}
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(inc_rdma_gid_parse(bad[i], raw), -EINVAL);
}

/* ---- limits ----------------------------------------------------------------------------- */

static void caps_beyond_the_device_are_named(void **state)
{
	static const struct inc_rdma_limits limits = {
		.max_qp_wr = 100, .max_sge = 10, .max_qp_rd_atom = 5, .max_qp_init_rd_atom = 4};
	static const struct inc_rdma_qp_caps fits = {100, 100, 10, 10, 0, 4, 5};
	static const struct {
		struct inc_rdma_qp_caps caps;
		const char *said;
	} bad[] = {
		{{101, 100, 10, 10, 0, 4, 5}, "dev9: send_wr is 101, the device can do 100"},
		{{100, 101, 10, 10, 0, 4, 5}, "dev9: recv_wr is 101, the device can do 100"},
		{{100, 100, 11, 10, 0, 4, 5}, "dev9: send_sge is 11, the device can do 10"},
		{{100, 100, 10, 11, 0, 4, 5}, "dev9: recv_sge is 11, the device can do 10"},
		{{100, 100, 10, 10, 0, 5, 5}, "dev9: rd_atomic is 5, the device can do 4"},
		{{100, 100, 10, 10, 0, 4, 6}, "dev9: dest_rd_atomic is 6, the device can do 5"},
	};
	struct inc_err err;
	size_t i;

	assert_int_equal(inc_rdma_qp_caps_check("dev9", &limits, &fits, &err), 0);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(inc_rdma_qp_caps_check("dev9", &limits, &bad[i].caps, &err),
				 -EINVAL);
		assert_string_equal(err.msg, bad[i].said);
	}
}

static void reasons_are_one_line(void **state)
{
	struct inc_err why = {""};
	char was[sizeof(why.msg)];
	int i;

	inc_err_add(&why, "%s: open: %s", "a", "no");
	assert_string_equal(why.msg, "a: open: no");
	inc_err_add(&why, "b/%d: port is down\n", 1);
	assert_string_equal(why.msg, "a: open: no; b/1: port is down ");
	for (i = 0; i < 100; i++)
		inc_err_add(&why, "more");
	memcpy(was, why.msg, sizeof(was));
	assert_true(strlen(was) > sizeof(was) - 4);
	inc_err_add(&why, "more");
	assert_string_equal(why.msg, was);
}

/* A rate is allowed within the device's bounds, which the refusal of another rate names. */
static void rate_limits(void **state)
{
	static const struct inc_rdma_limits none = {0}, some = {.qp_rate_limit_min = 1000,
								.qp_rate_limit_max = 4000000000};
	struct inc_err err = {""};

	assert_int_equal(inc_rdma_rate_check(&none, 0, &err), 0);
	assert_int_equal(inc_rdma_rate_check(&none, 1000, &err), -EOPNOTSUPP);
	assert_string_equal(err.msg, "the device limits the rate of no RC queue pair");
	assert_int_equal(inc_rdma_rate_check(&some, 0, &err), 0);
	assert_int_equal(inc_rdma_rate_check(&some, 1000, &err), 0);
	assert_int_equal(inc_rdma_rate_check(&some, 4000000000, &err), 0);
	assert_int_equal(inc_rdma_rate_check(&some, 999, &err), -EINVAL);
	assert_string_equal(err.msg, "the device can do 1000 to 4000000000 kbit/s");
	assert_int_equal(inc_rdma_rate_check(&some, 4000000001, &err), -EINVAL);
}

/* Opening an inventory succeeds on machines without devices, too. */
static void an_inventory_opens_everywhere(void **state)
{
	const struct inc_rdma_filter_entry entry = {.device = "no such device"};
	const struct inc_rdma_filter filter = {&entry, 1};
	struct inc_rdma_inventory *inventory;
	const struct inc_rdma_list *list;
	struct inc_err err = {""};

	assert_int_equal(inc_rdma_inventory_open(&filter, &inventory, &err), 0);
	list = inc_rdma_inventory_get(inventory);
	assert_int_equal(list->devices, 0);
	assert_null(inc_rdma_device_find(list, 0, "no such device"));
	assert_null(inc_rdma_inventory_device(inventory, 0, "no such device"));
	inc_rdma_list_put(list);
	assert_int_equal(inc_rdma_inventory_take(inventory), 0);
	assert_int_equal(inc_rdma_inventory_refresh(inventory, &err), 0);
	inc_rdma_inventory_close(inventory);
	inc_rdma_inventory_close(NULL);
}

/* ---- findings of incctl check ------------------------------------------------------------ */

/* Whether the list has a finding of this level with these texts in its text and in its fix. Prints
 * it. */
static bool has_finding(const struct inc_findings *f, enum inc_finding_level level,
			const char *item, const char *text, const char *fix)
{
	size_t i;

	for (i = 0; i < f->n; i++) {
		const struct inc_finding *x = &f->list[i];

		if (x->level != level || strcmp(x->item, item) != 0 || !strstr(x->text, text) ||
		    !strstr(x->fix, fix))
			continue;
		printf("%s %s: %s: %s. %s Fix: %s\n", inc_finding_levels[level], x->where, x->item,
		       x->text, x->effect ?: "", x->fix);
		return true;
	}
	return false;
}

/* A NIC as a switch needs it. */
static const struct inc_adapter good = {
	.name = "swp1",
	.driver = "mlx5_core",
	.up = true,
	.carrier = true,
	.mtu = 2200,
	.speed_mbit = 100000,
	.has_program = true,
	.has_features = true,
	.xdp_features = INC_XDP_BASIC | INC_XDP_REDIRECT | INC_XDP_XMIT,
	.queues = 8,
	.has_spread = true,
	.spreads_by_ports = true,
	.gro = true,
};

/* Judges an adapter as a port, and expects one finding of a level, and none that is worse. */
static void judge(const struct inc_adapter *a, enum inc_finding_level level, const char *item,
		  const char *text, const char *fix)
{
	struct inc_findings f = {};

	inc_adapter_judge(&f, "port swp1", a, INC_ADAPTER_PASSTHROUGH);
	assert_true(has_finding(&f, level, item, text, fix));
	assert_int_equal(inc_findings_count(&f, level), 1);
	assert_int_equal(inc_findings_count(&f, INC_FINDING_OK), 4);
	inc_findings_free(&f);
}

static void drivers_that_a_switch_cannot_use(void **state)
{
	struct inc_findings f = {};
	struct inc_adapter a = good;

	inc_adapter_judge(&f, "port swp1", &good, INC_ADAPTER_PASSTHROUGH);
	assert_int_equal(inc_findings_count(&f, INC_FINDING_OK), f.n);
	assert_int_equal(f.n, 5);
	inc_findings_free(&f);
	a.lro = true;
	judge(&a, INC_FINDING_PROBLEM, "offloads", "LRO is on", "ethtool -K swp1 lro off");
	a = good;
	a.hw_gro = true;
	judge(&a, INC_FINDING_PROBLEM, "offloads", "hardware GRO is on",
	      "ethtool -K swp1 rx-gro-hw off");
	a = good;
	a.strips_vlan = true; /* no packet of the port has a tag */
	inc_adapter_judge(&f, "port swp1", &a, INC_ADAPTER_PASSTHROUGH);
	assert_int_equal(inc_findings_count(&f, INC_FINDING_OK), f.n);
	inc_findings_free(&f);
	strcpy(a.vlan, "swp1.5");
	judge(&a, INC_FINDING_WARNING, "offloads", "swp1.5 is a VLAN device on it",
	      "ethtool -K swp1 rx-vlan-offload off");
	a = good;
	a.spreads_by_ports = false;
	judge(&a, INC_FINDING_WARNING, "queues", "over 8 queues by addresses alone",
	      "ethtool -N swp1 rx-flow-hash udp4 sdfn");
	a = good;
	a.xdp_features = INC_XDP_BASIC | INC_XDP_REDIRECT;
	judge(&a, INC_FINDING_PROBLEM, "xdp", "sends no packets here that XDP redirects",
	      "--xdp generic");
	a.has_program = false;
	judge(&a, INC_FINDING_SKIPPED, "xdp", "shows when inc-switchd has attached", "");
	a.xdp_features = INC_XDP_BASIC;
	judge(&a, INC_FINDING_PROBLEM, "xdp", "cannot redirect packets", "--xdp generic");
	a.xdp_features = 0;
	judge(&a, INC_FINDING_PROBLEM, "xdp", "has no native XDP", "--mode termination");
	a.has_features = false;
	judge(&a, INC_FINDING_SKIPPED, "xdp", "does not report", "");
	a = good;
	a.mtu = 9000;
	a.has_program = false;
	judge(&a, INC_FINDING_WARNING, "mtu", "MTU 9000 is more than most drivers accept",
	      "mtu 2112");
}

/* Reads an interface that can remove VLAN tags, and the kernel's list of VLAN devices. */
static void vlan_tags(void **state)
{
	char text[] = "VLAN Dev name    | VLAN ID\n"
		      "Name-Type: VLAN_NAME_TYPE_RAW_PLUS_VID_NO_PAD\n"
		      "swp10.5        | 5  | swp10\n"
		      "uplink         | 7  | swp1\n";
	struct inc_adapter a;

	inc_adapter_find_vlan(NULL, "swp1", strcpy(a.vlan, ""));
	assert_string_equal(a.vlan, "");
	inc_adapter_find_vlan(fmemopen(text, strlen(text), "r"), "swp2", a.vlan);
	assert_string_equal(a.vlan, "");
	inc_adapter_find_vlan(fmemopen(text, strlen(text), "r"), "swp1", a.vlan);
	assert_string_equal(a.vlan, "uplink");
	if (unshare(CLONE_NEWNET) || system("ip link add v0 type veth peer name v1"))
		skip();
	assert_int_equal(inc_adapter_read("v0", &a), 0);
	assert_true(a.strips_vlan);
	assert_int_equal(system("ethtool -K v0 rx-vlan-offload off"), 0);
	assert_int_equal(inc_adapter_read("v0", &a), 0);
	assert_false(a.strips_vlan);
}

/* Judges devices for an own address, and expects one finding. */
static void judge_devices(const struct inc_rdma_list *list, const char *own,
			  enum inc_finding_level level, const char *item, const char *text)
{
	struct inc_findings f = {};
	struct in_addr ip;

	assert_int_equal(inet_pton(AF_INET, own, &ip), 1);
	inc_rdma_judge(&f, list, ip);
	assert_true(has_finding(&f, level, item, text, ""));
	inc_findings_free(&f);
}

static void rdma_devices_that_a_host_cannot_use(void **state)
{
	static const struct inc_rdma_gid gid = {
		.index = 3,
		.type = INC_RDMA_GID_ROCE_V2,
		.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 0, [14] = 0, [15] = 7},
		.own_ifname = "eth0",
	};
	struct inc_rdma_port_info roce = {
		.number = 1,
		.link_layer = INC_RDMA_LINK_ETHERNET,
		.state = INC_RDMA_PORT_ACTIVE,
		.active_mtu_bytes = 4096,
		.gid = &gid,
		.gids = 1,
	};
	struct inc_rdma_device_info device = {.name = "mlx5_0", .port = &roce, .ports = 1};
	const struct inc_rdma_list list = {&device, 1, 0}, none = {};

	judge_devices(&none, "10.0.0.7", INC_FINDING_OK, "devices", "none");
	judge_devices(&list, "10.0.0.7", INC_FINDING_OK, "gid", "GID 3 of interface eth0");
	judge_devices(&list, "10.0.0.8", INC_FINDING_WARNING, "gid",
		      "no port has a RoCEv2 GID of 10.0.0.8");
	roce.state = INC_RDMA_PORT_DOWN;
	judge_devices(&list, "10.0.0.7", INC_FINDING_WARNING, "port", "down");
	roce.fault = (struct inc_rdma_fault){-EIO, "query"};
	judge_devices(&list, "10.0.0.7", INC_FINDING_PROBLEM, "port", "query: Input/output error");
	device.fault = (struct inc_rdma_fault){-EACCES, "open"};
	device.ports = 0;
	judge_devices(&list, "10.0.0.7", INC_FINDING_PROBLEM, "devices",
		      "mlx5_0: open: Permission denied");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mtu_codes),
		cmocka_unit_test(filters),
		cmocka_unit_test(devices_and_ports_by_name),
		cmocka_unit_test(gids_by_type_and_address),
		cmocka_unit_test(gids_by_interface_and_the_first_global_one),
		cmocka_unit_test(link_local_is_ten_bits),
		cmocka_unit_test(gids_as_text),
		cmocka_unit_test(caps_beyond_the_device_are_named),
		cmocka_unit_test(rate_limits),
		cmocka_unit_test(an_inventory_opens_everywhere),
		cmocka_unit_test(reasons_are_one_line),
		cmocka_unit_test(drivers_that_a_switch_cannot_use),
		cmocka_unit_test(rdma_devices_that_a_host_cannot_use),
		cmocka_unit_test(vlan_tags),
	};

	return cmocka_run_group_tests_name("info", tests, NULL, NULL) ? 1 : 0;
}
