// SPDX-License-Identifier: BSD-2-Clause
/* Contributions ahead of a gap, in a communicator that keeps them, and chunks that complete in any
 * order. */
#include <stdio.h>
#include "loader/inc_raw.h"
#include "cases.h"

static struct ref_comm *reorder_comm(struct unit *u, uint32_t children, uint32_t slots,
				     uint32_t psn)
{
	static uint32_t communicator = 5000;
	struct inc_comm_conf spec;
	uint32_t c;

	unit_spec(u, &spec, communicator++, children, 2, 256, slots);
	spec.reorder = true;
	for (c = 0; c < children; c++)
		spec.conn[c].peer.psn = spec.conn[c].own.psn = psn;
	return unit_add_comm(u, &spec);
}

/* Sends contribution r of a child, which has its descriptor. */
static int give(struct unit *u, struct ref_comm *cm, uint32_t child, uint64_t r,
		enum inc_counter_id counter)
{
	RUN(case_data(u, cm, child, r, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, false));
	return case_expect(u, counter);
}

/* Checks how far the connection and the communicator are. */
static int stands(struct unit *u, const struct ref_comm *cm, uint32_t child, uint64_t rx_next,
		  uint32_t ahead, uint64_t tx_next)
{
	const struct inc_conn_state *st = inc_switch_conn_state(u->sw) + cm->cfg.conn_base + child;
	const struct inc_comm_state *comm = inc_switch_comm_state(u->sw) + cm->index;

	if (st->rx_next == rx_next && st->ahead == ahead && comm->tx_next == tx_next)
		return 0;
	snprintf(u->why, sizeof(u->why),
		 "child %u: %llu expected, %u ahead, %llu complete, not %llu, %u, %llu", child,
		 (unsigned long long)st->rx_next, st->ahead, (unsigned long long)comm->tx_next,
		 (unsigned long long)rx_next, ahead, (unsigned long long)tx_next);
	return -1;
}

/* Checks syndrome, PSN and MSN of the last answer. */
static int says(struct unit *u, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	const uint8_t *bth = u->out_frame.data + FRAME_BTH, *aeth = u->out_frame.data + FRAME_EXT;

	if (aeth[0] == syndrome && get24(bth + 9) == (psn & INC_PSN_MASK) && get24(aeth + 1) == msn)
		return 0;
	snprintf(u->why, sizeof(u->why), "answer %#x, PSN %u, MSN %#x, not %#x, %u, %#x", aeth[0],
		 get24(bth + 9), get24(aeth + 1), syndrome, psn & INC_PSN_MASK, msn);
	return -1;
}

/* Packets ahead of a gap are kept, one NAK names the gap, and nothing acknowledges the packets
 * before the gap is closed. Chunks behind it complete meanwhile. PSNs wrap in the midst of it. */
