// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/*
 * The frames of the slow path. Random connections and contributions are compared byte by byte with
 * frames that were built field by field (frame.c). Then the slow path's parser gets answers of
 * children, damaged frames and foreign frames. The frames and ICRCs of frame.c itself are compared
 * with packets of other origin.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "userspace/xdp/packet.h"
#include "frame.h"
#include "report.h"

#define ROUNDS 20000

/* The parameters of one frame, in the structures of the slow path and of frame.c. */
struct wish {
	struct inc_conn_cfg cfg;
	struct inc_mirror mirror;
	union inc_mac peer;
	struct frame_spec spec;
	uint8_t payload[INC_MAX_PAYLOAD];
};

static void random_bytes(struct rng *rng, void *p, size_t n)
{
	uint8_t *b = p;

	while (n--)
		*b++ = rng_next(rng);
}

static void random_wish(struct rng *rng, struct wish *w, uint8_t opcode)
{
	struct frame_spec *s = &w->spec;
	uint64_t va = rng_next(rng);

	memset(w, 0, sizeof(*w));
	random_bytes(rng, w->payload, sizeof(w->payload));
	random_bytes(rng, s->dst_mac, 6);
	random_bytes(rng, s->src_mac, 6);
	s->saddr = rng_next(rng);
	s->daddr = rng_next(rng);
	s->sport = rng_next(rng);
	s->dport = rng_next(rng);
	s->tos = rng_next(rng);
	s->ttl = 64;
	s->df = true;
	s->opcode = opcode;
	s->bth_flags = INC_BTH_M;
	s->pkey = rng_next(rng);
	s->qpn = rng_next(rng) & INC_QPN_MASK;
	s->psn = rng_next(rng) & INC_PSN_MASK;
	s->payload = w->payload;
	w->cfg = (struct inc_conn_cfg){
		.own.ip = s->saddr,
		.peer.ip = s->daddr,
		.own.udp_port = s->sport,
		.peer.udp_port = s->dport,
		.pkey = s->pkey,
		.peer.qpn = s->qpn,
		/* a frame to the peer must not contain this number */
		.own.qpn = rng_next(rng) & INC_QPN_MASK,
		.rank = rng_below(rng, 32),
	};
	memcpy(w->peer.addr, s->dst_mac, 6);
	memcpy(w->cfg.own_mac, s->src_mac, 6);
	w->mirror.opcode = opcode;
	if (opcode == INC_OP_ACK)
		return;
	s->len = rng_chance(rng, 100) ? 0 : rng_below(rng, INC_MAX_PAYLOAD + 1);
	s->pad = -s->len & 3;
	s->udp_csum = rng_chance(rng, 500);
	s->va = va;
	s->rkey = rng_next(rng);
	s->dmalen = rng_next(rng);
	s->imm = rng_next(rng);
	if (rng_chance(rng, 500)) {
		s->bth_flags |= INC_BTH_SE;
		w->mirror.flags |= INC_BUF_F_SE;
	}
	if (rng_chance(rng, 500)) {
		s->ack_byte = 0x80;
		w->mirror.flags |= INC_BUF_F_ACKREQ;
	}
	w->cfg.flags = s->udp_csum ? INC_CONN_F_UDP_CSUM : 0;
	w->mirror.va = htobe64(va);
	w->mirror.rkey = htonl(s->rkey);
	w->mirror.dmalen = htonl(s->dmalen);
	w->mirror.desc = s->imm;
}

static int same(const char *what, const struct frame *have, const struct frame *want)
{
	uint32_t i;

	if (have->len == want->len && !memcmp(have->data, want->data, want->len))
		return 0;
	for (i = 0; i < want->len && have->data[i] == want->data[i]; i++)
		;
	frame_dump("have", have);
	frame_dump("want", want);
	report_fail(what, "%u bytes of %u, byte %u differs", have->len, want->len, i);
	return -1;
}

static int one_result(const char *what, const struct wish *w)
{
	struct frame have, want;

	/* garbage, as in memory that an earlier frame has used */
	memset(have.data, 0xa5, sizeof(have.data));
	have.len = inc_frame_result(have.data, &w->cfg, w->peer, w->spec.tos, &w->mirror,
				    w->spec.psn, w->payload, w->spec.len);
	frame_build(&want, &w->spec);
	return same(what, &have, &want);
}

static void results(void)
{
	struct rng rng = {11};
	static struct wish w;
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		random_wish(&rng, &w, rng_below(&rng, INC_OP_WRITE_ONLY_IMM + 1));
		if (one_result("packet_results", &w))
			return;
	}
	report_ok("packet_results (%u frames)", i);
}

