/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/rc_peer.h"

#define BUFFER_BYTES (1 << 20)

static int open_at(const struct inc_os_udp *udp, uint32_t address, uint16_t *port)
{
	struct inc_udp_socket s = {.fd = -1};
	const struct inc_addr at = inc_addr_of_ipv4(htonl(address));
	struct inc_err err = {""};

	if (udp->open(&at, *port, BUFFER_BYTES, &s, &err))
		fail_msg("%s", err.msg);
	*port = s.port;
	return s.fd;
}

/* The room of a peer that was closed, for the next one. The address sanitizer maps and unmaps half
 * a megabyte for each new one, which cost most of the time of tests that open thousands of peers.
 */
static _Thread_local uint8_t *spare_room;

uint16_t rc_peer_open(struct rc_peer *p)
{
	return rc_peer_open_at(p, RC_PEER_ADDR);
}

uint16_t rc_peer_open_at(struct rc_peer *p, uint32_t address)
{
	uint16_t port = 0;

	memset(p, 0, sizeof(*p));
	p->udp = inc_os.udp;
	p->fd = open_at(&p->udp, address, &port);
	p->room = spare_room ?: malloc(INC_UDP_RECVS * INC_UDP_RECV_BYTES);
	spare_room = NULL;
	assert_non_null(p->room);
	p->from_channel.saddr = p->from_channel.daddr = inc_addr_of_ipv4(htonl(address));
	p->from_channel.dport = port;
	return port;
}

void rc_peer_connect(struct rc_peer *p, uint16_t udp_port, uint32_t qpn, uint32_t channel_psn,
		     uint32_t own_psn)
{
	p->from_channel.sport = udp_port;
	p->from_channel.df = true;
	p->to_channel = p->from_channel;
	p->to_channel.sport = p->from_channel.dport;
	p->to_channel.dport = udp_port;
	p->channel_qpn = qpn;
	p->channel_psn = channel_psn;
	p->own_psn = own_psn;
}

void rc_peer_channel_at(struct rc_peer *p, uint32_t address)
{
	p->from_channel.saddr = p->to_channel.daddr = inc_addr_of_ipv4(htonl(address));
}

void rc_peer_close(struct rc_peer *p)
{
	p->udp.close(p->fd);
	if (spare_room)
		free(p->room);
	else
		spare_room = p->room;
	p->fd = -1;
	p->room = NULL;
}

/* ---- receiving ---- */

static bool receive_datagrams(struct rc_peer *p, int timeout_ms)
{
	struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
	int n = p->udp.receive(p->fd, p->room, p->datagram);

	if (n <= 0 && timeout_ms && poll(&pfd, 1, timeout_ms) > 0)
		n = p->udp.receive(p->fd, p->room, p->datagram);
	p->n = n > 0 ? n : 0;
	p->next = p->at = 0;
	return n > 0;
}

bool rc_peer_receive(struct rc_peer *p, struct inc_roce_packet *pkt, int timeout_ms)
{
	static const uint8_t no_bytes[INC_CNP_LEN];
	const struct inc_datagram *d = &p->datagram[p->next];
	const uint8_t *bytes;
	uint32_t icrc;
	size_t size;

	if (p->next == p->n) {
		if (!receive_datagrams(p, timeout_ms))
			return false;
		d = p->datagram;
	}
	bytes = d->data + p->at;
	size = d->size - p->at < d->step ? d->size - p->at : d->step;
	assert_true(size >= INC_BTH_LEN + INC_ICRC_LEN);
	assert_true(inc_addr_same(inc_addr_of_sockaddr(&d->from.any), p->from_channel.saddr));
	memcpy(&icrc, bytes + size - INC_ICRC_LEN, sizeof(icrc));
	/* the IP IDs of the packets of a send begin at 0 */
	assert_int_equal(le32toh(icrc), inc_icrc_udp(&p->from_channel, p->at / d->step, bytes,
						     size - INC_ICRC_LEN));
	assert_int_equal(inc_roce_parse(bytes, size, pkt), 0);
	assert_int_equal(pkt->qpn, RC_PEER_QPN);
	assert_int_equal(pkt->pkey, INC_PKEY_DEFAULT);
	if (pkt->opcode == INC_OP_CNP) {
		assert_int_equal(bytes[INC_BTH_MASKED_AT], INC_BTH_BECN);
		assert_int_equal(pkt->psn, 0);
		assert_memory_equal(bytes + INC_BTH_LEN, no_bytes, INC_CNP_LEN);
	}
	p->from_tos = d->tos;
	p->together = (d->size + d->step - 1) / d->step;
	p->at += size;
	if (p->at == d->size) {
		p->next++;
		p->at = 0;
	}
	return true;
}

