// SPDX-License-Identifier: BSD-2-Clause
/* Packets with exactly one fault: in the lengths, opcode, header fields or ICRC. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include "cases.h"

/* A packet of each kind, and the state of the connection in which the packet is valid. */
static const struct kind {
	uint8_t opcode;
	uint8_t open;
	uint32_t len;
} kinds[] = {
	{INC_OP_SEND_FIRST, INC_OPEN_NONE, 256},  {INC_OP_SEND_MIDDLE, INC_OPEN_SEND, 256},
	{INC_OP_SEND_LAST, INC_OPEN_SEND, 12},    {INC_OP_SEND_LAST_IMM, INC_OPEN_SEND, 20},
	{INC_OP_SEND_ONLY, INC_OPEN_NONE, 16},    {INC_OP_SEND_ONLY_IMM, INC_OPEN_NONE, 0},
	{INC_OP_WRITE_FIRST, INC_OPEN_NONE, 256}, {INC_OP_WRITE_MIDDLE, INC_OPEN_WRITE, 256},
	{INC_OP_WRITE_LAST, INC_OPEN_WRITE, 4},   {INC_OP_WRITE_LAST_IMM, INC_OPEN_WRITE, 8},
	{INC_OP_WRITE_ONLY, INC_OPEN_NONE, 40},   {INC_OP_WRITE_ONLY_IMM, INC_OPEN_NONE, 24},
	{INC_OP_ACK, INC_OPEN_NONE, 0},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define START 5 /* number of the connection's next chunk */

/* Puts the communicator into a state in which both children have sent all chunks before START, and
 * child 0 can send this kind of packet next. */
static void ready(struct unit *u, struct ref_comm *cm, const struct kind *k)
{
	unit_reset(u, cm, START);
	cm->conn[0].state.tx_acked = START - 2;
	inc_switch_conn_state(u->sw)[cm->cfg.conn_base].tx_acked = START - 2;
	unit_prime(u, cm, 0, k->open, CASE_DESC);
}

static void spec_of(const struct ref_comm *cm, const struct kind *k, struct frame_spec *s,
		    uint8_t payload[INC_MAX_PAYLOAD])
{
	struct unit_packet p = {
		.r = START, .opcode = k->opcode, .len = k->len, .desc = CASE_DESC, .ackreq = true};

	if (k->opcode == INC_OP_ACK)
		unit_ack_spec(cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn + START - 1, s);
	else
		unit_data_spec(cm, 0, &p, s, payload);
}

static int run0(struct unit *u, const struct ref_comm *cm, const struct frame *f)
{
	return unit_run(u, f, cm->conn[0].cfg.ifindex);
}

/* Cuts a frame at every byte: once with the old lengths, and once with lengths and an ICRC that
 * agree with the cut. */
static int truncated(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f, cut;
	uint32_t k, len;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		spec_of(cm, &kinds[k], &s, payload);
		frame_build(&f, &s);
		for (len = FRAME_MIN_RUN; len <= f.len; len++) {
			ready(u, cm, &kinds[k]);
			cut = f;
			cut.len = len;
			RUN(run0(u, cm, &cut));
			if (len < f.len)
				RUN(case_expect(u, len < FRAME_BTH   ? INC_CTR_PASS_NOT_ROCE
						   : len < FRAME_EXT ? INC_CTR_DROP_TRUNCATED
								     : INC_CTR_DROP_LENGTH));
			if (len < FRAME_UDP)
				continue;
			ready(u, cm, &kinds[k]);
			put16(cut.data + FRAME_IP + 2, len - FRAME_IP);
			put16(cut.data + FRAME_UDP + 4, len - FRAME_UDP);
			frame_seal(&cut);
			RUN(run0(u, cm, &cut));
		}
	}
	return 0;
}

/* Bytes after the packet, with which a link pads short frames, are ignored. */
static int padded(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t k, more;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		for (more = 0; more < 70; more++) {
			spec_of(cm, &kinds[k], &s, payload);
			frame_build(&f, &s);
			memset(f.data + f.len, 0xaa, more);
			f.len += more;
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &f));
			RUN(case_expect(u, kinds[k].opcode == INC_OP_ACK ? INC_CTR_ABS_ACK
									 : INC_CTR_ANS_ACK));
		}
	}
	return 0;
}

