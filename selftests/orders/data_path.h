/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XDP programs of the switch, compiled natively, for one communicator. Each thread of the
 * search is a CPU. Memory that CPUs share is in struct data_path. The search does not observe
 * memory that each CPU has for itself (per-CPU maps, frames).
 */
#ifndef ORDERS_DATA_PATH_H
#define ORDERS_DATA_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "search.h"
#include "selftests/unit/frame.h"

#define DATA_PATH_CHILDREN 3
#define DATA_PATH_CONNS    (DATA_PATH_CHILDREN + 1)
#define DATA_PATH_SLOTS    2
#define DATA_PATH_QUEUED   16
#define DATA_PATH_BATCH    4 /* limit of the packets between two flushes */

/* Maps that all CPUs share and write. */
struct data_path {
	struct inc_conn_state conn[DATA_PATH_CONNS];
	struct inc_comm_state comm;
	struct inc_slot slot[DATA_PATH_SLOTS];
	struct inc_buf kept[DATA_PATH_CONNS * DATA_PATH_SLOTS];
	struct inc_buf sum[DATA_PATH_SLOTS];
	struct inc_route route;
	struct inc_queue queue[SEARCH_THREADS]; /* CPU n is thread n */
	/* For each CPU: its queue in the kernel, and how many batches have begun and ended on it.
	 * The places of a queue are taken in order, and each is ready some time later. */
	struct {
		__u64 tail, ready[DATA_PATH_QUEUED];
		__u64 begun, ended;
	} cpu[SEARCH_THREADS];
};
extern struct data_path data_path;

/* Maps whose contents are fixed before the first packet. Connection c is at port (interface) c +
 * 1. */
struct data_path_cfg {
	struct inc_comm_cfg comm;
	struct inc_conn_cfg conn[DATA_PATH_CONNS];
	struct inc_root_row roots;
};
extern struct data_path_cfg data_path_cfg;

/* The outcome of the programs for a frame. */
struct data_path_outcome {
	/* INC_CTR_RX: the frame was put into the queue of another CPU */
	enum inc_counter_id counter;
	const struct frame
		/* the frame itself if the program sends it back as an answer (counter of class W);
		 * else NULL */
		*answer;
};

/* Maps memory for the frames and fills the tables. The loader sets the constants order_stores and
 * steers on a switch. If batches is set, frames that a CPU redirects leave at data_path_flush(), as
 * in the kernel at the end of a poll. Otherwise they leave at once. Returns 0 or -errno. */
int data_path_open(bool order_stores, bool steers, bool batches);
/* Lets the frames leave that this CPU has redirected since the last flush. */
void data_path_flush(void);
/* Clears the memory that CPUs have for themselves. */
void data_path_reset(void);
/* Lets the running thread's CPU receive a frame by the connection's port. Each copy that leaves is
 * passed to the test's data_path_leaves(), on the same thread. */
struct data_path_outcome data_path_receive(uint32_t conn, const struct frame *frame);
/* Lets it handle the next frame of its queue, which it waits for. Stores the frame's connection,
 * and the frame. Returns false if another CPU has left the queue (data_path_leave_queue()). */
bool data_path_serve(uint32_t *conn, const struct frame **frame, struct data_path_outcome *outcome);
/* The running thread's CPU puts nothing more into the queue of this CPU. */
void data_path_leave_queue(uint32_t cpu);
/* Waits until all batches that have begun now have ended, so what they redirected has left. */
void data_path_await_programs(void);
/* A function of the test, which is called when a frame leaves by this connection's port. */
void data_path_leaves(uint32_t conn, const struct frame *frame);
/* The number of events of this type, on all CPUs. */
unsigned int data_path_events(enum inc_event_type type);

#endif
