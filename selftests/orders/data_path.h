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

/* Maps that all CPUs share and write. */
struct data_path {
	struct inc_conn_state conn[DATA_PATH_CONNS];
	struct inc_comm_state comm;
	struct inc_slot slot[DATA_PATH_SLOTS];
	struct inc_buf kept[DATA_PATH_CONNS * DATA_PATH_SLOTS];
	struct inc_buf sum[DATA_PATH_SLOTS];
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
	enum inc_counter_id counter;
	const struct frame
		/* the frame itself if the program sends it back as an answer (counter of class W);
		 * else NULL */
		*answer;
};

/* Maps memory for the frames and fills the tables. order_stores: the value of inc_order_stores,
 * which the loader sets on a switch. Returns 0 or -errno. */
int data_path_open(bool order_stores);
/* Clears the memory that CPUs have for themselves. */
void data_path_reset(void);
/* Lets the running thread's CPU receive a frame by the connection's port. Each copy that leaves is
 * passed to the test's data_path_leaves(), on the same thread. */
struct data_path_outcome data_path_receive(uint32_t conn, const struct frame *frame);
/* A function of the test, which is called when a frame leaves by this connection's port. */
void data_path_leaves(uint32_t conn, const struct frame *frame);
/* The number of events of this type, on all CPUs. */
unsigned int data_path_events(enum inc_event_type type);

#endif
