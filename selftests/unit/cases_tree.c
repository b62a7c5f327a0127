// SPDX-License-Identifier: BSD-2-Clause
/* A switch below the root: partial sums, the parent's results, and errors of a parent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include "cases.h"

#define DESC(coll, root) INC_DESC(coll, INC_OPERATOR_SUM, INC_DTYPE_INT32, root, 3)
#define ALLREDUCE        DESC(INC_COLL_ALLREDUCE, 0)

static const uint8_t parent_mac[6] = "\x02\x66\0\0\0\x01";

/* Adds a node whose parent is at parent_port and has a known MAC address. */
static struct ref_comm *node(struct unit *u, struct inc_comm_conf *spec, uint32_t parent_port)
{
	unit_spec_parent(u, spec, parent_port);
	memcpy(spec->conn[spec->n_conns - 1].peer_mac, parent_mac, 6);
	return unit_add_comm(u, spec);
}

static struct ref_comm *some_node(struct unit *u, uint32_t children, uint32_t slots)
{
	static uint32_t communicator = 300;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, children, children < 3 ? children : 3, 256, slots);
	return node(u, &spec, 3);
}

/* Adds a node for tests of lengths: three children on two ports, of which one wants UDP
 * checksums. */
static struct ref_comm *node_for_lengths(struct unit *u, uint32_t communicator, uint32_t payload)
{
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator, 3, 2, payload, 64);
	spec.conn[1].udp_csum = true;
	return node(u, &spec, 2);
}

static int give(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r, uint32_t len,
		uint32_t desc)
{
	return case_data(u, cm, child, r, child & 1 ? INC_OP_WRITE_ONLY_IMM : INC_OP_SEND_ONLY_IMM,
			 len, desc, false);
}

static int give_all(struct unit *u, struct ref_comm *cm, uint64_t r, uint32_t len, uint32_t desc)
{
	uint32_t c;

	for (c = 0; c < cm->cfg.children; c++)
		RUN(give(u, cm, c, r, len, desc));
	return case_expect(u, INC_CTR_UP_PARTIAL);
}

static int answer(struct unit *u, struct ref_comm *cm, uint64_t r, uint32_t len, uint32_t desc)
{
	return case_data(u, cm, cm->cfg.children, r, INC_OP_SEND_ONLY_IMM, len, desc, true);
}

/* The node sends messages of several packets to the parent as single packets. A child beyond its
 * window waits for the parent's result, not for the partial sum. */
static int partial(struct unit *u)
{
	static const uint8_t shape[] = {INC_OP_SEND_FIRST, INC_OP_SEND_MIDDLE,
					INC_OP_SEND_LAST_IMM};
	static const uint32_t lens[] = {256, 256, 100};
	struct ref_comm *cm = some_node(u, 3, 4);
	uint64_t r, done = 1;
	uint32_t c, turn;

	RUN(!cm || give_all(u, cm, 0, 16, ALLREDUCE) || answer(u, cm, 0, 16, ALLREDUCE));
	RUN(case_expect(u, INC_CTR_MC_DOWN));
	for (r = 1; r < 31; r++) {
		for (turn = 0; turn < 3; turn++) {
			uint32_t k = (r - 1) % 3;

			c = (turn + r) % 3;
			RUN(case_data(u, cm, c, r, shape[k] + (c & 1 ? INC_OP_WRITE_FIRST : 0),
				      lens[k], ALLREDUCE, (r + c) % 5 == 0));
		}
		RUN(case_expect(u, INC_CTR_UP_PARTIAL));
		if (r + 1 < done + 4)
			continue;
		RUN(case_data(u, cm, 1, r + 1, shape[r % 3] + INC_OP_WRITE_FIRST, lens[r % 3],
			      ALLREDUCE, false));
		RUN(case_expect(u, INC_CTR_ANS_RNR));
		RUN(answer(u, cm, done, lens[(done - 1) % 3], ALLREDUCE));
		RUN(case_expect(u, INC_CTR_MC_DOWN));
		done++;
	}
	return 0;
}

/* Plays every order in which two children and the parent can send three packets each, recursively.
 * If the parent sends a result before it has the partial sum, its connection fails, and nothing
 * after that counts. */
