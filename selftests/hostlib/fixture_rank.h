/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A real group and communicator (window 8, payload 1024) between a fake controller and a fake
 * switch, which the test controls.
 */
#ifndef SELFTESTS_HOSTLIB_FIXTURE_RANK_H
#define SELFTESTS_HOSTLIB_FIXTURE_RANK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "hostlib/src/internal.h"
#include "lib/roce/parse.h"
#include "selftests/fakes/controller.h"
#include "selftests/hostlib/soft_endpoint.h"

#define SWITCH_PSN 77
#define WAIT_MS    5000
#define LIMIT_S    40 /* time limit for a whole test program, so that a deadlock ends it */

struct rank_fixture {
	struct fake_controller controller;
	struct rc_peer peer;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char conn[512];
	const char *answers[6];
	int32_t data[2][4];
	bool curious; /* the log callback calls the library */
	unsigned int lines;
	char seen[512]; /* the communicator's error, as the log callback read it */
	char seen_group[512];
};

/* A rank whose communicator has two channels, each with a peer at the switch. */
struct wide {
	struct rank_fixture fx;
	struct rc_peer second; /* the peer of channel 1 */
	char conn[2][512];
	const char *answers[16];
	unsigned int channels;
	char why[256];
	int32_t numbers[128];
};

#define FURTHER   "134217728" /* comm of channel 1 */
#define STARTED_2 "{\"type\":\"start\",\"communicator\":13}\n"
/* answers to all that a rank says at the end of its communicator */
#define LEFT "{\"type\":\"D\",\"communicator\":13}\n{\"type\":\"D\",\"communicator\":12}\n"

/* A thread that waits for a request without a limit. */
struct waiter {
	pthread_t thread;
	struct inccl_request *req;
	int result;
};

/* Set-up and teardown of a cmocka test. rank_setup(): elements are little endian on the wire.
 * rank_setup_network(): they are in network order. */
int rank_setup(void **state);
int rank_setup_network(void **state);
int rank_teardown(void **state);

/* Starts an AllReduce of data[i] in place, and returns its request. */
struct inccl_request *rank_start(struct rank_fixture *fx, unsigned int i);
/* Lets the switch receive contribution r. */
void rank_receive(struct rank_fixture *fx, struct inc_roce_packet *pkt, unsigned int r);
/* Lets the switch receive the ACK of the results up to r. */
void rank_receive_ack(struct rank_fixture *fx, unsigned int r);
/* Destroys the communicator, which must return `want`. */
void rank_destroy(struct rank_fixture *fx, int want);
/* Whether the rank has sent this text to the controller. */
bool rank_reported(struct rank_fixture *fx, const char *text);
void waiter_start(struct waiter *t, struct inccl_request *req);

/* Waits until the condition is true. The condition is evaluated under the communicator's lock. */
void rank_until(struct rank_fixture *fx, bool (*condition)(struct inccl_communicator *));
bool thread_drives(struct inccl_communicator *comm);
bool waiter_sleeps(struct inccl_communicator *comm);

/* Set-up and teardown of a cmocka test with a struct wide, whose communicator is not created yet.
 */
int wide_setup(void **state);
int wide_teardown(void **state);
/* Creates the communicator. third and fourth: the answers about channel 1; NULL: channel 1 is
 * created as well. */
int wide_up(struct wide *w, const char *third, const char *fourth);
/* Creates the communicator with both channels and connects their peers. */
void wide_connect(struct wide *w);
/* How many channels the communicator has. */
unsigned int channels_of(struct inccl_communicator *comm);

#endif
