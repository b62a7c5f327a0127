// SPDX-License-Identifier: BSD-2-Clause
/* The rules for frames that leave a switch (xdp.h). */
#include <string.h>
#include "loader/inc_raw.h"
#include "selftests/unit/frame.h"
#include "sim.h"
#include "xdp.h"
#include "xdp_priv.h"

#define WATCH_SWITCHES 4
#define WATCH_COMMS    16
#define WATCH_CHUNKS   4096 /* number of chunks of one communicator */

/* Records which data of a chunk a switch has sent, so that a resent packet can be compared with
 * it. */
struct watch_sent {
	uint64_t sum; /* checksum of the data plus 1; 0: the switch has sent no data */
	/* full: mask of the children that were sent the data; empty: mask of those that were sent
	 * an empty packet */
	uint32_t full, empty;
};

/* The results (down) and partial sums (up) that a switch has sent for the communicator with this
 * number. Chunks from `used` on are clear. */
static struct watch_comm {
	uint32_t communicator, used;
	struct watch_sent down[WATCH_CHUNKS], up[WATCH_CHUNKS];
} all[WATCH_SWITCHES][WATCH_COMMS];

void watch_begin(void)
{
	unsigned int s, c;

	for (s = 0; s < WATCH_SWITCHES; s++)
		for (c = 0; c < WATCH_COMMS; c++)
			all[s][c].communicator = 0;
}

static int64_t number_of(uint32_t psn, uint32_t start, uint64_t near)
{
	return (int64_t)near + inc_psn_diff(psn, start + (uint32_t)near);
}

/* A frame that leaves a switch, and the connection to which it belongs. */
struct leaving {
	const struct watch *at;
	unsigned int comm; /* index of the communicator within the switch */
	const char *name;  /* name of the switch */
	const struct inc_switch *sw;
	const struct inc_comm_cfg *cfg;
	const struct inc_comm_state *state;
	const struct inc_conn_cfg *conn;
	bool up;
};

/* Finds the connection that sends such frames by this port. Returns NULL if the communicator has
 * none. Two endpoints of a rank may have the same queue pair number, at different UDP ports. */
static const struct inc_conn_cfg *find_conn(const struct leaving *l, unsigned int port,
					    const uint8_t *frame)
{
	const uint32_t qpn = get24(frame + FRAME_BTH + 5);
	const uint16_t udp_port = get16(frame + FRAME_UDP + 2);
	const struct inc_conn_cfg *conn;
	uint32_t i;

	for (i = 0; i < inc_comm_conns(l->cfg); i++) {
		conn = &l->at->xdp->conn_cfg[l->cfg->conn_base + i];
		if (xdp_place(conn->ifindex) == port && conn->peer.qpn == qpn &&
		    conn->peer.udp_port == udp_port)
			return conn;
	}
	return NULL;
}

/* Looks into the maps, because the loader's copies are empty while a daemon starts. */
static struct leaving find(const struct watch *at, unsigned int port, const uint8_t *frame)
{
	struct leaving l = {.at = at, .name = at->name, .sw = xdp_switch(at->xdp)};

	for (; l.comm < l.sw->opts.max_comms && !l.conn; l.comm++) {
		l.cfg = &at->xdp->comm_cfg[l.comm];
		if (l.cfg->flags & INC_COMM_F_VALID)
			l.conn = find_conn(&l, port, frame);
	}
	sim_require(l.conn, "%s: a frame leaves by port %u for a queue pair that does not exist",
		    l.name, port);
	l.comm--;
	l.state = &inc_switch_comm_state(l.sw)[l.comm];
	l.up = l.conn->flags & INC_CONN_F_UP;
	return l;
}

static uint32_t slot_of(const struct leaving *l, uint64_t r)
{
	return r & ((1 << l->cfg->log2_slots) - 1);
}

/* Whether a result is complete, which may be before an earlier one where contributions are kept
 * ahead of a gap. */
static bool is_complete(const struct leaving *l, uint64_t r)
{
	const uint64_t word = inc_switch_slots(l->sw)[l->cfg->sum_base + slot_of(l, r)].word;

	return l->cfg->flags & INC_COMM_F_REORDER &&
	       INC_SLOT_GENERATION(word) > r >> l->cfg->log2_slots;
}

/* Checks that the switch acknowledges only packets that it has stored. A contribution must be in
 * its row and counted in its slot, or its result must exist. A packet of the parent must be the
 * result. */
static void check_ack(const struct leaving *l, uint32_t psn)
{
	const uint32_t child = l->conn->child;
	const uint64_t next = inc_switch_conn_state(l->sw)[l->cfg->conn_base + child].rx_next;
	const int64_t r = number_of(psn, l->conn->peer.psn, next);
	const uint32_t slot = slot_of(l, r);
	const struct inc_buf *row =
		&inc_switch_kept(l->sw)[l->cfg->kept_base + (child << l->cfg->log2_slots) + slot];
	const uint64_t word = inc_switch_slots(l->sw)[l->cfg->sum_base + slot].word;

	sim_require(r < (int64_t)next,
		    "%s, child %u: packet %lld is acknowledged, and %llu is the next", l->name,
		    child, (long long)r, (unsigned long long)next);
	if (r < 0 || l->state->tx_next > (uint64_t)r || is_complete(l, r))
		return;
	sim_require(!l->up, "%s: result %lld is acknowledged, and the children cannot have it",
		    l->name, (long long)r);
	sim_require(row->r == (uint64_t)r,
		    "%s, child %u: packet %lld is acknowledged, and its row has %lld", l->name,
		    child, (long long)r, (long long)row->r);
	sim_require(INC_SLOT_GENERATION(word) == r >> l->cfg->log2_slots &&
			    INC_SLOT_ARRIVED(word) >> child & 1,
		    "%s, child %u: packet %lld is acknowledged, and does not count", l->name, child,
		    (long long)r);
}