static int kept_ahead(struct unit *u)
{
	static const uint32_t starts[] = {0, 0xfffffe, 0xffffff, 0x7fffff};
	struct ref_comm *cm;
	uint32_t i, psn;

	for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		psn = starts[i];
		cm = reorder_comm(u, 2, 8, psn);
		RUN(!cm);
		RUN(give(u, cm, 1, 1, INC_CTR_ANS_NAK_SEQ));
		RUN(says(u, INC_AETH_NAK_SEQ, psn, INC_GAP(0, 1)) || stands(u, cm, 1, 0, 2, 0));
		RUN(give(u, cm, 1, 2, INC_CTR_ABS_AHEAD));
		/* a second gap, of two packets, is named while the first is open */
		RUN(give(u, cm, 1, 5, INC_CTR_ANS_NAK_SEQ));
		RUN(says(u, INC_AETH_NAK_SEQ, psn, INC_GAP(3, 2)) || stands(u, cm, 1, 0, 6, 0));
		/* duplicates acknowledge nothing of it */
		RUN(give(u, cm, 1, 2, INC_CTR_ANS_DUPLICATE));
		RUN(says(u, INC_AETH_ACK, psn - 1, 0));
		RUN(give(u, cm, 0, 0, INC_CTR_ABS_STORED));
		RUN(give(u, cm, 0, 1, INC_CTR_MC_RESULT) || stands(u, cm, 0, 2, 0, 0));
		RUN(give(u, cm, 0, 2, INC_CTR_MC_RESULT) || stands(u, cm, 0, 3, 0, 0));
		RUN(give(u, cm, 1, 2, INC_CTR_ANS_DUPLICATE));
		RUN(give(u, cm, 1, 0, INC_CTR_MC_RESULT) || stands(u, cm, 1, 3, 3, 3));
		RUN(give(u, cm, 1, 4, INC_CTR_ABS_AHEAD) || stands(u, cm, 1, 3, 3, 3));
		RUN(case_data(u, cm, 1, 3, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
		RUN(case_expect(u, INC_CTR_ANS_ACK) || says(u, INC_AETH_ACK, psn + 5, 6));
		RUN(stands(u, cm, 1, 6, 0, 3));
		for (uint64_t r = 3; r < 6; r++)
			RUN(give(u, cm, 0, r, INC_CTR_MC_RESULT));
		RUN(stands(u, cm, 0, 6, 0, 6) || give(u, cm, 1, 1, INC_CTR_ANS_DUPLICATE));
		RUN(unit_compare_all(u) || unit_remove_comm(u, cm));
	}
	return 0;
}

/* The first packet behind a gap becomes the NAK even if it would complete its chunk. */
static int named_and_last(struct unit *u)
{
	struct ref_comm *cm = reorder_comm(u, 2, 8, 7);
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 6; r++)
		RUN(give(u, cm, 0, r, INC_CTR_ABS_STORED));
	RUN(give(u, cm, 1, 1, INC_CTR_ANS_NAK_SEQ) || stands(u, cm, 1, 0, 2, 0));
	RUN(says(u, INC_AETH_NAK_SEQ, 7, INC_GAP(0, 2)));
	RUN(give(u, cm, 1, 2, INC_CTR_MC_RESULT) || stands(u, cm, 1, 0, 3, 0));
	RUN(give(u, cm, 1, 4, INC_CTR_ANS_NAK_SEQ) || stands(u, cm, 1, 0, 5, 0));
	RUN(says(u, INC_AETH_NAK_SEQ, 7, INC_GAP(3, 2)));
	RUN(give(u, cm, 1, 1, INC_CTR_MC_RESULT) || stands(u, cm, 1, 0, 5, 0));
	RUN(give(u, cm, 1, 0, INC_CTR_MC_RESULT) || stands(u, cm, 1, 3, 2, 3));
	RUN(give(u, cm, 1, 4, INC_CTR_MC_RESULT) || stands(u, cm, 1, 3, 2, 3));
	RUN(give(u, cm, 1, 3, INC_CTR_MC_RESULT) || stands(u, cm, 1, 5, 0, 5));
	RUN(give(u, cm, 1, 5, INC_CTR_MC_RESULT) || stands(u, cm, 1, 6, 0, 6));
	return 0;
}

/* A packet is not kept if it is no whole message with its descriptor, is beyond the window, or is
 * invalid. It gets a NAK that names everything, and then all packets are dropped, as always. */
static int not_kept(struct unit *u)
{
	static const struct {
		uint64_t r;
		uint8_t opcode;
		uint32_t len, desc;
	} bad[] = {
		{1, INC_OP_SEND_ONLY, 16, 0},
		{1, INC_OP_SEND_FIRST, 256, 0},
		{1, INC_OP_SEND_LAST_IMM, 16, CASE_DESC},
		{8, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC},
		{9, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC},
		{1, INC_OP_SEND_ONLY_IMM, 15, CASE_DESC},
		{1, INC_OP_SEND_ONLY_IMM, 16, 0xffffffff},
	};
	struct ref_comm *cm;
	uint32_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cm = reorder_comm(u, 2, 8, 7);
		RUN(!cm);
		RUN(case_data(u, cm, 0, bad[i].r, bad[i].opcode, bad[i].len, bad[i].desc, true));
		RUN(case_expect(u, INC_CTR_ANS_NAK_SEQ) || says(u, INC_AETH_NAK_SEQ, 7, 0));
		RUN(give(u, cm, 0, 1, INC_CTR_DROP_AHEAD) || stands(u, cm, 0, 0, 0, 0));
		RUN(give(u, cm, 0, 0, INC_CTR_ABS_STORED) || stands(u, cm, 0, 1, 0, 0));
		RUN(give(u, cm, 0, 2, INC_CTR_ANS_NAK_SEQ) || stands(u, cm, 0, 1, 2, 0));
		RUN(unit_remove_comm(u, cm));
	}
	return 0;
}

