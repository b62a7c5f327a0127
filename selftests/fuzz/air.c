// SPDX-License-Identifier: BSD-2-Clause
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "lib/base/clock.h"
#include "lib/roce/parse.h"
#include "selftests/fuzz/air.h"

#define QUEUED     8 /* number of datagrams on the way to the endpoint */
#define ROOM       16384
#define REMEMBERED 64

struct datagram {
	size_t size, step;
	unsigned int packets;
	uint8_t bytes[ROOM];
};

static struct datagram queue[QUEUED];
static unsigned int first, n_queued, sent, data_packets;
static struct inc_roce_path to_peer, from_peer;
static struct air_packet memory[REMEMBERED];
static uint64_t passed_ns;

int __wrap_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *t);
int __wrap_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags);
ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
		      socklen_t len);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

void air_begin(const struct inc_roce_path *to, const struct inc_roce_path *back)
{
	to_peer = *to;
	from_peer = *back;
	first = n_queued = sent = data_packets = 0;
	passed_ns = 0;
}

void air_pass_ns(uint64_t ns)
{
	passed_ns += ns;
}

unsigned int air_sent(void)
{
	return sent;
}

const struct air_packet *air_data_packet(unsigned int back)
{
	if (back >= data_packets || back >= REMEMBERED)
		return NULL;
	return &memory[(data_packets - 1 - back) % REMEMBERED];
}

/* --- datagrams to the endpoint --- */

static struct datagram *last(void)
{
	return &queue[(first + n_queued) % QUEUED];
}

void air_send_begin(void)
{
	memset(last(), 0, offsetof(struct datagram, bytes));
}

static uint8_t *put_head(uint8_t *at, const struct air_packet *p)
{
	inc_put_bth(at, p->opcode, (p->se ? INC_BTH_SE : 0) | inc_pad(p->len) << INC_BTH_PAD_SHIFT,
		    p->pkey, p->qpn, (p->ackreq ? INC_BTH_ACKREQ : 0) | (p->psn & INC_PSN_MASK));
	at += INC_BTH_LEN;
	if (inc_roce_has_reth(p->opcode)) {
		inc_put_reth(at, htobe64(p->va), htobe32(p->rkey), htobe32(p->dmalen));
		at += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(p->opcode) || p->opcode == INC_OP_ACK) {
		inc_put_imm(at, p->imm);
		at += INC_IMM_LEN;
	}
	return at;
}

bool air_send(const struct air_packet *p)
{
	struct datagram *d = last();
	uint8_t *begin = d->bytes + d->size, *at;
	size_t wire;

	if (n_queued == QUEUED ||
	    d->size + INC_MAX_HEAD_LEN + p->len + 3 + INC_ICRC_LEN > sizeof(d->bytes) ||
	    (d->step && d->size % d->step))
		return false;
	at = put_head(begin, p);
	if (p->len)
		memcpy(at, p->payload, p->len);
	memset(at + p->len, 0, inc_pad(p->len));
	at += p->len + inc_pad(p->len);
	wire = at - begin + INC_ICRC_LEN;
	if (d->step && wire > d->step)
		return false;
	inc_put_icrc(at, inc_icrc_udp(&from_peer, d->packets, begin, at - begin) ^ p->icrc_error);
	d->step = d->step ?: wire;
	d->size += wire;
	d->packets++;
	return true;
}

void air_send_end(void)
{
	if (n_queued < QUEUED && last()->size)
		n_queued++;
}

void air_send_bytes(const uint8_t *data, size_t size)
{
	struct datagram *d = last();

	if (n_queued == QUEUED || size > sizeof(d->bytes))
		return;
	memcpy(d->bytes, data, size);
	d->size = d->step = size;
	n_queued++;
}

void air_send_ack(struct fuzz_bytes *bytes, uint32_t qpn, uint32_t start_psn)
{
	const uint32_t aeth = fuzz_take32(bytes);
	const struct air_packet p = {.opcode = INC_OP_ACK,
				     .psn = start_psn + (uint32_t)(int8_t)fuzz_take8(bytes),
				     .qpn = qpn,
				     .pkey = INC_PKEY_DEFAULT,
				     .imm = aeth};

	air_send_begin();
	air_send(&p);
	air_send_end();
}

void air_send_garbage(struct fuzz_bytes *bytes)
{
	size_t n = fuzz_take8(bytes);

	if (n > bytes->size)
		n = bytes->size;
	air_send_bytes(bytes->data, n);
	bytes->data += n;
	bytes->size -= n;
}

/* Writes the control messages that the kernel adds to a datagram. step: its segments' size, 0: it
 * is one packet. */
