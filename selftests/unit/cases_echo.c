// SPDX-License-Identifier: BSD-2-Clause
/* Echo requests to a port (docs/protocol.md, "Echo"), packets that resemble them, and frames with
 * the tags of VLANs and priorities. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/proto/frame.h"
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"
#include "loader/inc_state.h"
#include "cases.h"

void case_echo(uint32_t to, struct frame_spec *s)
{
	static const uint8_t payload[INC_ECHO_LEN] = "0123456789abcde";

	*s = (struct frame_spec){
		.dst_mac = {2, 0, 0, 0, 0, 9},
		.src_mac = {2, 0, 0, 0, 0, 7},
		.saddr = htonl(0x0a630007),
		.daddr = to,
		.sport = 50000,
		.dport = INC_ROCE_UDP_PORT,
		.ip_id = 77,
		.tos = 0x12,
		.ttl = 63,
		.udp_csum = true,
		.opcode = INC_OP_ECHO_REQUEST,
		.bth_flags = INC_BTH_SE,
		.pkey = 0x8123,
		.resv8a = 0x80,
		.ack_byte = 0x80,
		.psn = 0x123456,
		.payload = payload,
		.len = sizeof(payload),
	};
}

/* Frames that differ from an echo request in a field are passed to the kernel. */
static int other_fields(struct unit *u, uint32_t port)
{
	static const uint8_t sources[] = {0, 224, 239, 240, 255};
	struct frame_spec good, s;
	uint8_t more[32] = {0};
	struct frame bad;
	uint32_t i;

	case_echo(u->ref.echo_ip, &good);
	for (i = 0; i < 256; i++) {
		s = good;
		s.opcode = i;
		frame_build(&bad, &s);
		if (i != INC_OP_ECHO_REQUEST)
			RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	for (i = 0; i < 24; i++) {
		s = good;
		s.qpn = 1u << i;
		frame_build(&bad, &s);
		RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	for (i = 0; i < 32; i++) {
		s = good;
		s.daddr ^= 1u << i;
		frame_build(&bad, &s);
		RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	for (i = 0; i < sizeof(sources); i++) {
		s = good;
		s.saddr = htonl((uint32_t)sources[i] << 24 | 7);
		frame_build(&bad, &s);
		RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	for (i = 0; i < sizeof(more); i += 4) {
		s = good;
		s.payload = more;
		s.len = i;
		frame_build(&bad, &s);
		if (i != INC_ECHO_LEN)
			RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	for (i = 1; i < 16; i++) {
		s = good;
		s.bth_flags = i;
		frame_build(&bad, &s);
		RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	return 0;
}

/* Frames whose MAC addresses are those of groups are passed on, and damaged ones are dropped. */
static int other_bits(struct unit *u, uint32_t port)
{
	struct frame_spec good;
	struct frame f, bad;
	uint32_t i;

	case_echo(u->ref.echo_ip, &good);
	frame_build(&f, &good);
	bad = f;
	bad.data[0] |= 1;
	RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	bad = f;
	bad.data[6] |= 1;
	RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	for (i = 0; i < 8 * (INC_ECHO_LEN + INC_ICRC_LEN); i++) {
		bad = f;
		bad.data[FRAME_EXT + i / 8] ^= 1 << i % 8;
		RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_DROP_ICRC));
	}
	return 0;
}

/* P-158: a port answers echo requests to its address, and nothing else that belongs to no
 * connection. */
static int echoes(struct unit *u)
{
	const int ports = inc_switch_map_fd(u->sw, INC_MAP_PORT);
	const uint32_t ip = htonl(0x0a6300fe);
	struct inc_port value = {.ip = ip};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	struct frame_spec s;
	struct frame f;
	int ret = 0;

	RUN(!cm);
	u->ref.echo_ip = ip;
	case_echo(u->ref.echo_ip, &s);
	frame_build(&f, &s);
	/* the port is not entered yet, and then it has no address yet */
	RUN(unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_PASS_NO_CONN));
	value.ip = 0;
	RUN(bpf_map_update_elem(ports, &u->port[1], &value, BPF_ANY));
	RUN(unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_PASS_NO_CONN));
	value.ip = ip;
	RUN(bpf_map_update_elem(ports, &u->port[1], &value, BPF_ANY));
	u->ref.echo_ifindex = u->port[1];
	ret = unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_ANS_ECHO) ||
	      unit_run(u, &f, u->port[0]) || case_expect(u, INC_CTR_PASS_NO_CONN) ||
	      other_fields(u, u->port[1]) || other_bits(u, u->port[1]);
	/* a frame that the link has made longer, and one whose source is an address of the switch
	 */
	f.len += 6;
	ret = ret || unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_ANS_ECHO);
	s.saddr = cm->conn[0].cfg.own.ip;
	frame_build(&f, &s);
	ret = ret || unit_run(u, &f, u->port[1]) || case_expect(u, INC_CTR_DROP_OWN_ADDR);
	u->ref.echo_ip = u->ref.echo_ifindex = 0;
	bpf_map_delete_elem(ports, &u->port[1]);
	return ret ? -1 : unit_compare_all(u);
}

const struct unit_case cases_echo[] = {
	{"echoes", echoes},
	{NULL, NULL},
};

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
