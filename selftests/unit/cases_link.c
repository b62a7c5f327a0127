// SPDX-License-Identifier: BSD-2-Clause
/* Cases about the link: one CPU at a time works on a connection, the peer's MAC address, the
 * traffic class, and NAKs around a gap. */
#include <linux/if_ether.h>
#include <stdio.h>
#include <string.h>
#include "loader/inc_raw.h"
#include "cases.h"
#include "unit.h"

static const uint8_t mac_a[6] = "\x02\x0a\x0a\x0a\x0a\x01";
static const uint8_t mac_b[6] = "\x02\x0b\x0b\x0b\x0b\x02";
static const uint8_t mac_c[6] = "\x02\x0c\x0c\x0c\x0c\x03";
static const uint8_t mac_multicast[6] = "\x03\x0d\x0d\x0d\x0d\x04";

static struct inc_conn_state *state_of(struct unit *u, const struct ref_comm *cm, uint32_t child)
{
	return &inc_switch_conn_state(u->sw)[cm->cfg.conn_base + child];
}

static void set_busy(struct unit *u, struct ref_comm *cm, uint32_t child, uint32_t busy)
{
	state_of(u, cm, child)->busy = cm->conn[child].state.busy = busy;
}

/* While another CPU works on the connection, a packet changes none of its state and gets no
 * answer. */
static int busy_connection(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);

	RUN(!cm);
	set_busy(u, cm, 0, 1);
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_DROP_BUSY));
	RUN(case_data(u, cm, 0, 5, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_DROP_BUSY));
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, cm->conn[0].cfg.own.psn));
	RUN(case_expect(u, INC_CTR_DROP_BUSY));
	/* the other connection of the communicator is not affected */
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_ANS_ACK));
	set_busy(u, cm, 0, 0);
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	return case_expect(u, INC_CTR_MC_RESULT);
}

/* The program releases the connection on every path, because the reference compares the
 * connection's busy flag, too. */
static int always_let_go(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 2);

	RUN(!cm);
	RUN(case_data(u, cm, 0, 1, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_ANS_NAK_SEQ) || state_of(u, cm, 0)->busy);
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_LAST, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_ANS_NAK_INVALID) || state_of(u, cm, 0)->busy);
	RUN(case_ack(u, cm, 0, INC_AETH_ACK, 0));
	RUN(case_expect(u, INC_CTR_DROP_CONN_ERROR) || state_of(u, cm, 0)->busy);
	return 0;
}

/* After an RNR NAK the peer resends all packets from the refused one. So the packets that it had
 * sent after the refused one get no sequence NAK. Only the refused packet gets another RNR NAK. */
static int rnr_is_the_only_nak(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 1);

	RUN(!cm);
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_data(u, cm, 0, 1, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_RNR));
	RUN(case_data(u, cm, 0, 2, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_DROP_AHEAD));
	RUN(case_data(u, cm, 0, 3, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_DROP_AHEAD));
	/* duplicates are still acknowledged */
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_ANS_DUPLICATE));
	RUN(case_data(u, cm, 0, 1, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_RNR));
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_data(u, cm, 0, 1, INC_OP_SEND_ONLY, 16, 0, true));
	RUN(case_expect(u, INC_CTR_ANS_ACK));
	/* a later gap gets a NAK again */
	RUN(case_data(u, cm, 0, 3, INC_OP_SEND_ONLY, 16, 0, true));
	return case_expect(u, INC_CTR_ANS_NAK_SEQ);
}

/* Sends packet r of the child from this source MAC address, and checks to which address the answer
 * goes. */
static int from(struct unit *u, struct ref_comm *cm, uint64_t r, const uint8_t source[6],
		const uint8_t want[6])
{
	struct unit_packet p = {.r = r,
				.opcode = INC_OP_SEND_ONLY_IMM,
				.len = 16,
				.desc = CASE_DESC,
				.ackreq = true};
	struct frame f;

	unit_data(cm, 0, &p, &f);
	memcpy(f.data + ETH_ALEN, source, ETH_ALEN);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
	if (!memcmp(u->out_frame.data, want, ETH_ALEN))
		return 0;
	snprintf(u->why, sizeof(u->why),
		 "packet %llu is answered to %02x:..:%02x, not %02x:..:%02x", (unsigned long long)r,
		 u->out_frame.data[0], u->out_frame.data[5], want[0], want[5]);
	return -1;
}

