/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The choice of a pair of ports (hostlib/connect/select.h), on devices that the test describes, and
 * the counters of its round robin. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/connect/peers.h"
#include "hostlib/connect/select.h"

#define IB  INC_RDMA_LINK_INFINIBAND
#define ETH INC_RDMA_LINK_ETHERNET

enum { MAX = 3 };

/* A device is described by a text such as "ib0 a,b": one port with that link layer, and its zones.
 * Flags follow as letters: d (the port is down), e (the port is in ACTIVE_DEFER, which counts as
 * up), f (the device cannot be queried), n (the port has no address). */
struct machine {
	struct inc_rdma_list list;
	struct inc_rdma_device_info device[MAX];
	struct inc_rdma_port_info port[MAX];
	struct inc_rdma_gid gid[MAX];
	struct inc_connect_devices told;
	struct connect_config config;
};

struct row {
	const char *what;
	const char *remote[MAX], *local[MAX];
	const char *settings; /* letters: "z": zones must match; "p": InfiniBand is not preferred */
	uint64_t counter;
	int ret;
	const char *chosen; /* the chosen pair as "REMOTE LOCAL", for example "ib0 ib1" */
	/* reasons of the choice, one letter for each pair of ports, see reason_of() */
	const char *reasons;
	bool zones_ignored;
};

static enum inc_connect_reason reason_of(char letter)
{
	static const char letters[] = "CLIGZNT";

	return (enum inc_connect_reason)(strchr(letters, letter) - letters);
}

static const struct row rows[] = {
	{"one pair", {"ib0 a"}, {"ib1 a"}, "", 0, 0, "ib0 ib1", "C", false},
	{"RoCE alike", {"en0 a"}, {"en1 a"}, "", 7, 0, "en0 en1", "C", false},
	{"one zone of several",
	 {"ib0 a,b"},
	 {"ib1 c", "ib2 d,b"},
	 "",
	 0,
	 0,
	 "ib0 ib2",
	 "ZC",
	 false},
	{"a zone's name is all of it",
	 {"ib0 ab"},
	 {"ib1 a", "ib2 abc"},
	 "z",
	 0,
	 -ENODEV,
	 NULL,
	 "ZZ",
	 false},
	{"link layers must be equal",
	 {"en0 a"},
	 {"ib1 a", "en2 a"},
	 "",
	 0,
	 0,
	 "en0 en2",
	 "LC",
	 false},
	{"no link layer in common", {"en0 a"}, {"ib1 a"}, "", 0, -ENODEV, NULL, "L", false},
	{"a port that is down", {"ib0 a"}, {"ib1 a d", "ib2 a"}, "", 0, 0, "ib0 ib2", "IC", false},
	{"one that comes back by itself", {"ib0 a"}, {"ib1 a e"}, "", 0, 0, "ib0 ib1", "C", false},
	{"one that cannot be asked", {"ib0 a"}, {"ib1 a f"}, "", 0, -ENODEV, NULL, "I", false},
	{"Ethernet without an address",
	 {"en0 a"},
	 {"en1 a n", "en2 a"},
	 "",
	 0,
	 0,
	 "en0 en2",
	 "GC",
	 false},
	{"InfiniBand needs none", {"ib0 a"}, {"ib1 a n"}, "", 0, 0, "ib0 ib1", "C", false},
	{"no zone in common, and that is allowed",
	 {"ib0 a"},
	 {"ib1 b"},
	 "",
	 0,
	 0,
	 "ib0 ib1",
	 "C",
	 true},
	{"the same, and it is not", {"ib0 a"}, {"ib1 b"}, "z", 0, -ENODEV, NULL, "Z", false},
	{"no zones at all", {"ib0"}, {"ib1"}, "", 0, 0, "ib0 ib1", "C", true},
	{"zones are looked at before link layers are preferred",
	 {"ib0 a", "en1 b"},
	 {"ib2 c", "en3 b"},
	 "",
	 5,
	 0,
	 "en1 en3",
	 "ZLLC",
	 false},
	{"without zones InfiniBand is preferred, too",
	 {"en0 a", "ib1 a"},
	 {"en2 b", "ib3 b"},
	 "",
	 9,
	 0,
	 "ib1 ib3",
	 "NLLC",
	 true},
	{"InfiniBand first, whatever the counter",
	 {"en0 a", "ib1 a"},
	 {"en2 a", "ib3 a"},
	 "",
	 1,
	 0,
	 "ib1 ib3",
	 "NLLC",
	 false},
	{"not preferred: it comes first all the same",
	 {"en0 a", "ib1 a"},
	 {"en2 a", "ib3 a"},
	 "p",
	 0,
	 0,
	 "ib1 ib3",
	 "TLLC",
	 false},
	{"not preferred: the counter goes on to Ethernet",
	 {"en0 a", "ib1 a"},
	 {"en2 a", "ib3 a"},
	 "p",
	 1,
	 0,
	 "en0 en2",
	 "CLLT",
	 false},
	{"the last counter there is",
	 {"ib0 a"},
	 {"ib1 a", "ib2 a"},
	 "",
	 UINT64_MAX,
	 0,
	 "ib0 ib2",
	 "TC",
	 false},
	{"nothing here", {"ib0 a"}, {NULL}, "", 0, -ENODEV, NULL, "", false},
	{"nothing there", {NULL}, {"ib0 a"}, "", 0, -ENODEV, NULL, "", false},
	{"nothing anywhere", {NULL}, {NULL}, "", 0, -ENODEV, NULL, "", false},
	{"zones do not help where a port is down",
	 {"ib0 a"},
	 {"ib1 b d"},
	 "",
	 0,
	 -ENODEV,
	 NULL,
	 "I",
	 false},
};

