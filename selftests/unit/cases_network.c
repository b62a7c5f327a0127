// SPDX-License-Identifier: BSD-2-Clause
/* Cases of what networks add to packets and the ICRC does not cover: tags of VLANs and priorities,
 * and marks of congestion. Also the cases of reports of such marks. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/base/clock.h"
#include "lib/proto/frame.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"
#include "loader/inc_raw.h"
#include "loader/inc_state.h"
#include "cases.h"

/* ---- tags ---- */

/* Puts a child, or the parent, into a VLAN, as the loader does for a port that is a VLAN device.
 * pcp: the configured priority; -1: it is mirrored. */
static int put_in_vlan(struct unit *u, struct ref_comm *cm, uint32_t child, uint16_t vlan, int pcp)
{
	const uint32_t conn = cm->cfg.conn_base + child;
	struct ref_conn *c = &cm->conn[child];

	c->cfg.tag = vlan | (pcp < 0 ? 0 : pcp << INC_TAG_PCP_SHIFT);
	c->cfg.flags |= pcp < 0 ? 0 : INC_CONN_F_PCP;
	c->state.tag = vlan ? c->cfg.tag | INC_TAG_PRESENT : 0;
	inc_switch_conn_state(u->sw)[conn].tag = c->state.tag;
	return inc_switch_map_set(u->sw, INC_MAP_CONN_CFG, &conn, &c->cfg, BPF_ANY, NULL);
}

/* Runs packet r of a child, or of the parent, with these bits in its tag; bits < 0: without one. */
static int tagged(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, int bits,
		  enum inc_counter_id want)
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = 16,
				.desc = CASE_DESC,
				.ackreq = true};
	struct frame f;

	unit_data(cm, child, &p, &f);
	if (bits >= 0)
		frame_tag(&f, bits);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex) || case_expect(u, want) ? -1 : 0;
}

static struct frame with_tag(struct frame f, uint16_t bits)
{
	frame_tag(&f, bits);
	return f;
}

/* Expects that the frame has a tag with these bits; bits < 0: no tag. */
static int has_tag(struct unit *u, const struct frame *f, int bits)
{
	const int have = get16(f->data + 12) == 0x8100 ? get16(f->data + 14) : -1;

	if (have == bits)
		return 0;
	snprintf(u->why, sizeof(u->why), "tag %#x, meant to be %#x", have, bits);
	return -1;
}

/* ACKs, NAKs and results in a VLAN have its tag, with the priority of the child to which they go.
 * The reference compares the frames byte by byte. */
static int vlan_mirrored(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct frame copy;
	uint32_t verdict;

	RUN(!cm || put_in_vlan(u, cm, 0, 5, -1));
	RUN(tagged(u, cm, 0, 1, 5 | 3 << 13, INC_CTR_ANS_NAK_SEQ));
	RUN(has_tag(u, &u->out_frame, 5 | 3 << 13));
	/* DEI marks what routers may drop, and is not copied */
	RUN(tagged(u, cm, 0, 0, 5 | 6 << 13 | 1 << 12, INC_CTR_ANS_ACK));
	RUN(has_tag(u, &u->out_frame, 5 | 6 << 13));
	RUN(tagged(u, cm, 1, 0, -1, INC_CTR_MC_RESULT));
	RUN(egress_run(u, cm->conn[0].cfg.ifindex, &copy, &verdict));
	u->ref.counter[INC_CTR_X_COPY]++;
	RUN(has_tag(u, &copy, 5 | 6 << 13));
	RUN(egress_run(u, cm->conn[1].cfg.ifindex, &copy, &verdict));
	u->ref.counter[INC_CTR_X_COPY]++;
	RUN(has_tag(u, &copy, -1));
	RUN(tagged(u, cm, 0, 1, 5, INC_CTR_ANS_ACK));
	return has_tag(u, &u->out_frame, 5);
}

/* A priority tag counts as none, but what goes to its sender has the same. */
static int priority_tag(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t r;

	RUN(!cm);
	for (r = 0; r < 8; r++) {
		RUN(tagged(u, cm, 0, r, r << 13 | (r & 1) << 12, INC_CTR_ANS_ACK));
		RUN(has_tag(u, &u->out_frame, r << 13));
		RUN(tagged(u, cm, 1, r, -1, INC_CTR_MC_RESULT));
	}
	RUN(tagged(u, cm, 0, r, -1, INC_CTR_ANS_ACK));
	return has_tag(u, &u->out_frame, -1);
}

