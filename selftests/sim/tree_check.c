// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <string.h>
#include "loader/inc_raw.h"
#include "selftests/unit/frame.h"
#include "sim.h"
#include "tree_priv.h"

#define CHUNKS_MOST 4096 /* number of chunks in one run */
/* A process that a switch reports as unresponsive must have stood still for at least this long.
 * Faults and timers account for the rest of the limit. */
#define GUILTY_NS ((INC_UNRESPONSIVE_S - 3) * INC_NSEC_PER_SEC)

/* Records which data of a chunk a switch has sent, so that a resent packet can be compared with
 * it. */
struct tree_sent {
	uint64_t sum; /* checksum of the data plus 1; 0: the switch has sent no data */
	/* full: mask of the children that were sent the data; empty: mask of those that were sent
	 * an empty packet */
	uint32_t full, empty;
};

/* The results (down) and partial sums (up) that each switch has sent for each communicator. */
static struct sent {
	struct tree_sent down[CHUNKS_MOST], up[CHUNKS_MOST];
} all_sent[SWITCHES_MOST][COMMS_MOST];

void tree_watch_begin(void)
{
	unsigned int i;

	for (i = 0; i < tree.n_switches; i++)
		if (tree.sw[i].mode == INC_PASSTHROUGH)
			memset(all_sent[i], 0, tree.n_comms * sizeof(all_sent[i][0]));
}

/* How long a switch's interface has been away, as an excuse for a false report. Returns 0 if the
 * switch's daemon must have reported the loss by now. A daemon that stood still may be late. A
 * daemon reports an interface that is only down when some communicator waits for the peer behind
 * it. */
static uint64_t excused_ns(const struct daemon_port *port)
{
	const struct tree_switch *sw = tree_switch_of(port);
	const enum inc_port_condition now_is = sw->port_is[port->port];

	if (now_is == INC_PORT_UP || (now_is == INC_PORT_LOST && !sw->daemon.process.stood_ns))
		return 0;
	return sim_now_ns() - sw->left_at_ns[port->port];
}

/* Have all ranks at the switch `top` and below it destroyed a communicator? The controller knows
 * that, and a report about these ranks ends nothing (controller/core/comm_event.c). If top is NULL,
 * only one rank is meant. */
static bool have_left(const struct tree_switch *top, const struct tree_rank *one)
{
	const struct tree_switch *sw;
	unsigned int r;

	for (r = 0; r < tree.n_ranks; r++) {
		const struct tree_rank *rank = &tree.rank[r];

		for (sw = rank->at; sw && sw != top; sw = sw->parent)
			;
		if ((top ? !!sw : rank == one) && rank->comm[0] && rank->comm[tree.n_comms - 1])
			return false;
	}
	return true;
}

/* The peer that a switch's report names, and the two ends of the cable to it. */
struct named {
	bool has_left;
	/* process of the named peer; NULL: the report names no peer */
	const struct process *process;
	const struct daemon_port *own; /* the switch's port */
	const struct daemon_port
		/* the peer's port; NULL: the peer is a rank, because the interface of its host
		 * never disappears */
		*its;
};

/* A report names a child switch by the first of its ranks. */
static struct named named_by(const struct tree_switch *sw, const char *text)
{
	const struct tree_switch *child;
	unsigned int rank;

	if (!strncmp(text, "the parent ", 11) && sw->parent)
		return (struct named){false, &sw->parent->daemon.process, &sw->port, &sw->there};
	if (sscanf(text, "rank %u ", &rank) == 1 && rank < tree.n_ranks)
		return (struct named){have_left(NULL, &tree.rank[rank]),
				      &tree.rank[rank].host.process, &tree.rank[rank].port, NULL};
	if (sscanf(text, "the switch of rank %u ", &rank) != 1 || rank >= tree.n_ranks)
		return (struct named){};
	for (child = tree.rank[rank].at; child && child->parent != sw; child = child->parent)
		;
	if (!child)
		return (struct named){};
	return (struct named){have_left(child, NULL), &child->daemon.process, &child->there,
			      &child->port};
}

/* Checks a report of a lost port: the port must have been away for long, and the report may name no
 * peer. */
static void check_port_notice(const struct tree_switch *sw, const char *text)
{
	unsigned int port;

	sim_require(sscanf(text, "port p%u is ", &port) == 1 && port < sw->daemon.ports &&
			    !strstr(text, "rank") && sw->port_is[port] != INC_PORT_UP &&
			    sim_now_ns() - sw->left_at_ns[port] >=
				    INC_PORT_LOST_S * INC_NSEC_PER_SEC,
		    "%s: a port is lost, and has not been away for long: %s",
		    sw->daemon.process.name, text);
	tree.port_is_reported = true;
}

static bool job_has_failed(void)
{
	unsigned int i;

	for (i = 0; i < ROUNDS_MOST * tree.n_comms; i++)
		if ((tree.life[i].struck || tree.life[i].told[0]) &&
		    tree.life[i].destroyed < tree.n_ranks)
			return true;
	return false;
}

/* Checks a report that a peer is silent. A process that has stood still may be reported, and after
 * the report of a lost port any process may. But a switch must not blame a peer behind a port of
 * its own that is away. */
