/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The soft endpoint when calls of inc_os (lib/base/os.h), which the test replaces, have unusual
 * results. The send buffer is full in the middle of a message, the device cannot segment a send, or
 * the process stands still in a call. The random numbers that the endpoint draws are no usable
 * queue pair numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "hostlib/src/endpoint.h"
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/conf/comm_conf.h"
#include "lib/proto/roce.h"
#include "selftests/hostlib/soft_endpoint.h"

#define PAYLOAD    256
#define SLOTS      64
#define LONG       7 /* number of packets in the second message */
#define RECEIVE_MS 5000

#ifndef SO_RCVPRIORITY
#define SO_RCVPRIORITY 82 /* from Linux 6.14 on */
#endif

static unsigned int room;    /* number of packets that the send buffer accepts */
static bool single;          /* the device cannot segment a send */
static uint64_t receives_ns; /* time that each receive seems to take */
static uint64_t ahead_ns;    /* time by which the process's clock is ahead of the kernel's */
static uint8_t tos;          /* TOS byte that each send must have */
static uint8_t priority;     /* priority that each send must have */

static int send_udp(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	if (!room)
		return -EAGAIN;
	if (single && sends->segment_bytes)
		return -EIO;
	n = n < room ? n : room;
	room -= n;
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(sends[i].tos, tos);
		assert_int_equal(sends[i].priority, priority);
	}
	return inc_os_kernel.udp.send(fd, sends, n);
}

static int receive_udp(int fd, uint8_t *bytes, struct inc_datagram *datagrams)
{
	ahead_ns += receives_ns;
	return inc_os_kernel.udp.receive(fd, bytes, datagrams);
}

static uint64_t clock_ns(clockid_t clock)
{
	return inc_os_kernel.clock_ns(clock) + ahead_ns;
}

/* Called when the peer is open, because a peer keeps the functions of inc_os with which it was
 * opened. */
static void replace_calls(void)
{
	inc_os.udp.send = send_udp;
	inc_os.udp.receive = receive_udp;
	inc_os.clock_ns = clock_ns;
}

static int restore_calls(void **state)
{
	inc_os = inc_os_kernel;
	tos = priority = 0;
	return unsetenv("INCCL_VERBS");
}

/* Gives the next endpoint a traffic class and a priority. Its contributions, ACKs and resent
 * packets must have both. */
static int set_class(void **state)
{
	tos = 106;
	priority = 5;
	return setenv("INCCL_VERBS", "traffic_class=106,sl=5", 1);
}

static struct inccl_endpoint *open_by_message(struct rc_peer *peer)
{
	const struct endpoint_form form = {
		.payload = PAYLOAD, .slots = SLOTS, .message_packets = LONG, .messages = SLOTS / 8};
	struct inccl_endpoint *ep = endpoint_pair_of(peer, &form);

	replace_calls();
	soft_device_of(endpoint_channel(ep))->udp.segment =
		false; /* each packet is sent by itself */
	return ep;
}

static void receive(struct rc_peer *peer, struct inccl_endpoint *ep, uint32_t r,
		    struct inc_roce_packet *pkt)
{
	const uint64_t end_ns = inc_now_ns() + RECEIVE_MS * INC_NSEC_PER_MSEC;

	do {
		assert_true(inc_now_ns() < end_ns);
		assert_true(inccl_endpoint_progress(ep) >= 0);
		assert_int_equal(inccl_endpoint_flush(ep), 0);
		/* repeats the call to skip retransmissions */
	} while (!rc_peer_receive(peer, pkt, 1) ||
		 pkt->psn != ((peer->channel_psn + r) & INC_PSN_MASK));
}

/* The endpoint has sent the first message and one packet of the second. The peer has received both,
 * and the result of the first message has arrived. The peer cannot send the second result before it
 * has received the rest of the second message. */