static struct ref_comm *mac_comm_of(struct unit *u, const uint8_t *known, bool fixed)
{
	static uint32_t communicator = 5000;
	struct inc_comm_conf spec;

	unit_spec(u, &spec, communicator++, 2, 2, 256, 64);
	spec.conn[0].has_peer_mac = fixed;
	if (known)
		memcpy(spec.conn[0].peer_mac, known, ETH_ALEN);
	return unit_add_comm(u, &spec);
}

/* The configuration has no MAC address for the child, so the program learns the address from
 * frames. The latest address counts, until two consecutive packets agree on one address. */
static int mac_from_frames(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, NULL, false);

	RUN(!cm);
	RUN(from(u, cm, 0, mac_b, mac_b)); /* the frame's source MAC address mac_b is damaged */
	/* the same packet is retransmitted with the right address */
	RUN(from(u, cm, 0, mac_a, mac_a));
	RUN(from(u, cm, 1, mac_a, mac_a));
	RUN(from(u, cm, 2, mac_b, mac_a)); /* one packet does not outweigh two with mac_a */
	RUN(from(u, cm, 3, mac_a, mac_a));
	/* again only one packet has mac_b, and not two consecutive ones */
	RUN(from(u, cm, 4, mac_b, mac_a));
	RUN(from(u, cm, 5, mac_c, mac_a));
	RUN(from(u, cm, 6, mac_multicast, mac_a));
	RUN(from(u, cm, 7, mac_c, mac_c)); /* the host has a new network card */
	RUN(from(u, cm, 8, mac_c, mac_c));
	/* The network repeats a damaged packet, which counts as one packet, not two. The answer to
	 * the repetition goes to the wrong address. That matters only if the host requested the
	 * answer. */
	RUN(from(u, cm, 9, mac_b, mac_c));
	RUN(from(u, cm, 9, mac_b, mac_b));
	RUN(from(u, cm, 9, mac_b, mac_b));
	RUN(from(u, cm, 10, mac_c, mac_c));
	/* to return to the earlier address takes two packets, too */
	RUN(from(u, cm, 11, mac_b, mac_c));
	RUN(from(u, cm, 12, mac_b, mac_b));
	RUN(from(u, cm, 13, mac_c, mac_b));
	return from(u, cm, 14, mac_c, mac_c);
}

/* A host with a new MAC address retransmits its only packet until it gets the answer. */
static int mac_of_who_moved(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, mac_a, false);

	RUN(!cm);
	RUN(from(u, cm, 0, mac_b, mac_a));
	RUN(from(u, cm, 0, mac_b, mac_b));
	RUN(from(u, cm, 1, mac_b, mac_b));
	return from(u, cm, 2, mac_b, mac_b);
}

static int mac_from_neighbours(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, mac_a, false);

	RUN(!cm);
	RUN(from(u, cm, 0, mac_b, mac_a));
	RUN(from(u, cm, 1, mac_a, mac_a));
	RUN(from(u, cm, 2, mac_b, mac_a));
	return from(u, cm, 3, mac_b, mac_b);
}

static int mac_configured(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, mac_a, true);
	uint64_t r;

	RUN(!cm);
	for (r = 0; r < 5; r++)
		RUN(from(u, cm, r, r & 1 ? mac_b : mac_c, mac_a));
	for (; r < 10; r++)
		RUN(from(u, cm, r, mac_b, mac_a));
	return 0;
}

