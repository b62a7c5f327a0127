// SPDX-License-Identifier: BSD-2-Clause
/*
 * Children who do not wait, on several CPUs: they send again whatever was refused, beyond
 * their window too, and one connection's packets come on two CPUs at once. No sum may be wrong
 * and no result may be made twice, however that goes. (test_xdp_parallel has the polite ones.)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <bpf/bpf.h>
#include "cases.h"
#include "compare.h"

#define CHUNKS     40000
#define LEN        64
#define DEADLINE_S 60
#define TIME_S     6
#define THREADS    3
#define CHILDREN   2

struct race {
	struct unit *u;
	struct ref_group *g;
	atomic_bool stop;
	_Atomic uint64_t chunks; /* fewer where the machine is slow */
	_Atomic uint64_t results, checked;
};

struct sender {
	struct race *race;
	uint32_t child;
	uint64_t refused; /* RNR NAKs */
	char why[256];
};

static time_t now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

static void packet(const struct ref_group *g, uint32_t child, uint64_t r, struct frame_spec *s,
		   uint8_t payload[INC_MAX_PAYLOAD])
{
	struct unit_packet p = {
		.r = r, .opcode = INC_OP_SEND_ONLY_IMM, .len = LEN, .desc = CASE_DESC};

	unit_data_spec(g, child, &p, s, payload);
}

/*
 * The row of result r may be filled anew while it is read where another CPU sends for this
 * child too; what is read between two looks at the same chunk number is of one piece.
 */
static int check_sum(struct sender *s, uint64_t r)
{
	const struct ref_group *g = s->race->g;
	const struct inc_buf *row =
		inc_switch_results(s->race->u->sw) + g->cfg.result_base + r % g->slots;
	uint32_t want[LEN / 4] = {0}, part[LEN / 4], have[LEN / 4], i, k;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;

	for (i = 0; i < CHILDREN; i++) {
		packet(g, i, r, &spec, payload);
		memcpy(part, payload, LEN);
		for (k = 0; k < LEN / 4; k++)
			want[k] += part[k];
	}
	if (__atomic_load_n(&row->r, __ATOMIC_ACQUIRE) != r)
		return 0;
	memcpy(have, row->payload, LEN);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (__atomic_load_n(&row->r, __ATOMIC_ACQUIRE) != r)
		return 0;
	s->race->checked++;
	if (!memcmp(have, want, LEN))
		return 0;
	snprintf(s->why, sizeof(s->why), "result %llu is wrong, and was sent",
		 (unsigned long long)r);
	return -1;
}

static int one_packet(struct sender *s, uint64_t r)
{
	const struct ref_group *g = s->race->g;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;
	struct frame f;
	struct xdp_md md = {.ingress_ifindex = g->conn[s->child].cfg.ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f.data, .ctx_in = &md,
		    .ctx_size_in = sizeof(md), .repeat = 1);

	packet(g, s->child, r, &spec, payload);
	frame_build(&f, &spec);
	opts.data_size_in = md.data_end = f.len;
	if (bpf_prog_test_run_opts(s->race->u->prog_fd, &opts)) {
		snprintf(s->why, sizeof(s->why), "BPF_PROG_TEST_RUN: %s", strerror(errno));
		return -1;
	}
	if (opts.retval == XDP_TX)
		s->refused++;
	if (opts.retval != XDP_REDIRECT)
		return 0;
	s->race->results++;
	return check_sum(s, r);
}

/* Results before tx_next are complete: their slots are in a later generation. */
static int check_edge(struct sender *s)
{
	const struct ref_group *g = s->race->g;
	const struct inc_group_state *state = &inc_switch_group_state(s->race->u->sw)[g->index];
	const struct inc_slot *slot = inc_switch_slots(s->race->u->sw) + g->cfg.result_base;
	uint64_t next = __atomic_load_n(&state->tx_next, __ATOMIC_ACQUIRE), word;

	if (!next)
		return 0;
	word = __atomic_load_n(&slot[(next - 1) % g->slots].word, __ATOMIC_ACQUIRE);
	if (INC_SLOT_GENERATION(word) > (next - 1) / g->slots)
		return 0;
	snprintf(s->why, sizeof(s->why), "tx_next is %llu, but result %llu is not complete",
		 (unsigned long long)next, (unsigned long long)next - 1);
	return -1;
}

