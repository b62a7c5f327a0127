// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/desc.h"
#include "stream.h"

static int more(struct stream *s, const struct chunk *c)
{
	struct chunk *grown;

	if (s->count == s->room) {
		grown = realloc(s->chunk, (s->room + 256) * sizeof(*grown));
		if (!grown)
			return -1;
		s->chunk = grown;
		s->room += 256;
	}
	s->chunk[s->count++] = *c;
	return 0;
}

static uint32_t some_len(struct stream *s, uint32_t desc)
{
	uint32_t payload = s->cm->cfg.payload, bytes = ref_element_bytes(desc);

	if (rng_chance(&s->rng, 400))
		return payload;
	return bytes * (1 + rng_below(&s->rng, payload / bytes));
}

/* Draws a root, which is mostly a rank of one of the children. */
static uint32_t some_root(struct stream *s)
{
	const struct ref_comm *cm = s->cm;
	const struct ref_conn *c = &cm->conn[rng_below(&s->rng, cm->cfg.children)];
	uint32_t first = rng_below(&s->rng, INC_MAX_RANKS), rank;

	if (rng_chance(&s->rng, 200))
		return first;
	rank = inc_ranks_next(&c->ranks, first);
	return rank < INC_MAX_RANKS ? rank : inc_ranks_next(&c->ranks, 0);
}

/* Whether the switch keeps contributions ahead of a gap, and this is a packet of which that holds:
 * permille of all. */
static bool reorders(struct stream *s, uint32_t permille)
{
	return s->cm->cfg.flags & INC_COMM_F_REORDER && rng_chance(&s->rng, permille);
}

/* Adds one collective: the message with the descriptor, and then up to seven more messages. */
static int collective(struct stream *s)
{
	uint32_t packets = 1 + rng_below(&s->rng, 4), n = rng_below(&s->rng, 8), i, k;
	uint32_t coll = rng_chance(&s->rng, 700) ? INC_COLL_ALLREDUCE
						 : rng_below(&s->rng, INC_N_COLLECTIVES);
	bool plain = rng_chance(&s->rng, 200);
	struct chunk c = {
		.desc = INC_DESC(
			coll, plain ? INC_OPERATOR_SUM : rng_below(&s->rng, INC_N_WIRE_OPERATORS),
			plain ? INC_DTYPE_INT32 : rng_below(&s->rng, INC_N_WIRE_DTYPES),
			some_root(s), s->seq++),
		.shape = INC_OP_SEND_ONLY_IMM,
	};

	/* an element of two numbers has two operators only */
	if (!ref_desc_known(c.desc))
		c.desc = INC_DESC(
			coll, rng_chance(&s->rng, 500) ? INC_OPERATOR_MIN : INC_OPERATOR_MAX,
			INC_DESC_DTYPE(c.desc), INC_DESC_ROOT(c.desc), INC_DESC_SEQ(c.desc));
	c.len = rng_chance(&s->rng, 200) ? 0 : some_len(s, c.desc);
	if (coll == INC_COLL_BARRIER)
		c.len = n = 0;
	/* only messages of one packet, because other messages may not be empty */
	if (inc_root_gives(c.desc) || reorders(s, 900))
		packets = 1;
	if (more(s, &c))
		return -1;
	for (i = 0; i < n; i++) {
		for (k = 0; k < packets; k++) {
			bool imm =
				(i == n - 1 && k == packets - 1 && s->seq & 1) || reorders(s, 950);

			if (packets == 1)
				c.shape = imm ? INC_OP_SEND_ONLY_IMM : INC_OP_SEND_ONLY;
			else if (k == packets - 1)
				c.shape = imm ? INC_OP_SEND_LAST_IMM : INC_OP_SEND_LAST;
			else
				c.shape = k ? INC_OP_SEND_MIDDLE : INC_OP_SEND_FIRST;
			c.len = k < packets - 1 ? s->cm->cfg.payload : some_len(s, c.desc);
			if (more(s, &c))
				return -1;
		}
	}
	return 0;
}

/* The length of the payload that a child gives with packet r. */
static uint32_t given(const struct ref_comm *cm, uint32_t child, const struct chunk *c)
{
	if (inc_root_gives(c->desc) &&
	    !inc_ranks_have(&cm->conn[child].ranks, INC_DESC_ROOT(c->desc)))
		return 0;
	return c->len;
}

/* Builds the parent's packet for a partial sum. It has the partial sum's message, and the length
 * that the parent must send. */
