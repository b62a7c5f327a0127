// SPDX-License-Identifier: BSD-2-Clause
/*
 * Children on several CPUs send at once. Chance decides which of them is the last of a chunk, but
 * exactly one must be the last, and its sum must include all contributions. Afterwards the switch
 * is below a parent, which answers each partial sum as soon as it exists, on any CPU.
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

#define CHILDREN 4
/* so many chunks, because a lost arrival bit shows only after tens of thousands */
#define CHUNKS     100000
#define SLOTS      8
#define LEN        64
#define DEADLINE_S 20
#define TIME_S     10

struct child {
	struct unit *u;
	struct ref_comm *cm;
	uint32_t number; /* number of the child; CHILDREN: this is the parent */
	/* number of chunks of which this child was the last arriver; for the parent: number of its
	 * results */
	uint64_t last;
	char why[256];
};

static atomic_bool stop;
/* number of chunks to run, which is reduced if the machine is slow */
static _Atomic uint64_t chunks = CHUNKS;

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

/* Checks the sum of chunk r. Its row is stable until this child sends chunk r + SLOTS, so it can be
 * read safely. */
static int check_sum(struct child *c, uint64_t r)
{
	const struct inc_buf *row = inc_switch_sums(c->u->sw) + c->cm->cfg.sum_base + r % SLOTS;
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

/* Waits until the child's window is open again, or until the partial sum exists for the parent. */
static int wait_turn(struct child *c, uint64_t r)
{
	const struct inc_comm_state *st = &inc_switch_comm_state(c->u->sw)[c->cm->index];
	const bool parent = c->number == CHILDREN;
	const volatile __u64 *next = parent ? &st->up_next : &st->tx_next;
	time_t deadline = inc_now_s() + DEADLINE_S;

	while (*next + (parent ? 0 : SLOTS) <= r) {
		if (stop)
			return -1;
		if (parent && r >= chunks)
			return 1;
		if (inc_now_s() > deadline) {
			snprintf(c->why, sizeof(c->why), "no %s %llu in %d s",
				 parent ? "partial sum" : "result",
				 (unsigned long long)(parent ? r : r - SLOTS), DEADLINE_S);
			return -1;
		}
		sched_yield();
	}
	return parent ? check_sum(c, r) : 0;
}

/* Checks the stored result of the parent. It is stable in its row until the parent sends chunk r +
 * SLOTS. */
static int check_kept(struct child *c, uint64_t r, const uint8_t *payload)
{
	const struct inc_buf *row =
		inc_switch_kept(c->u->sw) + c->cm->cfg.kept_base + CHILDREN * SLOTS + r % SLOTS;

	if (row->r == r && row->len == LEN && !memcmp(row->payload, payload, LEN))
		return 0;
	snprintf(c->why, sizeof(c->why), "the parent's result %llu was not kept (r %llu, %u bytes)",
		 (unsigned long long)r, (unsigned long long)row->r, row->len);
	return -1;
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
		return c->number == CHILDREN ? check_kept(c, r, payload) : check_sum(c, r);
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

	/* the suite is bound to one CPU, but this test needs several */
	CPU_ZERO(&cpus);
	for (cpu = 0; cpu < c->u->cpus && cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (r = 0; r < chunks && !stop; r++) {
		/* no thread is further ahead of another thread than the window */
		if (c->number == 0 && r % 256 == 0 && r + 2 * SLOTS < chunks && inc_now_s() > end)
			chunks = r + 2 * SLOTS;
		int turn = wait_turn(c, r);

		if (turn > 0)
			break;
		if (turn || one_packet(c, r)) {
			stop = true;
			break;
		}
	}
	return NULL;
}

static struct ref_comm *add_comm(struct unit *u, bool parent)
{
	struct inc_comm_conf spec;

	unit_spec(u, &spec, 1 + parent, CHILDREN, 4, 256, SLOTS);
	if (parent)
		unit_spec_parent(u, &spec, 0);
	return unit_add_comm(u, &spec);
}

/* Compares the counters' increments with the expected ones. */
static int check_counters(struct unit *u, const struct inc_counters *before, uint64_t last,
			  uint32_t threads)
{
	/* number of frames that the switch sends on for each chunk */
	const uint32_t frames = threads - CHILDREN + 1;
	struct inc_counters now;

	if (inc_switch_read_counters(u->sw, &now, NULL) || !now.balanced ||
	    now.received - before->received != threads * chunks ||
	    now.multicast - before->multicast != frames * chunks || last != frames * chunks) {
		snprintf(u->why, sizeof(u->why),
			 "received %llu, multicast %llu, last arrivers %llu of %llu chunks",
			 (unsigned long long)(now.received - before->received),
			 (unsigned long long)(now.multicast - before->multicast),
			 (unsigned long long)last, (unsigned long long)chunks);
		return -1;
	}
	return 0;
}

static int parallel(struct unit *u, bool parent)
{
	struct ref_comm *cm = add_comm(u, parent);
	const uint32_t threads = CHILDREN + parent;
	struct child child[CHILDREN + 1] = {0};
	pthread_t thread[CHILDREN + 1];
	struct inc_counters before;
	uint64_t last = 0;
	uint32_t i, n;

	RUN(!cm || inc_switch_read_counters(u->sw, &before, NULL));
	chunks = CHUNKS;
	for (n = 0; n < threads; n++) {
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
			snprintf(u->why, sizeof(u->why), "%s %u: %s",
				 i == CHILDREN ? "parent" : "child", i, child[i].why);
	}
	RUN(stop);
	return check_counters(u, &before, last, threads);
}

int main(void)
{
	static struct unit u;
	int parent;

	if (unit_start(&u, "xdp_parallel", 16384, false))
		return report_exit();
	for (parent = 0; parent < 2; parent++) {
		const char *name = parent ? "xdp_parallel_below_a_parent" : "xdp_parallel";

		if (parallel(&u, parent)) {
			report_fail(name, "%s", u.why);
			break;
		}
		report_ok("%s (%llu chunks of %d children on %d CPUs)", name,
			  (unsigned long long)chunks, CHILDREN, u.cpus);
	}
	unit_stop(&u);
	return report_exit();
}
