/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A communicator of soft endpoints with a window of one message. The test plays the peers, and the
 * wire loses every ACK of one of them. No other peer may have to wait for those ACKs, because the
 * peer's next messages show which results it has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/desc.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/rc_peer.h"
#include "userspace/term/worker.h"

#define PAYLOAD  256
#define MESSAGES 12
#define OWN_PSN  500
#define PEER_PSN 0xfffffa
#define SUM      INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, 0)

struct fixture {
	struct inc_term_worker *worker;
	struct inc_term_comm *cm;
	struct inc_comm_conf conf;
	struct rc_peer peer[3]; /* the peers of the communicator; the parent is the last */
	uint32_t n;
	uint64_t results[3]; /* number of results that each peer has received */
};

static const struct inc_channel_ops *const kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &inc_channel_soft};

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	fail_msg("%s: %s", inc_event_info[event->kind].name, event->message);
}

static void add(struct fixture *w, bool has_parent)
{
	struct inc_err err = {};
	uint32_t i;

	w->n = 2 + has_parent;
	/* with messages of this length the endpoint posts exactly two receives for each peer */
	w->conf = (struct inc_comm_conf){.communicator = 12,
					 .mode = INC_TERMINATION,
					 .root = !has_parent,
					 .payload = PAYLOAD,
					 .slots = 64,
					 .messages = 1,
					 .message_packets = 64,
					 .n_conns = w->n};
	for (i = 0; i < w->n; i++) {
		w->conf.conn[i] =
			(struct inc_conn_conf){.port = "lo",
					       .own.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					       .has_own_psn = true,
					       .own.psn = OWN_PSN,
					       .peer.ip = inc_addr_of_ipv4(htonl(RC_PEER_ADDR)),
					       .peer.udp_port = rc_peer_open(&w->peer[i]),
					       .peer.qpn = RC_PEER_QPN,
					       .has_peer_psn = true,
					       .peer.psn = PEER_PSN,
					       .pkey = INC_PKEY_DEFAULT,
					       .up = i == 2,
					       .rank = i == 2 ? 0 : i};
	}
	if (inc_term_worker_add(w->worker, &w->conf, &w->cm, &err) ||
	    inc_term_worker_start_comm(w->worker, w->cm, &err))
		fail_msg("%s", err.msg);
	for (i = 0; i < w->n; i++)
		rc_peer_connect(&w->peer[i], w->conf.conn[i].own.udp_port, w->conf.conn[i].own.qpn,
				OWN_PSN, PEER_PSN);
}

static void open_world(struct fixture *w, bool has_parent)
{
	/* the timers never expire in this test */
	const struct inc_term_worker_opts opts = {.kinds = kinds,
						  .rto_min_ns = 60 * INC_NSEC_PER_SEC,
						  .rto_max_ns = 60 * INC_NSEC_PER_SEC,
						  .notice = on_notice,
						  .arg = w};

	memset(w, 0, sizeof(*w));
	assert_int_equal(inc_term_worker_new(&opts, &w->worker, NULL), 0);
	add(w, has_parent);
}

static void close_world(struct fixture *w)
{
	uint32_t i;

	inc_term_worker_free(w->worker);
	for (i = 0; i < w->n; i++)
		rc_peer_close(&w->peer[i]);
}

static void give(struct fixture *w, uint32_t i, uint64_t number)
{
	uint32_t value[2] = {htole32(1 + i + number), htole32(5)};

	rc_peer_send(&w->peer[i], &(struct rc_packet){.opcode = INC_OP_SEND_ONLY_IMM,
						      .psn = (PEER_PSN + number) & INC_PSN_MASK,
						      .imm = SUM,
						      .payload = value,
						      .len = sizeof(value)});
}

/* Receives until peer i has the switch's message with this number. Before it may come ACKs of the
 * peer's messages. */
static void until_result(struct fixture *w, uint32_t i, uint64_t number)
{
	const uint64_t end_ns = inc_now_ns() + 10 * INC_NSEC_PER_SEC;
	struct inc_roce_packet pkt;

	while (w->results[i] <= number) {
		inc_term_worker_turn(w->worker, 0);
		if (inc_now_ns() > end_ns)
			fail_msg("peer %u waits for message %llu", i, (unsigned long long)number);
		if (!rc_peer_receive(&w->peer[i], &pkt, 0))
			continue;
		if (pkt.opcode == INC_OP_ACK) {
			assert_int_equal(pkt.syndrome & INC_AETH_TYPE_MASK, INC_AETH_TYPE_ACK);
			continue;
		}
		/* the endpoint retransmits a packet that was not acknowledged */
		if (pkt.psn < OWN_PSN + w->results[i])
			continue;
		assert_int_equal(pkt.psn, OWN_PSN + w->results[i]);
		w->results[i]++;
	}
}

static void acknowledge(struct fixture *w, uint32_t i, uint64_t number)
{
	rc_peer_ack(&w->peer[i], INC_AETH_ACK, (OWN_PSN + number) & INC_PSN_MASK);
}

/* The ACKs of child 0 are lost. The other child must not get an RNR NAK. */
static void of_a_child(void **state)
{
	struct fixture w;
	uint64_t m;

	open_world(&w, false);
	for (m = 0; m < MESSAGES; m++) {
		give(&w, 0, m);
		give(&w, 1, m);
		until_result(&w, 0, m);
		until_result(&w, 1, m);
		acknowledge(&w, 1, m);
	}
	close_world(&w);
}

/* The ACKs of the parent are lost. No child must get an RNR NAK. */
static void of_the_parent(void **state)
{
	struct fixture w;
	uint64_t m;
	uint32_t i;

	open_world(&w, true);
	for (m = 0; m < MESSAGES; m++) {
		give(&w, 0, m);
		give(&w, 1, m);
		until_result(&w, 2, m);
		give(&w, 2, m);
		for (i = 0; i < 2; i++) {
			until_result(&w, i, m);
			acknowledge(&w, i, m);
		}
	}
	close_world(&w);
}

/* A peer sends a message that is allowed only after a result which the switch has not sent. That
 * message acknowledges nothing. */
static void of_a_liar(void **state)
{
	struct fixture w;
	uint64_t m;

	open_world(&w, false);
	give(&w, 0, 0);
	give(&w, 0, 1);
	inc_term_worker_turn(w.worker, 0);
	give(&w, 1, 0);
	until_result(&w, 1, 0);
	until_result(&w, 0, 0);
	acknowledge(&w, 1, 0);
	give(&w, 1, 1);
	for (m = 0; m < 2; m++)
		until_result(&w, 1, m);
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_child),
		cmocka_unit_test(of_the_parent),
		cmocka_unit_test(of_a_liar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
