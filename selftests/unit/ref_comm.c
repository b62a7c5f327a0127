// SPDX-License-Identifier: BSD-2-Clause
/* A communicator of the reference: its rows, the results that are made of them, and the frames for
 * its children. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <zlib.h>
#include "lib/proto/desc.h"
#include "ref_switch.h"

struct inc_buf *ref_contrib(const struct ref_comm *cm, uint32_t child, uint64_t r)
{
	return &cm->kept[(size_t)child * cm->slots + r % cm->slots];
}

struct inc_buf *ref_result(const struct ref_comm *cm, uint64_t r)
{
	return &cm->result[r % cm->slots];
}

struct ref_comm *ref_comm_add(struct ref_switch *sw, uint32_t index, const struct inc_comm_cfg *cfg,
			      const struct ref_conn *conn)
{
	struct ref_comm *cm = calloc(1, sizeof(*cm));
	uint32_t i;

	if (!cm)
		return NULL;
	cm->index = index;
	cm->cfg = *cfg;
	cm->slots = 1u << cfg->log2_slots;
	cm->slot = calloc(cm->slots, sizeof(*cm->slot));
	cm->up = cfg->flags & INC_COMM_F_UP;
	cm->kept = calloc((size_t)cm->slots * (cfg->children + cm->up), sizeof(*cm->kept));
	cm->result = calloc(cm->slots, sizeof(*cm->result));
	for (i = 0; i < cfg->children + cm->up; i++)
		cm->conn[i] = conn[i];
	ref_comm_remove(sw, index);
	sw->comm[index] = cm;
	if (!cm->slot || !cm->kept || !cm->result) {
		ref_comm_remove(sw, index);
		return NULL;
	}
	return cm;
}

void ref_comm_remove(struct ref_switch *sw, uint32_t index)
{
	struct ref_comm *cm = sw->comm[index];

	if (!cm)
		return;
	free(cm->slot);
	free(cm->kept);
	free(cm->result);
	free(cm);
	sw->comm[index] = NULL;
}

struct ref_conn *ref_find(const struct ref_switch *sw, uint32_t saddr, uint32_t daddr, uint32_t qpn,
			  struct ref_out *out)
{
	uint32_t i, k;

	for (i = 0; i < REF_MAX_COMMS; i++) {
		struct ref_comm *cm = sw->comm[i];

		for (k = 0; cm && k < cm->cfg.children + cm->up; k++) {
			const struct inc_conn_cfg *cfg = &cm->conn[k].cfg;

			if (cfg->peer.ip != saddr || cfg->own.ip != daddr || cfg->own.qpn != qpn)
				continue;
			out->comm = cm;
			out->child = k;
			return &cm->conn[k];
		}
	}
	return NULL;
}

bool ref_intact(const struct frame *f)
{
	const uint8_t *ip = f->data + FRAME_IP, *end;
	uint32_t len = get16(ip + 2) - INC_ICRC_LEN, icrc = frame_icrc(ip, len);

	end = ip + len;
	return icrc == ((uint32_t)end[3] << 24 | end[2] << 16 | end[1] << 8 | end[0]);
}

bool ref_is_only(uint8_t op)
{
	return op == INC_OP_SEND_ONLY || op == INC_OP_SEND_ONLY_IMM || op == INC_OP_WRITE_ONLY ||
	       op == INC_OP_WRITE_ONLY_IMM;
}

bool ref_has(const struct ref_comm *cm, uint32_t child, uint64_t r)
{
	uint64_t word = cm->slot[r % cm->slots].word;
	uint32_t generation = r / cm->slots;

	return INC_SLOT_GENERATION(word) == generation
		       ? INC_SLOT_ARRIVED(word) >> child & 1
		       : (int32_t)(INC_SLOT_GENERATION(word) - generation) > 0;
}

void ref_pass_kept(struct ref_comm *cm, uint32_t child)
{
	struct inc_conn_state *st = &cm->conn[child].state;
	uint64_t first = st->rx_next;

	for (st->ahead--; st->ahead && ref_has(cm, child, st->rx_next); st->ahead--) {
		st->desc = ref_contrib(cm, child, st->rx_next++)->desc;
		st->msn = (st->msn + 1) & 0xffffff;
	}
	if (st->rx_next > first && st->ahead_asks)
		st->ack_asked = st->rx_next;
	if (st->rx_next > first && !st->ahead)
		st->ahead_asks = 0;
}

/* Learns the peer's MAC address from an intact frame. Another address replaces it only after two
 * consecutive packets with that address. A multicast address is never learned. */