/* Sends packet after packet, each one until the switch has taken it, without a look at the
 * window. */
static void *run_sender(void *arg)
{
	struct sender *s = arg;
	struct race *race = s->race;
	const struct ref_group *g = race->g;
	const struct inc_conn_state *st =
		&inc_switch_conn_state(race->u->sw)[g->cfg.conn_base + s->child];
	time_t start = now_s();
	cpu_set_t cpus;
	uint64_t r;
	int cpu;

	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < race->u->cpus && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (r = 0; r < race->chunks && !race->stop; r++) {
		if (r % 64 == 0 && now_s() - start > TIME_S && r + 4 * g->slots < race->chunks)
			race->chunks = r + 4 * g->slots;
		do {
			if (one_packet(s, r) || check_edge(s)) {
				race->stop = true;
				return NULL;
			}
			if (now_s() - start > DEADLINE_S) {
				snprintf(s->why, sizeof(s->why), "packet %llu was never taken",
					 (unsigned long long)r);
				race->stop = true;
				return NULL;
			}
		} while (!race->stop && __atomic_load_n(&st->rx_next, __ATOMIC_ACQUIRE) <= r);
	}
	return NULL;
}

static int settle(struct race *race, const char *why)
{
	const struct inc_group_state *state = &inc_switch_group_state(race->u->sw)[race->g->index];
	unsigned long long chunks = race->chunks, results = race->results, next = state->tx_next;
	struct inc_counters c;

	if (why) {
		snprintf(race->u->why, sizeof(race->u->why), "%s", why);
		return -1;
	}
	if (inc_switch_read_counters(race->u->sw, &c, NULL) || !c.balanced || results != chunks ||
	    next != chunks || !race->checked) {
		snprintf(race->u->why, sizeof(race->u->why),
			 "%llu results multicast (%llu checked), tx_next %llu, of %llu chunks; "
			 "books %s",
			 results, (unsigned long long)race->checked, next, chunks,
			 c.balanced ? "balanced" : "open");
		return -1;
	}
	return 0;
}

/* child[i] is what thread i sends for. */
static int run(struct unit *u, uint32_t slots, const uint32_t *child, uint32_t n, bool refusals)
{
	struct race race = {.u = u, .chunks = CHUNKS};
	struct sender s[THREADS];
	pthread_t thread[THREADS];
	const char *why = NULL;
	uint64_t refused = 0;
	uint32_t i;

	race.g = case_group(u, CHILDREN, 2, 256, slots);
	RUN(!race.g);
	for (i = 0; i < n; i++) {
		s[i] = (struct sender){.race = &race, .child = child[i]};
		if (pthread_create(&thread[i], NULL, run_sender, &s[i])) {
			race.stop = true;
			why = "no thread";
			break;
		}
	}
	n = i;
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		refused += s[i].refused;
		if (s[i].why[0] && !why)
			why = s[i].why;
	}
	if (!why && refusals && !refused)
		why = "nobody was ever beyond its window: nothing was tested";
	RUN(settle(&race, why));
	return unit_remove_group(u, race.g);
}

/* A child's packet r comes while the last arriver on another CPU moves the slot on. */
static int retry_beyond_the_window(struct unit *u)
{
	static const uint32_t child[] = {0, 1};

	return run(u, 1, child, 2, true);
}

static int one_connection_on_two_cpus(struct unit *u)
{
	static const uint32_t child[] = {0, 0, 1};

	return run(u, 4, child, 3, false);
}

static int one_connection_on_two_cpus_one_slot(struct unit *u)
{
	static const uint32_t child[] = {0, 0, 1};

	return run(u, 1, child, 3, false);
}

int main(void)
{
	static const struct unit_case cases[] = {
		{"retry_beyond_the_window", retry_beyond_the_window},
		{"one_connection_on_two_cpus", one_connection_on_two_cpus},
		{"one_connection_on_two_cpus_one_slot", one_connection_on_two_cpus_one_slot},
		{NULL, NULL},
	};
	const struct unit_case *c;

	for (c = cases; c->name; c++) {
		static struct unit u;

		if (unit_start(&u, c->name, 16384, false))
			continue;
		if (u.cpus < 2)
			report_skip(c->name, "one CPU");
		else if (c->run(&u))
			report_fail(c->name, "%s", u.why);
		else
			report_ok("%s", c->name);
		unit_stop(&u);
	}
	return report_exit();
}
