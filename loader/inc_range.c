/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a communicator's connections and rows stand in their maps, and how much of those is in use.
 */
#include <errno.h>
#include "loader/inc_loader_priv.h"

static void comm_range(const struct inc_comm_cfg *cm, enum inc_range what, uint32_t *base,
		       uint32_t *len)
{
	uint32_t slots = 1u << cm->log2_slots;

	*base = *len = 0;
	switch (what) {
	case INC_RANGE_CONN:
		*base = cm->conn_base;
		*len = inc_comm_conns(cm);
		break;
	case INC_RANGE_CONTRIB:
		*base = cm->contrib_base;
		*len = inc_comm_conns(cm) * slots;
		break;
	case INC_RANGE_RESULT:
		*base = cm->result_base;
		*len = slots;
		break;
	case INC_RANGE_ROOT:
		*base = cm->root_base;
		*len = cm->root_rows;
		break;
	}
}

static bool range_free(const struct inc_switch *sw, enum inc_range what, uint32_t start, uint32_t n)
{
	uint32_t cm, base, len;

	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!(sw->comm[cm].flags & INC_COMM_F_VALID))
			continue;
		comm_range(&sw->comm[cm], what, &base, &len);
		if (start < base + len && base < start + n)
			return false;
	}
	return true;
}

/* The first fit starts at 0 or where some other range ends. */
int inc_range_allocate(const struct inc_switch *sw, enum inc_range what, uint32_t n, uint32_t total,
		       uint32_t *out)
{
	uint32_t cm, base, len, best = UINT32_MAX;

	if (n > total)
		return -ENOSPC;
	if (range_free(sw, what, 0, n)) {
		*out = 0;
		return 0;
	}
	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!(sw->comm[cm].flags & INC_COMM_F_VALID))
			continue;
		comm_range(&sw->comm[cm], what, &base, &len);
		base += len;
		if (base < best && base + n <= total && range_free(sw, what, base, n))
			best = base;
	}
	*out = best;
	return best == UINT32_MAX ? -ENOSPC : 0;
}

void inc_switch_usage(const struct inc_switch *sw, struct inc_usage *out)
{
	uint32_t cm, base, len;

	*out = (struct inc_usage){
		.communicators.max = sw->opts.max_comms,
		.connections.max = sw->opts.max_connections,
		.rows.max = sw->opts.max_rows,
		.slots.max = sw->result_rows,
	};
	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!(sw->comm[cm].flags & INC_COMM_F_VALID))
			continue;
		out->communicators.used++;
		comm_range(&sw->comm[cm], INC_RANGE_CONN, &base, &len);
		out->connections.used += len;
		comm_range(&sw->comm[cm], INC_RANGE_CONTRIB, &base, &len);
		out->rows.used += len;
		comm_range(&sw->comm[cm], INC_RANGE_RESULT, &base, &len);
		out->slots.used += len;
	}
}
