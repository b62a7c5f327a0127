/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs transport alone, on a queue pair that is connected to itself. A message that it sends
 * arrives at its own receives, as from a switch with one child. So only the device and the
 * transport take part. Arguments: address and name of an RDMA interface. The name of one test may
 * follow.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/verbs.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "selftests/vm/verbs_loop.h"

static uint32_t own_addr;
static const char *own_ifname;

static void log_line(void *ctx, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "# ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
}

static struct inccl_open_opts make_opts(unsigned int message_packets, unsigned int window,
					uint32_t psn, const char *options)
{
	return (struct inccl_open_opts){
		.addr = inc_addr_of_ipv4(own_addr),
		.message_packets = message_packets,
		.window_messages = window,
		.start_psn = psn,
		.options = options,
		.log = log_line,
	};
}

void loopback_open(struct loopback *l, unsigned int message_packets, unsigned int window,
		   uint32_t psn, const char *options)
{
	struct inccl_open_opts opts = make_opts(message_packets, window, psn, options);
	struct inc_err err = {""};

	memset(l, 0, sizeof(*l));
	l->message_packets = message_packets;
	if (inccl_endpoint_open(&peer_verbs, &opts, &l->ep, &l->own, &err))
		fail_msg("open: %s", err.msg);
	l->peer = (struct inc_channel_peer){
		.end.ip = inc_addr_of_ipv4(own_addr),
		.end.udp_port = 4791,
		.end.qpn = l->own.end.qpn,
		.end.psn = psn,
		.payload = l->own.payload,
		.packets = 4096,
		.name = "itself",
	};
}

void loopback_connect(struct loopback *l)
{
	struct inc_err err = {""};

	if (inccl_endpoint_connect(l->ep, &l->peer, &err))
		fail_msg("connect: %s", err.msg);
}

int drive(struct loopback *l, uint64_t goal)
{
	uint64_t deadline = inc_now_ns() + DEADLINE_S * INC_NSEC_PER_SEC, until;
	struct pollfd pfd;
	int ret;

	for (;;) {
		ret = inccl_endpoint_progress(l->ep);
		if (ret < 0)
			return ret;
		if (goal == UINT64_MAX ? inccl_endpoint_quiet(l->ep) : l->ep->completed >= goal)
			return 0;
		if (inc_now_ns() > deadline)
			return -ETIME;
		if (!l->armed_waits)
			continue;
		ret = inccl_endpoint_arm(l->ep, &pfd.fd, &pfd.events, &until);
		if (ret < 0)
			return ret;
		if (!ret)
			poll(&pfd, 1, until == UINT64_MAX ? 1000 : 50);
	}
}

static int post_all(struct loopback *l, enum inccl_mode mode, const uint8_t *send, uint8_t *recv,
		    size_t len, struct inc_channel_region *send_region,
		    struct inc_channel_region *recv_region)
{
	uint32_t full = l->peer.payload * l->message_packets, limit;
	size_t done = 0;
	int ret;

	do {
		limit = done ? full : l->peer.payload;
		struct inc_channel_exchange msg = {
			.send = send + done,
			.recv = recv + done,
			.send_region = send_region,
			.recv_region = recv_region,
			.write = mode == INCCL_MODE_WRITE,
			.has_imm = !done,
			.imm = INC_DESC(0, 0, 0, 0, l->seq),
		};
		msg.send_len = msg.recv_len = len - done < limit ? len - done : limit;
		msg.last = done + msg.send_len == len;
		ret = inccl_endpoint_post(l->ep, &msg);
		if (ret == -EAGAIN) {
			uint64_t before = l->ep->completed;

			/* the window or the send queue is full */
			ret = drive(l, before < l->ep->posted ? before + 1 : UINT64_MAX);
			if (ret)
				return ret;
			continue;
		}
		if (ret)
			return ret;
		done += msg.send_len;
	} while (done < len);
	l->seq++;
	return inccl_endpoint_flush(l->ep);
}

static int echo(struct loopback *l, enum inccl_mode mode, const void *send, void *recv, size_t len)
{
	struct inc_channel_region sr, rr;
	int ret;

	ret = inccl_endpoint_map(l->ep, (void *)send, len, false, &sr);
	assert_int_equal(ret, 0);
	ret = inccl_endpoint_map(l->ep, recv, len, true, &rr);
	assert_int_equal(ret, 0);
	ret = post_all(l, mode, send, recv, len, &sr, &rr);
	if (!ret)
		ret = drive(l, l->ep->posted);
	inccl_endpoint_unmap(l->ep, &sr);
	inccl_endpoint_unmap(l->ep, &rr);
	return ret;
}

