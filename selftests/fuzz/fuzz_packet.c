// SPDX-License-Identifier: BSD-2-Clause
/*
 * RUNS: 300000
 *
 * Target: the parser of UDP payloads in user space (lib/roce), and that of LLDP frames (lib/net),
 * which reads the same bytes. A frame's texts are printable. An accepted packet lies within the
 * given bytes, and is the same when it is written again. The ICRC that the writer computes is the
 * one that the parser expects.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <endian.h>
#include "lib/net/netdev.h"
#include "lib/proto/frame.h"
#include "lib/roce/ip_id.h"
#include "lib/roce/parse.h"
#include "lib/roce/wire.h"
#include "selftests/fuzz/fuzz.h"

static size_t write_again(const struct inc_roce_packet *pkt, uint8_t *at)
{
	uint8_t *begin = at;

	inc_put_bth(at, pkt->opcode,
		    (pkt->se ? INC_BTH_SE : 0) | inc_pad(pkt->len) << INC_BTH_PAD_SHIFT, pkt->pkey,
		    pkt->qpn, (pkt->ackreq ? INC_BTH_ACKREQ : 0) | pkt->psn);
	at += INC_BTH_LEN;
	if (inc_roce_has_reth(pkt->opcode)) {
		inc_put_reth(at, htobe64(pkt->va), htobe32(pkt->rkey), htobe32(pkt->dmalen));
		at += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(pkt->opcode)) {
		inc_put_imm(at, pkt->imm);
		at += INC_IMM_LEN;
	}
	if (pkt->opcode == INC_OP_ACK) {
		inc_put_aeth(at, pkt->syndrome, pkt->msn);
		at += INC_AETH_LEN;
	}
	memcpy(at, pkt->payload, pkt->len);
	memset(at + pkt->len, 0, inc_pad(pkt->len));
	at += pkt->len + inc_pad(pkt->len);
	return at - begin;
}

static bool same(const struct inc_roce_packet *a, const struct inc_roce_packet *b)
{
	return a->opcode == b->opcode && a->ackreq == b->ackreq && a->se == b->se &&
	       a->pkey == b->pkey && a->qpn == b->qpn && a->psn == b->psn && a->va == b->va &&
	       a->rkey == b->rkey && a->dmalen == b->dmalen && a->imm == b->imm &&
	       a->syndrome == b->syndrome && a->msn == b->msn && a->len == b->len &&
	       !memcmp(a->payload, b->payload, a->len);
}

/* Checks that the packet is accepted with its ICRC, and its payload copied, and that the packet is
 * rejected with another ICRC. */
static void check_icrc(const struct inc_udp_path *path, uint16_t id, uint8_t *packet, size_t len,
		       const struct inc_roce_packet *pkt, uint32_t wrong)
{
	uint32_t icrc = inc_icrc_udp(path, id, packet, len);
	const size_t head = INC_BTH_LEN + inc_roce_ext_len(*packet);
	const struct inc_payload_copy copy = {malloc(pkt->len), head, pkt->len}, nowhere = {};
	struct inc_ip_ids ids;

	fuzz_require(inc_crc32_update(inc_icrc_head(path, id, packet, head, len - head),
				      packet + head, len - head) == ~icrc,
		     "two ICRCs for one packet");
	fuzz_require(!inc_ip_ids_init(&ids, path, false), "no memory");
	ids.next = id;
	inc_put_icrc(packet + len, icrc);
	fuzz_require(inc_ip_ids_check(&ids, path, false, packet, len + INC_ICRC_LEN, &copy),
		     "a good ICRC is refused");
	fuzz_require(!memcmp(copy.to, pkt->payload, pkt->len), "the copy differs");
	free(copy.to);
	ids.next = id;
	inc_put_icrc(packet + len, icrc ^ wrong);
	fuzz_require(
		!wrong || (!id && inc_addr_is_ipv4(path->saddr)) ||
			inc_icrc_udp(path, 0, packet, len) == (icrc ^ wrong) ||
			!inc_ip_ids_check(&ids, path, false, packet, len + INC_ICRC_LEN, &nowhere),
		"a wrong ICRC is believed");
	inc_ip_ids_free(&ids);
}

/* Checks that a text is printable ASCII, and ends within its room. */
static void check_text(const char text[INC_LLDP_TEXT])
{
	fuzz_require(memchr(text, 0, INC_LLDP_TEXT), "a text without an end");
	for (; *text; text++)
		fuzz_require(*text >= ' ' && *text <= '~', "a text with character %d", *text);
}

static void check_lldp(const uint8_t *data, size_t size)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	uint8_t frame[INC_LLDP_FRAME_BYTES];
	struct inc_lldp said, again;
	const int ret = inc_lldp_parse(data, size, &said);
	size_t len;

	fuzz_require(!ret || ret == -EBADMSG, "error %d", ret);
	if (ret)
		return;
	check_text(said.chassis);
	check_text(said.port);
	check_text(said.name);
	if (!*said.name || !*said.port)
		return;
	len = inc_lldp_write(frame, mac, said.name, said.port, said.ttl_s);
	fuzz_require(len <= sizeof(frame) && !inc_lldp_parse(frame + 14, len - 14, &again) &&
			     !strcmp(said.name, again.name) && !strcmp(said.port, again.port) &&
			     said.ttl_s == again.ttl_s,
		     "another frame the second time");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_bytes bytes = {data, size};
	struct inc_udp_path path = {.saddr = inc_addr_of_ipv4(fuzz_take32(&bytes)),
				    .daddr = inc_addr_of_ipv4(fuzz_take32(&bytes)),
				    .sport = fuzz_take16(&bytes),
				    .dport = INC_ROCE_UDP_PORT};
	const uint16_t id = fuzz_take16(&bytes);
	const uint32_t wrong = fuzz_take32(&bytes);
	struct inc_roce_packet pkt, again;
	uint8_t *packet;
	size_t len;
	int ret = inc_roce_parse(bytes.data, bytes.size, &pkt);

	check_lldp(data, size);
	fuzz_require(!ret || ret == -EBADMSG, "error %d", ret);
	if (ret)
		return 0;
	fuzz_require(pkt.payload >= bytes.data &&
			     pkt.payload + pkt.len <= bytes.data + bytes.size - INC_ICRC_LEN,
		     "a payload outside of the packet");
	/* the parser accepts a longer pad than necessary */
	packet = malloc(bytes.size + INC_ICRC_LEN);
	fuzz_require(packet, "no memory");
	len = write_again(&pkt, packet);
	fuzz_require(len <= bytes.size - INC_ICRC_LEN, "longer than it was");
	fuzz_require(!inc_roce_parse(packet, len + INC_ICRC_LEN, &again) && same(&pkt, &again),
		     "another packet the second time");
	check_icrc(&path, id, packet, len, &again, wrong);
	/* the same over IPv6 */
	path.saddr.word[0] = ~path.daddr.word[3];
	path.daddr.word[1] = ~path.saddr.word[3];
	check_icrc(&path, 0, packet, len, &again, wrong);
	free(packet);
	return 0;
}
