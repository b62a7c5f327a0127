/* SPDX-License-Identifier: BSD-2-Clause */
/* The group, communicator, controller and switch that several tests use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/fixture_rank.h"

/* A log callback that makes every call that inccl.h allows in a callback. */
static void curious_log(void *ctx, const char *line)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct world *w = ctx;
	const char *text;

	if (!__atomic_load_n(&w->curious, __ATOMIC_ACQUIRE))
		return;
	text = inccl_communicator_error(w->comm);
	if (text)
		snprintf(w->seen, sizeof(w->seen), "%s", text);
	text = inccl_group_error(w->group);
	if (text)
		snprintf(w->seen_group, sizeof(w->seen_group), "%s", text);
	inccl_communicator_failed_rank(w->comm);
	inccl_communicator_info(w->comm, &info);
	__atomic_add_fetch(&w->lines, 1, __ATOMIC_RELEASE);
}

static int setup_order(void **state, enum inccl_byte_order order)
{
	struct world *w = calloc(1, sizeof(*w));
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .create_timeout_ms = 4000, .byte_order = order);
	char error[256], port[8];

	*state = w;
	if (!w)
		return -1;
	snprintf(port, sizeof(port), "%u", peer_listen(&w->peer));
	snprintf(w->conn, sizeof(w->conn), CONN_TO("%s", "%u", "1024", "8"), port, PEER_QPN);
	w->answers[0] = JOINED;
	w->answers[1] = w->conn;
	w->answers[2] = STARTED;
	w->answers[3] = "{\"type\":\"D\",\"communicator\":12}\n";
	if (fake_create(&w->fake, w->answers, false, &w->group, error, curious_log, w) ||
	    inccl_communicator_create(w->group, &opts, &w->comm))
		fail_msg("%s", error);
	peer_meet(&w->peer, fake_received_number(&w->fake, "own_port"),
		  fake_received_number(&w->fake, "own_qp"),
		  fake_received_number(&w->fake, "own_psn"), SWITCH_PSN);
	/* a busy machine must not cause timeouts in cases about something else */
	pthread_mutex_lock(&w->comm->lock);
	peer_channel(w->comm->ep)->tx.rto.rto_ns = INCCL_RTO_MAX_NS;
	peer_channel(w->comm->ep)->tx.rto.min_ns = INCCL_RTO_MAX_NS;
	pthread_mutex_unlock(&w->comm->lock);
	return 0;
}

int world_setup(void **state)
{
	return setup_order(state, INCCL_ORDER_LITTLE);
}

int world_setup_network(void **state)
{
	return setup_order(state, INCCL_ORDER_NETWORK);
}

int world_teardown(void **state)
{
	struct world *w = *state;

	inccl_communicator_destroy(w->comm);
	inccl_group_destroy(w->group);
	fake_stop(&w->fake);
	close(w->peer.fd);
	free(w);
	return 0;
}

struct inccl_request *world_start(struct world *w, unsigned int i)
{
	struct inccl_request *req;

	assert_int_equal(inccl_allreduce_start(w->comm, w->data[i], w->data[i], 4, INCCL_INT32,
					       INCCL_SUM, NULL, &req),
			 0);
	return req;
}

void world_receive(struct world *w, struct inc_roce_packet *pkt, unsigned int r)
{
	assert_true(peer_hear(&w->peer, pkt, WAIT_MS));
	assert_int_equal(pkt->psn, (w->peer.host_psn + r) & INC_PSN_MASK);
}

void world_receive_ack(struct world *w, unsigned int r)
{
	struct inc_roce_packet pkt;

	assert_true(peer_hear(&w->peer, &pkt, WAIT_MS));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.psn, (SWITCH_PSN + r) & INC_PSN_MASK);
}

static void *waiter_thread(void *arg)
{
	struct waiter *t = arg;

	t->result = inccl_wait(t->req, -1);
	return NULL;
}

void waiter_start(struct waiter *t, struct inccl_request *req)
{
	t->req = req;
	t->result = 1;
	assert_int_equal(pthread_create(&t->thread, NULL, waiter_thread, t), 0);
}

bool thread_drives(struct inccl_communicator *comm)
{
	return comm->driver == DRIVER_THREAD;
}

bool waiter_sleeps(struct inccl_communicator *comm)
{
	return comm->driver == DRIVER_WAITER && comm->sleeping;
}

void world_until(struct world *w, bool (*condition)(struct inccl_communicator *))
{
	uint64_t end = deadline_after_ms(WAIT_MS);
	bool done;

	do {
		pthread_mutex_lock(&w->comm->lock);
		done = condition(w->comm);
		pthread_mutex_unlock(&w->comm->lock);
		assert_true(done || inc_now_ns() < end);
		poll(NULL, 0, done ? 0 : 1);
	} while (!done);
}
