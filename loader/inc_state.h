/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consistent copies of the state that the XDP programs write, for user space. The programs write
 * at any time. So a state is copied with the right atomics and in the right order, and a row is
 * checked to be of one chunk. The slow path calls these once a tick for each connection, and
 * queries call them, all on the daemon's one thread.
 */
#ifndef INC_STATE_H
#define INC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/proto/peer_frame.h"
#include "lib/proto/maps.h"

struct inc_switch;

/*
 * Copies the state of a connection. rx_next is read last, so it includes every packet that
 * requested an ACK in the copy. tx_acked is read after the members that a NAK of the child sets.
 */
void inc_switch_read_conn(const struct inc_switch *sw, uint32_t conn, struct inc_conn_state *out);

/* Copies the state of a communicator. If error is set, error_r belongs to it. */
void inc_switch_read_comm(const struct inc_switch *sw, uint32_t comm, struct inc_comm_state *out);

/*
 * The oldest incomplete chunk of a communicator that has contributions: its number, and a bit for
 * each child whose contribution has come. False: no such chunk, so no child waits.
 */
bool inc_switch_waiting(const struct inc_switch *sw, uint32_t comm, uint64_t *r, uint32_t *arrived);

/* The contribution of a child to a chunk, without its data. */
struct inc_kept_head {
	struct inc_mirror mirror; /* repeated by the result to the child */
	uint32_t len;             /* payload bytes */
};

/* 0, or -ESTALE if the row has another chunk by now; then out is inconsistent. */
int inc_switch_read_kept(const struct inc_switch *sw, uint32_t comm, uint32_t child, uint64_t r,
			 struct inc_kept_head *out);
/*
 * Copies the data of result r of a communicator; below the root it is the parent's result. The
 * length is INC_MAX_PAYLOAD at most. 0, or -ESTALE like above.
 */
int inc_switch_read_sum(const struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t *payload,
			uint32_t *len);
/* Copies partial sum r in the same way, with its form as a message to the parent. */
int inc_switch_read_partial(const struct inc_switch *sw, uint32_t comm, uint64_t r,
			    uint8_t *payload, struct inc_kept_head *out);
/* A bit for each child whose descriptor or length for chunk r differs from the first child's. */
uint32_t inc_switch_read_differ(const struct inc_switch *sw, uint32_t comm, uint64_t r);

/* Sets the MAC address of a connection's peer if it is not known. An address that was learned
 * from the peer's frames meanwhile has precedence and is not overwritten. */
void inc_switch_found_peer(struct inc_switch *sw, uint32_t conn, const uint8_t mac[6]);

/* Ends a communicator at chunk r: from now on the programs answer its packets with this AETH
 * syndrome. */
void inc_switch_end_comm(struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t syndrome);

#endif
