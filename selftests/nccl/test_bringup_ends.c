/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bring-up of paths at both ends (hostlib/nccl/bringup.h). Two machines are joined by channels
 * that lose, duplicate and reorder messages. The search covers every order of events with a bounded
 * number of faults, and visits each joint state once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/nccl/bringup.h"
#include "lib/base/clock.h"

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

/* ---- two joined machines -------------------------------------------------------------------- */

#define MAX_MSGS 10 /* greatest number of messages in flight in one direction */
/* number of faults in a search; with FULL=1 in the environment there is one more */
#define FAULTS     2
#define MAX_JOINED 4000000u

enum { NO_JOB, MAKING, ENTERING };
enum { NO_QP, MADE_QP, ENTERED_QP };

/* The state of both machines and the messages between them. Messages are sorted, because any of
 * them may arrive next. */
struct joined {
	struct {
		uint8_t state, wanted, tried, ready_received, attempt;
		uint8_t job, qp, up;
		/* bit i is set if the queue pair of attempt i has entered RTR */
		uint8_t has_entered;
		/* messages on the way to this side: type << 4 | attempt */
		uint8_t msgs, msg[MAX_MSGS];
	} side[SIDES];
	uint8_t faults; /* number of faults that may still happen */
};

static struct known {
	struct joined joined;
	uint32_t before; /* index + 1 of the state from which this one was reached */
	char by[24];
} * known;
static uint32_t n_known, *table;
#define TABLE_SIZE (1u << 23)

static void show_trail(uint32_t i)
{
	const struct joined *j;

	for (; i; i = known[i - 1].before) {
		j = &known[i - 1].joined;
		print_error("  %-24s leader %s, attempt %u; follower %s, attempt %u\n",
			    known[i - 1].by, ha_bringup_state_text(j->side[LEADER].state),
			    j->side[LEADER].attempt, ha_bringup_state_text(j->side[FOLLOWER].state),
			    j->side[FOLLOWER].attempt);
	}
}

static uint32_t from; /* index + 1 of the state whose events are applied now */

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	print_error("%s, behind\n", what);
	show_trail(from);
	fail();
}

static struct ha_bringup unpack(const struct joined *j, int s)
{
	struct ha_bringup b;

	ha_bringup_init(&b, s == LEADER, 1);
	b.state = j->side[s].state;
	b.wanted = j->side[s].wanted;
	b.tried = j->side[s].tried;
	b.ready_received = j->side[s].ready_received;
	b.epoch = EPOCH;
	b.attempt = j->side[s].attempt;
	b.attempt_at_ns = b.sent_at_ns = AT_NS;
	b.retry_at_ns = AT_NS + RETRY_NS;
	return b;
}

static void pack(struct joined *j, int s, const struct ha_bringup *b)
{
	must(b->attempt < 8 && b->epoch == EPOCH, "more attempts than faults");
	j->side[s].state = b->state;
	j->side[s].wanted = b->wanted;
	j->side[s].tried = b->tried;
	j->side[s].ready_received = b->ready_received;
	j->side[s].attempt = b->attempt;
}

static void put_msg(struct joined *j, int s, enum ha_control_msg_type type, uint8_t attempt)
{
	uint8_t msg = type << 4 | attempt, *list = j->side[s].msg;
	unsigned int i = j->side[s].msgs++;

	must(i < MAX_MSGS, "messages without end");
	for (; i && list[i - 1] > msg; i--)
		list[i] = list[i - 1];
	list[i] = msg;
}

static void take_msg(struct joined *j, int s, unsigned int i)
{
	uint8_t *list = j->side[s].msg;

	j->side[s].msgs--;
	memmove(&list[i], &list[i + 1], MAX_MSGS - 1 - i);
	list[MAX_MSGS - 1] = 0;
}

