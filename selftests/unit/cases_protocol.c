// SPDX-License-Identifier: BSD-2-Clause
/* Order of packets, messages, windows and acknowledgements on a single connection. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <linux/if_xdp.h>
#include <bpf/bpf.h>
#include "cases.h"

#define OPCODES 12 /* number of opcodes of data packets */

static bool ends_message(uint8_t op)
{
	return op != INC_OP_SEND_FIRST && op != INC_OP_SEND_MIDDLE && op != INC_OP_WRITE_FIRST &&
	       op != INC_OP_WRITE_MIDDLE;
}

/* Every sequence of three opcodes. */
static int opcode_order(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 1, 256, 8);
	uint32_t seq, r, op;

	RUN(!cm);
	for (seq = 0; seq < OPCODES * OPCODES * OPCODES; seq++) {
		unit_reset(u, cm, 0);
		unit_prime(u, cm, 0, INC_OPEN_NONE, CASE_DESC);
		for (r = 0; r < 3; r++) {
			op = r == 0   ? seq / OPCODES / OPCODES
			     : r == 1 ? seq / OPCODES % OPCODES
				      : seq % OPCODES;
			RUN(case_data(u, cm, 0, r, op, ends_message(op) ? 32 : 256, CASE_DESC,
				      r & 1));
			if (cm->conn[0].state.error)
				break;
		}
	}
	return 0;
}

/* After a message of n packets in order, the MSN is greater by one. */
static int messages(struct unit *u)
{
	static const uint8_t first[] = {INC_OP_SEND_FIRST, INC_OP_WRITE_FIRST};
	struct ref_comm *cm = case_comm(u, 3, 2, 256, 64);
	uint32_t kind, n, k, last;
	uint64_t r = 0;

	RUN(!cm);
	RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY_IMM, 8, CASE_DESC, true));
	r++;
	for (kind = 0; kind < 2; kind++) {
		for (n = 2; n <= 6; n++) {
			for (k = 0; k < n; k++, r++) {
				last = 2 + (n & 1); /* every other message has an immediate */
				RUN(case_data(u, cm, 0, r,
					      first[kind] + (k == 0      ? 0
							     : k < n - 1 ? 1
									 : last),
					      k < n - 1 ? 256 : 4 * n, CASE_DESC, k == n - 1));
				RUN(case_expect(u,
						k == n - 1 ? INC_CTR_ANS_ACK : INC_CTR_ABS_STORED));
			}
		}
	}
	if (cm->conn[0].state.msn == 11)
		return 0;
	snprintf(u->why, sizeof(u->why), "MSN is %u after 11 messages", cm->conn[0].state.msn);
	return -1;
}

static bool has_one_number(uint32_t dtype)
{
	return dtype != INC_DTYPE_INT64_INDEX && dtype != INC_DTYPE_FLOAT64_INDEX;
}

static bool only_passes(uint32_t coll)
{
	return coll == INC_COLL_BROADCAST || coll == INC_COLL_BARRIER ||
	       coll == INC_COLL_ALL_GATHER;
}

static bool chooses(uint32_t op)
{
	return op == INC_OPERATOR_MIN || op == INC_OPERATOR_MAX;
}

/* A descriptor must be valid, and must be in a message's first packet. */
static int descriptors(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 1, 256, 8);
	uint32_t op, top;

	RUN(!cm);
	for (op = 0; op < OPCODES; op++) {
		unit_reset(u, cm, 0);
		RUN(case_data(u, cm, 0, 0, op, ends_message(op) ? 32 : 256, CASE_DESC, true));
		RUN(case_expect(u, op == INC_OP_SEND_ONLY_IMM || op == INC_OP_WRITE_ONLY_IMM
					   ? INC_CTR_ANS_ACK
					   : INC_CTR_ANS_NAK_INVALID));
	}
	for (top = 0; top < 1 << 13; top++) { /* every value of collective, operator and type */
		unit_reset(u, cm, 0);
		RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 32, top << 19 | 3 << 14 | 9,
			      true));
		RUN(case_expect(u,
				top >> 10 < INC_N_COLLECTIVES &&
						(top >> 5 & 31) < INC_N_WIRE_OPERATORS &&
						(top & 31) < INC_N_WIRE_DTYPES &&
						(has_one_number(top & 31) ||
						 only_passes(top >> 10) || chooses(top >> 5 & 31))
					? INC_CTR_ANS_ACK
					: INC_CTR_ANS_NAK_INVALID));
	}
	return 0;
}

/* PSNs behind and ahead of the expected one, from several starts. A gap gets one NAK, and another
 * NAK when it recurs after it was closed. The program acknowledges a duplicate again, and changes
 * nothing. */
