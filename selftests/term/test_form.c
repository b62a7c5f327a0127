/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A communicator's configuration determines the form of its elements, which are byte order and form
 * of floats, and the settings of its queue pairs. Some peers have another form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include "selftests/fakes/channel.h"
#include "selftests/term/fixture_comm.h"

#define OF(coll, dtype) INC_DESC(INC_COLL_##coll, INC_OPERATOR_SUM, dtype, 0, 0)
#define NATIVE(type)    (INC_DTYPE_NATIVE + INC_DTYPE_##type - INC_DTYPE_FLOAT32)

/* The engine adds elements in the byte order and form of the communicator's configuration. */
static void add_up(uint32_t byte_order, uint32_t floats, uint32_t dtype, const void *each,
		   const void *twice)
{
	const uint32_t imm = OF(ALLREDUCE, dtype);
	struct fake_channel_message m = {.length = 4, .has_imm = true, .imm = imm};
	struct comm_fixture fx;
	uint32_t i;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, false);
	fx.conf.byte_order = byte_order;
	fx.conf.floats = floats;
	fx.n = 2;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
	memcpy(m.bytes, each, 4);
	for (i = 0; i < 2; i++)
		assert_true(fake_channel_give(comm_qpn(&fx, i), &m));
	comm_turn(&fx);
	assert_true(fake_channel_take(comm_qpn(&fx, 1), &m));
	assert_memory_equal(m.bytes, twice, 4);
	assert_int_equal(m.imm, imm);
	comm_close(&fx);
}

static void test_form(void **state)
{
	static const uint8_t little[] = {0xff, 0x80, 0, 0}, little_sum[] = {0xfe, 0x01, 0x01, 0};
	static const uint8_t big[] = {0, 0, 0x80, 0xff}, big_sum[] = {0, 1, 1, 0xfe};
	static const float each = 1.5f, sum = 3.0f;
	uint32_t bits, bits_sum;

	add_up(INC_ORDER_LITTLE, INC_FLOATS_FIXED, INC_DTYPE_INT32, little, little_sum);
	add_up(INC_ORDER_NETWORK, INC_FLOATS_FIXED, INC_DTYPE_INT32, big, big_sum);
	add_up(INC_ORDER_LITTLE, INC_FLOATS_NATIVE, NATIVE(FLOAT32), &each, &sum);
	add_up(INC_ORDER_LITTLE, INC_FLOATS_NATIVE, INC_DTYPE_INT32, little, little_sum);
	memcpy(&bits, &each, sizeof(bits));
	bits_sum = 2 * bits;
	add_up(INC_ORDER_LITTLE, INC_FLOATS_FIXED, INC_DTYPE_FLOAT32, &bits, &bits_sum);
}

/* The child of rank 0 uses another form of floats than this switch. The switch must add nothing,
 * and report the reason. text: the expected report; NULL: the form is right, so there is no
 * report. */
static void meet(uint32_t floats, uint32_t imm, uint32_t length, const char *text)
{
	struct fake_channel_message m = {.length = length, .has_imm = true, .imm = imm};
	struct comm_fixture fx;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, false);
	fx.conf.floats = floats;
	fx.n = 2;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
	assert_true(fake_channel_give(comm_qpn(&fx, 1), &m));
	comm_turn(&fx);
	assert_int_equal(fx.n_told, text != NULL);
	assert_false(fake_channel_take(comm_qpn(&fx, 0), &m));
	if (text) {
		assert_string_equal(inc_event_info[fx.report.kind].name, "connection_error");
		assert_int_equal(fx.report.n_ranks, 1);
		assert_string_equal(fx.report.message, text);
	}
	comm_close(&fx);
}

