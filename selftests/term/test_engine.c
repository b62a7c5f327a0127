/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * The termination engine as the daemon uses it. The engine's threads work on endpoints without a
 * wire. Meanwhile the test's thread makes and removes communicators, queries them and receives
 * notices.
 */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <unistd.h>
#include <cmocka.h>
#include <event2/event.h>
#include "lib/base/clock.h"
#include "lib/conf/messages.h"
#include "lib/proto/desc.h"
#include "lib/proto/maps.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/channel.h"
#include "userspace/config.h"
#include "userspace/engine.h"
#include "userspace/term/capabilities.h"

#define SUM(seq) INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, seq)
#define PORT     "lo" /* an interface that every namespace has */

const struct inc_channel_ops *const inc_term_kinds[INC_N_ENDPOINT_KINDS] = {
	[INC_ENDPOINT_SOFT] = &fake_channel_ops};

struct stage {
	struct event_base *base;
	struct inc_settings settings;
	struct inc_engine *e;
	uint32_t n_told;
	struct inc_msg_event notice;
};

static void on_notice(void *arg, const struct inc_msg_event *event)
{
	struct stage *s = arg;

	s->n_told++;
	s->notice = *event;
}

static void open_stage(struct stage *s, uint32_t threads)
{
	const struct inc_engine_opts opts = {
		.base = s->base, .settings = &s->settings, .notice = on_notice, .arg = s};
	struct inc_engine_opts now = opts;

	memset(s, 0, sizeof(*s));
	s->base = now.base = event_base_new();
	s->settings.threads = threads;
	s->settings.max_comms = 4;
	s->settings.max_connections = 16;
	assert_true(inc_settings_add_port(&s->settings, PORT));
	inc_settings_complete(&s->settings);
	assert_int_equal(inc_engine_term.open(&now, &s->e, NULL), 0);
	assert_int_equal(s->e->ops->attach_port(s->e, PORT, NULL), 0);
}

static void close_stage(struct stage *s)
{
	struct fake_channels_open left;

	s->e->ops->close(s->e);
	event_base_free(s->base);
	left = fake_channels_open();
	assert_int_equal(left.devices + left.channels + left.maps, 0);
	fake_channel_reset();
}

static struct inc_comm_conf conf_of(uint32_t communicator, uint32_t children)
{
	struct inc_comm_conf conf = {
		.communicator = communicator,
		.mode = INC_TERMINATION,
		.root = true,
		.payload = 4,
		.slots = 2,
		.messages = 2,
		.message_packets = 64,
		.n_conns = children,
	};
	uint32_t i;

	for (i = 0; i < children; i++) {
		struct inc_conn_conf *c = &conf.conn[i];

		strcpy(c->port, PORT);
		c->own.ip = inc_addr_of_ipv4(htonl(INADDR_LOOPBACK));
		c->rank = i;
		c->peer.qpn = 77 + i;
		c->peer.udp_port = 5000 + i;
	}
	return conf;
}

static void add(struct stage *s, struct inc_comm_conf *conf)
{
	struct inc_err err = {};

	if (s->e->ops->add_comm(s->e, conf, &err) ||
	    s->e->ops->start_comm(s->e, conf->communicator, &err))
		fail_msg("%s", err.msg);
}

static bool until(bool (*is_so)(void *arg), void *arg)
{
	const uint64_t end_ns = inc_now_ns() + 20 * INC_NSEC_PER_SEC;

	while (!is_so(arg)) {
		if (inc_now_ns() > end_ns)
			return false;
		usleep(200);
	}
	return true;
}

struct taken {
	uint32_t qpn;
	struct fake_channel_message m;
};

static bool take(void *arg)
{
	struct taken *t = arg;

	return fake_channel_take(t->qpn, &t->m);
}

