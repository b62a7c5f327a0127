/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the data path has written, as user space may see it. The programs write at any time, so a
 * state is handed out as a copy that was read with the right atomics and in the right order, and a
 * row as a copy that is checked to be of one piece. The slow path calls these once a tick for each
 * connection, the queries when they are asked; all from the daemon's one thread.
 */
#ifndef INC_STATE_H
#define INC_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/proto/peer_frame.h"
#include "lib/proto/maps.h"

struct inc_switch;

/*
 * The state of a connection. rx_next is read last, so it covers every request for an ACK that
 * the copy shows; tx_acked is read after what the child's last NAK has left.
 */
void inc_switch_read_conn(const struct inc_switch *sw, uint32_t conn, struct inc_conn_state *out);

/* The state of a communicator. Where error is set, error_r belongs to it. */
void inc_switch_read_comm(const struct inc_switch *sw, uint32_t comm, struct inc_comm_state *out);

/*
 * The oldest incomplete chunk of a communicator that has arrivals: its number and a bit per child
 * whose part is there. False where nobody waits for anybody.
 */
bool inc_switch_waiting(const struct inc_switch *sw, uint32_t comm, uint64_t *r, uint32_t *arrived);

/* What a child has given for a chunk, without its data. */
struct inc_kept_head {
	struct inc_mirror mirror; /* what the result to it repeats */
	uint32_t len;             /* payload bytes */
};

/* 0, or -ESTALE where the row holds another chunk by now: then out is not of one piece. */
int inc_switch_read_kept(const struct inc_switch *sw, uint32_t comm, uint32_t child, uint64_t r,
			 struct inc_kept_head *out);
/*
 * Result r of a communicator, below the root the parent's: its data, as many bytes as it has
 * (INC_MAX_PAYLOAD at most). 0, or -ESTALE as above.
 */
int inc_switch_read_sum(const struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t *payload,
			uint32_t *len);
/* Partial sum r in the same way, with the message that it is to the parent. */
int inc_switch_read_partial(const struct inc_switch *sw, uint32_t comm, uint64_t r,
			    uint8_t *payload, struct inc_kept_head *out);
/* The children whose call of chunk r differed from the first one's: a bit each. */
uint32_t inc_switch_read_differ(const struct inc_switch *sw, uint32_t comm, uint64_t r);

/* Where a connection's peer is, of which nothing is known. What its frames have said meanwhile
 * counts more, and is not overwritten. */
void inc_switch_found_peer(struct inc_switch *sw, uint32_t conn, const uint8_t mac[6]);

/* Ends a communicator at chunk r: from now on the programs answer with this AETH syndrome. */
void inc_switch_end_comm(struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t syndrome);

#endif
