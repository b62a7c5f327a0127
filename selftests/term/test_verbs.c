/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels on simulated RDMA devices (selftests/fakes/verbs.h). One end is mirrored, as on a host:
 * each of its messages has a result. The other end is posted, as on a switch: it sends each message
 * back as the result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/channel/verbs_priv.h"
#include "lib/proto/roce.h"
#include "selftests/fakes/verbs.h"

#define HOST_IP   0x0a4e0001 /* IP address of the device fake0 */
#define SWITCH_IP 0x0a4e0101 /* IP address of the device fake1 */
#define PAYLOAD   1024
#define BYTES     (2 * PAYLOAD)
#define MESSAGES  24
/* number of messages in the window; the switch may post a receive again only after the next window
 * has begun */
#define WINDOW   12
#define HOST_PSN 0xfffff0
#define OWN_PSN  77
#define LIMIT_NS (20 * INC_NSEC_PER_SEC)

/* One end of the connection: its device and its channel. */
struct end {
	struct inc_channel_device *dev;
	struct inc_channel *ch;
	struct inc_channel_own own;
	struct inc_channel_region region;
	uint8_t data[MESSAGES][BYTES];
	bool echoes; /* this end sends each message back */
	/* settings of the channel; NULL: those of the device */
	const struct inc_channel_verbs_settings *settings;
	uint64_t n_messages, n_sent, n_lost;
	/* buffers of the messages that are being sent back, with the numbers n_sent to
	 * n_messages */
	void *back[MESSAGES];
	struct inc_channel_loss loss;
	bool shut_at_sent;
};

static const struct inc_channel_ops *const ops = &inc_channel_verbs;

static void shut(struct end *e)
{
	if (e->ch)
		ops->shut(e->ch, INC_AETH_NAK_OPERATION);
	e->ch = NULL;
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct end *e = ctx;

	if (e->echoes) {
		e->back[e->n_messages % MESSAGES] = m->buffer;
		ops->send(e->ch, m->length ? m->buffer : NULL, m->length, m->has_imm, m->imm);
	}
	e->n_messages++;
}

static void on_sent(void *ctx)
{
	struct end *e = ctx;

	if (e->echoes)
		assert_int_equal(ops->post(e->ch, e->back[e->n_sent % MESSAGES]), 0);
	e->n_sent++;
	if (e->shut_at_sent)
		shut(e);
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	struct end *e = ctx;

	e->n_lost++;
	e->loss = *loss;
}

static const struct inc_channel_handler handler = {on_message, on_sent, on_lost};

static const struct inc_channel_verbs_settings of_host = {
	.gid_index = -1,
	.timeout = 17,
	.retry_cnt = 6,
	.rnr_retry = 6,
	.min_rnr_timer = 12,
	.hop_limit = 64,
	.port_down_ms = 2000,
};

static int open_end(struct end *e, bool is_switch, struct inc_err *err)
{
	const struct inc_channel_device_opts opts = {
		.ifname = is_switch ? "fake1" : NULL,
		.own_ip = inc_addr_of_ipv4(htonl(is_switch ? SWITCH_IP : HOST_IP)),
		.handler = &handler,
		.may_block = !is_switch,
		.verbs = is_switch ? NULL : &of_host,
	};
	struct inc_channel_opts channel = {
		.own.psn = is_switch ? OWN_PSN : HOST_PSN,
		.own.ip = inc_addr_of_ipv4(htonl(is_switch ? SWITCH_IP : HOST_IP)),
		.ifname = is_switch ? "fake1" : NULL,
		.verbs = e->settings,
		.pkey = INC_PKEY_DEFAULT,
		.payload = PAYLOAD,
		.max_message_bytes = is_switch ? BYTES : 0,
		.messages = MESSAGES,
		.mirrored = !is_switch,
		.memory = &e->region,
		.what = is_switch ? "the switch's" : "verbs",
		.ctx = e,
	};
	unsigned int i;
	int ret = ops->open(&opts, &e->dev, err);

	e->echoes = is_switch;
	ret = ret
		      ?: ops->map(e->dev, e->data, sizeof(e->data),
				  is_switch ? INC_CHANNEL_RECEIVE : INC_CHANNEL_WRITE, &e->region,
				  err);
	ret = ret ?: ops->make(e->dev, &channel, &e->ch, &e->own, err);
	for (i = 0; !ret && is_switch && i < MESSAGES; i++)
		ret = ops->post(e->ch, e->data[i]);
	return ret;
}