static void fill(uint8_t *p, size_t len, unsigned int seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = rand_r(&seed) >> 8;
}

void echo_checked(struct loopback *l, enum inccl_mode mode, uint8_t *send, uint8_t *recv,
		  size_t len, unsigned int seed)
{
	int ret;

	fill(send, len, seed);
	memset(recv, 0, len);
	ret = echo(l, mode, send, recv, len);
	if (ret)
		fail_msg("mode %d, %zu bytes: %s: %s", mode, len, strerror(-ret), l->ep->error);
	if (memcmp(send, recv, len))
		fail_msg("mode %d, %zu bytes: other data came back", mode, len);
}

static void test_sizes(void **state)
{
	static const size_t sizes[] = {4, 256, 1020, 2048, 2052, 8196, 65536, 1 << 20};
	size_t i, most = 1 << 20;
	uint8_t *send = malloc(most), *recv = malloc(most + 64);
	unsigned int mp, mode;
	struct loopback l;

	for (mp = 1; mp <= 64; mp *= 4) {
		loopback_open(&l, mp, 0, 0xfffff0, NULL);
		loopback_connect(&l);
		for (mode = INCCL_MODE_SENDRECV; mode <= INCCL_MODE_WRITE; mode++)
			for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
				/* the buffer is four bytes off the alignment of malloc() */
				echo_checked(&l, mode, send, recv + 4, sizes[i], mp + i);
		assert_int_equal(drive(&l, UINT64_MAX), 0);
		inccl_endpoint_close(l.ep);
	}
	free(send);
	free(recv);
}

static void test_windows(void **state)
{
	static const unsigned int windows[] = {1, 2, 7, 32, 4096};
	uint8_t *send = malloc(300000), *recv = malloc(300000);
	struct loopback l;
	size_t i;

	for (i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
		loopback_open(&l, 1, windows[i], 1, NULL);
		assert_int_equal(l.own.window_messages, windows[i]);
		l.armed_waits = i % 2;
		loopback_connect(&l);
		echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, 300000, i);
		echo_checked(&l, INCCL_MODE_WRITE, send, recv, 300000, i);
		inccl_endpoint_close(l.ep);
	}
	free(send);
	free(recv);
}

void *pages(void *at, size_t len)
{
	void *p = mmap(at, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void test_read_only_memory(void **state)
{
	uint8_t *send = pages(NULL, 8192), *recv = pages(NULL, 8192);
	struct loopback l;

	fill(send, 8192, 5);
	assert_int_equal(mprotect(send, 8192, PROT_READ), 0);
	loopback_open(&l, 1, 0, 0, "cache_mib=0");
	loopback_connect(&l);
	assert_int_equal(echo(&l, INCCL_MODE_SENDRECV, send, recv, 8192), 0);
	assert_memory_equal(send, recv, 8192);
	inccl_endpoint_close(l.ep);
	munmap(send, 8192);
	munmap(recv, 8192);
}

static void test_retry_exhausted(void **state)
{
	uint8_t send[64] = {1}, recv[64];
	uint64_t started;
	struct loopback l;
	int ret;

	loopback_open(&l, 1, 0, 0, "timeout=10,retry_cnt=3");
	l.peer.end.qpn = (l.own.end.qpn + 0x1000) & INC_QPN_MASK;
	l.armed_waits = true;
	loopback_connect(&l);
	started = inc_now_ns();
	ret = echo(&l, INCCL_MODE_SENDRECV, send, recv, sizeof(send));
	assert_int_equal(ret, -ETIMEDOUT);
	assert_non_null(strstr(l.ep->error, ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)));
	/* the device makes 4 attempts of 4.2 ms each, or of up to four times as long */
	assert_true(inc_now_ns() - started < 5 * INC_NSEC_PER_SEC);
	assert_int_equal(inccl_endpoint_progress(l.ep), -ETIMEDOUT);
	inccl_endpoint_close(l.ep);
}

static void test_given_up(void **state)
{
	uint8_t send[64] = {1}, recv[64];
	struct inc_channel_region sr, rr;
	struct loopback l;

	loopback_open(&l, 1, 0, 0, NULL);
	l.peer.end.qpn = (l.own.end.qpn + 0x1000) & INC_QPN_MASK;
	loopback_connect(&l);
	assert_int_equal(inccl_endpoint_map(l.ep, send, sizeof(send), false, &sr), 0);
	assert_int_equal(inccl_endpoint_map(l.ep, recv, sizeof(recv), true, &rr), 0);
	assert_int_equal(post_all(&l, INCCL_MODE_WRITE, send, recv, sizeof(send), &sr, &rr), 0);
	inccl_endpoint_unmap(l.ep, &sr);
	inccl_endpoint_unmap(l.ep, &rr);
	assert_int_equal(inccl_endpoint_progress(l.ep), -ECANCELED);
	inccl_endpoint_close(l.ep);
}

static void link_state(const char *state)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "ip link set %s %s", own_ifname, state);
	assert_int_equal(system(cmd), 0);
}

