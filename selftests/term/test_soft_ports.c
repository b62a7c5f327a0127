/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A communicator of soft endpoints whose children are at different addresses of the switch. One
 * socket serves all of them, so a turn is one call that receives and one that sends. A send that
 * fails for one child must not disturb the others. The test plays the peers, by the kernel's
 * sockets on loopback, where all addresses of 127/8 are the machine's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/rc_peer.h"
#include "userspace/term/worker.h"

#define CHILDREN    8
#define PAYLOAD     256
#define PACKETS     4 /* packets of a long message */
#define OWN_PSN     500
#define PEER_PSN    70
#define OWN_ADDR(i) (0x7f000002 + (i))
#define SUM         INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 0)

struct fixture {
	struct inc_term_worker *worker;
	struct inc_term_comm *cm;
	struct inc_comm_conf conf;
	struct rc_peer peer[CHILDREN];
	unsigned int n_notices;
	unsigned int cnps; /* number of CNPs to children */
};

static const struct inc_channel_ops *const kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_channel_soft};

/* ---- the kernel's calls, which are counted, and which may fail for one peer ---- */

static int n_open;
static unsigned int n_sends, n_receives;
static uint16_t victim; /* UDP port of a peer; 0: no send fails */
static int error;       /* the error of sends to that peer */
static bool only_many;  /* only sends of several packets fail */

static int open_counted(const struct inc_addr *own, uint16_t port, int bytes,
			struct inc_udp_socket *out, struct inc_err *err)
{
	const int ret = inc_os_kernel.udp.open(own, port, bytes, out, err);

	n_open += !ret;
	return ret;
}

static void close_counted(int fd)
{
	n_open--;
	inc_os_kernel.udp.close(fd);
}

static bool fails(const struct inc_udp_send *send)
{
	return victim && inc_sockaddr_port(send->to) == victim &&
	       (send->segment_bytes || !only_many);
}

/* Like the kernel, sends up to the first send that fails. */
static int send_counted(int fd, const struct inc_udp_send *sends, unsigned int n)
{
	unsigned int i;

	n_sends++;
	for (i = 0; i < n && !fails(&sends[i]); i++)
		;
	return i ? inc_os_kernel.udp.send(fd, sends, i) : -error;
}

static int receive_counted(int fd, uint8_t *room, struct inc_datagram *datagrams)
{
	n_receives++;
	return inc_os_kernel.udp.receive(fd, room, datagrams);
}

/* ---- the communicator ---- */

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	((struct fixture *)arg)->n_notices++;
}

static void open_worker(struct fixture *w)
{
	/* the timers never expire in this test */
	const struct inc_term_worker_opts opts = {.kinds = kinds,
						  .rto_min_ns = 60 * INC_NSEC_PER_SEC,
						  .rto_max_ns = 60 * INC_NSEC_PER_SEC,
						  .notice = on_notice,
						  .arg = w};
	uint32_t i;

	memset(w, 0, sizeof(*w));
	w->conf = (struct inc_comm_conf){.communicator = 12,
					 .mode = INC_TERMINATION,
					 .root = true,
					 .payload = PAYLOAD,
					 .slots = 64,
					 .messages = 1,
					 .message_packets = 64,
					 .n_conns = CHILDREN};
	for (i = 0; i < CHILDREN; i++)
		w->conf.conn[i] =
			(struct inc_conn_conf){.port = "lo",
					       .own.ip = inc_addr_of_ipv4(htonl(OWN_ADDR(i))),
					       .has_own_psn = true,
					       .own.psn = OWN_PSN,
					       .peer.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					       .peer.udp_port = rc_peer_open(&w->peer[i]),
					       .peer.qpn = RC_PEER_QPN,
					       .has_peer_psn = true,
					       .peer.psn = PEER_PSN,
					       .pkey = INC_PKEY_DEFAULT,
					       .rank = i};
	victim = 0;
	n_open = 0;
	inc_os.udp.open = open_counted;
	inc_os.udp.close = close_counted;
	inc_os.udp.send = send_counted;
	inc_os.udp.receive = receive_counted;
	assert_int_equal(inc_term_worker_new(&opts, &w->worker, NULL), 0);
}