static void rest_of_a_message(void **state)
{
	static uint8_t data[(1 + LONG) * PAYLOAD], got[(1 + LONG) * PAYLOAD];
	struct inc_channel_region from, to;
	struct inc_roce_packet first, pkt;
	struct inc_channel_exchange msg;
	struct inccl_endpoint *ep;
	struct rc_peer peer;
	uint32_t r;

	ep = open_by_message(&peer);
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), false, &from), 0);
	assert_int_equal(inccl_endpoint_map(ep, got, sizeof(got), true, &to), 0);
	msg = (struct inc_channel_exchange){.send = data,
					    .recv = got,
					    .send_len = PAYLOAD,
					    .recv_len = PAYLOAD,
					    .send_region = &from,
					    .recv_region = &to,
					    .has_imm = true};
	assert_int_equal(inccl_endpoint_post(ep, &msg), 0);
	msg.has_imm = false;
	msg.send = data + PAYLOAD;
	msg.recv = got + PAYLOAD;
	msg.send_len = msg.recv_len = LONG * PAYLOAD;
	assert_int_equal(inccl_endpoint_post(ep, &msg), 0);

	room = 2;
	receive(&peer, ep, 0, &first);
	receive(&peer, ep, 1, &pkt);
	assert_int_equal(room, 0);
	rc_peer_ack(&peer, INC_AETH_ACK, pkt.psn);
	rc_peer_mirror(&peer, &first, 0, data);
	while (!ep->completed)
		assert_true(inccl_endpoint_progress(ep) >= 0);

	room = UINT32_MAX;
	for (r = 2; r < 1 + LONG; r++)
		receive(&peer, ep, r, &pkt);
	inccl_endpoint_unmap(ep, &from);
	inccl_endpoint_unmap(ep, &to);
	endpoint_pair_close(&peer, ep);
}

/* Posts n messages of one packet each, whose data lie one after the other. */
static void post_singles(struct inccl_endpoint *ep, struct inc_channel_region *region,
			 unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		uint8_t *data = (uint8_t *)region->addr + i * PAYLOAD;
		const struct inc_channel_exchange msg = {.send = data,
							 .recv = data,
							 .send_len = PAYLOAD,
							 .recv_len = PAYLOAD,
							 .send_region = region,
							 .recv_region = region,
							 .has_imm = !i,
							 .last = i + 1 == n};

		assert_int_equal(inccl_endpoint_post(ep, &msg), 0);
	}
}

/* The device turns out not to support UDP_SEGMENT. The endpoint sends the packets of that send one
 * by one at once, because no timer runs that would send them later. */
static void single_sends(void **state)
{
	static uint8_t data[4 * PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet pkt;
	struct inccl_endpoint *ep;
	struct rc_peer peer;
	uint32_t r;

	room = UINT32_MAX;
	single = true;
	ep = endpoint_pair(&peer, PAYLOAD, SLOTS, 0, 0);
	replace_calls();
	assert_true(soft_device_of(endpoint_channel(ep))->udp.segment);
	assert_false(endpoint_channel(ep)->tx.single);
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), true, &region), 0);
	post_singles(ep, &region, 4);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
	for (r = 0; r < 4; r++) {
		assert_true(rc_peer_receive(&peer, &pkt, 0));
		assert_int_equal(pkt.psn, r);
	}
	assert_true(endpoint_channel(ep)->tx.single);
	single = false;
	endpoint_pair_close(&peer, ep);
}

/* The process stands still for longer than the retransmission timeout while it receives an ACK. The
 * timer of the next packet runs from the end of that call, so no packet is retransmitted. */
static void slow_receive(void **state)
{
	static uint8_t data[2 * PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet pkt;
	struct inccl_endpoint *ep;
	struct rc_peer peer;

	room = UINT32_MAX;
	ep = endpoint_pair(&peer, PAYLOAD, SLOTS, 0, 0);
	replace_calls();
	endpoint_channel(ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), true, &region), 0);
	post_singles(ep, &region, 2);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
	assert_true(rc_peer_receive(&peer, &pkt, 0));
	rc_peer_ack(&peer, INC_AETH_ACK, 0);
	receives_ns = 2 * INCCL_RTO_MAX_NS;
	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(endpoint_stats(ep).acks_received, 1);
	receives_ns = 0;
	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(endpoint_stats(ep).timeouts, 0);
	endpoint_pair_close(&peer, ep);
}

/* ---- an endpoint is opened ------------------------------------------------------------------ */

static const uint32_t *lots; /* values of the random numbers; the last one repeats */
static unsigned int n_lots, drawn;

/* Replaces the function of inc_os, and returns the values of `lots`. */
static int random_lots(void *buf, size_t len, bool wait)
{
	uint32_t lot = lots[drawn < n_lots ? drawn : n_lots - 1];

	drawn++;
	assert_int_equal(len, sizeof(lot));
	memcpy(buf, &lot, len);
	return 0;
}

static void no_log(void *ctx, const char *fmt, ...)
{
}

static const struct inccl_transport soft = {INCCL_TRANSPORT_SOFT, &inc_channel_soft};