/* Packets of another VLAN, without a tag, or with two tags belong to no connection. The kernel gets
 * them unchanged, which unit_run() checks. */
static int vlan_wrong(struct unit *u)
{
	static const int bits[] = {-1, 0, 3 << 13, 4, 6, 0x105, 0xfff, 0xf004, 0x1006};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	struct frame f;
	uint32_t i;

	RUN(!cm || put_in_vlan(u, cm, 0, 5, -1));
	for (i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
		RUN(tagged(u, cm, 0, 0, bits[i], INC_CTR_PASS_VLAN));
	/* the other child is in no VLAN */
	RUN(tagged(u, cm, 1, 0, 5, INC_CTR_PASS_VLAN));
	unit_data(cm, 0, &p, &f);
	frame_tag(&f, 5);
	frame_tag(&f, 7);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_QINQ));
	put16(f.data + 12, 0x88a8);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_QINQ));
	put16(f.data + 12, 0x8100);
	put16(f.data + 16, 0x88a8);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_QINQ));
	frame_untag(&f);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_QINQ));
	return tagged(u, cm, 0, 0, 5, INC_CTR_ANS_ACK);
}

/* Every length of a tagged frame, of which only the full one is a packet. */
static int vlan_cut(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	struct frame f, cut;

	RUN(!cm || put_in_vlan(u, cm, 0, 5, -1));
	unit_data(cm, 0, &p, &f);
	frame_tag(&f, 5);
	for (cut = f, cut.len = FRAME_MIN_RUN; cut.len < f.len; cut.len++)
		RUN(unit_run(u, &cut, cm->conn[0].cfg.ifindex));
	return unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ABS_STORED) ? -1
											      : 0;
}

/* A configured priority does not follow the child's packets. */
static int pcp_configured(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);

	RUN(!cm || put_in_vlan(u, cm, 0, 4094, 2) || put_in_vlan(u, cm, 1, 0, 6));
	RUN(tagged(u, cm, 0, 0, 4094 | 7 << 13, INC_CTR_ANS_ACK));
	RUN(has_tag(u, &u->out_frame, 4094 | 2 << 13));
	/* a peer in no VLAN gets a tag only if it sends one */
	RUN(tagged(u, cm, 1, 1, -1, INC_CTR_ANS_NAK_SEQ) || has_tag(u, &u->out_frame, -1));
	RUN(tagged(u, cm, 1, 0, 1 << 13, INC_CTR_MC_RESULT));
	RUN(tagged(u, cm, 1, 0, 1 << 13, INC_CTR_ANS_DUPLICATE));
	return has_tag(u, &u->out_frame, 6 << 13);
}

/* Packets to a parent in a VLAN have the priority of child 0's packets, and before its first packet
 * 0. The parent's own priority counts only in no VLAN. */
static int vlan_of_parent(struct unit *u)
{
	static const uint8_t parent_mac[6] = "\x02\x0e\x0e\x0e\x0e\x05";
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint64_t r;

	unit_spec(u, &spec, 6200, 2, 2, 256, 8);
	unit_spec_parent(u, &spec, 3);
	memcpy(spec.conn[2].peer_mac, parent_mac, 6);
	cm = unit_add_comm(u, &spec);
	RUN(!cm || put_in_vlan(u, cm, 0, 5, -1) || put_in_vlan(u, cm, 2, 9, -1));
	for (r = 0; r < 4; r++) {
		/* egress_partial() compares the partial sum with that of the reference */
		RUN(tagged(u, cm, 0, r, 5 | r << 13, INC_CTR_ANS_ACK));
		RUN(tagged(u, cm, 1, r, -1, INC_CTR_UP_PARTIAL));
		RUN(tagged(u, cm, 2, r, 9 | 7 << 13, INC_CTR_MC_DOWN));
		RUN(tagged(u, cm, 2, r, 9 | 7 << 13, INC_CTR_ANS_DUPLICATE));
		RUN(has_tag(u, &u->out_frame, 9 | (int)r << 13));
	}
	return 0;
}

