/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A communicator of the termination engine on endpoints without a wire (loop.h), whose peers sum up
 * two int32s a message with each other: what they give, and that what they are sent is right.
 */
#ifndef TERM_SCENE_H
#define TERM_SCENE_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/conf/comm_conf.h"
#include "lib/proto/desc.h"
#include "userspace/term/worker.h"

#define PAYLOAD   4
#define PACKETS   64 /* of a message at most: slots are twice the window then, and no more */
#define MAX_PEERS (INC_COMM_MAX_CONNECTIONS)
#define SUM(seq)  INC_DESC(INC_COLL_ALLREDUCE, INC_OPERATOR_SUM, INC_DTYPE_INT32, 0, seq)

/* A communicator, and what its peers have done. */
struct scene {
	struct inc_term_worker *w;
	struct inc_term_comm *cm;
	struct inc_comm_conf conf;
	uint32_t n; /* connections, the parent's last where there is one */
	bool has_parent;
	uint64_t given[MAX_PEERS], taken[MAX_PEERS], acknowledged[MAX_PEERS];
	uint32_t n_told;
	struct inc_term_report report;
};

/* Communicator 12; two connections a port, and ranks in another order than connections. */
struct inc_comm_conf scene_conf(uint32_t children, uint32_t messages, bool has_parent);
/* The worker does what there is to do. */
void scene_turn(struct scene *s);
/* A worker without a communicator. */
void scene_open_worker(struct scene *s);
void scene_open(struct scene *s, uint32_t children, uint32_t messages, bool has_parent);
/* Nothing may be left behind. */
void scene_close(struct scene *s);
/* Connections are counted as in conf. */
bool scene_is_parent(const struct scene *s, uint32_t i);
uint32_t scene_qpn(const struct scene *s, uint32_t i);
/* Its next message; false: there is no receive for it. */
bool scene_give(struct scene *s, uint32_t i);
/* What it has been sent so far is taken, and must be right. */
void scene_take(struct scene *s, uint32_t i);
void scene_take_all(struct scene *s);
/* Until the next call. */
struct inc_term_view *scene_view(struct scene *s);
/* Nothing is under way: so many results have been made, and all buffers are posted. */
void scene_check_rest(struct scene *s, uint64_t messages);

#endif