static void add(struct fixture *w)
{
	struct inc_err err = {};
	uint32_t i;

	if (inc_term_worker_add(w->worker, &w->conf, &w->cm, &err) ||
	    inc_term_worker_start_comm(w->worker, w->cm, &err))
		fail_msg("%s", err.msg);
	for (i = 0; i < CHILDREN; i++) {
		rc_peer_connect(&w->peer[i], w->conf.conn[i].own.udp_port, w->conf.conn[i].own.qpn,
				OWN_PSN, PEER_PSN);
		rc_peer_channel_at(&w->peer[i], OWN_ADDR(i));
	}
}

static void close_worker(struct fixture *w)
{
	uint32_t i;

	inc_term_worker_free(w->worker);
	assert_int_equal(n_open, 0);
	for (i = 0; i < CHILDREN; i++)
		rc_peer_close(&w->peer[i]);
	inc_os = inc_os_kernel;
}

/* Child i sends the first `sent` packets of its message number `number`, which has so many packets.
 * The immediate makes the last packet as long as the others. ask: the last packet that is sent
 * requests an ACK. */
static void give_part(struct fixture *w, uint32_t i, unsigned int number, unsigned int packets,
		      unsigned int sent, bool ask)
{
	static const uint8_t data[PAYLOAD];
	unsigned int p;

	for (p = 0; p < sent; p++) {
		const bool first = !p, last = p + 1 == packets;

		assert_true(rc_peer_append(
			&w->peer[i],
			&(struct rc_packet){.opcode = first && last ? INC_OP_SEND_ONLY_IMM
						      : first       ? INC_OP_SEND_FIRST
						      : last        ? INC_OP_SEND_LAST_IMM
								    : INC_OP_SEND_MIDDLE,
					    .psn = PEER_PSN + number * packets + p,
					    .ackreq = ask && p + 1 == sent,
					    .imm = SUM,
					    .payload = data,
					    .len = last ? PAYLOAD - 4 : PAYLOAD}));
	}
	rc_peer_transmit(&w->peer[i]);
}

static void give(struct fixture *w, uint32_t i, unsigned int number, unsigned int packets)
{
	give_part(w, i, number, packets, packets, false);
}

static void give_all(struct fixture *w, unsigned int number, unsigned int packets)
{
	uint32_t i;

	for (i = 0; i < CHILDREN; i++)
		give(w, i, number, packets);
}

/* Whether child i has received all packets of a result, apart from ACKs. CNPs are counted.
 * together: the number of packets that each send had. */
static bool has_result(struct fixture *w, uint32_t i, unsigned int packets, unsigned int together)
{
	struct inc_roce_packet pkt;
	unsigned int n = 0;

	while (rc_peer_receive(&w->peer[i], &pkt, 0))
		if (pkt.opcode == INC_OP_CNP) {
			w->cnps++;
		} else if (pkt.opcode != INC_OP_ACK) {
			assert_int_equal(w->peer[i].together, together);
			n++;
		}
	assert_true(!n || n == packets);
	return n;
}

static void turn(struct fixture *w)
{
	n_sends = n_receives = 0;
	inc_term_worker_turn(w->worker, 0);
}

/* ---- tests ---- */

static void one_socket(void **state)
{
	struct fixture w;
	unsigned int number;
	uint32_t i;

	open_worker(&w);
	add(&w);
	assert_int_equal(n_open, 1);
	for (number = 0; number < 3; number++) {
		give_all(&w, number, 1);
		turn(&w);
		assert_int_equal(n_receives, 1);
		assert_int_equal(n_sends, 1);
		for (i = 0; i < CHILDREN; i++) {
			assert_true(has_result(&w, i, 1, 1));
			rc_peer_ack(&w.peer[i], INC_AETH_ACK, OWN_PSN + number);
		}
		turn(&w);
	}
	assert_int_equal(w.n_notices, 0);
	close_worker(&w);
}

/* Returns the TOS byte of the next packet to a child, which stays in the child's socket. */
static uint8_t tos_of_next(const struct rc_peer *peer)
{
	/* the kernel also reports the length of packets that it has merged */
	char control[2 * CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))), byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg;

	assert_int_equal(recvmsg(peer->fd, &msg, MSG_PEEK), 1);
	for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_IP && cmsg->cmsg_type == IP_TOS)
			return *CMSG_DATA(cmsg);
	fail_msg("the kernel reports no TOS byte");
	return 0;
}

