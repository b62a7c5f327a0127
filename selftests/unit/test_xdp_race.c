// SPDX-License-Identifier: BSD-2-Clause
/*
 * Children that do not wait for each other. Each child sends its next packet even if the window is
 * closed, repeats it at once if it was refused, and goes on after its ACK. With one or two slots,
 * most packets come while another CPU advances the slot. Then every child runs on two CPUs at once,
 * which both send the same packets. Each chunk must have exactly one result, the right one. (In
 * test_xdp_parallel the children stay within the window.)
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <bpf/bpf.h>
#include "lib/base/clock.h"
#include "cases.h"
#include "unit.h"

#define MAX_THREADS 8
#define LEN         256
#define CHUNKS      20000
#define STEP        64 /* number of chunks by which all threads extend their range at a time */
#define TIME_S      6  /* time after which the test ends, because the machine is slow */
#define STALL_S     20 /* time without any progress after which the test fails */

struct race {
	const char *name;
	/* numbers of children, of slots, and of threads for each child */
	uint32_t children, slots, per_child;
};

static const struct race races[] = {
	{"one_slot", 2, 1, 1},
	{"two_slots", 4, 2, 1},
	{"two_cpus_per_connection", 2, 2, 2},
	{"two_cpus_per_connection_one_slot", 3, 1, 2},
};

struct sender {
	struct unit *u;
	struct ref_comm *cm;
	const struct race *race;
	uint32_t child;
	/* results that this thread has caused, results that it has checked, and its packets that
	 * were refused */
	uint64_t results, checked, refused;
	char why[256];
};

static atomic_bool stop;
/* the current end of the range for all threads; with the bit LAST it is final */
static _Atomic uint64_t chunks;
#define LAST 1ull
_Static_assert(STEP % 2 == 0, "LAST is no part of a number");

static void packet(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame_spec *s,
		   uint8_t payload[INC_MAX_PAYLOAD])
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = LEN,
				.desc = CASE_DESC,
				.ackreq = true};

	unit_data_spec(cm, child, &p, s, payload);
}

/* Checks the row of result r, unless it already holds a later result. Only a second thread of this
 * child can have caused that. */
static int check_sum(struct sender *s, uint64_t r)
{
	const struct inc_buf *row =
		inc_switch_sums(s->u->sw) + s->cm->cfg.sum_base + r % s->race->slots;
	uint32_t want[LEN / 4] = {0}, have[LEN / 4], part[LEN / 4], i, k, len;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;
	uint64_t before = __atomic_load_n(&row->r, __ATOMIC_ACQUIRE);

	len = row->len;
	memcpy(have, row->payload, LEN);
	atomic_thread_fence(memory_order_acquire);
	if (s->race->per_child > 1 &&
	    (before != r || __atomic_load_n(&row->r, __ATOMIC_ACQUIRE) != r))
		return 0;
	for (i = 0; i < s->race->children; i++) {
		packet(s->cm, i, r, &spec, payload);
		memcpy(part, payload, LEN);
		for (k = 0; k < LEN / 4; k++)
			want[k] += part[k];
	}
	s->checked++;
	if (before == r && len == LEN && !memcmp(have, want, LEN))
		return 0;
	snprintf(s->why, sizeof(s->why),
		 "child %u: result %llu is wrong (its row says %llu, %u bytes)", s->child,
		 (unsigned long long)r, (unsigned long long)before, len);
	return -1;
}

/* Returns the outcome of packet r: 1 if it is stored, 0 if it must be sent again, -1 if something
 * is wrong (s->why). */
