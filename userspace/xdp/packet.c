/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include "lib/proto/peer_frame.h"
#include "lib/roce/wire.h"
#include "userspace/xdp/packet.h"

/* Adds the words of data to a ones' complement sum, which is not yet folded. An odd last byte
 * counts as if a 0 followed it. */
static uint64_t add_words(uint64_t sum, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint16_t word;

	for (; len >= 2; len -= 2, p += 2) {
		memcpy(&word, p, 2);
		sum += word;
	}
	if (len)
		sum += htons(*p << 8);
	return sum;
}

static uint16_t fold(uint64_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void put_icrc(uint8_t *frame, size_t ip_len)
{
	size_t len = ip_len - INC_ICRC_LEN;

	inc_put_icrc(frame + INC_ETH_LEN + len, inc_icrc_ipv4(frame + INC_ETH_LEN, len));
}

static void put_udp_csum(uint8_t *frame, const struct inc_conn_cfg *cfg, size_t ip_len)
{
	size_t udp_len = ip_len - INC_IP_LEN;
	uint8_t *udp = frame + INC_ETH_LEN + INC_IP_LEN;
	uint64_t sum = htons(IPPROTO_UDP) + htons(udp_len);
	uint16_t check;

	sum = add_words(sum, &cfg->own.ip, 4);
	sum = add_words(sum, &cfg->peer.ip, 4);
	check = fold(add_words(sum, udp, udp_len));
	check = check ?: 0xffff; /* a checksum of 0 would mean "no checksum" */
	memcpy(udp + offsetof(struct udphdr, check), &check, sizeof(check));
}

size_t inc_frame_result(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
			uint8_t tos, const struct inc_mirror *m, uint32_t psn, const void *payload,
			size_t len)
{
	size_t pad = inc_pad(len);
	size_t ip_len = INC_IP_TO_BTH_LEN + inc_roce_ext_len(m->opcode) + len + pad + INC_ICRC_LEN;
	uint8_t bth_flags = (m->flags & INC_BUF_F_SE ? INC_BTH_SE : 0) | pad << INC_BTH_PAD_SHIFT;
	uint8_t *p = frame + INC_HEADERS_LEN;

	inc_put_peer_headers(frame, cfg, peer, tos, ip_len, m->opcode, bth_flags,
			     (psn & INC_PSN_MASK) |
				     (m->flags & INC_BUF_F_ACKREQ ? INC_BTH_ACKREQ : 0));
	if (m->flags & INC_BUF_F_BECN)
		inc_put_becn(p - INC_BTH_LEN);
	if (inc_roce_has_reth(m->opcode)) {
		inc_put_reth(p, m->va, m->rkey, m->dmalen);
		p += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(m->opcode)) {
		inc_put_imm(p, m->desc);
		p += INC_IMM_LEN;
	}
	memcpy(p, payload, len);
	memset(p + len, 0, pad);
	put_icrc(frame, ip_len);
	if (cfg->flags & INC_CONN_F_UDP_CSUM)
		put_udp_csum(frame, cfg, ip_len);
	return INC_ETH_LEN + ip_len;
}

size_t inc_frame_ack(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
		     uint8_t tos, uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	size_t ip_len = INC_IP_TO_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN;

	inc_put_peer_headers(frame, cfg, peer, tos, ip_len, INC_OP_ACK, 0, psn & INC_PSN_MASK);
	inc_put_aeth(frame + INC_HEADERS_LEN, syndrome, msn);
	put_icrc(frame, ip_len);
	return INC_ETH_LEN + ip_len;
}

size_t inc_frame_tag(uint8_t *frame, size_t len, uint16_t tag)
{
	if (!tag)
		return len;
	memmove(frame + INC_TAG_LEN, frame, len);
	inc_put_tag(frame, tag & ~INC_TAG_PRESENT);
	return len + INC_TAG_LEN;
}

int inc_frame_parse_aeth(const uint8_t *frame, size_t size, struct inc_aeth_frame *out)
{
	struct inc_aeth aeth;
	struct ethhdr eth;
	struct udphdr udp;
	struct inc_bth bth;
	struct iphdr ip;

	if (size < INC_HEADERS_LEN + INC_AETH_LEN + INC_ICRC_LEN)
		return -EBADMSG;
	memcpy(&eth, frame, sizeof(eth));
	memcpy(&ip, frame + INC_ETH_LEN, sizeof(ip));
	memcpy(&udp, frame + INC_ETH_LEN + INC_IP_LEN, sizeof(udp));
	memcpy(&bth, frame + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN, sizeof(bth));
	memcpy(&aeth, frame + INC_HEADERS_LEN, sizeof(aeth));
	if (eth.h_proto != htons(ETH_P_IP) || ip.version != 4 || ip.ihl != 5 ||
	    ip.protocol != IPPROTO_UDP || udp.dest != htons(INC_ROCE_UDP_PORT) ||
	    bth.opcode != INC_OP_ACK)
		return -EBADMSG;
	out->key.saddr = ip.saddr;
	out->key.daddr = ip.daddr;
	out->key.dqpn = ntohl(bth.ecn_qpn) & INC_QPN_MASK;
	out->psn = ntohl(bth.ackreq_psn) & INC_PSN_MASK;
	out->syndrome = ntohl(aeth.syn_msn) >> 24;
	out->msn = ntohl(aeth.syn_msn) & INC_PSN_MASK;
	return 0;
}