/* Results and ACKs to a child have the traffic class of its connection, whether a send has one
 * packet or several. */
static void traffic_classes(void **state)
{
	static const uint8_t classes[CHILDREN] = {[3] = 104, [5] = 0xb9};
	const int on = 1;
	struct fixture w;
	uint32_t i;

	open_worker(&w);
	for (i = 0; i < CHILDREN; i++) {
		w.conf.conn[i].verbs.traffic_class = classes[i];
		w.conf.conn[i].verbs.has_traffic_class = w.conf.conn[i].has_verbs = classes[i];
		assert_int_equal(setsockopt(w.peer[i].fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)),
				 0);
	}
	add(&w);
	give_all(&w, 0, PACKETS);
	turn(&w);
	for (i = 0; i < CHILDREN; i++) {
		assert_int_equal(tos_of_next(&w.peer[i]), classes[i]);
		assert_true(has_result(&w, i, PACKETS, PACKETS));
		/* a packet of another message, so the answer is a NAK, which is sent alone */
		give(&w, i, 2, PACKETS);
	}
	turn(&w);
	for (i = 0; i < CHILDREN; i++)
		assert_int_equal(tos_of_next(&w.peer[i]), classes[i]);
	close_worker(&w);
}

/* Results and NAKs to a child have the class of the child's own packets from the first one on, and
 * ECT(0) instead of a mark of congestion. A configured class stays. */
static void mirrored_classes(void **state)
{
	static const uint8_t given[CHILDREN] = {104, 40, [3] = 0xbb, [5] = 0xb9, [7] = 3};
	static const uint8_t want[CHILDREN] = {104, 8, [3] = 0xba, [5] = 0xb9, [7] = 2};
	const int on = 1;
	struct fixture w;
	uint32_t i;
	int tos;

	open_worker(&w);
	w.conf.conn[1].verbs.traffic_class = 8;
	w.conf.conn[1].verbs.has_traffic_class = w.conf.conn[1].has_verbs = true;
	for (i = 0; i < CHILDREN; i++) {
		tos = given[i];
		assert_int_equal(setsockopt(w.peer[i].fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)),
				 0);
		assert_int_equal(setsockopt(w.peer[i].fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)),
				 0);
	}
	add(&w);
	give_all(&w, 0, PACKETS);
	turn(&w);
	for (i = 0; i < CHILDREN; i++) {
		w.cnps = 0;
		assert_int_equal(tos_of_next(&w.peer[i]), want[i]);
		assert_true(has_result(&w, i, PACKETS, PACKETS));
		assert_int_equal(w.cnps > 0, (given[i] & INC_ECN_MASK) == INC_ECN_CE);
		give(&w, i, 2, PACKETS);
	}
	turn(&w);
	for (i = 0; i < CHILDREN; i++)
		assert_int_equal(tos_of_next(&w.peer[i]), want[i]);
	close_worker(&w);
}

/* A child whose packets have ECT may have used up a small congestion window in the middle of a
 * message. So the ACK that it requests is sent in the same turn. Others get it later. */
static void small_windows(void **state)
{
	struct inc_roce_packet pkt;
	struct fixture w;
	uint32_t i;

	open_worker(&w);
	add(&w);
	for (i = 0; i < CHILDREN; i++) {
		w.peer[i].tos = i & 1 ? 2 : 0;
		give_part(&w, i, 0, PACKETS, 2, !(i & 2));
	}
	turn(&w);
	for (i = 0; i < CHILDREN; i++) {
		const bool at_once = (i & 3) == 1;

		assert_int_equal(rc_peer_receive(&w.peer[i], &pkt, 0), at_once);
		if (!at_once)
			continue;
		assert_int_equal(pkt.opcode, INC_OP_ACK);
		assert_int_equal(pkt.psn, PEER_PSN + 1);
	}
	close_worker(&w);
}

/* The kernel refuses what goes to one child. The others have their results in the same turn, and
 * the child's channel goes on. */
