/* SPDX-License-Identifier: BSD-2-Clause */
/* Two soft devices with channels between them, on a good network and on bad ones. TIMEOUT: 300 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/roce.h"
#include "selftests/fakes/memory_os.h"
#include "selftests/term/harness_device_pair.h"

static const struct lossy_faults good = {0};

static void test_messages(void **state)
{
	struct inc_channel_figures f;
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 1);
	device_pair_connect(&p);
	device_pair_want(&p, 2000);
	device_pair_run(&p, 60);
	f = device_pair_figures(&p, 0, 0);
	assert_true(f.tx_packets > 2000);
	assert_true(f.rx_packets > 2000);
	assert_int_equal(device_pair_device_figures(&p, 0).damaged, 0);
	assert_int_equal(device_pair_device_figures(&p, 0).strangers, 0);
	/* the receiver has sent one ACK for many packets, at the end of messages that request it */
	assert_true(f.acks_sent < f.rx_packets / 4);
	assert_true(f.srtt_ns > 0);
	device_pair_close(&p);
}

/* The endpoint uses the receive first that was posted last. The kernel needs milliseconds to
 * provide memory that was never used, so the endpoint uses no such memory without need. */
static void test_last_posted_first(void **state)
{
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 7);
	device_pair_connect(&p);
	device_pair_want(&p, 100);
	device_pair_run(&p, 60);
	assert_int_equal(p.end[0][0].used, 1u << (DEVICE_PAIR_MESSAGES - 1));
	assert_int_equal(p.end[1][0].used, 1u << (DEVICE_PAIR_MESSAGES - 1));
	device_pair_close(&p);
}

static void test_channels(void **state)
{
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, DEVICE_PAIR_CHANNELS, 2);
	device_pair_connect(&p);
	device_pair_want(&p, 500);
	device_pair_run(&p, 60);
	device_pair_close(&p);
}

/* Every payload size works. The largest one needs about a quarter of the packets of 1,024 bytes. */
static void test_payloads(void **state)
{
#define SIZE(bytes) bytes,
	static const uint32_t payloads[] = {INC_RC_PAYLOADS(SIZE)};
	const unsigned int n = sizeof(payloads) / sizeof(*payloads);
	uint64_t packets[INC_N_RC_PAYLOADS];
	struct device_pair p;
	unsigned int i;

	assert_int_equal(n, INC_N_RC_PAYLOADS);
	lossy_set(&good, 1);
	for (i = 0; i < n; i++) {
		device_pair_open_with(&p, payloads[i], 2, 9);
		device_pair_connect(&p);
		device_pair_want(&p, 200);
		device_pair_run(&p, 60);
		packets[i] = device_pair_figures(&p, 0, 0).tx_packets;
		assert_int_equal(device_pair_device_figures(&p, 0).damaged, 0);
		device_pair_close(&p);
	}
	assert_true(3 * packets[n - 1] < packets[n - 3]);
}

/* Messages that are sent before the peer's address is set leave when it is set. */
static void test_connect_late(void **state)
{
	struct device_pair p;
	int i;

	lossy_set(&good, 1);
	device_pair_open(&p, 2, 3);
	device_pair_want(&p, 20);
	for (i = 0; i < 10; i++)
		device_pair_turn(&p);
	assert_int_equal(p.end[0][0].n_sent, DEVICE_PAIR_MESSAGES);
	assert_int_equal(p.end[1][0].n_got, 0);
	device_pair_connect(&p);
	device_pair_run(&p, 20);
	device_pair_close(&p);
}

static bool refused_for_room(struct device_pair *p)
{
	return device_pair_figures(p, 1, 0).rnrs_sent > 3 &&
	       device_pair_figures(p, 0, 0).rnrs_received > 3;
}

static void test_no_room(void **state)
{
	struct device_pair p;
	uint64_t m;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 4);
	device_pair_connect(&p);
	p.end[1][0].stingy = true;
	device_pair_want(&p, 3 * DEVICE_PAIR_MESSAGES);
	device_pair_until(&p, refused_for_room);
	assert_int_equal(p.end[1][0].n_got, DEVICE_PAIR_MESSAGES);
	p.end[1][0].stingy = false;
	for (m = 0; m < DEVICE_PAIR_MESSAGES; m++)
		device_pair_post(&p.end[1][0], m);
	device_pair_run(&p, 20);
	device_pair_close(&p);
}

static bool told(struct device_pair *p)
{
	return p->end[1][0].lost;
}