void ref_learn_mac(struct ref_conn *c, const uint8_t *source, uint32_t psn)
{
	struct inc_conn_state *st = &c->state;

	if (source[0] & 1 || c->cfg.flags & INC_CONN_F_FIXED_MAC)
		return;
	if (st->mac.known && !memcmp(st->mac.addr, source, 6)) {
		memset(&st->mac_hint, 0, sizeof(st->mac_hint));
	} else if (st->mac_hint.known && !memcmp(st->mac_hint.addr, source, 6) &&
		   st->hint_psn != INC_NO_PSN) {
		union inc_mac before = st->mac;

		if (st->hint_psn == psn)
			return;
		st->mac = st->mac_hint;
		st->mac_hint = before;
		st->hint_psn = INC_NO_PSN;
	} else {
		memcpy(st->mac_hint.addr, source, 6);
		st->mac_hint.known = 1;
		st->hint_psn = psn;
	}
}

void ref_report(struct ref_comm *cm, uint32_t child)
{
	const bool from_parent = child == cm->cfg.children;
	uint32_t i, last = from_parent ? cm->cfg.children - 1 : child;

	for (i = from_parent ? 0 : child; i <= last; i++)
		if (cm->conn[i].cfg.peer.kind == INC_ENDPOINT_VERBS)
			cm->conn[i].state.cnp_due = 1;
		else
			cm->conn[i].state.becn_due = 1;
}

void ref_copied(struct ref_switch *sw, struct ref_comm *cm, uint32_t child)
{
	struct inc_conn_state *st = &cm->conn[child].state;

	sw->counter[INC_CTR_X_BECN] += st->becn_due;
	st->becn_due = 0;
}

void ref_learn_class(struct ref_comm *cm, uint32_t child, const uint8_t *ip)
{
	struct ref_conn *parent = &cm->conn[cm->cfg.children], *c = &cm->conn[child];
	/* CE becomes ECT(0); the other values of ECN stay */
	static const uint8_t ecn[] = {0, 1, 2, 2};
	const uint8_t class = (ip[1] & 0xfc) | ecn[ip[1] & 3];

	if (frame_sum16(ip, INC_IP_LEN, 0) != 0xffff)
		return;
	c->state.rx_tos = class;
	if ((ip[1] & 3) == 3)
		ref_report(cm, child);
	if (child == cm->cfg.children)
		return;
	if (!(c->cfg.flags & INC_CONN_F_CLASS))
		c->state.traffic_class = class;
	if (cm->up && child == 0 && !(parent->cfg.flags & INC_CONN_F_CLASS))
		parent->state.traffic_class = class;
}

bool ref_has_two_tags(const struct frame *in)
{
	const uint16_t outer = get16(in->data + 12), inner = get16(in->data + 16);

	return in->len >= FRAME_IP + 4 &&
	       (outer == 0x88a8 || (outer == 0x8100 && (inner == 0x8100 || inner == 0x88a8)));
}

uint16_t ref_strip(const struct frame *in, struct frame *plain)
{
	if (in->len < FRAME_IP + 4 || get16(in->data + 12) != 0x8100 ||
	    get16(in->data + 16) != 0x0800)
		return 0;
	*plain = *in;
	frame_untag(plain);
	/* bit 12 is DEI in the frame, and says here that there is a tag */
	return get16(in->data + 14) | 0x1000;
}

/* Makes a frame of the peer with this tag decide the tag of frames to a peer. A VLAN's frames
 * always have one. */
static void set_tag(struct ref_conn *c, uint16_t like)
{
	const uint16_t vlan = c->cfg.tag & 0xfff;
	const uint16_t pcp = (c->cfg.flags & INC_CONN_F_PCP ? c->cfg.tag : like) & 0xe000;

	c->state.tag = vlan || like ? 0x1000 | pcp | vlan : 0;
}

