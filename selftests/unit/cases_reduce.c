// SPDX-License-Identifier: BSD-2-Clause
/* Sums, copies, collectives, and several communicators at once. */
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include "lib/proto/desc.h"
#include "cases.h"

#define DESC(coll, root) INC_DESC(coll, INC_OPERATOR_SUM, INC_DTYPE_INT32, root, 3)

/* Children with even numbers use SEND, the others WRITE. */
static uint8_t only_imm(uint32_t child)
{
	return child & 1 ? INC_OP_WRITE_ONLY_IMM : INC_OP_SEND_ONLY_IMM;
}

static uint8_t only(uint32_t child)
{
	return child & 1 ? INC_OP_WRITE_ONLY : INC_OP_SEND_ONLY;
}

/* 1 to 32 children on 1 to 4 ports, with all payload sizes. Sums and every copy are compared. */
static int children(struct unit *u)
{
	static const uint32_t payloads[] = {256, 512, 1024, 2048};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t n, c, turn, len;
	uint64_t r;

	for (n = 1; n <= INC_MAX_CHILDREN; n++) {
		uint32_t payload = payloads[n & 3], ports = 1 + n % UNIT_PORTS;

		unit_spec(u, &spec, 700 + n, n, ports > n ? n : ports, payload, 8);
		for (c = 0; c < n; c++) {
			spec.conn[c].rank = (c * 7 + 3) % 256;
			spec.conn[c].udp_csum = c % 3 == 0;
			spec.conn[c].own.udp_port = c % 5 ? 4791 : 50000 + c;
			spec.conn[c].pkey = 0x8000 + n;
		}
		if (n % 5 == 2)
			spec.byte_order = INC_ORDER_NETWORK;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (r = 0; r < 12; r++) {
			len = r == 0 ? 4 : r == 1 ? payload : r == 2 ? payload - 4 : r * 4;
			for (turn = 0; turn < n; turn++) {
				/* the order of children; the next lines have another one if n is a
				 * multiple of 5 */
				c = (turn * 5 + r) % n;
				if (n % 5 == 0)
					c = (turn + r) % n;
				RUN(case_data(u, cm, c, r, r % 4 ? only(c) : only_imm(c), len,
					      CASE_DESC, (c + r) % 3));
			}
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
		RUN(unit_compare_all(u) || unit_remove_comm(u, cm));
	}
	return 0;
}

/* Results of every length. For each length the ICRC, UDP checksum and sum of the copies are
 * compared. */
static int result_lengths(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t len, c;
	uint64_t r = 0;

	unit_spec(u, &spec, 690, 3, 2, 2048, 64);
	spec.conn[1].udp_csum = true;
	cm = unit_add_comm(u, &spec);
	RUN(!cm);
	for (len = 0; len <= 2048; len += 4, r++)
		for (c = 0; c < 3; c++)
			RUN(case_data(u, cm, c, r, only_imm(c + r), len, CASE_DESC, true));
	return case_expect(u, INC_CTR_MC_RESULT);
}

/* Sums wrap. Negative numbers are added as two's complement. */
static int extremes(struct unit *u)
{
	static const int32_t values[] = {0, 1, -1, INT32_MAX, INT32_MIN, 0x01020304, -256};
	uint32_t order, i, c, n = sizeof(values) / sizeof(values[0]);
	struct inc_comm_conf spec;
	struct frame_spec s;
	struct ref_comm *cm;
	struct frame f;
	uint8_t payload[INC_MAX_PAYLOAD];

	for (order = 0; order < 2; order++) {
		unit_spec(u, &spec, 680 + order, n, 1, 256, 8);
		spec.byte_order = order ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (c = 0; c < n; c++) {
			struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM,
						.len = 4 * n,
						.desc = CASE_DESC,
						.ackreq = true};

			unit_data_spec(cm, c, &p, &s, payload);
			for (i = 0; i < n; i++) {
				uint32_t v = values[(c * i) % n];

				v = order ? htonl(v) : v;
				memcpy(payload + 4 * i, &v, 4);
			}
			frame_build(&f, &s);
			RUN(unit_run(u, &f, cm->conn[c].cfg.ifindex));
		}
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return 0;
}

/* With only one child the switch sends the child's data back. */
static int echo(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 1, 1, 1024, 1);
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 20; r++) {
		RUN(case_data(u, cm, 0, r, r ? INC_OP_SEND_ONLY : INC_OP_SEND_ONLY_IMM, 1024,
			      CASE_DESC, true));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return 0;
}

