/* SPDX-License-Identifier: BSD-2-Clause */
/* The ends of a socket (hostlib/connect/socket.h): every kind of fault at every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/rdma/device_priv.h"
#include "selftests/connect/harness_socket_sides.h"

/* ---- any fault at any step ------------------------------------------------------------------ */

enum breakage { A_CLOSES, BOTH_CLOSE, GIVES_UP, DESTROYED, FATAL, CALL_FAILS, N_BREAKAGES };

static void break_it(enum breakage what, int i, unsigned int random)
{
	struct inc_rdma_event event = {.kind = INC_RDMA_QP_FATAL, .text = "it is broken"};

	switch (what) {
	case BOTH_CLOSE:
		sides[!i].closes = true;
		inc_connect_socket_close(sides[!i].socket);
		__attribute__((fallthrough));
	case A_CLOSES:
		sides[i].closes = true;
		inc_connect_socket_close(sides[i].socket);
		break;
	case GIVES_UP:
		fake_verbs_give_up(qp_of(i), IBV_WC_RETRY_EXC_ERR);
		break;
	case DESTROYED:
		destroy_side(i);
		break;
	case FATAL:
		event.qp = qp_of(i);
		inc_rdma_tell(devices[i], &event);
		break;
	default:
		fake_verbs_fail_call(1 + random % 5);
	}
}

/* Checks the socket of side i after a fault of this kind and after all its consequences. */
static void check_broken(enum breakage what, int i, const uint32_t sent[SIDES])
{
	const struct inc_connect_socket *a = sides[i].socket, *b = sides[!i].socket;

	if (what == A_CLOSES || what == BOTH_CLOSE) {
		assert_int_equal(a->state, CONNECT_CLOSED);
		assert_int_equal(b->state, CONNECT_CLOSED);
		assert_int_equal(inc_connect_socket_close(sides[i].socket), 0);
		/* the peer has received all messages that were sent before the close */
		if (what == A_CLOSES)
			assert_int_equal(sides[!i].taken, sent[i]);
		assert_int_equal(take_one(!i), -ESHUTDOWN);
	}
	if (what == GIVES_UP || what == FATAL) {
		assert_int_equal(a->state, CONNECT_FAILED);
		assert_true(a->error != -ESHUTDOWN);
		assert_int_equal(take_one(i), a->error);
		/* no event has reached the socket of side b */
		assert_null(inc_connect_socket_error(b));
	}
	if (what == DESTROYED)
		assert_null(inc_connect_socket_error(b));
	if (b && !b->error) {
		fake_verbs_give_up(qp_of(!i), IBV_WC_RETRY_EXC_ERR);
		settle();
		assert_int_equal(b->state, CONNECT_FAILED);
		assert_true(b->error == -ETIMEDOUT || b->error == -ECANCELED);
		check_over(!i);
	}
}

static void break_at(enum breakage what, unsigned int seed, unsigned int steps)
{
	const int i = seed & 1;
	unsigned int random = seed;
	uint32_t sent[SIDES];

	set_sizes_of_kind(seed % N_SIZES);
	fake_verbs_notify_late(seed & 2);
	connected();
	registered();
	walk(&random, steps);
	sent[CLIENT] = sides[CLIENT].sent;
	sent[SERVICE] = sides[SERVICE].sent;
	break_it(what, i, rand_r(&random));
	walk(&random, 100);
	settle();
	/* the failed call has ended one of the two sockets; if no call failed, nothing may have
	 * changed */
	if (what == CALL_FAILS && fake_verbs_has_failed())
		assert_true(sides[CLIENT].socket->error || sides[SERVICE].socket->error);
	else if (what != CALL_FAILS)
		check_broken(what, i, sent);
	nothing_is_left();
}

static void any_fault_at_any_step(void **state)
{
	enum breakage what;
	unsigned int seed, steps;

	for (what = 0; what < N_BREAKAGES; what++)
		for (seed = 0; seed < 24; seed++)
			for (steps = 0; steps < 150; steps += 7)
				break_at(what, seed, steps);
}