/* Plays a whole collective, which has one message. */
static void exchange(const struct inc_comm_conf *conf, uint32_t number)
{
	struct fake_channel_message m = {.length = 4, .has_imm = true, .imm = SUM(number)};
	int32_t want = 0, value;
	struct taken t;
	uint32_t i;

	for (i = 0; i < conf->n_conns; i++) {
		value = (int32_t)(conf->communicator * 100 + i * 10 + number);
		want += value;
		memcpy(m.bytes, &value, sizeof(value));
		assert_true(fake_channel_give(conf->conn[i].own.qpn, &m));
	}
	for (i = 0; i < conf->n_conns; i++) {
		t.qpn = conf->conn[i].own.qpn;
		assert_true(until(take, &t));
		memcpy(&value, t.m.bytes, sizeof(value));
		assert_int_equal(value, want);
		assert_true(fake_channel_acknowledge(t.qpn));
	}
}

static bool has_told(void *arg)
{
	struct stage *s = arg;

	event_base_loop(s->base, EVLOOP_NONBLOCK);
	return s->n_told;
}

struct acknowledged {
	struct stage *s;
	uint32_t place;
	uint64_t n;
};

static bool all_acknowledged(void *arg)
{
	const struct acknowledged *a = arg;
	const struct inc_engine *e = a->s->e;
	struct inc_engine_comm comm;
	struct inc_engine_conn conn;
	uint32_t i;

	assert_true(e->ops->comm(e, a->place, &comm));
	for (i = 0; i < comm.connections; i++) {
		e->ops->conn(e, a->place, i, &conn);
		if (conn.acknowledged != a->n)
			return false;
	}
	return true;
}

/* --------------------------------------------------------------------------------------------- */

/* Makes and removes communicators while others work. */
static void come_and_go(uint32_t threads)
{
	struct inc_comm_conf conf[3];
	struct acknowledged a;
	struct stage s;
	uint32_t i, r;

	open_stage(&s, threads);
	a.s = &s;
	for (i = 0; i < 3; i++) {
		conf[i] = conf_of(10 + i, 2 + i);
		add(&s, &conf[i]);
	}
	for (r = 0; r < 40; r++) {
		for (i = 0; i < 3; i++) {
			exchange(&conf[i], r);
			a.place = s.e->ops->find(s.e, 10 + i);
			a.n = (i == 1 ? r % 5 : r) + 1;
			assert_true(until(all_acknowledged, &a));
		}
		if (r % 5 == 4) {
			assert_int_equal(s.e->ops->remove_comm(s.e, 11, NULL), 0);
			assert_int_equal(s.e->ops->find(s.e, 11), -ENOENT);
			conf[1] = conf_of(11, 3);
			add(&s, &conf[1]);
		}
	}
	assert_int_equal(s.n_told, 0);
	close_stage(&s);
}

static void test_one_thread(void **state)
{
	come_and_go(1);
}

static void test_three_threads(void **state)
{
	come_and_go(3);
}

/* A worker's notices arrive on the test's thread, unless their communicator has been removed. */
static void test_notices(void **state)
{
	struct inc_comm_conf conf = conf_of(10, 3);
	struct inc_engine_comm comm;
	struct stage s;
	uint32_t i;

	open_stage(&s, 1);
	add(&s, &conf);
	fake_channel_lose(conf.conn[1].own.qpn, INC_CHANNEL_SILENT);
	assert_true(until(has_told, &s));
	assert_int_equal(s.n_told, 1);
	assert_string_equal(inc_event_info[s.notice.kind].name, "unresponsive");
	assert_int_equal(s.notice.communicator, 10);
	assert_int_equal(s.notice.n_ranks, 1);
	assert_int_equal(s.notice.ranks[0], 1);
	assert_string_equal(s.notice.message,
			    "rank 1 has not acknowledged message 0: the test has broken it");
	assert_true(s.e->ops->comm(s.e, 0, &comm));
	assert_true(comm.ended);
	for (i = 0; i < 3; i++)
		assert_int_equal(fake_channel_state(conf.conn[i].own.qpn).told,
				 INC_AETH_NAK_OPERATION);
	conf = conf_of(11, 2);
	add(&s, &conf);
	fake_channel_lose(conf.conn[0].own.qpn, INC_CHANNEL_SILENT);
	do
		assert_true(s.e->ops->comm(s.e, 1, &comm));
	while (!comm.ended);
	assert_int_equal(s.e->ops->remove_comm(s.e, 11, NULL), 0);
	event_base_loop(s.base, EVLOOP_NONBLOCK);
	assert_int_equal(s.n_told, 1);
	close_stage(&s);
}