/* A damaged packet changes no tag. */
static int tag_of_damaged(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {.r = 1,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = 16,
				.desc = CASE_DESC,
				.ackreq = true};
	struct frame f;

	RUN(!cm || tagged(u, cm, 0, 0, 3 << 13, INC_CTR_ANS_ACK));
	unit_data(cm, 0, &p, &f);
	f.data[f.len - 1] ^= 1;
	frame_tag(&f, 5 << 13);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_ICRC));
	RUN(tagged(u, cm, 0, 1, 3 << 13, INC_CTR_ANS_ACK));
	return has_tag(u, &u->out_frame, 3 << 13);
}

/* A port in a VLAN answers echo requests of that VLAN alone. A packet of another VLAN may have an
 * address of the switch as its source. */
static int echo_in_vlan(struct unit *u)
{
	const int ports = inc_switch_map_fd(u->sw, INC_MAP_PORT);
	struct inc_port value = {.ip = htonl(0x0a6300fe), .vlan = 5};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	struct frame_spec s;
	struct frame f, t;
	int ret;

	RUN(!cm || bpf_map_update_elem(ports, &u->port[1], &value, BPF_ANY));
	u->ref.echo_ip = value.ip;
	u->ref.echo_vlan = value.vlan;
	u->ref.echo_ifindex = u->port[1];
	case_echo(value.ip, &s);
	frame_build(&f, &s);
	t = with_tag(f, 5 | 4 << 13);
	ret = unit_run(u, &t, u->port[1]) || case_expect(u, INC_CTR_ANS_ECHO) ||
	      has_tag(u, &u->out_frame, 5 | 4 << 13);
	ret = ret || unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_PASS_NO_CONN);
	t = with_tag(f, 6);
	ret = ret || unit_run(u, &t, u->port[1]) || case_expect(u, INC_CTR_PASS_NO_CONN);
	s.saddr = cm->conn[0].cfg.own.ip;
	frame_build(&f, &s);
	t = with_tag(f, 5);
	ret = ret || unit_run(u, &t, u->port[1]) || case_expect(u, INC_CTR_DROP_OWN_ADDR);
	/* also if the frame ends anywhere behind its addresses */
	for (t.len = FRAME_UDP + INC_TAG_LEN; t.len <= FRAME_BTH + INC_TAG_LEN; t.len++)
		ret = ret || unit_run(u, &t, u->port[1]) ||
		      (t.len < FRAME_BTH + INC_TAG_LEN && case_expect(u, INC_CTR_DROP_OWN_ADDR));
	t = with_tag(f, 6);
	ret = ret || unit_run(u, &t, u->port[1]) || case_expect(u, INC_CTR_PASS_NO_CONN);
	u->ref.echo_ip = u->ref.echo_ifindex = u->ref.echo_vlan = 0;
	bpf_map_delete_elem(ports, &u->port[1]);
	return ret ? -1 : unit_compare_all(u);
}

const struct unit_case cases_tag[] = {
	{"vlan_mirrored", vlan_mirrored},
	{"priority_tag", priority_tag},
	{"vlan_wrong", vlan_wrong},
	{"vlan_cut", vlan_cut},
	{"pcp_configured", pcp_configured},
	{"vlan_of_parent", vlan_of_parent},
	{"tag_of_damaged", tag_of_damaged},
	{"echo_in_vlan", echo_in_vlan},
	{NULL, NULL},
};

/* ---- marks ---- */

#define MARKED 0x6b /* TOS byte of a packet with CE */
#define CALM   0x6a
#define BECN   0x40

/* Adds a communicator of three children. The first one is an RDMA device if `device` is set, and
 * the last connection is the parent's if `up` is set. */
static struct ref_comm *marked_comm(struct unit *u, bool device, bool up)
{
	static uint32_t communicator = 6200;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, 3, 3, 256, 8);
	spec.conn[0].peer.kind = device ? INC_ENDPOINT_VERBS : INC_ENDPOINT_SOFT;
	if (up) {
		unit_spec_parent(u, &spec, 3);
		memcpy(spec.conn[3].peer_mac, "\x02\x66\0\0\0\x01", 6);
	}
	return unit_add_comm(u, &spec);
}

static struct inc_conn_state *state_of(struct unit *u, const struct ref_comm *cm, uint32_t child)
{
	return inc_switch_conn_state(u->sw) + cm->cfg.conn_base + child;
}

/* Makes the last CNP to a child old enough for another one. */
static void let_pass(struct unit *u, const struct ref_comm *cm, uint32_t child)
{
	state_of(u, cm, child)->cnp_at = (inc_now_ns() >> INC_CNP_TIME_SHIFT) - 10000;
}