/* Results of a message with several packets have the opcodes of each child's own packets. */
static int mirror(struct unit *u)
{
	static const uint8_t shape[] = {INC_OP_SEND_FIRST, INC_OP_SEND_MIDDLE, INC_OP_SEND_MIDDLE,
					INC_OP_SEND_LAST_IMM};
	struct ref_comm *cm = case_comm(u, 4, 2, 256, 16);
	uint32_t child;
	uint64_t r;

	RUN(!cm);
	for (child = 0; child < 4; child++)
		RUN(case_data(u, cm, child, 0, only_imm(child), 4, CASE_DESC, true));
	for (r = 1; r < 41; r++) {
		uint32_t k = (r - 1) % 4, turn, c;

		for (turn = 0; turn < 4; turn++) {
			struct unit_packet p = {
				.r = r, .len = k == 3 ? 100 : 256, .desc = CASE_DESC};
			struct frame f;

			c = (turn + r) % 4;
			p.opcode = shape[k] + (c & 1 ? INC_OP_WRITE_FIRST : 0);
			p.ackreq = k == 3 || c == 2;
			p.solicited = k == 3 && c == 1;
			unit_data(cm, c, &p, &f);
			RUN(unit_run(u, &f, cm->conn[c].cfg.ifindex));
		}
		RUN(case_expect(u, INC_CTR_MC_RESULT));
	}
	return 0;
}

/* May this one of four children give data? All or no children give data to an AllReduce or Reduce,
 * only the root gives to a Broadcast, and no child to a Barrier. */
static bool may_give(uint32_t coll, uint32_t root, uint32_t givers)
{
	if (coll == INC_COLL_BROADCAST || coll == INC_COLL_ALL_GATHER)
		return !(givers & ~(1u << root));
	return !givers || (coll != INC_COLL_BARRIER && givers == 15);
}

/* Which children give and get data, by collective. The last arriver gives data in one run and none
 * in another. */