/* A damaged source address misdirects no result, even if it is the first address that was seen. */
static int results_find_their_child(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, NULL, false);
	struct frame copy;
	uint32_t verdict;
	uint64_t r;

	RUN(!cm);
	RUN(from(u, cm, 0, mac_a, mac_a));
	RUN(from(u, cm, 1, mac_a, mac_a));
	RUN(from(u, cm, 2, mac_b, mac_a));
	for (r = 0; r < 3; r++) {
		RUN(case_data(u, cm, 1, r, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
		RUN(egress_run(u, cm->conn[0].cfg.ifindex, &copy, &verdict));
		u->ref.counter[INC_CTR_X_COPY]++;
		if (memcmp(copy.data, mac_a, ETH_ALEN) ||
		    memcmp(copy.data + ETH_ALEN, cm->conn[0].cfg.own_mac, ETH_ALEN)) {
			snprintf(u->why, sizeof(u->why), "result %llu goes astray",
				 (unsigned long long)r);
			return -1;
		}
	}
	return 0;
}

/* If only a multicast address of a child was seen, the child gets no frame. */
static int mac_unknown(struct unit *u)
{
	struct ref_comm *cm = mac_comm_of(u, NULL, false);
	struct unit_packet p = {
		.opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC, .ackreq = true};
	struct frame f;

	RUN(!cm);
	unit_data(cm, 0, &p, &f);
	memcpy(f.data + ETH_ALEN, mac_multicast, ETH_ALEN);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex));
	RUN(case_expect(u, INC_CTR_DROP_NO_MAC));
	/* the child gets no result either, but the other child does */
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	RUN(from(u, cm, 0, mac_a, mac_a));
	return case_expect(u, INC_CTR_ANS_DUPLICATE);
}

/* A child's row is overwritten while the copy of an earlier result leaves. The copy must not be a
 * mixture of both results. */
static int row_moved_before_the_copy(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct inc_buf *row;
	struct frame copy;
	uint32_t verdict;

	RUN(!cm);
	row = inc_switch_kept(u->sw) + cm->cfg.kept_base;
	RUN(case_data(u, cm, 0, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_data(u, cm, 1, 0, INC_OP_SEND_ONLY_IMM, 16, CASE_DESC, true));
	RUN(case_expect(u, INC_CTR_MC_RESULT));
	row->r = cm->slots;
	RUN(egress_run(u, cm->conn[0].cfg.ifindex, &copy, &verdict));
	u->ref.counter[INC_CTR_X_COPY_DROP]++;
	row->r = 0;
	if (verdict == XDP_DROP)
		return 0;
	snprintf(u->why, sizeof(u->why), "a copy was made from a row of another chunk");
	return -1;
}

/* Expects that a frame of the switch has this TOS byte and a right IP checksum. */
static int frame_of_class(struct unit *u, const struct frame *f, uint8_t tos)
{
	const uint8_t *ip = f->data + FRAME_IP;

	if (ip[1] == tos && frame_sum16(ip, INC_IP_LEN, 0) == 0xffff)
		return 0;
	snprintf(u->why, sizeof(u->why), "TOS %#x, meant to be %#x, and IP sum %#x", ip[1], tos,
		 frame_sum16(ip, INC_IP_LEN, 0));
	return -1;
}

/* ACKs, NAKs and results have the class of the packets of the child to which they go. The reference
 * compares them byte by byte, with the IP checksum. */
static int class_mirrored(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct frame copy;
	uint32_t verdict;

	RUN(!cm || case_class(u, cm, 0, 0, 26 << 2) || case_expect(u, INC_CTR_ANS_ACK));
	RUN(frame_of_class(u, &u->out_frame, 26 << 2));
	/* a NAK of the other child, which has another class */
	RUN(case_class(u, cm, 1, 1, 10 << 2 | 2) || case_expect(u, INC_CTR_ANS_NAK_SEQ));
	RUN(frame_of_class(u, &u->out_frame, 10 << 2 | 2));
	RUN(case_class(u, cm, 1, 0, 10 << 2 | 2) || case_expect(u, INC_CTR_MC_RESULT));
	RUN(egress_run(u, cm->conn[0].cfg.ifindex, &copy, &verdict));
	u->ref.counter[INC_CTR_X_COPY]++;
	return frame_of_class(u, &copy, 26 << 2);
}

/* Each TOS byte of a child's packets: the class of what goes to the child follows from the next
 * packet on, and a mark of congestion becomes ECT(0). No mark changes a sum or drops a packet,
 * because the reference has the same sums and counters for each of them. */
static int each_class(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	uint32_t tos, want;
	uint64_t r = 0;

	RUN(!cm);
	for (tos = 0; tos < 256; tos++, r++) {
		want = (tos & 3) == 3 ? tos - 1 : tos;
		RUN(case_class(u, cm, r & 1, r, tos) || case_expect(u, INC_CTR_ANS_ACK));
		RUN(frame_of_class(u, &u->out_frame, want));
		RUN(case_class(u, cm, !(r & 1), r, 255 - tos));
		RUN(case_expect(u, INC_CTR_MC_RESULT));
		if (state_of(u, cm, r & 1)->traffic_class != want) {
			snprintf(u->why, sizeof(u->why), "TOS %#x became %#x", tos,
				 state_of(u, cm, r & 1)->traffic_class);
			return -1;
		}
	}
	return 0;
}

/* A damaged packet changes no class, whether its ICRC or its IP checksum shows that. */
static int class_of_damaged(struct unit *u)
{
	struct ref_comm *cm = case_comm(u, 2, 2, 256, 8);
	struct unit_packet p = {
		.r = 1, .opcode = INC_OP_SEND_ONLY_IMM, .len = 16, .desc = CASE_DESC};
	struct frame f;

	RUN(!cm || case_class(u, cm, 0, 0, 0x68));
	unit_data(cm, 0, &p, &f);
	f.data[FRAME_IP + 1] = 0xb8;
	frame_seal(&f);
	f.data[FRAME_EXT + 8] ^= 1;
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_ICRC));
	f.data[FRAME_EXT + 8] ^= 1;
	set_busy(u, cm, 0, 1);
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_DROP_BUSY));
	set_busy(u, cm, 0, 0);
	/* the ICRC does not cover the class, but the IP checksum does */
	f.data[FRAME_IP + 1] ^= 0x40;
	RUN(unit_run(u, &f, cm->conn[0].cfg.ifindex) || case_expect(u, INC_CTR_ABS_STORED));
	return state_of(u, cm, 0)->traffic_class == 0x68 ? 0 : -1;
}