/* Runs packet r of a child, or of the parent, that requests no ACK. It has the tag of packets to
 * this peer. */
static int give(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t tos,
		uint8_t becn)
{
	struct unit_packet p = {
		.r = r, .opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;

	let_pass(u, cm, child);
	unit_data_spec(cm, child, &p, &s, payload);
	s.tos = tos;
	s.resv8a = becn;
	frame_build(&f, &s);
	ref_tag(&cm->conn[child], &f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

/* Runs a whole chunk, whose last packet is that of child 2. marked: the children whose packets have
 * marks. */
static int chunk(struct unit *u, struct ref_comm *cm, uint64_t r, uint32_t marked)
{
	uint32_t c;

	for (c = 0; c < cm->cfg.children; c++)
		RUN(give(u, cm, c, r, marked >> c & 1 ? MARKED : CALM, 0));
	return case_expect(u, cm->up ? INC_CTR_UP_PARTIAL : INC_CTR_MC_RESULT);
}

/* Expects how many copies with BECN were made since *before. */
static int reports(struct unit *u, uint64_t *before, uint64_t want)
{
	const uint64_t have = u->ref.counter[INC_CTR_X_BECN] - *before;

	*before += have;
	if (have == want)
		return 0;
	snprintf(u->why, sizeof(u->why), "%llu copies with BECN", (unsigned long long)have);
	return -1;
}

/* A mark is reported to the child whose packet had it, with the next result, and to no other one.
 * The reference compares all bytes of all copies, and so the sums. */
static int marks_reported(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, false, false);
	uint64_t n = u->ref.counter[INC_CTR_X_BECN];
	uint64_t r = 0;
	uint32_t mask, c;

	RUN(!cm);
	for (mask = 0; mask < 8; mask++, r += 2) {
		RUN(chunk(u, cm, r, mask) || reports(u, &n, __builtin_popcount(mask)));
		RUN(chunk(u, cm, r + 1, 0) || reports(u, &n, 0));
	}
	/* one report for many marks, of packets that came before the result */
	for (c = 0; c < 4; c++)
		RUN(give(u, cm, 0, r + c, MARKED, 0) || case_expect(u, INC_CTR_ABS_STORED));
	RUN(give(u, cm, 1, r, CALM, 0) || give(u, cm, 2, r, CALM, 0) || reports(u, &n, 1));
	RUN(give(u, cm, 1, r + 1, CALM, 0) || give(u, cm, 2, r + 1, CALM, 0));
	/* BECN of a child's packet means nothing */
	RUN(give(u, cm, 1, r + 2, CALM, BECN) || give(u, cm, 2, r + 2, CALM, BECN));
	return reports(u, &n, 0);
}

/* An RDMA device gets a CNP, which is made of a packet of this child of which nothing else is made.
 */
static int marks_of_device(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, true, false);
	uint64_t n = u->ref.counter[INC_CTR_X_BECN];

	RUN(!cm);
	RUN(give(u, cm, 0, 0, MARKED, 0) || case_expect(u, INC_CTR_ANS_CNP));
	RUN(give(u, cm, 1, 0, CALM, 0) || case_expect(u, INC_CTR_ABS_STORED));
	RUN(give(u, cm, 2, 0, MARKED, 0) || case_expect(u, INC_CTR_MC_RESULT) || reports(u, &n, 1));
	/* the packet with the mark becomes the result, and a later ACK the CNP */
	RUN(give(u, cm, 1, 1, CALM, 0) || give(u, cm, 2, 1, CALM, 0));
	RUN(give(u, cm, 0, 1, MARKED, 0) || case_expect(u, INC_CTR_MC_RESULT) || reports(u, &n, 0));
	let_pass(u, cm, 0);
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn));
	RUN(case_expect(u, INC_CTR_ANS_CNP));
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn + 1));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	/* an answer goes before the CNP */
	RUN(case_class(u, cm, 0, 2, MARKED) || case_expect(u, INC_CTR_ANS_ACK));
	RUN(give(u, cm, 0, 3, CALM, 0) || case_expect(u, INC_CTR_ANS_CNP));
	return give(u, cm, 0, 4, CALM, 0) || case_expect(u, INC_CTR_ABS_STORED);
}