static int collectives(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t coll, giver, last, root, c, turn;

	for (coll = INC_COLL_ALLREDUCE; coll < INC_N_COLLECTIVES; coll++) {
		unit_spec(u, &spec, 670 + coll, 4, 2, 256, 8);
		spec.conn[1].udp_csum = spec.conn[2].udp_csum = true;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (root = 0; root < 5; root++) { /* root 4 is no rank of this communicator */
			for (giver = 0; giver < 16; giver++) {
				for (last = 0; last < 4; last++) {
					unit_reset(u, cm, 8 * giver + last);
					for (turn = 0; turn < 4; turn++) {
						c = (last + 1 + turn) % 4;
						RUN(case_data(u, cm, c, 8 * giver + last,
							      only_imm(c), giver >> c & 1 ? 64 : 0,
							      DESC(coll, root), true));
					}
					RUN(case_expect(u, may_give(coll, root, giver)
								   ? INC_CTR_MC_RESULT
								   : INC_CTR_ANS_NAK_FATAL));
				}
			}
		}
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

/* Some children have another descriptor or length than the others: each child alone, and each pair,
 * also with the first child. */
static int mismatch(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 4, 2, 256, 8);
	uint32_t odd, how, c;
	uint64_t r = 0;

	RUN(!cm);
	for (odd = 1; odd < 16; odd++) {
		for (how = 0; how < 5; how++, r++) {
			unit_reset(u, cm, r);
			for (c = 0; c < 4; c++) {
				bool differs = odd >> c & 1;
				uint32_t desc = differs && how < 3 ? CASE_DESC + 1 : CASE_DESC;
				uint32_t len = !differs               ? 64
					       : how == 1 || how == 3 ? 60
					       : how == 4             ? 0
								      : 64;

				RUN(case_data(u, cm, c, r, only_imm(c), len, desc, c & 1));
			}
			if (odd != 15)
				RUN(case_expect(u, INC_CTR_ANS_NAK_FATAL));
			/* after the mismatch no child can go on, and ACKs do not count any more */
			for (c = 0; c < 4 && cm->state.error; c++) {
				RUN(case_data(u, cm, c, r + 1, only(c), 64, 0, true));
				RUN(case_expect(u, INC_CTR_ANS_NAK_FATAL));
				RUN(case_data(u, cm, c, r, only(c), 64, 0, true));
				RUN(case_expect(u, INC_CTR_ANS_NAK_FATAL));
				RUN(case_ack(u, cm, c, INC_AETH_ACK, cm->conn[c].cfg.own.psn));
				RUN(case_expect(u, INC_CTR_DROP_CONN_ERROR));
			}
		}
	}
	return 0;
}

/* Types that are the same integers to the switch, and a sum that is to be divided. A child gets an
 * error if its descriptor has another meaning than that of the others. */
static int guises(struct unit *u)
{
	static const struct {
		uint32_t op, dtype, other_op, other_dtype;
	} pairs[] = {
		{INC_OPERATOR_MIN, INC_DTYPE_INT32, INC_OPERATOR_MIN, INC_DTYPE_FLOAT32},
		{INC_OPERATOR_MAX, INC_DTYPE_INT16, INC_OPERATOR_MAX, INC_DTYPE_FLOAT16},
		{INC_OPERATOR_MAX, INC_DTYPE_BFLOAT16, INC_OPERATOR_MAX, INC_DTYPE_FLOAT16},
		{INC_OPERATOR_MAX, INC_DTYPE_UINT8, INC_OPERATOR_MAX, INC_DTYPE_AGREED},
		{INC_OPERATOR_SUM, INC_DTYPE_FIXED, INC_OPERATOR_SUM, INC_DTYPE_INT32},
		{INC_OPERATOR_SUM, INC_DTYPE_FIXED64, INC_OPERATOR_SUM, INC_DTYPE_INT64},
		{INC_OPERATOR_MIN, INC_DTYPE_FLOAT64, INC_OPERATOR_MIN, INC_DTYPE_INT64},
		{INC_OPERATOR_MIN, INC_DTYPE_INT32_INDEX, INC_OPERATOR_MIN,
		 INC_DTYPE_FLOAT32_INDEX},
		{INC_OPERATOR_MAX, INC_DTYPE_INT64_INDEX, INC_OPERATOR_MAX,
		 INC_DTYPE_FLOAT64_INDEX},
		{INC_OPERATOR_SUM, INC_DTYPE_INT64, INC_OPERATOR_AVG, INC_DTYPE_INT64},
		{INC_OPERATOR_AND, INC_DTYPE_INT8, INC_OPERATOR_LAND, INC_DTYPE_INT8},
		{INC_OPERATOR_LOR, INC_DTYPE_INT32, INC_OPERATOR_LXOR, INC_DTYPE_INT32},
	};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t i, c;

	RUN(!cm);
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		for (c = 0; c < 2; c++) {
			uint32_t odd = (i + c) % 2;
			uint32_t op = odd ? pairs[i].other_op : pairs[i].op;
			uint32_t dtype = odd ? pairs[i].other_dtype : pairs[i].dtype;

			if (!c)
				unit_reset(u, cm, i);
			RUN(case_data(u, cm, c, i, only_imm(c), 64,
				      INC_DESC(INC_COLL_ALLREDUCE, op, dtype, 0, 1), true));
			RUN(case_expect(u, c ? INC_CTR_ANS_NAK_FATAL : INC_CTR_ANS_ACK));
		}
	}
	return 0;
}