/* Carries out a machine's actions as comm.c does. Checks the rules on which comm.c relies. */
static void carry_out(struct joined *j, int s, const struct ha_bringup *b, unsigned int bits)
{
	__typeof__(&j->side[s]) me = &j->side[s];
	const uint8_t attempt = b->attempt;

	if (bits & DROP) {
		must(me->job || me->qp, "DROP without a queue pair");
		must(!me->up == !(bits & DOWN),
		     "DROP of a path that is UP comes with DOWN, any other without");
		me->job = me->qp = me->up = 0;
	}
	if (bits & MAKE) {
		must(!me->job && !me->qp, "two queue pairs at once");
		me->job = MAKING;
	}
	if (bits & OFFER) {
		must(me->qp, "OFFER without a queue pair");
		put_msg(j, !s, HA_MSG_PATH, attempt);
	}
	if (bits & ENTER) {
		must(me->qp == MADE_QP && !me->job, "ENTER without a new queue pair");
		me->job = ENTERING;
	}
	if (bits & SEND_READY) {
		must(me->qp == ENTERED_QP, "PATH_READY before the queue pair is ready");
		put_msg(j, !s, HA_MSG_PATH_READY, attempt);
	}
	if (bits & SEND_FAILED)
		put_msg(j, !s, HA_MSG_PATH_FAILED, attempt);
	if (bits & UP) {
		must(me->qp == ENTERED_QP && !me->up,
		     "UP twice, or before the queue pair is ready");
		must(j->side[!s].has_entered >> attempt & 1,
		     "UP, but the peer was never ready for this attempt");
		me->up = 1;
	}
	must((b->state == HA_BRINGUP_READY) == me->up,
	     "state READY without UP, or UP without state READY");
}

/* Events of the joined machines. Those from FIRST_FAULT on are faults. */
enum joint_event {
	J_WANT,
	J_MSG,
	J_JOB,
	J_HURRY,
	J_TICK, /* a timer expires, which is possible only if no other event is */
	J_FIRST_FAULT,
	J_LOSE = J_FIRST_FAULT,
	J_REPEAT,
	J_JOB_FAILS,
	J_DIES,
	J_EARLY_TICK,
	J_TIMEOUT,
	J_N
};

static const char *const joint_names[] = {
	"wants",          "receives",  "job",  "hurry",      "tick",   "loses",
	"receives twice", "job fails", "dies", "early tick", "timeout"};

static bool is_quiet(const struct joined *j)
{
	int s;

	for (s = 0; s < SIDES; s++)
		if (j->side[s].msgs || j->side[s].job || !j->side[s].wanted)
			return false;
	return true;
}

static bool is_good(const struct joined *j)
{
	return j->side[LEADER].up && j->side[FOLLOWER].up &&
	       j->side[LEADER].attempt == j->side[FOLLOWER].attempt;
}

static unsigned int do_job(struct joined *j, int s, struct ha_bringup *b)
{
	const uint8_t job = j->side[s].job;

	j->side[s].job = NO_JOB;
	j->side[s].qp = job == MAKING ? MADE_QP : ENTERED_QP;
	if (job == MAKING)
		return ha_bringup_made(b, AT_NS);
	j->side[s].has_entered |= 1u << b->attempt;
	return ha_bringup_entered(b, AT_NS);
}

static unsigned int receive_msg(struct joined *j, int s, unsigned int i, struct ha_bringup *b,
				bool stays)
{
	const uint8_t msg = j->side[s].msg[i];
	struct ha_control_msg heard = {.epoch = EPOCH};

	if (!stays)
		take_msg(j, s, i);
	heard.type = msg >> 4;
	heard.path.attempt = msg & 15;
	return ha_bringup_msg(b, &heard, AT_NS);
}

/* Applies an event. Returns false if it is impossible. */
static bool play_joined(struct joined *j, int s, enum joint_event event, unsigned int i)
{
	struct ha_bringup b = unpack(j, s);
	unsigned int bits;

	if (event >= J_FIRST_FAULT && !j->faults--)
		return false;
	if (i && event != J_MSG && event != J_LOSE && event != J_REPEAT)
		return false;
	if (i && j->side[s].msg[i] == j->side[s].msg[i - 1])
		return false; /* an equal message was already tried, so this one need not be */
	switch (event) {
	case J_WANT:
		if (b.wanted)
			return false;
		bits = ha_bringup_want(&b, EPOCH, 0, AT_NS);
		break;
	case J_MSG:
	case J_REPEAT:
		if (i >= j->side[s].msgs)
			return false;
		bits = receive_msg(j, s, i, &b, event == J_REPEAT);
		break;
	case J_LOSE:
		if (i >= j->side[s].msgs)
			return false;
		take_msg(j, s, i);
		return true;
	case J_JOB:
		if (!j->side[s].job)
			return false;
		bits = do_job(j, s, &b);
		break;
	case J_JOB_FAILS:
		if (!j->side[s].job)
			return false;
		bits = ha_bringup_failed(&b, AT_NS);
		break;
	case J_HURRY:
		bits = ha_bringup_hurry(&b, AT_NS);
		break;
	case J_DIES:
		if (b.state != HA_BRINGUP_READY)
			return false;
		bits = ha_bringup_failed(&b, AT_NS);
		break;
	case J_TIMEOUT:
		bits = ha_bringup_tick(&b, AT_NS + TIMEOUT_NS);
		break;
	default:
		if (event == J_TICK && !is_quiet(j))
			return false;
		bits = ha_bringup_tick(&b, AT_NS + RETRY_NS);
	}
	carry_out(j, s, &b, bits);
	pack(j, s, &b);
	return true;
}