/* Checks that each partial sum whose result has not come is still stored, so that it can be
 * resent. */
static void check_partials(const struct leaving *l)
{
	uint64_t r;

	for (r = l->state->tx_next; r < l->state->up_next; r++) {
		const uint32_t row = l->cfg->sum_base + slot_of(l, r);

		sim_require(inc_switch_sums(l->sw)[row].r == r,
			    "%s: partial sum %llu is gone, and there is no result", l->name,
			    (unsigned long long)r);
		sim_require(inc_switch_slots(l->sw)[row].word ==
				    ((r >> l->cfg->log2_slots) << 32 | l->cfg->full_mask),
			    "%s: the slot of partial sum %llu has moved on", l->name,
			    (unsigned long long)r);
	}
}

static uint64_t sum_of(const uint8_t *bytes, size_t len)
{
	uint64_t sum = len + 1;
	size_t i;

	for (i = 0; i < len; i++)
		sum = (sum ^ bytes[i]) * 0x100000001b3;
	return sum | 1;
}

static struct watch_sent *sent_at(const struct leaving *l, uint32_t r)
{
	struct watch_comm *c = &all[l->at->number][l->comm];

	if (c->communicator != l->cfg->communicator) {
		memset(c->down, 0, c->used * sizeof(c->down[0]));
		memset(c->up, 0, c->used * sizeof(c->up[0]));
		c->communicator = l->cfg->communicator;
		c->used = 0;
	}
	if (c->used <= r)
		c->used = r + 1;
	return l->up ? &c->up[r] : &c->down[r];
}

/* Checks that results and partial sums leave only when they are complete. All receivers get the
 * same bytes, each time. A receiver that gets no data gets an empty packet each time. */
static void check_data(const struct leaving *l, uint32_t psn, const uint8_t *payload, size_t len)
{
	const uint64_t end = l->up ? l->state->up_next : l->state->tx_next;
	const int64_t r = number_of(psn, l->conn->own.psn, end);
	const uint64_t sum = sum_of(payload, len);
	struct watch_sent *sent;

	sim_require(r >= 0 && (r < (int64_t)end || is_complete(l, r)) && r < WATCH_CHUNKS,
		    "%s: packet %lld leaves for child %u, and %llu is the next", l->name,
		    (long long)r, l->conn->child, (unsigned long long)end);
	sent = sent_at(l, (uint32_t)r);
	*(len ? &sent->full : &sent->empty) |= 1u << l->conn->child;
	sim_require(!len || !sent->sum || sent->sum == sum,
		    "%s: packet %lld leaves for child %u, and is another one than before", l->name,
		    (long long)r, l->conn->child);
	sim_require(!(sent->full & sent->empty),
		    "%s: packet %lld leaves for child %u with data, and without", l->name,
		    (long long)r, l->conn->child);
	if (len)
		sent->sum = sum;
	if (l->up)
		check_partials(l);
}

/* Checks that a child which is an RDMA device gets reports of congestion by CNPs, another child by
 * BECN of results, and the parent none. */
static void check_report(const struct leaving *l, const uint8_t *frame, size_t len)
{
	static const uint8_t zeros[INC_CNP_LEN];
	const bool device = l->conn->peer.kind == INC_ENDPOINT_VERBS;
	const bool cnp = frame[FRAME_BTH] == INC_OP_CNP;

	if (!cnp && !(frame[FRAME_BTH + 4] & INC_BTH_BECN))
		return;
	sim_require(!l->up && device == cnp && frame[FRAME_BTH] != INC_OP_ACK,
		    "%s: opcode %u reports congestion to child %u", l->name, frame[FRAME_BTH],
		    l->conn->child);
	sim_require(!cnp || (frame[FRAME_BTH + 4] & INC_BTH_BECN && !get24(frame + FRAME_BTH + 9) &&
			     len == FRAME_EXT + INC_CNP_LEN + INC_ICRC_LEN &&
			     !memcmp(frame + FRAME_EXT, zeros, INC_CNP_LEN)),
		    "%s: what leaves for child %u is no CNP", l->name, l->conn->child);
}

void watch_frame(const struct watch *w, unsigned int port, const uint8_t *frame, size_t len)
{
	const uint8_t opcode = frame[FRAME_BTH];
	const uint32_t psn = get24(frame + FRAME_BTH + 9);
	const size_t head = FRAME_EXT + frame_ext_len(opcode);
	const size_t pad = frame[FRAME_BTH + 1] >> 4 & 3;
	const struct leaving l = find(w, port, frame);
	struct frame copy;

	copy.len = len;
	memcpy(copy.data, frame, len);
	sim_require(frame_icrc(frame + FRAME_IP, len - FRAME_IP - INC_ICRC_LEN) ==
			    __builtin_bswap32(get32(frame + len - INC_ICRC_LEN)),
		    "%s: a frame with a wrong ICRC leaves by port %u", l.name, port);
	sim_require(frame_udp_csum_ok(&copy), "%s: a wrong UDP checksum leaves by port %u", l.name,
		    port);
	sim_require(!memcmp(frame + FRAME_IP + 12, &l.conn->own.ip, 4),
		    "%s: a frame leaves by port %u from an address that is not the port's", l.name,
		    port);
	check_report(&l, frame, len);
	if (opcode == INC_OP_CNP)
		return;
	if (opcode != INC_OP_ACK)
		check_data(&l, psn, frame + head, len - head - pad - INC_ICRC_LEN);
	else if ((frame[FRAME_EXT] & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_ACK)
		check_ack(&l, psn);
}
