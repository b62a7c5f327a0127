// SPDX-License-Identifier: BSD-2-Clause
/*
 * A forger sends packets to the switches. Most are right in all that a member of the job, or a
 * parent, would send now, but they arrive by another port of the switch. Others have one of the
 * switch's own addresses, a queue pair that does not exist, or random bytes. The forger has seen
 * all frames on the cables. The switch must count each packet by its fault. The checks of results,
 * frames and errors show that no forged packet has an effect. Taps of cables call this, and so do
 * events.
 */
#include <netinet/in.h>
#include <string.h>
#include "cluster.h"
#include "selftests/unit/frame.h"
#include "sim.h"
#include "xdp_priv.h"

#define FORGED_MOST   150 /* number of forged packets in one run */
#define DELAY_MOST_NS (100 * INC_NSEC_PER_USEC)
#define AHEAD_MOST    3 /* how many packets after the last one a forged PSN may be */
#define RUBBISH_MOST  200
#define SEEN_MOST     4 /* connections of which the forger remembers frames, at each port */

enum kind { CONTRIBUTION, RESPONSE, OWN_ADDRESS, UNKNOWN_PAIR, OTHERS_PAIR, RUBBISH };

/* The last frames of one connection on the cable at a port. A length of 0 means that no frame was
 * seen. */
struct seen {
	/* queue pairs of the switch and of its peer, and the peer's UDP port; peer_qpn is 0 if it
	 * is not known */
	uint32_t qpn, peer_qpn;
	uint16_t peer_port;
	struct frame request; /* the last request from the peer */
	struct frame sent;    /* the last frame of the switch: a result, or a partial sum */
};

static struct seen all_seen[CLUSTER_SWITCHES_MOST][XDP_PORTS][SEEN_MOST];
static unsigned int n_seen[CLUSTER_SWITCHES_MOST][XDP_PORTS];
static unsigned int left, permille;

void cluster_forge_begin(void)
{
	static const unsigned int rates[] = {10, 100, 500};

	memset(n_seen, 0, sizeof(n_seen));
	left = cluster.forged ? FORGED_MOST : 0;
	permille = cluster.forged ? rates[sim_below(3)] : 0;
}

static uint32_t pair_of(const uint8_t *frame)
{
	return get24(frame + FRAME_BTH + 5);
}

static uint32_t psn_of(const struct frame *f)
{
	return get24(f->data + FRAME_BTH + 9);
}

/* --- making forged packets --- */

/* Updates the lengths and checksums of a datagram with one packet. */
static void seal(struct frame *f)
{
	uint8_t *ip = f->data + FRAME_IP, *udp = f->data + FRAME_UDP;
	const bool has_sum = get16(udp + 6);
	const uint32_t len = f->len - FRAME_UDP;
	uint16_t sum;

	put16(ip + 2, f->len - FRAME_IP);
	put16(ip + 4, 0);
	put16(udp + 4, len);
	put16(udp + 6, 0);
	frame_seal(f);
	sum = ~frame_sum16(udp, len, frame_sum16(ip + 12, 8, IPPROTO_UDP + len));
	if (has_sum)
		put16(udp + 6, sum ?: 0xffff);
}

static void make_contribution(struct frame *f)
{
	const uint32_t head = FRAME_EXT + frame_ext_len(f->data[FRAME_BTH]);
	uint32_t i;

	put24(f->data + FRAME_BTH + 9, psn_of(f) + sim_below(AHEAD_MOST + 1));
	/* sometimes the packet requests an ACK */
	f->data[FRAME_BTH + 8] = sim_chance(500) ? 0x80 : 0;
	for (i = head; i < f->len - INC_ICRC_LEN; i++)
		f->data[i] = sim_below(256);
}

/* Forges a response to the packet that the switch has sent last, or to one near it. */
static void make_response(struct frame *f, const struct frame *sent)
{
	static const uint8_t syndromes[] = {INC_AETH_ACK,           INC_AETH_NAK_SEQ,
					    INC_AETH_NAK_INVALID,   INC_AETH_NAK_ACCESS,
					    INC_AETH_NAK_OPERATION, INC_AETH_RNR | 1};

	f->len = FRAME_EXT + INC_AETH_LEN + INC_ICRC_LEN;
	f->data[FRAME_BTH] = INC_OP_ACK;
	f->data[FRAME_BTH + 1] &= 0x40; /* clears the pad count and the solicited event bit */
	f->data[FRAME_BTH + 8] = 0;
	put24(f->data + FRAME_BTH + 9, psn_of(sent) + sim_below(AHEAD_MOST) - 1);
	f->data[FRAME_EXT] = syndromes[sim_below(sizeof(syndromes))];
	put24(f->data + FRAME_EXT + 1, sim_below(1 << 24));
}

