/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What has failed. The states in the maps say it as long as the communicator lives, so it is read
 * there, by the tick, and told once; the events of the ring only make it prompt. The children
 * of a communicator that has ended are told several times, for none of them answers a NAK.
 */
#include <stdio.h>
#include <string.h>
#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/proto/desc.h"
#include "userspace/xdp/slowpath_priv.h"

#define FATAL_TIMES 8 /* the waits between double: 20 ms, 40 ms, ... up to rto_max */

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

#define WORD(NAME, name, ...) #name,
static const char *const collectives[] = {INC_COLLECTIVES(WORD)};
static const char *const operators[] = {INC_OPERATORS(WORD)};
static const char *const dtypes[] = {INC_DTYPES(WORD)};

/* The switch refuses descriptors with others, but a row may be read while it is written. */
#define NAME_OF(names, value) \
	((value) < sizeof(names) / sizeof(*(names)) ? (names)[value] : "unknown")

/* "rank 1 called reduce (sum of int32, root 0, sequence 7) with 1024 bytes" */
static int describe(const struct inc_slowpath *sp, const struct sp_comm *cm, uint32_t child,
		    uint64_t r, char *text, size_t size)
{
	struct inc_contrib_head call;
	uint32_t desc;

	inc_switch_read_contrib(sp->sw, cm->index, child, r, &call);
	desc = call.mirror.desc;
	return snprintf(
		text, size, "rank %u called %s (%s of %s, root %u, sequence %u) with %u bytes",
		conn_cfg(sp, &cm->conn[child])->rank, NAME_OF(collectives, INC_DESC_COLL(desc)),
		NAME_OF(operators, INC_DESC_OP(desc)), NAME_OF(dtypes, INC_DESC_DTYPE(desc)),
		INC_DESC_ROOT(desc), INC_DESC_SEQ(desc), call.len);
}

/* The chunk's rows, and the mask of those who differ in the result's row, stand from the end of
 * the communicator on. */
static void tell_mismatch(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	uint32_t mask = inc_switch_read_differ(sp->sw, cm->index, r), c;
	char text[320];
	int n;

	n = describe(sp, cm, 0, r, text, sizeof(text));
	c = mask ? __builtin_ctz(mask) : 0;
	if (c && c < cm->cfg.children && n > 0 && (size_t)n + 8 < sizeof(text)) {
		strcpy(text + n, ", but ");
		n += 6;
		describe(sp, cm, c, r, text + n, sizeof(text) - n);
	}
	sp->notice(sp->arg, "mismatch", cm->index, mask, r, text);
}

/* NAK 63 to all. It names the packet that was kept last: a host waits for nothing beyond what
 * it has sent, and drops what names that. */
static void tell_children(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	uint64_t max = sp->opts.rto_max_ms * INC_NSEC_PER_MSEC, kept;
	uint32_t c;

	for (c = 0; c < cm->cfg.children; c++) {
		const struct sp_conn *conn = &cm->conn[c];

		kept = conn_state(sp, conn).rx_next;
		if (kept && !sp_send_aeth(sp, cm, c, INC_AETH_NAK_OPERATION,
					  conn_cfg(sp, conn)->rx_start_psn + (uint32_t)kept - 1))
			sp->stats.naks_sent++;
	}
	sp_flush(sp);
	if (--cm->fatal_left == 0)
		sp_comm_go(cm, SP_COMM_ENDED);
	cm->fatal_at_ns = now + cm->fatal_wait_ns;
	cm->fatal_wait_ns = cm->fatal_wait_ns * 2 > max ? max : cm->fatal_wait_ns * 2;
}

static void start_telling(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	sp_comm_go(cm, SP_COMM_TELLING);
	cm->fatal_left = FATAL_TIMES;
	cm->fatal_wait_ns = sp->opts.rto_min_ms * INC_NSEC_PER_MSEC * FIRST_RTO;
	tell_children(sp, cm, now);
}

void sp_end_comm(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t r)
{
	inc_switch_end_comm(sp->sw, cm->index, r, INC_AETH_NAK_OPERATION);
	start_telling(sp, cm, inc_now_ns());
}

static void tell_conn_error(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t child,
			    uint8_t syndrome)
{
	const struct sp_conn *c = &cm->conn[child];
	uint64_t r = conn_state(sp, c).rx_next; /* stays as the packet found it */
	char text[160];

	snprintf(text, sizeof(text),
		 "rank %u sent an invalid request as packet %llu: NAK 0x%02x ends its connection",
		 conn_cfg(sp, c)->rank, (unsigned long long)r, syndrome);
	sp->notice(sp->arg, "connection_error", cm->index, 1u << child, r, text);
}

void sp_tell_refusal(struct inc_slowpath *sp, struct sp_comm *cm, uint32_t child, uint64_t r,
		     uint8_t syndrome)
{
	struct sp_conn *c = &cm->conn[child];
	char text[160];

	if (c->refusal_told)
		return;
	c->refusal_told = true;
	snprintf(text, sizeof(text), "rank %u refused result %llu with NAK 0x%02x",
		 conn_cfg(sp, c)->rank, (unsigned long long)r, syndrome);
	sp->notice(sp->arg, "peer_nak", cm->index, 1u << child, r, text);
}

static bool is_fatal(uint8_t syndrome)
{
	return (syndrome & INC_AETH_TYPE_MASK) == INC_AETH_TYPE_NAK && syndrome != INC_AETH_NAK_SEQ;
}

void sp_watch_failures(struct inc_slowpath *sp, struct sp_comm *cm, uint64_t now)
{
	const struct inc_comm_state ended = comm_state(sp, cm);
	uint32_t c;

	if (ended.error && cm->phase == SP_COMM_RUNNING) {
		start_telling(sp, cm, now);
		tell_mismatch(sp, cm, ended.error_r);
	}
	if (cm->phase == SP_COMM_TELLING && now >= cm->fatal_at_ns)
		tell_children(sp, cm, now);
	for (c = 0; c < cm->cfg.children; c++) {
		struct sp_conn *conn = &cm->conn[c];
		const struct inc_conn_state st = conn_state(sp, conn);

		if (st.error && conn->phase != SP_CONN_ENDED) {
			sp_conn_go(cm, conn, SP_CONN_ENDED);
			tell_conn_error(sp, cm, c, st.error);
		}
		if (is_fatal(st.last_syndrome))
			sp_tell_refusal(sp, cm, c, st.tx_acked, st.last_syndrome);
	}
}