static void test_other_form(void **state)
{
#define WRONG "rank 0 sent an invalid request as message 0"
#define THERE \
	": floats are to be added as they are there, and as integers that are made of them here"
#define HERE \
	": floats are to be added as integers that are made of them there, and as they are here"
	for (uint32_t type = 0; type < INC_N_NATIVES; type++) {
		const uint32_t integer = INC_DTYPE_FLOAT32 + type, native = INC_DTYPE_NATIVE + type;

		meet(INC_FLOATS_FIXED, OF(ALLREDUCE, native), 8, WRONG THERE);
		meet(INC_FLOATS_NATIVE, OF(ALLREDUCE, integer), 8, WRONG HERE);
		meet(INC_FLOATS_NATIVE, OF(REDUCE, integer), 0, WRONG HERE);
		/* a collective that only forwards floats does not depend on the form of floats */
		meet(INC_FLOATS_NATIVE, OF(BROADCAST, integer), 0, NULL);
		meet(INC_FLOATS_FIXED, OF(BROADCAST, integer), 0, NULL);
		meet(INC_FLOATS_NATIVE, OF(BROADCAST, native), 0, WRONG);
		/* a Broadcast adds nothing and so has no form, which makes this type invalid */
		meet(INC_FLOATS_FIXED, OF(BROADCAST, native), 0, WRONG);
		meet(INC_FLOATS_FIXED, OF(ALL_GATHER, native), 0, WRONG);
		meet(INC_FLOATS_FIXED, OF(BARRIER, native), 0, WRONG);
	}
	meet(INC_FLOATS_NATIVE, OF(ALLREDUCE, INC_DTYPE_FIXED), 4, NULL);
	meet(INC_FLOATS_FIXED, OF(ALLREDUCE, INC_DTYPE_FIXED), 4, NULL);
#undef HERE
#undef THERE
#undef WRONG
}

/* The parent answers a sum of floats in the other form, and at the same time a child sends its next
 * message in the other form. There is one report, and no buffer is left behind. */
static void answer(uint32_t floats, uint32_t mine, uint32_t other)
{
	struct fake_channel_message m = {.length = 8, .has_imm = true, .imm = OF(ALLREDUCE, mine)};
	struct comm_fixture fx;
	uint32_t i;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, true);
	fx.conf.floats = floats;
	fx.n = 3;
	fx.has_parent = true;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
	for (i = 0; i < fx.n; i++)
		if (!comm_is_parent(&fx, i))
			assert_true(fake_channel_give(comm_qpn(&fx, i), &m));
	comm_turn(&fx);
	m.imm = OF(ALLREDUCE, other);
	for (i = 0; i < fx.n; i++)
		assert_true(fake_channel_give(comm_qpn(&fx, i), &m));
	comm_turn(&fx);
	assert_int_equal(fx.n_told, 1);
	assert_non_null(strstr(fx.report.message, "floats are to be added"));
	comm_close(&fx);
}

static void test_other_answer(void **state)
{
	for (uint32_t type = 0; type < INC_N_NATIVES; type++) {
		const uint32_t integer = INC_DTYPE_FLOAT32 + type, native = INC_DTYPE_NATIVE + type;

		answer(INC_FLOATS_NATIVE, native, integer);
		answer(INC_FLOATS_FIXED, integer, native);
	}
}

/* The channel of each end gets the settings that its connection has, to a host or to a switch, and
 * otherwise those of a switch. A query shows them. */
static void test_settings(void **state)
{
	static const struct inc_verbs_conf given = {.timeout = 14,
						    .has_timeout = true,
						    .rnr_retry = 3,
						    .has_rnr_retry = true,
						    .traffic_class = 104,
						    .has_traffic_class = true};
	struct inc_channel_verbs_settings want = inc_channel_verbs_of_switch;
	struct fake_channel_state ch;
	struct inc_term_view *view;
	struct comm_fixture fx;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, true);
	fx.conf.conn[0].verbs = fx.conf.conn[2].verbs = given;
	fx.conf.conn[0].has_verbs = fx.conf.conn[2].has_verbs = true;
	fx.n = 3;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	ch = fake_channel_state(fx.conf.conn[1].own.qpn);
	assert_memory_equal(&ch.verbs, &want, sizeof(want));
	want.timeout = 14;
	want.rnr_retry = 3;
	want.traffic_class = 104;
	for (uint32_t i = 0; i <= 2; i += 2) {
		ch = fake_channel_state(fx.conf.conn[i].own.qpn);
		assert_memory_equal(&ch.verbs, &want, sizeof(want));
	}
	/* the view has the children by their ranks, and here connection 1 has rank 0 */
	view = comm_view(&fx);
	assert_false(inc_verbs_conf_any(&view->conn[0].verbs));
	assert_memory_equal(&view->conn[1].verbs, &given, sizeof(given));
	assert_memory_equal(&view->conn[2].verbs, &given, sizeof(given));
	comm_close(&fx);
}