static void parents_packet(const struct ref_comm *cm, const struct chunk *c, struct unit_packet *p)
{
	uint64_t r = p->r;

	p->opcode = INC_OP_SEND_ONLY_IMM;
	p->len = c->len;
	if (r < cm->state.up_next && r >= cm->state.tx_next && !ref_owed(cm, r, p->len))
		p->len = 0;
}

int stream_packet(struct stream *s, uint32_t child, uint64_t r, struct unit_packet *p)
{
	const struct chunk *c;
	struct rng rng = {rng_mix(rng_mix(s->salt, child), r)};

	while (!s->count || r >= s->base + s->count)
		if (collective(s))
			return -1;
	c = &s->chunk[r < s->base ? 0 : r - s->base];
	memset(p, 0, sizeof(*p));
	p->r = r;
	p->opcode = c->shape + (rng_mix(s->salt, child) & 1 ? INC_OP_WRITE_FIRST : 0);
	p->len = given(s->cm, child, c);
	p->desc = c->desc;
	if (child == s->cm->cfg.children)
		parents_packet(s->cm, c, p);
	p->ackreq = rng_chance(
		&rng, c->shape == INC_OP_SEND_FIRST || c->shape == INC_OP_SEND_MIDDLE ? 150 : 900);
	p->solicited = rng_chance(&rng, 300);
	/* a child switch shows its byte order in this bit */
	if (child < s->cm->cfg.children && s->cm->conn[child].cfg.flags & INC_CONN_F_SWITCH)
		p->solicited = s->cm->cfg.flags & INC_COMM_F_NET_ORDER;
	return 0;
}

/* Makes some children switches with many ranks. */
static void some_ranks(struct rng *rng, struct inc_comm_conf *spec)
{
	uint32_t most = rng_chance(rng, 200) ? 100 : 8, next = 0, i, n;

	if (rng_chance(rng, 400))
		return;
	for (i = 0; i < spec->n_conns; i++) {
		struct inc_conn_conf *c = &spec->conn[i];

		c->rank = next;
		c->has_ranks = true;
		memset(&c->ranks, 0, sizeof(c->ranks));
		for (n = 1 + rng_below(rng, most); n; n--) {
			inc_ranks_add(&c->ranks, next);
			next += 1 + rng_below(rng, 2);
		}
	}
}

static uint32_t some_psn(struct rng *rng)
{
	return (rng_chance(rng, 500) ? 0xffffff - rng_below(rng, 200) : rng_next(rng)) & 0xffffff;
}

int stream_open(struct unit *u, struct stream *s, uint32_t communicator, uint64_t seed)
{
	struct rng rng = {seed};
	uint32_t children = rng_chance(&rng, 700) ? 1 + rng_below(&rng, 5)
						  : 1 + rng_below(&rng, INC_MAX_CHILDREN);
	uint32_t ports = 1 + rng_below(&rng, UNIT_PORTS);
	uint32_t slots = 1u << rng_below(&rng, children > 8 ? 6 : 9);
	struct inc_comm_conf spec;
	uint32_t c;

	unit_spec(u, &spec, communicator, children, ports, 256u << rng_below(&rng, 4), slots);
	spec.byte_order = rng_chance(&rng, 200) ? INC_ORDER_NETWORK : INC_ORDER_LITTLE;
	some_ranks(&rng, &spec);
	if (rng_chance(&rng, 450))
		unit_spec_parent(u, &spec, rng_below(&rng, UNIT_PORTS));
	else
		spec.reorder = rng_chance(&rng, 500);
	for (c = 0; c < spec.n_conns; c++) {
		struct inc_conn_conf *child = &spec.conn[c];

		child->peer.psn = some_psn(&rng);
		child->own.psn = some_psn(&rng);
		child->udp_csum = rng_chance(&rng, 400);
		/* 0x0000 and 0x8000 are no valid partitions */
		child->pkey = rng_chance(&rng, 800) ? INC_PKEY_DEFAULT : rng_next(&rng) | 1;
		child->own.udp_port =
			rng_chance(&rng, 800) ? INC_ROCE_UDP_PORT : 1 + rng_below(&rng, 65535);
		child->peer.udp_port =
			rng_chance(&rng, 500) ? INC_ROCE_UDP_PORT : 1 + rng_below(&rng, 65535);
		child->own.ip = inc_addr_of_ipv4(htonl(0xc0a80000 | communicator));
		child->peer.ip = inc_addr_of_ipv4(htonl(0x0a000000 | rng_below(&rng, 0x1000000)));
		child->peer.qpn = rng_next(&rng) & INC_QPN_MASK;
		if (rng_chance(&rng, child->up ? 800 : 200)) {
			memcpy(child->peer_mac, "\x02\x66\0\0\0", 5);
			child->peer_mac[5] = c;
			child->has_peer_mac = true;
		}
	}
	memset(s, 0, sizeof(*s));
	s->cm = unit_add_comm(u, &spec);
	if (!s->cm)
		return -1;
	s->salt = rng_next(&rng);
	s->rng.state = rng_next(&rng);
	s->seq = rng_next(&rng);
	if (rng_chance(&rng, 500)) {
		s->base = rng_next(&rng) >> rng_below(&rng, 50) >> 10;
		unit_reset(u, s->cm, s->base);
	}
	return 0;
}