/* A device gets one CNP in 65 us at most, however many of its packets have marks. */
static int cnps_are_paced(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, true, false);
	uint64_t before[INC_CTR_MAX], after[INC_CTR_MAX], begin_ns, end_ns, n, i;
	struct frame_spec s;
	struct xdp_md md = {};
	uint32_t verdict;
	struct frame f;

	if (u->watch)
		return 0; /* the native programs have a clock of their own (native/test_alone) */
	RUN(!cm || chunk(u, cm, 0, 0) || compare_read_counters(u, before));
	unit_ack_spec(cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn, &s);
	s.tos = MARKED;
	frame_build(&f, &s);
	md.data_end = f.len;
	md.ingress_ifindex = cm->conn[0].cfg.ifindex;
	begin_ns = inc_now_ns();
	for (i = 0; i < 2000; i++)
		RUN(unit_run_program(u, &f, &md, &verdict));
	end_ns = inc_now_ns();
	RUN(compare_read_counters(u, after));
	unit_forgive(u);
	cm->conn[0].state = *state_of(u, cm, 0);
	n = after[INC_CTR_ANS_CNP] - before[INC_CTR_ANS_CNP];
	if (n >= 2 && n <= 1 + (end_ns - begin_ns) / 65536)
		return 0;
	snprintf(u->why, sizeof(u->why), "%llu CNPs in %llu us", (unsigned long long)n,
		 (unsigned long long)(end_ns - begin_ns) / 1000);
	return -1;
}

/* Builds the CNP of a child, or of the parent. */
static void cnp(const struct ref_comm *cm, uint32_t child, struct frame_spec *s)
{
	static const uint8_t zeros[INC_CNP_LEN];

	unit_ack_spec(cm, child, 0, 0, s);
	s->opcode = INC_OP_CNP;
	s->resv8a = BECN;
	s->payload = zeros;
	s->len = sizeof(zeros);
}

/* A child that sends a CNP is asked to send less itself, because results to it become fewer then.
 * A CNP of the parent goes on to all children. */
static int cnps_received(struct unit *u)
{
	struct ref_comm *cm;
	struct frame_spec s;
	struct frame f;
	uint64_t n;
	uint32_t up;

	for (up = 0; up < 2; up++) {
		cm = marked_comm(u, true, up);
		n = u->ref.counter[INC_CTR_X_BECN];
		RUN(!cm);
		/* a CNP does not show the MAC address of its sender */
		cnp(cm, 0, &s);
		frame_build(&f, &s);
		RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ABS_CNP));
		RUN(chunk(u, cm, 0, 0));
		let_pass(u, cm, 0);
		RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ANS_CNP));
		cnp(cm, up ? 3 : 1, &s);
		frame_build(&f, &s);
		RUN(unit_run(u, &f, cm->conn[up ? 3 : 1].cfg.ifindex));
		RUN(case_expect(u, INC_CTR_ABS_CNP));
		RUN(state_of(u, cm, 0)->cnp_due != up);
		if (!up)
			RUN(chunk(u, cm, 1, 0) || reports(u, &n, 1));
		else
			RUN(give(u, cm, 3, 0, CALM, 0) || case_expect(u, INC_CTR_MC_DOWN) ||
			    reports(u, &n, 2));
	}
	return 0;
}

/* CNPs that are wrong in one field change nothing. */
static int wrong_cnps(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, false, false);
	const uint8_t more[32] = {0};
	struct frame_spec s;
	struct frame f;
	uint32_t i;

	RUN(!cm || chunk(u, cm, 0, 0));
	for (i = 0; i < sizeof(more); i += 4) {
		cnp(cm, 0, &s);
		s.payload = more;
		s.len = i;
		frame_build(&f, &s);
		if (i != INC_CNP_LEN)
			RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) ||
			    case_expect(u, INC_CTR_DROP_LENGTH));
	}
	cnp(cm, 0, &s);
	s.bth_flags |= 1 << INC_BTH_PAD_SHIFT;
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_LENGTH));
	cnp(cm, 0, &s);
	s.pkey ^= 1;
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_PKEY));
	cnp(cm, 0, &s);
	frame_build(&f, &s);
	f.data[FRAME_EXT] ^= 1;
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_ICRC));
	f.data[FRAME_EXT] ^= 1;
	RUN(unit_run(u, &f, cm->conn[1].cfg.ifindex) || case_expect(u, INC_CTR_DROP_PORT));
	state_of(u, cm, 0)->busy = cm->conn[0].state.busy = 1;
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_BUSY));
	state_of(u, cm, 0)->busy = cm->conn[0].state.busy = 0;
	/* child 1 has ended, by a packet in the middle of no message */
	RUN(case_data(u, cm, 1, 1, INC_OP_SEND_MIDDLE, 256, 0, false));
	cnp(cm, 1, &s);
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[1].cfg.ifindex) || case_expect(u, INC_CTR_DROP_CONN_ERROR));
	/* the whole communicator has ended */
	inc_switch_comm_state(u->sw)[cm->index].error = INC_AETH_NAK_OPERATION;
	cm->state.error = INC_AETH_NAK_OPERATION;
	cnp(cm, 2, &s);
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[2].cfg.ifindex) || case_expect(u, INC_CTR_DROP_CONN_ERROR));
	return 0;
}