/* ---- sending ---- */

static uint8_t *put_head(const struct rc_peer *p, uint8_t *at, const struct rc_packet *packet)
{
	inc_put_bth(at, packet->opcode,
		    inc_pad(packet->len) << INC_BTH_PAD_SHIFT | (packet->se ? INC_BTH_SE : 0),
		    INC_PKEY_DEFAULT ^ packet->flip_pkey, p->channel_qpn ^ packet->flip_qpn,
		    (packet->psn & INC_PSN_MASK) | (packet->ackreq ? INC_BTH_ACKREQ : 0));
	if (p->becn || packet->opcode == INC_OP_CNP)
		inc_put_becn(at);
	at += INC_BTH_LEN;
	if (packet->opcode == INC_OP_CNP) {
		memset(at, 0, INC_CNP_LEN);
		at += INC_CNP_LEN;
	}
	if (inc_roce_has_reth(packet->opcode)) {
		inc_put_reth(at, htobe64(packet->va), htonl(packet->rkey), htonl(packet->dmalen));
		at += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(packet->opcode) || packet->opcode == INC_OP_ACK) {
		inc_put_imm(at, packet->imm);
		at += INC_IMM_LEN;
	}
	return at;
}

bool rc_peer_append(struct rc_peer *p, const struct rc_packet *packet)
{
	uint8_t *begin = p->out + p->out_bytes, *at;
	const size_t pad = inc_pad(packet->len);
	size_t size;

	if (p->out_bytes + INC_MAX_HEAD_LEN + packet->len + pad + INC_ICRC_LEN > sizeof(p->out) ||
	    (p->out_packets && p->out_bytes % p->out_step))
		return false;
	at = put_head(p, begin, packet);
	if (packet->len)
		memcpy(at, packet->payload, packet->len);
	memset(at + packet->len, 0, pad);
	at += packet->len + pad;
	inc_put_icrc(at, inc_icrc_udp(&p->to_channel, p->out_packets ^ packet->flip_ip_id, begin,
				      at - begin) ^
				 packet->flip_icrc);
	size = at - begin + INC_ICRC_LEN - packet->cut;
	if (!p->out_packets)
		p->out_step = size;
	else if (size > p->out_step)
		return false;
	p->out_bytes += size;
	p->out_packets++;
	return true;
}

static void transmit(const struct rc_peer *p, int fd, const void *bytes, size_t size, size_t step)
{
	union inc_sockaddr to;
	const struct iovec iov = {(void *)bytes, size};
	const struct inc_udp_send send = {.to = &to,
					  .iov = &iov,
					  .iovs = 1,
					  .segment_bytes = step < size ? step : 0,
					  .tos = p->tos};

	inc_addr_to_sockaddr(p->to_channel.daddr, p->to_channel.dport, &to);
	assert_int_equal(p->udp.send(fd, &send, 1), 1);
}

static void transmit_from(struct rc_peer *p, int fd)
{
	if (p->out_packets)
		transmit(p, fd, p->out, p->out_bytes, p->out_step);
	p->out_bytes = p->out_packets = 0;
}

void rc_peer_transmit(struct rc_peer *p)
{
	transmit_from(p, p->fd);
}

void rc_peer_send(struct rc_peer *p, const struct rc_packet *packet)
{
	assert_true(rc_peer_append(p, packet));
	rc_peer_transmit(p);
}

void rc_peer_send_from(struct rc_peer *p, uint32_t address, uint16_t port,
		       const struct rc_packet *packet)
{
	const int fd = open_at(&p->udp, address, &port);

	assert_true(rc_peer_append(p, packet));
	transmit_from(p, fd);
	p->udp.close(fd);
}

void rc_peer_send_bytes(struct rc_peer *p, const void *bytes, size_t size)
{
	transmit(p, p->fd, bytes, size, size);
}

void rc_peer_ack(struct rc_peer *p, uint8_t syndrome, uint32_t psn)
{
	rc_peer_send(p, &(struct rc_packet){
				.opcode = INC_OP_ACK, .psn = psn, .imm = (uint32_t)syndrome << 24});
}

void rc_peer_mirror(struct rc_peer *p, const struct inc_roce_packet *of, uint64_t r,
		    const void *payload)
{
	rc_peer_send(p, &(struct rc_packet){
				.opcode = of->opcode,
				.psn = p->own_psn + r,
				.ackreq = of->ackreq,
				.va = of->va,
				.rkey = of->rkey,
				.dmalen = of->dmalen,
				.imm = of->imm,
				.payload = payload,
				.len = of->len,
			});
}
