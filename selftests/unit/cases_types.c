// SPDX-License-Identifier: BSD-2-Clause
/* Operators, types and byte orders; payloads whose length is not a multiple of 4, and their
 * pads. */
#include <stdio.h>
#include <string.h>
#include "cases.h"

#define TYPED(op, dtype) INC_DESC(INC_COLL_ALLREDUCE, op, dtype, 0, 5)

/* Test numbers, of which each type uses the low bits. Some are around zero, some around the limits
 * of every size with and without a sign, and some have bytes that all differ. */
static const uint64_t values[] = {
	0,
	1,
	2,
	0x7e,
	0x7f,
	0x80,
	0x81,
	0xfe,
	0xff,
	0x7fff,
	0x8000,
	0x8001,
	0xfffe,
	0xffff,
	0x7fffffff,
	0x80000000,
	0x80000001,
	0xffffffff,
	0x0123456789abcdef,
	0xfedcba9876543210,
	0x7fffffffffffffff,
	0x8000000000000000,
	0x8000000000000001,
	0xffffffffffffffff,
};

#define VALUES (sizeof(values) / sizeof(values[0]))

static void put_element(uint8_t *p, uint32_t bytes, bool big, uint64_t v)
{
	uint32_t i;

	for (i = 0; i < bytes; i++)
		p[big ? bytes - 1 - i : i] = v >> 8 * i;
}

static struct ref_comm *typed_comm(struct unit *u, uint32_t children, bool big, uint32_t payload)
{
	static uint32_t communicator = 1000;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, children, 2, payload, 8);
	spec.byte_order = big ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
	spec.conn[0].udp_csum = true;
	return unit_add_comm(u, &spec);
}