/* The lengths of IP and UDP contradict each other or the frame. */
static int lengths_disagree(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t k, v;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		for (v = 0; v < 0x10000; v += v < 400 ? 1 : 1021) {
			spec_of(cm, &kinds[k], &s, payload);
			frame_build(&f, &s);
			ready(u, cm, &kinds[k]);
			put16(f.data + FRAME_IP + 2, v);
			RUN(run0(u, cm, &f));
			frame_build(&f, &s);
			ready(u, cm, &kinds[k]);
			put16(f.data + FRAME_UDP + 4, v);
			frame_seal(&f);
			RUN(run0(u, cm, &f));
		}
	}
	return 0;
}

/* Every opcode in every state of the message: without payload, with a short payload and with a full
 * one. */
static int opcodes(struct unit *u)
{
	static const uint32_t lens[] = {0, 4, 16, 252, 256, 260};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t op, open, i;

	RUN(!cm);
	for (op = 0; op < 256; op++) {
		for (open = INC_OPEN_NONE; open <= INC_OPEN_WRITE; open++) {
			for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
				struct kind k = {op, open, lens[i]};

				spec_of(cm, &k, &s, payload);
				frame_build(&f, &s);
				ready(u, cm, &k);
				RUN(run0(u, cm, &f));
				/* a CNP has no other length */
				if (op == INC_OP_CNP)
					RUN(case_expect(u, lens[i] == INC_CNP_LEN
								   ? INC_CTR_ABS_CNP
								   : INC_CTR_DROP_LENGTH));
				else if (frame_ext_len(op) < 0)
					RUN(case_expect(u, INC_CTR_DROP_OPCODE));
			}
		}
	}
	return 0;
}

/* Every length with every data opcode and every pad count. */
static int data_lengths(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t k, len, pad;

	RUN(!cm);
	memset(payload, 0x5a, sizeof(payload));
	for (k = 0; k < KINDS; k++) {
		for (len = 0; len <= 272; len++) {
			for (pad = 0; pad < 4; pad++) {
				if (pad && len > 16 && len < 250)
					continue;
				spec_of(cm, &kinds[k], &s, payload);
				s.payload = payload;
				s.len = len;
				s.pad = pad;
				frame_build(&f, &s);
				ready(u, cm, &kinds[k]);
				RUN(run0(u, cm, &f));
			}
		}
	}
	return 0;
}

/* Every length up to the greatest, each after a packet of the greatest length. Bytes of the longer
 * packet that remain in the CRC's buffer must not count. */
static int lengths_after_longer(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 2048, 16);
	uint8_t noise[INC_MAX_PAYLOAD];
	struct rng rng = {2048};
	struct frame_spec s;
	struct frame f, full;
	uint32_t k, len;

	RUN(!cm);
	for (k = 0; k < sizeof(noise); k++)
		noise[k] = rng_next(&rng);
	for (k = 0; k < KINDS; k++) {
		for (len = 0; len <= INC_MAX_PAYLOAD; len += 4) {
			spec_of(cm, &kinds[k], &s, noise);
			s.payload = noise;
			s.len = INC_MAX_PAYLOAD;
			frame_build(&full, &s);
			s.len = len;
			frame_build(&f, &s);
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &full));
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &f));
		}
	}
	return 0;
}

/* A payload that exceeds the greatest size is rejected. */
static int oversized(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 2048, 16);
	static uint8_t payload[FRAME_MAX];
	struct frame_spec s;
	struct frame f;
	uint32_t k, len;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		for (len = 2040; len <= 2100; len++) {
			spec_of(cm, &kinds[k], &s, payload);
			s.payload = payload;
			s.len = len;
			frame_build(&f, &s);
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &f));
		}
	}
	return 0;
}

/* Flips each bit of a frame. First the ICRC is unchanged and detects the damage, unless it masks
 * that bit. Then the frame gets a matching ICRC. */
