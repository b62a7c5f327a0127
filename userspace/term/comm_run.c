/* SPDX-License-Identifier: BSD-2-Clause */
/* The work of a communicator. It passes its channels' reports to the node, and performs the node's
 * actions. */
#include <stdio.h>
#include <string.h>
#include "lib/conf/messages.h"
#include "lib/proto/desc.h"
#include "lib/proto/frame.h"
#include "lib/proto/roce.h"
#include "userspace/term/comm_priv.h"

static void do_send(struct inc_term_comm *cm, const struct inc_term_action *a)
{
	struct comm_end *end = &cm->end[a->peer];

	const uint32_t imm = inc_desc_to_wire(a->desc, cm->form.native_floats);

	end->sent++;
	/* the return value does not matter, because a channel that fails here reports its loss to
	 * the handler */
	end->dev->ops->send(end->ch, a->buffer, a->length, a->has_desc, imm);
}

/* Posts one more receive with every peer. If that fails, the channel reports that it is lost. */
static void do_receive(struct inc_term_comm *cm)
{
	uint32_t i;

	for (i = 0; i < cm->n_ends; i++)
		cm->end[i].dev->ops->post(cm->end[i].ch, inc_term_pool_take(cm->pool));
}

/* Returns the end whose port shall be reported in place of its peer, or NULL. If a connection fails
 * while the switch's own port is not up, the port is to blame, and no rank. */
static const struct comm_end *end_without_port(const struct inc_term_comm *cm,
					       const struct inc_term_action *a)
{
	const uint32_t peer = a->children ? (uint32_t)__builtin_ctzll(a->children) : cm->n_children;

	if (a->what == INC_TERM_DO_PORT_LOST)
		return &cm->end[a->peer];
	if (a->what != INC_TERM_DO_END || peer >= cm->n_ends || !*cm->end[peer].port_reason)
		return NULL;
	return a->reason == INC_TERM_SILENT || a->reason == INC_TERM_CUT ? &cm->end[peer] : NULL;
}

static void describe_port(const struct comm_end *end, const struct inc_term_action *a,
			  struct inc_msg_event *out)
{
	*out = (struct inc_msg_event){.kind = INC_EVENT_KIND_PORT_LOST, .r = a->number};
	snprintf(out->message, sizeof(out->message), "%s", end->port_reason);
}

static void notify(struct inc_term_comm *cm, const struct inc_term_action *a)
{
	const struct comm_end *end = end_without_port(cm, a);
	struct inc_msg_event event;

	if (end)
		describe_port(end, a, &event);
	else
		inc_term_describe(cm->node, a, &event);
	if (cm->why && a->what == INC_TERM_DO_END) {
		const size_t n = strlen(event.message);

		snprintf(event.message + n, sizeof(event.message) - n, ": %s", cm->why);
	}
	event.communicator = cm->conf.communicator;
	cm->opts.notice(cm->opts.arg, &event);
}

/* Performs all actions that the node requests after an event of the communicator's channels. */
static void act(struct inc_term_comm *cm)
{
	struct inc_term_action a;

	while (inc_term_next(cm->node, &a)) {
		switch (a.what) {
		case INC_TERM_DO_REDUCE:
			inc_term_reduce(&cm->form, a.desc, a.buffer, a.source, a.n_sources,
					a.length);
			cm->reduced_bytes += (uint64_t)a.n_sources * a.length;
			break;
		case INC_TERM_DO_SEND:
			do_send(cm, &a);
			break;
		case INC_TERM_DO_RELEASE:
			inc_term_pool_put(cm->pool, a.buffer);
			break;
		case INC_TERM_DO_RECEIVE:
			do_receive(cm);
			break;
		case INC_TERM_DO_REPORT:
		case INC_TERM_DO_PORT_LOST:
			notify(cm, &a);
			break;
		case INC_TERM_DO_END:
			cm->ended = true;
			cm->ended_for = a.reason;
			cm->mismatches += a.reason == INC_TERM_MISMATCH;
			notify(cm, &a);
			break;
		}
	}
}

/* Ends the communicator, because a peer wants its floats to be added in another form than this
 * switch adds them, so the sum would be wrong. */
static void refuse_floats(struct comm_end *end, const struct inc_channel_message *m)
{
	static const char *const forms[] = {"as integers that are made of them", "as they are"};
	struct inc_term_comm *cm = end->cm;
	const bool native = cm->form.native_floats;
	char why[INC_CALL_TEXT];

	snprintf(why, sizeof(why), "floats are to be added %s there, and %s here", forms[!native],
		 forms[native]);
	if (m->buffer)
		inc_term_pool_put(cm->pool, m->buffer);
	cm->dropped++;
	cm->why = why;
	inc_term_lost(cm->node, end->peer, INC_TERM_INVALID);
	act(cm);
	cm->why = NULL;
}

/*
 * Uses a message as an implied ACK of earlier results or partial sums. A child sends message m only
 * when it has result m - window. The parent makes result m of the switch's partial sum m. So if an
 * ACK is lost, other peers need not wait for its repetition. Without this, other peers could be two
 * windows ahead of the oldest unacknowledged result, and find no receive.
 */
static void heed_shown(struct comm_end *end)
{
	const uint64_t now_has = end->received + 1, window = end->cm->conf.messages;
	uint64_t n = now_has;

	if (!end->conf.up)
		n = now_has > window ? now_has - window : 0;
	if (n > end->acknowledged && end->dev->ops->shown)
		end->dev->ops->shown(end->ch, n);
}

