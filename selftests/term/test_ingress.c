/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Which interfaces count as a port, in a network namespace that the test makes. They are the port
 * itself, also if it is renamed or made again, the bridge that the port joins, and loopback. No
 * other interface counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/resource.h>
#include "lib/base/clock.h"
#include "userspace/interface.h"
#include "lib/channel/channel.h"
#include "lib/channel/ingress.h"

#define LOOPBACK 1

static uint64_t now_ns = INC_NSEC_PER_SEC;

static void ip(const char *args)
{
	char command[256];

	snprintf(command, sizeof(command), "ip link %s", args);
	assert_int_equal(system(command), 0);
	now_ns += INC_NSEC_PER_SEC;
}

static bool ok(struct inc_channel_ingress *in, const char *ifname)
{
	return inc_channel_ingress_ok(in, if_nametoindex(ifname), now_ns);
}

static int setup(void **state)
{
	ip("add p0 type veth peer name x0");
	ip("add p1 type veth peer name x1");
	return 0;
}

static int teardown(void **state)
{
	ip("del p0");
	ip("del p1");
	return 0;
}

static void test_own(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_false(ok(&in, "p1"));
	assert_true(ok(&in, "p0"));
	assert_false(ok(&in, "p1"));
	assert_true(ok(&in, "lo"));
	assert_int_equal(if_nametoindex("lo"), LOOPBACK);
	/* interface 0: the kernel has named no interface */
	assert_false(inc_channel_ingress_ok(&in, 0, now_ns));
}

static void test_renamed(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("set p0 name q0");
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	assert_false(ok(&in, "p1"));
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	ip("set q0 name p0");
}

/* The port is renamed, and another interface gets its name, before the first packet arrives. */
static void test_renamed_first(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	ip("set p0 name q0");
	ip("set p1 name p0");
	assert_true(inc_channel_ingress_ok(&in, index, now_ns));
	assert_false(ok(&in, "p0"));
	ip("set p0 name p1");
	ip("set q0 name p0");
}

static void test_made_again(void **state)
{
	const unsigned int index = if_nametoindex("p0");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("del p0");
	ip("add p0 type veth peer name x0");
	assert_int_not_equal(if_nametoindex("p0"), index);
	assert_true(ok(&in, "p0"));
	assert_false(inc_channel_ingress_ok(&in, index, now_ns));
}

/* An interface that gets the port's name does not become the port, and the port remains the
 * port. */
static void test_names_exchanged(void **state)
{
	const unsigned int own = if_nametoindex("p0"), other = if_nametoindex("p1");
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_true(ok(&in, "p0"));
	ip("set p0 name q0");
	ip("set p1 name p0");
	ip("set q0 name p1");
	assert_false(inc_channel_ingress_ok(&in, other, now_ns));
	assert_true(inc_channel_ingress_ok(&in, own, now_ns));
	ip("del p1");
	assert_true(inc_channel_ingress_ok(&in, other, now_ns));
	assert_false(inc_channel_ingress_ok(&in, own, now_ns));
	ip("add p1 type veth peer name x0");
}

/* Packets that arrive by foreign interfaces do not each cause a query of the kernel. */
static void test_asks_seldom(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	assert_false(ok(&in, "p1"));
	assert_int_equal(in.ifindex, if_nametoindex("p0"));
	in.ifindex = 0;
	now_ns += 99 * INC_NSEC_PER_MSEC;
	assert_false(ok(&in, "p0"));
	now_ns += INC_NSEC_PER_MSEC;
	assert_true(ok(&in, "p0"));
}

static void test_bridge(void **state)
{
	struct inc_channel_ingress in;

	assert_int_equal(inc_channel_ingress_init(&in, "p0", NULL), 0);
	ip("add br0 type bridge");
	assert_false(ok(&in, "br0"));
	ip("set p1 master br0");
	assert_false(ok(&in, "br0"));
	ip("set p0 master br0");
	assert_true(ok(&in, "br0"));
	assert_true(ok(&in, "p0"));
	assert_false(ok(&in, "p1"));
	ip("set p0 nomaster");
	assert_false(ok(&in, "br0"));
	ip("del br0");
}

static void test_find(void **state)
{
	struct inc_interface_place place;

	assert_int_equal(inc_interface_find("p0", &place), 0);
	assert_int_equal(place.ifindex, if_nametoindex("p0"));
	assert_int_equal(place.master, 0);
	assert_int_equal(inc_interface_find("p9", &place), -ENODEV);
	assert_int_equal(inc_interface_at(if_nametoindex("p1"), &place), 0);
	assert_int_equal(place.ifindex, if_nametoindex("p1"));
	assert_int_equal(inc_interface_at(0, &place), -ENODEV);
	assert_int_equal(inc_interface_at(1 << 30, &place), -ENODEV);
}

/* A device whose port the kernel cannot be asked for would drop all packets, so it does not open.
 */
static void test_no_descriptor(void **state)
{
	const struct inc_channel_device_opts opts = {.ifname = "p0"};
	struct inc_channel_device *dev;
	struct rlimit all, few;
	struct inc_err err;
	int last = dup(STDERR_FILENO), ret;

	close(last);
	getrlimit(RLIMIT_NOFILE, &all);
	/* the last free descriptor becomes the UDP socket */
	few = (struct rlimit){.rlim_cur = last + 1, .rlim_max = all.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	ret = inc_channel_soft.open(&opts, &dev, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
	assert_int_equal(ret, -EMFILE);
	assert_string_equal(err.msg, "port p0: Too many open files");
	assert_int_equal(inc_channel_soft.open(&opts, &dev, &err), 0);
	inc_channel_soft.close(dev);
	assert_int_equal(dup(STDERR_FILENO), last);
	close(last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_own, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renamed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_renamed_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_made_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_names_exchanged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_asks_seldom, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bridge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_find, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptor, setup, teardown),
	};

	if (unshare(CLONE_NEWNET)) {
		printf("skip term ingress: needs root (network namespaces)\n");
		return 0;
	}
	return cmocka_run_group_tests_name("term ingress", tests, NULL, NULL);
}