static void set_zones(struct connect_zones *zones, const char *text)
{
	char copy[64], *save = NULL, *name;

	snprintf(copy, sizeof(copy), "%s", text);
	for (name = strtok_r(copy, ",", &save); name; name = strtok_r(NULL, ",", &save))
		snprintf(zones->zone[zones->n++].name, INC_CONNECT_NAME_SIZE, "%s", name);
}

static void add_device(struct machine *m, const char *text)
{
	const unsigned int i = m->list.devices++;
	struct connect_allowed *named = &m->config.allowed[m->config.n_allowed++];
	char zones[32] = "", flag = 0;

	assert_true(i < MAX);
	m->gid[i] = (struct inc_rdma_gid){.type = INC_RDMA_GID_ROCE_V2,
					  .raw = {[10] = 0xff, 0xff, 10, 0, 0, i + 1},
					  .own_ifindex = 4};
	m->device[i] = (struct inc_rdma_device_info){.index = i, .port = &m->port[i], .ports = 1};
	assert_true(sscanf(text, "%63s %31s %c", m->device[i].name, zones, &flag) >= 1);
	m->port[i] = (struct inc_rdma_port_info){
		.number = 1,
		.fault.error = flag == 'f' ? -EIO : 0,
		.link_layer = text[0] == 'i' ? IB : ETH,
		.state = flag == 'd'   ? INC_RDMA_PORT_DOWN
			 : flag == 'e' ? INC_RDMA_PORT_ACTIVE_DEFER
				       : INC_RDMA_PORT_ACTIVE,
		.gid = &m->gid[i],
		.gids = flag != 'n',
	};
	memcpy(named->device, m->device[i].name, sizeof(named->device));
	set_zones(&named->zones, zones);
}

/* Describes the machine in the form of a service's answer. */
static void tell(struct machine *m)
{
	unsigned int i;

	for (i = 0; i < m->list.devices; i++) {
		struct inc_connect_device *d = &m->told.devices[m->told.n_devices++];
		const struct connect_zones *zones = &m->config.allowed[i].zones;

		d->dev = m->device[i].index;
		memcpy(d->dev_name, m->device[i].name, sizeof(d->dev_name));
		d->n_ports = 1;
		d->ports[0].port = 1;
		d->ports[0].link_layer = m->port[i].link_layer;
		d->ports[0].n_zones = zones->n;
		memcpy(d->ports[0].zones, zones->zone, sizeof(d->ports[0].zones));
	}
}