/* A channel that is closed informs its peer, whether or not the peer sends anything. */
static void test_shut(void **state)
{
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, 2, 5);
	device_pair_connect(&p);
	device_pair_want(&p, 10);
	device_pair_run(&p, 20);
	inc_channel_soft.shut(p.end[0][0].ch, INC_AETH_NAK_OPERATION);
	p.end[0][0].ch = NULL;
	device_pair_until(&p, told);
	assert_int_equal(p.end[1][0].reason, INC_CHANNEL_ENDED);
	/* the other channel of the same devices still works */
	p.end[0][1].total = p.end[1][1].total = 200;
	p.end[0][0].total = p.end[1][0].total = 0;
	p.end[0][0].n_got = p.end[1][0].n_got = 0;
	p.end[1][0].lost = false;
	device_pair_run(&p, 20);
	device_pair_close(&p);
}

/* The first closing NAK is lost, and so are some of its repetitions. */
static void test_shut_unheard(void **state)
{
	static const struct lossy_faults deaf = {.lose = 1000};
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 6);
	device_pair_connect(&p);
	device_pair_want(&p, 1);
	device_pair_run(&p, 20);
	lossy_set(&deaf, 1);
	inc_channel_soft.shut(p.end[0][0].ch, INC_AETH_NAK_OPERATION);
	p.end[0][0].ch = NULL;
	device_pair_turn(&p);
	device_pair_turn(&p);
	assert_true(lossy_done() > 0);
	lossy_set(&good, 1);
	device_pair_until(&p, told);
	device_pair_close(&p);
}

static void bad_network_with(uint32_t payload, const struct lossy_faults *faults, uint64_t seed,
			     uint64_t messages)
{
	uint64_t faulty;
	struct device_pair p;

	lossy_set(faults, seed);
	device_pair_open_with(&p, payload, 2, seed);
	device_pair_connect(&p);
	device_pair_want(&p, messages);
	device_pair_run(&p, 60);
	faulty = lossy_done();
	assert_true(faulty > 0);
	/* all messages arrive when the network is good again */
	lossy_set(&good, 1);
	device_pair_want(&p, 100);
	device_pair_run(&p, 20);
	device_pair_close(&p);
}

static void bad_network(const struct lossy_faults *faults, uint64_t seed, uint64_t messages)
{
	bad_network_with(DEVICE_PAIR_PAYLOAD, faults, seed, messages);
}

static void test_loss(void **state)
{
	bad_network(&(struct lossy_faults){.lose = 10, .part = 1000}, 11, 300);
}

static void test_much_loss(void **state)
{
	bad_network(&(struct lossy_faults){.lose = 150, .part = 1000}, 12, 60);
}

static void test_repeats(void **state)
{
	bad_network(&(struct lossy_faults){.repeat = 50, .part = 500}, 13, 300);
}

static void test_order(void **state)
{
	bad_network(&(struct lossy_faults){.delay = 20, .part = 500}, 14, 200);
}

static void test_damage(void **state)
{
	bad_network(&(struct lossy_faults){.damage = 20, .part = 1000}, 15, 200);
}

static void test_large_payload(void **state)
{
	static const struct lossy_faults all = {
		.lose = 20, .repeat = 15, .delay = 20, .damage = 20, .part = 1000};

	bad_network_with(INC_MAX_RC_PAYLOAD, &all, 16, 300);
}

static void test_everything(void **state)
{
	const char *full = getenv("FULL");
	unsigned int n = full && *full == '1' ? 200 : 12, seed;

	for (seed = 0; seed < n; seed++)
		bad_network(&(struct lossy_faults){.lose = seed % 4 * 10,
						   .repeat = seed % 3 * 15,
						   .delay = seed % 5 * 10,
						   .damage = 5 + seed % 2 * 10,
						   .part = 300 + seed % 8 * 100},
			    100 + seed, 60);
}

/* Both devices are at all addresses of the machine, as those of a switch are. */
static void test_everywhere(void **state)
{
	const struct device_pair_place place = {.ops = &inc_channel_soft,
						.ifname = "lo",
						.ip = device_pair_address,
						.everywhere = true};
	struct device_pair p = {.payload = 1024};

	lossy_set(&good, 1);
	device_pair_open_device(&p, 0, &place);
	device_pair_open_device(&p, 1, &place);
	device_pair_make(&p, 3, 17);
	device_pair_connect(&p);
	device_pair_want(&p, 300);
	device_pair_run(&p, 60);
	assert_int_equal(device_pair_device_figures(&p, 0).damaged, 0);
	assert_int_equal(device_pair_device_figures(&p, 0).strangers, 0);
	device_pair_close(&p);
}

