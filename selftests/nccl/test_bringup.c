/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The bring-up of a path at one end (hostlib/nccl/bringup.h): each event in each state. Then whole
 * comms over fake devices, some of which have a peer that answers no ARP request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "hostlib/nccl/abi.h"
#include "hostlib/nccl/bringup.h"
#include "hostlib/nccl/comm_priv.h"
#include "lib/base/clock.h"
#include "selftests/fakes/verbs.h"
#include "selftests/nccl/harness_flow.h"

#define EPOCH      4u
#define AT_NS      (1000 * INC_NSEC_PER_SEC)
#define RETRY_NS   (HA_BRINGUP_RETRY_MS * INC_NSEC_PER_MSEC)
#define TIMEOUT_NS (HA_BRINGUP_TIMEOUT_MS * INC_NSEC_PER_MSEC)

#define DROP        HA_BRINGUP_DROP
#define MAKE        HA_BRINGUP_MAKE
#define OFFER       HA_BRINGUP_OFFER
#define ENTER       HA_BRINGUP_ENTER
#define SEND_READY  HA_BRINGUP_SEND_READY
#define SEND_FAILED HA_BRINGUP_SEND_FAILED
#define UP          HA_BRINGUP_UP
#define DOWN        HA_BRINGUP_DOWN

enum { FOLLOWER, LEADER, SIDES };

static struct ha_control_msg msg_of(enum ha_control_msg_type type, uint32_t epoch, uint32_t attempt)
{
	return (struct ha_control_msg){.type = type, .epoch = epoch, .path = {.attempt = attempt}};
}

static unsigned int receive(struct ha_bringup *b, enum ha_control_msg_type type, uint32_t attempt)
{
	const struct ha_control_msg msg = msg_of(type, b->epoch, attempt);

	return ha_bringup_msg(b, &msg, AT_NS);
}

/* ---- each event in each state --------------------------------------------------------------- */

#define ATTEMPT 5u /* number of the attempt of the machines in the following tests */

/* Makes a machine in this state, in its sixth attempt. In state IDLE its sixth attempt has
 * failed. */
static struct ha_bringup machine(bool leads, enum ha_bringup_state state)
{
	struct ha_bringup b;

	ha_bringup_init(&b, leads, 2);
	ha_bringup_want(&b, EPOCH, 1, AT_NS);
	b.attempt = ATTEMPT - 1;
	b.tried = true;
	b.state = HA_BRINGUP_IDLE;
	b.sent_at_ns = AT_NS;
	if (leads)
		ha_bringup_hurry(&b, AT_NS);
	else
		receive(&b, HA_MSG_PATH, ATTEMPT);
	if (state == HA_BRINGUP_IDLE)
		ha_bringup_failed(&b, AT_NS);
	if (state >= HA_BRINGUP_OFFERED)
		ha_bringup_made(&b, AT_NS);
	if (state >= HA_BRINGUP_ENTERING && leads)
		receive(&b, HA_MSG_PATH, ATTEMPT);
	if (state >= HA_BRINGUP_ENTERED)
		ha_bringup_entered(&b, AT_NS);
	if (state == HA_BRINGUP_READY)
		receive(&b, HA_MSG_PATH_READY, ATTEMPT);
	assert_int_equal(b.state, state);
	assert_int_equal(b.attempt, ATTEMPT);
	return b;
}

enum event {
	MADE,
	ENTERED,
	FAILED,
	PATH, /* from here on: messages of the machine's attempt */
	PATH_READY,
	PATH_FAILED,
	PATH_NEXT, /* from here on: messages of the next attempt */
	READY_NEXT,
	FAILED_NEXT,
	PATH_OLD, /* from here on: messages of the previous attempt */
	READY_OLD,
	FAILED_OLD,
	READY_OTHER, /* a message of another epoch */
	HURRY,
	TICK, /* a tick at the same time; the following events are later ticks */
	TICK_RETRY,
	TICK_TIMEOUT,
	TAKEN,
	N_EVENTS
};

static const struct {
	enum ha_control_msg_type type;
	int attempt; /* the message's attempt minus the machine's */
} msgs[] = {
	[PATH] = {HA_MSG_PATH, 0},
	[PATH_READY] = {HA_MSG_PATH_READY, 0},
	[PATH_FAILED] = {HA_MSG_PATH_FAILED, 0},
	[PATH_NEXT] = {HA_MSG_PATH, 1},
	[READY_NEXT] = {HA_MSG_PATH_READY, 1},
	[FAILED_NEXT] = {HA_MSG_PATH_FAILED, 1},
	[PATH_OLD] = {HA_MSG_PATH, -1},
	[READY_OLD] = {HA_MSG_PATH_READY, -1},
	[FAILED_OLD] = {HA_MSG_PATH_FAILED, -1},
};