static void unreachable(void **state)
{
	struct fixture w;
	uint32_t i;

	open_worker(&w);
	add(&w);
	give_all(&w, 0, 1);
	victim = w.conf.conn[3].peer.udp_port;
	error = ENETUNREACH;
	only_many = false;
	turn(&w);
	for (i = 0; i < CHILDREN; i++)
		assert_int_equal(has_result(&w, i, 1, 1), i != 3);
	assert_int_equal(w.n_notices, 0);
	/* the channel sends the result again when the child requests it */
	victim = 0;
	rc_peer_ack(&w.peer[3], INC_AETH_NAK_SEQ, OWN_PSN);
	turn(&w);
	assert_true(has_result(&w, 3, 1, 1));
	close_worker(&w);
}

/* The device on the way to one child makes no checksums, so the kernel cannot segment sends there.
 * The others receive their packets by one send each. */
static void cannot_segment(void **state)
{
	struct fixture w;
	unsigned int number;
	uint32_t i;

	open_worker(&w);
	add(&w);
	victim = w.conf.conn[3].peer.udp_port;
	error = EIO;
	only_many = true;
	for (number = 0; number < 2; number++) {
		give_all(&w, number, PACKETS);
		turn(&w);
		for (i = 0; i < CHILDREN; i++) {
			assert_true(has_result(&w, i, PACKETS, i == 3 ? 1 : PACKETS));
			rc_peer_ack(&w.peer[i], INC_AETH_ACK, OWN_PSN + (number + 1) * PACKETS - 1);
		}
		turn(&w);
	}
	assert_int_equal(w.n_notices, 0);
	close_worker(&w);
}

/* Two connections at different addresses may have the same queue pair number. A packet belongs to
 * that of the address to which it was sent, and at any other address to none. */
static void addresses(void **state)
{
	struct fixture w;
	uint32_t i;

	open_worker(&w);
	w.conf.conn[0].own.qpn = w.conf.conn[1].own.qpn = 0x777;
	add(&w);
	w.peer[0].to_channel.daddr = inc_addr_of_ipv4(htonl(OWN_ADDR(2)));
	give(&w, 0, 0, 1);
	turn(&w);
	assert_int_equal(inc_term_worker_figures(w.worker).strangers, 1);
	w.peer[0].to_channel.daddr = inc_addr_of_ipv4(htonl(OWN_ADDR(0)));
	give_all(&w, 0, 1);
	turn(&w);
	for (i = 0; i < CHILDREN; i++)
		assert_true(has_result(&w, i, 1, 1));
	assert_int_equal(inc_term_worker_figures(w.worker).strangers, 1);
	close_worker(&w);
}

/* An address that is not the machine's is refused, because nothing could be sent from it. */
static void foreign_address(void **state)
{
	struct inc_err err = {};
	struct fixture w;

	open_worker(&w);
	w.conf.conn[5].own.ip = inc_addr_of_ipv4(htonl(0xc0000209));
	assert_int_equal(inc_term_worker_add(w.worker, &w.conf, &w.cm, &err), -EADDRNOTAVAIL);
	assert_non_null(strstr(err.msg, "192.0.2.9"));
	close_worker(&w);
}

/* Another program has the UDP port at an address of its own. Connections that must have this port
 * get a socket for each address, and others share one at another port. */
static void port_in_use(void **state)
{
	const struct inc_addr free_address = inc_addr_of_ipv4(htonl(OWN_ADDR(CHILDREN)));
	struct inc_udp_socket other;
	struct fixture w;
	uint32_t i;

	assert_int_equal(inc_os_kernel.udp.open(&free_address, 0, 0, &other, NULL), 0);
	open_worker(&w);
	w.conf.conn[2].own.udp_port = w.conf.conn[3].own.udp_port = other.port;
	add(&w);
	assert_int_equal(n_open, 3);
	give_all(&w, 0, 1);
	for (i = 0; i < 3; i++)
		turn(&w);
	for (i = 0; i < CHILDREN; i++) {
		assert_int_equal(w.conf.conn[i].own.udp_port == other.port, i == 2 || i == 3);
		assert_true(has_result(&w, i, 1, 1));
	}
	close_worker(&w);
	inc_os_kernel.udp.close(other.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_socket),      cmocka_unit_test(unreachable),
		cmocka_unit_test(cannot_segment),  cmocka_unit_test(addresses),
		cmocka_unit_test(foreign_address), cmocka_unit_test(port_in_use),
		cmocka_unit_test(traffic_classes), cmocka_unit_test(mirrored_classes),
		cmocka_unit_test(small_windows),
	};

	return cmocka_run_group_tests_name("soft ports", tests, NULL, NULL);
}
