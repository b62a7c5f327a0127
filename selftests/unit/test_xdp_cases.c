// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* The XDP program against the reference, case by case. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include "cases.h"
#include "unit.h"
#include "loader/inc_loader_priv.h"
#include "loader/inc_state.h"

/* The counts of a communicator's packets, and of the queue to its CPU. */
struct way {
	uint64_t counted, refused, put;
};

static struct way way_of(const struct unit *u, const struct ref_comm *cm)
{
	const struct inc_route *route = &inc_switch_routes(u->sw)[cm->index];

	return (struct way){.counted = inc_route_count(route->word),
			    .refused = route->refused,
			    .put = inc_switch_queues(u->sw)[u->steer_to].put};
}

/* Runs a frame, and expects that it ends on this counter and moves the counts by as much. */
static int expect(struct unit *u, const struct ref_comm *cm, const struct frame *f,
		  enum inc_counter_id counter, struct way more)
{
	const struct xdp_md md = {.data_end = f->len, .ingress_ifindex = cm->conn[0].cfg.ifindex};
	const struct way was = way_of(u, cm);
	uint64_t before[INC_CTR_MAX], after[INC_CTR_MAX];
	uint32_t verdict, i;
	struct way is;

	RUN(compare_read_counters(u, before) || unit_run_program(u, f, &md, &verdict));
	RUN(compare_read_counters(u, after));
	is = way_of(u, cm);
	for (i = 0; i < INC_CTR_MAX; i++)
		if (after[i] - before[i] != (i == INC_CTR_RX || i == counter)) {
			snprintf(u->why, sizeof(u->why), "%s rose by %llu, meant for %s",
				 inc_counter_info[i].name,
				 (unsigned long long)(after[i] - before[i]),
				 inc_counter_info[counter].name);
			return -1;
		}
	if (is.counted - was.counted == more.counted && is.refused - was.refused == more.refused &&
	    is.put - was.put == more.put &&
	    verdict == (counter == INC_CTR_X_STEERED ? XDP_REDIRECT : XDP_DROP))
		return 0;
	snprintf(u->why, sizeof(u->why), "%s: verdict %u, counted %llu, refused %llu, queued %llu",
		 inc_counter_info[counter].name, verdict,
		 (unsigned long long)(is.counted - was.counted),
		 (unsigned long long)(is.refused - was.refused),
		 (unsigned long long)(is.put - was.put));
	return -1;
}

/* Forgets the packets that are counted as steered. In a test run nothing takes them from the queue,
 * so they end on no counter. */
static int forget_steered(struct unit *u)
{
	const uint32_t rx = INC_CTR_RX, steered = INC_CTR_X_STEERED;
	uint64_t *value = u->counter_buf, n;

	RUN(bpf_map_lookup_elem(u->counter_fd, &steered, value));
	n = value[u->cpu];
	value[u->cpu] = 0;
	RUN(bpf_map_update_elem(u->counter_fd, &steered, value, BPF_ANY));
	RUN(bpf_map_lookup_elem(u->counter_fd, &rx, value));
	value[u->cpu] -= n;
	RUN(bpf_map_update_elem(u->counter_fd, &rx, value, BPF_ANY));
	inc_switch_queues(u->sw)[u->steer_to].taken = inc_switch_queues(u->sw)[u->steer_to].put;
	unit_forgive(u);
	return 0;
}

/* Packets go to the CPU of their communicator, and nothing else changes. NAKs do not go there, and
 * neither do packets that the port's program can reject by itself. */
static int goes_to_its_cpu(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	const struct way queued = {.counted = 1, .put = 1};
	struct frame_spec s;
	struct frame f;
	int tags;

	RUN(!cm);
	unit_data(cm, 0, &p, &f);
	for (tags = 0; tags < 2; tags++) {
		RUN(expect(u, cm, &f, INC_CTR_X_STEERED, queued));
		if (u->out_frame.len != f.len || memcmp(u->out_frame.data, f.data, f.len)) {
			snprintf(u->why, sizeof(u->why), "the frame was changed on its way");
			return -1;
		}
		frame_tag(&f, 3 << 13 | 1 << 12); /* the priority, and DEI */
	}
	unit_ack(cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn, &f);
	RUN(expect(u, cm, &f, INC_CTR_X_STEERED, queued));
	unit_ack(cm, 0, INC_AETH_NAK_SEQ, cm->conn[0].cfg.own.psn, &f);
	RUN(expect(u, cm, &f, INC_CTR_DROP_NO_SLOWPATH, (struct way){}));
	unit_ack_spec(cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn, &s);
	s.pkey ^= 1;
	frame_build(&f, &s);
	RUN(expect(u, cm, &f, INC_CTR_DROP_PKEY, (struct way){}));
	RUN(forget_steered(u));
	/* the NAK is the only packet that the connection has seen */
	cm->conn[0].state = inc_switch_conn_state(u->sw)[cm->cfg.conn_base];
	return cm->conn[0].state.naks_received == 1 && !cm->conn[0].state.rx_next ? 0 : -1;
}

