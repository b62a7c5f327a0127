/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has failed. The states in the maps say it as long as the communicator lives, so it is read
 * there, by the tick, and told once; the events of the ring only make it prompt. The peers
 * of a communicator that has ended are told several times, for none of them answers a NAK.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <arpa/inet.h>
#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "userspace/xdp/slowpath_priv.h"

#define FATAL_TIMES 8 /* the waits between double, up to rto_max */

const char *sp_thing(const struct sp_comm *cm, uint32_t peer)
{
	return is_parent(cm, peer) ? "partial sum" : "result";
}

const char *sp_peer_name(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
			 char buf[INC_PEER_TEXT])
{
	const struct inc_conn_cfg *cfg = conn_cfg(sp, &cm->conn[peer]);
	const struct in_addr addr = {.s_addr = cfg->peer_addr};
	char ip[INET_ADDRSTRLEN];

	if (!is_parent(cm, peer))
		return inc_child_name(buf, is_switch(sp, &cm->conn[peer]), cfg->rank);
	snprintf(buf, INC_PEER_TEXT, "the parent %s", inet_ntop(AF_INET, &addr, ip, sizeof(ip)));
	return buf;
}

void sp_notice_peer(struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t peer,
		    const char *event, uint64_t r, const char *fmt, ...)
{
	char text[240], name[INC_PEER_TEXT];
	va_list ap;
	int n;

	n = snprintf(text, sizeof(text), "%s ", sp_peer_name(sp, cm, peer, name));
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	sp->notice(sp->arg, event, cm->index, is_parent(cm, peer) ? 0 : 1u << peer, r, text);
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

/* The chunk's rows, and the mask of those who differ in the result's row, stand from the end of
 * the communicator on. */
static void tell_mismatch(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	const uint32_t mask = inc_switch_read_differ(sp->sw, cm->index, r);
	const uint32_t c = mask ? __builtin_ctz(mask) : 0;
	struct inc_call first = call_of(sp, cm, 0, r), other;
	char text[INC_CALL_TEXT];

	if (c && c < cm->cfg.children)
		other = call_of(sp, cm, c, r);
	inc_call_text(text, sizeof(text), &first, c && c < cm->cfg.children ? &other : NULL);
	sp->notice(sp->arg, "mismatch", cm->index, mask, r, text);
}

/* NAK 63. It names the packet that was kept last: a host waits for nothing beyond what
 * it has sent, and drops what names that. A switch takes it in any case, also from one that has
 * kept nothing yet. */
static void tell_peer(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer)
{
	const struct sp_conn *c = &cm->conn[peer];
	uint64_t kept = conn_state(sp, c).rx_next;

	if ((kept || is_switch(sp, c)) &&
	    !sp_send_aeth(sp, cm, peer, INC_AETH_NAK_OPERATION,
			  conn_cfg(sp, c)->rx_start_psn + (uint32_t)kept - 1))
		sp->stats.naks_sent++;
}

/* To all, FATAL_TIMES; then to the switches alone, as long as the communicator is there. A host
 * sends again what nobody acknowledges, and hears it then; a switch may wait for this one without
 * anything to send, and an outage may last longer than the tellings. */
static void tell_peers(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	uint64_t max = sp->opts.rto_max_ms * INC_NSEC_PER_MSEC;
	uint32_t c;

	for (c = 0; c < cm->n_conns; c++)
		if (cm->phase == SP_COMM_TELLING || is_switch(sp, &cm->conn[c]))
			tell_peer(sp, cm, c);
	sp_flush(sp);
	if (cm->phase == SP_COMM_TELLING && --cm->fatal_left == 0)
		sp_comm_go(cm, SP_COMM_ENDED);
	cm->fatal_at_ns = now + cm->fatal_wait_ns;
	cm->fatal_wait_ns = cm->fatal_wait_ns * 2 > max ? max : cm->fatal_wait_ns * 2;
}

static void start_telling(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	sp_comm_go(cm, SP_COMM_TELLING);
	cm->fatal_left = FATAL_TIMES;
	cm->fatal_wait_ns = sp_first_rto_ns(sp);
	tell_peers(sp, cm, now);
}

void sp_end_comm(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	inc_switch_end_comm(sp->sw, cm->index, r, INC_AETH_NAK_OPERATION);
	start_telling(sp, cm, sp_now(sp));
}

static void tell_conn_error(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer,
			    uint8_t syndrome)
{
	uint64_t r = conn_state(sp, &cm->conn[peer]).rx_next; /* stays as the packet found it */

	sp_notice_peer(sp, cm, peer, "connection_error", r,
		       "sent an invalid request as packet %llu: NAK 0x%02x ends its connection%s",
		       (unsigned long long)r, syndrome,
		       is_switch(sp, &cm->conn[peer])
			       ? " (have both switches the same payload and byte_order?)"
			       : "");
	/* a switch that is refused ends the communicator: nothing more comes from there */
	if (is_switch(sp, &cm->conn[peer]) && cm->phase == SP_COMM_RUNNING)
		sp_end_comm(sp, cm, r);
}

/* A switch says with NAK 63 that the communicator has ended there: it ends here as well, and so on
 * through the tree. Who knows why tells it. */
static void end_with_switch(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t peer, uint64_t r)
{
	if (cm->phase != SP_COMM_RUNNING)
		return;
	sp_notice_peer(sp, cm, peer, "ended", r, "says that the communicator has ended there");
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
	sp_notice_peer(sp, cm, peer, "peer_nak", r, "refused %s %llu with NAK 0x%02x",
		       sp_thing(cm, peer), (unsigned long long)r, syndrome);
	/* it ends there */
	if (is_switch(sp, c) && cm->phase == SP_COMM_RUNNING)
		sp_end_comm(sp, cm, r);
}

void sp_watch_failures(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	const struct inc_comm_state ended = comm_state(sp, cm);
	uint32_t c;

	/* found by the XDP path: what ends a communicator here sets its phase with the error */
	if (ended.error && cm->phase == SP_COMM_RUNNING) {
		start_telling(sp, cm, now);
		tell_mismatch(sp, cm, ended.error_r);
	}
	if (cm->phase != SP_COMM_RUNNING && now >= cm->fatal_at_ns)
		tell_peers(sp, cm, now);
	for (c = 0; c < cm->n_conns; c++) {
		struct sp_conn *conn = &cm->conn[c];
		const struct inc_conn_state st = conn_state(sp, conn);

		if (st.error && conn->phase != SP_CONN_ENDED) {
			sp_conn_go(cm, conn, SP_CONN_ENDED);
			tell_conn_error(sp, cm, c, st.error);
		}
		if (st.refusal)
			sp_tell_refusal(sp, cm, c, st.tx_acked, st.refusal);
	}
}
