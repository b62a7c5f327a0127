/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <endian.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "selftests/hostlib/peer.h"

static void no_log(void *ctx, const char *fmt, ...)
{
}

int peer_socket(uint32_t address, uint16_t port)
{
	struct sockaddr_in at = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

uint16_t peer_listen(struct peer *p)
{
	struct sockaddr_in own;
	socklen_t len = sizeof(own);
	int df = IP_PMTUDISC_DO;

	memset(p, 0, sizeof(*p));
	p->fd = peer_socket(PEER_ADDR, 0);
	assert_int_equal(getsockname(p->fd, (struct sockaddr *)&own, &len), 0);
	assert_int_equal(setsockopt(p->fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)), 0);
	p->host = own;
	p->from_host.dport = ntohs(own.sin_port);
	return p->from_host.dport;
}

void peer_meet(struct peer *p, uint16_t udp_port, uint32_t qpn, uint32_t host_psn, uint32_t own_psn)
{
	p->from_host.saddr = p->from_host.daddr = htonl(PEER_ADDR);
	p->from_host.sport = udp_port;
	p->from_host.df = true;
	p->to_host = p->from_host;
	p->to_host.sport = p->from_host.dport;
	p->to_host.dport = udp_port;
	p->host.sin_port = htons(udp_port);
	p->host_qpn = qpn;
	p->host_psn = host_psn;
	p->own_psn = own_psn;
}

static struct inccl_endpoint *pair(struct peer *p, const struct peer_form *form, uint32_t host_psn,
				   uint32_t own_psn)
{
	struct inccl_open_opts open = {
		.addr = htonl(PEER_ADDR),
		.payload = form->payload,
		.message_packets = form->message_packets,
		.window_messages = form->messages ?: form->slots,
		.start_psn = host_psn,
		.log = no_log,
	};
	struct inc_channel_peer remote = {
		.end.ip = htonl(PEER_ADDR),
		.end.qpn = PEER_QPN,
		.end.psn = own_psn,
		.payload = form->payload,
		.packets = form->slots,
		.by_message = form->messages,
		.messages = form->messages,
		.name = "peer",
	};
	struct inccl_endpoint *ep;
	struct inccl_own local;
	struct inc_err err = {""};

	remote.end.udp_port = peer_listen(p);
	if (inccl_endpoint_open(&peer_soft, &open, &ep, &local, &err))
		fail_msg("open: %s", err.msg);
	assert_int_equal(local.payload, form->payload);
	assert_int_equal(local.end.psn, host_psn);
	peer_meet(p, local.end.udp_port, local.end.qpn, host_psn, own_psn);
	if (inccl_endpoint_connect(ep, &remote, &err))
		fail_msg("connect: %s", err.msg);
	return ep;
}

struct inccl_endpoint *peer_pair(struct peer *p, unsigned int payload, unsigned int slots,
				 uint32_t host_psn, uint32_t own_psn)
{
	return pair(p,
		    &(struct peer_form){.payload = payload, .slots = slots, .message_packets = 1},
		    host_psn, own_psn);
}

struct inccl_endpoint *peer_pair_by_message(struct peer *p, const struct peer_form *form)
{
	return pair(p, form, 0, 0);
}

void peer_close(struct peer *p, struct inccl_endpoint *ep)
{
	inccl_endpoint_close(ep);
	close(p->fd);
}

static void read_packet(struct peer *p, const uint8_t *data, size_t n, struct inc_roce_packet *pkt)
{
	uint32_t crc;

	assert_true(n >= INC_BTH_LEN + INC_ICRC_LEN);
	memcpy(&crc, data + n - INC_ICRC_LEN, sizeof(crc));
	crc = le32toh(crc);
	/* the kernel numbers the packets of each send call from IP ID 0 */
	if (crc != inc_icrc_udp(&p->from_host, p->next_id, data, n - INC_ICRC_LEN)) {
		p->next_id = 0;
		assert_int_equal(crc, inc_icrc_udp(&p->from_host, 0, data, n - INC_ICRC_LEN));
	}
	p->next_id++;
	assert_int_equal(inc_roce_parse(data, n, pkt), 0);
	assert_int_equal(pkt->qpn, PEER_QPN);
	assert_int_equal(pkt->pkey, INC_PKEY_DEFAULT);
}