/* A packet that finds no room in the queue, or no queue, is dropped and leaves no trace in it. */
static int finds_no_room(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	struct inc_queue *queue = &inc_switch_queues(u->sw)[u->steer_to];
	int cpus = inc_switch_map_fd(u->sw, INC_MAP_CPU);
	struct frame f;

	RUN(!cm);
	unit_data(cm, 0, &p, &f);
	queue->taken = queue->put + 1 - INC_QUEUE_ROOM;
	RUN(expect(u, cm, &f, INC_CTR_X_STEERED, (struct way){.counted = 1, .put = 1}));
	RUN(expect(u, cm, &f, INC_CTR_DROP_QUEUE_FULL, (struct way){.counted = 1, .refused = 1}));
	queue->taken = queue->put;
	RUN(expect(u, cm, &f, INC_CTR_X_STEERED, (struct way){.counted = 1, .put = 1}));
	RUN(bpf_map_delete_elem(cpus, &u->steer_to));
	RUN(expect(u, cm, &f, INC_CTR_DROP_CONFIG, (struct way){.counted = 1, .refused = 1}));
	return forget_steered(u);
}

/* A packet on the CPU of its communicator stays behind those that wait in the queue. */
static int does_not_overtake(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	struct inc_route *route = &inc_switch_routes(u->sw)[cm ? cm->index : 0];
	const int other = u->steer_to;
	struct frame f;
	int ret;

	RUN(!cm);
	unit_data(cm, 0, &p, &f);
	/* one packet waits, and another one was refused */
	route->word = ((uint64_t)u->cpu + 1) << INC_ROUTE_CPU_SHIFT | 2;
	route->refused = 1;
	u->steer_to = u->cpu;
	ret = expect(u, cm, &f, INC_CTR_X_STEERED, (struct way){.counted = 1, .put = 1}) ||
	      forget_steered(u);
	u->steer_to = other;
	RUN(ret);
	route->done = 2; /* both were handled, so the CPU handles the next one at once */
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
	return case_expect(u, INC_CTR_ABS_STORED);
}

static int wrong_move(struct unit *u, const char *what)
{
	snprintf(u->why, sizeof(u->why), "%s", what);
	return -1;
}

/* A communicator moves only if none of its packets is under way, and none has come meanwhile. */
static int moves_when_idle(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct inc_route *route = &inc_switch_routes(u->sw)[cm ? cm->index : 0];
	uint64_t word;

	RUN(!cm);
	route->word += 7;
	route->done = 5;
	route->refused = 1;
	if (inc_switch_route_idle(u->sw, cm->index, &word))
		return wrong_move(u, "a communicator with a packet under way is idle");
	route->done++;
	if (!inc_switch_route_idle(u->sw, cm->index, &word))
		return wrong_move(u, "a communicator without packets is not idle");
	route->word++;
	if (inc_switch_move_comm(u->sw, cm->index, word, u->cpu))
		return wrong_move(u, "a communicator moved although a packet has come");
	route->done++;
	if (!inc_switch_route_idle(u->sw, cm->index, &word) ||
	    !inc_switch_move_comm(u->sw, cm->index, word, u->cpu) ||
	    inc_switch_cpu_of(u->sw, cm->index) != u->cpu || inc_route_count(route->word) != 8)
		return wrong_move(u, "an idle communicator did not move");
	return 0;
}

/* Of two busy communicators on one CPU, the idle one moves. While both have packets under way,
 * neither does. */