/* A configured class does not follow the child's packets. */
static int class_configured(struct unit *u)
{
	struct inc_comm_conf spec;
	struct ref_comm *cm;

	unit_spec(u, &spec, 6100, 2, 2, 256, 8);
	spec.conn[0].verbs.traffic_class = 0x6a;
	spec.conn[0].verbs.has_traffic_class = true;
	cm = unit_add_comm(u, &spec);
	RUN(!cm || case_class(u, cm, 0, 0, 0xb8) || case_expect(u, INC_CTR_ANS_ACK));
	RUN(frame_of_class(u, &u->out_frame, 0x6a));
	RUN(case_class(u, cm, 1, 0, 0xb8) || case_expect(u, INC_CTR_MC_RESULT));
	RUN(case_class(u, cm, 1, 1, 0xb8) || case_expect(u, INC_CTR_ANS_ACK));
	return frame_of_class(u, &u->out_frame, 0xb8);
}

const struct unit_case cases_link[] = {
	{"busy_connection", busy_connection},
	{"always_let_go", always_let_go},
	{"rnr_is_the_only_nak", rnr_is_the_only_nak},
	{"mac_from_frames", mac_from_frames},
	{"mac_of_who_moved", mac_of_who_moved},
	{"mac_from_neighbours", mac_from_neighbours},
	{"mac_configured", mac_configured},
	{"results_find_their_child", results_find_their_child},
	{"mac_unknown", mac_unknown},
	{"row_moved_before_the_copy", row_moved_before_the_copy},
	{"class_mirrored", class_mirrored},
	{"each_class", each_class},
	{"class_of_damaged", class_of_damaged},
	{"class_configured", class_configured},
	{NULL, NULL},
};

/* Contributions ahead of a gap, in a communicator that keeps them, and chunks that complete in any
 * order. */

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