/* Each call to the device fails once while the connection is made. */
static void every_call_may_fail(void **state)
{
	struct inc_err err;
	unsigned int n;
	int ret;

	for (n = 1;; n++) {
		err.msg[0] = '\0';
		fake_verbs_fail_call(n);
		ret = begin_pair(&err);
		if (!fake_verbs_has_failed())
			break;
		assert_int_equal(ret, -ENOMEM);
		assert_ptr_equal(strstr(err.msg, "fake"), err.msg);
		nothing_is_left();
	}
	assert_int_equal(ret, 0);
	assert_true(n > 20);
	nothing_is_left();
}

static void a_failure_before_the_hand_over(void **state)
{
	enum connect_event event;
	struct inc_err err = {""};

	assert_int_equal(begin_pair(&err), 0);
	expect_no_event(CLIENT);
	fake_verbs_give_up(qp_of(CLIENT), IBV_WC_RETRY_EXC_ERR);
	assert_true(readable(CLIENT, 0));
	assert_int_equal(connect_socket_event(sides[CLIENT].socket, &event, &err), -ETIMEDOUT);
	assert_non_null(strstr(err.msg, "fake0/1 to service fake1/1: sending: "));
	nothing_is_left();

	/* the failure comes after the message, and before the socket is handed to its owner */
	assert_int_equal(begin_pair(&err), 0);
	fake_verbs_settle(qp_of(CLIENT));
	fake_verbs_give_up(qp_of(SERVICE), IBV_WC_RETRY_EXC_ERR);
	expect_event(SERVICE, CONNECT_EVENT_MESSAGE);
	connect_socket_hand_over(sides[SERVICE].socket, CONNECT_READY, 1);
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), -ECANCELED);
	check_over(SERVICE);
	nothing_is_left();
}

/* ---- a peer that violates the protocol ------------------------------------------------------ */

static void say(int i, const uint32_t *immediate, uint32_t bytes)
{
	struct ibv_sge sge = {(uintptr_t)sides[i].memory, bytes,
			      inc_connect_region_key(sides[i].region)};
	struct ibv_send_wr wr =
				   {
					   .opcode = IBV_WR_SEND,
					   .sg_list = &sge,
					   .num_sge = bytes ? 1 : 0,
				   },
			   *bad;

	if (immediate) {
		wr.opcode = IBV_WR_SEND_WITH_IMM;
		wr.imm_data = htobe32(*immediate);
	}
	assert_int_equal(ibv_post_send(qp_of(i), &wr, &bad), 0);
}

static void protocol_errors_of_a_peer(void **state)
{
	static const struct {
		uint32_t immediate, bytes;
		const char *text;
	} lies[] = {
		{0x01000001, 0, "an ACK of buffers that it does not have"},
		{0x02000000, 0, "a first message that is not allowed"},
		{0x03000001, 0, "an unknown immediate"},
		{0xff000000, 0, "an unknown immediate"},
		{0x03000000, 5, "data beside an immediate"},
	};
	size_t k;
	int n;

	for (k = 0; k < sizeof(lies) / sizeof(lies[0]); k++) {
		connected();
		registered();
		say(CLIENT, &lies[k].immediate, lies[k].bytes);
		settle();
		assert_int_equal(sides[SERVICE].socket->error, -EPROTO);
		assert_non_null(
			strstr(inc_connect_socket_error(sides[SERVICE].socket), lies[k].text));
		check_over(SERVICE);
		nothing_is_left();
	}
	connected();
	registered();
	for (n = 0; n < 9; n++)
		say(CLIENT, NULL, 1);
	fake_verbs_settle(qp_of(CLIENT));
	assert_int_equal(inc_connect_socket_progress(sides[SERVICE].socket), -EPROTO);
	assert_non_null(strstr(inc_connect_socket_error(sides[SERVICE].socket),
			       "more messages than there are buffers"));
	nothing_is_left();
}