static uint32_t qpn_drawn(const uint32_t *from, unsigned int n)
{
	struct inccl_open_opts opts = {
		.addr = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
		.payload = 1024,
		.message_packets = 1,
		.window_messages = 8,
		.log = no_log,
	};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	lots = from;
	n_lots = n;
	drawn = 0;
	inc_os.random = random_lots;
	if (inccl_endpoint_open(&soft, &opts, &ep, &local, &err))
		fail_msg("%s", err.msg);
	inccl_endpoint_close(ep);
	return local.end.qpn;
}

/* Peers reject the queue pair numbers 0 and 1 (management) and 0xffffff (multicast). */
static void usable_queue_pairs(void **state)
{
	static const uint32_t all[] = {0xffffff, 0, 1, 0xff000001, 0xfffffffe};
	static const uint32_t least[] = {2}, most[] = {0xfffffe};

	assert_int_equal(qpn_drawn(all, 5), 0xfffffe);
	assert_true(drawn >= 5);
	assert_int_equal(qpn_drawn(least, 1), INC_MIN_QPN);
	assert_int_equal(qpn_drawn(most, 1), INC_MAX_QPN);
}

/* A channel of an endpoint has no name, so the errors of opening it begin with the name of the
 * transport. */
static void errors_name_the_transport(void **state)
{
	const struct inccl_open_opts opts = {.addr = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
					     .payload = 300,
					     .message_packets = 1,
					     .log = no_log};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	assert_int_equal(inccl_endpoint_open(&soft, &opts, &ep, &local, &err), -EINVAL);
	assert_int_equal(strncmp(err.msg, "soft: payload 300: ", 19), 0);
}

/* A traffic class that a sender must not have is refused with the variable's name, and so is a word
 * that is no number. */
static void bad_classes(void **state)
{
	static const char *const bad[][2] = {
		{"traffic_class=107",
		 "INCCL_VERBS: traffic_class=107: want " INC_TRAFFIC_CLASS_TEXT},
		{"traffic_class=255",
		 "INCCL_VERBS: traffic_class=255: want a number from 0 to 254"},
		{"traffic_class=x", "INCCL_VERBS: traffic_class=x: want a number from 0 to 254"},
		{"sl=7", "soft: sl 7: 6 at most"},
	};
	const struct inccl_open_opts opts = {.addr = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK)),
					     .payload = 1024,
					     .message_packets = 1,
					     .log = no_log};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("INCCL_VERBS", bad[i][0], 1);
		assert_int_equal(inccl_endpoint_open(&soft, &opts, &ep, &local, &err), -EINVAL);
		assert_string_equal(err.msg, bad[i][1]);
	}
}

/* Makes the kernel behave as one before 6.14, which knows no priority of a single send. */
static bool old_kernel;

int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	if (old_kernel && level == SOL_SOCKET && name == SO_RCVPRIORITY) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return syscall(SYS_getsockopt, fd, level, name, value, len);
}

int sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	struct cmsghdr *c;

	for (unsigned int i = 0; old_kernel && i < n; i++)
		for (c = CMSG_FIRSTHDR(&msg[i].msg_hdr); c; c = CMSG_NXTHDR(&msg[i].msg_hdr, c))
			if (c->cmsg_level == SOL_SOCKET) {
				errno = EINVAL;
				return i ? (int)i : -1;
			}
	return syscall(SYS_sendmmsg, fd, msg, n, flags);
}

static int set_old_kernel(void **state)
{
	old_kernel = true;
	return 0;
}

static int set_present_kernel(void **state)
{
	old_kernel = false;
	return 0;
}

/* Receives a packet, and returns its priority in the kernel. */
static uint32_t received_priority(int fd)
{
	char byte, control[256] __attribute__((aligned(8)));
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	uint32_t seen = ~0u;

	assert_int_equal(recvmsg(fd, &msg, 0), 1);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_PRIORITY)
			memcpy(&seen, CMSG_DATA(c), sizeof(seen));
	return seen;
}

/* Each packet of a batch has the priority of its own send in the kernel. The kernel derives 2 from
 * the TOS byte 0x68, which only an old kernel prefers to the priority. */
