// SPDX-License-Identifier: BSD-2-Clause
/* Cases about the link: one CPU at a time works on a connection, the peer's MAC address, and NAKs
 * around a gap. */
#include <stdio.h>
#include <string.h>
#include <linux/if_ether.h>
#include "cases.h"
#include "egress.h"

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
	{NULL, NULL},
};