bool peer_hear(struct peer *p, struct inc_roce_packet *pkt, int timeout_ms)
{
	struct pollfd pfd = {.fd = p->fd, .events = POLLIN};
	ssize_t n;

	if (poll(&pfd, 1, timeout_ms) <= 0)
		return false;
	n = recv(p->fd, p->buf, sizeof(p->buf), 0);
	assert_true(n > 0);
	read_packet(p, p->buf, n, pkt);
	return true;
}

void peer_hear_together(struct peer *p)
{
	int one = 1;

	assert_int_equal(setsockopt(p->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)), 0);
}

static bool receive_together(struct peer *p)
{
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct iovec iov = {p->buf, sizeof(p->buf)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(p->fd, &msg, 0);
	struct cmsghdr *cmsg;
	int size = 0;

	if (n < 0)
		return false;
	for (cmsg = CMSG_FIRSTHDR(&msg); cmsg; cmsg = CMSG_NXTHDR(&msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_GRO)
			memcpy(&size, CMSG_DATA(cmsg), sizeof(size));
	p->at = 0;
	p->left = n;
	p->step = size ? size : n;
	p->together = (p->left + p->step - 1) / p->step;
	return true;
}

bool peer_next(struct peer *p, struct inc_roce_packet *pkt, unsigned int *together)
{
	size_t n;

	if (!p->left && !receive_together(p))
		return false;
	n = p->left < p->step ? p->left : p->step;
	read_packet(p, p->buf + p->at, n, pkt);
	p->at += n;
	p->left -= n;
	*together = p->together;
	return true;
}

void peer_say(struct peer *p, const struct say *say)
{
	uint8_t out[4096] = {0}, *at = out + INC_BTH_LEN;
	struct inc_bth bth = {
		.opcode = say->opcode,
		.se_m_pad_tver = (-say->len & 3) << INC_BTH_PAD_SHIFT | (say->se ? INC_BTH_SE : 0),
		.pkey = htons(say->pkey ?: INC_PKEY_DEFAULT),
		.ecn_qpn = htonl(say->qpn ?: p->host_qpn),
		.ackreq_psn = htonl((say->psn & INC_PSN_MASK) | (say->ackreq ? INC_BTH_ACKREQ : 0)),
	};
	uint32_t word;

	memcpy(out, &bth, sizeof(bth));
	if (inc_roce_has_reth(say->opcode)) {
		struct inc_reth reth = {htobe64(say->va), htonl(say->rkey), htonl(say->dmalen)};

		memcpy(at, &reth, sizeof(reth));
		at += sizeof(reth);
	}
	if (inc_roce_has_imm(say->opcode) || say->opcode == INC_OP_ACK) {
		word = htonl(say->imm);
		memcpy(at, &word, sizeof(word));
		at += sizeof(word);
	}
	if (say->len)
		memcpy(at, say->payload, say->len);
	at += (say->len + 3) & ~3u;
	word = htole32(inc_icrc_udp(&p->to_host, 0, out, at - out) ^ say->bad_icrc);
	memcpy(at, &word, sizeof(word));
	at += sizeof(word);
	assert_true(sendto(p->fd, out, at - out - say->cut, 0, (struct sockaddr *)&p->host,
			   sizeof(p->host)) > 0);
}

void peer_ack(struct peer *p, uint8_t syndrome, uint32_t psn)
{
	peer_say(p,
		 &(struct say){.opcode = INC_OP_ACK, .psn = psn, .imm = (uint32_t)syndrome << 24});
}

void peer_mirror(struct peer *p, const struct inc_roce_packet *of, uint64_t r, const void *payload)
{
	peer_say(p, &(struct say){
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