static int orders_from(struct unit *u, struct ref_comm *cm, uint64_t *base, uint32_t left[3],
		       uint8_t *order, uint32_t n)
{
	uint64_t next[3];
	uint32_t i;

	for (i = 0; i < 3; i++) {
		if (!left[i])
			continue;
		left[i]--;
		order[n] = i;
		RUN(orders_from(u, cm, base, left, order, n + 1));
		left[i]++;
	}
	if (n < 9)
		return 0;
	*base += 7; /* the orders begin at each slot, and in many generations */
	unit_reset(u, cm, *base);
	next[0] = next[1] = next[2] = *base;
	for (i = 0; i < 9; i++) {
		uint64_t r = next[order[i]]++;

		RUN(order[i] < 2 ? give(u, cm, order[i], r, 32, ALLREDUCE)
				 : answer(u, cm, r, 32, ALLREDUCE));
		/* the peer sends a refused packet again */
		if (u->want.counter == INC_CTR_ANS_RNR)
			next[order[i]]--;
	}
	return unit_compare_all(u);
}

static int every_order(struct unit *u)
{
	struct ref_comm *cm = some_node(u, 2, 2);
	uint32_t left[3] = {3, 3, 3};
	uint64_t base = 0;
	uint8_t order[9];

	return !cm || orders_from(u, cm, &base, left, order, 0) ? -1 : 0;
}

/* The parent's packet must match the partial sum in message, descriptor and length. */
static int parent_lies(struct unit *u)
{
	struct ref_comm *cm = some_node(u, 2, 4);
	uint32_t i, opcode;
	uint64_t r = 0;

	RUN(!cm);
	for (opcode = 0; opcode <= INC_OP_WRITE_ONLY_IMM + 1; opcode++, r++) {
		unit_reset(u, cm, r);
		RUN(give_all(u, cm, r, 64, ALLREDUCE));
		RUN(case_data(u, cm, 2, r, opcode, opcode % 6 < 2 ? 256 : 64, ALLREDUCE, false));
		RUN(case_expect(u, opcode == INC_OP_SEND_ONLY_IMM ? INC_CTR_MC_DOWN
				   : opcode == INC_OP_WRITE_ONLY_IMM + 1
					   ? INC_CTR_DROP_OPCODE
					   : INC_CTR_ANS_NAK_INVALID));
	}
	for (i = 0; i < 32; i++, r++) {
		unit_reset(u, cm, r);
		RUN(give_all(u, cm, r, 64, ALLREDUCE) || answer(u, cm, r, 64, ALLREDUCE ^ 1u << i));
		RUN(case_expect(u, INC_CTR_ANS_NAK_INVALID));
		/* the program accepts neither that packet nor a later one */
		RUN(answer(u, cm, r, 64, ALLREDUCE) || case_expect(u, INC_CTR_ANS_NAK_INVALID));
	}
	for (i = 0; i <= 256; i += 4, r++) {
		unit_reset(u, cm, r);
		RUN(give_all(u, cm, r, 64, ALLREDUCE) || answer(u, cm, r, i, ALLREDUCE));
		RUN(case_expect(u, i == 64 ? INC_CTR_MC_DOWN : INC_CTR_ANS_NAK_INVALID));
	}
	return 0;
}

/* The parent's packet is a duplicate, ahead, repeated, or new, or it comes before its partial
 * sum. */
static int parent_psns(struct unit *u)
{
	struct ref_comm *cm = some_node(u, 2, 4);
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 3; r++)
		RUN(give_all(u, cm, r, 64, ALLREDUCE));
	RUN(answer(u, cm, 1, 64, ALLREDUCE) || case_expect(u, INC_CTR_ANS_NAK_SEQ));
	RUN(answer(u, cm, 2, 64, ALLREDUCE) || case_expect(u, INC_CTR_DROP_AHEAD));
	for (r = 0; r < 3; r++) {
		RUN(answer(u, cm, r, 64, ALLREDUCE) || case_expect(u, INC_CTR_MC_DOWN));
		RUN(answer(u, cm, r, 64, ALLREDUCE) || case_expect(u, INC_CTR_ANS_DUPLICATE));
		RUN(answer(u, cm, 0, 64, ALLREDUCE) || case_expect(u, INC_CTR_ANS_DUPLICATE));
	}
	RUN(give(u, cm, 0, 3, 64, ALLREDUCE) || case_expect(u, INC_CTR_ABS_STORED));
	RUN(answer(u, cm, 3, 64, ALLREDUCE) || case_expect(u, INC_CTR_ANS_NAK_INVALID));
	/* the program still sends the children's partial sum, because only the slow path ends the
	 * communicator */
	return give(u, cm, 1, 3, 64, ALLREDUCE) || case_expect(u, INC_CTR_UP_PARTIAL);
}