static int moves_by_load(struct unit *u)
{
	struct ref_comm *a = case_comm(u, 2, 2, 256, 8), *b = case_comm(u, 2, 2, 256, 8);
	struct inc_route *routes = inc_switch_routes(u->sw);
	uint32_t i;

	RUN(!a || !b);
	for (i = 0; i < 4; i++) {
		routes[a->index].word += 40000;
		routes[b->index].word += 30000;
		inc_switch_balance(u->sw);
	}
	if (inc_switch_cpu_of(u->sw, a->index) != u->steer_to ||
	    inc_switch_cpu_of(u->sw, b->index) != u->steer_to)
		return wrong_move(u, "a communicator moved with packets under way");
	routes[a->index].done = inc_route_count(routes[a->index].word);
	routes[b->index].done = inc_route_count(routes[b->index].word);
	inc_switch_balance(u->sw);
	if (inc_switch_cpu_of(u->sw, a->index) == inc_switch_cpu_of(u->sw, b->index))
		return wrong_move(u, "both stay on one CPU");
	for (i = 0; i < 4; i++)
		inc_switch_balance(u->sw);
	if (inc_switch_cpu_of(u->sw, a->index) == inc_switch_cpu_of(u->sw, b->index))
		return wrong_move(u, "both are on one CPU again");
	return 0;
}

/* The packets that a predecessor has counted are no load. After a second without a packet, a
 * communicator is idle although some packet ended before it was counted as handled. */
static int settles(struct unit *u)
{
	struct ref_comm *a = case_comm(u, 2, 2, 256, 8), *b = case_comm(u, 2, 2, 256, 8);
	struct inc_route *routes = inc_switch_routes(u->sw);
	struct inc_queue *queue = &inc_switch_queues(u->sw)[u->steer_to];
	uint64_t word;

	RUN(!a || !b);
	routes[a->index].word += 40000;
	routes[b->index].word += 30000;
	routes[a->index].done = 40000;
	routes[b->index].done = 29999;
	inc_steer_adopt(u->sw);
	queue->put++;
	inc_switch_balance(u->sw);
	if (inc_switch_cpu_of(u->sw, a->index) != u->steer_to ||
	    inc_switch_cpu_of(u->sw, b->index) != u->steer_to)
		return wrong_move(u, "a communicator without packets moved");
	if (inc_switch_route_idle(u->sw, b->index, &word))
		return wrong_move(u, "a communicator is idle while the queue has packets");
	queue->put--;
	inc_switch_balance(u->sw);
	if (!inc_switch_route_idle(u->sw, b->index, &word))
		return wrong_move(u, "a communicator is never idle again");
	return 0;
}

/* Packets that the kernel has dropped are put and never taken. */
static int corrects_a_queue(struct unit *u)
{
	struct inc_queue *queue = &inc_switch_queues(u->sw)[u->steer_to];

	queue->put += INC_QUEUE_ROOM;
	inc_switch_balance(u->sw);
	queue->put++;
	inc_switch_balance(u->sw);
	if (queue->put == queue->taken)
		return wrong_move(u, "a queue that changes counts as empty");
	inc_switch_balance(u->sw);
	if (queue->put != queue->taken)
		return wrong_move(
			u, "a queue that has stood still for a second does not count as empty");
	return 0;
}

static const struct unit_case cases_steering[] = {
	{"goes_to_its_cpu", goes_to_its_cpu},     {"finds_no_room", finds_no_room},
	{"does_not_overtake", does_not_overtake}, {"moves_when_idle", moves_when_idle},
	{"moves_by_load", moves_by_load},         {"settles", settles},
	{"corrects_a_queue", corrects_a_queue},   {},
};

/* Cases of a switch whose communicators have CPUs. */
static void run_steering(void)
{
	static struct unit u;

	u.steers = true;
	if (unit_start(&u, "xdp_cases", 16384, false))
		return;
	/* any other CPU: the programs only name it, because nothing is redirected in a test run */
	for (u.steer_to = 0; u.steer_to == u.cpu; u.steer_to++)
		;
	if (u.steer_to < u.cpus)
		cases_run(&u, cases_steering, ", steered");
	else
		report_skip("steering", "this machine has one CPU");
	unit_stop(&u);
}

/* Runs all cases, or only loads the program. how: a suffix for their names. */
static void run_all(bool order_stores, bool load_only, const char *how)
{
	static struct unit u;

	u.order_stores = order_stores;
	/* communicators whose CPU is this one, so that nothing else changes */
	u.steers = order_stores;
	if (unit_start(&u, "xdp_cases", 16384, false))
		return;
	if (load_only)
		report_ok("load%s", how);
	else
		cases_run_all(&u, how);
	unit_stop(&u);
}

int main(void)
{
	run_all(false, false, "");
	/* The variant of the program for CPUs that reorder stores. vm/test_unit sets the
	 * environment variable, because an emulated machine is slow. */
	run_all(true, getenv("UNIT_LOAD_ORDERED"), ", stores in order");
	run_steering();
	return report_exit();
}
