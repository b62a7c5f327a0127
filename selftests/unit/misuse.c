// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>
#include "misuse.h"

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
