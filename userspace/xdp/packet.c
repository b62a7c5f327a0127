/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include "lib/roce/roce.h"
#include "userspace/xdp/packet.h"

#define IP_DF       0x4000
#define HEADERS_LEN (INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN)

/* Ones' complement sum, not yet folded; an odd last byte counts as if a 0 followed. */
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

static void put_headers(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
			size_t ip_len, uint8_t opcode, uint8_t bth_flags, uint32_t ackreq_psn)
{
	struct ethhdr eth = {.h_proto = htons(ETH_P_IP)};
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = htons(ip_len),
		.frag_off = htons(IP_DF),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = cfg->own_addr,
		.daddr = cfg->peer_addr,
	};
	struct udphdr udp = {
		.source = htons(cfg->own_port),
		.dest = htons(cfg->peer_port),
		.len = htons(ip_len - INC_IP_LEN),
	};
	struct inc_bth bth = {
		.opcode = opcode,
		.se_m_pad_tver = bth_flags | INC_BTH_M,
		.pkey = htons(cfg->pkey),
		.resv_qpn = htonl(cfg->peer_qpn),
		.ackreq_psn = htonl(ackreq_psn),
	};

	memcpy(eth.h_dest, peer.addr, 6);
	memcpy(eth.h_source, cfg->own_mac, 6);
	ip.check = fold(add_words(0, &ip, sizeof(ip)));
	memcpy(frame, &eth, sizeof(eth));
	memcpy(frame + INC_ETH_LEN, &ip, sizeof(ip));
	memcpy(frame + INC_ETH_LEN + INC_IP_LEN, &udp, sizeof(udp));
	memcpy(frame + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN, &bth, sizeof(bth));
}

static void put_icrc(uint8_t *frame, size_t ip_len)
{
	uint32_t icrc = inc_icrc_ipv4(frame + INC_ETH_LEN, ip_len - INC_ICRC_LEN);
	uint8_t *p = frame + INC_ETH_LEN + ip_len - INC_ICRC_LEN;

	p[0] = icrc;
	p[1] = icrc >> 8;
	p[2] = icrc >> 16;
	p[3] = icrc >> 24;
}

static void put_udp_csum(uint8_t *frame, const struct inc_conn_cfg *cfg, size_t ip_len)
{
	size_t udp_len = ip_len - INC_IP_LEN;
	uint8_t *udp = frame + INC_ETH_LEN + INC_IP_LEN;
	uint64_t sum = htons(IPPROTO_UDP) + htons(udp_len);
	uint16_t check;

	sum = add_words(sum, &cfg->own_addr, 4);
	sum = add_words(sum, &cfg->peer_addr, 4);
	check = fold(add_words(sum, udp, udp_len));
	check = check ?: 0xffff; /* 0 says "no checksum" */
	memcpy(udp + offsetof(struct udphdr, check), &check, sizeof(check));
}

size_t inc_frame_result(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
			const struct inc_mirror *m, uint32_t psn, const void *payload, size_t len)
{
	size_t pad = -len & 3;
	size_t ip_len = INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN + inc_roce_ext_len(m->opcode) + len +
			pad + INC_ICRC_LEN;
	uint8_t bth_flags = (m->flags & INC_BUF_F_SE ? INC_BTH_SE : 0) | pad << INC_BTH_PAD_SHIFT;
	uint8_t *p = frame + HEADERS_LEN;

	put_headers(frame, cfg, peer, ip_len, m->opcode, bth_flags,
		    (psn & INC_PSN_MASK) | (m->flags & INC_BUF_F_ACKREQ ? INC_BTH_ACKREQ : 0));
	if (inc_roce_has_reth(m->opcode)) {
		struct inc_reth reth = {.va = m->va, .rkey = m->rkey, .dmalen = m->dmalen};

		memcpy(p, &reth, sizeof(reth));
		p += sizeof(reth);
	}
	if (inc_roce_has_imm(m->opcode)) {
		uint32_t imm = htonl(m->desc);

		memcpy(p, &imm, sizeof(imm));
		p += sizeof(imm);
	}
	memcpy(p, payload, len);
	memset(p + len, 0, pad);
	put_icrc(frame, ip_len);
	if (cfg->flags & INC_CONN_F_UDP_CSUM)
		put_udp_csum(frame, cfg, ip_len);
	return INC_ETH_LEN + ip_len;
}

size_t inc_frame_ack(uint8_t *frame, const struct inc_conn_cfg *cfg, union inc_mac peer,
		     uint8_t syndrome, uint32_t psn, uint32_t msn)
{
	struct inc_aeth aeth = {.syn_msn = htonl((uint32_t)syndrome << 24 | (msn & INC_PSN_MASK))};
	size_t ip_len = INC_IP_LEN + INC_UDP_LEN + INC_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN;

	put_headers(frame, cfg, peer, ip_len, INC_OP_ACK, 0, psn & INC_PSN_MASK);
	memcpy(frame + HEADERS_LEN, &aeth, sizeof(aeth));
	put_icrc(frame, ip_len);
	return INC_ETH_LEN + ip_len;
}

int inc_frame_parse_aeth(const uint8_t *frame, size_t size, struct inc_aeth_frame *out)
{
	struct inc_aeth aeth;
	struct ethhdr eth;
	struct udphdr udp;
	struct inc_bth bth;
	struct iphdr ip;

	if (size < HEADERS_LEN + INC_AETH_LEN + INC_ICRC_LEN)
		return -EBADMSG;
	memcpy(&eth, frame, sizeof(eth));
	memcpy(&ip, frame + INC_ETH_LEN, sizeof(ip));
	memcpy(&udp, frame + INC_ETH_LEN + INC_IP_LEN, sizeof(udp));
	memcpy(&bth, frame + INC_ETH_LEN + INC_IP_LEN + INC_UDP_LEN, sizeof(bth));
	memcpy(&aeth, frame + HEADERS_LEN, sizeof(aeth));
	if (eth.h_proto != htons(ETH_P_IP) || ip.version != 4 || ip.ihl != 5 ||
	    ip.protocol != IPPROTO_UDP || udp.dest != htons(INC_ROCE_UDP_PORT) ||
	    bth.opcode != INC_OP_ACK)
		return -EBADMSG;
	out->key.saddr = ip.saddr;
	out->key.daddr = ip.daddr;
	out->key.dqpn = ntohl(bth.resv_qpn) & INC_QPN_MASK;
	out->psn = ntohl(bth.ackreq_psn) & INC_PSN_MASK;
	out->syndrome = ntohl(aeth.syn_msn) >> 24;
	return 0;
}