static void add(const struct joined *j, const char *by, int s)
{
	const uint64_t *words8 = (const uint64_t *)j;
	uint64_t hash = 14695981039346656037ull, rest = 0;
	size_t i;

	for (i = 0; i < sizeof(*j) / 8; i++)
		hash = (hash ^ words8[i]) * 0x9e3779b97f4a7c15ull, hash ^= hash >> 29;
	memcpy(&rest, &words8[i], sizeof(*j) % 8);
	hash = (hash ^ rest) * 0x9e3779b97f4a7c15ull;
	for (i = hash >> 41; table[i]; i = (i + 1) % TABLE_SIZE)
		if (!memcmp(&known[table[i] - 1].joined, j, sizeof(*j)))
			return;
	assert_true(n_known < MAX_JOINED);
	known[n_known].joined = *j;
	known[n_known].before = from;
	snprintf(known[n_known].by, sizeof(known[n_known].by), "%s %s",
		 s == LEADER ? "leader" : "follower", by);
	table[i] = ++n_known;
}

/* Checks that from this state both ends become ready for the same attempt within a bounded number
 * of rounds. There are no further faults, but timers expire. */
static void check_end(struct joined j)
{
	unsigned int round, s;

	for (round = 0; round < 12 && !(is_quiet(&j) && is_good(&j)); round++)
		for (s = 0; s < SIDES; s++) {
			play_joined(&j, s, J_WANT, 0);
			while (play_joined(&j, s, J_MSG, 0) || play_joined(&j, s, J_JOB, 0))
				;
			play_joined(&j, s, J_TICK, 0);
		}
	must(is_quiet(&j) && is_good(&j), "does not come up again");
}

static void every_order_of_two(void **state)
{
	const char *full = getenv("FULL");
	struct joined next = {.faults = FAULTS + (full && !strcmp(full, "1"))};
	enum joint_event event;
	unsigned int i, good = 0;
	int s;

	known = malloc(MAX_JOINED * sizeof(*known));
	table = calloc(TABLE_SIZE, sizeof(*table));
	assert_true(known && table);
	from = n_known = 0;
	add(&next, "begins", LEADER);
	while (from++ < n_known) {
		const struct joined *now = &known[from - 1].joined;

		check_end(*now);
		good += is_quiet(now) && is_good(now);
		for (s = 0; s < SIDES; s++)
			for (event = 0; event < J_N; event++)
				for (i = 0; i < MAX_MSGS; i++) {
					next = *now;
					if (play_joined(&next, s, event, i))
						add(&next, joint_names[event], s);
				}
	}
	print_message("# %u states, %u with both ready and nothing under way\n", n_known, good);
	assert_true(good > 20);
	free(known);
	free(table);
}

/* ---- long walks ------------------------------------------------------------------------------ */

#define FLAPS 20000

/* One end of a path that flaps. Messages arrive in order. */
struct end {
	struct ha_bringup b;
	int job;
	struct ha_control_msg in[64];
	unsigned int msgs;
};

