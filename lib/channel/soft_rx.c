/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Soft channels receive packets here. A packet belongs to the channel whose queue pair it names.
 * The packet must come from the channel's peer, at the right port, with a valid ICRC. All other
 * packets are counted and dropped. Messages of posted channels are assembled in the order of their
 * packets. A packet behind the expected one is acknowledged again, and packets ahead of it draw one
 * NAK.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include "lib/proto/maps.h"
#include "lib/channel/soft_priv.h"

static void send_nak(struct soft_channel *ch, uint8_t syndrome)
{
	inc_soft_send_aeth(ch, syndrome, ch->peer_psn + (uint32_t)ch->rx_next);
	/* the NAK names packet rx_next, so it acknowledges all packets before that one */
	ch->rx_acked = ch->rx_next;
	ch->ack_now = false;
	ch->ack_at_ns = UINT64_MAX;
}

static void refuse(struct soft_channel *ch, const struct inc_roce_packet *pkt, const char *why)
{
	send_nak(ch, INC_AETH_NAK_INVALID);
	inc_soft_lose(ch, INC_CHANNEL_INVALID, EPROTO, "packet %llu of opcode %u and %zu bytes: %s",
		      (unsigned long long)ch->rx_next, pkt->opcode, pkt->len, why);
}

/* Returns the fault of a packet that has the expected PSN; NULL: the packet has no fault. */
static const char *fault(const struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	bool begins = inc_op_in(pkt->opcode, INC_OPS_BEGIN);
	bool ends = inc_op_in(pkt->opcode, INC_OPS_END);

	if (!inc_op_in(pkt->opcode, INC_OPS_SEND))
		return "a switch that terminates connections has no memory to write to";
	if (begins == !!ch->filling)
		return begins ? "begins a message within another one" : "belongs to no message";
	if (ends ? pkt->len > ch->payload || (!begins && !pkt->len) : pkt->len != ch->payload)
		return "a wrong length";
	if (ch->filled + pkt->len > ch->max_message_bytes)
		return "the message is too long";
	if (ends && ch->peer_se != INC_CHANNEL_SE_ANY &&
	    pkt->se != (ch->peer_se == INC_CHANNEL_SE_HAS))
		return "its numbers are in the other byte order";
	return NULL;
}

static void deliver(struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	struct inc_channel_message m = {
		.has_imm = inc_roce_has_imm(pkt->opcode),
		.imm = pkt->imm,
		.length = ch->filled,
		.buffer = ch->filling,
	};

	ch->rx_msn++;
	ch->filled = 0;
	ch->filling = NULL;
	ch->owes |= ch->asked;
	ch->asked = false;
	soft_device_of(ch)->handler->message(ch->ctx, &m);
}

/* Returns where a packet's payload may be stored before its ICRC is checked: its place in the
 * arriving message, if it is the expected packet. NULL: nowhere. */
static uint8_t *place_data(const struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	if (inc_psn_diff(pkt->psn, ch->peer_psn + (uint32_t)ch->rx_next) || fault(ch, pkt))
		return NULL;
	if (ch->filling)
		return ch->filling + ch->filled;
	return ch->n_posted ? ch->buffers[ch->n_posted - 1] : NULL;
}

static void take_data(struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	int32_t ahead = inc_psn_diff(pkt->psn, ch->peer_psn + (uint32_t)ch->rx_next);
	const char *why;

	ch->rx_packets++;
	soft_activate(ch);
	if (ahead < 0) {
		ch->duplicates++;
		ch->ack_now = true;
		return;
	}
	if (ahead > 0) {
		if (!ch->nak_sent)
			send_nak(ch, INC_AETH_NAK_SEQ);
		ch->nak_sent = true;
		return;
	}
	why = fault(ch, pkt);
	if (why) {
		refuse(ch, pkt, why);
		return;
	}
	if (!ch->filling && !ch->n_posted) {
		send_nak(ch, INC_AETH_RNR | INC_CHANNEL_RNR_TIMER);
		ch->nak_sent = true;
		return;
	}
	ch->nak_sent = false;
	if (!ch->filling)
		ch->filling = ch->buffers[--ch->n_posted];
	if (pkt->len && pkt->payload != ch->filling + ch->filled)
		memcpy(ch->filling + ch->filled, pkt->payload, pkt->len);
	ch->filled += pkt->len;
	ch->asked |= pkt->ackreq;
	/* a peer that has used up its congestion window goes on only after the ACK */
	ch->ack_now |= pkt->ackreq && ch->rx_tos & INC_ECN_MASK;
	ch->rx_next++;
	if (inc_op_in(pkt->opcode, INC_OPS_END))
		deliver(ch, pkt);
}

