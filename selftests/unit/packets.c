// SPDX-License-Identifier: BSD-2-Clause
/* Builds packets of a communicator's children and parent (unit.h). The functions need no loaded
 * switch. */
#include <string.h>
#include "unit.h"

static void base_spec(const struct inc_conn_cfg *cfg, struct frame_spec *s)
{
	memset(s, 0, sizeof(*s));
	memcpy(s->dst_mac, "\x02\x5c\0\0\0", 5);
	s->dst_mac[5] = cfg->ifindex;
	memcpy(s->src_mac, "\x02\x40\0\0", 4);
	s->src_mac[4] = cfg->comm;
	s->src_mac[5] = cfg->child;
	s->saddr = cfg->peer.ip;
	s->daddr = cfg->own.ip;
	s->sport = cfg->peer.udp_port;
	s->dport = INC_ROCE_UDP_PORT;
	s->ttl = 63;
	s->df = true;
	s->bth_flags = INC_BTH_M;
	s->pkey = cfg->pkey;
	s->qpn = cfg->own.qpn;
}

void unit_data_spec(const struct ref_comm *cm, uint32_t child, const struct unit_packet *p,
		    struct frame_spec *s, uint8_t payload[INC_MAX_PAYLOAD])
{
	const struct inc_conn_cfg *cfg = &cm->conn[child].cfg;
	struct rng rng = {rng_mix(rng_mix(cm->cfg.communicator, child), p->r)};
	uint64_t word;
	uint32_t i;

	for (i = 0; i < p->len; i += sizeof(word)) {
		word = rng_next(&rng);
		memcpy(payload + i, &word, p->len - i < sizeof(word) ? p->len - i : sizeof(word));
	}
	base_spec(cfg, s);
	s->ip_id = rng_next(&rng) & 3 ? 0 : (uint16_t)p->r;
	word = rng_next(&rng);
	/* mostly one class, with any value of ECN; the others have any class */
	s->tos = word & 4 ? 0x68 | (word & 3) : word >> 8;
	s->udp_csum = rng_next(&rng) & 1;
	s->opcode = p->opcode;
	if (p->solicited)
		s->bth_flags |= INC_BTH_SE;
	s->ack_byte = p->ackreq ? 0x80 : 0;
	s->psn = (cfg->peer.psn + p->r) & INC_PSN_MASK;
	s->va = rng_next(&rng);
	s->rkey = rng_next(&rng);
	s->dmalen = p->len;
	s->imm = p->desc;
	s->payload = payload;
	s->len = p->len;
	s->pad = -p->len & 3;
}

void unit_data(const struct ref_comm *cm, uint32_t child, const struct unit_packet *p,
	       struct frame *f)
{
	uint8_t payload[INC_MAX_PAYLOAD];
	struct frame_spec s;

	unit_data_spec(cm, child, p, &s, payload);
	frame_build(f, &s);
}

void unit_ack_spec(const struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn,
		   struct frame_spec *s)
{
	base_spec(&cm->conn[child].cfg, s);
	s->opcode = INC_OP_ACK;
	s->syndrome = syndrome;
	s->psn = psn & INC_PSN_MASK;
	s->msn = rng_mix(child, psn) & 0xffffff;
}

void unit_ack(const struct ref_comm *cm, uint32_t child, uint8_t syndrome, uint32_t psn,
	      struct frame *f)
{
	struct frame_spec s;

	unit_ack_spec(cm, child, syndrome, psn, &s);
	frame_build(f, &s);
}