static void act(struct end *ends, int s, unsigned int bits)
{
	static const struct {
		unsigned int bit;
		enum ha_control_msg_type type;
	} said[] = {{OFFER, HA_MSG_PATH},
		    {SEND_READY, HA_MSG_PATH_READY},
		    {SEND_FAILED, HA_MSG_PATH_FAILED}};
	struct end *peer = &ends[!s];
	size_t i;

	if (bits & DROP)
		ends[s].job = NO_JOB;
	if (bits & (MAKE | ENTER))
		ends[s].job = bits & MAKE ? MAKING : ENTERING;
	for (i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (bits & said[i].bit && peer->msgs < 64)
			peer->in[peer->msgs++] = (struct ha_control_msg){
				.type = said[i].type,
				.epoch = EPOCH,
				.path = {.attempt = ends[s].b.attempt, .rail = ends[s].b.rail}};
}

static void move(struct end *ends, int s, uint64_t now_ns)
{
	struct end *me = &ends[s];
	struct ha_control_msg msg;
	int job;

	while (me->msgs) {
		msg = me->in[0];
		memmove(me->in, me->in + 1, --me->msgs * sizeof(msg));
		act(ends, s, ha_bringup_msg(&me->b, &msg, now_ns));
	}
	job = me->job;
	me->job = NO_JOB;
	if (job)
		act(ends, s,
		    job == MAKING ? ha_bringup_made(&me->b, now_ns)
				  : ha_bringup_entered(&me->b, now_ns));
	act(ends, s, ha_bringup_tick(&me->b, now_ns));
}

/* After a path has flapped for long, it must come up once the flapping stops. */
static void many_flaps(void **state)
{
	static struct end ends[SIDES];
	unsigned int i, k, s, seed = 7;
	uint64_t now_ns = AT_NS;

	for (s = 0; s < SIDES; s++) {
		ha_bringup_init(&ends[s].b, s == LEADER, 2);
		act(ends, s, ha_bringup_want(&ends[s].b, EPOCH, 1, now_ns));
	}
	for (i = 0; i < FLAPS; i++) {
		for (k = rand_r(&seed) % 8; k; k--, now_ns += RETRY_NS / 3) {
			s = rand_r(&seed) >> 3 & 1;
			if (rand_r(&seed) >> 5 & 1)
				act(ends, s, ha_bringup_failed(&ends[s].b, now_ns));
			else if (rand_r(&seed) >> 5 & 1)
				ends[s].msgs = 0;
			move(ends, !s, now_ns);
		}
		for (k = 0; k < 40; k++, now_ns += RETRY_NS / 3)
			for (s = 0; s < SIDES; s++)
				move(ends, s, now_ns);
		for (s = 0; s < SIDES; s++)
			assert_int_equal(ends[s].b.state, HA_BRINGUP_READY);
		assert_int_equal(ends[LEADER].b.attempt, ends[FOLLOWER].b.attempt);
	}
	assert_true(ends[LEADER].b.attempt > FLAPS / 2);
}

/* ---- rails ----------------------------------------------------------------------------------- */

/* The two ends try all pairs of rails, beginning with those of equal numbers. */
static void rails(void **state)
{
	struct ha_bringup leader, follower;
	struct ha_control_msg path = {.type = HA_MSG_PATH, .epoch = EPOCH};
	unsigned int i, pairs = 0;

	ha_bringup_init(&leader, true, 2);
	ha_bringup_init(&follower, false, 2);
	ha_bringup_want(&leader, EPOCH, 1, AT_NS);
	ha_bringup_want(&follower, EPOCH, 1, AT_NS);
	for (i = 0; i < 4; i++) {
		path.path.attempt = leader.attempt;
		path.path.rail = leader.rail;
		assert_int_equal(ha_bringup_msg(&follower, &path, AT_NS), MAKE);
		assert_int_equal(leader.rail, 1 ^ (i & 1));
		assert_int_equal(follower.rail == leader.rail, i < 2);
		pairs |= 1u << (leader.rail * 2 + follower.rail);
		ha_bringup_failed(&follower, AT_NS);
		ha_bringup_failed(&leader, AT_NS);
		assert_int_equal(ha_bringup_hurry(&leader, AT_NS), MAKE);
		/* the wanted rail is tried first, because its port has come up */
		assert_int_equal(leader.rail, 1);
		leader.rail = 1 ^ (~i & 1);
	}
	assert_int_equal(pairs, 15);
	/* an end with a single rail uses it in every attempt */
	ha_bringup_init(&follower, false, 1);
	ha_bringup_want(&follower, EPOCH, 0, AT_NS);
	path.path.rail = 1;
	ha_bringup_msg(&follower, &path, AT_NS);
	assert_int_equal(follower.rail, 0);
}

/* If the leader gets no answer, it alternates between its rails. */
static void a_leader_without_a_port(void **state)
{
	struct ha_bringup b;
	uint64_t now_ns = AT_NS;
	uint32_t i;

	ha_bringup_init(&b, true, 2);
	assert_int_equal(ha_bringup_want(&b, EPOCH, 0, now_ns), MAKE);
	for (i = 0; i < 100000; i++) {
		assert_int_equal(b.attempt, i);
		assert_int_equal(b.rail, i & 1);
		assert_int_equal(ha_bringup_failed(&b, now_ns), DROP | SEND_FAILED);
		assert_int_equal(ha_bringup_tick(&b, now_ns + RETRY_NS - 1), 0);
		now_ns += RETRY_NS;
		assert_int_equal(ha_bringup_tick(&b, now_ns), MAKE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_order_of_two),
		cmocka_unit_test(many_flaps),
		cmocka_unit_test(rails),
		cmocka_unit_test(a_leader_without_a_port),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bringup_ends", tests, NULL, NULL);
}