static int psn_order(struct unit *u)
{
	static const uint32_t starts[] = {0, 1, 5, 0x7ffffe, 0x800000, 0xfffffc, 0xffffff};
	static const int64_t steps[] = {-0x800000, -0x7fffff, -70000,   -4097,   -3,
					-2,        -1,        1,        2,       3,
					4096,      70000,     0x7ffffe, 0x7fffff};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t i, k;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		unit_spec(u, &spec, 900 + i, 2, 1, 256, 8);
		spec.conn[0].peer.psn = starts[i];
		spec.conn[1].own.psn = starts[i];
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (k = 0; k < sizeof(steps) / sizeof(steps[0]); k++) {
			uint64_t r = 2 + k; /* chunk numbers continue after the PSN wraps */

			unit_reset(u, cm, r);
			unit_prime(u, cm, 0, INC_OPEN_NONE, CASE_DESC);
			RUN(case_data(u, cm, 0, r + steps[k], INC_OP_SEND_ONLY, 16, 0, true));
			RUN(case_expect(u, steps[k] < 0 ? INC_CTR_ANS_DUPLICATE
							: INC_CTR_ANS_NAK_SEQ));
			RUN(case_data(u, cm, 0, r + steps[k], INC_OP_SEND_ONLY, 16, 0, false));
			RUN(case_expect(u,
					steps[k] < 0 ? INC_CTR_ANS_DUPLICATE : INC_CTR_DROP_AHEAD));
			RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY, 16, 0, false));
			RUN(case_expect(u, INC_CTR_ABS_STORED));
			RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY, 16, 0, false));
			RUN(case_expect(u, INC_CTR_ANS_DUPLICATE));
			RUN(case_data(u, cm, 0, r + 3, INC_OP_SEND_ONLY, 16, 0, false));
			RUN(case_expect(u, INC_CTR_ANS_NAK_SEQ));
			RUN(case_data(u, cm, 0, r + 1, INC_OP_SEND_ONLY, 16, 0, true));
			RUN(case_expect(u, INC_CTR_ANS_ACK));
		}
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

/* A child that is a whole window ahead is refused until its slot has the result. */
static int older_generation(struct unit *u)
{
	static const uint32_t slots[] = {1, 2, 64, 4096};
	struct ref_comm *cm;
	uint32_t i, lap;
	uint64_t r, r0;

	for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		cm = case_comm(u, 2, 2, 256, slots[i]);
		RUN(!cm);
		for (lap = 0; lap < 3; lap++) {
			/* starts with chunk 0, with a slot in the middle, and across 2^32
			 * generations */
			r0 = lap == 0   ? 0
			     : lap == 1 ? 3 * slots[i] + slots[i] / 2
					: (0x100000000ull - 1) * slots[i];
			unit_reset(u, cm, r0);
			for (r = r0; r < r0 + slots[i]; r++)
				RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC,
					      false) ||
				    case_expect(u, INC_CTR_ABS_STORED));
			RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY, 16, 0, false));
			RUN(case_expect(u, INC_CTR_ANS_RNR));
			RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY, 16, 0, true));
			RUN(case_expect(u, INC_CTR_ANS_RNR));
			RUN(case_data(u, cm, 1, r0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
			RUN(case_expect(u, INC_CTR_MC_RESULT));
			RUN(case_data(u, cm, 0, r, INC_OP_SEND_ONLY, 16, 0, true));
			RUN(case_expect(u, INC_CTR_ANS_ACK));
			RUN(case_data(u, cm, 0, r + 1, INC_OP_SEND_ONLY, 16, 0, true));
			RUN(case_expect(u, INC_CTR_ANS_RNR));
			RUN(unit_compare_all(u));
		}
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

/* The last arriver's frame becomes the result, so the switch still owes its sender an ACK. The
 * answer to a later packet carries that ACK, or the child's own ACK is sent back as one. */
static int owed_ack(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t psn;

	RUN(!cm);
	psn = cm->conn[1].cfg.own.psn;
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_ack(u, cm, 1, INC_AETH_ACK, psn));
	RUN(case_expect(u, INC_CTR_ANS_OWED));
	RUN(case_ack(u, cm, 1, INC_AETH_ACK, psn));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	/* the ACK of the next packet includes the owed one */
	RUN(case_data(u, cm, 0, 1, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_data(u, cm, 1, 1, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_data(u, cm, 1, 2, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_ACK));
	RUN(case_ack(u, cm, 1, INC_AETH_ACK, psn + 1));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	/* the answer to a duplicate includes the owed ACK */
	RUN(case_data(u, cm, 0, 2, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_data(u, cm, 0, 2, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_DUPLICATE));
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn + 2));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	return 0;
}

/* A probe gets an ACK of all packets that are stored, at any time, and acknowledges results itself.
 * The ACK of a packet that requested none is never owed. */
static int probe(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t psn;

	RUN(!cm);
	psn = cm->conn[0].cfg.own.psn;
	/* nothing is stored, and no result was sent */
	RUN(case_probe(u, cm, 0, psn - 1));
	RUN(case_expect(u, INC_CTR_ANS_OWED));
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, false));
	RUN(case_expect(u, INC_CTR_ABS_STORED));
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, psn - 1));
	RUN(case_expect(u, INC_CTR_ABS_ACK));
	RUN(case_probe(u, cm, 0, psn - 1));
	RUN(case_expect(u, INC_CTR_ANS_OWED));
	RUN(case_probe(u, cm, 0, psn - 1));
	RUN(case_expect(u, INC_CTR_ANS_OWED));
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, false));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_probe(u, cm, 0, psn));
	RUN(case_expect(u, INC_CTR_ANS_OWED));
	/* it may acknowledge no more than was sent */
	RUN(case_probe(u, cm, 0, psn + 1));
	RUN(case_expect(u, INC_CTR_DROP_ACK_RANGE));
	return 0;
}

