// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include "frame.h"

void put16(void *p, uint16_t v)
{
	uint8_t *b = p;

	b[0] = v >> 8;
	b[1] = v;
}

void put24(void *p, uint32_t v)
{
	uint8_t *b = p;

	b[0] = v >> 16;
	b[1] = v >> 8;
	b[2] = v;
}

void put32(void *p, uint32_t v)
{
	put16(p, v >> 16);
	put16((uint8_t *)p + 2, v);
}

uint16_t get16(const void *p)
{
	const uint8_t *b = p;

	return b[0] << 8 | b[1];
}

uint32_t get24(const void *p)
{
	const uint8_t *b = p;

	return (uint32_t)b[0] << 16 | b[1] << 8 | b[2];
}

uint32_t get32(const void *p)
{
	return (uint32_t)get16(p) << 16 | get16((const uint8_t *)p + 2);
}

bool frame_has_reth(uint8_t opcode)
{
	return opcode == INC_OP_WRITE_FIRST || opcode == INC_OP_WRITE_ONLY ||
	       opcode == INC_OP_WRITE_ONLY_IMM;
}

bool frame_has_imm(uint8_t opcode)
{
	return opcode == INC_OP_SEND_LAST_IMM || opcode == INC_OP_SEND_ONLY_IMM ||
	       opcode == INC_OP_WRITE_LAST_IMM || opcode == INC_OP_WRITE_ONLY_IMM;
}

int frame_ext_len(uint8_t opcode)
{
	if (opcode == INC_OP_ACK)
		return INC_AETH_LEN;
	if (opcode > INC_OP_WRITE_ONLY_IMM)
		return -1;
	return (frame_has_reth(opcode) ? INC_RETH_LEN : 0) +
	       (frame_has_imm(opcode) ? INC_IMM_LEN : 0);
}

uint32_t frame_sum16(const uint8_t *p, uint32_t len, uint32_t sum)
{
	uint32_t i;

	for (i = 0; i + 1 < len; i += 2)
		sum += get16(p + i);
	if (len & 1)
		sum += p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

uint32_t frame_icrc(const uint8_t *ip, uint32_t len)
{
	uint8_t head[8 + INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN];
	uint32_t masked = INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN;
	uLong crc = crc32(0, NULL, 0);

	if (len < masked)
		return 0;
	memset(head, 0xff, 8);
	memcpy(head + 8, ip, masked);
	head[8 + 1] = 0xff;                            /* mask of the TOS byte */
	head[8 + 8] = 0xff;                            /* mask of the TTL */
	memset(head + 8 + 10, 0xff, 2);                /* mask of the IP header checksum */
	memset(head + 8 + INC_IP_LEN + 6, 0xff, 2);    /* mask of the UDP checksum */
	head[8 + INC_IP_LEN + INC_UDP_LEN + 4] = 0xff; /* mask of FECN, BECN and resv6 */
	crc = crc32(crc, head, sizeof(head));
	return crc32(crc, ip + masked, len - masked);
}

static uint16_t udp_sum(const struct frame *f)
{
	const uint8_t *ip = f->data + FRAME_IP;
	uint32_t len = get16(f->data + FRAME_UDP + 4);

	return frame_sum16(f->data + FRAME_UDP, len, frame_sum16(ip + 12, 8, 17 + len));
}

bool frame_udp_csum_ok(const struct frame *f)
{
	if (get16(f->data + FRAME_UDP + 6) == 0)
		return true;
	return udp_sum(f) == 0xffff;
}

void frame_seal(struct frame *f)
{
	uint8_t *ip = f->data + FRAME_IP;
	uint32_t end = FRAME_IP + get16(ip + 2), crc;

	put16(ip + 10, 0);
	put16(ip + 10, ~frame_sum16(ip, INC_IP_LEN, 0));
	if (end < FRAME_EXT + INC_ICRC_LEN || end > sizeof(f->data))
		return;
	crc = frame_icrc(ip, end - FRAME_IP - INC_ICRC_LEN);
	f->data[end - 4] = crc;
	f->data[end - 3] = crc >> 8;
	f->data[end - 2] = crc >> 16;
	f->data[end - 1] = crc >> 24;
}

void frame_build(struct frame *f, const struct frame_spec *s)
{
	uint8_t *d = f->data, *ip = d + FRAME_IP, *udp = d + FRAME_UDP, *bth = d + FRAME_BTH;
	uint8_t *p = d + FRAME_EXT;
	uint16_t csum;

	memcpy(d, s->dst_mac, 6);
	memcpy(d + 6, s->src_mac, 6);
	put16(d + 12, 0x0800);

	bth[0] = s->opcode;
	bth[1] = s->bth_flags | s->pad << INC_BTH_PAD_SHIFT;
	put16(bth + 2, s->pkey);
	bth[4] = s->resv8a;
	put24(bth + 5, s->qpn);
	bth[8] = s->ack_byte;
	put24(bth + 9, s->psn);
	if (frame_has_reth(s->opcode)) {
		put32(p, s->va >> 32);
		put32(p + 4, s->va);
		put32(p + 8, s->rkey);
		put32(p + 12, s->dmalen);
		p += INC_RETH_LEN;
	}
	if (frame_has_imm(s->opcode)) {
		put32(p, s->imm);
		p += INC_IMM_LEN;
	}
	if (s->opcode == INC_OP_ACK) {
		p[0] = s->syndrome;
		put24(p + 1, s->msn);
		p += INC_AETH_LEN;
	}
	if (s->len)
		memcpy(p, s->payload, s->len);
	p += s->len;
	memset(p, 0, s->pad + INC_ICRC_LEN);
	p += s->pad + INC_ICRC_LEN;
	f->len = p - d;

	ip[0] = 0x45;
	ip[1] = s->tos;
	put16(ip + 2, f->len - FRAME_IP);
	put16(ip + 4, s->ip_id);
	put16(ip + 6, s->df ? 0x4000 : 0);
	ip[8] = s->ttl;
	ip[9] = 17;
	memcpy(ip + 12, &s->saddr, 4);
	memcpy(ip + 16, &s->daddr, 4);
	put16(udp, s->sport);
	put16(udp + 2, s->dport);
	put16(udp + 4, f->len - FRAME_UDP);
	put16(udp + 6, 0);
	frame_seal(f);
	if (s->udp_csum) {
		csum = ~udp_sum(f);
		put16(udp + 6, csum ? csum : 0xffff);
	}
}

void frame_tag(struct frame *f, uint16_t bits)
{
	memmove(f->data + 16, f->data + 12, f->len - 12);
	put16(f->data + 12, 0x8100);
	put16(f->data + 14, bits);
	f->len += 4;
}

bool frame_untag(struct frame *f)
{
	if (f->len < 18 || get16(f->data + 12) != 0x8100)
		return false;
	memmove(f->data + 12, f->data + 16, f->len - 16);
	f->len -= 4;
	return true;
}

void frame_dump(const char *what, const struct frame *f)
{
	uint32_t i, n = f->len < 160 ? f->len : 160;

	fprintf(stderr, "%s (%u bytes):", what, f->len);
	for (i = 0; i < n; i++)
		fprintf(stderr, "%s%02x", i % 32 ? " " : "\n  ", f->data[i]);
	fprintf(stderr, "%s\n", n < f->len ? " ..." : "");
}