void ref_learn_tag(struct ref_comm *cm, uint32_t child, uint16_t tag)
{
	struct ref_conn *parent = &cm->conn[cm->cfg.children], *c = &cm->conn[child];
	const bool new = tag != c->state.rx_tag;

	c->state.rx_tag = tag;
	if (!new || (child == cm->cfg.children && c->cfg.tag & 0xfff))
		return;
	set_tag(c, tag);
	if (cm->up && child == 0 && parent->cfg.tag & 0xfff)
		set_tag(parent, tag);
}

void ref_tag(const struct ref_conn *c, struct frame *f)
{
	if (c->state.tag)
		frame_tag(f, c->state.tag & 0xefff);
}

/* The MAC address to which frames for the child are sent. */
const uint8_t *ref_peer_mac(const struct ref_conn *c)
{
	return c->state.mac.known ? c->state.mac.addr : c->state.mac_hint.addr;
}

/* Is the root of the collective a rank of this connection? */
static bool behind(const struct ref_comm *cm, uint32_t child, uint32_t desc)
{
	return inc_ranks_have(&cm->conn[child].ranks, INC_DESC_ROOT(desc));
}

uint32_t ref_odd_children(const struct ref_comm *cm, uint64_t r)
{
	uint32_t i, len = 0, mask = 0;

	for (i = 0; i < cm->cfg.children; i++) {
		const struct inc_buf *b = ref_contrib(cm, i, r);

		if (b->desc != ref_contrib(cm, 0, r)->desc) {
			mask |= 1u << i;
			continue;
		}
		if (!len)
			len = b->len;
		if (b->len && b->len != len)
			mask |= 1u << i;
	}
	for (i = 0; i < cm->cfg.children; i++) {
		const struct inc_buf *b = ref_contrib(cm, i, r);

		switch (INC_DESC_COLL(ref_contrib(cm, 0, r)->desc)) {
		case INC_COLL_ALLREDUCE:
		case INC_COLL_REDUCE:
		case INC_COLL_REDUCE_SCATTER:
			if (len && !b->len)
				mask |= 1u << i;
			break;
		case INC_COLL_BROADCAST:
		case INC_COLL_ALL_GATHER:
			if (b->len && !behind(cm, i, ref_contrib(cm, 0, r)->desc))
				mask |= 1u << i;
			break;
		case INC_COLL_BARRIER:
			if (b->len)
				mask |= 1u << i;
			break;
		}
	}
	return mask;
}

void ref_reduce(struct ref_switch *sw, struct ref_comm *cm, uint64_t r)
{
	struct inc_buf *res = ref_result(cm, r);
	bool big = cm->cfg.flags & INC_COMM_F_NET_ORDER;
	uint32_t i;

	memset(res, 0, sizeof(*res));
	res->r = r;
	res->desc = ref_contrib(cm, 0, r)->desc;
	for (i = 0; i < cm->cfg.children; i++) {
		const struct inc_buf *b = ref_contrib(cm, i, r);

		sw->counter[INC_CTR_X_SUM_BYTES] += b->len;
		if (!b->len)
			continue;
		if (res->len)
			ref_operate(res->desc, big, res->payload, b->payload, b->len);
		else
			memcpy(res->payload, b->payload, b->len);
		res->len = b->len;
	}
	/* the parent gets the partial sum as a message of one packet, which requests an ACK if any
	 * child's packet requested one */
	res->opcode = INC_OP_SEND_ONLY_IMM;
	for (i = 0; i < cm->cfg.children; i++)
		res->flags |= ref_contrib(cm, i, r)->flags & INC_BUF_F_ACKREQ;
	if (big)
		res->flags |= INC_BUF_F_SE;
	ref_seal(res);
}

void ref_seal(struct inc_buf *row)
{
	uint32_t padded = (row->len + 3) / 4 * 4; /* zeros fill the last word */

	/* the complement, because zlib inverts the CRC's state before and after */
	row->crc = ~crc32(0xffffffff, row->payload, padded);
	row->csum = frame_sum16(row->payload, padded, 0);
}

void ref_done(struct ref_comm *cm, uint64_t r)
{
	cm->slot[r % cm->slots].word = (uint64_t)(uint32_t)(r / cm->slots + 1) << 32;
	/* chunks may complete in any order */
	for (; r == cm->state.tx_next &&
	       INC_SLOT_GENERATION(cm->slot[r % cm->slots].word) == (uint32_t)(r / cm->slots + 1);
	     r++)
		cm->state.tx_next = r + 1;
}

