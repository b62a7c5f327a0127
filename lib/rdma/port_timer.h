/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How long the port of an RDMA device has been down. A port that comes back soon breaks no
 * connection, because queue pairs retransmit. So the owner of a connection waits for a time limit
 * before it reports that the port is down. The owner calls all functions on one thread.
 */
#ifndef INC_RDMA_PORT_TIMER_H
#define INC_RDMA_PORT_TIMER_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/clock.h"

struct inc_rdma_port_timer {
	/* time when the port went down, or when its limit began anew; 0: the port is up */
	uint64_t down_at_ns;
	unsigned int limit_ms;
};

/* Reports that the port went down. A second report does not restart the time limit. */
static inline void inc_rdma_port_went_down(struct inc_rdma_port_timer *t, uint64_t now_ns)
{
	if (!t->down_at_ns)
		t->down_at_ns = now_ns;
}

static inline void inc_rdma_port_came_up(struct inc_rdma_port_timer *t)
{
	t->down_at_ns = 0;
}

/* Returns when the time limit of the port ends; UINT64_MAX: the port is up. */
static inline uint64_t inc_rdma_port_deadline_ns(const struct inc_rdma_port_timer *t)
{
	return t->down_at_ns ? t->down_at_ns + t->limit_ms * INC_NSEC_PER_MSEC : UINT64_MAX;
}

static inline bool inc_rdma_port_expired(const struct inc_rdma_port_timer *t, uint64_t now_ns)
{
	return now_ns >= inc_rdma_port_deadline_ns(t);
}

/* Begins the time limit anew if the port is down, so that connections that are made now have the
 * whole limit. */
static inline void inc_rdma_port_restart(struct inc_rdma_port_timer *t, uint64_t now_ns)
{
	if (t->down_at_ns)
		t->down_at_ns = now_ns;
}

/* Returns words about the port for an error message of a failed request; "" if the port is up. */
static inline const char *inc_rdma_port_note(const struct inc_rdma_port_timer *t)
{
	return t->down_at_ns ? "; the port is down" : "";
}

#endif