static void make_rubbish(struct frame *f)
{
	uint32_t i;

	f->len = FRAME_BTH + sim_below(RUBBISH_MOST);
	for (i = FRAME_BTH; i < f->len; i++)
		f->data[i] = sim_below(256);
}

/* Makes a forged packet of the given kind, of the frames of a connection (s) and of another one at
 * the port by which the packet will arrive (other, which may be NULL). Returns false if the frames
 * that it needs have not been seen. */
static bool make(enum kind kind, const struct seen *s, const struct seen *other, struct frame *f)
{
	const struct frame *of = kind == OWN_ADDRESS   ? &s->sent
				 : kind != OTHERS_PAIR ? &s->request
				 : other               ? &other->request
						       : NULL;

	if (!s->request.len || !of || !of->len || (kind == RESPONSE && !s->sent.len))
		return false;
	*f = *of;
	if (kind == CONTRIBUTION)
		make_contribution(f);
	else if (kind == RESPONSE)
		make_response(f, &s->sent);
	else if (kind == UNKNOWN_PAIR)
		put24(f->data + FRAME_BTH + 5, pair_of(f->data) ^ (1 << 20));
	else if (kind == OTHERS_PAIR)
		put24(f->data + FRAME_BTH + 5, pair_of(s->request.data));
	else if (kind == RUBBISH)
		make_rubbish(f);
	return true;
}

/* --- sending forged packets --- */

/* The connection of the data path to which a frame belongs; NULL: there is none. */
static const uint32_t *conn_of(struct xdp *xdp, const uint8_t *frame)
{
	struct inc_conn_key key = {.dqpn = pair_of(frame)};

	memcpy(&key.saddr, frame + FRAME_IP + 12, sizeof(key.saddr));
	memcpy(&key.daddr, frame + FRAME_IP + 16, sizeof(key.daddr));
	return xdp_conn_of(xdp, &key);
}

/* Is a packet right at this port? It may be, if its queue pair belongs to a newer connection. */
static bool belongs_here(const struct cluster_port *at, const uint8_t *frame)
{
	const uint32_t *conn = conn_of(at->sw->xdp, frame);

	return conn && xdp_place(at->sw->xdp->conn_cfg[*conn].ifindex) == at->number;
}

/* The counter that must count a packet of this kind in the data path. A connection may have ended
 * since the frame was seen. */
static enum inc_counter_id counter_of(enum kind kind, struct xdp *xdp, const struct frame *f)
{
	uint32_t own;

	memcpy(&own, f->data + FRAME_IP + 12, sizeof(own));
	if (kind == RUBBISH)
		return INC_CTR_RX;
	if (conn_of(xdp, f->data))
		return INC_CTR_DROP_PORT;
	if (xdp_own_addr(xdp, own))
		return INC_CTR_DROP_OWN_ADDR;
	/* a socket of termination mode may have another UDP port */
	return get16(f->data + FRAME_UDP + 2) == INC_ROCE_UDP_PORT ? INC_CTR_PASS_NO_CONN
								   : INC_CTR_RX;
}

/* Sends a packet to a switch's port. `is_right`: the packet is right except for the port. */
static void send_to(struct cluster_port *at, enum kind kind, struct frame *f, bool is_right)
{
	struct xdp *xdp = at->sw->xdp;
	const enum inc_counter_id id = counter_of(kind, xdp, f);
	const bool counts = xdp_program_id(xdp, at->number);
	uint64_t before[INC_CTR_MAX];
	unsigned int i, other = 0;

	for (i = 0; i < INC_CTR_MAX; i++)
		before[i] = xdp_counter(xdp, i);

	sim_figures.forged++;
	cluster_switch_take(at, f->data, f->len,
			    is_right ? HOST_FROM_ELSEWHERE : HOST_FROM_STRANGER);
	for (i = 0; i < INC_CTR_MAX; i++)
		if (i != INC_CTR_RX && xdp_counter(xdp, i) != before[i])
			other = i;
	sim_require(!counts || xdp_counter(xdp, id) == before[id] + 1,
		    "%s: a forged packet of kind %u at port %u is counted as %s, not as %s",
		    at->sw->process.name, kind, at->number, inc_counter_info[other].name,
		    inc_counter_info[id].name);
}

