// SPDX-License-Identifier: BSD-2-Clause
/* Cables (network.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/proto/frame.h"
#include "network.h"
#include "selftests/unit/frame.h"
#include "sim.h"

#define DELAY_NS 2000 /* delay of a cable that has no other */
#define DUE_MOST 4

/* A frame on the cable. Memory of frames that have arrived is reused. */
struct passage {
	struct passage *next;      /* next in the list of frames that have arrived */
	struct passage *next_made; /* next in the list of all frames */
	struct wire *wire;
	size_t len;
	bool has_address; /* has_address() of the frame before it is damaged */
	uint8_t frame[WIRE_FRAME_MOST];
};

static struct passage *idle, *made;

/* Functions that are called before certain frames. */
static struct due {
	uint64_t left; /* number of frames until then; 0: the place is free */
	sim_fn fn;
	void *arg;
	uint64_t arg2;
} due[DUE_MOST];

void wire_begin(void)
{
	struct passage *p;

	memset(due, 0, sizeof(due));
	idle = NULL;
	for (p = made; p; p = p->next_made) {
		p->next = idle;
		idle = p;
	}
}

void wire_open(struct wire *wire, const char *name, wire_fn out, void *arg)
{
	*wire = (struct wire){.out = out, .arg = arg, .delay_ns = DELAY_NS, .burst = 1};
	snprintf(wire->name, sizeof(wire->name), "%s", name);
}

static uint32_t word_at(const uint8_t *frame, size_t len, size_t at)
{
	return at + 4 <= len ? get32(frame + at) : 0;
}

/* Has the frame an RDMA WRITE? That of a device has an address of its process, which differs from
 * run to run. */
static bool has_address(const uint8_t *frame, size_t len)
{
	return len >= FRAME_EXT + INC_RETH_LEN + INC_ICRC_LEN && frame_has_reth(frame[FRAME_BTH]);
}

/* Adds a frame to the hash of the run, without such an address and the ICRC over it. */
static void hash(const uint8_t *frame, size_t len, bool has_address)
{
	const size_t body = FRAME_EXT + INC_RETH_LEN;

	sim_hash_bytes(frame, has_address ? FRAME_EXT : len);
	if (has_address)
		sim_hash_bytes(frame + body, len - INC_ICRC_LEN - body);
}

static void note(const struct wire *wire, const char *what, const uint8_t *frame, size_t len,
		 bool has_address)
{
	const uint32_t opcode = word_at(frame, len, FRAME_BTH) >> 24;
	const uint32_t psn = word_at(frame, len, FRAME_BTH + 8);
	char text[64];

	hash(frame, len, has_address);
	if (!sim_tracing()) {
		sim_note(wire->name, what, opcode, psn, len);
		return;
	}
	if (opcode == INC_OP_ACK)
		snprintf(text, sizeof(text), "%s: AETH %02x, PSN, bytes:", what,
			 word_at(frame, len, FRAME_EXT) >> 24);
	else
		snprintf(text, sizeof(text), "%s: opcode %02x%s, PSN, bytes:", what, opcode,
			 psn >> 31 ? " AckReq" : "");
	printf("%12s", "");
	printf("     %s %-28s %u %zu\n", wire->name, text, psn & INC_PSN_MASK, len);
	sim_note(wire->name, what, opcode, psn, len);
}

static void arrive(void *arg, uint64_t unused)
{
	struct passage *p = arg;
	struct wire *wire = p->wire;

	note(wire, "arrives", p->frame, p->len, p->has_address);
	wire->out(wire->arg, p->frame, p->len);
	p->next = idle;
	idle = p;
}

static void damage(struct passage *p)
{
	uint32_t bits = 1 + sim_below(3), i;

	for (i = 0; i < bits; i++)
		p->frame[sim_below(p->len)] ^= 1 << sim_below(8);
	sim_figures.damaged++;
	note(p->wire, "damaged", p->frame, p->len, p->has_address);
}

/* Marks some frames of a sender that announces ECN, as a router with a long queue does. */
static void mark(struct passage *p)
{
	uint8_t *ip = p->frame + FRAME_IP;

	if (p->len < FRAME_EXT || get16(p->frame + 12) != 0x0800 || ip[0] != 0x45 ||
	    !(ip[1] & INC_ECN_MASK) || (get24(p->frame + FRAME_BTH + 9) & 3) != 1)
		return;
	ip[1] |= INC_ECN_CE;
	put16(ip + 10, 0);
	put16(ip + 10, ~frame_sum16(ip, INC_IP_LEN, 0));
}

static bool is_lost(struct wire *wire)
{
	if (sim_now_ns() >= wire->cut_from_ns && sim_now_ns() < wire->cut_to_ns)
		return true;
	if (wire->burst_left) {
		wire->burst_left--;
		return true;
	}
	if (!sim_chance(wire->lost / wire->burst))
		return false;
	wire->burst_left = sim_below(wire->burst);
	return true;
}

static void pass(struct wire *wire, const uint8_t *frame, size_t len, bool faulty)
{
	struct passage *p = idle;
	uint64_t at_ns;

	if (p) {
		idle = p->next;
	} else {
		p = malloc(sizeof(*p));
		sim_require(p, "no memory");
		p->next_made = made;
		made = p;
	}
	sim_require(len <= sizeof(p->frame), "a frame of %zu bytes", len);
	p->wire = wire;
	p->len = len;
	p->has_address = has_address(frame, len);
	memcpy(p->frame, frame, len);
	if (faulty)
		mark(p);
	if (faulty && sim_chance(wire->damaged))
		damage(p);
	at_ns = sim_now_ns() + wire->delay_ns + sim_between(0, wire->jitter_ns);
	if (faulty && sim_chance(wire->delayed)) {
		at_ns += sim_between(0, wire->late_ns);
		sim_figures.delayed++;
	} else {
		at_ns = at_ns > wire->last_ns ? at_ns : wire->last_ns + 1;
		wire->last_ns = at_ns;
	}
	sim_at(at_ns, arrive, p, 0);
}

void wire_before(uint64_t n, sim_fn fn, void *arg, uint64_t arg2)
{
	struct due *d = due;

	while (d < due + DUE_MOST && d->left)
		d++;
	sim_require(n && d < due + DUE_MOST, "more than %u things before frames, or before none",
		    DUE_MOST);
	*d = (struct due){n, fn, arg, arg2};
}

static void do_due(void)
{
	for (struct due *d = due; d < due + DUE_MOST; d++)
		if (d->left && !--d->left)
			d->fn(d->arg, d->arg2);
}

void wire_lose(struct wire *wire, const uint8_t *frame, size_t len)
{
	sim_figures.lost++;
	note(wire, "lost", frame, len, has_address(frame, len));
}

void wire_send(struct wire *wire, const uint8_t *frame, size_t len)
{
	const bool faulty = sim_faults();

	sim_figures.packets++;
	sim_require(len < FRAME_UDP || get16(frame + 12) != 0x0800 ||
			    (frame[FRAME_IP + 1] & INC_ECN_MASK) != INC_ECN_CE,
		    "%s: a frame is sent with a mark of congestion", wire->name);
	do_due();
	if (wire->tap)
		wire->tap(wire->tap_arg, frame, len);
	if (faulty && is_lost(wire)) {
		wire_lose(wire, frame, len);
		return;
	}
	pass(wire, frame, len, faulty);
	if (faulty && sim_chance(wire->repeated)) {
		sim_figures.repeated++;
		pass(wire, frame, len, faulty);
	}
}