/* Sends packet r of a child, with this payload, as a whole message. */
static int give(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint32_t desc,
		const uint8_t *payload, uint32_t len)
{
	struct unit_packet p = {
		.r = r,
		.opcode = child & 1 ? INC_OP_WRITE_ONLY_IMM : INC_OP_SEND_ONLY_IMM,
		.len = len,
		.desc = desc,
		.ackreq = true,
	};
	uint8_t drawn[INC_MAX_PAYLOAD];
	struct frame_spec s;
	struct frame f;

	unit_data_spec(cm, child, &p, &s, drawn);
	s.payload = payload;
	frame_build(&f, &s);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

/* Combines every number with every other one, by each operator, in each type and byte order. The
 * first child's values come in blocks, the second child's in rotation, and those of other children
 * in any order. */
static int operator_and_type(struct unit *u, uint32_t op, uint32_t dtype, bool big,
			     uint32_t children)
{
	uint32_t desc = TYPED(op, dtype), bytes = ref_element_bytes(desc), i, c;
	struct ref_comm *cm = typed_comm(u, children, big, 2048);
	uint32_t room = 2048 / bytes, count = VALUES * VALUES, at = 0, n;
	uint8_t payload[INC_MAX_PAYLOAD];
	uint64_t r;

	RUN(!cm);
	for (r = 0; at < count; r++, at += n) {
		n = count - at < room ? count - at : room;
		for (c = 0; c < children; c++) {
			for (i = 0; i < n; i++) {
				uint32_t k = at + i;
				uint32_t pick[] = {k / VALUES, k % VALUES, k * 7 + c};

				put_element(payload + i * bytes, bytes < 8 ? bytes : 8, big,
					    values[pick[c < 2 ? c : 2] % VALUES]);
				if (bytes == 16) { /* the second number is chosen the other way */
					put_element(payload + i * bytes, 8, big,
						    values[pick[2] % 3]);
					put_element(payload + i * bytes + 8, 8, big,
						    values[pick[c < 2 ? c : 2] % VALUES]);
				}
			}
			RUN(give(u, cm, c, r, desc, payload, n * bytes));
		}
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return unit_remove_comm(u, cm);
}

static int operators(struct unit *u)
{
	uint32_t op, dtype, big, k = 0;

	for (op = 0; op < INC_N_WIRE_OPERATORS; op++)
		for (dtype = 0; dtype < INC_N_WIRE_DTYPES; dtype++)
			for (big = 0; big < 2; big++, k++)
				if (ref_desc_known(TYPED(op, dtype)))
					RUN(operator_and_type(u, op, dtype, big, 2 + k % 5));
	return 0;
}

/* Results for two numbers. They are written down here, and not computed. */
static const struct {
	uint32_t op, dtype;
	uint64_t a, b, want;
} known[] = {
	{INC_OPERATOR_SUM, INC_DTYPE_INT8, 0x7f, 1, 0x80},
	{INC_OPERATOR_SUM, INC_DTYPE_UINT8, 0xff, 2, 1},
	{INC_OPERATOR_SUM, INC_DTYPE_UINT16, 0xffff, 0xffff, 0xfffe},
	{INC_OPERATOR_SUM, INC_DTYPE_UINT32, 0xffffffff, 1, 0},
	{INC_OPERATOR_SUM, INC_DTYPE_INT64, 0xffffffff, 1, 0x100000000},
	{INC_OPERATOR_SUM, INC_DTYPE_UINT64, UINT64_MAX, 1, 0},
	{INC_OPERATOR_MIN, INC_DTYPE_INT8, 0xff, 1, 0xff},
	{INC_OPERATOR_MIN, INC_DTYPE_UINT8, 0xff, 1, 1},
	{INC_OPERATOR_MAX, INC_DTYPE_INT16, 0x8000, 0x7fff, 0x7fff},
	{INC_OPERATOR_MAX, INC_DTYPE_UINT16, 0x8000, 0x7fff, 0x8000},
	{INC_OPERATOR_MIN, INC_DTYPE_INT32, 0x80000000, 0, 0x80000000},
	{INC_OPERATOR_MIN, INC_DTYPE_UINT32, 0x80000000, 0, 0},
	{INC_OPERATOR_MAX, INC_DTYPE_INT64, 0x8000000000000000, 5, 5},
	{INC_OPERATOR_MAX, INC_DTYPE_UINT64, 0x8000000000000000, 5, 0x8000000000000000},
	{INC_OPERATOR_PROD, INC_DTYPE_INT8, 0xfd, 5, 0xf1},
	{INC_OPERATOR_PROD, INC_DTYPE_UINT16, 0x0102, 0x0304, 0x0a08},
	{INC_OPERATOR_PROD, INC_DTYPE_INT32, 0xffffffff, 7, 0xfffffff9},
	{INC_OPERATOR_PROD, INC_DTYPE_UINT64, 0x100000001, 0x100000001, 0x200000001},
	{INC_OPERATOR_AND, INC_DTYPE_INT16, 0x0ff0, 0x3333, 0x0330},
	{INC_OPERATOR_OR, INC_DTYPE_INT64, 0xf0f, 0x1000000000000000, 0x1000000000000f0f},
	{INC_OPERATOR_XOR, INC_DTYPE_UINT8, 0xaa, 0xff, 0x55},
	/* operators and types that have another meaning for the ranks, but are these integers to
	 * the switch */
	{INC_OPERATOR_AVG, INC_DTYPE_INT32, 0xffffffff, 5, 4},
	{INC_OPERATOR_AVG, INC_DTYPE_INT16, 0x7fff, 1, 0x8000},
	{INC_OPERATOR_LAND, INC_DTYPE_UINT8, 1, 0, 0},
	{INC_OPERATOR_LOR, INC_DTYPE_INT32, 1, 0, 1},
	{INC_OPERATOR_LXOR, INC_DTYPE_INT64, 1, 1, 0},
	{INC_OPERATOR_MIN, INC_DTYPE_FLOAT32, 0x80000000, 0x3f800000, 0x80000000},
	{INC_OPERATOR_MAX, INC_DTYPE_FLOAT16, 0x8000, 0x3c00, 0x3c00},
	{INC_OPERATOR_MIN, INC_DTYPE_BFLOAT16, 0xbf80, 0x3f80, 0xbf80},
	{INC_OPERATOR_MAX, INC_DTYPE_AGREED, 0x80, 0x7f, 0x80},
	{INC_OPERATOR_SUM, INC_DTYPE_FIXED, 0x7fffffff, 1, 0x80000000},
	{INC_OPERATOR_SUM, INC_DTYPE_FIXED64, 0x7fffffff, 1, 0x80000000},
	{INC_OPERATOR_MAX, INC_DTYPE_FLOAT64, 0x8000000000000000, 5, 5},
};

/* Elements of two numbers: the first decides, or if it is equal the second. */
static int known_pairs(struct unit *u)
{
	static const struct {
		uint32_t op;
		int64_t a[2], b[2];
		bool takes_a;
	} pairs[] = {
		{INC_OPERATOR_MIN, {-1, 9}, {1, 2}, true},
		{INC_OPERATOR_MAX, {-1, 9}, {1, 2}, false},
		{INC_OPERATOR_MIN, {7, -2}, {7, 1}, true},
		{INC_OPERATOR_MAX, {7, -2}, {7, 1}, false},
		{INC_OPERATOR_MIN, {7, 3}, {7, 2}, false},
		{INC_OPERATOR_MAX, {7, 3}, {7, 2}, true},
		{INC_OPERATOR_MIN, {INT64_MAX, 0}, {INT64_MIN, 5}, false},
		{INC_OPERATOR_MAX, {INT64_MAX, 0}, {INT64_MIN, 5}, true},
	};
	uint8_t given[2][16];
	uint32_t i, c, big;

	for (big = 0; big < 2; big++) {
		struct ref_comm *cm = typed_comm(u, 2, big, 256);

		RUN(!cm);
		for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
			for (c = 0; c < 2; c++) {
				const int64_t *of = c ? pairs[i].b : pairs[i].a;

				put_element(given[c], 8, big, (uint64_t)of[0]);
				put_element(given[c] + 8, 8, big, (uint64_t)of[1]);
				RUN(give(u, cm, c, i, TYPED(pairs[i].op, INC_DTYPE_FLOAT64_INDEX),
					 given[c], 16));
			}
			if (!memcmp(inc_switch_sums(u->sw)[cm->cfg.sum_base + i % cm->slots]
					    .payload,
				    given[!pairs[i].takes_a], 16))
				continue;
			snprintf(u->why, sizeof(u->why), "known pair %u, %s endian, is wrong", i,
				 big ? "big" : "little");
			return -1;
		}
	}
	return 0;
}

static int known_answers(struct unit *u)
{
	uint8_t a[8], b[8], want[8];
	uint32_t i, big;

	for (big = 0; big < 2; big++) {
		struct ref_comm *cm = typed_comm(u, 2, big, 256);

		RUN(!cm);
		for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			uint32_t desc = TYPED(known[i].op, known[i].dtype);
			uint32_t bytes = ref_element_bytes(desc);

			put_element(a, bytes, big, known[i].a);
			put_element(b, bytes, big, known[i].b);
			put_element(want, bytes, big, known[i].want);
			RUN(give(u, cm, 0, i, desc, a, bytes) || give(u, cm, 1, i, desc, b, bytes));
			if (!memcmp(inc_switch_sums(u->sw)[cm->cfg.sum_base + i % cm->slots]
					    .payload,
				    want, bytes))
				continue;
			snprintf(u->why, sizeof(u->why), "known answer %u, %s endian, is wrong", i,
				 big ? "big" : "little");
			return -1;
		}
	}
	return 0;
}

