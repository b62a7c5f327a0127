/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"

int inc_roce_parse(const uint8_t *data, size_t size, struct inc_roce_packet *pkt)
{
	const uint8_t *p = data + INC_BTH_LEN;
	struct inc_bth bth;
	struct inc_reth reth;
	uint32_t word;
	size_t pad;
	int ext;

	if (size < INC_BTH_LEN + INC_ICRC_LEN)
		return -EBADMSG;
	memcpy(&bth, data, sizeof(bth));
	ext = bth.opcode == INC_OP_CNP ? INC_CNP_LEN : inc_roce_ext_len(bth.opcode);
	if (ext < 0 || bth.se_m_pad_tver & INC_BTH_TVER_MASK)
		return -EBADMSG;
	pad = (bth.se_m_pad_tver & INC_BTH_PAD_MASK) >> INC_BTH_PAD_SHIFT;
	if (size < INC_BTH_LEN + (size_t)ext + pad + INC_ICRC_LEN || size % 4)
		return -EBADMSG;

	memset(pkt, 0, sizeof(*pkt));
	pkt->opcode = bth.opcode;
	pkt->se = bth.se_m_pad_tver & INC_BTH_SE;
	pkt->pkey = ntohs(bth.pkey);
	pkt->becn = data[INC_BTH_MASKED_AT] & INC_BTH_BECN;
	pkt->qpn = ntohl(bth.ecn_qpn) & INC_QPN_MASK;
	word = ntohl(bth.ackreq_psn);
	pkt->ackreq = word & INC_BTH_ACKREQ;
	pkt->psn = word & INC_PSN_MASK;
	if (inc_roce_has_reth(bth.opcode)) {
		memcpy(&reth, p, sizeof(reth));
		pkt->va = be64toh(reth.va);
		pkt->rkey = ntohl(reth.rkey);
		pkt->dmalen = ntohl(reth.dmalen);
		p += sizeof(reth);
	}
	if (inc_roce_has_imm(bth.opcode) || bth.opcode == INC_OP_ACK) {
		memcpy(&word, p, sizeof(word));
		word = ntohl(word);
		p += sizeof(word);
		if (bth.opcode == INC_OP_ACK) {
			pkt->syndrome = word >> 24;
			pkt->msn = word & INC_PSN_MASK;
		} else {
			pkt->imm = word;
		}
	}
	if (bth.opcode == INC_OP_CNP)
		p += INC_CNP_LEN;
	pkt->payload = p;
	pkt->len = size - INC_BTH_LEN - ext - pad - INC_ICRC_LEN;
	if ((bth.opcode == INC_OP_ACK || bth.opcode == INC_OP_CNP) && pkt->len)
		return -EBADMSG;
	return 0;
}