/* Processes a NAK that ends the connection. r: the packet that the NAK names. */
static void take_nak(struct soft_channel *ch, uint8_t syndrome, uint64_t r)
{
	const unsigned long long packet = r;

	switch (syndrome) {
	case INC_AETH_NAK_INVALID:
		inc_soft_lose(ch, INC_CHANNEL_REFUSED, EREMOTEIO,
			      "refused packet %llu: invalid request (NAK 61)", packet);
		return;
	case INC_AETH_NAK_ACCESS:
		inc_soft_lose(ch, INC_CHANNEL_REFUSED, EREMOTEIO,
			      "refused packet %llu: remote access (NAK 62)", packet);
		return;
	}
	inc_soft_lose(ch, INC_CHANNEL_ENDED, EREMOTEIO,
		      "chunk %llu: the communicator has failed, or its ranks called different "
		      "collectives (NAK 63)",
		      packet);
}

static void take_aeth(struct soft_channel *ch, const struct inc_roce_packet *pkt, uint64_t now_ns)
{
	uint64_t r;

	soft_activate(ch);
	/* a NAK 63 of a switch ends the channel whatever packet the NAK names, so the report's text
	 * names no packet */
	if (ch->to_switch && pkt->syndrome == INC_AETH_NAK_OPERATION) {
		inc_soft_lose(ch, INC_CHANNEL_ENDED, EREMOTEIO,
			      "remote operational error (NAK 63)");
		return;
	}
	switch (inc_requester_hear(&ch->tx, pkt, now_ns, &r)) {
	case INC_HEARD:
		inc_soft_sent(ch);
		if (pkt->ackreq && pkt->syndrome == INC_AETH_ACK)
			inc_soft_mirror_status(ch, pkt->msn, now_ns);
		return;
	case INC_HEARD_ODD:
		soft_device_of(ch)->damaged++;
		return;
	case INC_HEARD_NAK:
		take_nak(ch, pkt->syndrome, r);
	}
}

/* Answers a packet to an ended channel with a closing NAK, but limits how often, because the peer
 * may go on sending. The NAK names the packet itself if it is a duplicate, because an RDMA device
 * accepts a NAK only for a packet that it awaits an answer to. */
static void take_late(struct soft_channel *ch, const struct inc_roce_packet *pkt, uint64_t now_ns)
{
	const uint32_t next = ch->peer_psn + (uint32_t)ch->rx_next;

	if (pkt->opcode != INC_OP_ACK && pkt->opcode != INC_OP_CNP &&
	    now_ns - ch->closing_sent_at_ns >= SOFT_CLOSING_PACE_NS)
		inc_soft_closing_nak(ch, inc_psn_diff(pkt->psn, next) < 0 ? pkt->psn : next,
				     now_ns);
}

/* Whether datagram d comes from the channel's peer. An RDMA device has a source port for each flow,
 * so its port is not compared. The device's socket receives one family, which both addresses of its
 * channels have (inc_soft_place()). */
static bool from_peer(const struct soft_channel *ch, const struct inc_datagram *d)
{
	const struct inc_addr *peer = &ch->from_peer.saddr;
	const union inc_sockaddr *from = &d->from;

	return ch->life != SOFT_MADE &&
	       (from->any.sa_family == AF_INET
			? from->ipv4.sin_addr.s_addr == peer->word[3]
			: !memcmp(&from->ipv6.sin6_addr, peer, sizeof(*peer))) &&
	       (ch->ids.any || ch->from_peer.sport == inc_sockaddr_port(&d->from));
}

/* Whether datagram d arrived at the channel's port. At other ports, anyone can forge the peer's
 * address. The first such packet is logged, because the host may be connected to another port than
 * configured. */
static bool by_port(struct soft_channel *ch, const struct inc_datagram *d, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	char name[IF_NAMESIZE];

	if (!ch->port || inc_channel_ingress_ok(&ch->port->ingress, d->ifindex, now_ns))
		return true;
	dev->wrong_port++;
	if (!ch->port_logged)
		dev->log(dev->log_ctx, INC_LOG_WARN,
			 "%s: a packet that names its address arrived at %s instead of %s and was "
			 "dropped (term_wrong_port counts them)",
			 ch->what, if_indextoname(d->ifindex, name) ?: "an unknown interface",
			 ch->port->ingress.ifname);
	ch->port_logged = true;
	return false;
}

/* Whether the ICRC of a packet is right. A long payload is copied to its place meanwhile, where
 * pkt->payload points from then on. Nothing counts before the ICRC is known to be right. */