/* Communicators with the same addresses, ports and queue pair numbers stay separate. */
static int neighbours(struct unit *u)
{
	struct ref_comm *cm[8];
	struct inc_comm_conf spec;
	uint32_t i, c, turn;
	uint64_t r;

	for (i = 0; i < 8; i++) {
		unit_spec(u, &spec, 600 + i, 2 + i % 3, 2, 256u << i % 4, 1u << i);
		for (c = 0; c < spec.n_conns; c++) {
			/* odd communicators use the queue pair numbers of the communicator before,
			 * at another address */
			spec.conn[c].own.qpn = 0x4000 + (i / 2) * 64 + c;
			if (i & 1)
				spec.conn[c].own.ip.word[3] ^= htonl(0x100);
			spec.conn[c].peer.psn = (0xfffff8 + i) & INC_PSN_MASK;
		}
		cm[i] = unit_add_comm(u, &spec);
		RUN(!cm[i]);
	}
	for (r = 0; r < 24; r++)
		for (turn = 0; turn < 4; turn++)
			for (i = 0; i < 8; i++)
				if (turn < cm[i]->cfg.children)
					RUN(case_data(u, cm[i], turn, r, only_imm(turn),
						      128 + i * 4, CASE_DESC + i, true));
	return unit_compare_all(u);
}

/* Packets of a removed communicator pass to the kernel. A communicator that is added in its place
 * starts from the beginning. */
