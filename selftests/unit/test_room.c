// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* Communicators for which a switch has no room. The error must name the full resource, how much of
 * it is wanted and free, and which communicators use it. The switch has no programs, because the
 * test only makes the plan and takes its resources. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include "loader/inc_comm_plan.h"
#include "loader/inc_loader_priv.h"

#define COMMS       4
#define CONNECTIONS 8
#define ROWS        64
#define SLOTS       16

struct room {
	struct inc_switch sw;
	struct inc_comm_cfg comm[COMMS];
	struct inc_conn_cfg conn[CONNECTIONS];
};

static int setup(void **state)
{
	struct room *room = test_calloc(1, sizeof(*room));

	room->sw = (struct inc_switch){
		.opts = {.max_comms = COMMS, .max_connections = CONNECTIONS, .max_rows = ROWS},
		.sum_rows = SLOTS,
		.comm = room->comm,
		.conn = room->conn,
	};
	*state = room;
	return 0;
}

static int teardown(void **state)
{
	test_free(*state);
	return 0;
}

/* Makes a configuration with the ranks from first to first + children - 1. */
static struct inc_comm_conf conf_of(uint32_t communicator, uint32_t children, uint32_t slots,
				    uint32_t first)
{
	struct inc_comm_conf conf = {.communicator = communicator,
				     .root = true,
				     .payload = INC_MIN_PAYLOAD,
				     .slots = slots,
				     .n_conns = children};
	uint32_t i;

	for (i = 0; i < children; i++)
		conf.conn[i] = (struct inc_conn_conf){
			.rank = first + i,
			.port = "lo",
			.own.ip = inc_addr_of_ipv4(htonl(0x0a4d00fe)),
			.own_mac = {2, 0, 0, 0, 0, 1},
			.own.qpn = 0x1000 * communicator + i,
			.peer.ip = inc_addr_of_ipv4(htonl(0x0a4d0001)),
			.peer.qpn = 0x1000,
			.pkey = INC_PKEY_DEFAULT,
		};
	return conf;
}

static int place(struct room *room, const struct inc_comm_conf *conf, struct inc_err *err)
{
	struct inc_comm_build b = {};
	int ret = inc_comm_plan(&room->sw, conf, &b, err);

	if (ret)
		return ret;
	room->comm[b.comm] = b.cfg;
	memcpy(&room->conn[b.cfg.conn_base], b.conn, conf->n_conns * sizeof(b.conn[0]));
	return 0;
}

static void fits(struct room *room, uint32_t communicator, uint32_t children, uint32_t slots)
{
	const struct inc_comm_conf conf = conf_of(communicator, children, slots, 0);
	struct inc_err err = {};

	if (place(room, &conf, &err))
		fail_msg("%s", err.msg);
}

static void refused(struct room *room, const struct inc_comm_conf *conf, const char *why)
{
	struct inc_err err = {};

	assert_int_equal(place(room, conf, &err), -ENOSPC);
	assert_string_equal(err.msg, why);
}

static void take_away(struct room *room, uint32_t communicator)
{
	int place = inc_switch_find_comm(&room->sw, communicator);

	assert_true(place >= 0);
	room->comm[place] = (struct inc_comm_cfg){};
}

static void connections_full(void **state)
{
	const struct inc_comm_conf more = conf_of(3, 2, 1, 0);

	fits(*state, 1, 4, 1);
	fits(*state, 2, 3, 1);
	refused(*state, &more,
		"communicator 3: 2 connections are wanted, 1 of 8 are free; communicator 1 holds "
		"most, 4");
	take_away(*state, 2);
	fits(*state, 3, 2, 1);
}

static void connections_apart(void **state)
{
	const struct inc_comm_conf more = conf_of(4, 4, 1, 0);

	fits(*state, 1, 3, 1);
	fits(*state, 2, 2, 1);
	fits(*state, 3, 3, 1);
	take_away(*state, 1);
	take_away(*state, 3);
	refused(*state, &more,
		"communicator 4: 4 connections are wanted, 6 of 8 are free, but at most 3 of them "
		"in a row; communicator 2 holds most, 2");
}

static void rows_full(void **state)
{
	const struct inc_comm_conf more = conf_of(2, 2, 16, 0);

	fits(*state, 1, 5, 8);
	fits(*state, 3, 1, 4);
	refused(*state, &more,
		"communicator 2: 32 contribution rows are wanted, 20 of 64 are free; communicator "
		"1 holds most, 40");
}

static void slots_full(void **state)
{
	const struct inc_comm_conf more = conf_of(2, 1, 16, 0);

	fits(*state, 7, 1, 8);
	refused(*state, &more,
		"communicator 2: 16 slots are wanted, 8 of 16 are free; communicator 7 holds most, "
		"8");
}

/* The highest rank determines the number of rows: 4 rows for each of 4 communicators, and 64
 * more. */
static void ranks_full(void **state)
{
	const struct inc_comm_conf first = conf_of(1, 1, 1, INC_MAX_RANKS - 1);
	const struct inc_comm_conf more = conf_of(2, 1, 1, INC_MAX_RANKS - 1);
	struct inc_err err = {};

	assert_int_equal(place(*state, &first, &err), 0);
	refused(*state, &more,
		"communicator 2: 64 rows of ranks are wanted, 16 of 80 are free; communicator 1 "
		"holds most, 64");
}

static void communicators_full(void **state)
{
	const struct inc_comm_conf more = conf_of(5, 1, 1, 0);

	for (uint32_t i = 1; i <= COMMS; i++)
		fits(*state, i, 1, 1);
	refused(*state, &more, "communicator 5: all 4 places for communicators are in use");
}

/* If the switch has never had room for the request, the error does not blame other
 * communicators. */
static void never_fits(void **state)
{
	const struct inc_comm_conf conf = conf_of(1, 9, 1, 0);

	refused(*state, &conf, "communicator 1: 9 connections are wanted, 8 of 8 are free");
}

static void usage(void **state)
{
	const struct inc_comm_conf high = conf_of(2, 1, 4, 200);
	struct room *room = *state;
	struct inc_err err = {};
	struct inc_usage u;

	fits(room, 1, 3, 8);
	assert_int_equal(place(room, &high, &err), 0);
	inc_switch_usage(&room->sw, &u);
	assert_int_equal(u.communicators.used, 2);
	assert_int_equal(u.communicators.max, COMMS);
	assert_int_equal(u.connections.used, 4);
	assert_int_equal(u.connections.max, CONNECTIONS);
	assert_int_equal(u.rows.used, 3 * 8 + 4);
	assert_int_equal(u.rows.max, ROWS);
	assert_int_equal(u.slots.used, 12);
	assert_int_equal(u.slots.max, SLOTS);
	assert_int_equal(u.root_rows.used, 1 + 200 / INC_ROOTS_PER_ROW + 1);
	assert_int_equal(u.root_rows.max, inc_switch_root_rows(COMMS));
}

#define CASE(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(connections_full), CASE(connections_apart),
		CASE(rows_full),        CASE(slots_full),
		CASE(ranks_full),       CASE(communicators_full),
		CASE(never_fits),       CASE(usage),
	};

	return cmocka_run_group_tests_name("room", tests, NULL, NULL) ? 1 : 0;
}