static void test_port_down(void **state)
{
	uint8_t send[64] = {1}, recv[64];
	struct inc_channel_region sr, rr;
	struct loopback l;
	int ret;

	loopback_open(&l, 1, 0, 0, "port_down_ms=200,timeout=20");
	l.peer.end.qpn = (l.own.end.qpn + 0x1000) & INC_QPN_MASK;
	l.armed_waits = true;
	loopback_connect(&l);
	assert_int_equal(inccl_endpoint_map(l.ep, send, sizeof(send), false, &sr), 0);
	assert_int_equal(inccl_endpoint_map(l.ep, recv, sizeof(recv), true, &rr), 0);
	assert_int_equal(post_all(&l, INCCL_MODE_SENDRECV, send, recv, sizeof(send), &sr, &rr), 0);
	link_state("down");
	ret = drive(&l, 1);
	link_state("up");
	assert_int_equal(ret, -ENETDOWN);
	assert_non_null(strstr(l.ep->error, "down"));
	inccl_endpoint_unmap(l.ep, &sr);
	inccl_endpoint_unmap(l.ep, &rr);
	inccl_endpoint_close(l.ep);
}

static void test_settings(void **state)
{
	static const char *const bad[] = {"rnr_retry=7", "timeout=0",  "timeout=32", "colour=red",
					  "timeout",     "timeout=1x", "device="};
	struct inc_channel_verbs_settings config;
	struct inccl_open_opts opts;
	struct inc_err err;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(inccl_verbs_settings(bad[i], &config, &err), -EINVAL);
		assert_true(strlen(err.msg) > 0);
	}
	setenv("INCCL_VERBS", "timeout=17,sl=3", 1);
	assert_int_equal(inccl_verbs_settings("sl=5, device=rxe9", &config, &err), 0);
	unsetenv("INCCL_VERBS");
	assert_int_equal(config.timeout, 17);
	assert_int_equal(config.sl, 5);
	assert_string_equal(config.device, "rxe9");

	opts = make_opts(1, 0, 0, "device=rxe9");
	assert_int_equal(inccl_endpoint_probe(&peer_verbs, &opts, &err), -ENODEV);
	assert_non_null(strstr(err.msg, "rxe9"));
	opts = make_opts(1, 0, 0, NULL);
	opts.addr = inc_addr_of_ipv4(inet_addr("192.0.2.1"));
	assert_int_equal(inccl_endpoint_probe(&peer_verbs, &opts, &err), -ENODEV);
	assert_non_null(strstr(err.msg, "192.0.2.1"));
	opts.addr = inc_addr_of_ipv4(own_addr);
	assert_int_equal(inccl_endpoint_probe(&peer_verbs, &opts, &err), 0);
	assert_non_null(strstr(err.msg, own_ifname));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_settings),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_windows),
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_cache_churn),
		cmocka_unit_test(test_cache_slow_watcher),
		cmocka_unit_test(test_shared_memory),
		cmocka_unit_test(test_huge_pages),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_locked_memory_is_shared),
		cmocka_unit_test(test_read_only_memory),
		cmocka_unit_test(test_retry_exhausted),
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_port_down),
	};

	if (argc < 3 || argc > 4 || inet_pton(AF_INET, argv[1], &own_addr) != 1) {
		fprintf(stderr, "usage: verbs_loop ADDRESS INTERFACE [TEST]\n");
		return 2;
	}
	own_ifname = argv[2];
	if (argc > 3)
		cmocka_set_test_filter(argv[3]);
	return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
