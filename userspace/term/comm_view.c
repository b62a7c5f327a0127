/* SPDX-License-Identifier: BSD-2-Clause */
/* The figures of a communicator, for queries. */
#include <string.h>
#include "lib/base/clock.h"
#include "lib/proto/roce.h"
#include "userspace/term/comm_priv.h"

void inc_term_counters_add(struct inc_term_counters *sum, const struct inc_term_counters *more)
{
#define _(class, name, shown, text) sum->name += more->name;
	INC_TERM_COUNTERS(_)
#undef _
}

static uint8_t error_of(const struct comm_end *end)
{
	if (end->lost)
		return inc_term_reasons[end->lost_for].syndrome;
	return end->cm->ended ? INC_AETH_NAK_OPERATION : 0;
}

static enum inc_conn_health health_of(const struct comm_end *end,
				      const struct inc_term_peer_figures *f)
{
	if (end->cm->ended)
		return INC_CONN_ENDED;
	if (f->unresponsive)
		return INC_CONN_UNRESPONSIVE;
	if (end->delivery.loss)
		return INC_CONN_UNDELIVERED;
	return f->received ? INC_CONN_ACTIVE : INC_CONN_IDLE;
}

static void view_end(const struct comm_end *end, const struct inc_term_figures *node,
		     struct inc_term_view *out)
{
	struct inc_channel_figures ch = end->last;
	struct inc_term_peer_figures f;

	inc_term_peer_figures(end->cm->node, end->peer, &f);
	if (end->ch)
		end->dev->ops->figures(end->ch, &ch);
	out->conn[end->peer] = (struct inc_engine_conn){
		.up = end->conf.up,
		.rank = f.rank,
		.own = end->conf.own,
		.peer = end->conf.peer,
		.health = health_of(end, &f),
		.unresponsive = f.unresponsive,
		.loss = end->delivery.loss,
		.undelivered = end->delivery.loss != INC_LOSS_NONE,
		.error = error_of(end),
		.reason = end->lost ? inc_term_reasons[end->lost_for].name : NULL,
		.verbs = end->verbs,
		.received = f.received,
		.acknowledged = f.acknowledged,
		.results = end->conf.up ? node->partials : node->results,
		.duplicates = ch.duplicates,
		.naks_sent = ch.naks_sent,
		.naks_received = ch.naks_received,
		.rnrs_sent = ch.rnrs_sent,
		.retransmits = ch.retransmits,
		.cnps_sent = ch.cnps_sent,
		.congested = ch.congested,
		.timeouts = ch.timeouts,
		.rtt_us = ch.srtt_ns / INC_NSEC_PER_USEC,
	};
	memcpy(out->conn[end->peer].port, end->conf.port, sizeof(end->conf.port));
	out->counters.received += end->received;
	out->counters.copies += f.sent;
	out->counters.rx_packets += ch.rx_packets;
	out->counters.tx_packets += ch.tx_packets;
	out->counters.retransmits += ch.retransmits;
	out->counters.duplicates += ch.duplicates;
}

static void view_waiting(const struct inc_term_comm *cm, struct inc_term_view *out)
{
	struct inc_term_waiting w;

	out->waits = inc_term_waiting(cm->node, &w);
	if (!out->waits)
		return;
	out->waiting = (struct inc_engine_waiting){
		.chunk = w.number,
		.arrived = w.arrived,
		.up = w.up && !cm->ended,
		.waited_ms = w.seen_at_ns ? (inc_now_ns() - w.seen_at_ns) / INC_NSEC_PER_MSEC : 0,
	};
}

void inc_term_comm_view(const struct inc_term_comm *cm, struct inc_term_view *out)
{
	struct inc_term_figures node;
	uint32_t i;

	inc_term_figures(cm->node, &node);
	out->comm = (struct inc_engine_comm){
		.cpu = -1,
		.communicator = cm->conf.communicator,
		.byte_order = cm->conf.byte_order,
		.error = cm->ended ? INC_AETH_NAK_OPERATION : 0,
		.reason = cm->ended ? inc_term_reasons[cm->ended_for].name : NULL,
		.results = node.results,
		.children = cm->n_children,
		.connections = cm->n_ends,
		.slots = cm->conf.slots,
		.receives = cm->receives,
		.payload_bytes = cm->conf.payload,
		.ended = cm->ended,
	};
	out->counters = (struct inc_term_counters){
		.kept = cm->kept,
		.dropped = cm->dropped,
		.results = cm->n_children == cm->n_ends ? node.results : 0,
		.from_parent = cm->n_children == cm->n_ends ? 0 : node.results,
		.partials = node.partials,
		.reduced_bytes = cm->reduced_bytes,
		.mismatches = cm->mismatches,
	};
	for (i = 0; i < cm->n_ends; i++)
		view_end(&cm->end[i], &node, out);
	view_waiting(cm, out);
	out->buffers_taken = inc_term_pool_taken(cm->pool);
}