/* The number of ranks of a connection. */
static uint32_t ranks_behind(const struct ref_comm *cm, uint32_t child)
{
	uint32_t rank, n = 0;

	for (rank = 0; rank < INC_MAX_RANKS; rank++)
		n += inc_ranks_have(&cm->conn[child].ranks, rank);
	return n;
}

/* Do the ranks of this connection get the result's data? (For the parent's connection: do the ranks
 * below this switch get it?) If not, they get an empty packet. */
static bool gets_data(const struct ref_comm *cm, uint32_t child, uint32_t desc)
{
	switch (INC_DESC_COLL(desc)) {
	case INC_COLL_REDUCE:
	case INC_COLL_REDUCE_SCATTER:
		return behind(cm, child, desc);
	case INC_COLL_ALL_GATHER:
	case INC_COLL_BROADCAST: /* the rank that gives the data already has the result */
		return !behind(cm, child, desc) || ranks_behind(cm, child) > 1;
	case INC_COLL_BARRIER:
		return false;
	default:
		return true;
	}
}

/* Do some ranks give no data to the collective? If so, only the other ranks know the data's
 * length. */
static bool few_give(uint32_t desc)
{
	return INC_DESC_COLL(desc) == INC_COLL_BROADCAST ||
	       INC_DESC_COLL(desc) == INC_COLL_ALL_GATHER;
}

bool ref_owed(const struct ref_comm *cm, uint64_t r, uint32_t len)
{
	const struct inc_buf *partial = ref_result(cm, r);
	const uint32_t parent = cm->cfg.children;

	if (!gets_data(cm, parent, partial->desc))
		return len == 0;
	/* data of ranks elsewhere may have any number of elements */
	if (few_give(partial->desc) && !behind(cm, parent, partial->desc))
		return len % ref_element_bytes(partial->desc) == 0;
	return len == partial->len;
}

void ref_peer_spec(const struct ref_conn *c, uint64_t r, struct frame_spec *s)
{
	*s = (struct frame_spec){
		.saddr = c->cfg.own.ip,
		.daddr = c->cfg.peer.ip,
		.sport = c->cfg.own.udp_port,
		.dport = c->cfg.peer.udp_port,
		.tos = c->state.traffic_class,
		.ttl = 64,
		.df = true,
		.bth_flags = INC_BTH_M,
		.pkey = c->cfg.pkey,
		.qpn = c->cfg.peer.qpn,
		.psn = (c->cfg.own.psn + r) & INC_PSN_MASK,
	};
	memcpy(s->dst_mac, ref_peer_mac(c), 6);
	memcpy(s->src_mac, c->cfg.own_mac, 6);
}

bool ref_take_cnp(struct ref_conn *c, struct frame *out)
{
	static const uint8_t zeros[16];
	struct frame_spec s;

	if (!c->state.cnp_due || c->cnp_early || (!c->state.mac.known && !c->state.mac_hint.known))
		return false;
	c->state.cnp_due = 0;
	ref_peer_spec(c, 0, &s);
	s.opcode = INC_OP_CNP;
	s.resv8a = 0x40;
	s.psn = 0;
	s.payload = zeros;
	s.len = sizeof(zeros);
	frame_build(out, &s);
	ref_tag(c, out);
	return true;
}

/* Whether the switch has a connection with this own address. */
static bool has_address(const struct ref_switch *sw, uint32_t ip)
{
	uint32_t i, k;

	for (i = 0; i < REF_MAX_COMMS; i++)
		for (k = 0; sw->comm[i] && k < sw->comm[i]->cfg.children + sw->comm[i]->up; k++)
			if (sw->comm[i]->conn[k].cfg.own.ip == ip)
				return true;
	return false;
}

/* Whether a RoCEv2 packet of no connection is an echo request to the port. */
static bool is_echo(const struct ref_switch *sw, const struct frame *in, uint32_t ifindex)
{
	const uint8_t *d = in->data, *bth = d + FRAME_BTH;

	return ifindex == sw->echo_ifindex && sw->echo_ip && get16(d + FRAME_IP + 2) == 60 &&
	       !memcmp(d + FRAME_IP + 16, &sw->echo_ip, 4) && bth[0] == 0xc0 &&
	       !(bth[1] & INC_BTH_TVER_MASK) && !get24(bth + 5) && d[FRAME_IP + 12] &&
	       d[FRAME_IP + 12] < 224 && !(d[0] & 1) && !(d[6] & 1);
}