int stream_close(struct unit *u, struct stream *s)
{
	int ret = s->cm ? unit_remove_comm(u, s->cm) : 0;

	free(s->chunk);
	memset(s, 0, sizeof(*s));
	return ret;
}

/* Chooses a child that may send within its window (searching from a random one on), or the parent
 * if it has a result to send. If no peer may send, chooses any of them. */
static uint32_t some_child(struct rng *rng, const struct ref_comm *cm)
{
	uint32_t n = cm->cfg.children + cm->up, first = rng_below(rng, n), i;

	if (rng_chance(rng, 50) && (first < cm->cfg.children || rng_chance(rng, 300)))
		return first;
	for (i = 0; i < n; i++) {
		uint32_t c = (first + i) % n;

		if (cm->conn[c].state.rx_next <
		    (c == cm->cfg.children ? cm->state.up_next : cm->state.tx_next + cm->slots))
			return c;
	}
	return first < cm->cfg.children ? first : 0;
}

/* Damages a valid frame: mostly so that the ICRC detects it, rarely so that it does not. */
static uint32_t damage(struct unit *u, struct rng *rng, struct frame *f, uint32_t ifindex)
{
	uint32_t i, n;

	switch (rng_below(rng, 9)) {
	case 0: /* flips some bits */
		for (n = 1 + rng_below(rng, 4), i = 0; i < n; i++)
			f->data[rng_below(rng, f->len)] ^= 1u << rng_below(rng, 8);
		break;
	case 1: /* writes a burst of wrong bytes */
		i = rng_below(rng, f->len - 8);
		for (n = 0; n < 8; n++)
			f->data[i + n] ^= rng_next(rng);
		break;
	case 2:
		f->len = FRAME_MIN_RUN + rng_below(rng, f->len - FRAME_MIN_RUN);
		break;
	case 3:
		n = rng_below(rng, 60);
		memset(f->data + f->len, 0, n);
		f->len += n;
		break;
	case 4: /* lets the frame arrive by another port */
		return u->port[rng_below(rng, UNIT_PORTS)];
	case 5: /* writes random bytes after the Ethernet header */
		f->len = FRAME_MIN_RUN + rng_below(rng, 200);
		for (i = rng_chance(rng, 500) ? FRAME_BTH : 12; i < f->len; i++)
			f->data[i] = rng_next(rng);
		break;
	case 6: /* changes a field of the BTH, and gives the frame a right ICRC */
		i = FRAME_BTH + rng_below(rng, INC_BTH_LEN);
		if (i != FRAME_BTH && (i != FRAME_BTH + 1 || rng_chance(rng, 100)))
			f->data[i] ^= 1u << rng_below(rng, 8);
		frame_seal(f);
		break;
	case 7: /* changes any bit of the headers, and gives the frame a right ICRC */
		f->data[12 + rng_below(rng, FRAME_BTH - 12)] ^= 1u << rng_below(rng, 8);
		frame_seal(f);
		break;
	default: /* makes a packet of an unknown sender, which may use an address of the switch */
		if (rng_chance(rng, 300))
			memcpy(f->data + FRAME_IP + 12, f->data + FRAME_IP + 16, 4);
		put24(f->data + FRAME_BTH + 5, rng_next(rng));
		frame_seal(f);
	}
	return ifindex;
}

/* Tags a valid frame: mostly with a priority alone, else with any VLAN, or twice. */
static void tag(struct rng *rng, struct frame *f)
{
	frame_tag(f, rng_next(rng) & (rng_chance(rng, 900) ? 0xf000 : 0xffff));
	if (rng_chance(rng, 20))
		frame_tag(f, rng_next(rng));
	if (rng_chance(rng, 20))
		put16(f->data + 12, 0x88a8);
}