static int flip_bits(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f, bad;
	uint32_t k, bit;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		spec_of(cm, &kinds[k], &s, payload);
		s.udp_csum = false;
		frame_build(&f, &s);
		for (bit = 0; bit < f.len * 8; bit++) {
			if (bit == 128 * 8 &&
			    /* skips the rest of the payload, which behaves like its beginning */
			    f.len > 256)
				bit = (f.len - 48) * 8;
			bad = f;
			bad.data[bit / 8] ^= 0x80 >> bit % 8;
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &bad));
			if (bit >= FRAME_EXT * 8)
				RUN(case_expect(u, INC_CTR_DROP_ICRC));
			if (bit / 8 >= f.len - 4)
				continue;
			frame_seal(&bad);
			ready(u, cm, &kinds[k]);
			RUN(run0(u, cm, &bad));
		}
	}
	return 0;
}

/* Routers may change some header fields without breaking the ICRC. A change of the fields next to
 * them breaks it. */
static int masked_fields(struct unit *u)
{
	static const struct {
		uint32_t offset;
		uint8_t flip;
		bool masked;
	} fields[] = {
		{FRAME_IP + 1, 0xff, true},   {FRAME_IP + 4, 0xff, false},
		{FRAME_IP + 8, 0x3f, true},   {FRAME_IP + 10, 0xff, true},
		{FRAME_IP + 11, 0xff, true},  {FRAME_UDP, 0xff, false},
		{FRAME_UDP + 6, 0xff, true},  {FRAME_UDP + 7, 0xff, true},
		{FRAME_BTH + 1, 0x80, false}, {FRAME_BTH + 1, 0x40, false},
		{FRAME_BTH + 4, 0xff, true},  {FRAME_BTH + 8, 0x80, false},
		{FRAME_BTH + 8, 0x7f, false}, {FRAME_BTH + 11, 0x01, false},
	};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	static const struct kind kind = {INC_OP_SEND_ONLY, INC_OPEN_NONE, 16};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;
	uint32_t i;

	RUN(!cm);
	for (i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		spec_of(cm, &kind, &s, payload);
		frame_build(&f, &s);
		f.data[fields[i].offset] ^= fields[i].flip;
		ready(u, cm, &kind);
		RUN(run0(u, cm, &f));
		RUN(case_expect(u, fields[i].masked ? INC_CTR_ANS_ACK : INC_CTR_DROP_ICRC));
	}
	return 0;
}

static int wrong_fields(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 4, 4, 256, 16);
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s, good;
	struct frame f;
	uint32_t k, i;

	RUN(!cm);
	for (k = 0; k < KINDS; k++) {
		spec_of(cm, &kinds[k], &good, payload);
		ready(u, cm, &kinds[k]);
		for (i = 0; i < 24; i++) {
			s = good;
			s.qpn ^= 1u << i;
			frame_build(&f, &s);
			RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
		}
		for (i = 0; i < 16; i++) {
			s = good;
			s.pkey ^= 1u << i;
			frame_build(&f, &s);
			RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_DROP_PKEY));
		}
		for (i = 1; i < 16; i++) {
			s = good;
			s.bth_flags |= i;
			frame_build(&f, &s);
			RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_DROP_TVER));
		}
		for (i = 0; i < 32; i++) {
			s = good;
			s.saddr ^= 1u << i;
			frame_build(&f, &s);
			RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
			s = good;
			s.daddr ^= 1u << i;
			frame_build(&f, &s);
			RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
		}
		/* a packet with another child's queue pair but this child's addresses */
		s = good;
		s.qpn = cm->conn[1].cfg.own.qpn;
		frame_build(&f, &s);
		RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_PASS_NO_CONN));
		frame_build(&f, &good);
		for (i = 1; i < UNIT_PORTS; i++)
			RUN(unit_run(u, &f, u->port[i]) || case_expect(u, INC_CTR_DROP_PORT));
		RUN(run0(u, cm, &f));
	}
	return 0;
}

