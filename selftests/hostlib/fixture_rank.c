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
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/soft_priv.h"
#include "selftests/hostlib/fixture_rank.h"

/* A log callback that makes every call that inccl.h allows in a callback. */
static void curious_log(void *ctx, const char *line)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct rank_fixture *fx = ctx;
	const char *text;

	if (!__atomic_load_n(&fx->curious, __ATOMIC_ACQUIRE))
		return;
	text = inccl_communicator_error(fx->comm);
	if (text)
		snprintf(fx->seen, sizeof(fx->seen), "%s", text);
	text = inccl_group_error(fx->group);
	if (text)
		snprintf(fx->seen_group, sizeof(fx->seen_group), "%s", text);
	inccl_communicator_failed_rank(fx->comm);
	inccl_communicator_info(fx->comm, &info);
	__atomic_add_fetch(&fx->lines, 1, __ATOMIC_RELEASE);
}

static int setup_order(void **state, enum inccl_byte_order order)
{
	struct rank_fixture *fx = calloc(1, sizeof(*fx));
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .create_timeout_ms = 4000, .byte_order = order);
	char error[256], port[8];

	*state = fx;
	if (!fx)
		return -1;
	snprintf(port, sizeof(port), "%u", rc_peer_open(&fx->peer));
	snprintf(fx->conn, sizeof(fx->conn), CONN_TO("%s", "%u", "1024", "8"), port, RC_PEER_QPN);
	fx->answers[0] = JOINED;
	fx->answers[1] = fx->conn;
	fx->answers[2] = STARTED;
	fx->answers[3] = "{\"type\":\"D\",\"communicator\":12}\n";
	if (fake_controller_create(&fx->controller, fx->answers, false, &fx->group, error,
				   curious_log, fx) ||
	    inccl_communicator_create(fx->group, &opts, &fx->comm))
		fail_msg("%s", error);
	rc_peer_connect(&fx->peer, fake_controller_received_number(&fx->controller, "own_port"),
			fake_controller_received_number(&fx->controller, "own_qp"),
			fake_controller_received_number(&fx->controller, "own_psn"), SWITCH_PSN);
	endpoint_be_patient(fx->comm);
	return 0;
}

int rank_setup(void **state)
{
	return setup_order(state, INCCL_ORDER_LITTLE);
}

int rank_setup_network(void **state)
{
	return setup_order(state, INCCL_ORDER_NETWORK);
}

int rank_teardown(void **state)
{
	struct rank_fixture *fx = *state;

	inccl_communicator_destroy(fx->comm);
	inccl_group_destroy(fx->group);
	fake_controller_stop(&fx->controller);
	rc_peer_close(&fx->peer);
	free(fx);
	return 0;
}

struct inccl_request *rank_start(struct rank_fixture *fx, unsigned int i)
{
	struct inccl_request *req;

	assert_int_equal(inccl_allreduce_start(fx->comm, fx->data[i], fx->data[i], 4, INCCL_INT32,
					       INCCL_SUM, NULL, &req),
			 0);
	return req;
}

void rank_receive(struct rank_fixture *fx, struct inc_roce_packet *pkt, unsigned int r)
{
	assert_true(rc_peer_receive(&fx->peer, pkt, WAIT_MS));
	assert_int_equal(pkt->psn, (fx->peer.channel_psn + r) & INC_PSN_MASK);
}

void rank_receive_ack(struct rank_fixture *fx, unsigned int r)
{
	struct inc_roce_packet pkt;

	assert_true(rc_peer_receive(&fx->peer, &pkt, WAIT_MS));
	assert_int_equal(pkt.opcode, INC_OP_ACK);
	assert_int_equal(pkt.psn, (SWITCH_PSN + r) & INC_PSN_MASK);
}

static void *waiter_thread(void *arg)
{
	struct waiter *t = arg;

	t->result = inccl_wait(t->req, -1);
	return NULL;
}

void rank_destroy(struct rank_fixture *fx, int want)
{
	int ret = inccl_communicator_destroy(fx->comm);

	fx->comm = NULL;
	assert_int_equal(ret, want);
}

bool rank_reported(struct rank_fixture *fx, const char *text)
{
	return strstr(fx->controller.received, text);
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

void rank_until(struct rank_fixture *fx, bool (*condition)(struct inccl_communicator *))
{
	uint64_t end = deadline_after_ms(WAIT_MS);
	bool done;

	do {
		pthread_mutex_lock(&fx->comm->lock);
		done = condition(fx->comm);
		pthread_mutex_unlock(&fx->comm->lock);
		assert_true(done || inc_now_ns() < end);
		poll(NULL, 0, done ? 0 : 1);
	} while (!done);
}

int wide_up(struct wide *w, const char *third, const char *fourth)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .create_timeout_ms = PATIENT_MS,
		   .channels = w->channels, .error = w->why, .error_size = sizeof(w->why));
	static const char conn[] =
		"{\"type\":\"C\",\"comm\":%s,\"communicator\":%u,\"payload\":1024,\"slots\":8,"
		"\"channels\":%u,\"connection\":{\"switch\":\"s0\",\"peer_ip\":\"127.0.0.1\","
		"\"peer_port\":%u,\"peer_qp\":%u,\"peer_psn\":77,\"own_ip\":\"127.0.0.1\"}}\n";
	char error[256];

	snprintf(w->conn[0], sizeof(w->conn[0]), conn, "0", 12, w->channels,
		 rc_peer_open(&w->fx.peer), RC_PEER_QPN);
	snprintf(w->conn[1], sizeof(w->conn[1]), conn, FURTHER, 13, 1, rc_peer_open(&w->second),
		 RC_PEER_QPN);
	w->answers[0] = JOINED;
	w->answers[1] = w->conn[0];
	w->answers[2] = STARTED;
	w->answers[3] = third ?: w->conn[1];
	w->answers[4] = fourth ?: STARTED_2;
	for (unsigned int i = 5; i < 15; i++)
		w->answers[i] = LEFT;
	if (fake_controller_create(&w->fx.controller, w->answers, false, &w->fx.group, error, NULL,
				   NULL))
		fail_msg("%s", error);
	return inccl_communicator_create(w->fx.group, &opts, &w->fx.comm);
}

static void connect_peer(struct rc_peer *peer, struct inccl_communicator *channel)
{
	endpoint_be_patient(channel);
	rc_peer_connect(peer, channel->own.udp_port, channel->own.qpn, channel->own.psn,
			SWITCH_PSN);
}

int wide_setup(void **state)
{
	struct wide *w = calloc(1, sizeof(*w));

	*state = w;
	if (!w)
		return -1;
	w->channels = 2;
	inccl_channel_part_bytes = sizeof(w->numbers) / 2;
	return 0;
}

int wide_teardown(void **state)
{
	struct wide *w = *state;

	inccl_communicator_destroy(w->fx.comm);
	inccl_group_destroy(w->fx.group);
	fake_controller_stop(&w->fx.controller);
	rc_peer_close(&w->fx.peer);
	rc_peer_close(&w->second);
	free(w);
	return 0;
}

unsigned int channels_of(struct inccl_communicator *comm)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};

	assert_int_equal(inccl_communicator_info(comm, &info), 0);
	return info.channels;
}

void wide_connect(struct wide *w)
{
	assert_int_equal(wide_up(w, NULL, NULL), 0);
	assert_int_equal(channels_of(w->fx.comm), 2);
	connect_peer(&w->fx.peer, w->fx.comm);
	connect_peer(&w->second, w->fx.comm->channel[1]);
}
