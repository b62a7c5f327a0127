/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include "lib/inc_roce.h"

enum {
	F_FIRST = 1,
	F_LAST = 2,
	F_IMM = 4,
	F_RETH = 8,
	F_AETH = 16,
	F_KNOWN = 32,
};

static const uint8_t shapes[] = {
	[INC_OP_SEND_FIRST] = F_KNOWN | F_FIRST,
	[INC_OP_SEND_MIDDLE] = F_KNOWN,
	[INC_OP_SEND_LAST] = F_KNOWN | F_LAST,
	[INC_OP_SEND_LAST_IMM] = F_KNOWN | F_LAST | F_IMM,
	[INC_OP_SEND_ONLY] = F_KNOWN | F_FIRST | F_LAST,
	[INC_OP_SEND_ONLY_IMM] = F_KNOWN | F_FIRST | F_LAST | F_IMM,
	[INC_OP_WRITE_FIRST] = F_KNOWN | F_FIRST | F_RETH,
	[INC_OP_WRITE_MIDDLE] = F_KNOWN,
	[INC_OP_WRITE_LAST] = F_KNOWN | F_LAST,
	[INC_OP_WRITE_LAST_IMM] = F_KNOWN | F_LAST | F_IMM,
	[INC_OP_WRITE_ONLY] = F_KNOWN | F_FIRST | F_LAST | F_RETH,
	[INC_OP_WRITE_ONLY_IMM] = F_KNOWN | F_FIRST | F_LAST | F_RETH | F_IMM,
	[INC_OP_ACK] = F_KNOWN | F_FIRST | F_LAST | F_AETH,
};

static uint8_t shape(uint8_t opcode)
{
	return opcode < sizeof(shapes) ? shapes[opcode] : 0;
}

int inc_roce_ext_len(uint8_t opcode)
{
	uint8_t s = shape(opcode);

	if (!s)
		return -1;
	return (s & F_RETH ? INC_RETH_LEN : 0) + (s & F_IMM ? INC_IMM_LEN : 0) +
	       (s & F_AETH ? INC_AETH_LEN : 0);
}

bool inc_roce_has_imm(uint8_t opcode)
{
	return shape(opcode) & F_IMM;
}

bool inc_roce_has_reth(uint8_t opcode)
{
	return shape(opcode) & F_RETH;
}

bool inc_roce_is_first(uint8_t opcode)
{
	return shape(opcode) & F_FIRST;
}

bool inc_roce_is_last(uint8_t opcode)
{
	return shape(opcode) & F_LAST;
}

uint32_t inc_crc32_update(uint32_t state, const void *data, size_t len)
{
	/* isa-l inverts on the way in and out, as zlib does */
	return ~crc32_gzip_refl(~state, data, len);
}

#define AT_TOS       1
#define AT_TTL       8
#define AT_IP_CSUM   10
#define AT_UDP_CSUM  (INC_IP_LEN + 6)
#define AT_FECN      (INC_IP_LEN + INC_UDP_LEN + 4)
#define MASKED_BYTES (INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN)

/* head: the first MASKED_BYTES of the packet, of which len are there */
static uint32_t masked_state(uint8_t *head, size_t len)
{
	head[AT_TOS] = 0xff;
	head[AT_TTL] = 0xff;
	head[AT_IP_CSUM] = head[AT_IP_CSUM + 1] = 0xff;
	head[AT_UDP_CSUM] = head[AT_UDP_CSUM + 1] = 0xff;
	head[AT_FECN] = 0xff;
	return inc_crc32_update(INC_ICRC_SEED, head, len);
}

uint32_t inc_icrc_ipv4(const void *ip, size_t len)
{
	const uint8_t *packet = ip;
	uint8_t head[MASKED_BYTES];
	size_t n = len < sizeof(head) ? len : sizeof(head);
	uint32_t state;

	memcpy(head, packet, n);
	state = masked_state(head, n);
	return ~inc_crc32_update(state, packet + n, len - n);
}

static void put16(uint8_t *p, uint16_t v)
{
	p[0] = v >> 8;
	p[1] = v & 0xff;
}

uint32_t inc_icrc_udp(const struct inc_roce_path *path, uint16_t ip_id, const void *bth, size_t len)
{
	const uint8_t *payload = bth;
	uint8_t head[MASKED_BYTES] = {0x45};
	size_t n = len < INC_BTH_LEN ? len : INC_BTH_LEN;
	uint32_t state;

	put16(head + 2, INC_IP_LEN + INC_UDP_LEN + len + INC_ICRC_LEN);
	put16(head + 4, ip_id);
	put16(head + 6, path->df ? 0x4000 : 0);
	head[9] = 17; /* UDP */
	memcpy(head + 12, &path->saddr, 4);
	memcpy(head + 16, &path->daddr, 4);
	put16(head + INC_IP_LEN, path->sport);
	put16(head + INC_IP_LEN + 2, path->dport);
	put16(head + INC_IP_LEN + 4, INC_UDP_LEN + len + INC_ICRC_LEN);
	memcpy(head + INC_IP_LEN + INC_UDP_LEN, payload, n);
	state = masked_state(head, INC_IP_LEN + INC_UDP_LEN + n);
	return ~inc_crc32_update(state, payload + n, len - n);
}

uint64_t inc_rnr_timeout_ns(uint8_t syndrome)
{
	/* InfiniBand Architecture Specification Vol. 1, table 45: units of 10 us */
	static const uint32_t tens_of_us[32] = {
		65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
		48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return tens_of_us[syndrome & 31] * 10000ull;
}
