/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of the termination engine on endpoints without a wire (selftests/fakes/channel.h).
 * Its peers compute AllReduces of two int32 per message. The scene makes the peers' messages, and
 * checks the engine's messages to them.
 */
#ifndef SELFTESTS_TERM_FIXTURE_COMM_H
#define SELFTESTS_TERM_FIXTURE_COMM_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/proto/desc.h"
#include "userspace/term/worker.h"

#define PAYLOAD 4
/* packets in the longest message; with this number there are twice as many slots as messages in the
 * window */
#define PACKETS   64
#define MAX_PEERS (INC_COMM_MAX_CONNECTIONS)
#define SUM(seq)  INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, seq)

/* A communicator, and what its peers have done so far. */
struct scene {
	struct inc_term_worker *w;
	struct inc_term_comm *cm;
	struct inc_comm_conf conf;
	uint32_t n; /* number of connections; the parent's connection is the last */
	bool has_parent;
	uint64_t given[MAX_PEERS], taken[MAX_PEERS], acknowledged[MAX_PEERS];
	uint32_t n_told;
	struct inc_msg_event report;
};

/* Makes the configuration of communicator 12, with two connections at each port, and ranks in
 * another order than connections. */
struct inc_comm_conf scene_conf(uint32_t children, uint32_t messages, bool has_parent);
/* Makes one turn of the worker. */
void scene_turn(struct scene *s);
/* Opens a worker that has no communicator yet. */
void scene_open_worker(struct scene *s);
void scene_open(struct scene *s, uint32_t children, uint32_t messages, bool has_parent);
/* Closes the worker, and checks that no device, channel or buffer remains. */
void scene_close(struct scene *s);
/* Is connection i the one to the parent? Connections are numbered as in `conf`. */
bool scene_is_parent(const struct scene *s, uint32_t i);
uint32_t scene_qpn(const struct scene *s, uint32_t i);
/* Sends the next message of a connection's peer. Returns false if no receive is posted for it. */
bool scene_give(struct scene *s, uint32_t i);
/* Receives the messages that the engine has sent to a connection's peer so far, and checks them. */
void scene_take(struct scene *s, uint32_t i);
void scene_take_all(struct scene *s);
/* The figures of the communicator. The memory is valid until the next call. */
struct inc_term_view *scene_view(struct scene *s);
/* Checks that nothing is under way: this number of results has been made, and all buffers are
 * posted. */
void scene_check_rest(struct scene *s, uint64_t messages);

#endif