/* ACKs of the parent, and what the parent's results acknowledge. */
static int parent_acks(struct unit *u)
{
	struct ref_comm *cm = some_node(u, 2, 8);
	uint32_t psn, p = 2;
	uint64_t r;

	RUN(!cm);
	psn = cm->conn[p].cfg.own.psn;
	RUN(case_ack(u, cm, p, INC_AETH_ACK, psn) || case_expect(u, INC_CTR_DROP_ACK_RANGE));
	for (r = 0; r < 6; r++)
		RUN(give_all(u, cm, r, 64, ALLREDUCE));
	RUN(case_ack(u, cm, p, INC_AETH_ACK, psn + 1) || case_expect(u, INC_CTR_ABS_ACK));
	RUN(case_ack(u, cm, p, INC_AETH_ACK, psn + 6) || case_expect(u, INC_CTR_DROP_ACK_RANGE));
	RUN(case_ack(u, cm, p, INC_AETH_NAK_SEQ, psn + 3) ||
	    case_expect(u, INC_CTR_DROP_NO_SLOWPATH));
	RUN(case_ack(u, cm, p, INC_AETH_RNR, psn + 4));
	/* result r of the parent implies that it has partial sum r; the switch owes the ACK of the
	 * result */
	for (r = 0; r < 6; r++)
		RUN(answer(u, cm, r, 64, ALLREDUCE));
	RUN(case_ack(u, cm, p, INC_AETH_ACK, psn + 1) || case_expect(u, INC_CTR_ANS_OWED));
	RUN(case_ack(u, cm, p, INC_AETH_NAK_OPERATION, psn + 5));
	/* the parent's packets are acknowledged when the results are sent to the children */
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn + 5));
	return 0;
}

/* Which ranks give and get data if the root is a child, one of several ranks of a child, or
 * elsewhere in the tree. */
static int tree_collectives(struct unit *u)
{
	static const uint32_t lens[] = {0, 60, 64};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t coll, root, giver, c, k;
	uint64_t r = 0;

	unit_spec(u, &spec, 640, 3, 2, 256, 8);
	spec.conn[0].udp_csum = true;
	spec.conn[1].has_ranks = true;
	RUN(inc_ranks_parse("1,3-4", &spec.conn[1].ranks));
	cm = node(u, &spec, 2);
	RUN(!cm);
	for (coll = 0; coll < INC_N_COLLECTIVES; coll++)
		for (root = 0; root < 7; root++) /* ranks 5 and 6 are elsewhere in the tree */
			for (giver = 0; giver < 8; giver++)
				for (k = 0; k < 3; k++, r++) {
					unit_reset(u, cm, r);
					for (c = 0; c < 3; c++)
						RUN(give(u, cm, (c + r) % 3, r,
							 giver >> (c + r) % 3 & 1 ? 64 : 0,
							 DESC(coll, root)));
					if (u->want.counter != INC_CTR_ANS_NAK_FATAL)
						RUN(answer(u, cm, r, lens[k], DESC(coll, root)));
				}
	return 0;
}

/* The root of a Broadcast is the only rank below this switch. The child gets an empty result. */
static int only_rank_below(struct unit *u)
{
	struct ref_comm *cm = some_node(u, 1, 4);

	RUN(!cm || give_all(u, cm, 0, 64, DESC(INC_COLL_BROADCAST, 0)));
	RUN(answer(u, cm, 0, 0, DESC(INC_COLL_BROADCAST, 0)) || case_expect(u, INC_CTR_MC_DOWN));
	RUN(give_all(u, cm, 1, 0, DESC(INC_COLL_BROADCAST, 9)));
	RUN(answer(u, cm, 1, 128, DESC(INC_COLL_BROADCAST, 9)) || case_expect(u, INC_CTR_MC_DOWN));
	return 0;
}