static bool check_icrc(struct soft_channel *ch, bool first, const uint8_t *data, size_t n,
		       struct inc_roce_packet *pkt)
{
	struct inc_payload_copy copy = {.at = pkt->payload - data, .len = pkt->len};

	if (ch->life == SOFT_CONNECTED && pkt->len >= SOFT_COPY_LEAST)
		copy.to = ch->mirror ? inc_soft_mirror_place(ch, pkt) : place_data(ch, pkt);
	if (copy.to)
		pkt->payload = copy.to;
	return inc_ip_ids_check(&ch->ids, &ch->from_peer, first, data, n, &copy);
}

/* Reports the class of the peer's packets if it has changed. */
static void see_class(struct soft_channel *ch, uint8_t tos)
{
	if (ch->rx_tos == tos || ch->life != SOFT_CONNECTED)
		return;
	ch->rx_tos = tos;
	if (ch->class_seen)
		ch->class_seen(ch->ctx, tos);
}

static void take_packet(struct soft_device *dev, const struct inc_datagram *d, size_t at, size_t n,
			uint64_t now_ns)
{
	const uint8_t *data = d->data + at;
	struct inc_roce_packet pkt;
	struct soft_channel *ch;

	if (inc_roce_parse(data, n, &pkt)) {
		dev->damaged++;
		return;
	}
	ch = inc_soft_find(dev, pkt.qpn, inc_addr_given(dev->own_ip) ? dev->own_ip : d->to);
	if (!ch || pkt.pkey != ch->tx.to.pkey || !from_peer(ch, d)) {
		dev->strangers++;
		return;
	}
	if (!by_port(ch, d, now_ns))
		return;
	ch->from_peer.sport = inc_sockaddr_port(&d->from);
	if (!check_icrc(ch, at == 0, data, n, &pkt)) {
		dev->damaged++;
		return;
	}
	see_class(ch, d->tos);
	if (ch->life == SOFT_CONNECTED && (pkt.becn || pkt.opcode == INC_OP_CNP))
		inc_requester_congested(&ch->tx);
	if (ch->life == SOFT_CONNECTED && pkt.opcode == INC_OP_CNP)
		return;
	if (ch->life == SOFT_CONNECTED && pkt.opcode != INC_OP_ACK &&
	    (d->tos & INC_ECN_MASK) == INC_ECN_CE)
		inc_soft_congested(ch, now_ns);
	if (ch->life == SOFT_ENDED)
		take_late(ch, &pkt, now_ns);
	else if (ch->life == SOFT_CONNECTED && pkt.opcode == INC_OP_ACK)
		take_aeth(ch, &pkt, now_ns);
	else if (ch->life == SOFT_CONNECTED && ch->mirror)
		inc_soft_mirror_receive(ch, &pkt, now_ns);
	else if (ch->life == SOFT_CONNECTED)
		take_data(ch, &pkt);
}

/* Sends the ACKs that mirrored channels owe. This happens before the channels' owner posts more
 * messages, because an ACK that is due must not wait for that. */
static void answer_mirrored(struct soft_device *dev, uint64_t now_ns)
{
	struct soft_channel *ch;

	TAILQ_FOREACH (ch, &dev->channels, in_all)
		if (ch->mirror && ch->life == SOFT_CONNECTED) {
			inc_soft_mirror_answer(ch, now_ns);
			soft_due(dev, soft_deadline_of(ch));
		}
}

bool inc_soft_receive(struct soft_device *dev)
{
	unsigned int i, n = inc_udp_receive(&dev->udp, &dev->inbox->in);
	/* read the time after the call, in which the process may have lost its CPU for longer than
	 * a timeout */
	const uint64_t now_ns = inc_now_ns();
	const struct inc_datagram *g;
	size_t at;

	for (i = 0; i < n; i++) {
		g = &dev->inbox->in.datagram[i];
		dev->strangers += !g->size;
		for (at = 0; at < g->size; at += g->step)
			take_packet(dev, g, at, g->size - at < g->step ? g->size - at : g->step,
				    now_ns);
	}
	return n == INC_UDP_RECVS;
}

bool inc_soft_progress(struct inc_channel_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	uint64_t now_ns;
	bool more;

	dev->in_progress = true;
	more = inc_soft_receive(dev);
	now_ns = inc_now_ns();
	if (dev->n_mirrored)
		answer_mirrored(dev, now_ns);
	inc_soft_timers(dev, now_ns);
	dev->in_progress = false;
	inc_soft_free_gone(dev);
	return more;
}