static void a_transfer_without_permission(void **state)
{
	struct inc_connect_transfer t;
	uint64_t ticket;

	connected();
	registered();
	t = (struct inc_connect_transfer){
		.region = sides[CLIENT].region,
		.local = sides[CLIENT].memory,
		.size = 10,
		.remote_key = inc_connect_region_key(sides[SERVICE].region) + 1000,
		.remote_address = inc_connect_region_address(sides[SERVICE].region),
	};
	assert_int_equal(inc_connect_socket_transfer(sides[CLIENT].socket, INC_CONNECT_WRITE, &t, 1,
						     &ticket),
			 0);
	assert_int_equal(inc_connect_socket_transferred(sides[CLIENT].socket, ticket), -EAGAIN);
	settle();
	assert_int_equal(inc_connect_socket_transferred(sides[CLIENT].socket, ticket), -EACCES);
	check_over(CLIENT);
	nothing_is_left();
}

/* ---- time and events ------------------------------------------------------------------------ */

static void wait_for(int i, int error)
{
	const uint64_t by_ns = inc_now_ns() + 20 * INC_NSEC_PER_SEC;
	struct inc_connect_socket *s = sides[i].socket;
	int ret;

	while ((ret = inc_connect_socket_progress(s)) >= 0) {
		assert_true(inc_now_ns() < by_ns);
		if (!ret)
			inc_connect_socket_wait(s, 20000);
	}
	assert_int_equal(ret, error);
	check_over(i);
}

/* A side that receives its peer's close ends at once. Messages that this side has sent are lost. */
static void closes_that_cross(void **state)
{
	struct inc_connect_socket *first, *second;
	const void *data;
	size_t size;

	connected();
	first = sides[CLIENT].socket;
	second = sides[SERVICE].socket;
	assert_int_equal(inc_connect_socket_send(first, "lost", 5), 0);
	assert_int_equal(inc_connect_socket_send(second, "kept", 5), 0);
	assert_int_equal(inc_connect_socket_flush(first), -EAGAIN);
	assert_int_equal(inc_connect_socket_close(first), -EAGAIN);
	assert_int_equal(inc_connect_socket_close(second), -EAGAIN);
	fake_verbs_settle(qp_of(SERVICE));
	assert_int_equal(inc_connect_socket_progress(first), -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_close(first), 0);
	fake_verbs_settle(qp_of(CLIENT));
	assert_int_equal(inc_connect_socket_progress(second), -ESHUTDOWN);
	assert_int_equal(inc_connect_socket_close(second), 0);
	assert_int_equal(inc_connect_socket_receive(first, &data, &size), 0);
	assert_string_equal(data, "kept");
	assert_int_equal(inc_connect_socket_receive(second, &data, &size), -ESHUTDOWN);
	nothing_is_left();
}

static void an_unanswered_close(void **state)
{
	uint64_t start_ns;

	connected();
	start_ns = inc_now_ns();
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), -EAGAIN);
	assert_int_equal(send_one(CLIENT), -ESHUTDOWN);
	wait_for(CLIENT, -ESHUTDOWN);
	assert_true(inc_now_ns() - start_ns >= CONNECT_DRAIN_MS * INC_NSEC_PER_MSEC);
	assert_int_equal(inc_connect_socket_close(sides[CLIENT].socket), 0);
	nothing_is_left();
}

static void tell_port(int i, bool up)
{
	const struct inc_rdma_event event = {
		.kind = up ? INC_RDMA_PORT_UP : INC_RDMA_PORT_WENT_DOWN, .port = 1, .text = "port"};

	inc_rdma_tell(devices[i], &event);
}

static void a_port_that_goes_down(void **state)
{
	struct inc_connect_socket *s;
	uint64_t start_ns;

	connected();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_progress(s), 0);
	tell_port(CLIENT, false);
	assert_int_equal(inc_connect_socket_wait(s, 20000), 0);
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_true(s->port_timer.down_at_ns && !readable(CLIENT, 0));
	tell_port(CLIENT, true);
	assert_true(readable(CLIENT, 0));
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_false(s->port_timer.down_at_ns || s->wake_at_ns || readable(CLIENT, 0));
	start_ns = inc_now_ns();
	tell_port(CLIENT, false);
	wait_for(CLIENT, -ENETDOWN);
	assert_true(inc_now_ns() - start_ns >= CONNECT_PORT_DOWN_MS * INC_NSEC_PER_MSEC);
	assert_non_null(strstr(inc_connect_socket_error(s), "the port is down"));
	nothing_is_left();
}

