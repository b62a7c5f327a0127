/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives access to the arrays of BPF maps, which are mapped into memory, by connection id,
 * communicator index and row. Tests use it to set states that traffic seldom causes. The daemon
 * uses the copies of inc_state.h.
 */
#ifndef INC_RAW_H
#define INC_RAW_H

#include <stdint.h>
#include "lib/proto/maps.h"

struct inc_switch;

struct inc_conn_state *inc_switch_conn_state(const struct inc_switch *sw);
struct inc_comm_state *inc_switch_comm_state(const struct inc_switch *sw);
struct inc_slot *inc_switch_slots(const struct inc_switch *sw);
struct inc_buf *inc_switch_kept(const struct inc_switch *sw);
struct inc_buf *inc_switch_sums(const struct inc_switch *sw);
struct inc_route *inc_switch_routes(const struct inc_switch *sw);
struct inc_queue *inc_switch_queues(const struct inc_switch *sw); /* by CPU */
/* Returns the word that the egress program sets if the kernel's copies of a frame share their
 * bytes. */
uint32_t *inc_switch_copies_shared(const struct inc_switch *sw);

#endif