static int not_roce(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	static const uint16_t types[] = {0x0806, 0x86dd, 0x8100, 0x88a8, 0x8915, 0x0000, 0xffff};
	static const struct kind kind = {INC_OP_SEND_ONLY_IMM, INC_OPEN_NONE, 64};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f, bad;
	uint32_t i;

	RUN(!cm);
	spec_of(cm, &kind, &s, payload);
	frame_build(&f, &s);
	ready(u, cm, &kind);
	for (i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		bad = f;
		put16(bad.data + 12, types[i]);
		RUN(run0(u, cm, &bad) ||
		    case_expect(u, types[i] == 0x88a8 ? INC_CTR_PASS_QINQ : INC_CTR_PASS_NOT_ROCE));
	}
	/* an IP header with options */
	for (i = 0; i < 256; i++) {
		bad = f;
		bad.data[FRAME_IP] = i;
		if (i == 0x45)
			continue;
		frame_seal(&bad);
		RUN(run0(u, cm, &bad) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	}
	/* fragments: sets the flag for more fragments, and every bit of the offset */
	for (i = 0; i < 14; i++) {
		bad = f;
		put16(bad.data + FRAME_IP + 6, 0x4000 | 1u << i);
		frame_seal(&bad);
		RUN(run0(u, cm, &bad) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	}
	for (i = 0; i < 256; i++) {
		bad = f;
		bad.data[FRAME_IP + 9] = i;
		if (i == 17)
			continue;
		frame_seal(&bad);
		RUN(run0(u, cm, &bad) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	}
	for (i = 0; i < 16; i++) {
		bad = f;
		put16(bad.data + FRAME_UDP + 2, INC_ROCE_UDP_PORT ^ 1u << i);
		frame_seal(&bad);
		RUN(run0(u, cm, &bad) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	}
	RUN(run0(u, cm, &f) || case_expect(u, INC_CTR_ANS_ACK));
	return 0;
}

/* Drops a packet of any kind from outside that has one of the switch's own addresses, until no
 * connection has that address. */
static int own_address(struct unit *u)
{
	static const uint16_t ports[] = {INC_ROCE_UDP_PORT, 50000};
	struct ref_comm *one = case_comm(u, 2, 2, 256, 16), *two = case_comm(u, 2, 1, 256, 16);
	uint32_t own, i, len, port = one ? one->conn[0].cfg.ifindex : 0;
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 64, .desc = CASE_DESC};
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f, bad;

	RUN(!one || !two);
	own = one->conn[0].cfg.own.ip;
	RUN(own != two->conn[0].cfg.own.ip);
	unit_data_spec(one, 0, &p, &s, payload);
	s.saddr = own;
	s.daddr ^= htonl(1);
	for (i = 0; i < 2; i++) {
		frame_build(&f, &s);
		put16(f.data + FRAME_UDP + 2, ports[i]);
		frame_seal(&f);
		for (len = FRAME_UDP; len <= f.len; len++) {
			bad = f;
			bad.len = len;
			RUN(unit_run(u, &bad, port));
			if (ports[i] != INC_ROCE_UDP_PORT || len < FRAME_BTH || len == f.len)
				RUN(case_expect(u, INC_CTR_DROP_OWN_ADDR));
		}
	}
	/* a frame too short for an address, and one of another protocol with the same bytes */
	bad.len = FRAME_UDP - 1;
	RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	bad = f;
	put16(bad.data + 12, 0x0806);
	RUN(unit_run(u, &bad, port) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	RUN(unit_remove_comm(u, one));
	RUN(unit_run(u, &f, port) || case_expect(u, INC_CTR_DROP_OWN_ADDR));
	RUN(unit_remove_comm(u, two));
	RUN(unit_run(u, &f, port) || case_expect(u, INC_CTR_PASS_NOT_ROCE));
	return 0;
}

const struct unit_case cases_header[] = {
	{"truncated", truncated},
	{"padded", padded},
	{"lengths_disagree", lengths_disagree},
	{"opcodes", opcodes},
	{"data_lengths", data_lengths},
	{"lengths_after_longer", lengths_after_longer},
	{"oversized", oversized},
	{"flip_bits", flip_bits},
	{"masked_fields", masked_fields},
	{"wrong_fields", wrong_fields},
	{"not_roce", not_roce},
	{"own_address", own_address},
	{NULL, NULL},
};