static void check_silence(const struct tree_switch *sw, const char *text)
{
	const struct named n = named_by(sw, text);
	const uint64_t now = sim_now_ns();
	uint64_t ns;

	sim_require(n.process, "%s: unresponsive, and names no peer: %s", sw->daemon.process.name,
		    text);
	ns = n.process->stood_ns + (n.its ? excused_ns(n.its) : 0);
	sim_require(tree.port_is_reported || n.has_left || ns >= GUILTY_NS,
		    "%s: %s, which could not answer for %llu ms in all", sw->daemon.process.name,
		    text, (unsigned long long)(ns / INC_NSEC_PER_MSEC));
	sim_require(sw->port_is[n.own->port] == INC_PORT_UP ||
			    now - sw->left_at_ns[n.own->port] < INC_NSEC_PER_SEC,
		    "%s: %s, and the port to it is away", sw->daemon.process.name, text);
}

/* Checks that a switch reports only the loss of a port, or that a peer is unresponsive. */
void tree_check_notice(void *arg, enum inc_event_kind kind, const char *text)
{
	const struct tree_switch *sw = arg;

	if (kind == INC_EVENT_KIND_PORT_LOST) {
		check_port_notice(sw, text);
		return;
	}
	sim_require(kind == INC_EVENT_KIND_UNRESPONSIVE, "%s: %s: %s", sw->daemon.process.name,
		    inc_event_info[kind].name, text);
	if (!job_has_failed()) /* after a job has failed, its ranks may be silent */
		check_silence(sw, text);
}

static int64_t number_of(uint32_t psn, uint32_t start, uint64_t near)
{
	return (int64_t)near + inc_psn_diff(psn, start + (uint32_t)near);
}

/* A frame that leaves a switch, and the connection to which it belongs. */
struct leaving {
	struct tree_switch *at;
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
		conn = inc_switch_conn(l->sw, l->cfg->conn_base + i);
		if (xdp_place(conn->ifindex) == port && conn->peer.qpn == qpn &&
		    conn->peer.udp_port == udp_port)
			return conn;
	}
	return NULL;
}

static struct leaving find(struct tree_switch *at, unsigned int port, const uint8_t *frame)
{
	struct leaving l = {.at = at, .name = at->daemon.process.name};

	l.sw = xdp_switch(at->daemon.xdp);
	for (; l.comm < at->n_comms; l.comm++) {
		l.cfg = inc_switch_comm(l.sw, at->comm[l.comm]);
		l.state = &inc_switch_comm_state(l.sw)[at->comm[l.comm]];
		l.conn = find_conn(&l, port, frame);
		if (l.conn)
			break;
	}
	sim_require(l.conn, "%s: a frame leaves by port %u for a queue pair that does not exist",
		    l.name, port);
	l.up = l.conn->flags & INC_CONN_F_UP;
	return l;
}

static uint32_t slot_of(const struct leaving *l, uint64_t r)
{
	return r & ((1 << l->cfg->log2_slots) - 1);
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
	if (r < 0 || l->state->tx_next > (uint64_t)r)
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

/* Checks that results and partial sums leave only when they are complete. All receivers get the
 * same bytes, each time. A receiver that gets no data gets an empty packet each time. */
static void check_data(const struct leaving *l, uint32_t psn, const uint8_t *payload, size_t len)
{
	const uint64_t end = l->up ? l->state->up_next : l->state->tx_next;
	const int64_t r = number_of(psn, l->conn->own.psn, end);
	const uint64_t sum = sum_of(payload, len);
	struct sent *of = &all_sent[l->at->number][l->comm];
	struct tree_sent *sent;

	sim_require(r >= 0 && r < (int64_t)end && r < CHUNKS_MOST,
		    "%s: packet %lld leaves for child %u, and %llu is the next", l->name,
		    (long long)r, l->conn->child, (unsigned long long)end);
	sent = l->up ? &of->up[r] : &of->down[r];
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

void tree_watch(void *arg, unsigned int port, const uint8_t *frame, size_t len)
{
	const uint8_t opcode = frame[FRAME_BTH];
	const uint32_t psn = get24(frame + FRAME_BTH + 9);
	const size_t head = FRAME_EXT + frame_ext_len(opcode);
	const size_t pad = frame[FRAME_BTH + 1] >> 4 & 3;
	const struct leaving l = find(arg, port, frame);
	struct frame copy;

	copy.len = len;
	memcpy(copy.data, frame, len);
	tree_check_source(l.at, port, frame);
	sim_require(frame_icrc(frame + FRAME_IP, len - FRAME_IP - INC_ICRC_LEN) ==
			    __builtin_bswap32(get32(frame + len - INC_ICRC_LEN)),
		    "%s: a frame with a wrong ICRC leaves by port %u", l.name, port);
	sim_require(frame_udp_csum_ok(&copy), "%s: a wrong UDP checksum leaves by port %u", l.name,
		    port);
	if (opcode != INC_OP_ACK)
		check_data(&l, psn, frame + head, len - head - pad - INC_ICRC_LEN);
	else if ((frame[FRAME_EXT] & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_ACK)
		check_ack(&l, psn);
}
