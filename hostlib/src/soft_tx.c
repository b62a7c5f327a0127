/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The soft transport's requester: packets go out in UDP_SEGMENT sends, many to a system
 * call. Payloads are never copied here: a send is a gather list of headers and ICRCs
 * (made in the batch) and pieces of the caller's buffer.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include "lib/base/clock.h"
#include "hostlib/src/soft.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define MASKED_LEN (INC_IP_LEN + INC_UDP_LEN)
/* Pad and ICRC of one segment and the headers of the next. */
#define JOINT_MAX (3 + INC_ICRC_LEN + SOFT_MAX_HEAD)

/*
 * One send under construction, which the kernel cuts into packets of `size` bytes each
 * (UDP_SEGMENT) and numbers by their IP IDs from 0 on. It is a gather list: pieces of `bytes`,
 * which hold headers and ICRCs, alternate with payloads, which stay in the caller's buffer.
 */
struct tx_send {
	struct iovec iov[2 * SOFT_MAX_SEGMENTS + 1];
	uint8_t bytes[(SOFT_MAX_SEGMENTS + 1) * JOINT_MAX];
	char control[CMSG_SPACE(sizeof(uint16_t))] __attribute__((aligned(8)));
	unsigned int iovs, segments;
	size_t used;  /* of bytes[] */
	size_t joint; /* in bytes[], where the piece begins that is not in iov[] yet */
	size_t size;  /* of the first packet, from BTH to ICRC */
	size_t total; /* of all packets */
	bool closed;  /* the last packet is shorter than the first: the kernel allows none after it
		       */
};

struct tx_batch {
	struct tx_send send[SOFT_SENDS];
	struct mmsghdr msg[SOFT_SENDS];
	unsigned int sends;
};

/* ICRC of a packet in two pieces: head (BTH and extended headers), payload with pad. */
static uint32_t icrc(const struct soft_endpoint *s, uint16_t id, const uint8_t *head,
		     size_t head_len, const uint8_t *payload, size_t len, size_t pad)
{
	static const uint8_t zeros[4];
	uint8_t h[MASKED_LEN + SOFT_MAX_HEAD];
	uint32_t state;

	inc_put_ip_udp(h, &s->to_peer, id, MASKED_LEN + head_len + len + pad + INC_ICRC_LEN);
	memcpy(h + MASKED_LEN, head, head_len);
	inc_icrc_mask(h);
	state = inc_crc32_update(INC_ICRC_SEED, h, MASKED_LEN + head_len);
	if (len)
		state = inc_crc32_update(state, payload, len);
	if (pad)
		state = inc_crc32_update(state, zeros, pad);
	return ~state;
}

static size_t put_head(const struct soft_endpoint *s, uint8_t *out, const struct soft_packet *p,
		       uint64_t r, bool ackreq)
{
	uint32_t psn = (s->own_psn + r) & INC_PSN_MASK;
	unsigned int pad = inc_pad(p->send_len);
	uint8_t *at = out;

	inc_put_bth(at, p->opcode, pad << INC_BTH_PAD_SHIFT, s->pkey, s->peer_qpn,
		    psn | (ackreq ? INC_BTH_ACKREQ : 0));
	at += INC_BTH_LEN;
	if (inc_roce_has_reth(p->opcode)) {
		/* a packet alone says its own length, its result may have another */
		inc_put_reth(at, htobe64(p->va), htonl(p->rkey),
			     htonl(inc_op_in(p->opcode, INC_OPS_ONLY) ? p->send_len : p->dmalen));
		at += INC_RETH_LEN;
	}
	if (inc_roce_has_imm(p->opcode)) {
		inc_put_imm(at, p->imm);
		at += INC_IMM_LEN;
	}
	return at - out;
}

static void push(struct tx_send *t, const void *base, size_t len)
{
	t->iov[t->iovs].iov_base = (void *)base;
	t->iov[t->iovs].iov_len = len;
	t->iovs++;
}

