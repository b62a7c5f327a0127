/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints of a switch on real devices. Messages are sent between two devices, and between a
 * device and a soft endpoint in the switch's namespace, which receives the packets of the device's
 * wire. Includes rejected requests and failures. Arguments: for each of two devices its name,
 * interface and address; then optionally the name of one test.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "selftests/belongings.h"
#include "selftests/term/harness_device_pair.h"
#include "selftests/vm/rdma_ends.h"

/* the network namespace of rxe, which is the main one of this machine */
#define OWN_NETNS    "/proc/1/ns/net"
#define SWITCH_NETNS "/run/netns/sw"
#define ADDED        "rxe9"

/* ---- helpers ---- */

static struct device_pair_place place_of(const struct end *end)
{
	return (struct device_pair_place){.ops = &inc_channel_verbs,
					  .ifname = end->ifname,
					  .ip = inc_addr_of_ipv4(end->addr)};
}

static void open_pair(struct device_pair *p, unsigned int n_channels, uint64_t seed)
{
	struct device_pair_place place;
	unsigned int d;

	memset(p, 0, sizeof(*p));
	for (d = 0; d < 2; d++) {
		place = place_of(&ends[d]);
		device_pair_open_device(p, d, &place);
	}
	device_pair_make(p, n_channels, seed);
}

/* The switch's address on a device's link. */
static struct inc_addr switch_addr(const struct end *end)
{
	return inc_addr_of_ipv4(htonl((ntohl(end->addr) & ~0xffu) | 254));
}

/* Moves this thread to another network namespace. */
static void enter_netns(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(setns(fd, CLONE_NEWNET), 0);
	close(fd);
}

/* Opens a device and, as device 1, a soft one in the switch's namespace. This thread stays in that
 * namespace, because a soft device queries the state of its port when packets arrive. */
static void open_mixed(struct device_pair *p, unsigned int n_channels, uint64_t seed)
{
	const struct device_pair_place verbs = place_of(&ends[0]);
	const struct device_pair_place soft = {.ops = &inc_channel_soft,
					       .ifname = "p0",
					       .ip = switch_addr(&ends[0]),
					       .udp_port = INC_ROCE_UDP_PORT};

	memset(p, 0, sizeof(*p));
	device_pair_open_device(p, 0, &verbs);
	enter_netns(SWITCH_NETNS);
	device_pair_open_device(p, 1, &soft);
	device_pair_make(p, n_channels, seed);
}

static bool first_lost(struct device_pair *p)
{
	return p->end[0][0].lost;
}

static bool second_lost(struct device_pair *p)
{
	return p->end[1][0].lost;
}

static bool both_lost(struct device_pair *p)
{
	return p->end[0][0].lost && p->end[1][0].lost;
}

static void lost_for(const struct device_pair *p, unsigned int d, enum inc_channel_reason reason)
{
	const struct device_pair_end *e = &p->end[d][0];

	if (e->reason != reason)
		fail_msg("device %u: reason %d, not %d: %s", d, e->reason, reason, e->text);
}

/* ---- messages ---- */

static void test_probe(void **state)
{
	struct inc_channel_device_opts opts = {.ifname = ends[0].ifname,
					       .own_ip = inc_addr_of_ipv4(ends[0].addr)};
	struct inc_channel_offer offer;
	char want[64];
	struct inc_err why;

	if (inc_channel_verbs.probe(&opts, &offer, &why))
		fail_msg("%s", why.msg);
	snprintf(want, sizeof(want), "%s port 1, GID ", ends[0].device);
	assert_memory_equal(offer.device, want, strlen(want));
	/* 4096, because the lab's links have an MTU of 4200 */
	assert_int_equal(offer.payload_bytes, INC_MAX_RC_PAYLOAD);
	assert_int_equal(offer.max_message_bytes, 1 << 20);
	opts.ifname = "h9";
	opts.own_ip = inc_addr_of_ipv4(
		htonl(0x0a4d0963)); /* 10.77.9.99, which is no address of this device */
	assert_int_equal(inc_channel_verbs.probe(&opts, &offer, &why), -ENODEV);
	assert_memory_equal(why.msg, "h9: ", 4);
	assert_non_null(strstr(why.msg, "no RoCE v2 GID ::ffff:10.77.9.99"));
}

