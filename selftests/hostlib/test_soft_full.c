/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The soft endpoint when a call of the kernel fails to send or returns late. The send buffer is
 * full in the middle of a message, the device cannot segment a send, or the process stands still in
 * a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "selftests/hostlib/peer.h"
#include "lib/channel/soft_priv.h"

#define PAYLOAD    256
#define SLOTS      64
#define LONG       7 /* number of packets in the second message */
#define RECEIVE_MS 5000

static unsigned int room;    /* number of packets that the send buffer accepts */
static bool single;          /* the device cannot segment a send */
static uint64_t receives_ns; /* time that each call of recvmmsg() seems to take */
static uint64_t ahead_ns;    /* time by which the process's clock is ahead of the kernel's */

/* Replacements of the C library's functions. */

int sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	if (!room || (single && msg->msg_hdr.msg_controllen)) {
		errno = room ? EIO : EAGAIN;
		return -1;
	}
	n = n < room ? n : room;
	room -= n;
	return syscall(SYS_sendmmsg, fd, msg, n, flags);
}

int recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *timeout)
{
	ahead_ns += receives_ns;
	return syscall(SYS_recvmmsg, fd, msg, n, flags, timeout);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	const int ret = syscall(SYS_clock_gettime, clock, t);
	const uint64_t ns = t->tv_nsec + ahead_ns;

	t->tv_sec += ns / INC_NSEC_PER_SEC;
	t->tv_nsec = ns % INC_NSEC_PER_SEC;
	return ret;
}

static struct inccl_endpoint *open_by_message(struct peer *peer)
{
	const struct peer_form form = {
		.payload = PAYLOAD, .slots = SLOTS, .message_packets = LONG, .messages = SLOTS / 8};
	struct inccl_endpoint *ep = peer_pair_by_message(peer, &form);

	soft_device_of(peer_channel(ep))->udp.segment = false; /* each packet is sent by itself */
	return ep;
}

static void receive(struct peer *peer, struct inccl_endpoint *ep, uint32_t r,
		    struct inc_roce_packet *pkt)
{
	const uint64_t end_ns = inc_now_ns() + RECEIVE_MS * INC_NSEC_PER_MSEC;

	do {
		assert_true(inc_now_ns() < end_ns);
		assert_true(inccl_endpoint_progress(ep) >= 0);
		assert_int_equal(inccl_endpoint_flush(ep), 0);
		/* repeats the call to skip retransmissions */
	} while (!peer_hear(peer, pkt, 1) || pkt->psn != ((peer->host_psn + r) & INC_PSN_MASK));
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
	struct peer peer;
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
	peer_ack(&peer, INC_AETH_ACK, pkt.psn);
	peer_mirror(&peer, &first, 0, data);
	while (!ep->completed)
		assert_true(inccl_endpoint_progress(ep) >= 0);

	room = UINT32_MAX;
	for (r = 2; r < 1 + LONG; r++)
		receive(&peer, ep, r, &pkt);
	inccl_endpoint_unmap(ep, &from);
	inccl_endpoint_unmap(ep, &to);
	peer_close(&peer, ep);
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
	struct peer peer;
	uint32_t r;

	room = UINT32_MAX;
	single = true;
	ep = peer_pair(&peer, PAYLOAD, SLOTS, 0, 0);
	assert_true(soft_device_of(peer_channel(ep))->udp.segment);
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), true, &region), 0);
	post_singles(ep, &region, 4);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
	for (r = 0; r < 4; r++) {
		assert_true(peer_hear(&peer, &pkt, 0));
		assert_int_equal(pkt.psn, r);
	}
	assert_false(soft_device_of(peer_channel(ep))->udp.segment);
	single = false;
	peer_close(&peer, ep);
}

/* The process stands still for longer than the retransmission timeout while it receives an ACK. The
 * timer of the next packet runs from the end of that call, so no packet is retransmitted. */
static void slow_receive(void **state)
{
	static uint8_t data[2 * PAYLOAD];
	struct inc_channel_region region;
	struct inc_roce_packet pkt;
	struct inccl_endpoint *ep;
	struct peer peer;

	room = UINT32_MAX;
	ep = peer_pair(&peer, PAYLOAD, SLOTS, 0, 0);
	peer_channel(ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	assert_int_equal(inccl_endpoint_map(ep, data, sizeof(data), true, &region), 0);
	post_singles(ep, &region, 2);
	assert_int_equal(inccl_endpoint_flush(ep), 0);
	assert_true(peer_hear(&peer, &pkt, 0));
	peer_ack(&peer, INC_AETH_ACK, 0);
	receives_ns = 2 * INCCL_RTO_MAX_NS;
	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(peer_stats(ep).acks_received, 1);
	receives_ns = 0;
	assert_true(inccl_endpoint_progress(ep) >= 0);
	assert_int_equal(peer_stats(ep).timeouts, 0);
	peer_close(&peer, ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rest_of_a_message),
		cmocka_unit_test(single_sends),
		cmocka_unit_test(slow_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