/* The last packet of the window is kept. A slot whose older chunk is not complete takes none, and
 * after an RNR NAK none is kept. */
static int window_edges(struct unit *u)
{
	struct ref_comm *cm = reorder_comm(u, 2, 4, 0xffffff);
	uint64_t r;

	RUN(!cm);
	RUN(give(u, cm, 0, 3, INC_CTR_ANS_NAK_SEQ) || stands(u, cm, 0, 0, 4, 0));
	RUN(give(u, cm, 0, 4, INC_CTR_ANS_NAK_SEQ) || says(u, INC_AETH_NAK_SEQ, 0xffffff, 0));
	for (r = 0; r < 3; r++)
		RUN(give(u, cm, 0, r, INC_CTR_ABS_STORED));
	RUN(stands(u, cm, 0, 4, 0, 0));
	/* slot 1 still has chunk 1 */
	RUN(give(u, cm, 0, 5, INC_CTR_ANS_NAK_SEQ) || says(u, INC_AETH_NAK_SEQ, 3, 0));
	RUN(give(u, cm, 0, 4, INC_CTR_ANS_RNR));
	RUN(give(u, cm, 1, 0, INC_CTR_MC_RESULT));
	RUN(give(u, cm, 1, 1, INC_CTR_MC_RESULT));
	RUN(give(u, cm, 0, 5, INC_CTR_DROP_AHEAD) || stands(u, cm, 0, 4, 0, 2));
	RUN(give(u, cm, 0, 4, INC_CTR_ABS_STORED) || stands(u, cm, 0, 5, 0, 2));
	return unit_compare_all(u);
}

/* The answer to a probe says how many packets are missing before one that is kept, how many results
 * are complete, and which probe it answers. */
static int probe_status(struct unit *u)
{
	struct ref_comm *cm = reorder_comm(u, 2, 256, 40);
	struct frame_spec s;
	struct frame f;
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 3; r++)
		RUN(give(u, cm, 0, r, INC_CTR_ABS_STORED) || give(u, cm, 1, r, INC_CTR_MC_RESULT));
	RUN(give(u, cm, 0, 5, INC_CTR_ANS_NAK_SEQ) || give(u, cm, 1, 3, INC_CTR_ABS_STORED));
	unit_ack_spec(cm, 0, INC_AETH_ACK, 42, &s);
	s.ack_byte = 0x80;
	s.msn = 0xabc5;
	frame_build(&f, &s);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ANS_OWED));
	RUN(says(u, INC_AETH_ACK, 42, INC_STATUS(5, 2, 3)));
	RUN(!(u->out_frame.data[FRAME_BTH + 8] & 0x80));
	RUN(give(u, cm, 0, 200, INC_CTR_ANS_NAK_SEQ));
	RUN(give(u, cm, 0, 3, INC_CTR_MC_RESULT) || give(u, cm, 0, 4, INC_CTR_ABS_STORED));
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
	RUN(says(u, INC_AETH_ACK, 45, INC_STATUS(5, 64, 4)));
	RUN(case_probe(u, cm, 1, 42) || says(u, INC_AETH_ACK, 43, INC_STATUS(5, 0, 4)));
	return unit_compare_all(u);
}

const struct unit_case cases_gap[] = {
	{"kept_ahead", kept_ahead},     {"named_and_last", named_and_last}, {"not_kept", not_kept},
	{"window_edges", window_edges}, {"probe_status", probe_status},     {NULL, NULL},
};