static void put_control(struct msghdr *msg, int step)
{
	const struct in_pktinfo info = {.ipi_ifindex = 1 /* number of the loopback interface */};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);

	cmsg->cmsg_level = IPPROTO_IP;
	cmsg->cmsg_type = IP_PKTINFO;
	cmsg->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(cmsg), &info, sizeof(info));
	if (step) {
		cmsg = CMSG_NXTHDR(msg, cmsg);
		cmsg->cmsg_level = IPPROTO_UDP;
		cmsg->cmsg_type = UDP_GRO;
		cmsg->cmsg_len = CMSG_LEN(sizeof(step));
		memcpy(CMSG_DATA(cmsg), &step, sizeof(step));
	}
	msg->msg_controllen = CMSG_SPACE(sizeof(info)) + (step ? CMSG_SPACE(sizeof(step)) : 0);
}

static void give(struct msghdr *msg, const struct datagram *d)
{
	struct sockaddr_in from = {.sin_family = AF_INET,
				   .sin_addr.s_addr = from_peer.saddr,
				   .sin_port = htons(from_peer.sport)};

	memcpy(msg->msg_iov->iov_base, d->bytes, d->size);
	memcpy(msg->msg_name, &from, sizeof(from));
	msg->msg_namelen = sizeof(from);
	msg->msg_flags = 0;
	put_control(msg, d->packets < 2 ? 0 : (int)d->step);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags, struct timespec *t)
{
	unsigned int i;

	for (i = 0; i < n && n_queued; i++) {
		give(&msg[i].msg_hdr, &queue[first]);
		msg[i].msg_len = queue[first].size;
		first = (first + 1) % QUEUED;
		n_queued--;
	}
	if (i)
		return (int)i;
	errno = EAGAIN;
	return -1;
}

/* --- datagrams from the endpoint --- */

static void remember(const struct inc_roce_packet *pkt)
{
	if (pkt->opcode == INC_OP_ACK)
		return;
	memory[data_packets++ % REMEMBERED] = (struct air_packet){
		.opcode = pkt->opcode,
		.pkey = pkt->pkey,
		.psn = pkt->psn,
		.imm = pkt->imm,
		.va = pkt->va,
		.rkey = pkt->rkey,
		.dmalen = pkt->dmalen,
		.len = pkt->len,
	};
}

static void check_packet(const uint8_t *data, size_t size, uint16_t id)
{
	struct inc_roce_packet pkt;
	uint32_t icrc;

	fuzz_require(!inc_roce_parse(data, size, &pkt), "%zu bytes that are no packet were sent",
		     size);
	memcpy(&icrc, data + size - INC_ICRC_LEN, sizeof(icrc));
	fuzz_require(le32toh(icrc) == inc_icrc_udp(&to_peer, id, data, size - INC_ICRC_LEN),
		     "opcode %u, PSN %u was sent with a wrong ICRC", pkt.opcode, pkt.psn);
	sent++;
	remember(&pkt);
}

static size_t segment_of(const struct msghdr *msg, size_t size)
{
	struct cmsghdr *cmsg;
	uint16_t step = 0;

	for (cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR((struct msghdr *)msg, cmsg))
		if (cmsg->cmsg_level == IPPROTO_UDP && cmsg->cmsg_type == UDP_SEGMENT)
			memcpy(&step, CMSG_DATA(cmsg), sizeof(step));
	return step ?: size;
}

static void check_message(const struct msghdr *msg)
{
	static uint8_t bytes[1 << 16];
	size_t size = 0, at, i, n, step;
	uint16_t id = 0;

	for (i = 0; i < msg->msg_iovlen; i++) {
		fuzz_require(size + msg->msg_iov[i].iov_len <= sizeof(bytes), "a send of %zu bytes",
			     size);
		memcpy(bytes + size, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		size += msg->msg_iov[i].iov_len;
	}
	step = segment_of(msg, size);
	for (at = 0; at < size; at += n) {
		n = size - at < step ? size - at : step;
		check_packet(bytes + at, n, id++);
	}
}

int __wrap_sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		check_message(&msg[i].msg_hdr);
	return (int)n;
}

ssize_t __wrap_sendto(int fd, const void *data, size_t size, int flags, const struct sockaddr *to,
		      socklen_t len)
{
	check_packet(data, size, 0);
	return (ssize_t)size;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	const uint64_t now_ns = 1000 * INC_NSEC_PER_SEC + passed_ns;

	t->tv_sec = (time_t)(now_ns / INC_NSEC_PER_SEC);
	t->tv_nsec = (long)(now_ns % INC_NSEC_PER_SEC);
	return 0;
}
