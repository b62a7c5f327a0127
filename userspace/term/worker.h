/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread of the termination engine, with communicators that belong to it. Only this thread uses
 * them, so none of them has a lock. The worker's thread makes calls for the daemon's thread, which
 * waits for the results.
 */
#ifndef INC_TERM_WORKER_H
#define INC_TERM_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/err.h"
#include "lib/conf/comm_conf.h"
#include "userspace/term/comm.h"

/* Time between two calls of inc_term_comm_tick(). */
#define INC_TERM_TICK_MS 250

struct inc_term_worker;

struct inc_term_worker_opts {
	const struct inc_channel_ops *const *kinds;
	uint64_t rto_min_ns, rto_max_ns;
	uint64_t poll_ns; /* longest time that a wait polls before it sleeps; 0: it does not */
	/* the function that receives the communicators' events; it is called on the worker's
	 * thread */
	inc_notice_fn notice;
	void *arg;
};

/* Creates a worker without a thread, because tests call inc_term_worker_turn() themselves. */
int inc_term_worker_new(const struct inc_term_worker_opts *opts, struct inc_term_worker **out,
			struct inc_err *err);
/* Starts the worker's thread, which then calls inc_term_worker_turn() until the end. */
int inc_term_worker_start(struct inc_term_worker *w, struct inc_err *err);
/* Ends the thread, and frees the worker and its communicators. */
void inc_term_worker_free(struct inc_term_worker *w);

/* One turn of the worker: waits for work, until until_ns (CLOCK_MONOTONIC) at the latest, and does
 * it. Called on the worker's thread. */
void inc_term_worker_turn(struct inc_term_worker *w, uint64_t until_ns);

/* Only the daemon's thread calls these functions. Each runs a function of comm.h on the worker's
 * thread, and waits for its result: add runs inc_term_comm_new(), start_comm inc_term_comm_start(),
 * and remove inc_term_comm_free(). The others run the one of the same name. */
int inc_term_worker_add(struct inc_term_worker *w, struct inc_comm_conf *conf,
			struct inc_term_comm **out, struct inc_err *err);
int inc_term_worker_start_comm(struct inc_term_worker *w, struct inc_term_comm *cm,
			       struct inc_err *err);
int inc_term_worker_connect(struct inc_term_worker *w, struct inc_term_comm *cm,
			    const struct inc_msg_peer *peer, uint32_t n, struct inc_err *err);
void inc_term_worker_remove(struct inc_term_worker *w, struct inc_term_comm *cm);
void inc_term_worker_view(struct inc_term_worker *w, const struct inc_term_comm *cm,
			  struct inc_term_view *out);
void inc_term_worker_port(struct inc_term_worker *w, struct inc_term_comm *cm, uint32_t peer,
			  enum inc_port_condition condition, const char *reason);

struct inc_channel_device_figures inc_term_worker_figures(struct inc_term_worker *w);

#endif