static void test_messages(void **state)
{
	const unsigned int before = open_descriptors();
	struct device_pair p;

	open_pair(&p, 1, 1);
	device_pair_connect(&p);
	device_pair_want(&p, 1000);
	device_pair_run(&p, 120);
	assert_int_equal(device_pair_figures(&p, 0, 0).rx_packets, 0);
	device_pair_close(&p);
	assert_int_equal(open_descriptors(), before);
}

static void test_channels(void **state)
{
	struct device_pair p;

	open_pair(&p, DEVICE_PAIR_CHANNELS, 2);
	device_pair_connect(&p);
	device_pair_want(&p, 200);
	device_pair_run(&p, 120);
	device_pair_close(&p);
}

/* Messages that are posted before the peer's address is set are sent afterwards. */
static void test_connect_late(void **state)
{
	struct device_pair p;
	int i;

	open_pair(&p, 2, 3);
	device_pair_want(&p, 20);
	for (i = 0; i < 10; i++)
		device_pair_turn(&p);
	assert_int_equal(p.end[0][0].n_sent, DEVICE_PAIR_MESSAGES);
	device_pair_connect(&p);
	device_pair_run(&p, 60);
	device_pair_close(&p);
}

static bool full(struct device_pair *p)
{
	return p->end[1][0].n_got == DEVICE_PAIR_MESSAGES;
}

/* A sender waits for a peer that has posted no receives, longer than any timeout. */
static void test_no_room(void **state)
{
	uint64_t m, until_ns;
	struct device_pair p;

	open_pair(&p, 1, 4);
	device_pair_connect(&p);
	p.end[1][0].stingy = true;
	device_pair_want(&p, 3 * DEVICE_PAIR_MESSAGES);
	device_pair_until(&p, full);
	until_ns = inc_now_ns() + 6 * INC_NSEC_PER_SEC;
	while (inc_now_ns() < until_ns)
		device_pair_turn(&p);
	assert_int_equal(p.end[1][0].n_got, DEVICE_PAIR_MESSAGES);
	assert_false(p.end[0][0].lost || p.end[1][0].lost);
	p.end[1][0].stingy = false;
	for (m = 0; m < DEVICE_PAIR_MESSAGES; m++)
		device_pair_post(&p.end[1][0], m);
	device_pair_run(&p, 60);
	device_pair_close(&p);
}

/* After a device has reported that it has nothing more to do, only its descriptor wakes the
 * thread. */
static void test_wakes(void **state)
{
	uint64_t end_ns = inc_now_ns() + 60 * INC_NSEC_PER_SEC, now_ns;
	struct pollfd fds[2];
	struct device_pair p;
	int d;

	open_pair(&p, 1, 5);
	device_pair_connect(&p);
	device_pair_want(&p, 200);
	while (p.end[0][0].n_done < 200 || p.end[1][0].n_done < 200) {
		uint64_t due_ns = UINT64_MAX;
		bool more;

		now_ns = inc_now_ns();
		assert_true(now_ns < end_ns);
		do {
			device_pair_turn(&p);
			more = false;
			for (d = 0; d < 2; d++)
				more |= inc_channel_verbs.progress(p.dev[d]) ||
					inc_channel_verbs.arm(p.dev[d]);
		} while (more);
		for (d = 0; d < 2; d++) {
			fds[d] = (struct pollfd){inc_channel_verbs.fd(p.dev[d], NULL), POLLIN, 0};
			if (inc_channel_verbs.deadline_ns(p.dev[d]) < due_ns)
				due_ns = inc_channel_verbs.deadline_ns(p.dev[d]);
		}
		if (due_ns > now_ns &&
		    p.end[0][0].n_sent - p.end[0][0].n_done == DEVICE_PAIR_MESSAGES)
			assert_int_not_equal(poll(fds, 2, 4000), 0);
	}
	device_pair_close(&p);
}

/* ---- a soft endpoint as the peer of a device ---- */

static void test_soft_peer(void **state)
{
	struct inc_channel_device_figures f;
	struct device_pair p;

	open_mixed(&p, 2, 6);
	device_pair_connect(&p);
	device_pair_want(&p, 300);
	device_pair_run(&p, 120);
	f = device_pair_device_figures(&p, 1);
	assert_int_equal(f.strangers, 0);
	assert_int_equal(f.damaged, 0);
	/* the soft endpoint reports the end of its channel to its peer */
	inc_channel_soft.shut(p.end[1][0].ch, INC_AETH_NAK_OPERATION);
	p.end[1][0].ch = NULL;
	p.end[0][0].total++;
	device_pair_until(&p, first_lost);
	lost_for(&p, 0, INC_CHANNEL_ENDED);
	device_pair_close(&p);
}

