/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The form of a communicator's elements: byte order and form of floats. Some peers have another
 * form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_form),
		cmocka_unit_test(test_other_form),
		cmocka_unit_test(test_other_answer),
	};

	return cmocka_run_group_tests_name("term form", tests, NULL, NULL);
}
