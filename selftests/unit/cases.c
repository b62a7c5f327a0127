// SPDX-License-Identifier: BSD-2-Clause
/* Runs cases, and packets that the cases of several files have. Here are also the cases of echo
 * requests to a port (docs/protocol.md, "Echo"), and of packets that resemble them. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/proto/maps.h"
#include "loader/inc_loader.h"
#include "cases.h"

struct ref_comm *case_comm(struct unit *u, uint32_t children, uint32_t ports, uint32_t payload,
			   uint32_t slots)
{
	static uint32_t communicator = 1;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, children, ports, payload, slots);
	return unit_add_comm(u, &spec);
}

int case_data(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t opcode,
	      uint32_t len, uint32_t desc, bool ackreq)
{
	struct unit_packet p = {
		.r = r, .opcode = opcode, .len = len, .desc = desc, .ackreq = ackreq};
	struct frame f;

	unit_data(cm, child, &p, &f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_class(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint8_t tos)
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = 16,
				.desc = CASE_DESC,
				.ackreq = true};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;

	unit_data_spec(cm, child, &p, &s, payload);
	s.tos = tos;
	frame_build(&f, &s);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_ack(struct unit *u, struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn)
{
	struct frame f;

	unit_ack(cm, child, syndrome, psn, &f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_probe(struct unit *u, struct ref_comm *cm, uint32_t child, uint32_t psn)
{
	struct frame_spec s;
	struct frame f;

	unit_ack_spec(cm, child, INC_AETH_ACK, psn, &s);
	s.ack_byte = 0x80;
	frame_build(&f, &s);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

int case_expect(struct unit *u, enum inc_counter_id counter)
{
	if (u->want.counter == counter)
		return 0;
	snprintf(u->why, sizeof(u->why), "packet %llu ended on %s, meant for %s",
		 (unsigned long long)u->packets, inc_counter_info[u->want.counter].name,
		 inc_counter_info[counter].name);
	return -1;
}

/* Whether UNIT_SKIP, a list with commas, names the case. vm/test_unit skips the cases of most
 * packets, because an emulated machine is slow. */
static bool is_skipped(const char *name)
{
	const char *list = getenv("UNIT_SKIP");
	char word[64];

	if (!list)
		return false;
	snprintf(word, sizeof(word), ",%s,", name);
	return strstr(list, word);
}

void cases_run(struct unit *u, const struct unit_case *c, const char *how)
{
	char name[64];
	uint32_t i;

	for (; c->name; c++) {
		uint64_t before = u->packets;
		int ret;

		if (is_skipped(c->name))
			continue;
		ret = c->run(u);
		if (!ret)
			ret = unit_compare_all(u);
		for (i = 0; i < REF_MAX_COMMS; i++)
			if (u->ref.comm[i] && unit_remove_comm(u, u->ref.comm[i]))
				ret = -1;
		if (ret) {
			snprintf(name, sizeof(name), "%s%s", c->name, how);
			report_fail(name, "%s", u->why);
			unit_forgive(u);
			continue;
		}
		report_ok("%s%s (%llu packets)", c->name, how,
			  (unsigned long long)(u->packets - before));
	}
}

void cases_run_all(struct unit *u, const char *how)
{
	const struct unit_case *const all[] = {
		cases_header, cases_protocol, cases_link, cases_gap, cases_reduce, cases_types,
		cases_tree,   cases_edges,    cases_echo, cases_tag, cases_marks};
	uint32_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		cases_run(u, all[i], how);
}

/* ---- echo requests ---- */

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
	for (i = 0; i < 256; i++) {
		s = good;
		s.opcode = i;
		frame_build(&bad, &s);
		if (i != INC_OP_ECHO_REQUEST)
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
