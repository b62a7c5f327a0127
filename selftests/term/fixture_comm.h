/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of the termination engine on endpoints without a wire (selftests/fakes/channel.h).
 * Its peers compute AllReduces of two int32 per message. The fixture makes the peers' messages, and
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
struct comm_fixture {
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
struct inc_comm_conf comm_conf(uint32_t children, uint32_t messages, bool has_parent);
/* Makes one turn of the worker. */
void comm_turn(struct comm_fixture *fx);
/* Opens a worker that has no communicator yet. */
void comm_open_worker(struct comm_fixture *fx);
void comm_open(struct comm_fixture *fx, uint32_t children, uint32_t messages, bool has_parent);
/* Closes the worker, and checks that no device, channel or buffer remains. */
void comm_close(struct comm_fixture *fx);
/* Is connection i the one to the parent? Connections are numbered as in `conf`. */
bool comm_is_parent(const struct comm_fixture *fx, uint32_t i);
uint32_t comm_qpn(const struct comm_fixture *fx, uint32_t i);
/* Sends the next message of a connection's peer. Returns false if no receive is posted for it. */
bool comm_give(struct comm_fixture *fx, uint32_t i);
/* Receives the messages that the engine has sent to a connection's peer so far, and checks them. */
void comm_take(struct comm_fixture *fx, uint32_t i);
void comm_take_all(struct comm_fixture *fx);
/* The figures of the communicator. The memory is valid until the next call. */
struct inc_term_view *comm_view(struct comm_fixture *fx);
/* Checks that nothing is under way: this number of results has been made, and all buffers are
 * posted. */
void comm_check_rest(struct comm_fixture *fx, uint64_t messages);

#endif
