/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A real group and communicator (window 8, payload 1024) between a controller and a switch that do
 * what the case wants.
 */
#ifndef SELFTESTS_WORLD_H
#define SELFTESTS_WORLD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/src/internal.h"
#include "lib/roce/parse.h"
#include "selftests/hostlib/fake.h"
#include "selftests/hostlib/peer.h"

#define SWITCH_PSN 77
#define WAIT_MS    5000
#define LIMIT_S    40 /* for all cases of a program: a deadlock ends it */

struct world {
	struct fake fake;
	struct peer peer;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char conn[512];
	const char *answers[6];
	int32_t data[2][4];
	bool curious; /* the log callback asks back */
	unsigned int lines;
	char seen[512]; /* what the log callback was told of the communicator's error */
	char seen_group[512];
};

/* In another thread: waits for a request without end. */
struct waiter {
	pthread_t thread;
	struct inccl_request *req;
	int result;
};

/* Of a cmocka case. Elements are little endian on the wire, or in network order. */
int world_setup(void **state);
int world_setup_network(void **state);
int world_teardown(void **state);

/* An AllReduce of data[i] in place. */
struct inccl_request *world_start(struct world *w, unsigned int i);
/* The switch hears contribution r. */
void world_hear(struct world *w, struct inc_roce_packet *pkt, unsigned int r);
/* The switch hears that the results up to r are there. */
void world_hear_ack(struct world *w, unsigned int r);
void waiter_start(struct waiter *t, struct inccl_request *req);

/* Until the communicator, looked at under its lock, is like that. */
void world_until(struct world *w, bool (*condition)(struct inccl_communicator *));
bool thread_drives(struct inccl_communicator *comm);
bool waiter_sleeps(struct inccl_communicator *comm);

#endif
