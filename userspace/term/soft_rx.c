/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Soft endpoints: what comes in. A packet is its channel's where it names its queue pair, comes
 * from its peer, by its port, and has the right ICRC; all others are counted and dropped. Messages
 * are put together in the order of their packets; what is behind is acknowledged again, what is
 * ahead draws one NAK.
 */
#include <arpa/inet.h>
#include <string.h>
#include "lib/base/log.h"
#include "lib/proto/maps.h"
#include "userspace/term/soft_priv.h"

static void send_nak(struct soft_channel *ch, uint8_t syndrome)
{
	struct soft_device *dev = soft_device_of(ch);
	uint8_t packet[INC_ACK_PACKET_LEN];

	inc_put_ack_packet(packet, &ch->tx.to, syndrome, ch->peer_psn + (uint32_t)ch->rx_next,
			   ch->rx_msn);
	inc_udp_send_one(&dev->udp, &ch->tx.to.addr, packet, sizeof(packet));
	if ((syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR)
		ch->rnrs_sent++;
	else
		ch->naks_sent++;
	/* it acknowledges what stands before it */
	ch->rx_told = ch->rx_next;
	ch->tell = false;
	ch->tell_at_ns = UINT64_MAX;
}

static void refuse(struct soft_channel *ch, const struct inc_roce_packet *pkt, const char *why)
{
	send_nak(ch, INC_AETH_NAK_INVALID);
	inc_soft_lose(ch, INC_TERM_INVALID, "packet %llu of opcode %u and %zu bytes: %s",
		      (unsigned long long)ch->rx_next, pkt->opcode, pkt->len, why);
}

/* What is wrong with the packet expected; NULL: nothing. */
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
	if (ends && ch->peer_se != INC_TERM_SE_ANY && pkt->se != (ch->peer_se == INC_TERM_SE_HAS))
		return "its numbers are in the other byte order";
	return NULL;
}