static int ack_ranges(struct unit *u)
{
	static const uint32_t starts[] = {0, 77, 0xfffffe, 0x7fffff};
	static const int64_t beyond[] = {0, 1, 2, 4096, 0x7ffff0, 0x7fffff, 0x800000, 0x800001};
	struct inc_comm_conf spec;
	struct ref_comm *cm;
	uint32_t i, k;
	int64_t d;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		unit_spec(u, &spec, 800 + i, 2, 2, 256, 16);
		spec.conn[0].own.psn = starts[i];
		cm = unit_add_comm(u, &spec);
		RUN(!cm);
		for (d = -20; d < 8; d++) {
			for (k = 0; k < 3; k++) {
				static const uint8_t syndrome[] = {INC_AETH_ACK, INC_AETH_NAK_SEQ,
								   INC_AETH_RNR | 14};

				/* the switch has sent ten results, and the child has acknowledged
				 * four of them */
				unit_reset(u, cm, 10);
				cm->conn[0].state.tx_acked = 4;
				inc_switch_conn_state(u->sw)[cm->cfg.conn_base].tx_acked = 4;
				RUN(case_ack(u, cm, 0, syndrome[k], starts[i] + 9 + d));
			}
		}
		for (k = 0; k < sizeof(beyond) / sizeof(beyond[0]); k++) {
			unit_reset(u, cm, 0);
			RUN(case_ack(u, cm, 0, INC_AETH_ACK, starts[i] + beyond[k]));
		}
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

/*
 * A child may send no ACK at all: its packet of chunk r + slots implies that it has result r. The
 * PSN in its ACKs and NAKs is looked up near that result. Otherwise, after 2^23 chunks, the PSN
 * would match an old result, and the answer would be lost.
 */
static int ack_after_long(struct unit *u)
{
	static const uint64_t first[] = {0,         8,         9,          0x7ffffe,
					 0x7fffff,  0x800000,  0x800001,   0xffffff,
					 0x1000000, 0x1800005, 0x100000003};
	static const uint8_t syndrome[] = {INC_AETH_ACK, INC_AETH_NAK_SEQ, INC_AETH_RNR | 14};
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct inc_conn_state *st;
	uint32_t i, k;
	int64_t d;

	RUN(!cm);
	st = inc_switch_conn_state(u->sw) + cm->cfg.conn_base;
	for (i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
		for (d = -10; d < 3; d++) {
			for (k = 0; k < sizeof(syndrome); k++) {
				unit_reset(u, cm, first[i] + 10);
				cm->conn[0].state.tx_acked = st->tx_acked = 0;
				RUN(case_ack(u, cm, 0, syndrome[k],
					     cm->conn[0].cfg.own.psn + first[i] + 9 + d));
				if (d < -6 || d > (k ? 1 : 0) ||
				    st->tx_acked == first[i] + 9 + d + !k)
					continue;
				snprintf(u->why, sizeof(u->why),
					 "syndrome %#x for result %llu: %llu acknowledged",
					 syndrome[k], (unsigned long long)(first[i] + 9 + d),
					 (unsigned long long)st->tx_acked);
				return -1;
			}
		}
	}
	return unit_remove_comm(u, cm);
}

/* Puts a socket into inc_xsk for port 0. The map requires only a receive ring. */
static int open_socket(struct unit *u)
{
	int ring = 64, fd = socket(AF_XDP, SOCK_RAW, 0);
	struct inc_port port = {.index = 0};
	uint32_t key = 0;

	if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_RX_RING, &ring, sizeof(ring)) ||
	    bpf_map_update_elem(inc_switch_map_fd(u->sw, INC_MAP_PORT), &u->port[0], &port, 0) ||
	    bpf_map_update_elem(inc_switch_map_fd(u->sw, INC_MAP_XSK), &key, &fd, 0)) {
		snprintf(u->why, sizeof(u->why), "AF_XDP socket: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	u->ref.slowpath = true;
	return fd;
}

/* The child sends all syndromes, with and without a slow path. */
static int syndromes(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 1, 1, 256, 16);
	uint32_t syndrome, key = 0;
	int fd = -1, pass, ret = 0;

	RUN(!cm);
	for (pass = 0; pass < 3 && !ret; pass++) {
		if (pass == 1) {
			fd = open_socket(u);
			RUN(fd < 0);
		}
		for (syndrome = 0; syndrome < 256 && !ret; syndrome++) {
			unit_reset(u, cm, 10);
			ret = case_ack(u, cm, 0, syndrome, cm->conn[0].cfg.own.psn + 9);
		}
		if (pass == 1) {
			bpf_map_delete_elem(inc_switch_map_fd(u->sw, INC_MAP_XSK), &key);
			close(fd);
			u->ref.slowpath = false;
		}
	}
	bpf_map_delete_elem(inc_switch_map_fd(u->sw, INC_MAP_PORT), &u->port[0]);
	return ret;
}