static size_t wire_size(const struct soft_packet *p)
{
	return INC_BTH_LEN + inc_roce_ext_len(p->opcode) + p->send_len + inc_pad(p->send_len) +
	       INC_ICRC_LEN;
}

/* Appends packet r; false: it belongs into another send. */
static bool append(const struct soft_endpoint *s, struct tx_send *t, uint64_t r, bool ackreq)
{
	const struct soft_packet *p = soft_packet(s, r);
	size_t size = wire_size(p), pad = inc_pad(p->send_len), head_len;
	uint8_t *head;
	uint32_t crc;

	if (t->segments) {
		if (t->closed || !s->segment || s->together_at_ns || size > t->size ||
		    t->segments == SOFT_MAX_SEGMENTS || t->total + size > SOFT_MAX_SEND_BYTES)
			return false;
		t->closed = size < t->size;
	} else {
		t->size = size;
	}
	head = t->bytes + t->used;
	head_len = put_head(s, head, p, r, ackreq);
	t->used += head_len;
	crc = icrc(s, t->segments, head, head_len, p->send, p->send_len, pad);
	if (p->send_len) {
		push(t, t->bytes + t->joint, t->used - t->joint);
		push(t, p->send, p->send_len);
		t->joint = t->used;
	}
	memset(t->bytes + t->used, 0, pad);
	inc_put_icrc(t->bytes + t->used + pad, crc);
	t->used += pad + INC_ICRC_LEN;
	t->segments++;
	t->total += size;
	return true;
}

static void begin(struct tx_send *t)
{
	t->iovs = t->segments = 0;
	t->used = t->joint = t->total = 0;
	t->closed = false;
}

static void end(const struct soft_endpoint *s, struct tx_send *t, struct mmsghdr *msg)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)t->control;
	uint16_t size = t->size;

	push(t, t->bytes + t->joint, t->used - t->joint);
	memset(msg, 0, sizeof(*msg));
	msg->msg_hdr.msg_name = (void *)&s->peer;
	msg->msg_hdr.msg_namelen = sizeof(s->peer);
	msg->msg_hdr.msg_iov = t->iov;
	msg->msg_hdr.msg_iovlen = t->iovs;
	if (t->segments == 1)
		return;
	cmsg->cmsg_level = IPPROTO_UDP;
	cmsg->cmsg_type = UDP_SEGMENT;
	cmsg->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(cmsg), &size, sizeof(size));
	msg->msg_hdr.msg_control = t->control;
	msg->msg_hdr.msg_controllen = sizeof(t->control);
}

static void build(const struct soft_endpoint *s, struct tx_batch *b, uint64_t limit)
{
	struct tx_send *t = b->send;
	uint64_t r;

	begin(t);
	for (r = s->tx_next; r < limit; r++) {
		struct soft_packet *p = soft_packet(s, r);
		bool ackreq = r + 1 == limit || r % SOFT_ACK_EVERY == SOFT_ACK_EVERY - 1 ||
			      p->flags & SOFT_F_FLUSH;

		if (ackreq)
			p->flags |= SOFT_F_ASKED;
		if (append(s, t, r, ackreq))
			continue;
		end(s, t, &b->msg[t - b->send]);
		if (++t == b->send + SOFT_SENDS)
			break;
		begin(t);
		append(s, t, r, ackreq);
	}
	if (t < b->send + SOFT_SENDS) {
		end(s, t, &b->msg[t - b->send]);
		t++;
	}
	b->sends = t - b->send;
}

static void sent(struct soft_endpoint *s, unsigned int packets, uint64_t now)
{
	uint64_t before = s->tx_next, fresh, r;

	for (r = before; r < before + packets; r++) {
		if (packets > 1)
			soft_packet(s, r)->flags |= SOFT_F_MANY;
		else
			soft_packet(s, r)->flags &= ~SOFT_F_MANY;
	}
	s->tx_next += packets;
	fresh = s->tx_next > s->tx_high ? s->tx_next - s->tx_high : 0;
	s->ep.stats.packets_sent += fresh;
	s->ep.stats.packets_resent += packets - fresh;
	if (s->tx_next > s->tx_high)
		s->tx_high = s->tx_next;
	if (s->rto_at_ns == UINT64_MAX)
		soft_restart_timer(s, now);
	/* the last one asks for an ACK */
	if (fresh == packets)
		inc_rto_measure(&s->rto, s->tx_next, now);
}

