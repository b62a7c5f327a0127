// SPDX-License-Identifier: BSD-2-Clause
/*
 * A forger sends packets. Most are right in all that a member of the job, or a parent, would send
 * now, but they arrive by another port of the switch. Others have one of the switch's own
 * addresses, a queue pair that does not exist, or random bytes. The forger has seen all frames on
 * the cables. The switch must count each packet by its fault. The checks of results, frames and
 * reports show that no forged packet has an effect. Taps of cables call this, and so do events.
 */
#include <netinet/in.h>
#include <string.h>
#include "selftests/unit/frame.h"
#include "sim.h"
#include "tree_priv.h"
#include "userspace/term/worker.h"

#define FORGED_MOST   150 /* number of forged packets in one run */
#define DELAY_MOST_NS (100 * INC_NSEC_PER_USEC)
#define AHEAD_MOST    3 /* how many packets after the last one a forged PSN may be */
#define RUBBISH_MOST  200

enum kind { CONTRIBUTION, RESPONSE, OWN_ADDRESS, UNKNOWN_PAIR, OTHERS_PAIR, RUBBISH };

/* The last frames of one communicator on the cable at a port. A length of 0 means that no frame was
 * seen. */
static struct seen {
	unsigned int life;
	struct frame request; /* the last request from the peer */
	struct frame sent;    /* the last frame of the switch: a result, or a partial sum */
} all_seen[SWITCHES_MOST][XDP_PORTS][COMMS_MOST];

static unsigned int left, permille;

void tree_forge_begin(void)
{
	static const unsigned int rates[] = {10, 100, 500};
	unsigned int s, p, c;

	for (s = 0; s < SWITCHES_MOST; s++)
		for (p = 0; p < XDP_PORTS; p++)
			for (c = 0; c < COMMS_MOST; c++)
				all_seen[s][p][c].request.len = all_seen[s][p][c].sent.len = 0;
	left = tree.forged ? FORGED_MOST : 0;
	permille = tree.forged ? rates[sim_below(3)] : 0;
}