static void close_end(struct end *e)
{
	shut(e);
	if (!e->dev)
		return;
	/* while a step to RTR is under way, the device would end on another thread */
	while (!LIST_EMPTY(&VERBS_DEV(e->dev)->entries))
		ops->progress(e->dev);
	ops->unmap(e->dev, &e->region);
	ops->close(e->dev);
	e->dev = NULL;
}

static int connect_end(struct end *e, const struct end *to, struct inc_err *err)
{
	struct inc_channel_peer peer = {
		.name = to->echoes ? "the switch" : NULL,
		.end = to->own.end,
		.payload = to->echoes ? PAYLOAD : 0,
		.packets = 64,
		.by_message = true,
		.messages = MESSAGES,
	};

	peer.end.ip = inc_addr_of_ipv4(htonl(to->echoes ? SWITCH_IP : HOST_IP));
	return ops->connect(e->ch, &peer, err);
}

static void turn(struct end *e)
{
	if (!e->dev)
		return;
	while (ops->progress(e->dev))
		;
	ops->flush(e->dev);
}

static void open_pair(struct end *host, struct end *sw)
{
	const uint64_t end_ns = inc_now_ns() + LIMIT_NS;
	struct inc_err err = {""};

	if (open_end(host, false, &err) || open_end(sw, true, &err) ||
	    connect_end(sw, host, &err) || connect_end(host, sw, &err))
		fail_msg("%s", err.msg);
	while (VERBS_CH(sw->ch)->life != VERBS_CONNECTED) {
		turn(sw);
		assert_true(inc_now_ns() < end_ns);
	}
}

static int post(struct end *host, uint64_t m, bool last)
{
	const uint32_t length = m % 5 * 400;
	uint8_t *data = host->data[m % MESSAGES];

	return ops->exchange(host->ch, &(struct inc_channel_exchange){.send = data,
								      .recv = data,
								      .send_len = length,
								      .recv_len = length,
								      .send_region = &host->region,
								      .recv_region = &host->region,
								      .imm = m / 7,
								      .has_imm = m % 7 == 0,
								      .last = last});
}