/* 0: go on, 1: not now, -errno. */
static int send_batch(struct soft_endpoint *s, struct tx_batch *b, uint64_t now)
{
	unsigned int i = 0;
	int n;

	while (i < b->sends) {
		s->ep.stats.send_calls++;
		n = sendmmsg(s->fd, b->msg + i, b->sends - i, MSG_DONTWAIT);
		if (n > 0) {
			for (; n; n--)
				sent(s, b->send[i++].segments, now);
			continue;
		}
		switch (errno) {
		case EINTR:
			continue;
		case EAGAIN:
			s->blocked = true;
			return 1;
		case EIO:
		case EINVAL:
			/* the device cannot make checksums, so not segments either */
			if (s->segment) {
				s->segment = false;
				return 0;
			}
			/* fall through */
		case EMSGSIZE:
		case EBADF:
			return soft_fail(s, errno, "send: %s", strerrordesc_np(errno));
		default:
			/* as if lost on the way; the timer decides */
			s->send_error = errno;
			sent(s, b->send[i++].segments, now);
		}
	}
	return 0;
}

static bool writable(const struct soft_endpoint *s)
{
	struct pollfd pfd = {.fd = s->fd, .events = POLLOUT};

	return poll(&pfd, 1, 0) > 0;
}

int soft_flush(struct inccl_endpoint *ep)
{
	struct soft_endpoint *s = SOFT_EP(ep);
	uint64_t limit = s->tx_posted, now;
	struct tx_batch batch;
	int ret;

	if (s->failed)
		return -s->failed;
	if (s->burst && limit > s->tx_acked + s->burst)
		limit = s->tx_acked + s->burst;
	if (s->tx_next >= limit || s->rnr_over_at_ns)
		return 0;
	/* Results that are still to come will open the window further: wait until a send
	 * is worth its system call, unless there is nothing to wait for. */
	if (s->tx_next > s->rx_done && s->tx_next >= s->tx_high && s->tx_next >= s->tx_flush &&
	    limit - s->tx_next < s->hold)
		return 0;
	if (s->blocked && !writable(s))
		return 0;
	s->blocked = false;
	now = inc_now_ns();
	if (now >= s->together_at_ns)
		s->together_at_ns = 0;
	while (s->tx_next < limit) {
		build(s, &batch, limit);
		ret = send_batch(s, &batch, now);
		if (ret)
			return ret < 0 ? ret : 0;
	}
	return 0;
}

int soft_send_aeth(struct soft_endpoint *s, uint8_t syndrome, uint32_t psn)
{
	uint8_t buf[INC_BTH_LEN + INC_AETH_LEN + INC_ICRC_LEN];

	inc_put_bth(buf, INC_OP_ACK, 0, s->pkey, s->peer_qpn, psn & INC_PSN_MASK);
	inc_put_aeth(buf + INC_BTH_LEN, syndrome, s->rx_msn);
	inc_put_icrc(buf + INC_BTH_LEN + INC_AETH_LEN,
		     icrc(s, 0, buf, INC_BTH_LEN + INC_AETH_LEN, NULL, 0, 0));
	s->ep.stats.send_calls++;
	if (sendto(s->fd, buf, sizeof(buf), MSG_DONTWAIT, (struct sockaddr *)&s->peer,
		   sizeof(s->peer)) < 0)
		s->send_error = errno; /* lost: the peer will ask again */
	if (syndrome == INC_AETH_ACK)
		s->ep.stats.acks_sent++;
	else
		s->ep.stats.naks_sent++;
	return 0;
}