static int leave_netns(void **state)
{
	enter_netns(OWN_NETNS);
	return 0;
}

/* ---- rejected requests ---- ---- */

static void refuses(struct device_pair *p, struct inc_channel_opts opts, const char *why)
{
	struct inc_channel *ch;
	struct inc_channel_own own;
	struct inc_err err;

	assert_int_equal(inc_channel_verbs.make(p->dev[0], &opts, &ch, &own, &err), -EINVAL);
	if (!strstr(err.msg, why))
		fail_msg("'%s' does not say '%s'", err.msg, why);
}

static void test_refusals(void **state)
{
	const struct inc_channel_opts good = {
		.pkey = INC_PKEY_DEFAULT,
		.payload = 2048,
		.max_message_bytes = 1 << 20,
		.messages = 4,
		.what = "communicator 3, rank 1",
	};
	struct inc_channel_opts opts = good;
	struct inc_channel_peer peer;
	struct inc_channel *ch;
	struct inc_channel_own own;
	struct inc_err err;
	struct device_pair p;

	open_pair(&p, 1, 7);
	opts.own.qpn = 77;
	refuses(&p, opts, "communicator 3, rank 1: queue pair 77 was asked for, but rxe0");
	opts = good;
	opts.payload = 1000;
	refuses(&p, opts, "payload 1000");
	opts = good;
	opts.max_message_bytes++;
	refuses(&p, opts, "messages of 1048577 bytes");
	opts = good;
	opts.pkey = 0x1234;
	refuses(&p, opts, "the port is not in the partition 0x1234");
	opts = good;
	opts.messages = 1 << 21;
	refuses(&p, opts, "the device can do");
	assert_int_equal(inc_channel_verbs.make(p.dev[0], &good, &ch, &own, &err), 0);
	assert_int_equal(own.end.udp_port, INC_ROCE_UDP_PORT);
	peer = device_pair_peer(&p, 0, 0);
	peer.end.udp_port = 5000;
	assert_int_equal(inc_channel_verbs.connect(ch, &peer, &err), -EPROTO);
	inc_channel_verbs.shut(ch, 0);
	/* the rejected requests have had no effect */
	device_pair_connect(&p);
	device_pair_want(&p, 50);
	device_pair_run(&p, 60);
	device_pair_close(&p);
}

/* ---- failures ---- ---- */

/* A message is longer than the receives that the peer has posted. The sender gets the status
 * "remote invalid request". rxe of Linux 6.1 reports a "remote operation error" instead, like the
 * end of a communicator. */
static void test_too_long(void **state)
{
	struct device_pair_place place;
	struct device_pair p;
	unsigned int d;

	memset(&p, 0, sizeof(p));
	for (d = 0; d < 2; d++) {
		place = place_of(&ends[d]);
		device_pair_open_device(&p, d, &place);
	}
	p.max_message_bytes[1] = 512;
	device_pair_make(&p, 1, 8);
	device_pair_connect(&p);
	p.end[0][0].total = 200;
	device_pair_until(&p, both_lost);
	lost_for(&p, 1, INC_CHANNEL_INVALID);
	if (p.end[0][0].reason != INC_CHANNEL_ENDED)
		lost_for(&p, 0, INC_CHANNEL_REFUSED);
	device_pair_close(&p);
}

/* A queue pair that was destroyed does not answer. Its sender gives up within seconds. */
static void test_shut(void **state)
{
	uint64_t start_ns;
	struct device_pair p;

	open_pair(&p, 2, 9);
	device_pair_connect(&p);
	device_pair_want(&p, 10);
	device_pair_run(&p, 60);
	inc_channel_verbs.shut(p.end[0][0].ch, INC_AETH_NAK_OPERATION);
	p.end[0][0].ch = NULL;
	p.end[1][0].total++;
	start_ns = inc_now_ns();
	device_pair_until(&p, second_lost);
	lost_for(&p, 1, INC_CHANNEL_SILENT);
	assert_true(inc_now_ns() - start_ns < 15 * INC_NSEC_PER_SEC);
	/* the second channel of these devices still works */
	p.end[0][0].total = p.end[0][0].n_done;
	p.end[1][0].total = p.end[1][0].n_done;
	p.end[0][1].total = p.end[1][1].total = 100;
	while (p.end[0][1].n_done < 100 || p.end[1][1].n_done < 100)
		device_pair_turn(&p);
	device_pair_close(&p);
}