static void strike(void *arg, uint64_t unused)
{
	struct cluster_port *victim = arg;
	struct cluster_switch *sw = victim->sw;
	struct cluster_port *at =
		&sw->port[(victim->number + 1 + sim_below(sw->ports - 1)) % sw->ports];
	const enum kind kind = sim_chance(700) ? sim_below(2) : sim_below(RUBBISH + 1);
	const unsigned int n = n_seen[sw->number][victim->number];
	const struct seen *s = &all_seen[sw->number][victim->number][n ? sim_below(n) : 0];
	const struct seen *other =
		n_seen[sw->number][at->number] ? &all_seen[sw->number][at->number][0] : NULL;
	const bool is_right = kind == CONTRIBUTION || kind == RESPONSE;
	struct frame f;

	/* a kernel drops a packet with an own address before a socket receives it */
	if (!n || cluster_port_is_away(sw, at->number) || !make(kind, s, other, &f) ||
	    (kind == OWN_ADDRESS && !xdp_program_id(sw->xdp, at->number)) ||
	    belongs_here(at, f.data))
		return;
	memcpy(f.data, at->host.mac, sizeof(at->host.mac));
	if (kind != RUBBISH || sim_chance(500))
		seal(&f);
	sim_note(sw->process.name, "gets a forged packet by port", at->number, victim->number,
		 kind);
	send_to(at, kind, &f, is_right);
}

/* --- watching the cables --- */

static void copy(struct frame *to, const uint8_t *frame, size_t len)
{
	to->len = len;
	memcpy(to->data, frame, len);
}

static void perhaps_strike(struct cluster_port *port)
{
	if (!left || port->sw->ports < 2 || !sim_chance(permille))
		return;
	left--;
	sim_after(sim_between(0, DELAY_MOST_NS), strike, port, 0);
}

/* The entry of the connection to which the switch's queue pair belongs. Another connection loses
 * its entry if there is no room. */
static struct seen *seen_at(const struct cluster_port *port, const uint8_t *frame)
{
	struct seen *list = all_seen[port->sw->number][port->number];
	unsigned int *n = &n_seen[port->sw->number][port->number], i;

	for (i = 0; i < *n; i++)
		if (list[i].qpn == pair_of(frame))
			return &list[i];
	if (*n < SEEN_MOST)
		i = (*n)++;
	else
		i = sim_below(SEEN_MOST);
	list[i].qpn = pair_of(frame);
	list[i].peer_qpn = 0;
	list[i].request.len = list[i].sent.len = 0;
	return &list[i];
}

static void see_in(void *arg, const uint8_t *frame, size_t len)
{
	struct cluster_port *port = arg;
	const uint32_t *conn = conn_of(port->sw->xdp, frame);
	struct seen *s;

	if (frame[FRAME_BTH] != INC_OP_ACK) {
		s = seen_at(port, frame);
		s->peer_port = get16(frame + FRAME_UDP);
		s->peer_qpn = conn ? port->sw->xdp->conn_cfg[*conn].peer.qpn : 0;
		copy(&s->request, frame, len);
	}
	perhaps_strike(port);
}

/* Finds the connection of a frame that the switch sends. Each communicator of a rank has its own
 * UDP port. Connections between switches share one, and are told apart by their queue pairs, which
 * are known in passthrough mode only. */
static struct seen *seen_towards(const struct cluster_port *port, const uint8_t *frame)
{
	struct seen *list = all_seen[port->sw->number][port->number];
	const unsigned int n = n_seen[port->sw->number][port->number];
	unsigned int i;

	for (i = 0; i < n; i++)
		if (list[i].peer_port == get16(frame + FRAME_UDP + 2) &&
		    (list[i].peer_qpn ? list[i].peer_qpn == pair_of(frame) : port->peer[0] == 'h'))
			return &list[i];
	return NULL;
}

static void see_out(void *arg, const uint8_t *frame, size_t len)
{
	struct cluster_port *port = arg;
	struct seen *s = seen_towards(port, frame);

	if (s && frame[FRAME_BTH] != INC_OP_ACK)
		copy(&s->sent, frame, len);
	perhaps_strike(port);
}

void cluster_forge_at(struct cluster_port *port, struct wire *in, struct wire *out)
{
	if (!cluster.forged)
		return;
	in->tap = see_in;
	out->tap = see_out;
	in->tap_arg = out->tap_arg = port;
}
