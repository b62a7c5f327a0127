/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The selection of NCCL's devices, of each device's standby, and of the number of comms that fit
 * (hostlib/nccl/choose.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include "hostlib/nccl/choose.h"

#define ROOT "/sys/devices/pci0000:00"
/* path in sysfs of a PCI switch below a port of the root complex */
#define BUS ROOT "/0000:00:01.0/0000:01:00.0"
#define ETH INC_RDMA_LINK_ETHERNET
#define IB  INC_RDMA_LINK_INFINIBAND

static void lists(void **state)
{
	static const struct {
		const char *list, *name;
		int port;
		bool passes;
	} rows[] = {
		{NULL, "mlx5_0", 1, true},
		{"", "mlx5_0", 1, true},
		{"mlx5", "mlx5_0", 1, true},
		{"mlx5_1", "mlx5_10", 1, true}, /* an entry of NCCL's list matches as a prefix */
		{"=mlx5_1", "mlx5_10", 1, false},
		{"=mlx5_1", "mlx5_1", 2, true},
		{"=mlx5", "mlx5_1", 1, false},
		{"mlx5_0,mlx5_1", "mlx5_1", 1, true},
		{"mlx5_0,mlx5_1", "mlx5_2", 1, false},
		{"mlx5_0:1", "mlx5_0", 1, true},
		{"mlx5_0:1", "mlx5_0", 2, false},
		{"mlx5_0:2,mlx5_0:1", "mlx5_0", 1, true},
		{"=mlx5_0:1,mlx5_1:2", "mlx5_1", 2, true},
		{"=mlx5_0:1,mlx5_1:2", "mlx5_1", 1, false},
		{"^mlx5_0", "mlx5_0", 1, false},
		{"^mlx5_0", "mlx5_1", 1, true},
		{"^mlx5_1", "mlx5_10", 1, false},
		{"^=mlx5_1", "mlx5_10", 1, true},
		{"^=mlx5_1:1", "mlx5_1", 1, false},
		{"^=mlx5_1:1", "mlx5_1", 2, true},
		{"=^mlx5_1", "mlx5_1", 1, false}, /* after "=", "^" is no negation */
		{"=^mlx5_1", "^mlx5_1", 1, true},
		{"^", "mlx5_0", 1, false}, /* the negation of an empty list matches everything */
		{"=", "mlx5_0", 1, true},
		{",,mlx5_0,,", "mlx5_0", 1, true},
		{",,mlx5_0,,", "rxe0", 1, false},
		/* an entry without a name is ignored, so this list is empty */
		{":1", "mlx5_0", 1, true},
		{"mlx5_0:", "mlx5_0", 3, true},
		/* the last number is the rail, which NCCL accepts after the port */
		{"mlx5_0::5", "mlx5_0", 3, true},
		{"mlx5_0:x", "mlx5_0", 1, false},
		{"mlx5_0:-1", "mlx5_0", 9, true},
		{"mlx5_0: 2", "mlx5_0", 2, true},
		{"mlx5_0:2", "mlx5_0", -1, true},
		{"eth,lo", "lo", -1, true},
		{"^docker,lo", "lo", -1, false},
		{"=eth0", "eth01", -1, false},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (ha_iflist_passes(rows[i].list, HA_IFLIST_DEVICES, rows[i].name, rows[i].port) !=
		    rows[i].passes)
			fail_msg("'%s' with %s port %d", rows[i].list ?: "(none)", rows[i].name,
				 rows[i].port);
}

/* NCCL reads a limited number of entries, and 63 characters of each name. */
static void list_ends(void **state)
{
	char list[400] = "", name[80];
	unsigned int i;

	for (i = 0; i < 32; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "dev%u:1,", i);
	strcat(list, "rxe0");
	assert_true(ha_iflist_passes(list, HA_IFLIST_DEVICES, "dev31", 1));
	assert_false(ha_iflist_passes(list, HA_IFLIST_DEVICES, "rxe0", 1));
	assert_true(ha_iflist_passes(list, HA_IFLIST_DEVICES + 1, "rxe0", 1));

	memset(name, 'n', 70);
	name[70] = '\0';
	snprintf(list, sizeof(list), "%s", name);
	name[63] = '\0';
	assert_true(ha_iflist_passes(list, HA_IFLIST_DEVICES, name, 1));
	name[62] = '\0';
	assert_false(ha_iflist_passes(list, HA_IFLIST_DEVICES, name, 1));
}

static void trimmed(void **state)
{
	static const struct {
		const char *path, *out;
	} rows[] = {
		{ROOT "/0000:00:03.0/virtio1", ROOT "/0000:00:03.0"},
		{ROOT "/0000:00:03.0", ROOT "/0000:00:03.0"},
		{BUS "/0000:02:00.0/0000:03:00.1", BUS "/0000:02:00.0/0000:03:00.1"},
		{"/sys/devices/pci10000:00/10000:00:03.0",
		 "/sys/devices/pci10000:00/10000:00:03.0"},
		{"/sys/devices/virtual/net/veth0", ""},
		{ROOT, ""},
		{"/sys/devices/platform/soc/1a0.ethernet", ""},
		{"", ""},
		{"0000:00:03.0", ""},
	};
	char path[100];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		strcpy(path, rows[i].path);
		ha_pci_path_trim(path);
		assert_string_equal(path, rows[i].out);
	}
}

static void affinities(void **state)
{
	static const struct {
		struct ha_candidate a, b;
		enum ha_affinity affinity;
	} rows[] = {
		/* two cards behind one PCI switch */
		{{"m0", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.0"},
		 {"m1", 1, true, ETH, BUS "/0000:02:01.0/0000:04:00.0"},
		 HA_AFFINITY_SWITCH},
		/* two cards behind two PCI switches of one root complex */
		{{"m0", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.0"},
		 {"m1", 1, true, ETH, ROOT "/0000:00:02.0/0000:11:00.0/0000:12:01.0/0000:14:00.0"},
		 HA_AFFINITY_DEVICE},
		/* each card is at its own port of the root complex */
		{{"m0", 1, true, ETH, ROOT "/0000:00:01.0/0000:03:00.0"},
		 {"m1", 1, true, ETH, ROOT "/0000:00:02.0/0000:04:00.0"},
		 HA_AFFINITY_DEVICE},
		/* two functions of one card, which fail together */
		{{"m0", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.0"},
		 {"m1", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.1"},
		 HA_AFFINITY_PORT},
		{{"m0", 1, true, ETH, ""}, {"m0", 2, true, ETH, ""}, HA_AFFINITY_PORT},
		/* devices that are not on PCI */
		{{"rxe0", 1, true, ETH, ""}, {"rxe1", 1, true, ETH, ""}, HA_AFFINITY_DEVICE},
		{{"m0", 1, true, ETH, ""}, {"m1", 1, true, IB, ""}, HA_AFFINITY_NONE},
		{{"m0", 1, true, ETH, ""}, {"m0", 1, true, ETH, ""}, HA_AFFINITY_NONE},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(ha_affinity_of(&rows[i].a, &rows[i].b), rows[i].affinity);
		assert_int_equal(ha_affinity_of(&rows[i].b, &rows[i].a), rows[i].affinity);
	}
}

static void standbys(void **state)
{
	/* a card of two functions and a single one behind the same PCI switch, and another card
	 * elsewhere */
	struct ha_candidate four[] = {
		{"m0", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.0"},
		{"m1", 1, true, ETH, BUS "/0000:02:00.0/0000:03:00.1"},
		{"m2", 1, true, ETH, BUS "/0000:02:01.0/0000:04:00.0"},
		{"m3", 1, true, ETH, ROOT "/0000:00:02.0/0000:05:00.0"},
	};
	enum ha_affinity affinity;

	assert_int_equal(ha_choose_standby(four, 4, 0, &affinity), 2);
	assert_int_equal(affinity, HA_AFFINITY_SWITCH);
	assert_int_equal(ha_choose_standby(four, 4, 1, &affinity), 2);
	/* of several equally near devices the next one is chosen, and after the last one of the
	 * table the first */
	assert_int_equal(ha_choose_standby(four, 4, 2, &affinity), 0);
	assert_int_equal(ha_choose_standby(four, 4, 3, &affinity), 0);
	assert_int_equal(affinity, HA_AFFINITY_DEVICE);
	/* the nearer device 0 is down, but its neighbour 1 is up */
	four[0].up = false;
	assert_int_equal(ha_choose_standby(four, 4, 2, &affinity), 1);
	assert_int_equal(affinity, HA_AFFINITY_SWITCH);
	/* the nearest device is chosen even if it is down, because it may come up */
	four[2].up = false;
	assert_int_equal(ha_choose_standby(four, 4, 1, &affinity), 2);
	assert_int_equal(ha_choose_standby(four, 2, 0, &affinity), 1);
	assert_int_equal(affinity, HA_AFFINITY_PORT);
	four[1].link_layer = IB;
	assert_int_equal(ha_choose_standby(four, 2, 0, &affinity), 2);
	assert_int_equal(affinity, HA_AFFINITY_NONE);
	assert_int_equal(ha_choose_standby(four, 1, 0, &affinity), 1);
	assert_int_equal(affinity, HA_AFFINITY_NONE);
}

static void budget(void **state)
{
	static const struct {
		unsigned int max_qp, max_cqe, channels, wr, recvs, comms, by_queue_pairs,
			by_completions;
	} rows[] = {
		/* a ConnectX, whose limit is 576 x 32 completions of each device */
		{262144, 4194303, 16, 64, 8, 227, 8192, 227},
		/* the result is the upper limit */
		{262144, 1 << 30, 16, 64, 8, 256, 8192, 58254},
		/* the number of queue pairs is the limit */
		{1024, 4194303, 16, 64, 8, 32, 32, 227},
		{65536, 32767, 16, 64, 8, 1, 2048, 1}, /* limits of rxe */
		{0, 0, 16, 64, 8, 1, 0, 0},            /* the result is the lower limit */
		/* the limit is 128 x 2 completions */
		{65536, 32767, 1, 64, 1, 127, 32768, 127},
		/* the product of these numbers must not overflow */
		{65536, 4194303, 1024, 65536, 8, 1, 32, 0},
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct inc_rdma_limits limits = {.max_qp = rows[i].max_qp,
						       .max_cqe = rows[i].max_cqe};
		const struct ha_config config = {.expected_channels = rows[i].channels,
						 .wr_per_conn = rows[i].wr,
						 .max_recvs = rows[i].recvs};

		const struct ha_budget got = ha_comms_budget(&limits, &config);

		assert_int_equal(got.comms, rows[i].comms);
		assert_int_equal(got.by_queue_pairs, rows[i].by_queue_pairs);
		assert_int_equal(got.by_completions, rows[i].by_completions);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),    cmocka_unit_test(list_ends),
		cmocka_unit_test(trimmed),  cmocka_unit_test(affinities),
		cmocka_unit_test(standbys), cmocka_unit_test(budget),
	};

	return cmocka_run_group_tests_name("choice of devices", tests, NULL, NULL);
}
