/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two sockets (hostlib/connect/socket.h) on devices that are none (selftests/fake_rc/fake_rc.h),
 * and what their owners and their devices do, step by step.
 */
#ifndef SOCKET_SIDES_H
#define SOCKET_SIDES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "hostlib/connect/socket.h"
#include "hostlib/connect/socket_priv.h"
#include "lib/base/err.h"
#include "selftests/fake_rc/fake_rc.h"

/* Bytes of each part of a side's region: the longest transfer there is. */
#define AREA FAKE_MAX_MESSAGE_BYTES

enum { CLIENT, SERVICE, SIDES };
/* Of a side's region. */
enum { SOURCE, WRITTEN_BY_PEER, READ_FROM_PEER, PARTS };

struct side {
	struct inc_connect_socket *socket;
	struct inc_connect_region *region;
	uint8_t memory[PARTS][AREA];
	uint32_t sent, taken; /* messages */
	uint64_t ticket;      /* of the transfer under way; 0: none */
	enum inc_connect_direction direction;
	uint32_t size;
	uint8_t seed;
	bool closes; /* has called close() */
};

extern struct inc_rdma_device *devices[SIDES];
extern struct connect_counters *counters;
extern struct side sides[SIDES];
extern struct inc_connect_settings settings; /* of the next ones that are made */

/* Of a group of tests, and of each: small sizes, ports that are up. */
int open_fakes(void **state);
int close_fakes(void **state);
int reset_fakes(void **state);
/* Buffers, batches of ACKs and of completions, transfers under way. */
void set_sizes(uint32_t buffers, uint32_t ack_batch, uint32_t signal_batch, uint32_t transfers);
/* The same, of different kinds. */
#define N_SIZES 6
void set_sizes_of_kind(unsigned int kind);

/* ---- made and ended ------------------------------------------------------------------------- */

int make_side(int i, struct inc_err *err);
/* RTR, at once. */
int to_rtr(int i, const struct connect_info *peer, struct inc_err *err);
/* Up to the probe, which is posted. */
int begin_pair(struct inc_err *err);
void expect_event(int i, enum connect_event wanted);
void expect_no_event(int i);
void service_is_ready(void);
/* Both handed over. */
void connected(void);
/* A region of each side, whose source is filled. */
void registered(void);
void destroy_side(int i);
/* Destroys both: no object, reference or figure stays. */
void nothing_is_left(void);

struct ibv_qp *qp_of(int i);

/* ---- steps ---------------------------------------------------------------------------------- */

bool readable(int i, int timeout_ms);
/* Message n of a side: its size and its bytes. */
uint32_t message_of(int i, uint32_t n, uint8_t bytes[256]);
/* The next one, or what hinders; take_one() checks what has come, and releases it. */
int send_one(int i);
int take_one(int i);
/* Reads or writes as the number says, unless one is under way. */
void begin_transfer(int i, unsigned int random);
/* An error is final, has a story, and the descriptor tells of it. */
void check_over(int i);
/* So many steps of both sides and devices, by chance; each is checked. */
void walk(unsigned int *seed, unsigned int steps);
/* Everything that can still happen by itself. */
void settle(void);

#endif