/* The owner polls rarely. Between two polls the port came up and went down again, so the limit for
 * a port that is down starts anew. */
static void a_port_that_is_down_again(void **state)
{
	struct inc_connect_socket *s;

	connected();
	s = sides[CLIENT].socket;
	tell_port(CLIENT, false);
	while (inc_connect_socket_progress(s) > 0)
		;
	assert_true(s->port_timer.down_at_ns);
	/* pretends that the port went down this long ago */
	s->port_timer.down_at_ns -= CONNECT_PORT_DOWN_MS * INC_NSEC_PER_MSEC;
	tell_port(CLIENT, true);
	tell_port(CLIENT, false);
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_true(s->port_timer.down_at_ns && !readable(CLIENT, 0));
	tell_port(CLIENT, true);
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_int_equal(s->port_timer.down_at_ns, 0);
	nothing_is_left();
}

static void a_port_that_is_down(void **state)
{
	struct inc_err err = {""};

	fake_verbs_port_state(IBV_PORT_DOWN);
	assert_int_equal(make_side(CLIENT, &err), -ENETDOWN);
	assert_string_equal(err.msg, "fake0/1: the port is down");
	nothing_is_left();
}

static void a_spurious_notification(void **state)
{
	struct inc_connect_socket *s;
	int n;

	connected();
	s = sides[CLIENT].socket;
	assert_int_equal(inc_connect_socket_progress(s), 0);
	fake_verbs_notify_of_nothing(s->completions.cq);
	for (n = 0; readable(CLIENT, 0); n++) {
		assert_int_equal(inc_connect_socket_progress(s), 0);
		assert_true(n < 1000);
	}
	assert_int_equal(send_one(SERVICE), 0);
	fake_verbs_settle(qp_of(SERVICE));
	assert_true(readable(CLIENT, 0));
	nothing_is_left();
}

static void a_wait_ends_in_time(void **state)
{
	struct inc_connect_socket *s;

	connected();
	s = sides[CLIENT].socket;
	/* the result is 0, because the owner has not polled yet */
	assert_int_equal(inc_connect_socket_wait(s, -1), 0);
	assert_int_equal(inc_connect_socket_progress(s), 0);
	assert_int_equal(inc_connect_socket_wait(s, 0), -ETIMEDOUT);
	assert_int_equal(inc_connect_socket_wait(s, 10), -ETIMEDOUT);
	assert_int_equal(send_one(SERVICE), 0);
	fake_verbs_settle(qp_of(SERVICE));
	assert_int_equal(inc_connect_socket_wait(s, -1), 0);
	nothing_is_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_failure_before_the_hand_over, reset_fakes),
		cmocka_unit_test_setup(every_call_may_fail, reset_fakes),
		cmocka_unit_test_setup(protocol_errors_of_a_peer, reset_fakes),
		cmocka_unit_test_setup(a_transfer_without_permission, reset_fakes),
		cmocka_unit_test_setup(closes_that_cross, reset_fakes),
		cmocka_unit_test_setup(an_unanswered_close, reset_fakes),
		cmocka_unit_test_setup(a_port_that_goes_down, reset_fakes),
		cmocka_unit_test_setup(a_port_that_is_down_again, reset_fakes),
		cmocka_unit_test_setup(a_port_that_is_down, reset_fakes),
		cmocka_unit_test_setup(a_spurious_notification, reset_fakes),
		cmocka_unit_test_setup(a_wait_ends_in_time, reset_fakes),
		cmocka_unit_test_setup(any_fault_at_any_step, reset_fakes),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("socket ends", tests, open_fakes, close_fakes);
}
