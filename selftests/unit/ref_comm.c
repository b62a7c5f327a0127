// SPDX-License-Identifier: BSD-2-Clause
/* A communicator of the reference: its rows, what is made of them, and what goes to its children.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <zlib.h>
#include "lib/proto/desc.h"
#include "ref_switch.h"

struct inc_buf *ref_contrib(const struct ref_comm *cm, uint32_t child, uint64_t r)
{
	return &cm->contrib[(size_t)child * cm->slots + r % cm->slots];
}

struct inc_buf *ref_result(const struct ref_comm *cm, uint64_t r)
{
	return &cm->result[r % cm->slots];
}

struct ref_comm *ref_comm_add(struct ref_switch *sw, uint32_t index, const struct inc_comm_cfg *cfg,
			      const struct inc_conn_cfg *conn)
{
	struct ref_comm *cm = calloc(1, sizeof(*cm));
	uint32_t i;

	if (!cm)
		return NULL;
	cm->index = index;
	cm->cfg = *cfg;
	cm->slots = 1u << cfg->log2_slots;
	cm->slot = calloc(cm->slots, sizeof(*cm->slot));
	cm->contrib = calloc((size_t)cm->slots * cfg->children, sizeof(*cm->contrib));
	cm->result = calloc(cm->slots, sizeof(*cm->result));
	for (i = 0; i < cfg->children; i++)
		cm->conn[i].cfg = conn[i];
	ref_comm_remove(sw, index);
	sw->comm[index] = cm;
	if (!cm->slot || !cm->contrib || !cm->result) {
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
	free(cm->contrib);
	free(cm->result);
	free(cm);
	sw->comm[index] = NULL;
}

bool ref_is_only(uint8_t op)
{
	return op == INC_OP_SEND_ONLY || op == INC_OP_SEND_ONLY_IMM || op == INC_OP_WRITE_ONLY ||
	       op == INC_OP_WRITE_ONLY_IMM;
}

/* Where frames to the child go. */
const uint8_t *ref_peer_mac(const struct ref_conn *c)
{
	return c->state.mac.known ? c->state.mac.addr : c->state.mac_hint.addr;
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
			if (len && !b->len)
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
	uint32_t i, padded;

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
	/* the pad is zeros, and counts in both */
	padded = (res->len + 3) / 4 * 4;
	/* zlib inverts the state before and after */
	res->crc = ~crc32(0xffffffff, res->payload, padded);
	res->csum = frame_sum16(res->payload, padded, 0);
	cm->slot[r % cm->slots].word = (uint64_t)(uint32_t)(r / cm->slots + 1) << 32;
	cm->state.tx_next = r + 1;
}

/* Does this child get the data of the result, or a packet of length 0? */
static bool gets_data(const struct ref_comm *cm, uint32_t child, uint32_t desc)
{
	switch (INC_DESC_COLL(desc)) {
	case INC_COLL_REDUCE:
		return cm->conn[child].cfg.rank == INC_DESC_ROOT(desc);
	case INC_COLL_BROADCAST: /* who gives it has it */
		return cm->conn[child].cfg.rank != INC_DESC_ROOT(desc);
	case INC_COLL_BARRIER:
		return false;
	default:
		return true;
	}
}

void ref_copy(const struct ref_comm *cm, uint32_t child, uint64_t r, struct frame *out)
{
	const struct inc_conn_cfg *cfg = &cm->conn[child].cfg;
	const struct inc_buf *b = ref_contrib(cm, child, r), *res = ref_result(cm, r);
	struct frame_spec s = {
		.saddr = cfg->own_addr,
		.daddr = cfg->peer_addr,
		.sport = cfg->own_port,
		.dport = cfg->peer_port,
		.ttl = 64,
		.df = true,
		.udp_csum = cfg->flags & INC_CONN_F_UDP_CSUM,
		.opcode = b->opcode,
		.bth_flags = INC_BTH_M | (b->flags & INC_BUF_F_SE ? INC_BTH_SE : 0),
		.pkey = cfg->pkey,
		.qpn = cfg->peer_qpn,
		.ack_byte = b->flags & INC_BUF_F_ACKREQ ? 0x80 : 0,
		.psn = (cfg->tx_start_psn + r) & INC_PSN_MASK,
		.va = be64toh(b->va),
		.rkey = ntohl(b->rkey),
		.imm = res->desc,
		.payload = res->payload,
		.len = gets_data(cm, child, res->desc) ? res->len : 0,
	};

	/* The length of the message: what the child said, but for a message of one packet, where
	 * it may have given nothing and get data, or the reverse. */
	s.pad = (4 - s.len % 4) % 4;
	s.dmalen = ref_is_only(b->opcode) ? s.len : ntohl(b->dmalen);
	memcpy(s.dst_mac, ref_peer_mac(&cm->conn[child]), 6);
	memcpy(s.src_mac, cfg->own_mac, 6);
	frame_build(out, &s);
}