enum inc_counter_id ref_stranger(const struct ref_switch *sw, const struct frame *in,
				 uint32_t ifindex, uint16_t vlan, enum inc_counter_id why,
				 struct frame *reply)
{
	const uint8_t *d = in->data, *bth = d + FRAME_BTH, *icrc = d + FRAME_EXT + 16;
	struct frame_spec s = {.ttl = 64, .df = true, .opcode = 0xc1};

	if (in->len < FRAME_UDP || get16(d + 12) != 0x0800)
		return why;
	memcpy(&s.daddr, d + FRAME_IP + 12, 4);
	/* in another VLAN than that of the port the address may belong to another machine */
	if (has_address(sw, s.daddr) && (ifindex != sw->echo_ifindex || vlan == sw->echo_vlan))
		return INC_CTR_DROP_OWN_ADDR;
	if (why != INC_CTR_PASS_NO_CONN || vlan != sw->echo_vlan || !is_echo(sw, in, ifindex))
		return why;
	if (frame_icrc(d + FRAME_IP, 56) !=
	    (icrc[0] | icrc[1] << 8 | icrc[2] << 16 | (uint32_t)icrc[3] << 24))
		return INC_CTR_DROP_ICRC;
	memcpy(s.dst_mac, d + 6, 6);
	memcpy(s.src_mac, d, 6);
	s.saddr = sw->echo_ip;
	s.sport = INC_ROCE_UDP_PORT;
	s.dport = get16(d + FRAME_UDP);
	s.pkey = get16(bth + 2);
	s.psn = get24(bth + 9);
	s.payload = d + FRAME_EXT;
	s.len = 16;
	frame_build(reply, &s);
	/* the link may have made a short frame longer, and its bytes stay behind the packet */
	memcpy(reply->data + reply->len, d + reply->len, in->len - reply->len);
	reply->len = in->len;
	return INC_CTR_ANS_ECHO;
}

void ref_partial(const struct ref_comm *cm, uint64_t r, struct frame *out)
{
	const struct inc_buf *sum = ref_result(cm, r);
	struct frame_spec s;

	ref_peer_spec(&cm->conn[cm->cfg.children], r, &s);
	s.udp_csum = cm->conn[cm->cfg.children].cfg.flags & INC_CONN_F_UDP_CSUM;
	s.opcode = INC_OP_SEND_ONLY_IMM;
	s.ack_byte = sum->flags & INC_BUF_F_ACKREQ ? 0x80 : 0;
	if (cm->cfg.flags & INC_COMM_F_NET_ORDER)
		s.bth_flags |= INC_BTH_SE;
	s.imm = sum->desc;
	s.payload = sum->payload;
	s.len = sum->len;
	s.pad = (4 - s.len % 4) % 4;
	frame_build(out, &s);
	ref_tag(&cm->conn[cm->cfg.children], out);
}

void ref_copy(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame *out)
{
	const struct inc_buf *b = ref_contrib(cm, child, r);
	const struct inc_buf *res =
		cm->up ? ref_contrib(cm, cm->cfg.children, r) : ref_result(cm, r);
	struct frame_spec s;

	ref_peer_spec(&cm->conn[child], r, &s);
	s.udp_csum = cm->conn[child].cfg.flags & INC_CONN_F_UDP_CSUM;
	s.opcode = b->opcode;
	s.resv8a = cm->conn[child].state.becn_due ? 0x40 : 0;
	s.bth_flags |= b->flags & INC_BUF_F_SE ? INC_BTH_SE : 0;
	s.ack_byte = b->flags & INC_BUF_F_ACKREQ ? 0x80 : 0;
	s.va = be64toh(b->va);
	s.rkey = ntohl(b->rkey);
	s.imm = res->desc;
	s.payload = res->payload;
	s.len = gets_data(cm, child, res->desc) ? res->len : 0;
	s.pad = (4 - s.len % 4) % 4;
	/* the message's length as the child announced it. A message of one packet has its own
	 * length instead, because it may be empty in one direction and have data in the other. */
	s.dmalen = ref_is_only(b->opcode) ? s.len : ntohl(b->dmalen);
	frame_build(out, &s);
	ref_tag(&cm->conn[child], out);
}