static unsigned int play(struct ha_bringup *b, enum event event)
{
	const struct ha_control_msg other = msg_of(HA_MSG_PATH_READY, EPOCH + 1, b->attempt);

	switch (event) {
	case MADE:
		return ha_bringup_made(b, AT_NS);
	case ENTERED:
		return ha_bringup_entered(b, AT_NS);
	case FAILED:
		return ha_bringup_failed(b, AT_NS);
	case READY_OTHER:
		return ha_bringup_msg(b, &other, AT_NS);
	case HURRY:
		return ha_bringup_hurry(b, AT_NS);
	case TICK:
		return ha_bringup_tick(b, AT_NS + 1);
	case TICK_RETRY:
		return ha_bringup_tick(b, AT_NS + RETRY_NS);
	case TICK_TIMEOUT:
		return ha_bringup_tick(b, AT_NS + TIMEOUT_NS);
	case TAKEN:
		ha_bringup_taken(b);
		return 0;
	default:
		return receive(b, msgs[event].type, b->attempt + msgs[event].attempt);
	}
}

#define ANY -1

/* The events that change the machine's state or send a message. All other events must do
 * nothing. */
static const struct row {
	int side;
	enum ha_bringup_state state;
	enum event event;
	enum ha_bringup_state to;
	unsigned int bits;
} rows[] = {
	{LEADER, HA_BRINGUP_IDLE, HURRY, HA_BRINGUP_MAKING, MAKE},
	{LEADER, HA_BRINGUP_IDLE, TICK_RETRY, HA_BRINGUP_MAKING, MAKE},
	{LEADER, HA_BRINGUP_IDLE, TICK_TIMEOUT, HA_BRINGUP_MAKING, MAKE},
	{LEADER, HA_BRINGUP_IDLE, PATH_READY, HA_BRINGUP_IDLE, SEND_FAILED},
	{LEADER, HA_BRINGUP_MAKING, MADE, HA_BRINGUP_OFFERED, OFFER},
	{LEADER, HA_BRINGUP_OFFERED, PATH, HA_BRINGUP_ENTERING, ENTER},
	{LEADER, HA_BRINGUP_OFFERED, TICK_RETRY, HA_BRINGUP_OFFERED, OFFER},
	{LEADER, HA_BRINGUP_OFFERED, TICK_TIMEOUT, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
	{LEADER, HA_BRINGUP_ENTERED, TICK_RETRY, HA_BRINGUP_ENTERED, OFFER},
	{LEADER, HA_BRINGUP_READY, PATH_READY, HA_BRINGUP_READY, SEND_READY},

	{FOLLOWER, HA_BRINGUP_IDLE, PATH, HA_BRINGUP_IDLE, SEND_FAILED},
	{FOLLOWER, HA_BRINGUP_IDLE, PATH_READY, HA_BRINGUP_IDLE, SEND_FAILED},
	{FOLLOWER, HA_BRINGUP_IDLE, PATH_NEXT, HA_BRINGUP_MAKING, MAKE},
	{FOLLOWER, HA_BRINGUP_IDLE, TICK_RETRY, HA_BRINGUP_IDLE, SEND_FAILED},
	{FOLLOWER, HA_BRINGUP_IDLE, TICK_TIMEOUT, HA_BRINGUP_IDLE, SEND_FAILED},
	{FOLLOWER, HA_BRINGUP_MAKING, MADE, HA_BRINGUP_ENTERING, OFFER | ENTER},
	{FOLLOWER, HA_BRINGUP_MAKING, PATH_NEXT, HA_BRINGUP_MAKING, DROP | MAKE},
	{FOLLOWER, HA_BRINGUP_ENTERING, PATH, HA_BRINGUP_ENTERING, OFFER},
	{FOLLOWER, HA_BRINGUP_ENTERING, PATH_NEXT, HA_BRINGUP_MAKING, DROP | MAKE},
	{FOLLOWER, HA_BRINGUP_ENTERED, PATH, HA_BRINGUP_ENTERED, OFFER | SEND_READY},
	{FOLLOWER, HA_BRINGUP_ENTERED, PATH_NEXT, HA_BRINGUP_MAKING, DROP | MAKE},
	{FOLLOWER, HA_BRINGUP_ENTERED, TICK_RETRY, HA_BRINGUP_ENTERED, SEND_READY},
	{FOLLOWER, HA_BRINGUP_READY, PATH, HA_BRINGUP_READY, OFFER | SEND_READY},
	{FOLLOWER, HA_BRINGUP_READY, PATH_NEXT, HA_BRINGUP_MAKING, DROP | DOWN | MAKE},

	{ANY, HA_BRINGUP_MAKING, FAILED, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
	{LEADER, HA_BRINGUP_OFFERED, FAILED, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
	{ANY, HA_BRINGUP_ENTERING, FAILED, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
	{ANY, HA_BRINGUP_ENTERED, FAILED, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
	{ANY, HA_BRINGUP_READY, FAILED, HA_BRINGUP_IDLE, DROP | DOWN | SEND_FAILED},
	{ANY, HA_BRINGUP_MAKING, PATH_FAILED, HA_BRINGUP_IDLE, DROP},
	{LEADER, HA_BRINGUP_OFFERED, PATH_FAILED, HA_BRINGUP_IDLE, DROP},
	{ANY, HA_BRINGUP_ENTERING, PATH_FAILED, HA_BRINGUP_IDLE, DROP},
	{ANY, HA_BRINGUP_ENTERED, PATH_FAILED, HA_BRINGUP_IDLE, DROP},
	{ANY, HA_BRINGUP_READY, PATH_FAILED, HA_BRINGUP_IDLE, DROP | DOWN},
	{FOLLOWER, HA_BRINGUP_MAKING, FAILED_NEXT, HA_BRINGUP_IDLE, DROP},
	{FOLLOWER, HA_BRINGUP_ENTERING, FAILED_NEXT, HA_BRINGUP_IDLE, DROP},
	{FOLLOWER, HA_BRINGUP_ENTERED, FAILED_NEXT, HA_BRINGUP_IDLE, DROP},
	{FOLLOWER, HA_BRINGUP_READY, FAILED_NEXT, HA_BRINGUP_IDLE, DROP | DOWN},
	{ANY, HA_BRINGUP_ENTERING, ENTERED, HA_BRINGUP_ENTERED, SEND_READY},
	{ANY, HA_BRINGUP_ENTERED, PATH_READY, HA_BRINGUP_READY, UP},
	{ANY, HA_BRINGUP_ENTERED, TICK_TIMEOUT, HA_BRINGUP_IDLE, DROP | SEND_FAILED},
};

static struct row expected(int side, enum ha_bringup_state state, enum event event)
{
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if ((rows[i].side == ANY || rows[i].side == side) && rows[i].state == state &&
		    rows[i].event == event)
			return rows[i];
	return (struct row){side, state, event, event == TAKEN ? HA_BRINGUP_IDLE : state, 0};
}

static void each_event_in_each_state(void **state)
{
	enum ha_bringup_state from;
	struct ha_bringup b;
	struct row row;
	enum event event;
	unsigned int bits;
	int side;

	for (side = 0; side < SIDES; side++)
		for (from = HA_BRINGUP_IDLE; from <= HA_BRINGUP_READY; from++)
			for (event = 0; event < N_EVENTS; event++) {
				if (side == FOLLOWER && from == HA_BRINGUP_OFFERED)
					continue;
				row = expected(side, from, event);
				b = machine(side == LEADER, from);
				bits = play(&b, event);
				if (bits != row.bits || b.state != row.to)
					fail_msg("%s, event %d, %s: bits %#x, not %#x; now %s",
						 side == LEADER ? "leader" : "follower", event,
						 ha_bringup_state_text(from), bits, row.bits,
						 ha_bringup_state_text(b.state));
			}
}

/* PATH_READY may arrive before this end's device is ready, and even before PATH. */
static void early_msgs(void **state)
{
	struct ha_bringup b = machine(true, HA_BRINGUP_OFFERED);

	assert_int_equal(receive(&b, HA_MSG_PATH_READY, ATTEMPT), 0);
	assert_int_equal(receive(&b, HA_MSG_PATH, ATTEMPT), ENTER);
	assert_int_equal(ha_bringup_entered(&b, AT_NS), SEND_READY | UP);
	b = machine(false, HA_BRINGUP_ENTERING);
	assert_int_equal(receive(&b, HA_MSG_PATH_READY, ATTEMPT), 0);
	/* PATH_READY of an attempt that was given up does not count */
	assert_int_equal(receive(&b, HA_MSG_PATH, ATTEMPT + 1), DROP | MAKE);
	assert_int_equal(ha_bringup_made(&b, AT_NS), OFFER | ENTER);
	assert_int_equal(ha_bringup_entered(&b, AT_NS), SEND_READY);
	assert_int_equal(b.state, HA_BRINGUP_ENTERED);
}

static void unwanted_and_late_events(void **state)
{
	struct ha_bringup b;

	ha_bringup_init(&b, false, 2);
	assert_int_equal(receive(&b, HA_MSG_PATH, 0), 0);
	assert_int_equal(ha_bringup_tick(&b, AT_NS + TIMEOUT_NS), 0);
	ha_bringup_want(&b, EPOCH, 0, AT_NS);
	assert_int_equal(ha_bringup_tick(&b, AT_NS + TIMEOUT_NS), 0);
	assert_int_equal(receive(&b, HA_MSG_PATH, 3), MAKE);
	assert_int_equal(b.attempt, 3);
	/* once the comm uses the path, later messages about it are not answered */
	b = machine(true, HA_BRINGUP_READY);
	ha_bringup_taken(&b);
	assert_int_equal(receive(&b, HA_MSG_PATH_READY, ATTEMPT), 0);
	assert_int_equal(receive(&b, HA_MSG_PATH_FAILED, ATTEMPT), 0);
	assert_int_equal(ha_bringup_hurry(&b, AT_NS), 0);
	/* the next epoch begins with attempt 0 */
	assert_int_equal(ha_bringup_want(&b, EPOCH + 1, 0, AT_NS), MAKE);
	assert_int_equal(b.attempt, 0);
	/* the comm wants another path for the same epoch */
	ha_bringup_made(&b, AT_NS);
	assert_int_equal(ha_bringup_want(&b, EPOCH + 1, 1, AT_NS), DROP | MAKE);
	assert_int_equal(b.attempt, 1);
	assert_int_equal(b.rail, 1);
	/* a follower's path remains until a message of the leader changes it */
	b = machine(false, HA_BRINGUP_READY);
	assert_int_equal(ha_bringup_want(&b, EPOCH, 0, AT_NS), 0);
	assert_int_equal(b.state, HA_BRINGUP_READY);
	assert_int_equal(ha_bringup_want(&b, EPOCH + 1, 0, AT_NS), DROP | DOWN);
}

/* ---- a peer that answers no ARP request ------------------------------------------------------ */

/* A queue pair whose peer does not answer may wait in the kernel for seconds, on its way to RTR.
 * Meanwhile data transfers and registrations must go on. */
static void aiming_waits(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_region *region;
	struct flow flow = {0};
	struct inc_err err;
	uint8_t more[64];

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	fake_verbs_wait_in_rtr(true);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	fake_verbs_port(FLOW_SENDER(0), true);
	while (!fake_verbs_waiting_in_rtr()) {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
	}
	assert_int_equal(ha_register(flow.receive, more, sizeof(more), HA_NCCL_PTR_HOST, -1, 0,
				     &region, &err),
			 0);
	flow_receive(&flow, 100);
	assert_true(fake_verbs_waiting_in_rtr() > 0);
	ha_deregister(flow.receive, region);
	fake_verbs_wait_in_rtr(false);
	flow_until_standby(&flow, 0, 2);
	flow_finish(&flow);
	flow_disconnect(&flow);
}

/* Steps of the receiver to RTR hang in the kernel, and the sender begins one attempt after the
 * other. So many threads hang as an end has rails. */
static void attempts_while_steps_hang(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_listener *listener;
	struct ha_comm *send = NULL, *receive = NULL;
	unsigned int hang, most = 0;
	struct ha_handle handle;
	struct inc_err err;

	assert_int_equal(ha_listen(flow_plugin, FLOW_RECEIVER(0), &handle, &listener, &err), 0);
	fake_verbs_wait_for_peer(FLOW_SENDER(0));
	fake_verbs_refuse(FAKE_VERBS_TO_RTR, EHOSTUNREACH, 12);
	while (!send || !receive) {
		if (!send)
			assert_int_equal(ha_connect(flow_plugin, 0, &handle, -1, &send, &err), 0);
		if (!receive)
			assert_int_equal(ha_accept(listener, &receive, &err), 0);
		hang = fake_verbs_waiting_in_rtr();
		most = hang > most ? hang : most;
		if (!fake_verbs_refusals_left(FAKE_VERBS_TO_RTR))
			fake_verbs_wait_for_peer(-1);
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	assert_in_range(most, 1, HA_RAILS);
	ha_comm_close(send);
	ha_comm_close(receive);
	ha_listener_close(listener);
}

/* Gives up an attempt of the comm whose step may hang, as at the end of the peer's patience. */
static void give_up(struct ha_comm *comm)
{
	uint64_t now_ns;

	pthread_mutex_lock(&comm->lock);
	now_ns = inc_now_ns();
	if (comm->bringup.state == HA_BRINGUP_ENTERING)
		ha_comm_bringup(comm, ha_bringup_failed(&comm->bringup, now_ns), now_ns);
	pthread_mutex_unlock(&comm->lock);
}

struct look {
	uint32_t entering;  /* number of the attempt that is ENTERING, plus 1; 0: none is */
	bool waits;         /* it waits for the end of a step of an earlier attempt */
	unsigned int steps; /* number of steps of the comm that have not ended */
};

static struct look look_at(struct ha_comm *comm)
{
	struct look look;

	pthread_mutex_lock(&comm->lock);
	look = (struct look){comm->bringup.state == HA_BRINGUP_ENTERING ? comm->bringup.attempt + 1
									: 0,
			     comm->enter_waits, (comm->entering & 1) + (comm->entering >> 1)};
	pthread_mutex_unlock(&comm->lock);
	return look;
}

/* A step of a leader with a single rail hangs longer than its peer waits. The next attempt waits
 * for the end of that step, so that the comm does not use up its attempts meanwhile. */
static void single_rail_hangs(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct ha_comm *send = NULL, *receive = NULL, *leader;
	struct ha_listener *listener;
	struct ha_handle handle;
	bool hangs = true;
	struct inc_err err;

	assert_int_equal(ha_listen(flow_plugin, FLOW_RECEIVER(0), &handle, &listener, &err), 0);
	fake_verbs_wait_for_peer(FLOW_RECEIVER(0));
	while (!send || !receive) {
		if (!send)
			assert_int_equal(ha_connect(flow_plugin, 0, &handle, -1, &send, &err), 0);
		if (!receive)
			assert_int_equal(ha_accept(listener, &receive, &err), 0);
		leader = (struct ha_comm *)(uintptr_t)handle.comm;
		hangs = hangs && !look_at(leader).waits;
		if (hangs)
			give_up(leader);
		else
			fake_verbs_wait_for_peer(-1);
		assert_false(flow_is_late(began_at_ns));
		usleep(FLOW_POLL_US);
	}
	ha_comm_close(send);
	ha_comm_close(receive);
	ha_listener_close(listener);
}

/* A comm is closed while an attempt waits for the end of a step that hangs. After that end the
 * attempt does not begin its own step, for which the comm would have to wait again. */
static void closed_meanwhile(void **state)
{
	const uint64_t began_at_ns = inc_now_ns();
	struct flow flow = {0};
	struct look sender, receiver;

	flow_connect(&flow);
	flow_until_standby(&flow, 1, 1);
	fake_verbs_wait_in_rtr(true);
	fake_verbs_port(FLOW_SENDER(0), false);
	flow_until_failover(&flow, 1);
	fake_verbs_port(FLOW_SENDER(0), true);
	/* in the end each step of both ends hangs, and the receiver's attempt waits for one */
	do {
		flow_step(&flow);
		assert_false(flow_is_late(began_at_ns));
		receiver = look_at(flow.receive);
		sender = look_at(flow.send);
		if (receiver.entering && receiver.entering == sender.entering && !receiver.waits)
			give_up(flow.send);
	} while (!receiver.waits || receiver.entering != sender.entering ||
		 fake_verbs_waiting_in_rtr() < receiver.steps + sender.steps);
	flow_finish(&flow);
	flow_disconnect(&flow);
	fake_verbs_refuse(FAKE_VERBS_TO_RTR, EHOSTUNREACH, receiver.steps + sender.steps + 1);
	fake_verbs_wait_in_rtr(false);
}

/* Checks after the end of all comms that no step has begun since their close. */
static int close_and_count(void **state)
{
	flow_close(state);
	assert_int_equal(fake_verbs_refusals_left(FAKE_VERBS_TO_RTR), 1);
	fake_verbs_refuse(FAKE_VERBS_TO_RTR, 0, 0);
	return 0;
}

#define COMMS 32u

struct crowd {
	struct ha_listener *listener[2];
	struct ha_handle handle[COMMS];
	struct ha_comm *send[COMMS], *receive[COMMS];
	uint64_t began_at_ns; /* of the wait under way */
};

/* Listens on devices 2 and 3. Comm 0 goes to device 3, and all others go to device 2. */
static void listen_for(struct crowd *crowd)
{
	struct inc_err err;
	unsigned int i;

	assert_int_equal(ha_listen(flow_plugin, 3, &crowd->handle[0], &crowd->listener[1], &err),
			 0);
	assert_int_equal(ha_listen(flow_plugin, 2, &crowd->handle[1], &crowd->listener[0], &err),
			 0);
	for (i = 2; i < COMMS; i++)
		crowd->handle[i] = crowd->handle[1];
}

/* Makes all progress that is possible now. Returns how many ends of comms from `first` on are up.
 */
static unsigned int poll_crowd(struct crowd *crowd, unsigned int first)
{
	unsigned int i, up = 0;
	struct inc_err err;

	for (i = 0; i < COMMS; i++) {
		if (!crowd->send[i])
			assert_int_equal(ha_connect(flow_plugin, 0, &crowd->handle[i], -1,
						    &crowd->send[i], &err),
					 0);
		if (!crowd->receive[i])
			assert_int_equal(ha_accept(crowd->listener[!i], &crowd->receive[i], &err),
					 0);
		if (i >= first)
			up += (crowd->send[i] != NULL) + (crowd->receive[i] != NULL);
	}
	assert_false(flow_is_late(crowd->began_at_ns));
	usleep(FLOW_POLL_US);
	return up;
}

static void connect_crowd(struct crowd *crowd, unsigned int first)
{
	crowd->began_at_ns = inc_now_ns();
	while (poll_crowd(crowd, first) < 2 * (COMMS - first))
		;
}

static void close_crowd(struct crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < COMMS; i++) {
		ha_comm_close(crowd->send[i]);
		ha_comm_close(crowd->receive[i]);
	}
	for (i = 0; i < 2; i++)
		ha_listener_close(crowd->listener[i]);
}

/* The number of threads of this process. */
static unsigned int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* One of 32 comms waits for the answer to an ARP request, which never comes. The others must not
 * wait for it, and no thread of theirs may be left. Other programs of the machine can make any step
 * slow. So what counts is that the steps of all ends are under way at the same moment, and that one
 * of them stays there until the others have connected. The times are printed only. */
static void one_waits_for_arp(void **state)
{
	const unsigned int before = threads();
	unsigned long long took_us[2];

	for (unsigned int waits = 0; waits < 2; waits++) {
		struct crowd crowd = {.began_at_ns = inc_now_ns()};
		const uint64_t began_at_ns = crowd.began_at_ns;

		listen_for(&crowd);
		fake_verbs_wait_in_rtr(true);
		fake_verbs_wait_for_peer(waits ? 3 : -1);
		while (fake_verbs_waiting_in_rtr() < 2 * COMMS)
			poll_crowd(&crowd, 0);
		fake_verbs_wait_in_rtr(false);
		connect_crowd(&crowd, waits);
		took_us[waits] = (inc_now_ns() - began_at_ns) / 1000;
		assert_true(!waits || (!crowd.send[0] && fake_verbs_waiting_in_rtr()));
		fake_verbs_wait_for_peer(-1);
		connect_crowd(&crowd, 0);
		close_crowd(&crowd);
		/* the thread that waits for the next job stays */
		for (crowd.began_at_ns = inc_now_ns(); threads() > before; usleep(FLOW_POLL_US))
			assert_false(flow_is_late(crowd.began_at_ns));
	}
	print_message("# %u comms: %llu us, while another one waits %llu us\n", COMMS, took_us[0],
		      took_us[1]);
}

static int open_single(void **state)
{
	setenv("HA_NCCL_ENABLE_BACKUP", "0", 1);
	return flow_open(state);
}

static int close_single(void **state)
{
	unsetenv("HA_NCCL_ENABLE_BACKUP");
	return flow_close(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_event_in_each_state),
		cmocka_unit_test(early_msgs),
		cmocka_unit_test(unwanted_and_late_events),
		cmocka_unit_test_setup_teardown(aiming_waits, flow_open, flow_close),
		cmocka_unit_test_setup_teardown(attempts_while_steps_hang, flow_open, flow_close),
		cmocka_unit_test_setup_teardown(single_rail_hangs, open_single, close_single),
		cmocka_unit_test_setup_teardown(closed_meanwhile, flow_open, close_and_count),
		cmocka_unit_test_setup_teardown(one_waits_for_arp, open_single, close_single),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bringup", tests, NULL, NULL);
}