/* No process reads the event ring, so events are lost and counted. Packets are not lost. */
static int event_ring_full(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 1, 1, 256, 16);
	uint64_t before = u->ref.counter[INC_CTR_X_EVENT_LOST];
	uint32_t i, n = 2000;

	RUN(!cm);
	u->hold_events = true;
	for (i = 0; i < n; i++) {
		if (case_ack(u, cm, 0, INC_AETH_NAK_ACCESS, cm->conn[0].cfg.own.psn))
			break;
	}
	u->hold_events = false;
	RUN(i < n || unit_take_events(u));
	if (u->events + u->ref.counter[INC_CTR_X_EVENT_LOST] - before == n &&
	    (uint32_t)u->events < n)
		return 0;
	snprintf(u->why, sizeof(u->why), "%d events read and %llu lost, of %u", u->events,
		 (unsigned long long)(u->ref.counter[INC_CTR_X_EVENT_LOST] - before), n);
	return -1;
}

/* After a fatal error the program refuses data behind, at and ahead of the expected PSN, and drops
 * ACKs. */
static int after_error(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 16);
	int64_t d;

	RUN(!cm);
	unit_reset(u, cm, 3);
	RUN(case_data(u, cm, 0, 3, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_data(u, cm, 0, 4, INC_OP_SEND_LAST, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_NAK_INVALID));
	for (d = -4; d < 5; d++) {
		RUN(case_data(u, cm, 0, 4 + d, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, d & 1));
		RUN(case_expect(u, INC_CTR_ANS_NAK_INVALID));
	}
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn));
	RUN(case_expect(u, INC_CTR_DROP_CONN_ERROR));
	/* the other child of the communicator is not affected */
	RUN(case_data(u, cm, 1, 3, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_data(u, cm, 1, 4, INC_OP_SEND_ONLY, 16, 0, true));
	return case_expect(u, INC_CTR_ANS_ACK);
}

/* Chunk numbers have 64 bits and PSNs 24. The case has results and ACKs far beyond the first wrap
 * of PSNs. */
static int far_chunks(struct unit *u)
{
	static const uint64_t at[] = {0xfffffe, 0x1fffffd, 0xfffffffeull, 0x123456789abull};
	struct ref_comm *cm = case_comm(u, 3, 2, 256, 4);
	uint32_t i, c;
	uint64_t r;

	RUN(!cm);
	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		unit_reset(u, cm, at[i]);
		for (r = at[i]; r < at[i] + 12; r++) {
			for (c = 0; c < 3; c++) {
				RUN(case_data(u, cm, c, r, INC_OP_WRITE_ONLY_IMM, 64, CASE_DESC,
					      true));
				RUN(case_expect(u, c < 2 ? INC_CTR_ANS_ACK : INC_CTR_MC_RESULT));
			}
			for (c = 0; c < 3; c++)
				RUN(case_ack(u, cm, c, INC_AETH_ACK, cm->conn[c].cfg.own.psn + r));
		}
	}
	return 0;
}

const struct unit_case cases_protocol[] = {
	{"opcode_order", opcode_order},
	{"messages", messages},
	{"descriptors", descriptors},
	{"psn_order", psn_order},
	{"older_generation", older_generation},
	{"owed_ack", owed_ack},
	{"probe", probe},
	{"ack_ranges", ack_ranges},
	{"ack_after_long", ack_after_long},
	{"syndromes", syndromes},
	{"event_ring_full", event_ring_full},
	{"after_error", after_error},
	{"far_chunks", far_chunks},
	{NULL, NULL},
};