/* Makes an ACK, NAK or RNR NAK, with a PSN in or out of range. */
static void response(struct rng *rng, const struct ref_comm *cm, uint32_t child, struct frame *f)
{
	const struct ref_conn *c = &cm->conn[child];
	uint64_t sent = (child == cm->cfg.children ? cm->state.up_next : cm->state.tx_next) -
			c->state.tx_acked;
	uint32_t base = c->cfg.own.psn + c->state.tx_acked;
	uint8_t syndrome = INC_AETH_ACK;
	struct frame_spec spec;
	uint32_t psn;

	psn = base + (sent ? rng_below(rng, sent) : 0);
	if (rng_chance(rng, 100))
		psn = base + rng_below(rng, 64) - 32;
	if (rng_chance(rng, 20))
		psn = rng_next(rng);
	if (rng_chance(rng, 150))
		syndrome = INC_AETH_NAK_SEQ;
	else if (rng_chance(rng, 100))
		syndrome = INC_AETH_RNR | rng_below(rng, 32);
	else if (rng_chance(rng, 30))
		syndrome = rng_next(rng);
	unit_ack_spec(cm, child, syndrome, psn, &spec);
	spec.ack_byte = rng_chance(rng, 200) ? 0x80 : 0;
	frame_build(f, &spec);
}

/* Makes the next packet of one of a communicator's children, or of its parent. */
static int some_packet(struct unit *u, struct stream *s, struct rng *rng, struct frame *f,
		       uint32_t *ifindex)
{
	struct ref_comm *cm = s->cm;
	uint32_t child = some_child(rng, cm);
	uint64_t next = cm->conn[child].state.rx_next;
	uint32_t what = rng_below(rng, 1000), bytes;
	struct unit_packet p;

	*ifindex = cm->conn[child].cfg.ifindex;
	if (what < 60 && next > 0) /* sends a duplicate */
		next -= 1 + rng_below(rng, next < 40 ? next : 40);
	else if (what < 110) /* sends a packet after a gap */
		next += 1 + rng_below(rng, 5);
	if (what >= 110 && what < 300) {
		response(rng, cm, child, f);
	} else {
		if (stream_packet(s, child, next, &p))
			return -1;
		bytes = ref_element_bytes(p.desc);
		/* the packet names another collective than those of the other children */
		if (what == 999 && rng_chance(rng, 500))
			p.desc++;
		else if (what == 998 && rng_chance(rng, 300))
			p.len = p.len ? p.len - bytes : bytes;
		/* the payload ends with an incomplete element */
		else if (what == 996 && rng_chance(rng, 300))
			p.len -= p.len != 0;
		else if (what == 997 && rng_chance(rng, 300))
			p.opcode = rng_below(rng, 12);
		unit_data(cm, child, &p, f);
	}
	if (what >= 300 && what < 340)
		tag(rng, f);
	if (what >= 900 && what < 960)
		*ifindex = damage(u, rng, f, *ifindex);
	return 0;
}

static bool failed(const struct ref_comm *cm)
{
	bool any = cm->state.error;
	uint32_t c;

	for (c = 0; c < cm->cfg.children + cm->up; c++)
		any |= cm->conn[c].state.error != 0;
	return any;
}

static int open_one(struct unit *u, struct stream *s, uint32_t communicator, struct rng *rng,
		    const struct misuse *m)
{
	return stream_open(u, s, communicator, rng_next(rng)) ||
			       (m->opened && m->opened(m->arg, s->cm))
		       ? -1
		       : 0;
}

static int run_one(struct unit *u, struct stream *s, struct rng *rng, const struct misuse *m)
{
	struct frame f;
	uint32_t ifindex;

	return some_packet(u, s, rng, &f, &ifindex) || m->run(m->arg, &f, ifindex, s->cm) ? -1 : 0;
}

int misuse_round(struct unit *u, struct rng *rng, const struct misuse *m)
{
	struct stream s[MISUSE_COMMS] = {0};
	uint32_t n = 1 + rng_below(rng, MISUSE_COMMS), i, k, after[MISUSE_COMMS] = {0};
	int ret = 0;

	for (i = 0; i < n && !ret; i++)
		ret = open_one(u, &s[i], 10 + i, rng, m);
	for (k = 0; k < m->packets && !ret; k++) {
		i = rng_below(rng, n);
		ret = run_one(u, &s[i], rng, m);
		/* A failed communicator stays for some packets, and then another one replaces
		 * it. */
		if (!ret && failed(s[i].cm) && ++after[i] > 30) {
			after[i] = 0;
			ret = m->compare(m->arg) || stream_close(u, &s[i]) ||
			      open_one(u, &s[i], 10 + i, rng, m);
		}
	}
	if (!ret)
		ret = m->compare(m->arg);
	for (i = 0; i < n; i++)
		if (stream_close(u, &s[i]))
			ret = -1;
	return ret ? -1 : 0;
}