static void check_refused(struct stage *s, struct inc_comm_conf *conf, int code, const char *text)
{
	struct inc_err err = {};

	assert_int_equal(s->e->ops->add_comm(s->e, conf, &err), code);
	if (!strstr(err.msg, text))
		fail_msg("'%s' is not in: %s", text, err.msg);
}

static void test_room(void **state)
{
	struct inc_comm_conf conf;
	struct inc_engine_usage u;
	struct stage s;
	uint32_t i;

	open_stage(&s, 1);
	conf = conf_of(9, 2);
	strcpy(conf.conn[1].port, "eth7");
	check_refused(&s, &conf, -ENODEV, "eth7 is not a port");
	conf = conf_of(9, 1);
	conf.messages = 4096;
	conf.message_packets = 1024;
	conf.payload = 1024;
	check_refused(&s, &conf, -E2BIG, "more than a connection's");
	for (i = 0; i < 3; i++) {
		conf = conf_of(i, 5);
		add(&s, &conf);
	}
	conf = conf_of(9, 2);
	check_refused(&s, &conf, -ENOSPC, "1 of 16 are free");
	conf = conf_of(3, 1);
	add(&s, &conf);
	conf = conf_of(9, 1);
	check_refused(&s, &conf, -ENOSPC, "all 4 communicators");
	s.e->ops->usage(s.e, &u);
	assert_int_equal(u.communicators, 4);
	assert_int_equal(u.communicators_limit, 4);
	assert_int_equal(u.connections, 16);
	assert_int_equal(u.connections_limit, 16);
	close_stage(&s);
}

/* If the interface of a port was renamed, new communicators use its new name. */
static void test_renamed_port(void **state)
{
	struct inc_engine_port port = {.name = "eth7", .given = PORT, .condition = INC_PORT_UP};
	struct inc_comm_conf old = conf_of(1, 2), conf = conf_of(9, 2);
	struct inc_engine_comm comm;
	struct inc_engine_conn conn;
	struct stage s;
	uint32_t i;

	open_stage(&s, 1);
	add(&s, &old);
	assert_false(s.e->ops->check_port(s.e, 0, NULL, &port));
	assert_true(s.e->ops->comm(s.e, 0, &comm));
	for (i = 0; i < 2; i++) {
		s.e->ops->conn(s.e, 0, i, &conn);
		assert_string_equal(conn.port, "eth7");
	}
	for (i = 0; i < 2; i++)
		strcpy(conf.conn[i].port, "eth7");
	add(&s, &conf);
	conf = conf_of(10, 2);
	check_refused(&s, &conf, -ENODEV, PORT " is not a port");
	close_stage(&s);
}

/* If a connection breaks while the switch's own port is not up, the report names the port and no
 * rank. */