static int remove_and_add(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct unit_packet p = {
		.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC, .ackreq = true};
	struct frame f;
	uint32_t round, c, port;

	for (round = 0; round < 4; round++) {
		unit_spec(u, &spec, 500, 6, 2, 256, 4);
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (p.r = 0; p.r < 5; p.r++) {
			for (c = 0; c < 6; c++) {
				unit_data(cm, c, &p, &f);
				RUN(unit_run(u, &f, cm->conn[c].cfg.ifindex));
			}
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
		unit_data(cm, 3, &p, &f);
		port = cm->conn[3].cfg.ifindex;
		RUN(unit_run(u, &f, port) || case_expect(u, INC_CTR_ANS_ACK));
		RUN(unit_remove_comm(u, cm));
		RUN(unit_run(u, &f, port) || case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	return 0;
}

/* Checks that the entry of a queue pair number in inc_conn_place has this connection. NULL: the
 * entry is free. */
static int expect_place(struct unit *u, uint32_t qpn, const struct ref_comm *cm, uint32_t child)
{
	uint32_t place = inc_conn_place_of(qpn, unit_conn_places(u));
	uint32_t want = cm ? cm->cfg.conn_base + child + 1 : 0, have;

	if (!bpf_map_lookup_elem(inc_switch_map_fd(u->sw, INC_MAP_CONN_PLACE), &place, &have) &&
	    have == want)
		return 0;
	snprintf(u->why, sizeof(u->why), "the place of %u holds %u, not %u", qpn, have, want);
	return -1;
}

/* Queue pair numbers that share an entry of inc_conn_place. Whichever connection has the entry,
 * packets of all connections find theirs, whatever communicators are added and removed. */
static int qpn_places(struct unit *u)
{
	/* the communicator that this round removes, and the next round adds again */
	static const uint8_t gone[] = {0, 2, 1, 0, 2};
	struct inc_comm_conf spec[3];
	struct ref_comm *cm[3];
	uint32_t round, i, c;
	uint64_t r[3] = {};

	for (i = 0; i < 3; i++) {
		unit_spec(u, &spec[i], 600 + i, 4, 4, 256, 4);
		for (c = 0; c < 4; c++)
			spec[i].conn[c].own.qpn = 0x123 + c + i * unit_conn_places(u);
		cm[i] = unit_add_comm(u, &spec[i]);
		RUN(!cm[i]);
	}
	for (round = 0; round < sizeof(gone); round++) {
		for (i = 0; i < 3; i++) {
			for (c = 0; c < 4; c++)
				RUN(case_data(u, cm[i], c, r[i], INC_OP_SEND_ONLY_IMM, 64,
					      CASE_DESC, true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
			r[i]++;
		}
		i = gone[round];
		/* communicator 0 has the entries, because it was added before the others */
		for (c = 0; c < 4; c++)
			RUN(expect_place(u, 0x123 + c, cm[0], c));
		RUN(unit_remove_comm(u, cm[i]));
		for (c = 0; c < 4; c++)
			RUN(expect_place(u, 0x123 + c, i ? cm[0] : NULL, c));
		for (c = 0; c < 3; c++)
			if (c != i)
				RUN(case_data(u, cm[c], 0, r[c] - 1, INC_OP_SEND_ONLY_IMM, 64,
					      CASE_DESC, true) ||
				    case_expect(u, INC_CTR_ANS_DUPLICATE));
		cm[i] = unit_add_comm(u, &spec[i]);
		RUN(!cm[i]);
		r[i] = 0;
	}
	return unit_compare_all(u);
}

/* All communicators have the same queue pair number, so the addresses select the connection. */
static int one_qpn(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm[3];
	uint32_t i, c, r;

	for (i = 0; i < 3; i++) {
		unit_spec(u, &spec, 700 + i, 4, 2, 256, 4);
		for (c = 0; c < 4; c++) {
			spec.conn[c].own.qpn = 0x123;
			if (i == 1)
				spec.conn[c].peer.ip.word[3] ^= htonl(0x80);
			if (i == 2)
				spec.conn[c].own.ip.word[3] ^= htonl(0x80);
		}
		cm[i] = unit_add_comm(u, &spec);
		RUN(!cm[i]);
	}
	for (r = 0; r < 6; r++)
		for (i = 0; i < 3; i++) {
			for (c = 0; c < 4; c++)
				RUN(case_data(u, cm[i], c, r, INC_OP_SEND_ONLY_IMM, 64, CASE_DESC,
					      true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
		}
	return unit_compare_all(u);
}

/* A communicator that is configured but not started receives no packets, although its members may
 * send at once. That is so even if a communicator with the same numbers existed before. */
static int not_started(struct unit *u)
{
	struct unit_packet p = {
		.opcode = INC_OP_SEND_ONLY_IMM, .len = 32, .desc = CASE_DESC, .ackreq = true};
	struct inc_err err = {""};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame f;
	uint32_t round, c, port[4];
	struct frame first[4];
	int index;

	unit_spec(u, &spec, 800, 4, 2, 256, 4);
	for (round = 0; round < 3; round++) {
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (c = 0; c < 4; c++) {
			port[c] = cm->conn[c].cfg.ifindex;
			unit_data(cm, c, &p, &f);
			first[c] = f;
		}
		RUN(unit_run(u, &first[0], port[0]) || case_expect(u, INC_CTR_ANS_ACK));
		RUN(unit_remove_comm(u, cm));
		index = inc_switch_add_comm(u->sw, &spec, &err);
		RUN(index < 0);
		for (c = 0; c < 4; c++)
			RUN(unit_run(u, &first[c], port[c]) ||
			    case_expect(u, INC_CTR_PASS_NO_CONN));
		RUN(inc_switch_remove_comm(u->sw, index, &err));
		for (c = 0; c < 4; c++)
			RUN(unit_run(u, &first[c], port[c]) ||
			    case_expect(u, INC_CTR_PASS_NO_CONN));
	}
	return 0;
}

/* If the copies of a frame share their bytes, the slow path has to send the results. */
static int copies_shared(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 3, 3, 1024, 4);
	uint64_t r;
	uint32_t c;

	RUN(!cm);
	for (r = 0; r < 12; r++) {
		u->ref.copies_shared = r / 4 == 1;
		*inc_switch_copies_shared(u->sw) = u->ref.copies_shared;
		for (c = 0; c < 3; c++)
			RUN(case_data(u, cm, c, r, INC_OP_SEND_ONLY_IMM, 1024, CASE_DESC, true));
		RUN(case_expect(u, u->ref.copies_shared ? INC_CTR_ABS_PENDING : INC_CTR_MC_RESULT));
	}
	return 0;
}

const struct unit_case cases_reduce[] = {
	{"children", children},
	{"result_lengths", result_lengths},
	{"extremes", extremes},
	{"echo", echo},
	{"mirror", mirror},
	{"collectives", collectives},
	{"mismatch", mismatch},
	{"guises", guises},
	{"neighbours", neighbours},
	{"remove_and_add", remove_and_add},
	{"copies_shared", copies_shared},
	{"qpn_places", qpn_places},
	{"one_qpn", one_qpn},
	{"not_started", not_started},
	{NULL, NULL},
};