/* A peer whose address is of the other family is refused, and then a right one is accepted. */
static void test_other_family(void **state)
{
	const struct inc_channel_device_opts device = {.own_ip = inc_addr_any(device_pair_address)};
	struct inc_channel_opts opts = {.payload = DEVICE_PAIR_PAYLOAD,
					.max_message_bytes = 1024,
					.messages = 1,
					.what = "the channel"};
	struct inc_channel_device *everywhere;
	struct inc_channel_peer peer, other;
	struct inc_channel_own own;
	struct inc_channel *ch;
	struct device_pair p;
	struct inc_err err;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 18);
	peer = other = device_pair_peer(&p, 0, 0);
	other.end.ip = inc_addr_is_ipv4(peer.end.ip) ? (struct inc_addr){.byte = {[15] = 1}}
						     : inc_addr_of_ipv4(htonl(INADDR_LOOPBACK));
	assert_int_equal(inc_channel_soft.connect(p.end[0][0].ch, &other, &err), -EAFNOSUPPORT);
	assert_non_null(strstr(err.msg, "this end has an IPv"));
	opts.own.ip = other.end.ip;
	assert_int_equal(inc_channel_soft.open(&device, &everywhere, &err), 0);
	assert_int_equal(inc_channel_soft.make(everywhere, &opts, &ch, &own, &err), -EAFNOSUPPORT);
	inc_channel_soft.close(everywhere);
	device_pair_connect(&p);
	device_pair_want(&p, 10);
	device_pair_run(&p, 60);
	device_pair_close(&p);
}

static void test_refusals(void **state)
{
	struct inc_channel_opts opts = {
		.own.qpn = 77,
		.pkey = INC_PKEY_DEFAULT,
		.payload = DEVICE_PAIR_PAYLOAD,
		.max_message_bytes = 1 << 20,
		.messages = 4,
		.what = "communicator 3, rank 1",
	};
	struct inc_channel *ch, *other;
	struct inc_channel_own own;
	struct inc_err err;
	struct device_pair p;

	lossy_set(&good, 1);
	device_pair_open(&p, 1, 7);
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), 0);
	assert_int_equal(own.end.qpn, 77);
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &other, &own, &err), -EADDRINUSE);
	assert_string_equal(err.msg, "queue pair 77 is taken (communicator 3, rank 1)");
	inc_channel_soft.shut(ch, 0);
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), 0);
	inc_channel_soft.shut(ch, 0);
	opts.payload = 1000;
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), -EINVAL);
	opts.payload = 2 * INC_MAX_RC_PAYLOAD;
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), -EINVAL);
	opts.payload = DEVICE_PAIR_PAYLOAD;
	opts.max_message_bytes++;
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), -EINVAL);
	opts.max_message_bytes = 1024;
	opts.own.qpn = 1;
	assert_int_equal(inc_channel_soft.make(p.dev[0], &opts, &ch, &own, &err), -EINVAL);
	device_pair_close(&p);
}

static void test_probe(void **state)
{
	struct inc_channel_device_opts opts = {.ifname = "lo", .own_ip = device_pair_address};
	struct inc_channel_offer offer;
	struct inc_err why;

	assert_int_equal(inc_channel_soft.probe(&opts, &offer, &why), 0);
	assert_string_equal(offer.device, inc_addr_is_ipv4(opts.own_ip) ? "127.0.0.1" : "::1");
	assert_int_equal(offer.payload_bytes, INC_MAX_RC_PAYLOAD);
	assert_int_equal(offer.max_message_bytes, 1 << 20);
	opts.ifname = "none-such";
	assert_int_equal(inc_channel_soft.probe(&opts, &offer, &why), -ENODEV);
	assert_string_equal(why.msg, "none-such: no MTU to be read");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_messages),     cmocka_unit_test(test_channels),
		cmocka_unit_test(test_payloads),     cmocka_unit_test(test_last_posted_first),
		cmocka_unit_test(test_connect_late), cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_shut),         cmocka_unit_test(test_shut_unheard),
		cmocka_unit_test(test_loss),         cmocka_unit_test(test_much_loss),
		cmocka_unit_test(test_repeats),      cmocka_unit_test(test_order),
		cmocka_unit_test(test_damage),       cmocka_unit_test(test_large_payload),
		cmocka_unit_test(test_everything),   cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_probe),        cmocka_unit_test(test_everywhere),
		cmocka_unit_test(test_other_family),
	};
	int ret = cmocka_run_group_tests_name("soft pair", tests, NULL, NULL);

	device_pair_address = (struct inc_addr){.byte = {[15] = 1}};
	return cmocka_run_group_tests_name("soft pair over IPv6", tests, NULL, NULL) ?: ret;
}
