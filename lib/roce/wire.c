/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <arpa/inet.h>
#include "lib/roce/wire.h"

unsigned int inc_roce_payload(unsigned int mtu, unsigned int overhead)
{
	unsigned int p;

	for (p = INC_MAX_RC_PAYLOAD; p >= INC_MIN_PAYLOAD; p /= 2)
		if (p + overhead <= mtu)
			return p;
	return 0;
}

uint32_t inc_icrc_ipv4(const void *ip, size_t len)
{
	const uint8_t *packet = ip;
	uint8_t head[INC_IP_TO_BTH_LEN];
	size_t n = len < sizeof(head) ? len : sizeof(head);
	uint32_t state;

	memcpy(head, packet, n);
	inc_icrc_mask(head);
	state = inc_crc32_update(INC_ICRC_SEED, head, n);
	return ~inc_crc32_update(state, packet + n, len - n);
}

uint32_t inc_icrc_ipv6(const void *ip, size_t len)
{
	const uint8_t *packet = ip;
	uint8_t head[INC_IPV6_LEN + INC_UDP_LEN + INC_BTH_LEN];
	size_t n = len < sizeof(head) ? len : sizeof(head);
	uint32_t state;

	memcpy(head, packet, n);
	inc_icrc_mask_ipv6(head);
	state = inc_crc32_update(INC_ICRC_SEED, head, n);
	return ~inc_crc32_update(state, packet + n, len - n);
}

/* Room for the headers of IP and UDP, and of a BTH. */
#define HEADERS_ROOM (INC_IPV6_LEN + INC_UDP_LEN + INC_BTH_LEN)

/* Writes the headers of IP and UDP as the ICRC counts them, and may write on in the room of a BTH.
 * len: length of the UDP payload, with the ICRC. Returns their length. */
static size_t put_masked(uint8_t *h, const struct inc_udp_path *path, uint16_t ip_id, size_t len)
{
	struct inc_roce_path ipv4;

	if (!inc_addr_is_ipv4(path->saddr)) {
		inc_put_ipv6_udp(h, &path->saddr, &path->daddr, path->sport, path->dport,
				 INC_UDP_LEN + len);
		inc_icrc_mask_ipv6(h);
		return INC_IPV6_LEN + INC_UDP_LEN;
	}
	ipv4 = (struct inc_roce_path){.saddr = path->saddr.word[3],
				      .daddr = path->daddr.word[3],
				      .sport = path->sport,
				      .dport = path->dport,
				      .df = path->df};
	inc_put_ip_udp(h, &ipv4, ip_id, INC_IP_LEN + INC_UDP_LEN + len);
	inc_icrc_mask(h);
	return INC_IP_LEN + INC_UDP_LEN;
}

uint32_t inc_icrc_head(const struct inc_udp_path *path, uint16_t ip_id, const void *head,
		       size_t head_len, size_t rest_len)
{
	uint8_t h[HEADERS_ROOM - INC_BTH_LEN + INC_MAX_HEAD_LEN];
	const size_t at = put_masked(h, path, ip_id, head_len + rest_len + INC_ICRC_LEN);

	memcpy(h + at, head, head_len);
	h[at + INC_BTH_MASKED_AT] = 0xff;
	return inc_crc32_update(INC_ICRC_SEED, h, at + head_len);
}

uint32_t inc_icrc_udp(const struct inc_udp_path *path, uint16_t ip_id, const void *bth, size_t len)
{
	size_t n = len < INC_BTH_LEN ? len : INC_BTH_LEN;
	uint32_t state = inc_icrc_head(path, ip_id, bth, n, len - n);

	return ~inc_crc32_update(state, (const uint8_t *)bth + n, len - n);
}

void inc_icrc_usual_init(struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			 size_t payload)
{
	static const uint8_t zeros[INC_BTH_LEN + INC_MAX_RC_PAYLOAD];
	uint8_t h[HEADERS_ROOM];
	unsigned int id;
	size_t at;

	usual->len = INC_BTH_LEN + payload;
	for (id = 0; id < INC_ICRC_IDS; id++) {
		at = put_masked(h, path, id, usual->len + INC_ICRC_LEN);
		usual->state[id] = inc_crc32_update(INC_ICRC_SEED, h, at);
	}
	usual->masked = inc_crc32_update(usual->state[0], zeros, usual->len) ^
			~inc_icrc_udp(path, 0, zeros, usual->len);
}

static bool is_usual(const struct inc_icrc_usual *usual, uint16_t ip_id, size_t len)
{
	return len == usual->len && ip_id < INC_ICRC_IDS;
}

uint32_t inc_icrc_udp_usual(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			    uint16_t ip_id, const void *bth, size_t len)
{
	if (!is_usual(usual, ip_id, len) || ((const uint8_t *)bth)[INC_BTH_MASKED_AT])
		return inc_icrc_udp(path, ip_id, bth, len);
	return ~(inc_crc32_update(usual->state[ip_id], bth, len) ^ usual->masked);
}

uint32_t inc_icrc_head_usual(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			     uint16_t ip_id, const void *head, size_t head_len, size_t rest_len)
{
	uint8_t h[INC_MAX_HEAD_LEN];

	if (!is_usual(usual, ip_id, head_len + rest_len))
		return inc_icrc_head(path, ip_id, head, head_len, rest_len);
	memcpy(h, head, head_len);
	h[INC_BTH_MASKED_AT] = 0xff;
	return inc_crc32_update(usual->state[ip_id], h, head_len);
}

uint32_t inc_icrc_udp_copy(const struct inc_icrc_usual *usual, const struct inc_udp_path *path,
			   uint16_t ip_id, const void *bth, size_t len,
			   const struct inc_payload_copy *copy)
{
	const uint8_t *payload = (const uint8_t *)bth + copy->at;
	const size_t pad = len - copy->at - copy->len;
	uint32_t state = inc_icrc_head_usual(usual, path, ip_id, bth, copy->at, len - copy->at);

	state = inc_crc32_copy(state, copy->to, payload, copy->len);
	if (pad)
		state = inc_crc32_update(state, payload + copy->len, pad);
	return ~state;
}

void inc_crc32_jump_init(struct inc_crc32_jump *jump, size_t len)
{
	static const uint8_t zeros[256];
	unsigned int byte, bit, v;
	uint32_t state;
	size_t left;

	jump->len = len;
	for (byte = 0; byte < 4; byte++) {
		jump->by_byte[byte][0] = 0;
		for (bit = 0; bit < 8; bit++) {
			state = 1u << (8 * byte + bit);
			for (left = len; left > sizeof(zeros); left -= sizeof(zeros))
				state = inc_crc32_update(state, zeros, sizeof(zeros));
			jump->by_byte[byte][1 << bit] = inc_crc32_update(state, zeros, left);
		}
		for (v = 1; v < 256; v++)
			jump->by_byte[byte][v] =
				jump->by_byte[byte][v & (v - 1)] ^ jump->by_byte[byte][v & -v];
	}
}

uint64_t inc_rnr_timeout_ns(uint8_t syndrome)
{
	/* the delays of InfiniBand Architecture Specification Vol. 1, table 45, in units of 10
	 * us */
	static const uint32_t tens_of_us[32] = {
		65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
		48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
		2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	};

	return tens_of_us[syndrome & 31] * 10000ull;
}
