/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which of the peer's ports and which of ours. Pure: descriptions in, a choice out. Any thread.
 *
 * A pair fits where both have the same link layer, ours is active, has an address where it is
 * Ethernet, and a zone is common to both. Of those that fit, InfiniBand's come first, else in the
 * order of the peer's ports and then of ours; the counter modulo their number chooses (modulo that
 * of InfiniBand's alone where there are any and they are preferred). Where none fits, zones are
 * left out of it, if that is allowed.
 */
#ifndef INC_CONNECT_SELECT_H
#define INC_CONNECT_SELECT_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/connect/config.h"
#include "hostlib/include/inc_connect.h"
#include "lib/base/err.h"
#include "lib/rdma/info.h"

struct connect_selected {
	struct inc_connect_choice choice; /* all pairs, each with its reason */
	struct inc_connect_pair *pairs;   /* the same, to be freed */
	uint32_t chosen;
};

/*
 * 0; -ENODEV: none fits, err says why of each, as far as there is room, and selected->choice of
 * all; -ENOMEM. selected->pairs is the caller's to free in every case.
 */
int connect_select(const struct inc_connect_devices *remote, const struct inc_rdma_list *local,
		   const struct connect_config *config, uint64_t counter,
		   struct connect_selected *selected, struct inc_err *err);

/* The RoCE v2 GID that a port is reached by: global, of an interface of ours; NULL: it has none. */
const struct inc_rdma_gid *connect_gid_of(const struct inc_rdma_port_info *port);

/* May a connection use the port now? */
static inline bool connect_port_active(const struct inc_rdma_port_info *port)
{
	return !port->fault.error && inc_rdma_port_is_up(port->state);
}

#endif