static struct seen *seen_at(const struct daemon_port *port, unsigned int comm)
{
	return &all_seen[tree_switch_of(port)->number][port->port][comm];
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

/* Makes a forged packet of the given kind. Returns false if the frames that it needs have not been
 * seen. Also returns false for a packet with an own address of a switch in termination mode,
 * because the kernel drops such packets. */
static bool make(enum kind kind, const struct daemon_port *victim, const struct daemon_port *at,
		 unsigned int comm, struct frame *f)
{
	const struct seen *s = seen_at(victim, comm), *other = seen_at(at, comm);
	const struct frame *of = kind == OWN_ADDRESS   ? &s->sent
				 : kind == OTHERS_PAIR ? &other->request
						       : &s->request;

	if (!s->request.len || !of->len || (kind == RESPONSE && !s->sent.len) ||
	    (kind == OWN_ADDRESS && tree_switch_of(at)->mode == INC_TERMINATION))
		return false;
	*f = *of;
	if (kind == CONTRIBUTION)
		make_contribution(f);
	else if (kind == RESPONSE)
		make_response(f, &s->sent);
	else if (kind == UNKNOWN_PAIR)
		put24(f->data + FRAME_BTH + 5, pair_of(f->data) + (1 << 20));
	else if (kind == OTHERS_PAIR)
		put24(f->data + FRAME_BTH + 5, pair_of(s->request.data));
	else if (kind == RUBBISH)
		make_rubbish(f);
	tree_port_mac(at, f->data);
	if (kind != RUBBISH || sim_chance(500))
		seal(f);
	return true;
}

/* --- sending forged packets --- */

static void send_through(const struct daemon_port *at, enum kind kind, const struct frame *f)
{
	static const enum inc_counter_id counters[] = {
		[CONTRIBUTION] = INC_CTR_DROP_PORT,    [RESPONSE] = INC_CTR_DROP_PORT,
		[OWN_ADDRESS] = INC_CTR_DROP_OWN_ADDR, [UNKNOWN_PAIR] = INC_CTR_PASS_NO_CONN,
		[OTHERS_PAIR] = INC_CTR_PASS_NO_CONN,  [RUBBISH] = INC_CTR_RX};
	const uint64_t before = xdp_counter(at->daemon->xdp, counters[kind]);

	/* a daemon attaches its program to a new interface only after it has read the kernel's
	 * notice */
	if (!xdp_program_id(at->daemon->xdp, at->port))
		return;
	tree_take(at, f->data, f->len, HOST_FROM_STRANGER);
	sim_figures.forged++;
	sim_require(xdp_counter(at->daemon->xdp, counters[kind]) == before + 1,
		    "%s: a forged packet of kind %u at port %u is not counted",
		    at->daemon->process.name, kind, at->port);
}

static void strike(void *arg, uint64_t unused)
{
	const struct daemon_port *victim = arg;
	const struct tree_switch *sw = tree_switch_of(victim);
	const enum kind kind = sim_chance(700) ? sim_below(2) : sim_below(RUBBISH + 1);
	const unsigned int comm = sim_below(tree.n_comms);
	struct daemon_port at = *victim;
	struct frame f;

	at.port = (at.port + 1 + sim_below(sw->daemon.ports - 1)) % sw->daemon.ports;
	if (sw->daemon.away[at.port] || !make(kind, victim, &at, comm, &f))
		return;
	sim_note(sw->daemon.process.name, "gets a forged packet by port", at.port, victim->port,
		 kind);
	if (sw->mode == INC_PASSTHROUGH) {
		send_through(&at, kind, &f);
	} else if (sw->term_comm[comm] && sw->life[comm] == seen_at(victim, comm)->life) {
		sim_figures.forged++;
		tree_take(&at, f.data, f.len,
			  kind == CONTRIBUTION || kind == RESPONSE ? HOST_FROM_ELSEWHERE
								   : HOST_FROM_STRANGER);
	}
}

void tree_forge_check(const struct tree_switch *sw)
{
	const struct inc_channel_device_figures f = inc_term_worker_figures(sw->worker);
	uint64_t elsewhere = 0, strange = 0;
	bool ended = false;
	unsigned int i;

	for (i = 0; i < sw->daemon.ports; i++) {
		elsewhere += sw->host[i].given_elsewhere;
		strange += sw->host[i].given_strange;
	}
	/* Packets for a communicator that has gone count as those of unknown senders. */
	for (i = 0; i < tree.n_comms; i++)
		ended |= !sw->term_comm[i] || tree.life[sw->life[i]].told[0] ||
			 tree.life[sw->life[i]].struck;
	sim_require(f.strangers + f.damaged >= strange &&
			    f.strangers + f.damaged + f.wrong_port >= strange + elsewhere &&
			    (ended || f.wrong_port >= elsewhere),
		    "%s: of %llu forged packets at wrong ports %llu are counted, of %llu of "
		    "strangers %llu",
		    sw->daemon.process.name, (unsigned long long)elsewhere,
		    (unsigned long long)f.wrong_port, (unsigned long long)strange,
		    (unsigned long long)(f.strangers + f.damaged));
}

/* --- watching the cables --- */

static void copy(struct frame *to, const uint8_t *frame, size_t len)
{
	to->len = len;
	memcpy(to->data, frame, len);
}

static void perhaps_strike(void *port)
{
	if (!left || !sim_chance(permille))
		return;
	left--;
	sim_after(sim_between(0, DELAY_MOST_NS), strike, port, 0);
}

static void see_in(void *port, const uint8_t *frame, size_t len)
{
	const unsigned int life = tree_life_of_qpn(pair_of(frame));
	struct seen *s = seen_at(port, life % tree.n_comms);

	if (frame[FRAME_BTH] != INC_OP_ACK) {
		s->life = life;
		copy(&s->request, frame, len);
	}
	perhaps_strike(port);
}

/* Finds the communicator of a frame. A rank chooses its queue pair numbers freely, but a switch's
 * queue pair number contains the communicator. */
static unsigned int comm_towards(const struct daemon_port *port, const uint8_t *frame)
{
	const uint32_t pair = pair_of(frame);
	unsigned int r, c;

	for (r = 0; r < tree.n_ranks; r++) {
		const struct tree_rank *rank = &tree.rank[r];

		if (rank->port.daemon != port->daemon || rank->port.port != port->port)
			continue;
		for (c = 0; c < tree.n_comms; c++)
			if (rank->made[c].peer.qpn == pair &&
			    rank->made[c].peer.udp_port == get16(frame + FRAME_UDP + 2))
				return c;
		return 0;
	}
	return tree_life_of_qpn(pair) % tree.n_comms;
}

static void see_out(void *port, const uint8_t *frame, size_t len)
{
	if (frame[FRAME_BTH] != INC_OP_ACK)
		copy(&seen_at(port, comm_towards(port, frame))->sent, frame, len);
	perhaps_strike(port);
}

void tree_forge_at(const struct daemon_port *port, struct wire *in, struct wire *out)
{
	if (!tree.forged)
		return;
	in->tap = see_in;
	out->tap = see_out;
	in->tap_arg = out->tap_arg = (void *)port;
}