static void on_message(void *ctx, const struct inc_channel_message *m)
{
	struct comm_end *end = ctx;
	struct inc_term_comm *cm = end->cm;
	struct inc_term_figures before, after;
	struct inc_term_message message = {
		.has_desc = m->has_imm, .length = m->length, .buffer = m->buffer};

	if (m->has_imm && !inc_desc_from_wire(m->imm, cm->form.native_floats, &message.desc)) {
		end->received++;
		refuse_floats(end, m);
		return;
	}
	heed_shown(end);
	inc_term_figures(cm->node, &before);
	inc_term_message(cm->node, end->peer, end->received++, &message);
	inc_term_figures(cm->node, &after);
	if (after.ended)
		cm->dropped++;
	else if (after.results == before.results && after.partials == before.partials)
		cm->kept++;
	act(cm);
}

static void on_sent(void *ctx)
{
	struct comm_end *end = ctx;

	inc_term_sent(end->cm->node, end->peer, end->acknowledged++);
	act(end->cm);
}

/* Sets the class of what is sent to a peer, unless it is configured or the device has its own. */
static void set_class(struct comm_end *end, uint8_t tos)
{
	if (!end->ch || end->conf.verbs.has_traffic_class || !end->dev->ops->set_class)
		return;
	end->dev->ops->set_class(end->ch, tos);
	end->verbs.traffic_class = tos;
	end->verbs.has_traffic_class = true;
}

void comm_on_class(void *ctx, uint8_t tos)
{
	struct comm_end *end = ctx;
	struct inc_term_comm *cm = end->cm;

	if (end->conf.up)
		return;
	set_class(end, inc_tos_mirrored(tos));
	if (!end->peer && cm->n_children < cm->n_ends)
		set_class(&cm->end[cm->n_children], inc_tos_mirrored(tos));
}

static void on_lost(void *ctx, const struct inc_channel_loss *loss)
{
	/* the node's reason for the end of a connection, for each reason for which a channel
	 * breaks */
	static const enum inc_term_reason reasons[] = {
		[INC_CHANNEL_INVALID] = INC_TERM_INVALID,
		[INC_CHANNEL_REFUSED] = INC_TERM_REFUSED,
		[INC_CHANNEL_SILENT] = INC_TERM_SILENT,
		[INC_CHANNEL_ENDED] = INC_TERM_ENDED_THERE,
		[INC_CHANNEL_CUT] = INC_TERM_CUT,
	};
	struct comm_end *end = ctx;

	end->lost = true;
	end->lost_for = reasons[loss->reason];
	end->cm->why = loss->text;
	inc_term_lost(end->cm->node, end->peer, end->lost_for);
	act(end->cm);
	end->cm->why = NULL;
}

const struct inc_channel_handler inc_term_comm_handler = {
	.message = on_message, .sent = on_sent, .lost = on_lost};

/* Looks whether what is sent to a peer arrives, and reports when that changes. An RDMA device does
 * not count the packets of a queue pair, and gives up by itself. now_ns leaves out the time in
 * which this process stood still, because the process received nothing then. */
static void watch_delivery(struct comm_end *end, uint64_t now_ns)
{
	struct inc_msg_event event = {.r = end->acknowledged,
				      .communicator = end->cm->conf.communicator};
	struct inc_channel_figures ch;
	char who[INC_PEER_TEXT] = "the parent";

	end->dev->ops->figures(end->ch, &ch);
	if (!inc_delivery_look(&end->delivery,
			       &(struct inc_delivery_seen){
				       .acknowledged = end->acknowledged,
				       /* not counted here */
				       .clean = end->acknowledged,
				       .fresh = ch.tx_packets,
				       .resent = ch.retransmits,
				       .timeouts = ch.timeouts,
				       .in_a_row = ch.timeouts_in_a_row,
				       .naks = ch.naks_received + ch.rnrs_received,
				       .heard = ch.rx_packets + ch.acks_received + ch.naks_received,
				       .outstanding = end->sent > end->acknowledged,
			       },
			       now_ns))
		return;
	if (!end->conf.up) {
		inc_child_name(who, inc_conn_to_switch(&end->conf), end->conf.rank);
		event.ranks[event.n_ranks++] = end->conf.rank;
	}
	event.kind = end->delivery.loss ? INC_EVENT_KIND_UNDELIVERED : INC_EVENT_KIND_DELIVERED;
	inc_delivery_text(event.message, sizeof(event.message), &end->delivery, who,
			  end->conf.peer.ip, now_ns);
	end->cm->opts.notice(end->cm->opts.arg, &event);
}

void inc_term_comm_tick(struct inc_term_comm *cm, uint64_t now_ns)
{
	uint32_t i;

	inc_term_tick(cm->node, now_ns);
	act(cm);
	for (i = 0; !cm->ended && i < cm->n_ends; i++)
		if (cm->end[i].ch && cm->end[i].connected)
			watch_delivery(&cm->end[i], inc_term_awake_ns(cm->node));
}

void inc_term_comm_port(struct inc_term_comm *cm, uint32_t peer, enum inc_port_condition condition,
			const char *reason)
{
	struct comm_end *end = &cm->end[peer];

	snprintf(end->port_reason, sizeof(end->port_reason), "%s", reason);
	inc_term_port(cm->node, peer, condition);
}

void inc_term_comm_settle(struct inc_term_comm *cm)
{
	uint32_t i;

	if (!cm->ended || cm->settled)
		return;
	cm->settled = true;
	for (i = 0; i < cm->n_ends; i++) {
		struct comm_end *end = &cm->end[i];

		end->dev->ops->figures(end->ch, &end->last);
		end->dev->ops->shut(end->ch, INC_AETH_NAK_OPERATION);
		end->ch = NULL;
		while (end->acknowledged < end->sent)
			on_sent(end);
	}
}