/* A checksum of 0 is sent as 0xffff, because 0 means that there is none. */
static void zero_checksum(void)
{
	struct rng rng = {12};
	static struct wish w;
	struct frame f;
	uint32_t i;

	random_wish(&rng, &w, INC_OP_SEND_ONLY);
	w.spec.udp_csum = true;
	w.cfg.flags = INC_CONN_F_UDP_CSUM;
	w.spec.len = 8;
	w.spec.pad = 0;
	for (i = 0; i < 1 << 20; i++) {
		memcpy(w.payload, &i, sizeof(i));
		frame_build(&f, &w.spec);
		if (get16(f.data + FRAME_UDP + 6) == 0xffff)
			break;
	}
	if (i == 1 << 20)
		report_fail("packet_zero_checksum", "no payload found");
	else if (!one_result("packet_zero_checksum", &w))
		report_ok("packet_zero_checksum");
}

static void acks(void)
{
	struct rng rng = {13};
	struct frame have, want;
	static struct wish w;
	uint32_t i, msn;

	for (i = 0; i < ROUNDS; i++) {
		random_wish(&rng, &w, INC_OP_ACK);
		/* the slow path counts MSNs in 32 bits, and sends 24 of them */
		msn = rng_next(&rng);
		w.spec.syndrome = rng_next(&rng);
		w.spec.msn = msn & 0xffffff;
		memset(have.data, 0xa5, sizeof(have.data));
		have.len = inc_frame_ack(have.data, &w.cfg, w.peer, w.spec.tos, w.spec.syndrome,
					 w.spec.psn | rng_next(&rng) << 24, msn);
		frame_build(&want, &w.spec);
		if (same("packet_acks", &have, &want))
			return;
	}
	report_ok("packet_acks (%u frames)", i);
}

/* A tag is inserted, without the bit that says that there is one. */
static void tags(void)
{
	struct rng rng = {14};
	struct frame have, want;
	static struct wish w;
	uint16_t tag;
	uint32_t i;

	for (i = 0; i < ROUNDS; i++) {
		random_wish(&rng, &w, rng_below(&rng, INC_OP_WRITE_ONLY_IMM + 1));
		frame_build(&want, &w.spec);
		have = want;
		tag = i ? rng_next(&rng) | INC_TAG_PRESENT : 0;
		have.len = inc_frame_tag(have.data, have.len, tag);
		if (tag)
			frame_tag(&want, tag & ~INC_TAG_PRESENT);
		if (same("packet_tags", &have, &want))
			return;
	}
	report_ok("packet_tags (%u frames)", i);
}

/* The parser gets a child's answer. Then it gets the same answer cut at every byte, and with each
 * change of a field that makes it invalid. */
static void answers(void)
{
	static const struct {
		uint32_t offset;
		uint8_t flip;
	} foreign[] = {
		{12, 0x01},
		{13, 0x06},
		{FRAME_IP, 0x10},
		{FRAME_IP, 0x01},
		{FRAME_IP + 9, 0x01},
		{FRAME_UDP + 2, 0x01},
		{FRAME_UDP + 3, 0x01},
		{FRAME_BTH, 0x01},
		{FRAME_BTH, 0x11},
	};
	struct rng rng = {14};
	struct inc_aeth_frame got;
	static struct wish w;
	struct frame f;
	uint32_t i, k;

	for (i = 0; i < ROUNDS / 10; i++) {
		random_wish(&rng, &w, INC_OP_ACK);
		w.spec.dport = INC_ROCE_UDP_PORT;
		w.spec.syndrome = rng_next(&rng);
		w.spec.ack_byte =
			/* AckReq and reserved bits, which do not belong to the PSN */
			rng_next(&rng);
		/* FECN, BECN and reserved bits, which do not belong to the queue pair number */
		w.spec.resv8a = rng_next(&rng);
		frame_build(&f, &w.spec);
		if (inc_frame_parse_aeth(f.data, f.len, &got) || got.psn != w.spec.psn ||
		    got.syndrome != w.spec.syndrome || got.key.saddr != w.spec.saddr ||
		    got.key.daddr != w.spec.daddr || got.key.dqpn != w.spec.qpn) {
			frame_dump("answer", &f);
			report_fail("packet_answers", "PSN %u syndrome %#x qpn %#x", got.psn,
				    got.syndrome, got.key.dqpn);
			return;
		}
		for (k = 0; k < f.len; k++) {
			if (inc_frame_parse_aeth(f.data, k, &got) == -EBADMSG)
				continue;
			report_fail("packet_answers", "%u of %u bytes were taken", k, f.len);
			return;
		}
		for (k = 0; k < sizeof(foreign) / sizeof(foreign[0]); k++) {
			f.data[foreign[k].offset] ^= foreign[k].flip;
			if (inc_frame_parse_aeth(f.data, f.len, &got) != -EBADMSG) {
				frame_dump("foreign", &f);
				report_fail("packet_answers", "foreign frame %u was taken", k);
				return;
			}
			f.data[foreign[k].offset] ^= foreign[k].flip;
		}
	}
	report_ok("packet_answers (%u frames)", i);
}

/* Packets of other origin: a UC SEND packet of scapy's tests, and a CNP that was captured from a
 * ConnectX-4 Lx. */

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

static void frame_vector(const struct vector *v)
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
		frame_vector(&vectors[i]);
	results();
	zero_checksum();
	acks();
	tags();
	answers();
	return report_exit();
}
