/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds free connections and rows for a communicator, and reports how many are in use and which
 * communicator uses most.
 */
#include <errno.h>
#include <stdio.h>
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
	case INC_RANGE_KEPT:
		*base = cm->kept_base;
		*len = inc_comm_conns(cm) * slots;
		break;
	case INC_RANGE_SUM:
		*base = cm->sum_base;
		*len = slots;
		break;
	case INC_RANGE_ROOT:
		*base = cm->root_base;
		*len = cm->root_rows;
		break;
	}
}

static uint32_t total_of(const struct inc_switch *sw, enum inc_range what)
{
	const uint32_t totals[] = {
		[INC_RANGE_CONN] = sw->opts.max_connections,
		[INC_RANGE_KEPT] = sw->opts.max_rows,
		[INC_RANGE_SUM] = sw->sum_rows,
		[INC_RANGE_ROOT] = inc_switch_root_rows(sw->opts.max_comms),
	};

	return totals[what];
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

/* Only two kinds of places need a check, because the first range that fits begins at 0 or at the
 * end of another range. */
int inc_range_allocate(const struct inc_switch *sw, enum inc_range what, uint32_t n, uint32_t *out)
{
	const uint32_t total = total_of(sw, what);
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

/* Returns the length of the longest range of free entries of a resource. */
static uint32_t longest_free(const struct inc_switch *sw, enum inc_range what)
{
	uint32_t fits = 0, too_many = total_of(sw, what) + 1, n, at;

	while (fits + 1 < too_many) {
		n = fits + (too_many - fits) / 2;
		if (inc_range_allocate(sw, what, n, &at))
			too_many = n;
		else
			fits = n;
	}
	return fits;
}

/* Returns how many entries are in use. *holder becomes the communicator that uses most of them. */
static uint32_t sum_used(const struct inc_switch *sw, enum inc_range what,
			 const struct inc_comm_cfg **holder, uint32_t *held)
{
	uint32_t cm, base, len, used = 0;

	*holder = NULL;
	*held = 0;
	for (cm = 0; cm < sw->opts.max_comms; cm++) {
		if (!(sw->comm[cm].flags & INC_COMM_F_VALID))
			continue;
		comm_range(&sw->comm[cm], what, &base, &len);
		used += len;
		if (len > *held) {
			*holder = &sw->comm[cm];
			*held = len;
		}
	}
	return used;
}

int inc_range_refuse(const struct inc_switch *sw, uint32_t communicator, enum inc_range what,
		     uint32_t n, struct inc_err *err)
{
	static const char *const names[] = {
		[INC_RANGE_CONN] = "connections",
		[INC_RANGE_KEPT] = "contribution rows",
		[INC_RANGE_SUM] = "slots",
		[INC_RANGE_ROOT] = "rows of ranks",
	};
	const uint32_t total = total_of(sw, what);
	const struct inc_comm_cfg *holder;
	uint32_t held, free_now = total - sum_used(sw, what, &holder, &held);
	char row[64] = "", most[64] = "";

	if (free_now >= n)
		snprintf(row, sizeof(row), ", but at most %u of them in a row",
			 longest_free(sw, what));
	if (holder)
		snprintf(most, sizeof(most), "; communicator %u holds most, %u",
			 holder->communicator, held);
	return inc_err_set(err, ENOSPC, "communicator %u: %u %s are wanted, %u of %u are free%s%s",
			   communicator, n, names[what], free_now, total, row, most);
}

void inc_switch_usage(const struct inc_switch *sw, struct inc_usage *out)
{
	struct inc_usage_of *const of[] = {
		[INC_RANGE_CONN] = &out->connections,
		[INC_RANGE_KEPT] = &out->rows,
		[INC_RANGE_SUM] = &out->slots,
		[INC_RANGE_ROOT] = &out->root_rows,
	};
	const struct inc_comm_cfg *holder;
	uint32_t cm, held, i;

	*out = (struct inc_usage){.communicators.max = sw->opts.max_comms};
	for (cm = 0; cm < sw->opts.max_comms; cm++)
		out->communicators.used += !!(sw->comm[cm].flags & INC_COMM_F_VALID);
	for (i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		of[i]->max = total_of(sw, i);
		of[i]->used = sum_used(sw, i, &holder, &held);
	}
}