static void test_cut_by_port(void **state)
{
	static const enum inc_channel_reason reasons[] = {INC_CHANNEL_CUT, INC_CHANNEL_SILENT};
	struct inc_engine_port port = {
		.name = PORT, .given = PORT, .condition = INC_PORT_DOWN, .reason = "it is down"};
	struct inc_comm_conf conf;
	struct stage s;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		open_stage(&s, 1);
		conf = conf_of(10, 3);
		add(&s, &conf);
		assert_false(s.e->ops->check_port(s.e, 0, NULL, &port));
		fake_channel_lose(conf.conn[1].own.qpn, reasons[i]);
		assert_true(until(has_told, &s));
		assert_string_equal(inc_event_info[s.notice.kind].name, "port_lost");
		assert_int_equal(s.notice.communicator, 10);
		assert_int_equal(s.notice.n_ranks, 0);
		assert_string_equal(s.notice.message, "it is down: the test has broken it");
		close_stage(&s);
	}
}

/* A communicator that names a UDP port of one thread is given to that thread. Other communicators
 * are spread over the threads. */
static void test_threads_and_ports(void **state)
{
	struct inc_comm_conf conf[4];
	struct stage s;
	uint32_t i;

	open_stage(&s, 2);
	for (i = 0; i < 4; i++) {
		conf[i] = conf_of(i, 2);
		if (i == 2)
			conf[i].conn[0].own.udp_port = conf[i].conn[1].own.udp_port =
				conf[0].conn[0].own.udp_port;
		add(&s, &conf[i]);
	}
	assert_int_equal(fake_channel_state(conf[2].conn[0].own.qpn).device,
			 fake_channel_state(conf[0].conn[0].own.qpn).device);
	assert_int_not_equal(fake_channel_state(conf[1].conn[0].own.qpn).device,
			     fake_channel_state(conf[0].conn[0].own.qpn).device);
	assert_int_equal(fake_channel_state(conf[3].conn[0].own.qpn).device,
			 fake_channel_state(conf[1].conn[0].own.qpn).device);
	assert_int_equal(fake_channels_open().devices, 2);
	close_stage(&s);
}

static uint64_t counter(const struct stage *s, const char *name)
{
	struct inc_engine_counters c;
	size_t i;

	assert_int_equal(s->e->ops->counters(s->e, &c, NULL), 0);
	assert_true(c.balanced);
	for (i = 0; i < c.n; i++)
		if (!strcmp(c.counter[i].name, name))
			return c.counter[i].value;
	fail_msg("no counter %s", name);
	return 0;
}

static void test_counters(void **state)
{
	struct inc_comm_conf conf = conf_of(10, 2);
	struct acknowledged a;
	struct stage s;
	json_t *status = json_object(), *own;

	open_stage(&s, 2);
	add(&s, &conf);
	exchange(&conf, 0);
	exchange(&conf, 1);
	a = (struct acknowledged){&s, 0, 2};
	assert_true(until(all_acknowledged, &a));
	assert_int_equal(counter(&s, "rx"), 4);
	assert_int_equal(counter(&s, "copies_sent"), 4);
	assert_int_equal(counter(&s, "absorbed_stored"), 2);
	assert_int_equal(counter(&s, "multicast_result"), 2);
	assert_int_equal(counter(&s, "reduced_bytes"), 16);
	assert_int_equal(counter(&s, "term_strangers"), 1);
	assert_int_equal(counter(&s, "term_damaged"), 2);
	s.e->ops->tell_status(s.e, status);
	own = json_object_get(status, "termination");
	assert_int_equal(json_integer_value(json_object_get(own, "threads")), 2);
	assert_true(json_integer_value(json_object_get(own, "buffer_bytes")) >= 2 * 4 * 256);
	assert_true(json_is_string(json_object_get(own, "kernels")));
	json_decref(status);
	/* the engine's counters survive the communicator */
	assert_int_equal(s.e->ops->remove_comm(s.e, 10, NULL), 0);
	assert_int_equal(fake_channels_open().devices, 0);
	assert_int_equal(counter(&s, "rx"), 4);
	assert_int_equal(counter(&s, "term_damaged"), 2);
	close_stage(&s);
}

