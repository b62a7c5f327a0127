// SPDX-License-Identifier: BSD-2-Clause
/*
 * Children on several CPUs at once. Which of them comes last in a chunk is chance; that it is
 * exactly one, and that the sum it makes holds everybody's part, must not be.
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
#include "compare.h"

#define CHILDREN   4
#define CHUNKS     100000 /* a lost arrival bit takes tens of thousands to show */
#define SLOTS      8
#define LEN        64
#define DEADLINE_S 20
#define TIME_S     10

struct child {
	struct unit *u;
	struct ref_comm *cm;
	uint32_t number;
	uint64_t last; /* chunks in which it came last */
	char why[256];
};

static atomic_bool stop;
static _Atomic uint64_t chunks = CHUNKS; /* fewer where the machine is slow */

static void packet(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame_spec *s,
		   uint8_t payload[INC_MAX_PAYLOAD])
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = LEN,
				.desc = CASE_DESC,
				.ackreq = r & 1};

	unit_data_spec(cm, child, &p, s, payload);
}

/* The result row stays until this child sends r + SLOTS, so it can be read in peace. */
static int check_sum(struct child *c, uint64_t r)
{
	const struct inc_buf *row =
		inc_switch_results(c->u->sw) + c->cm->cfg.result_base + r % SLOTS;
	uint32_t want[LEN / 4] = {0}, part[LEN / 4], i, k;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;

	for (i = 0; i < CHILDREN; i++) {
		packet(c->cm, i, r, &s, payload);
		memcpy(part, payload, LEN);
		for (k = 0; k < LEN / 4; k++)
			want[k] += part[k];
	}
	if (row->r == r && row->len == LEN && !memcmp(row->payload, want, LEN))
		return 0;
	snprintf(c->why, sizeof(c->why), "result %llu is wrong (r %llu, %u bytes)",
		 (unsigned long long)r, (unsigned long long)row->r, row->len);
	return -1;
}

/* Until the window is open again. */
static int wait_window(struct child *c, uint64_t r)
{
	time_t deadline = inc_now_s() + DEADLINE_S;
	const volatile __u64 *next = &inc_switch_comm_state(c->u->sw)[c->cm->index].tx_next;

	while (*next + SLOTS <= r) {
		if (stop)
			return -1;
		if (inc_now_s() > deadline) {
			snprintf(c->why, sizeof(c->why), "no result %llu in %d s",
				 (unsigned long long)(r - SLOTS), DEADLINE_S);
			return -1;
		}
		sched_yield();
	}
	return 0;
}

static int one_packet(struct child *c, uint64_t r)
{
	uint32_t ifindex = c->cm->conn[c->number].cfg.ifindex;
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	struct xdp_md md = {.ingress_ifindex = ifindex};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = f.data, .ctx_in = &md,
		    .ctx_size_in = sizeof(md), .repeat = 1);

	packet(c->cm, c->number, r, &s, payload);
	frame_build(&f, &s);
	opts.data_size_in = md.data_end = f.len;
	if (bpf_prog_test_run_opts(c->u->prog_fd, &opts)) {
		snprintf(c->why, sizeof(c->why), "BPF_PROG_TEST_RUN: %s", strerror(errno));
		return -1;
	}
	if (opts.retval == XDP_REDIRECT) {
		c->last++;
		return check_sum(c, r);
	}
	if (opts.retval == (r & 1 ? XDP_TX : XDP_DROP))
		return 0;
	snprintf(c->why, sizeof(c->why), "chunk %llu: verdict %s", (unsigned long long)r,
		 unit_verdict_name(opts.retval));
	return -1;
}

static void *run_child(void *arg)
{
	struct child *c = arg;
	time_t end = inc_now_s() + TIME_S;
	cpu_set_t cpus;
	uint64_t r;
	int cpu;

	/* the suite keeps to one CPU; here it is about the others */
	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < c->u->cpus && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (r = 0; r < chunks && !stop; r++) {
		/* nobody is further ahead of another than the window */
		if (c->number == 0 && r % 256 == 0 && r + 2 * SLOTS < chunks && inc_now_s() > end)
			chunks = r + 2 * SLOTS;
		if (wait_window(c, r) || one_packet(c, r)) {
			stop = true;
			break;
		}
	}
	return NULL;
}

static int parallel(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, CHILDREN, 4, 256, SLOTS);
	struct child child[CHILDREN] = {0};
	pthread_t thread[CHILDREN];
	struct inc_counters counters;
	uint64_t last = 0;
	uint32_t i, n;

	RUN(!cm);
	for (n = 0; n < CHILDREN; n++) {
		child[n] = (struct child){.u = u, .cm = cm, .number = n};
		if (pthread_create(&thread[n], NULL, run_child, &child[n])) {
			stop = true;
			snprintf(u->why, sizeof(u->why), "no thread");
			break;
		}
	}
	for (i = 0; i < n; i++) {
		pthread_join(thread[i], NULL);
		last += child[i].last;
		if (child[i].why[0] && !u->why[0])
			snprintf(u->why, sizeof(u->why), "child %u: %s", i, child[i].why);
	}
	RUN(stop);
	if (inc_switch_read_counters(u->sw, &counters, NULL) || !counters.balanced ||
	    counters.received != CHILDREN * chunks || counters.multicast != chunks ||
	    last != chunks) {
		snprintf(u->why, sizeof(u->why),
			 "received %llu, multicast %llu, last arrivers %llu of %llu chunks",
			 (unsigned long long)counters.received,
			 (unsigned long long)counters.multicast, (unsigned long long)last,
			 (unsigned long long)chunks);
		return -1;
	}
	return 0;
}

int main(void)
{
	static struct unit u;

	if (unit_start(&u, "xdp_parallel", 16384, false))
		return report_exit();
	if (parallel(&u))
		report_fail("xdp_parallel", "%s", u.why);
	else
		report_ok("xdp_parallel (%llu chunks of %d children on %d CPUs)",
			  (unsigned long long)chunks, CHILDREN, u.cpus);
	unit_stop(&u);
	return report_exit();
}
