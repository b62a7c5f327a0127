// SPDX-License-Identifier: BSD-2-Clause
/*
 * Cases that BPF_PROG_TEST_RUN cannot create, run natively only. The egress program gets frames
 * that it must drop, and copies whose bytes the kernel shares. Other cases have queues that no veth
 * has, and ICRCs that are not checked.
 */
#include <stdlib.h>
#include <string.h>
#include "native.h"
#include "selftests/unit/cases.h"
#include "harness_native_twin.h"

#define ROWS   4096
#define LENGTH 200

static struct unit u;
static struct native_twin t;

static void check(const char *name, bool good)
{
	if (good)
		report_ok("%s", name);
	else
		report_fail(name, "it is otherwise");
}

static void constants(bool check_icrc, bool generic)
{
	native_set(&(struct native_constants){
		.places = t.maps.places, .check_icrc = check_icrc, .generic = generic});
}

/* The verdict of the egress program for a frame of this length, EtherType and opcode. */
static int leaves(uint32_t len, uint16_t ethertype, uint8_t opcode)
{
	uint8_t frame[LENGTH] = {};
	struct native_out out;

	put16(frame + 12, ethertype);
	frame[FRAME_BTH] = opcode;
	native_egress(&t.maps, u.port[0], frame, len, &out);
	if (out.verdict == XDP_PASS && (out.len != len || memcmp(out.frame, frame, len)))
		return -1;
	return out.verdict;
}

static void egress_of_others(void)
{
	constants(true, false);
	check("frame_of_others_leaves_as_it_is", leaves(LENGTH, 0x0800, 0) == XDP_PASS);
	check("short_frame_leaves_as_it_is", leaves(20, 0, 0) == XDP_PASS);
}

static void shared_copies(void)
{
	const uint64_t before = t.maps.counter[INC_CTR_X_COPY_DROP];
	bool told;

	constants(true, true);
	inc_copies_shared = 0;
	/* the frame looks like a template but is none any more, because its check does not match */
	check("shared_template_is_dropped", leaves(LENGTH, 0, 0) == XDP_DROP);
	told = t.maps.events == 1 && t.maps.event[0].type == INC_EVENT_COPIES_SHARED;
	check("it_is_told_and_known", told && inc_copies_shared == 1);
	check("shared_copy_is_dropped",
	      leaves(LENGTH, 0x0800, INC_OP_SEND_ONLY) == XDP_DROP && !t.maps.events);
	check("both_are_counted", t.maps.counter[INC_CTR_X_COPY_DROP] == before + 2);
	check("answer_leaves_as_it_is", leaves(LENGTH, 0x0800, INC_OP_ACK) == XDP_PASS);
	check("short_frame_is_no_copy", leaves(20, 0x0800, 0) == XDP_PASS);
	inc_copies_shared = 0;
	constants(true, false);
}

/* The slow path's socket is chosen by port and queue. Beyond the queues of a port there is no
 * socket. */
static void queues(struct ref_comm *cm)
{
	struct native_out out;
	struct frame f;
	uint64_t before;

	unit_ack(cm, 1, INC_AETH_NAK_SEQ, cm->conn[1].cfg.own.psn, &f);
	t.maps.port[0] = (struct native_port){.ifindex = cm->conn[1].cfg.ifindex};
	t.maps.xsk = true;
	t.maps.rx_queue = INC_PORT_QUEUES - 1;
	native_switch(&t.maps, cm->conn[1].cfg.ifindex, f.data, f.len, &out);
	check("last_queue", out.verdict == XDP_REDIRECT && out.to == NATIVE_SLOW_PATH);
	before = t.maps.counter[INC_CTR_DROP_NO_SLOWPATH];
	t.maps.rx_queue = INC_PORT_QUEUES;
	native_switch(&t.maps, cm->conn[1].cfg.ifindex, f.data, f.len, &out);
	check("queue_beyond",
	      out.verdict == XDP_DROP && t.maps.counter[INC_CTR_DROP_NO_SLOWPATH] == before + 1);
	t.maps.rx_queue = 0;
}

/* If the ICRC check is off, which is for measurements only, a damaged packet counts. */
static void unchecked(struct ref_comm *cm)
{
	struct unit_packet p = {
		.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC, .ackreq = true};
	struct native_out out;
	struct frame f;
	int checked;

	unit_data(cm, 0, &p, &f);
	f.data[f.len - 1] ^= 1;
	native_switch(&t.maps, cm->conn[0].cfg.ifindex, f.data, f.len, &out);
	checked = out.verdict;
	constants(false, false);
	native_switch(&t.maps, cm->conn[0].cfg.ifindex, f.data, f.len, &out);
	check("icrc_that_is_not_looked_at", checked == XDP_DROP && out.verdict == XDP_TX);
	constants(true, false);
}

