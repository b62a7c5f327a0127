// SPDX-License-Identifier: BSD-2-Clause
/* Echo requests to a port (docs/protocol.md, "Echo"), and packets that resemble them. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
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
