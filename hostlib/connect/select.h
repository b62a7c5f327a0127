/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Chooses a pair of ports, one of the peer and one of this machine. It only reads descriptions of
 * devices, so it may be called on any thread.
 *
 * A pair fits if both ports have the same link layer and a zone in common, and the local port is
 * active. A local Ethernet port also needs an address. The pairs that fit are sorted: InfiniBand
 * first, then by the peer's port, then by the local port. The pair at place (counter modulo number
 * of pairs) is chosen. If InfiniBand is preferred and any InfiniBand pair fits, only InfiniBand
 * pairs are counted. If no pair fits, pairs without a common zone fit, too, if the configuration
 * allows that.
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
	/* All pairs of ports, each with the reason why it was chosen or not. */
	struct inc_connect_choice choice;
	/* the array to which choice.pairs points; the caller frees it */
	struct inc_connect_pair *pairs;
	uint32_t chosen;
};

/*
 * Chooses a pair of ports. Returns 0, -ENOMEM, or -ENODEV if no pair fits. After -ENODEV
 * selected->choice has the reason of each pair, and err has as many of them as fit into its text.
 * Even after an error the caller frees selected->pairs.
 */
int connect_select(const struct inc_connect_devices *remote, const struct inc_rdma_list *local,
		   const struct connect_config *config, uint64_t counter,
		   struct connect_selected *selected, struct inc_err *err);

/* Returns the RoCE v2 GID that connections of the port use: a global address of an interface in our
 * network namespace. NULL if the port has none. */
const struct inc_rdma_gid *connect_gid_of(const struct inc_rdma_port_info *port);

/* Whether a connection can use the port now, because it is up and its attributes were read without
 * error. */
static inline bool connect_port_active(const struct inc_rdma_port_info *port)
{
	return !port->fault.error && inc_rdma_port_is_up(port->state);
}

#endif
