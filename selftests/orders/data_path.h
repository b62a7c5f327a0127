/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The XDP programs of the switch, compiled natively, for one communicator: each thread of the
 * search is a CPU. What CPUs share is in struct data_path; what each has for itself (per-CPU maps,
 * frames) is not seen by the search.
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

/* Maps that CPUs share and write. */
struct data_path {
	struct inc_conn_state conn[DATA_PATH_CONNS];
	struct inc_comm_state comm;
	struct inc_slot slot[DATA_PATH_SLOTS];
	struct inc_buf kept[DATA_PATH_CONNS * DATA_PATH_SLOTS];
	struct inc_buf sum[DATA_PATH_SLOTS];
};
extern struct data_path data_path;

/* Maps that are filled before the first packet. Connection c is at port (interface) c + 1. */
struct data_path_cfg {
	struct inc_comm_cfg comm;
	struct inc_conn_cfg conn[DATA_PATH_CONNS];
	struct inc_root_row roots;
};
extern struct data_path_cfg data_path_cfg;

/* What became of a frame. */
struct data_path_outcome {
	enum inc_counter_id counter;
	const struct frame
		*answer; /* the frame itself, where the counter is of class W; else NULL */
};

/* Maps the frames, fills the tables. order_stores: as the loader sets inc_order_stores. 0 or
 * -errno. */
int data_path_open(bool order_stores);
/* Empties what the CPUs have for themselves. */
void data_path_reset(void);
/* The running thread's CPU gets a frame from the connection's port. A copy that leaves is given to
 * the caller of data_path_open() by data_path_leaves(), on the same thread. */
struct data_path_outcome data_path_receive(uint32_t conn, const struct frame *frame);
/* What the test does with a frame that leaves for this connection's port. */
void data_path_leaves(uint32_t conn, const struct frame *frame);
/* Events of this type on all CPUs. */
unsigned int data_path_events(enum inc_event_type type);

#endif