/* No host has the peer's IP address, so the kernel tries to resolve it for long. That must delay
 * neither connect() nor the engine's turns, nor the end of the channel or of the device. */
static void test_nobody_there(void **state)
{
	const unsigned int before = open_descriptors();
	uint64_t start_ns, turn_ns, longest_ns = 0;
	struct inc_channel_peer peer;
	struct device_pair p;

	shell("ip neigh del %s dev %s || true; ip route replace 10.77.200.0/24 dev %s table 100",
	      "10.77.200.9", ends[0].ifname, ends[0].ifname);
	open_pair(&p, 2, 10);
	peer = device_pair_peer(&p, 0, 0);
	peer.end.ip = inc_addr_of_ipv4(inet_addr("10.77.200.9"));
	start_ns = inc_now_ns();
	device_pair_connect_end(&p, 0, 0, &peer);
	while (!p.end[0][0].lost) {
		turn_ns = inc_now_ns();
		device_pair_turn(&p);
		turn_ns = inc_now_ns() - turn_ns;
		longest_ns = turn_ns > longest_ns ? turn_ns : longest_ns;
		assert_true(inc_now_ns() - start_ns < 60 * INC_NSEC_PER_SEC);
	}
	lost_for(&p, 0, INC_CHANNEL_SILENT);
	assert_non_null(strstr(p.end[0][0].text, "no ARP answer?"));
	assert_true(inc_now_ns() - start_ns > INC_NSEC_PER_SEC / 2);
	assert_true(longest_ns < 500 * INC_NSEC_PER_MSEC);
	device_pair_connect_end(&p, 0, 1, &peer);
	start_ns = inc_now_ns();
	device_pair_close(&p);
	assert_true(inc_now_ns() - start_ns < 500 * INC_NSEC_PER_MSEC);
	/* the kernel frees the remaining objects when it stops resolving */
	while (open_descriptors() > before) {
		assert_true(inc_now_ns() - start_ns < 60 * INC_NSEC_PER_SEC);
		usleep(10000);
	}
}

static void test_port_down(void **state)
{
	struct device_pair p;

	open_pair(&p, 1, 11);
	device_pair_connect(&p);
	device_pair_want(&p, 10);
	device_pair_run(&p, 60);
	shell("ip link set %s down", ends[0].ifname);
	device_pair_until(&p, first_lost);
	lost_for(&p, 0, INC_CHANNEL_CUT);
	assert_non_null(strstr(p.end[0][0].text, "port down for 2000 ms"));
	assert_false(p.end[1][0].lost); /* this end's port is up, and it has not sent anything */
	device_pair_close(&p);
	shell("ip link set %s up", ends[0].ifname);
}

static bool gone(struct device_pair *p)
{
	return p->end[0][0].lost && strstr(p->end[0][0].text, "gone");
}

/* The kernel removes a device once no process has it open. */
static void test_device_gone(void **state)
{
	const struct device_pair_place added = {.ops = &inc_channel_verbs,
						.ifname = "d0",
						.ip = inc_addr_of_ipv4(inet_addr("10.79.0.1"))};
	const struct device_pair_place other = place_of(&ends[1]);
	struct device_pair p;
	int status;
	pid_t pid;

	shell("ip link add d0 type veth peer name d1 && ip link set d1 up && ip link set d0 up && "
	      "ip addr add 10.79.0.1/24 dev d0 && rdma link add %s type rxe netdev d0",
	      ADDED);
	memset(&p, 0, sizeof(p));
	device_pair_open_device(&p, 0, &added);
	device_pair_open_device(&p, 1, &other);
	device_pair_make(&p, 1, 12);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		execlp("rdma", "rdma", "link", "delete", ADDED, NULL);
		_exit(127);
	}
	device_pair_until(&p, gone);
	lost_for(&p, 0, INC_CHANNEL_CUT);
	device_pair_close(&p);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	shell("ip link del d0");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_channels),
		cmocka_unit_test(test_connect_late),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_wakes),
		cmocka_unit_test_teardown(test_soft_peer, leave_netns),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_shut),
		cmocka_unit_test(test_nobody_there),
		cmocka_unit_test(test_port_down),
		cmocka_unit_test(test_device_gone),
	};

	if (!read_ends(argc, argv, "term_verbs"))
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