static struct machine *new_machine(const char *const devices[MAX])
{
	struct machine *m = calloc(1, sizeof(*m));
	unsigned int i;

	assert_non_null(m);
	connect_config_init(&m->config);
	m->list.device = m->device;
	for (i = 0; i < MAX && devices[i]; i++)
		add_device(m, devices[i]);
	tell(m);
	return m;
}

static void check_choice(const struct row *row, const struct connect_selected *s,
			 const struct inc_err *err)
{
	const size_t n = strlen(row->reasons);
	char chosen[2 * INC_CONNECT_NAME_SIZE + 2];
	size_t i;

	assert_int_equal(s->choice.n_pairs, n);
	assert_true(s->choice.counter == row->counter);
	for (i = 0; i < n; i++) {
		assert_int_equal(s->choice.pairs[i].reason, reason_of(row->reasons[i]));
		if (row->ret)
			assert_non_null(
				strstr(err->msg, inc_connect_reason_text(s->pairs[i].reason)));
	}
	if (row->ret)
		return;
	assert_int_equal(s->choice.zones_ignored, row->zones_ignored);
	snprintf(chosen, sizeof(chosen), "%s %s", s->pairs[s->chosen].remote_name,
		 s->pairs[s->chosen].local_name);
	assert_string_equal(chosen, row->chosen);
	assert_int_equal(s->pairs[s->chosen].reason, INC_CONNECT_CHOSEN);
}

static void table(void **state)
{
	bool seen[INC_CONNECT_N_REASONS] = {false};
	size_t i, k;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct machine *remote = new_machine(rows[i].remote);
		struct machine *local = new_machine(rows[i].local);
		struct connect_selected selected;
		struct inc_err err = {""};

		print_message("%s\n", rows[i].what);
		local->config.allow_unknown_zone = !strchr(rows[i].settings, 'z');
		local->config.prefer_ibdevice = !strchr(rows[i].settings, 'p');
		assert_int_equal(connect_select(&remote->told, &local->list, &local->config,
						rows[i].counter, &selected, &err),
				 rows[i].ret);
		check_choice(&rows[i], &selected, &err);
		for (k = 0; k < selected.choice.n_pairs; k++)
			seen[selected.pairs[k].reason] = true;
		free(selected.pairs);
		free(remote);
		free(local);
	}
	for (i = 0; i < INC_CONNECT_N_REASONS; i++)
		assert_true(seen[i]);
}

/* From any start of the counter, n successive calls choose each of the n pairs once, in their
 * order. */
static void round_robin_from_any_start(void **state)
{
	static const char *const theirs[MAX] = {"en0 a", "ib1 a", "ib2 a"};
	static const char *const ours[MAX] = {"ib3 a", "en4 a", "ib5 a"};
	static const uint64_t starts[] = {0, 1, 3, 1000001, UINT64_MAX - 40};
	struct machine *remote = new_machine(theirs), *local = new_machine(ours);
	unsigned int prefer, pairs, i, k;

	for (prefer = 0; prefer < 2; prefer++) {
		local->config.prefer_ibdevice = prefer;
		/* four pairs (2 x 2) have one link layer, and one pair (1 x 1) has the other */
		pairs = prefer ? 4 : 5;
		for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
			unsigned int times[9] = {0}, used = 0;

			for (k = 0; k < 2 * pairs; k++) {
				struct connect_selected s;

				assert_int_equal(connect_select(&remote->told, &local->list,
								&local->config, starts[i] + k, &s,
								NULL),
						 0);
				times[s.chosen]++;
				free(s.pairs);
			}
			for (k = 0; k < 9; k++) {
				assert_true(times[k] == 0 || times[k] == 2);
				used += times[k] != 0;
			}
			assert_int_equal(used, pairs);
		}
	}
	free(remote);
	free(local);
}

