/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports failures of connections and communicators. The maps have the states of both as long as
 * the communicator exists, so the tick reads the states there, and reports each failure once.
 * Events of the ring only make this faster. Peers of an ended communicator receive several closing
 * NAKs, because a NAK is not acknowledged.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "userspace/xdp/slowpath_priv.h"

/* Time for which the report of a refusal waits for the event that names the refused packet. The
 * connection's state shows the refusal first. After this time the event counts as lost. */
#define EVENT_LATE_NS (10 * INC_NSEC_PER_MSEC)

/* number of closing NAKs to each peer of an ended communicator; the waits between them double, up
 * to rto_max */
#define CLOSING_NAKS 8

const char *sp_thing(const struct sp_comm *cm, uint32_t peer)
{
	return is_parent(cm, peer) ? "partial sum" : "result";
}

const char *sp_peer_name(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
			 char buf[INC_PEER_TEXT])
{
	const struct inc_conn_cfg *cfg = conn_cfg(sp, &cm->conn[peer]);
	char ip[INC_ADDR_TEXT];

	if (!is_parent(cm, peer))
		return inc_child_name(buf, is_switch(sp, &cm->conn[peer]), cfg->rank);
	snprintf(buf, INC_PEER_TEXT, "the parent %s",
		 inc_addr_text(inc_addr_of_ipv4(cfg->peer.ip), ip));
	return buf;
}

void sp_notice_peer(struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
		    enum inc_event_kind kind, uint64_t r, const char *fmt, ...)
{
	char text[240], name[INC_PEER_TEXT];
	va_list ap;
	int n;

	n = snprintf(text, sizeof(text), "%s ", sp_peer_name(sp, cm, peer, name));
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	sp->notice(sp->arg, kind, cm->index, is_parent(cm, peer) ? 0 : 1u << peer, r, text);
}

void sp_conn_go(const struct sp_comm *cm, struct sp_conn *c, enum sp_conn_phase to)
{
	static const char *const names[] = {"well", "unresponsive", "ended"};
	static const uint32_t steps[] = {
		[SP_CONN_WELL] = INC_STEP(SP_CONN_UNRESPONSIVE) | INC_STEP(SP_CONN_ENDED),
		[SP_CONN_UNRESPONSIVE] = INC_STEP(SP_CONN_WELL) | INC_STEP(SP_CONN_ENDED),
		[SP_CONN_ENDED] = 0,
	};
	static const struct inc_machine machine = {"connection", SP_CONN_ENDED + 1, names, steps};
	char who[48];

	snprintf(who, sizeof(who), "%u of communicator %u", (uint32_t)(c - cm->conn),
		 cm->cfg.communicator);
	c->phase = inc_machine_step(&machine, who, c->phase, to);
}

void sp_comm_go(struct sp_comm *cm, enum sp_comm_phase to)
{
	static const char *const names[] = {"running", "telling", "ended"};
	static const uint32_t steps[] = {
		[SP_COMM_RUNNING] = INC_STEP(SP_COMM_TELLING),
		[SP_COMM_TELLING] = INC_STEP(SP_COMM_ENDED),
		[SP_COMM_ENDED] = 0,
	};
	static const struct inc_machine machine = {"communicator", SP_COMM_ENDED + 1, names, steps};
	char who[16];

	snprintf(who, sizeof(who), "%u", cm->cfg.communicator);
	cm->phase = inc_machine_step(&machine, who, cm->phase, to);
}

static struct inc_call call_of(const struct inc_slowpath *sp, const struct sp_comm *cm,
			       uint32_t child, uint64_t r)
{
	struct inc_kept_head kept;
	struct inc_call call;

	inc_switch_read_kept(sp->sw, cm->index, child, r, &kept);
	call.desc = kept.mirror.desc;
	call.bytes = kept.len;
	sp_peer_name(sp, cm, child, call.who);
	return call;
}

/* Reports which children called another collective for chunk r. The chunk's rows, and the mask in
 * its result's row, do not change after the end of the communicator. */
static void tell_mismatch(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	const uint32_t mask = inc_switch_read_differ(sp->sw, cm->index, r);
	const uint32_t c = mask ? __builtin_ctz(mask) : 0;
	struct inc_call first = call_of(sp, cm, 0, r), other;
	char text[INC_CALL_TEXT];

	if (c && c < cm->cfg.children)
		other = call_of(sp, cm, c, r);
	inc_call_text(text, sizeof(text), &first, c && c < cm->cfg.children ? &other : NULL);
	sp->notice(sp->arg, INC_EVENT_KIND_MISMATCH, cm->index, mask, r, text);
}

/* Sends a closing NAK (63). The NAK names the last packet received from the peer, because a host
 * ignores a NAK for a packet that the host has not sent. A switch accepts a closing NAK with any
 * number, also from a switch that has received nothing yet. */
static void send_closing_nak(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	const struct sp_conn *c = &cm->conn[peer];
	uint64_t kept = conn_state(sp, c).rx_next;

	if ((kept || is_switch(sp, c)) &&
	    !sp_send_aeth(sp, cm, peer, INC_AETH_NAK_OPERATION,
			  conn_cfg(sp, c)->peer.psn + (uint32_t)kept - 1))
		sp->stats.naks_sent++;
}