static void deliver(struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	struct inc_term_message m = {
		.has_desc = inc_roce_has_imm(pkt->opcode),
		.desc = pkt->imm,
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

static void take_data(struct soft_channel *ch, const struct inc_roce_packet *pkt)
{
	int32_t ahead = inc_psn_diff(pkt->psn, ch->peer_psn + (uint32_t)ch->rx_next);
	const char *why;

	ch->rx_packets++;
	soft_activate(ch);
	if (ahead < 0) {
		ch->duplicates++;
		ch->tell = true;
		return;
	}
	if (ahead > 0) {
		if (!ch->nak_told)
			send_nak(ch, INC_AETH_NAK_SEQ);
		ch->nak_told = true;
		return;
	}
	why = fault(ch, pkt);
	if (why) {
		refuse(ch, pkt, why);
		return;
	}
	if (!ch->filling && !ch->n_posted) {
		send_nak(ch, INC_AETH_RNR | INC_TERM_RNR_TIMER);
		ch->nak_told = true;
		return;
	}
	ch->nak_told = false;
	if (!ch->filling)
		ch->filling = ch->buffers[--ch->n_posted];
	if (pkt->len)
		memcpy(ch->filling + ch->filled, pkt->payload, pkt->len);
	ch->filled += pkt->len;
	ch->asked |= pkt->ackreq;
	ch->rx_next++;
	if (inc_op_in(pkt->opcode, INC_OPS_END))
		deliver(ch, pkt);
}

static void take_aeth(struct soft_channel *ch, const struct inc_roce_packet *pkt, uint64_t now_ns)
{
	uint64_t r;

	soft_activate(ch);
	if (ch->to_switch && pkt->syndrome == INC_AETH_NAK_OPERATION) {
		inc_soft_lose(ch, INC_TERM_ENDED_THERE, "NAK %x", pkt->syndrome);
		return;
	}
	switch (inc_requester_hear(&ch->tx, pkt, now_ns, &r)) {
	case INC_HEARD:
		inc_soft_sent(ch);
		return;
	case INC_HEARD_ODD:
		soft_device_of(ch)->damaged++;
		return;
	case INC_HEARD_NAK:
		inc_soft_lose(ch,
			      pkt->syndrome == INC_AETH_NAK_OPERATION ? INC_TERM_ENDED_THERE
								      : INC_TERM_REFUSED,
			      "packet %llu: NAK %x", (unsigned long long)r, pkt->syndrome);
	}
}

/* The peer goes on although it was told that the channel has ended: again, but no flood. A device
 * believes a NAK of a packet that it waits for an answer to. */
static void take_late(struct soft_channel *ch, const struct inc_roce_packet *pkt, uint64_t now_ns)
{
	const uint32_t next = ch->peer_psn + (uint32_t)ch->rx_next;

	if (pkt->opcode != INC_OP_ACK && now_ns - ch->told_at_ns >= SOFT_FAREWELL_PACE_NS)
		inc_soft_farewell(ch, inc_psn_diff(pkt->psn, next) < 0 ? pkt->psn : next, now_ns);
}

/* Whether d names the channel's peer as its sender. An RDMA device has a source port for each flow.
 */
static bool from_peer(const struct soft_channel *ch, const struct inc_datagram *d)
{
	const struct sockaddr_in *peer = &ch->tx.to.addr;

	return ch->life != SOFT_MADE && d->from.sin_addr.s_addr == peer->sin_addr.s_addr &&
	       (ch->ids.span || ch->from_peer.sport == ntohs(d->from.sin_port));
}

/* Whether d came in by the channel's port: behind other ports anybody can name its peer. One line
 * of the log says so, because a host whose port is another one than configured is not heard. */
static bool by_port(struct soft_channel *ch, const struct inc_datagram *d, uint64_t now_ns)
{
	struct soft_device *dev = soft_device_of(ch);
	char name[IF_NAMESIZE];

	if (inc_term_ingress_ok(&dev->ingress, d->ifindex, now_ns))
		return true;
	dev->wrong_port++;
	if (!ch->port_told)
		inc_warn("%s: a packet that names its address arrived at %s instead of %s and was "
			 "dropped (term_wrong_port counts them)",
			 ch->what, if_indextoname(d->ifindex, name) ?: "an unknown interface",
			 dev->ingress.ifname);
	ch->port_told = true;
	return false;
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
	ch = inc_soft_find(dev, pkt.qpn);
	if (!ch || pkt.pkey != ch->tx.to.pkey || !from_peer(ch, d)) {
		dev->strangers++;
		return;
	}
	if (!by_port(ch, d, now_ns))
		return;
	ch->from_peer.sport = ntohs(d->from.sin_port);
	if (!inc_ip_ids_check(&ch->ids, &ch->from_peer, at == 0, data, n)) {
		dev->damaged++;
		return;
	}
	if (ch->life == SOFT_ENDED)
		take_late(ch, &pkt, now_ns);
	else if (ch->life == SOFT_CONNECTED && pkt.opcode == INC_OP_ACK)
		take_aeth(ch, &pkt, now_ns);
	else if (ch->life == SOFT_CONNECTED)
		take_data(ch, &pkt);
}

bool inc_soft_progress(struct inc_term_device *d)
{
	struct soft_device *dev = SOFT_DEV(d);
	unsigned int i, n = inc_udp_receive(&dev->udp, &dev->inbox->in);
	uint64_t now_ns = inc_now_ns();
	const struct inc_datagram *g;
	size_t at;

	dev->in_progress = true;
	for (i = 0; i < n; i++) {
		g = &dev->inbox->in.datagram[i];
		dev->strangers += !g->size;
		for (at = 0; at < g->size; at += g->step)
			take_packet(dev, g, at, g->size - at < g->step ? g->size - at : g->step,
				    now_ns);
	}
	inc_soft_timers(dev, now_ns);
	dev->in_progress = false;
	inc_soft_free_gone(dev);
	inc_soft_flush(d);
	return n == INC_UDP_RECVS;
}
