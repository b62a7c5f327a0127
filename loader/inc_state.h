/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Consistent copies of the state that the XDP programs write, for user space. The programs write at
 * any time. So these functions copy a state with the right atomics and in the right order, and
 * check that a row is of one chunk. The slow path calls these once a tick for each connection, and
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

/* Whether the next result to the peer reports congestion. The caller sends this result. */
bool inc_switch_take_becn(const struct inc_switch *sw, uint32_t conn);

/* Copies the state of a communicator. If the copy's error is set, its error_r is the chunk at which
 * the communicator ended. */
void inc_switch_read_comm(const struct inc_switch *sw, uint32_t comm, struct inc_comm_state *out);

/*
 * Finds the oldest incomplete chunk of a communicator that has contributions. Stores the chunk's
 * number, and a bit for each child whose contribution has come. False: there is no such chunk, so
 * no child waits.
 */
bool inc_switch_waiting(const struct inc_switch *sw, uint32_t comm, uint64_t *r, uint32_t *arrived);

/* The properties of a child's contribution to a chunk, or of a partial sum, without the data. */
struct inc_kept_head {
	/* fields that the result for this child repeats from its contribution */
	struct inc_mirror mirror;
	uint32_t len; /* length of the payload */
};

/* Copies the properties of a contribution. Returns 0, or -ESTALE if the row has another chunk by
 * now. In that case out is inconsistent. */
int inc_switch_read_kept(const struct inc_switch *sw, uint32_t comm, uint32_t child, uint64_t r,
			 struct inc_kept_head *out);
/*
 * Copies the data of result r of a communicator. Below the root that is the parent's result. The
 * length is INC_MAX_PAYLOAD at most. Returns 0 or -ESTALE as inc_switch_read_kept() does.
 */
int inc_switch_read_sum(const struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t *payload,
			uint32_t *len);
/* Copies partial sum r like inc_switch_read_sum(), and its properties as a message to the
 * parent. */
int inc_switch_read_partial(const struct inc_switch *sw, uint32_t comm, uint64_t r,
			    uint8_t *payload, struct inc_kept_head *out);
/* Returns a bit for each child whose descriptor or length for chunk r differs from that of the
 * first child. */
uint32_t inc_switch_read_differ(const struct inc_switch *sw, uint32_t comm, uint64_t r);

/* Sets the MAC address of a connection's peer if no address is known. If the program has learned an
 * address from the peer's frames meanwhile, that has precedence, and this does not overwrite it. */
void inc_switch_found_peer(struct inc_switch *sw, uint32_t conn, const uint8_t mac[6]);

/*
 * Whether each packet that the communicator's route has counted has been handled. Then *word is the
 * route's word at that moment. inc_switch_move_comm() with that word moves the communicator to
 * another CPU if no packet has been counted since. Between the two calls the caller waits until all
 * programs that run have ended and what they redirect has left. So all that the old CPU has sent is
 * ahead of what the new CPU sends.
 */
bool inc_switch_route_idle(const struct inc_switch *sw, uint32_t comm, uint64_t *word);
bool inc_switch_move_comm(struct inc_switch *sw, uint32_t comm, uint64_t word, uint32_t cpu);

/* Ends a communicator at chunk r. From now on the programs answer the communicator's packets with
 * this AETH syndrome. */
void inc_switch_end_comm(struct inc_switch *sw, uint32_t comm, uint64_t r, uint8_t syndrome);

#endif