static void test_offer(void **state)
{
	struct inc_msg_engine *said = test_calloc(1, sizeof(*said));
	struct inc_settings settings = {.n_ports = 1, .port = {PORT}};
	struct inc_engine_opts opts = {.settings = &settings};
	uint32_t i, floats = 0;

	inc_settings_complete(&settings);
	assert_int_equal(inc_engine_term.offer(&opts, said, NULL), 0);
	assert_int_equal(said->limits.children, INC_COMM_MAX_CHILDREN);
	assert_int_equal(said->n_endpoints, 1);
	assert_string_equal(said->endpoints[0].port, PORT);
	assert_string_equal(said->endpoints[0].device, "channels of " PORT);
	assert_int_equal(said->endpoints[0].payload, 1024);
	assert_true(said->set[0]);
	for (i = 0; i < said->kernels[INC_OPERATOR_SUM].n_types; i++)
		floats += said->kernels[INC_OPERATOR_SUM].types[i] == INC_DTYPE_FLOAT32;
	assert_int_equal(floats, 1);
	memset(said, 0, sizeof(*said));
	strcpy(settings.port[0], "eth7");
	assert_int_equal(inc_engine_term.offer(&opts, said, NULL), -EOPNOTSUPP);
	test_free(said);
}

/* The solicited event bit of a partial sum shows its byte order. The switch sets that bit in its
 * own partial sums, and checks it in those of switches below. Messages of hosts may have the bit or
 * not, because the controller has informed hosts of the order. */
static void test_byte_order(void **state)
{
	struct stage s;
	uint32_t network, i;

	for (network = 0; network < 2; network++) {
		struct inc_comm_conf conf = conf_of(1, 3);

		conf.root = false;
		conf.byte_order = network ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
		conf.conn[1].has_ranks = true;
		inc_ranks_add(&conf.conn[1].ranks, conf.conn[1].rank);
		conf.conn[2].up = true;
		open_stage(&s, 1);
		add(&s, &conf);
		for (i = 0; i < 3; i++) {
			const struct fake_channel_state ch =
				fake_channel_state(conf.conn[i].own.qpn);

			assert_int_equal(ch.peer.is_switch, i > 0);
			assert_int_equal(ch.opts.se, network && i == 2);
			assert_int_equal(ch.opts.peer_se, i != 1    ? INC_CHANNEL_SE_ANY
							  : network ? INC_CHANNEL_SE_HAS
								    : INC_CHANNEL_SE_LACKS);
		}
		close_stage(&s);
	}
}

/* A counter that both engines have must have the same name and class in both, because the daemon
 * adds such counters up by name. */
static void test_counters_names(void **state)
{
#define _(ID, name, class, text) {#name, class},
	static const struct {
		const char *name;
		char class;
	} xdp[] = {INC_COUNTERS(_)};
#undef _
	struct inc_engine_counters c = {};
	struct stage s;
	size_t i, k;

	open_stage(&s, 1);
	s.e->ops->counters(s.e, &c, NULL);
	assert_true(c.n > 10);
	for (i = 0; i < c.n; i++) {
		if (!strncmp(c.counter[i].name, "term_", 5))
			continue;
		for (k = 0; k < INC_CTR_MAX && strcmp(xdp[k].name, c.counter[i].name) != 0; k++)
			;
		if (k == INC_CTR_MAX || xdp[k].class != c.counter[i].class)
			fail_msg("%s is none of INC_COUNTERS", c.counter[i].name);
	}
	close_stage(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread),        cmocka_unit_test(test_three_threads),
		cmocka_unit_test(test_notices),           cmocka_unit_test(test_room),
		cmocka_unit_test(test_renamed_port),      cmocka_unit_test(test_cut_by_port),
		cmocka_unit_test(test_threads_and_ports), cmocka_unit_test(test_counters),
		cmocka_unit_test(test_counters_names),    cmocka_unit_test(test_offer),
		cmocka_unit_test(test_byte_order),
	};

	return cmocka_run_group_tests_name("term engine", tests, NULL, NULL);
}