/* 32 children have 4,096 ranks. Each of these ranks can be the root. */
static int many_ranks(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t c, k, root;
	uint64_t r = 0;

	unit_spec(u, &spec, 641, INC_MAX_CHILDREN, 3, 256, 8);
	for (c = 0; c < INC_MAX_CHILDREN; c++) {
		spec.conn[c].rank = c;
		spec.conn[c].has_ranks = true;
		for (k = c; k < INC_MAX_RANKS; k += INC_MAX_CHILDREN)
			inc_ranks_add(&spec.conn[c].ranks, k);
	}
	cm = node(u, &spec, 3);
	RUN(!cm);
	/* tries a rank of each child, and the last rank */
	for (root = 0; root < INC_MAX_RANKS; root += 117, r++) {
		RUN(give_all(u, cm, r, 16, DESC(INC_COLL_REDUCE, root)));
		RUN(answer(u, cm, r, 16, DESC(INC_COLL_REDUCE, root)));
		RUN(case_expect(u, INC_CTR_MC_DOWN));
	}
	return 0;
}

/* The parent and the children are all at one port of the switch. */
static int one_arm(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint64_t r;

	unit_spec(u, &spec, 642, 5, 1, 1024, 8);
	spec.conn[3].udp_csum = true;
	cm = node(u, &spec, 0);
	RUN(!cm);
	for (r = 0; r < 20; r++)
		RUN(give_all(u, cm, r, 4 * (r + 1), ALLREDUCE) ||
		    answer(u, cm, r, 4 * (r + 1), ALLREDUCE) || case_expect(u, INC_CTR_MC_DOWN));
	return 0;
}

/* The parent's MAC address is unknown, so the slow path has to send the partial sum. */
static int parent_unknown(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;

	unit_spec(u, &spec, 643, 2, 2, 256, 4);
	unit_spec_parent(u, &spec, 2);
	cm = unit_add_comm(u, &spec);
	RUN(!cm || give_all(u, cm, 0, 64, ALLREDUCE));
	/* the program learns the address from the parent's frame */
	RUN(answer(u, cm, 0, 64, ALLREDUCE) || case_expect(u, INC_CTR_MC_DOWN));
	return give_all(u, cm, 1, 64, ALLREDUCE);
}

/* The parent sends results of every length. The ICRC and UDP checksum of the copies derive from the
 * parent's frame. */
static int passed_lengths(struct unit *u)
{
	struct ref_comm *cm = node_for_lengths(u, 644, 2048);
	uint32_t len;
	uint64_t r = 0;

	RUN(!cm);
	for (len = 0; len <= 2048; len += 4, r++)
		RUN(give_all(u, cm, r, len, ALLREDUCE) || answer(u, cm, r, len, ALLREDUCE) ||
		    case_expect(u, INC_CTR_MC_DOWN));
	return 0;
}

/* Partial sums and results whose length is not a multiple of 4. Data of ranks elsewhere must have
 * whole elements, but this switch cannot check their number. */
static int passed_pads(struct unit *u)
{
	const uint32_t bytes =
		INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_MAX, INC_DTYPE_UINT8, 0, 3);
	const uint32_t words =
		INC_DESC(INC_COLL_BROADCAST, INC_OPERATOR_SUM, INC_DTYPE_INT16, 9, 3);
	struct ref_comm *cm = node_for_lengths(u, 645, 256);
	uint32_t len;
	uint64_t r = 0;

	RUN(!cm);
	for (len = 1; len <= 256; len += len == 20 ? 230 : 1, r++)
		RUN(give_all(u, cm, r, len, bytes) || answer(u, cm, r, len, bytes) ||
		    case_expect(u, INC_CTR_MC_DOWN));
	for (len = 1; len <= 256; len += len == 20 ? 230 : 1, r++) {
		unit_reset(u, cm, r);
		RUN(give_all(u, cm, r, 0, words) || answer(u, cm, r, len, words));
		RUN(case_expect(u, len % 2 ? INC_CTR_ANS_NAK_INVALID : INC_CTR_MC_DOWN));
	}
	return 0;
}

/* A partial sum shows its byte order. If that is another order than the switch's, the packet is
 * refused and not added. */
static int byte_orders(struct unit *u)
{
	struct unit_packet p = {.opcode = INC_OP_SEND_ONLY_IMM, .len = 64, .desc = ALLREDUCE};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	struct frame f;
	uint32_t own, theirs;

	for (own = 0; own < 2; own++) {
		unit_spec(u, &spec, 646 + own, 2, 2, 256, 4);
		spec.byte_order = own ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
		spec.conn[1].has_ranks = true;
		RUN(inc_ranks_parse("1,3-4", &spec.conn[1].ranks));
		cm = node(u, &spec, 2);
		RUN(!cm);
		for (theirs = 0; theirs < 2; theirs++) {
			unit_reset(u, cm, 0);
			RUN(give(u, cm, 0, 0, 64, ALLREDUCE));
			p.solicited = theirs;
			unit_data(cm, 1, &p, &f);
			RUN(unit_run(u, &f, cm->conn[1].cfg.ifindex));
			RUN(case_expect(u, own == theirs ? INC_CTR_UP_PARTIAL
							 : INC_CTR_ANS_NAK_INVALID));
		}
	}
	return 0;
}

