/* SPDX-License-Identifier: BSD-2-Clause */
/* What comes to the slow path: NAKs of the children, events of the XDP programs. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <bpf/bpf.h>
#include "lib/inc_log.h"
#include "lib/inc_roce.h"
#include "userspace/slowpath_priv.h"

static struct sp_group *find_conn(struct inc_slowpath *sp, const struct inc_conn_key *key,
				  uint32_t *child)
{
	const struct inc_conn_cfg *cfg;
	uint32_t conn;

	if (bpf_map_lookup_elem(inc_switch_map_fd(sp->sw, INC_MAP_CONN_LOOKUP), key, &conn))
		return NULL;
	cfg = inc_switch_conn(sp->sw, conn);
	if (!cfg || cfg->group >= sp->max_groups)
		return NULL;
	*child = cfg->child;
	return sp->group[cfg->group];
}

/* The XDP path has checked the packet, counted it and taken what it acknowledges. */
void sp_on_frame(const uint8_t *frame, size_t len, void *arg)
{
	struct inc_slowpath *sp = arg;
	struct inc_aeth_frame pkt;
	struct sp_group *g;
	struct sp_conn *c;
	uint32_t child;
	int64_t r;

	sp->stats.frames_received++;
	if (inc_frame_parse_aeth(frame, len, &pkt)) {
		sp->stats.frames_bad++;
		return;
	}
	g = find_conn(sp, &pkt.key, &child);
	if (!g) {
		sp->stats.frames_bad++;
		return;
	}
	c = &g->conn[child];
	/* the packet number nearest to what is acknowledged */
	r = LOAD(conn_state(sp, c)->tx_acked);
	r += inc_psn_diff(pkt.psn, conn_cfg(sp, c)->tx_start_psn + (uint32_t)r);
	if (r < (int64_t)c->acked || (uint64_t)r > LOAD(group_state(sp, g)->tx_next))
		return; /* overtaken by an ACK, or of nothing that was sent */
	if ((pkt.syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_RNR) {
		sp->stats.rnrs_served++;
		sp_go_back(sp, g, child, r);
		c->hold_until = now_ns() + inc_rnr_timeout_ns(pkt.syndrome);
	} else if (pkt.syndrome == INC_AETH_NAK_SEQ) {
		sp->stats.naks_served++;
		sp_go_back(sp, g, child, r);
		c->hold_until = 0;
		sp_conn_tick(sp, g, child, now_ns());
		sp_flush(sp);
	}
	/* fatal ones come as events too, and are told there */
	sp_hurry(sp);
}

/* "rank 1: collective 0, operator 0, type 0, sequence 7, 1024 bytes" */
static int describe(const struct inc_slowpath *sp, const struct sp_group *g, uint32_t child,
		    uint64_t r, char *text, size_t size)
{
	const struct inc_buf *row = sp_contrib(sp, g, child, r);

	return snprintf(text, size,
			"rank %u called collective %u operator %u type %u root %u sequence %u with "
			"%u bytes",
			conn_cfg(sp, &g->conn[child])->rank, INC_DESC_COLL(row->desc),
			INC_DESC_OP(row->desc), INC_DESC_DTYPE(row->desc), INC_DESC_ROOT(row->desc),
			INC_DESC_SEQ(row->desc), row->len);
}

static void on_mismatch(struct inc_slowpath *sp, struct sp_group *g, const struct inc_event *e)
{
	char text[320];
	uint32_t c;
	int n;

	for (c = 0; c < g->cfg.children; c++) {
		const struct sp_conn *conn = &g->conn[c];
		uint32_t psn = conn_cfg(sp, conn)->rx_start_psn +
			       (uint32_t)LOAD(conn_state(sp, conn)->rx_next);

		if (!sp_send_aeth(sp, g, c, INC_AETH_NAK_OPERATION, psn))
			sp->stats.naks_sent++;
	}
	n = describe(sp, g, 0, e->r, text, sizeof(text));
	c = e->mask ? __builtin_ctz(e->mask) : 0;
	if (c && c < g->cfg.children && n > 0 && (size_t)n + 8 < sizeof(text)) {
		strcpy(text + n, ", but ");
		n += 6;
		describe(sp, g, c, e->r, text + n, sizeof(text) - n);
	}
	sp->notice(sp->arg, "mismatch", g->index, e->mask, e->r, text);
}

static void on_pending(struct inc_slowpath *sp, struct sp_group *g, uint64_t r)
{
	uint32_t c;

	sp->stats.results_pending++;
	for (c = 0; c < g->cfg.children; c++)
		if (sp_send_result(sp, g, c, r, false) == -EAGAIN)
			sp_go_back(sp, g, c, g->conn[c].acked);
}

int sp_on_event(void *arg, void *data, size_t size)
{
	struct inc_slowpath *sp = arg;
	struct inc_event e;
	struct sp_group *g;
	uint32_t child;
	char text[160];

	if (size < sizeof(e))
		return 0;
	memcpy(&e, data, sizeof(e));
	g = e.group < sp->max_groups ? sp->group[e.group] : NULL;
	if (!g)
		return 0; /* of a group just removed */
	child = e.conn - g->cfg.conn_base;
	if (child >= g->cfg.children)
		return 0;
	switch (e.type) {
	case INC_EVENT_MISMATCH:
		on_mismatch(sp, g, &e);
		break;
	case INC_EVENT_RESULT_PENDING:
		on_pending(sp, g, e.r);
		break;
	case INC_EVENT_CONN_ERROR:
		snprintf(text, sizeof(text),
			 "rank %u sent an invalid request as packet %llu: NAK 0x%02x ends its "
			 "connection",
			 conn_cfg(sp, &g->conn[child])->rank, (unsigned long long)e.r, e.arg);
		sp->notice(sp->arg, "connection_error", e.group, 1u << child, e.r, text);
		break;
	case INC_EVENT_PEER_NAK:
		snprintf(text, sizeof(text), "rank %u refused result %llu with NAK 0x%02x",
			 conn_cfg(sp, &g->conn[child])->rank, (unsigned long long)e.r, e.arg);
		sp->notice(sp->arg, "peer_nak", e.group, 1u << child, e.r, text);
		break;
	}
	return 0;
}
