/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sockets (hostlib/connect/socket.h) over the fake devices of selftests/fakes/verbs.h. The
 * functions here let the owners of the sockets and the devices do one step at a time.
 */
#ifndef SELFTESTS_CONNECT_HARNESS_SOCKET_SIDES_H
#define SELFTESTS_CONNECT_HARNESS_SOCKET_SIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"
#include "lib/base/err.h"
#include "selftests/fakes/verbs.h"

/* Bytes of each part of a side's region, which is the size of the longest transfer. */
#define AREA FAKE_VERBS_MAX_MESSAGE_BYTES

enum { CLIENT, SERVICE, SIDES };
/* The parts of a side's memory region. */
enum { SOURCE, WRITTEN_BY_PEER, READ_FROM_PEER, PARTS };

struct socket_side {
	struct inc_connect_socket *socket;
	struct inc_connect_region *region;
	uint8_t memory[PARTS][AREA];
	uint32_t sent, taken; /* numbers of messages sent to the peer and received from the peer */
	uint64_t ticket;      /* ticket of the transfer in progress; 0: there is none */
	enum inc_connect_direction direction;
	uint32_t size;
	uint8_t seed;
	bool closes; /* the owner has called close() */
};

extern struct inc_rdma_device *devices[SIDES];
extern struct connect_counters *counters;
extern struct socket_side sides[SIDES];
extern struct inc_connect_settings settings; /* settings of the sockets that are made from now on */

/* Set-up and teardown of a group of tests, and the reset before each test, which sets small sizes
 * and brings the ports up. */
int open_fakes(void **state);
int close_fakes(void **state);
int reset_fakes(void **state);
/* Sets the numbers of buffers, of receives per ACK, of sends per completion, and of transfers in
 * progress. */
void set_sizes(uint32_t buffers, uint32_t ack_batch, uint32_t signal_batch, uint32_t transfers);
/* Sets one of N_SIZES different combinations of the sizes of set_sizes(). */
#define N_SIZES 6
void set_sizes_of_kind(unsigned int kind);

/* ---- sockets are made and destroyed --------------------------------------------------------- */

int make_side(int i, struct inc_err *err);
/* Moves the queue pair of side i to RTR without delay. */
int to_rtr(int i, const struct connect_info *peer, struct inc_err *err);
/* Makes both sides and connects them up to the probe, which is posted then. */
int begin_pair(struct inc_err *err);
void expect_event(int i, enum connect_event wanted);
void expect_no_event(int i);
void service_is_ready(void);
/* Makes both sides, connects them, and hands both to their owners. */
void connected(void);
/* Registers a region on each side, and fills its source part. */
void registered(void);
void destroy_side(int i);
/* Destroys both sides, and checks that no object and no reference is left and that all gauges are
 * 0. */
void nothing_is_left(void);

struct ibv_qp *qp_of(int i);

/* ---- steps ---------------------------------------------------------------------------------- */

bool readable(int i, int timeout_ms);
/* Computes the bytes of message n of a side. Returns their number. */
uint32_t message_of(int i, uint32_t n, uint8_t bytes[256]);
/* send_one() sends a side's next message or returns the error. take_one() checks a message that has
 * arrived, and releases it. */
int send_one(int i);
int take_one(int i);
/* Begins a READ or a WRITE, as the random number decides, unless a transfer is in progress. */
void begin_transfer(int i, unsigned int random);
/* Checks that side i has failed for good: its error stays and has an explanation, and its
 * descriptor is readable. */
void check_over(int i);
/* Makes `steps` random steps of both sides and devices, and checks both sides after each step. */
void walk(unsigned int *seed, unsigned int steps);
/* Lets everything happen that can still happen without the owners. */
void settle(void);

#endif