static int outcome(struct sender *s, uint64_t r, uint32_t verdict, const struct frame *out)
{
	uint32_t psn, behind;

	if (verdict == XDP_REDIRECT) {
		s->results++;
		return check_sum(s, r) ? -1 : 1;
	}
	if (verdict == XDP_DROP) {
		s->refused++;
		return 0;
	}
	if (verdict != XDP_TX || out->len < FRAME_EXT + INC_AETH_LEN ||
	    out->data[FRAME_BTH] != INC_OP_ACK) {
		snprintf(s->why, sizeof(s->why), "child %u chunk %llu: verdict %s", s->child,
			 (unsigned long long)r, unit_verdict_name(verdict));
		return -1;
	}
	if (out->data[FRAME_EXT] != INC_AETH_ACK) {
		s->refused++;
		if ((out->data[FRAME_EXT] & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR ||
		    out->data[FRAME_EXT] == INC_AETH_NAK_SEQ)
			return 0;
		snprintf(s->why, sizeof(s->why), "child %u chunk %llu: NAK %02x", s->child,
			 (unsigned long long)r, out->data[FRAME_EXT]);
		return -1;
	}
	psn = get24(out->data + FRAME_BTH + 9);
	behind = (psn - s->cm->conn[s->child].cfg.peer.psn - (uint32_t)r) & INC_PSN_MASK;
	return !(behind & 0x800000);
}

/* Checks that the slots of all results before tx_next are in a later generation, because these
 * results are complete. */
static int check_edge(struct sender *s)
{
	const struct inc_comm_state *state = &inc_switch_comm_state(s->u->sw)[s->cm->index];
	const struct inc_slot *slot = inc_switch_slots(s->u->sw) + s->cm->cfg.sum_base;
	uint64_t next = __atomic_load_n(&state->tx_next, __ATOMIC_ACQUIRE), word;

	if (!next)
		return 0;
	word = __atomic_load_n(&slot[(next - 1) % s->race->slots].word, __ATOMIC_ACQUIRE);
	if (INC_SLOT_GENERATION(word) > (next - 1) / s->race->slots)
		return 0;
	snprintf(s->why, sizeof(s->why), "tx_next is %llu, but result %llu is not complete",
		 (unsigned long long)next, (unsigned long long)next - 1);
	return -1;
}

static int send_packet(struct sender *s, const struct frame *f, uint32_t *verdict,
		       struct frame *out)
{
	struct xdp_md md = {.data_end = f->len,
			    .ingress_ifindex = s->cm->conn[s->child].cfg.ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f->data, .data_size_in = f->len,
		    .data_out = out->data, .data_size_out = sizeof(out->data), .ctx_in = &md,
		    .ctx_size_in = sizeof(md), .repeat = 1);

	if (bpf_prog_test_run_opts(s->u->prog_fd, &opts)) {
		snprintf(s->why, sizeof(s->why), "BPF_PROG_TEST_RUN: %s", strerror(errno));
		return -1;
	}
	*verdict = opts.retval;
	out->len = opts.data_size_out;
	return 0;
}

/*
 * Decides whether to go on with chunk r. All threads must stop at the same chunk, so extending the
 * range and ending are one atomic decision of any thread. Otherwise a thread that had no CPU for a
 * while could set an end that others have passed.
 */
static bool go_on(uint64_t r, time_t end)
{
	uint64_t at = chunks;

	while (r >= (at & ~LAST)) {
		uint64_t to = at + STEP;

		if (at & LAST)
			return false;
		if (at >= CHUNKS || inc_now_s() > end)
			to = at | LAST;
		if (atomic_compare_exchange_strong(&chunks, &at, to))
			at = to;
	}
	return true;
}

static void *run_sender(void *arg)
{
	struct sender *s = arg;
	time_t end = inc_now_s() + TIME_S, stalled = inc_now_s() + STALL_S;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec spec;
	struct frame f, out;
	uint32_t verdict;
	cpu_set_t cpus;
	uint64_t r = 0;
	int cpu, ret;

	/* the suite is bound to one CPU, but this test needs several */
	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < s->u->cpus && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	while (!stop && go_on(r, end)) {
		packet(s->cm, s->child, r, &spec, payload);
		frame_build(&f, &spec);
		do {
			ret = send_packet(s, &f, &verdict, &out) || check_edge(s)
				      ? -1
				      : outcome(s, r, verdict, &out);
			if (!ret)
				/* gives the CPU to the thread for which this one waits, and which
				 * otherwise would wait for a time slice */
				sched_yield();
			if (!ret && inc_now_s() > stalled) {
				snprintf(s->why, sizeof(s->why),
					 "child %u: chunk %llu is not kept in %d s", s->child,
					 (unsigned long long)r, STALL_S);
				ret = -1;
			}
		} while (!ret && !stop);
		if (ret < 0) {
			stop = true;
			break;
		}
		if (++r % STEP == 0)
			stalled = inc_now_s() + STALL_S;
	}
	return NULL;
}

/* Checks the counters and the state, which must correspond to one result for each chunk. */
static int verify(struct unit *u, const struct ref_comm *cm, const struct sender *s, uint32_t n,
		  uint64_t multicast_before)
{
	const struct inc_comm_state *state = inc_switch_comm_state(u->sw) + cm->index;
	uint64_t results = 0, checked = 0, refused = 0;
	struct inc_counters counters;
	uint32_t i;

	for (i = 0; i < n; i++) {
		results += s[i].results;
		checked += s[i].checked;
		refused += s[i].refused;
	}
	if (inc_switch_read_counters(u->sw, &counters, NULL) || !counters.balanced ||
	    counters.multicast - multicast_before != chunks || results != chunks ||
	    state->tx_next != chunks || state->error) {
		snprintf(u->why, sizeof(u->why),
			 "%llu chunks: %llu results seen, %llu multicast, next result %llu, error "
			 "%#x",
			 (unsigned long long)chunks, (unsigned long long)results,
			 (unsigned long long)(counters.multicast - multicast_before),
			 (unsigned long long)state->tx_next, state->error);
		return -1;
	}
	/* without refused packets and checked results no race has happened */
	if (refused && checked > chunks / 2)
		return 0;
	snprintf(u->why, sizeof(u->why), "%llu packets refused, %llu of %llu results checked",
		 (unsigned long long)refused, (unsigned long long)checked,
		 (unsigned long long)chunks);
	return -1;
}

static int race(struct unit *u, const struct race *what)
{
	struct ref_comm *cm =
		case_comm(u, what->children, what->children > 2 ? 4 : 2, 256, what->slots);
	struct sender s[MAX_THREADS] = {0};
	pthread_t thread[MAX_THREADS];
	struct inc_counters counters;
	uint32_t i, n;

	RUN(!cm);
	RUN(inc_switch_read_counters(u->sw, &counters, NULL));
	stop = false;
	chunks = 0;
	u->why[0] = 0;
	for (n = 0; n < what->children * what->per_child; n++) {
		s[n] = (struct sender){.u = u, .cm = cm, .race = what, .child = n % what->children};
		if (pthread_create(&thread[n], NULL, run_sender, &s[n])) {
			stop = true;
			snprintf(u->why, sizeof(u->why), "no thread");
			break;
		}
	}
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		if (s[i].why[0] && !u->why[0])
			snprintf(u->why, sizeof(u->why), "%s", s[i].why);
	}
	RUN(stop);
	chunks &= ~LAST;
	RUN(verify(u, cm, s, n, counters.multicast));
	return unit_remove_comm(u, cm);
}

int main(void)
{
	static struct unit u;
	char name[64];
	uint32_t i;

	if (unit_start(&u, "xdp_race", 16384, false))
		return report_exit();
	if (u.cpus < 2) {
		report_skip("xdp_race", "one CPU only");
		unit_stop(&u);
		return report_exit();
	}
	for (i = 0; i < sizeof(races) / sizeof(races[0]); i++) {
		snprintf(name, sizeof(name), "xdp_race_%s", races[i].name);
		if (race(&u, &races[i]))
			report_fail(name, "%s", u.why);
		else
			report_ok("%s (%llu chunks)", name, (unsigned long long)chunks);
	}
	unit_stop(&u);
	return report_exit();
}
