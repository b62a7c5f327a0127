/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of the termination engine on endpoints without a wire (loop.h). Its peers compute
 * AllReduces of two int32 per message. The scene makes their messages, and checks what they are
 * sent.
 */
#ifndef TERM_SCENE_H
#define TERM_SCENE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/proto/desc.h"
#include "userspace/term/worker.h"

#define PAYLOAD   4
#define PACKETS   64 /* in the longest message: slots are then twice the window */
#define MAX_PEERS (INC_COMM_MAX_CONNECTIONS)
#define SUM(seq)  INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, seq)

/* A communicator, and what its peers have done so far. */
struct scene {
	struct inc_term_worker *w;
	struct inc_term_comm *cm;
	struct inc_comm_conf conf;
	uint32_t n; /* connections, of which a parent's is the last */
	bool has_parent;
	uint64_t given[MAX_PEERS], taken[MAX_PEERS], acknowledged[MAX_PEERS];
	uint32_t n_told;
	struct inc_msg_event report;
};

/* Makes the configuration of communicator 12, with two connections at each port, and ranks in
 * another order than connections. */
struct inc_comm_conf scene_conf(uint32_t children, uint32_t messages, bool has_parent);
/* Runs the worker once. */
void scene_turn(struct scene *s);
/* Opens a worker without a communicator. */
void scene_open_worker(struct scene *s);
void scene_open(struct scene *s, uint32_t children, uint32_t messages, bool has_parent);
/* Closes all, and checks that no device, channel or buffer is left. */
void scene_close(struct scene *s);
/* Connection i is numbered as in conf. */
bool scene_is_parent(const struct scene *s, uint32_t i);
uint32_t scene_qpn(const struct scene *s, uint32_t i);
/* Gives the connection's next message; false: no receive is posted for it. */
bool scene_give(struct scene *s, uint32_t i);
/* Receives what the connection's peer has been sent so far, and checks it. */
void scene_take(struct scene *s, uint32_t i);
void scene_take_all(struct scene *s);
/* The figures of the communicator, valid until the next call. */
struct inc_term_view *scene_view(struct scene *s);
/* Checks that nothing is under way: this number of results has been made, and all buffers are
 * posted. */
void scene_check_rest(struct scene *s, uint64_t messages);

#endif