/* Packets to a child have the class of the child's packets, without a mark of congestion, or the
 * configured class. Partial sums have the class of the first child. */
static void test_class(void **state)
{
	static const uint8_t given[] = {26 << 2, 10 << 2 | 3, 46 << 2 | 1};
	static const uint8_t want[] = {26 << 2, 10 << 2 | 2, 8 << 2};
	struct fake_channel_message m = {
		.length = 4, .has_imm = true, .imm = OF(ALLREDUCE, INC_DTYPE_INT32)};
	struct comm_fixture fx;
	uint32_t i, fixed;

	for (fixed = 0; fixed < 2; fixed++) {
		comm_open_worker(&fx);
		fx.conf = comm_conf(3, 2, true);
		for (i = 0; i <= 3; i++) {
			const struct inc_conn_conf *conn = &fx.conf.conn[i];

			if (conn->up ? !fixed : conn->rank != 2)
				continue;
			fx.conf.conn[i].verbs.traffic_class = 8 << 2;
			fx.conf.conn[i].verbs.has_traffic_class = true;
			fx.conf.conn[i].has_verbs = true;
		}
		fx.n = 4;
		fx.has_parent = true;
		assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
		assert_int_equal(inc_term_worker_start_comm(fx.w, fx.cm, NULL), 0);
		for (i = 0; i <= 3; i++) {
			if (comm_is_parent(&fx, i))
				continue;
			m.tos = given[fx.conf.conn[i].rank];
			assert_true(fake_channel_give(comm_qpn(&fx, i), &m));
		}
		comm_turn(&fx);
		for (i = 0; i <= 3; i++)
			assert_int_equal(fake_channel_state(comm_qpn(&fx, i)).verbs.traffic_class,
					 comm_is_parent(&fx, i) ? (fixed ? 8 << 2 : want[0])
								: want[fx.conf.conn[i].rank]);
		comm_close(&fx);
	}
}

/* A host that is not in the partition of the port's P_Key is refused, because devices would drop
 * the packets without a report. Another switch has a setting of its own, which is not known here.
 */
static void test_partition(void **state)
{
	struct comm_fixture fx;
	struct inc_err err;

	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, true);
	fx.n = 3;
	for (uint32_t i = 0; i < fx.n; i++) {
		fx.conf.conn[i].verbs.pkey_index = FAKE_CHANNEL_PKEY_INDEX;
		fx.conf.conn[i].verbs.has_pkey_index = fx.conf.conn[i].has_verbs = true;
		fx.conf.conn[i].pkey =
			i == 2 ? INC_PKEY_DEFAULT : FAKE_CHANNEL_PKEY & INC_PKEY_BITS;
	}
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, NULL), 0);
	comm_close(&fx);
	comm_open_worker(&fx);
	fx.conf = comm_conf(2, 2, true);
	fx.conf.conn[1].verbs.pkey_index = FAKE_CHANNEL_PKEY_INDEX;
	fx.conf.conn[1].verbs.has_pkey_index = fx.conf.conn[1].has_verbs = true;
	assert_int_equal(inc_term_worker_add(fx.w, &fx.conf, &fx.cm, &err), -EINVAL);
	assert_string_equal(err.msg,
			    "communicator 12, rank 0, port p0: pkey_index 1 is the P_Key "
			    "0x8001, and the host has 0xffff: change pkey_index of the host "
			    "(INCCL_VERBS) or of this port");
	comm_close(&fx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_form),         cmocka_unit_test(test_other_form),
		cmocka_unit_test(test_other_answer), cmocka_unit_test(test_settings),
		cmocka_unit_test(test_class),        cmocka_unit_test(test_partition),
	};

	return cmocka_run_group_tests_name("term form", tests, NULL, NULL);
}