/* A device whose packets arrive with marks gets CNPs, but none too soon after another one. */
static void paced_cnps(struct ref_comm *cm)
{
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC};
	struct inc_conn_cfg *cfg = &t.maps.conn_cfg[cm->cfg.conn_base];
	const uint64_t *counter = t.maps.counter, before = counter[INC_CTR_ANS_CNP];
	uint8_t payload[INC_MAX_PAYLOAD];
	struct native_out out;
	struct frame_spec s;
	struct frame f;

	cfg->peer.kind = INC_ENDPOINT_VERBS;
	for (p.r = 1; p.r < 7; p.r++) {
		unit_data_spec(cm, 0, &p, &s, payload);
		s.tos = 0x6b;
		frame_build(&f, &s);
		/* two times of 65 us each fit here; one CNP is due when the time is over */
		native_step_ns = p.r == 1 ? 1 << 20 : 30000;
		native_switch(&t.maps, cfg->ifindex, f.data, f.len, &out);
	}
	check("cnps_are_paced", counter[INC_CTR_ANS_CNP] == before + 2);
	cfg->peer.kind = INC_ENDPOINT_SOFT;
	native_step_ns = 1 << 20;
}

/* A communicator has a CPU: which packets go there, and which CPU counts them as handled. */
static void steering(struct ref_comm *cm)
{
	const uint32_t ifindex = cm->conn[1].cfg.ifindex;
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC};
	const uint64_t *counter = t.maps.counter;
	struct inc_queue *queue = &t.maps.queue[1];
	struct inc_route *routes = calloc(t.maps.max_comms, sizeof(*routes));
	struct inc_route *route = routes ? &routes[cm->index] : NULL;
	struct native_out out;
	struct frame f;

	if (!routes) {
		report_fail("steering", "no memory");
		return;
	}
	native_set(&(struct native_constants){
		.places = t.maps.places, .check_icrc = true, .steers = true});
	t.maps.route = routes;
	unit_data(cm, 1, &p, &f);
	route->word = 2ull << INC_ROUTE_CPU_SHIFT;
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("goes_to_another_cpu", out.verdict == XDP_REDIRECT && out.to == NATIVE_CPU &&
					     counter[INC_CTR_X_STEERED] == 1 && queue->put == 1);
	t.maps.cpu = 1;
	native_steered(&t.maps, ifindex, f.data, f.len, &out);
	check("is_handled_there", out.verdict == XDP_REDIRECT && out.to == NATIVE_PORTS_OF_COMM &&
					  route->done == 1 && queue->taken == 1);
	native_steered(&t.maps, ifindex, f.data, f.len, &out);
	check("answer_cannot_leave_by_tx",
	      out.verdict == XDP_DROP && route->done == 2 && counter[INC_CTR_ANS_DUPLICATE] == 1);
	route->word++; /* the packet left the queue twice, so it must count twice */
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("is_on_its_cpu_already",
	      out.verdict == XDP_TX && route->done == 3 && inc_route_count(route->word) == 3);
	route->word++; /* an older packet is in the queue */
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("follows_older_packets", out.verdict == XDP_REDIRECT && out.to == NATIVE_CPU &&
					       route->done == 3 && queue->put == 2);
	t.maps.cpu = 0;
	queue->taken = queue->put - INC_QUEUE_ROOM;
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("queue_is_full", out.verdict == XDP_DROP && counter[INC_CTR_DROP_QUEUE_FULL] == 1 &&
				       route->refused == 1);
	route->word = (NATIVE_CPUS + 1ull) << INC_ROUTE_CPU_SHIFT;
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("no_such_cpu", out.verdict == XDP_DROP && route->refused == 2);
	route->word = 0;
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("any_cpu", out.verdict == XDP_TX && route->done == 3);
	unit_ack(cm, 1, INC_AETH_NAK_SEQ, cm->conn[1].cfg.own.psn, &f);
	native_switch(&t.maps, ifindex, f.data, f.len, &out);
	check("nak_stays", out.to == NATIVE_SLOW_PATH && inc_route_count(route->word) == 1);
	constants(true, false);
	free(routes);
}

int main(void)
{
	struct ref_comm *cm;

	if (native_open() || unit_start(&u, "alone", ROWS, false))
		return report_exit();
	cm = native_twin_open(&t, &u) ? NULL : case_comm(&u, 2, 2, 256, 8);
	if (!cm || native_twin_follow(&t, cm)) {
		report_fail("alone", "%s", u.why);
	} else {
		egress_of_others();
		shared_copies();
		queues(cm);
		unchecked(cm);
		steering(cm);
		paced_cnps(cm);
	}
	native_twin_close(&t);
	unit_stop(&u);
	return report_exit();
}