/* Sends closing NAKs to all peers CLOSING_NAKS times, and later to switches only, as long as the
 * communicator exists. A host retransmits what is not acknowledged, and then receives the NAK as
 * the answer. A switch may have nothing to send while it waits, and an outage may last longer than
 * these times. */
static void send_closing_naks(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	uint64_t max = sp->opts.rto_max_ms * INC_NSEC_PER_MSEC;
	uint32_t c;

	for (c = 0; c < cm->n_conns; c++)
		if (cm->phase == SP_COMM_TELLING || is_switch(sp, &cm->conn[c]))
			send_closing_nak(sp, cm, c);
	sp_flush(sp);
	if (cm->phase == SP_COMM_TELLING && --cm->closing_naks == 0)
		sp_comm_go(cm, SP_COMM_ENDED);
	cm->closing_nak_at_ns = now + cm->closing_wait_ns;
	cm->closing_wait_ns = cm->closing_wait_ns * 2 > max ? max : cm->closing_wait_ns * 2;
}

static void start_telling(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	sp_comm_go(cm, SP_COMM_TELLING);
	cm->closing_naks = CLOSING_NAKS;
	cm->closing_wait_ns = sp_first_rto_ns(sp);
	send_closing_naks(sp, cm, now);
}

void sp_end_comm(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	inc_switch_end_comm(sp->sw, cm->index, r, INC_AETH_NAK_OPERATION);
	start_telling(sp, cm, sp_now(sp));
}

static void tell_conn_error(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
			    uint8_t syndrome)
{
	uint64_t r = conn_state(sp, &cm->conn[peer])
			     /* rx_next is the number of the invalid packet, because an ended
			      * connection advances no more */
			     .rx_next;

	sp_notice_peer(sp, cm, peer, INC_EVENT_KIND_CONNECTION_ERROR, r,
		       "sent an invalid request as packet %llu: NAK 0x%02x ends its connection%s",
		       (unsigned long long)r, syndrome,
		       is_switch(sp, &cm->conn[peer])
			       ? " (have both switches the same payload and byte_order?)"
			       : "");
	/* if the invalid request came from a switch, the communicator ends, because nothing more
	 * comes from that switch */
	if (is_switch(sp, &cm->conn[peer]) && cm->phase == SP_COMM_RUNNING)
		sp_end_comm(sp, cm, r);
}

/* Handles NAK 63 of a switch, which reports that the communicator has ended there. So it ends here
 * as well, and then in the whole tree. The switch at which it ended first reports the reason. */
static void end_with_switch(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r)
{
	if (cm->phase != SP_COMM_RUNNING)
		return;
	sp_notice_peer(sp, cm, peer, INC_EVENT_KIND_ENDED, r,
		       "says that the communicator has ended there");
	sp_end_comm(sp, cm, r);
}

void sp_tell_refusal(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r,
		     uint8_t syndrome)
{
	struct sp_conn *c = &cm->conn[peer];

	if (is_switch(sp, c) && syndrome == INC_AETH_NAK_OPERATION) {
		end_with_switch(sp, cm, peer, r);
		return;
	}
	if (c->refusal_told)
		return;
	c->refusal_told = true;
	sp_notice_peer(sp, cm, peer, INC_EVENT_KIND_PEER_NAK, r, "refused %s %llu with NAK 0x%02x",
		       sp_thing(cm, peer), (unsigned long long)r, syndrome);
	/* if a switch has refused the packet, the communicator ends, because that switch cannot go
	 * on */
	if (is_switch(sp, c) && cm->phase == SP_COMM_RUNNING)
		sp_end_comm(sp, cm, r);
}

void sp_watch_failures(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	const struct inc_comm_state ended = comm_state(sp, cm);
	uint32_t c;

	/* An error with the phase still RUNNING comes from the XDP path, because the slow path sets
	 * the phase together with its own errors. The XDP path ends communicators only for a
	 * mismatch. */
	if (ended.error && cm->phase == SP_COMM_RUNNING) {
		start_telling(sp, cm, now);
		tell_mismatch(sp, cm, ended.error_r);
	}
	if (cm->phase != SP_COMM_RUNNING && now >= cm->closing_nak_at_ns)
		send_closing_naks(sp, cm, now);
	for (c = 0; c < cm->n_conns; c++) {
		struct sp_conn *conn = &cm->conn[c];
		const struct inc_conn_state st = conn_state(sp, conn);

		if (st.error && conn->phase != SP_CONN_ENDED) {
			sp_conn_go(cm, conn, SP_CONN_ENDED);
			tell_conn_error(sp, cm, c, st.error);
		}
		if (st.refusal && !conn->refusal_seen_at_ns)
			conn->refusal_seen_at_ns = now;
		else if (st.refusal && now - conn->refusal_seen_at_ns >= EVENT_LATE_NS)
			sp_tell_refusal(sp, cm, c, st.tx_acked, st.refusal);
	}
}