/* Every length, for each type. If the length is no multiple of the element's size, the connection
 * fails. Otherwise there is a result, which is padded to a multiple of 4. */
static int lengths(struct unit *u)
{
	struct ref_comm *cm = typed_comm(u, 2, false, 256);
	uint32_t dtype, len;

	RUN(!cm);
	for (dtype = 0; dtype < INC_N_WIRE_DTYPES; dtype++) {
		uint32_t desc = TYPED(INC_OPERATOR_MAX, dtype), bytes = ref_element_bytes(desc);

		for (len = 0; len <= 256; len += len == 40 ? 200 : 1) {
			unit_reset(u, cm, len);
			RUN(case_data(u, cm, 0, len, INC_OP_SEND_ONLY_IMM, len, desc, true));
			RUN(case_expect(u,
					len % bytes ? INC_CTR_ANS_NAK_INVALID : INC_CTR_ANS_ACK));
			if (len % bytes)
				continue;
			RUN(case_data(u, cm, 1, len, INC_OP_WRITE_ONLY_IMM, len, desc, true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
		/* this packet is the last one of a message */
		for (len = 1; len <= 256; len += len == 20 ? 225 : 1) {
			unit_reset(u, cm, len);
			unit_prime(u, cm, 0, INC_OPEN_SEND, desc);
			unit_prime(u, cm, 1, INC_OPEN_WRITE, desc);
			RUN(case_data(u, cm, 0, len, INC_OP_SEND_LAST, len, 0, true));
			RUN(case_expect(u,
					len % bytes ? INC_CTR_ANS_NAK_INVALID : INC_CTR_ANS_ACK));
			if (len % bytes)
				continue;
			RUN(case_data(u, cm, 1, len, INC_OP_WRITE_LAST, len, 0, true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
	}
	return 0;
}

/* Sends a packet whose pad is not zero, with a matching ICRC. */
static int give_noisy(struct unit *u, struct ref_comm *cm, uint32_t child,
		      const struct unit_packet *p)
{
	struct frame f;

	unit_data(cm, child, p, &f);
	memset(f.data + f.len - INC_ICRC_LEN - (-p->len & 3), 0xa5 + child, -p->len & 3);
	frame_seal(&f);
	return unit_run(u, &f, cm->conn[child].cfg.ifindex);
}

/* The pad of a result is zeros, whatever the pads of the contributions are. The case tries each
 * operator, a single child that gives data, and copies with and without a UDP checksum. */
static int noisy_pads(struct unit *u)
{
	static const uint32_t lens[] = {1, 2, 3, 5, 6, 7, 253, 254, 255};
	uint32_t op, i, c, big;
	uint64_t r = 0;

	for (big = 0; big < 2; big++, r = 0) {
		struct ref_comm *cm = typed_comm(u, 3, big, 256);

		RUN(!cm);
		for (op = 0; op < INC_N_WIRE_OPERATORS; op++) {
			for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++, r += 2) {
				uint32_t dtype = lens[i] % 2 ? INC_DTYPE_INT8 : INC_DTYPE_UINT16;
				struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM,
							.r = r,
							.len = lens[i],
							.desc = TYPED(op, dtype),
							.ackreq = true};

				for (c = 0; c < 3; c++)
					RUN(give_noisy(u, cm, c, &p));
				RUN(case_expect(u, INC_CTR_MC_RESULT));
				p.r++;
				p.desc = INC_DESC(INC_COLL_BROADCAST, op, dtype, 2, 1);
				for (c = 0; c < 3; c++) {
					p.len = c == 2 ? lens[i] : 0;
					RUN(give_noisy(u, cm, c, &p));
				}
				RUN(case_expect(u, INC_CTR_MC_RESULT));
			}
		}
	}
	return 0;
}

/* Lengths with the same number of words must not be confused. The pad count is in the headers, and
 * the program stores the headers' CRC from one result to the next. */
static int pads_in_turn(struct unit *u)
{
	static const uint32_t lens[] = {8, 7, 6, 5, 8, 5, 7, 4, 3, 0, 1, 2, 4};
	struct ref_comm *cm = typed_comm(u, 2, false, 256);
	uint32_t desc = TYPED(INC_OPERATOR_SUM, INC_DTYPE_UINT8), i, c;

	RUN(!cm);
	for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		for (c = 0; c < 2; c++)
			RUN(case_data(u, cm, c, i, INC_OP_SEND_ONLY_IMM, lens[i], desc, true));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return 0;
}

const struct unit_case cases_types[] = {
	{"operators", operators},
	{"known_answers", known_answers},
	{"known_pairs", known_pairs},
	{"lengths", lengths},
	{"noisy_pads", noisy_pads},
	{"pads_in_turn", pads_in_turn},
	{NULL, NULL},
};