static void priorities(void **state)
{
	static const struct {
		uint8_t tos, priority;
	} want[] = {{0, 3}, {0, 3}, {0, 0}, {0x68, 0}, {0x68, 1}, {0, 6}, {0x68, 5}, {0, 0}};
	enum { SENDS = sizeof(want) / sizeof(want[0]) };
	const struct inc_addr at = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK));
	struct inc_udp_send sends[SENDS];
	struct inc_udp_socket to, from;
	union inc_sockaddr peer;
	struct inc_err err;
	const int on = 1;
	char byte = 0;
	struct iovec iov = {&byte, 1};
	int sent = 1;

	assert_int_equal(inc_os_kernel.udp.open(&at, 0, 65536, &to, &err), 0);
	assert_int_equal(inc_os_kernel.udp.open(&at, 0, 65536, &from, &err), 0);
	/* a kernel that does not show the priority of what it receives takes none with a send */
	if (setsockopt(to.fd, SOL_SOCKET, SO_RCVPRIORITY, &on, sizeof(on)))
		skip();
	inc_addr_to_sockaddr(at, to.port, &peer);
	for (unsigned int i = 0; i < SENDS; i++)
		sends[i] = (struct inc_udp_send){.to = &peer,
						 .iov = &iov,
						 .iovs = 1,
						 .tos = want[i].tos,
						 .priority = want[i].priority};
	for (unsigned int i = 0; i < SENDS; i += sent) {
		sent = inc_os_kernel.udp.send(from.fd, sends + i, SENDS - i);
		assert_true(sent > 0);
	}
	for (unsigned int i = 0; i < SENDS; i++)
		assert_int_equal(
			received_priority(to.fd),
			want[i].tos && (old_kernel || !want[i].priority) ? 2 : want[i].priority);
	inc_os_kernel.udp.close(to.fd);
	inc_os_kernel.udp.close(from.fd);
}

static uint64_t clock_now_ns;

static uint64_t standing_clock(clockid_t clock)
{
	return clock_now_ns;
}

/* Serves the endpoint until everything that has arrived is processed, and returns how many CNPs the
 * peer has received then. */
static unsigned int cnps(struct rc_peer *peer, struct inccl_endpoint *ep)
{
	struct inc_roce_packet pkt;
	unsigned int n = 0;

	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
	while (rc_peer_receive(peer, &pkt, 100))
		n += pkt.opcode == INC_OP_CNP;
	return n;
}

/* A peer that sums whole messages sends its results by itself, so it receives CNPs for those that
 * arrive with marks, and one in INC_CNP_PACE_NS at most. */
static void marks_are_reported(void **state)
{
	static uint8_t data[PAYLOAD], got[PAYLOAD];
	struct inc_channel_region from, to;
	struct inccl_endpoint *ep;
	struct inc_roce_packet pkt;
	struct rc_peer peer;

	room = UINT32_MAX;
	ep = open_by_message(&peer);
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), false, &from), 0);
	assert_int_equal(inccl_endpoint_map(ep, got, sizeof(got), true, &to), 0);
	for (int i = 0; i < 3; i++) {
		const struct inc_channel_exchange msg = {.send = data,
							 .recv = got,
							 .send_len = PAYLOAD,
							 .recv_len = PAYLOAD,
							 .send_region = &from,
							 .recv_region = &to,
							 .has_imm = true};

		assert_int_equal(inccl_endpoint_post(ep, &msg), 0);
	}
	receive(&peer, ep, 0, &pkt);
	clock_now_ns = inc_now_ns();
	inc_os.clock_ns = standing_clock;
	rc_peer_mirror(&peer, &pkt, 0, data);
	assert_int_equal(cnps(&peer, ep), 0);
	peer.tos = INC_ECN_CE;
	rc_peer_mirror(&peer, &pkt, 1, data);
	assert_int_equal(cnps(&peer, ep), 1);
	clock_now_ns += INC_CNP_PACE_NS - 1;
	rc_peer_mirror(&peer, &pkt, 2, data);
	assert_int_equal(cnps(&peer, ep), 0);
	clock_now_ns++;
	rc_peer_mirror(&peer, &pkt, 2, data);
	assert_int_equal(cnps(&peer, ep), 1);
	assert_int_equal(endpoint_channel(ep)->cnps_sent, 2);
	inc_os.clock_ns = inc_os_kernel.clock_ns;
	endpoint_pair_close(&peer, ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(marks_are_reported, restore_calls),
		cmocka_unit_test_teardown(rest_of_a_message, restore_calls),
		cmocka_unit_test_teardown(single_sends, restore_calls),
		cmocka_unit_test_teardown(slow_receive, restore_calls),
		cmocka_unit_test(usable_queue_pairs),
		cmocka_unit_test(errors_name_the_transport),
		cmocka_unit_test_setup_teardown(rest_of_a_message, set_class, restore_calls),
		cmocka_unit_test_setup_teardown(single_sends, set_class, restore_calls),
		cmocka_unit_test_setup_teardown(slow_receive, set_class, restore_calls),
		cmocka_unit_test_teardown(bad_classes, restore_calls),
		cmocka_unit_test(priorities),
		cmocka_unit_test_setup_teardown(priorities, set_old_kernel, set_present_kernel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
