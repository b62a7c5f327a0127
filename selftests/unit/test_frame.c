// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/*
 * Tests the suite's own frames and ICRCs with packets of other origin: a UC SEND packet of scapy's
 * tests, and a CNP that was captured from a ConnectX-4 Lx.
 */
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include "frame.h"
#include "report.h"

struct vector {
	const char *name;
	struct frame_spec spec;
	uint16_t ip_csum;
	uint8_t icrc[4];
};

static const uint8_t uc_payload[] = {0x46, 0x30, 0x81, 0x8b, 0xe2, 0x89, 0x35, 0xd9, 0x0e, 0x9a,
				     0x95, 0x50, 0x54, 0x01, 0xbe, 0x88, 0x5e, 0x50, 0x00, 0x00};
static const uint8_t cnp_payload[16];

static const struct vector vectors[] = {
	{
		.name = "uc_send_only",
		.spec = {.saddr = 0xc0a80007,
			 .daddr = 0xc0a80007,
			 .sport = 49152,
			 .dport = 4791,
			 .ip_id = 1144,
			 .tos = 1,
			 .ttl = 64,
			 .df = true,
			 .udp_csum = true,
			 .opcode = 0x24,
			 .bth_flags = INC_BTH_M | 2 << INC_BTH_PAD_SHIFT,
			 .pkey = 0xffff,
			 .qpn = 211,
			 .psn = 13571856,
			 .payload = uc_payload,
			 .len = sizeof(uc_payload)},
		.ip_csum = 0xb4d5,
		.icrc = {0x78, 0xf3, 0x53, 0xf3},
	},
	{
		.name = "cnp",
		.spec = {.saddr = 0x0a001101,
			 .daddr = 0x0a001201,
			 .sport = 0,
			 .dport = 4791,
			 .ip_id = 0x718c,
			 .tos = 0xc2,
			 .ttl = 64,
			 .df = true,
			 .opcode = 0x81,
			 .pkey = 0xffff,
			 .resv8a = 0x40,
			 .qpn = 0x118,
			 .payload = cnp_payload,
			 .len = sizeof(cnp_payload)},
		.ip_csum = 0x9161,
		.icrc = {0x82, 0xfd, 0x00, 0x2a},
	},
};

static void check(const struct vector *v)
{
	struct frame_spec spec = v->spec;
	char name[64];
	struct frame f;

	snprintf(name, sizeof(name), "frame_vector_%s", v->name);
	spec.saddr = htonl(spec.saddr);
	spec.daddr = htonl(spec.daddr);
	frame_build(&f, &spec);
	if (get16(f.data + FRAME_IP + 10) != v->ip_csum)
		report_fail(name, "IP checksum %04x, not %04x", get16(f.data + FRAME_IP + 10),
			    v->ip_csum);
	else if (memcmp(f.data + f.len - 4, v->icrc, 4))
		report_fail(name, "ICRC %08x, not %08x", get32(f.data + f.len - 4), get32(v->icrc));
	else if (!frame_udp_csum_ok(&f))
		report_fail(name, "UDP checksum %04x does not hold", get16(f.data + FRAME_UDP + 6));
	else
		report_ok("%s", name);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
		check(&vectors[i]);
	return report_exit();
}