static void refusals_name_the_side(void **state)
{
	static const char *const one[MAX] = {"ib0 a"}, *const none[MAX] = {NULL};
	static const char *const down[MAX] = {"ib1 a d", "en2 a"};
	struct machine *has = new_machine(one), *empty = new_machine(none);
	struct machine *bad = new_machine(down);
	struct connect_selected s;
	struct inc_err err = {""};

	connect_select(&has->told, &empty->list, &empty->config, 0, &s, &err);
	free(s.pairs);
	assert_string_equal(err.msg, "no RDMA device here");
	connect_select(&empty->told, &has->list, &has->config, 0, &s, &err);
	free(s.pairs);
	assert_string_equal(err.msg, "the service has no RDMA port that is active");
	strcpy(empty->told.hostname, "node7");
	connect_select(&empty->told, &has->list, &has->config, 0, &s, &err);
	free(s.pairs);
	assert_string_equal(err.msg, "node7 has no RDMA port that is active");
	connect_select(&has->told, &bad->list, &bad->config, 0, &s, &err);
	free(s.pairs);
	assert_string_equal(err.msg, "no pair of ports fits; "
				     "ib1/1 to ib0/1: the local port is not active; "
				     "en2/1 to ib0/1: one is InfiniBand, the other Ethernet");
	free(has);
	free(empty);
	free(bad);
}

static void reasons_have_texts(void **state)
{
	unsigned int i, k;

	for (i = 0; i <= INC_CONNECT_N_REASONS; i++)
		for (k = 0; k < i; k++)
			assert_string_not_equal(inc_connect_reason_text(i),
						inc_connect_reason_text(k));
	assert_string_equal(inc_connect_reason_text(INC_CONNECT_N_REASONS), "unknown reason");
}

/* The counters of the round robin (hostlib/connect/peers.h). */

static void each_peer_has_its_own_counter(void **state)
{
	struct connect_peers peers;
	uint64_t a, b;

	connect_peers_init(&peers);
	a = connect_peers_next(&peers, "a");
	b = connect_peers_next(&peers, "b");
	assert_true(a != b); /* two random numbers of 64 bits are equal only once in 2^64 runs */
	assert_true(connect_peers_next(&peers, "a") == a + 1);
	assert_true(connect_peers_next(&peers, "a") == a + 2);
	assert_true(connect_peers_next(&peers, "b") == b + 1);
	connect_peers_free(&peers);
}

static void counters_begin_at_random(void **state)
{
	struct connect_peers peers;
	uint64_t first[2];
	int i;

	for (i = 0; i < 2; i++) {
		connect_peers_init(&peers);
		first[i] = connect_peers_next(&peers, "a");
		connect_peers_free(&peers);
	}
	assert_true(first[0] != first[1]);
}

static void the_least_recent_peer_is_forgotten(void **state)
{
	struct connect_peers peers;
	uint64_t kept, forgotten;
	char name[16];
	int i;

	connect_peers_init(&peers);
	forgotten = connect_peers_next(&peers, "forgotten");
	kept = connect_peers_next(&peers, "kept");
	for (i = 0; i < CONNECT_PEERS_KEPT - 1; i++) {
		snprintf(name, sizeof(name), "%d", i);
		connect_peers_next(&peers, name);
		if (i == CONNECT_PEERS_KEPT / 2)
			assert_true(connect_peers_next(&peers, "kept") == kept + 1);
	}
	assert_int_equal(peers.n, CONNECT_PEERS_KEPT);
	assert_true(connect_peers_next(&peers, "kept") == kept + 2);
	assert_true(connect_peers_next(&peers, "forgotten") != forgotten + 1);
	assert_int_equal(peers.n, CONNECT_PEERS_KEPT);
	connect_peers_free(&peers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table),
		cmocka_unit_test(round_robin_from_any_start),
		cmocka_unit_test(refusals_name_the_side),
		cmocka_unit_test(reasons_have_texts),
		cmocka_unit_test(each_peer_has_its_own_counter),
		cmocka_unit_test(counters_begin_at_random),
		cmocka_unit_test(the_least_recent_peer_is_forgotten),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