static void test_echo(void **state)
{
	const uint64_t n = 3000, end_ns = inc_now_ns() + LIMIT_NS;
	static struct end host, sw;
	uint64_t m = 0;
	int ret;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	while (host.n_messages < n || host.n_sent < n || sw.n_sent < n) {
		for (ret = 0; m < n && !ret && m - host.n_messages < WINDOW;) {
			ret = post(&host, m, m % 7 == 6 || m + 1 == n);
			m += !ret;
		}
		assert_true(!ret || ret == -EAGAIN);
		ops->flush(host.dev);
		turn(&sw);
		turn(&host);
		assert_int_equal(host.n_lost + sw.n_lost, 0);
		assert_true(inc_now_ns() < end_ns);
	}
	assert_int_equal(ops->under_way(host.ch), 0);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* One completion reports several sends of a mirrored channel. At the first one the handler shuts
 * the channel. */
static void test_shut_by_report(void **state)
{
	static struct end host, sw;
	unsigned int m;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	host.shut_at_sent = true;
	for (m = 0; m < 3; m++)
		assert_int_equal(post(&host, m, m == 2), 0);
	ops->flush(host.dev);
	turn(&host);
	assert_int_equal(host.n_sent, 1);
	assert_int_equal(host.n_messages, 0);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* Lets each call that can fail do so once, while both ends are opened and connected. */
static void test_failures(void **state)
{
	static struct end host, sw;
	struct inc_err err = {""};
	unsigned int n;
	int ret;

	for (n = 1;; n++) {
		memset(&host, 0, sizeof(host));
		memset(&sw, 0, sizeof(sw));
		fake_verbs_fail_call(n);
		ret = open_end(&host, false, &err);
		ret = ret ?: open_end(&sw, true, &err);
		ret = ret ?: connect_end(&sw, &host, &err);
		ret = ret ?: connect_end(&host, &sw, &err);
		if (ret)
			assert_true(*err.msg);
		close_end(&host);
		close_end(&sw);
		assert_int_equal(fake_verbs_objects(), 0);
		if (!fake_verbs_has_failed())
			break;
	}
	fake_verbs_fail_call(0);
	assert_true(n > 8);
}

/* Lets the device give up the host's queue pair. */
static void give_up(struct end *host, enum ibv_wc_status status)
{
	assert_int_equal(post(host, 0, true), 0);
	ops->flush(host->dev);
	fake_verbs_give_up(VERBS_CH(host->ch)->qp.ibv, status);
}

static void lose(enum ibv_wc_status status, enum inc_channel_reason reason, int error,
		 bool port_is_down)
{
	static struct end host, sw;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	fake_verbs_faults(0, FAKE_VERBS_LOSE_ACKS_IN);
	if (port_is_down)
		fake_verbs_port(0, false);
	give_up(&host, status);
	turn(&host);
	assert_int_equal(host.n_lost, 1);
	assert_int_equal(host.loss.reason, reason);
	assert_int_equal(host.loss.error, error);
	assert_int_equal(!!strstr(host.loss.text, "; the port is down"), port_is_down);
	assert_int_equal(post(&host, 1, true), -ENOTCONN);
	close_end(&host);
	close_end(&sw);
	fake_verbs_port(0, true);
	fake_verbs_faults(0, 0);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* A channel that breaks reports the reason. The event that the port is down may not have been read
 * until then. */
static void test_lost(void **state)
{
	lose(IBV_WC_REM_OP_ERR, INC_CHANNEL_ENDED, EREMOTEIO, false);
	lose(IBV_WC_REM_INV_REQ_ERR, INC_CHANNEL_REFUSED, EPROTO, false);
	lose(IBV_WC_RETRY_EXC_ERR, INC_CHANNEL_SILENT, ETIMEDOUT, false);
	lose(IBV_WC_RETRY_EXC_ERR, INC_CHANNEL_SILENT, ETIMEDOUT, true);
	lose(IBV_WC_WR_FLUSH_ERR, INC_CHANNEL_CUT, ECANCELED, false);
}

/* Runs an end if it would not sleep now. Returns false if it would sleep. */
static bool wake(struct end *e)
{
	struct pollfd pfd = {.fd = ops->fd(e->dev, NULL), .events = POLLIN};

	if (!ops->arm(e->dev) && ops->deadline_ns(e->dev) > inc_now_ns() && poll(&pfd, 1, 0) <= 0)
		return false;
	ops->progress(e->dev);
	ops->flush(e->dev);
	return true;
}

/* Runs both ends, each of which sleeps until its descriptor or arm() reports work. With `late`,
 * notifications come late. */
static void wakes(bool late)
{
	const uint64_t n = 300;
	static struct end host, sw;
	uint64_t m = 0;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	fake_verbs_notify_late(late);
	turn(&sw);
	while (host.n_messages < n || host.n_sent < n || sw.n_sent < n) {
		while (m < n && m - host.n_messages < WINDOW &&
		       !post(&host, m, m % 7 == 6 || m + 1 == n))
			m++;
		ops->flush(host.dev);
		if (wake(&host) | wake(&sw))
			continue;
		assert_true(late);
		fake_verbs_notify(VERBS_DEV(host.dev)->completions.cq);
		fake_verbs_notify(VERBS_DEV(sw.dev)->completions.cq);
		assert_true(wake(&host) | wake(&sw));
	}
	fake_verbs_notify_late(false);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

static void test_wakes(void **state)
{
	wakes(false);
	wakes(true);
}

/* The device refuses to notify. That breaks the device's channels, so arm() must prevent their
 * owner from sleeping. */
static void test_arm_fails(void **state)
{
	static struct end host, sw;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	fake_verbs_fail_call(1);
	assert_true(ops->arm(host.dev));
	assert_true(fake_verbs_has_failed());
	assert_int_equal(host.n_lost, 1);
	assert_int_equal(host.loss.reason, INC_CHANNEL_CUT);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* A host unmaps the memory of a message whose result has not arrived. */
static void test_unmap(void **state)
{
	static struct end host, sw;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	assert_int_equal(post(&host, 1, true), 0);
	ops->flush(host.dev);
	ops->unmap(host.dev, &host.region);
	turn(&host);
	assert_int_equal(host.n_lost, 1);
	assert_int_equal(host.loss.error, ECANCELED);
	assert_non_null(strstr(host.loss.text, "message 0 was given up"));
	turn(&sw);
	turn(&host);
	assert_int_equal(host.n_messages, 0);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* A send fails after other sends that have requested no completion. The error names the number of
 * the failed send. */
static void test_failed_send(void **state)
{
	static struct end host, sw;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	assert_int_equal(post(&host, 0, false), 0);
	assert_int_equal(post(&host, 1, false), 0);
	ops->flush(host.dev);
	fake_verbs_faults(0, FAKE_VERBS_LOSE_ACKS_IN);
	assert_int_equal(post(&host, 2, false), 0);
	ops->flush(host.dev);
	fake_verbs_give_up(VERBS_CH(host.ch)->qp.ibv, IBV_WC_RETRY_EXC_ERR);
	turn(&host);
	assert_int_equal(host.n_lost, 1);
	assert_non_null(strstr(host.loss.text, "sending message 2"));
	fake_verbs_faults(0, 0);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* Each setting of a channel becomes the attribute of its name. */
static void test_settings(void **state)
{
	static const struct inc_channel_verbs_settings settings = {
		.gid_index = FAKE_VERBS_MACHINE_GIDS - 1,
		.timeout = 14,
		.retry_cnt = 5,
		.rnr_retry = 4,
		.min_rnr_timer = 3,
		.sl = 6,
		.traffic_class = 104,
		.hop_limit = 9,
		.flow_label = 0xabcde,
		.pkey_index = 1,
		.rate_limit = 2500000,
		.max_rd_atomic = 7,
	};
	static struct end host, sw;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;
	int mask;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	fake_verbs_rate_limits(1000, 4000000);
	fake_verbs_second_gid(true);
	sw.settings = &settings;
	open_pair(&host, &sw);
	qp = VERBS_CH(sw.ch)->qp.ibv;
	assert_int_equal(sw.own.pkey, 0x8001);
	assert_int_equal(sw.own.pkey_index, 1);
	assert_int_equal(sw.own.gid_index, FAKE_VERBS_MACHINE_GIDS - 1);
	assert_int_equal(fake_verbs_given(qp, IBV_QPS_INIT, &mask).pkey_index, 1);
	attr = fake_verbs_given(qp, IBV_QPS_RTR, &mask);
	assert_int_equal(attr.min_rnr_timer, 3);
	assert_int_equal(attr.max_dest_rd_atomic, 7);
	assert_int_equal(attr.ah_attr.sl, 6);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.ah_attr.grh.sgid_index, FAKE_VERBS_MACHINE_GIDS - 1);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 104);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 9);
	assert_int_equal(attr.ah_attr.grh.flow_label, 0xabcde);
	attr = fake_verbs_given(qp, IBV_QPS_RTS, &mask);
	assert_int_equal(attr.timeout, 14);
	assert_int_equal(attr.retry_cnt, 5);
	assert_int_equal(attr.rnr_retry, 4);
	assert_int_equal(attr.max_rd_atomic, 7);
	assert_true(mask & IBV_QP_RATE_LIMIT);
	assert_int_equal(attr.rate_limit, 2500000);
	close_end(&host);
	close_end(&sw);
	fake_verbs_rate_limits(0, 0);
	fake_verbs_second_gid(false);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* Without settings a switch has its defaults, which differ from those of a host. */
static void test_defaults(void **state)
{
	static struct end host, sw;
	struct ibv_qp_attr attr;
	int mask;

	memset(&host, 0, sizeof(host));
	memset(&sw, 0, sizeof(sw));
	open_pair(&host, &sw);
	attr = fake_verbs_given(VERBS_CH(sw.ch)->qp.ibv, IBV_QPS_RTS, &mask);
	assert_int_equal(attr.timeout, 17);
	assert_int_equal(attr.retry_cnt, 6);
	assert_int_equal(attr.rnr_retry, 7);
	assert_int_equal(attr.max_rd_atomic, 1);
	assert_false(mask & IBV_QP_RATE_LIMIT);
	attr = fake_verbs_given(VERBS_CH(sw.ch)->qp.ibv, IBV_QPS_RTR, &mask);
	assert_int_equal(attr.min_rnr_timer, INC_CHANNEL_RNR_TIMER);
	assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
	assert_int_equal(attr.ah_attr.grh.traffic_class, 0);
	assert_int_equal(sw.own.pkey_index, 0);
	attr = fake_verbs_given(VERBS_CH(host.ch)->qp.ibv, IBV_QPS_RTS, &mask);
	assert_int_equal(attr.rnr_retry, 6);
	close_end(&host);
	close_end(&sw);
	assert_int_equal(fake_verbs_objects(), 0);
}

/* A setting that the device cannot have ends in one line with channel, port, device and setting. */
static void test_refused_settings(void **state)
{
	static const struct {
		struct inc_channel_verbs_settings settings;
		int code;
		const char *text;
	} cases[] = {
		{{.pkey_index = -1, .gid_index = -1, .rate_limit = 999},
		 -EOPNOTSUPP,
		 "the switch's, port fake1: fake1/1: rate_limit 999: the device limits the rate of "
		 "no "
		 "RC queue pair; remove rate_limit, or set it to 0 here"},
		{{.pkey_index = -1, .gid_index = -1, .max_rd_atomic = 17},
		 -EINVAL,
		 "the switch's, port fake1: fake1/1: max_rd_atomic 17: the device can do 16"},
		{{.pkey_index = 2, .gid_index = -1},
		 -EINVAL,
		 "the switch's, port fake1: fake1/1: pkey_index 2: the port has 2 P_Keys"},
		{{.pkey_index = -1, .gid_index = 3},
		 -EINVAL,
		 "the switch's, port fake1: fake1/1: gid_index 3 is no RoCE v2 GID of 10.78.1.1; "
		 "remove gid_index, or set it to 1"},
	};
	static struct end sw;
	struct inc_err err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(&sw, 0, sizeof(sw));
		sw.settings = &cases[i].settings;
		assert_int_equal(open_end(&sw, true, &err), cases[i].code);
		assert_string_equal(err.msg, cases[i].text);
		close_end(&sw);
		assert_int_equal(fake_verbs_objects(), 0);
	}
}

static int setup(void **state)
{
	fake_verbs_machine(2);
	return 0;
}

#define CASE(name) cmocka_unit_test_setup(test_##name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(echo),        CASE(shut_by_report), CASE(failures),         CASE(lost),
		CASE(failed_send), CASE(wakes),          CASE(arm_fails),        CASE(unmap),
		CASE(settings),    CASE(defaults),       CASE(refused_settings),
	};

	return cmocka_run_group_tests_name("verbs", tests, NULL, NULL);
}