/* The loader refuses configurations that are no tree. */
static int bad_trees(struct unit *u)
{
	static const struct {
		const char *what, *said;
	} bad[] = {
		{"two parents", "2 connections up, to one parent at most"},
		{"a parent alone", "0 children"},
		{"33 children", "33 children"},
		{"a root with a parent", "1 connections up, to a root"},
		{"a rank behind two children", "the rank is listed twice"},
		{"not the lowest rank", "not the lowest of the ranks behind it"},
	};
	struct inc_comm_conf spec;
	struct inc_err err;
	uint32_t i;

	for (i = 0; i < 6; i++) {
		unit_spec(u, &spec, 645, i == 2 ? 33 : 2, 2, 256, 4);
		if (i != 2)
			unit_spec_parent(u, &spec, 2);
		if (i == 0)
			unit_spec_parent(u, &spec, 3);
		if (i == 1) {
			spec.conn[0] = spec.conn[2];
			spec.n_conns = 1;
		}
		spec.root = i == 3;
		if (i >= 4) {
			spec.conn[0].has_ranks = true;
			RUN(inc_ranks_parse(i == 4 ? "0-1" : "5", &spec.conn[0].ranks));
		}
		if (inc_switch_add_comm(u->sw, &spec, &err) != -EINVAL) {
			snprintf(u->why, sizeof(u->why), "%s: not refused", bad[i].what);
			return -1;
		}
		if (!strstr(err.msg, bad[i].said)) {
			snprintf(u->why, sizeof(u->why), "%s: '%s'", bad[i].what, err.msg);
			return -1;
		}
	}
	return 0;
}

/* Partial sums, and ACKs to the parent, have the class of the packets of child 0, whichever child
 * is the last one, or the configured class. The class of the parent's own packets changes nothing.
 */
static int class_of_parent(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t fixed, want;
	uint64_t r;

	for (fixed = 0; fixed < 2; fixed++) {
		unit_spec(u, &spec, 646 + fixed, 2, 2, 256, 4);
		unit_spec_parent(u, &spec, 3);
		memcpy(spec.conn[2].peer_mac, parent_mac, 6);
		spec.conn[2].verbs.traffic_class = 0x22;
		spec.conn[2].verbs.has_traffic_class = fixed;
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (r = 0; r < 8; r++) {
			want = fixed ? 0x22 : 0x68 + 4 * (r / 2);
			RUN(case_class(u, cm, r & 1, r, r & 1 ? 0x0a : 0x68 + 4 * (r / 2)));
			RUN(case_class(u, cm, !(r & 1), r, r & 1 ? 0x6b + 4 * (r / 2) : 0x0a));
			RUN(case_expect(u, INC_CTR_UP_PARTIAL));
			if (r & 1 && !fixed)
				want += 2; /* ECT(0), because the packet had a mark */
			RUN(case_class(u, cm, 2, r, 0x40) || case_expect(u, INC_CTR_MC_DOWN));
			RUN(case_class(u, cm, 2, r, 0x40) || case_expect(u, INC_CTR_ANS_DUPLICATE));
			if (u->out_frame.data[FRAME_IP + 1] == want)
				continue;
			snprintf(u->why, sizeof(u->why), "r %llu: TOS %#x, meant to be %#x",
				 (unsigned long long)r, u->out_frame.data[FRAME_IP + 1], want);
			return -1;
		}
	}
	return 0;
}

const struct unit_case cases_tree[] = {
	{"partial", partial},
	{"every_order", every_order},
	{"parent_lies", parent_lies},
	{"parent_psns", parent_psns},
	{"parent_acks", parent_acks},
	{"tree_collectives", tree_collectives},
	{"only_rank_below", only_rank_below},
	{"many_ranks", many_ranks},
	{"one_arm", one_arm},
	{"parent_unknown", parent_unknown},
	{"passed_lengths", passed_lengths},
	{"passed_pads", passed_pads},
	{"byte_orders", byte_orders},
	{"bad_trees", bad_trees},
	{"class_of_parent", class_of_parent},
	{NULL, NULL},
};