/* Congestion between a switch and its parent concerns all children, whether the parent's packets
 * have marks or report those of partial sums. */
static int marks_of_parent(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, true, true);
	uint64_t n = u->ref.counter[INC_CTR_X_BECN];

	RUN(!cm);
	RUN(chunk(u, cm, 0, 0) || give(u, cm, 3, 0, CALM, 0) || reports(u, &n, 0));
	RUN(chunk(u, cm, 1, 0) || give(u, cm, 3, 1, MARKED, 0) || reports(u, &n, 2));
	RUN(give(u, cm, 0, 2, CALM, 0) || case_expect(u, INC_CTR_ANS_CNP));
	RUN(give(u, cm, 1, 2, CALM, 0) || give(u, cm, 2, 2, CALM, 0));
	RUN(give(u, cm, 3, 2, CALM, BECN) || case_expect(u, INC_CTR_MC_DOWN));
	RUN(reports(u, &n, 2));
	RUN(give(u, cm, 0, 3, CALM, 0) || case_expect(u, INC_CTR_ANS_CNP));
	/* a child's mark is reported to this child, and no partial sum has BECN */
	RUN(give(u, cm, 1, 3, MARKED, 0) || give(u, cm, 2, 3, CALM, 0));
	RUN(give(u, cm, 3, 3, CALM, 0) || reports(u, &n, 1));
	return 0;
}

/* In a VLAN, CNPs in both directions and results with BECN have its tag. */
static int marks_in_vlan(struct unit *u)
{
	struct ref_comm *cm = marked_comm(u, true, false);
	uint64_t n = u->ref.counter[INC_CTR_X_BECN];
	struct frame_spec s;
	struct frame f, t;

	RUN(!cm || put_in_vlan(u, cm, 0, 5, -1) || put_in_vlan(u, cm, 1, 7, 3));
	RUN(tagged(u, cm, 0, 1, 5 | 6 << 13, INC_CTR_ANS_NAK_SEQ));
	RUN(give(u, cm, 0, 0, MARKED, 0) || case_expect(u, INC_CTR_ANS_CNP));
	RUN(has_tag(u, &u->out_frame, 5 | 6 << 13));
	RUN(give(u, cm, 1, 0, MARKED, 0) || case_expect(u, INC_CTR_ABS_STORED));
	/* the egress program's copies are those of the reference, tags included */
	RUN(give(u, cm, 2, 0, CALM, 0) || case_expect(u, INC_CTR_MC_RESULT) || reports(u, &n, 1));
	let_pass(u, cm, 0);
	cnp(cm, 0, &s);
	frame_build(&f, &s);
	/* the tag of a CNP changes no priority, as its class changes none */
	t = with_tag(f, 5 | 2 << 13);
	RUN(unit_run(u, &t, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ANS_CNP));
	RUN(has_tag(u, &u->out_frame, 5 | 6 << 13));
	t = with_tag(f, 6);
	RUN(unit_run(u, &t, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_VLAN));
	return unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_PASS_VLAN);
}

const struct unit_case cases_marks[] = {
	{"marks_reported", marks_reported},   {"marks_of_device", marks_of_device},
	{"cnps_received", cnps_received},     {"wrong_cnps", wrong_cnps},
	{"marks_of_parent", marks_of_parent}, {"marks_in_vlan", marks_in_vlan},
	{"cnps_are_paced", cnps_are_paced},   {NULL, NULL},
};
