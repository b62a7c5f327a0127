/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a comm in one process, over the devices of selftests/fake_rc: "fake0" and "fake1"
 * are the sender's rails, "fake2" and "fake3" the receiver's. A flow sends messages that say which
 * they are, and checks that each is received once, in its place.
 *
 * Whatever waits does so with a time limit, after which the test fails.
 */
#ifndef NCCL_FLOW_H
#define NCCL_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/comm.h"

#define FLOW_DEPTH      16u /* messages under way at most */
#define FLOW_MAX_BYTES  4096u
#define FLOW_TAGS       3u
#define FLOW_PATIENCE_S 20

/* ---- the process ---------------------------------------------------------------------------- */

/* Devices, by rail. */
#define FLOW_SENDER(rail)   (rail)
#define FLOW_RECEIVER(rail) (2 + (rail))

/* The settings of all tests, in the environment before the plugin is opened. */
#define FLOW_RTO_MS       1000
#define FLOW_HEARTBEAT_MS 50

extern struct ha_plugin *flow_plugin;

/* A test's set-up and its end, as cmocka calls them (state is not used): 4 devices without faults
 * and the plugin; and nothing is left. */
int flow_open(void **state);
int flow_close(void **state);

/* Lines of the log since flow_open() that have this text. */
unsigned int flow_logged(const char *text);

/* ---- a comm --------------------------------------------------------------------------------- */

struct flow_message {
	struct ha_request *request;
	uint32_t number;
};

struct flow {
	struct ha_listener *listener;
	struct ha_comm *send, *receive;
	struct ha_region *out_region, *in_region;
	uint8_t *out, *in; /* FLOW_DEPTH messages each */
	struct flow_message sending[FLOW_DEPTH], receiving[FLOW_DEPTH];
	uint32_t sent, asked, acknowledged, received; /* how many */
	int send_error, receive_error;                /* the first of a request */
	unsigned int failed;                          /* requests */
	bool quiet;                                   /* no new requests */
};

/* A listener, if flow->listener is not one already, and a comm that is up. */
void flow_connect(struct flow *flow);
/* False: an end says that there will be none. What there is of it is flow_disconnect()'s. */
bool flow_try_to_connect(struct flow *flow);
void flow_disconnect(struct flow *flow);
/* Goes on with what can go on: once. */
void flow_step(struct flow *flow);
/* Until so many messages more have been received. */
void flow_receive(struct flow *flow, unsigned int n);
/* Until nothing is under way. */
void flow_finish(struct flow *flow);
/* While the flow goes on, until so many lines of the log have the text. */
void flow_until_logged(struct flow *flow, const char *text, unsigned int n);

/* Until the sender says that it has a standby on this rail for this epoch. */
void flow_until_standby(struct flow *flow, unsigned int rail, unsigned int epoch);
/* Until each end has told of the failover to this epoch, once. */
void flow_until_failover(struct flow *flow, unsigned int epoch);
/* Until each end and each request has failed: 5 times HA_NCCL_RTO_MS at most. */
void flow_until_failed(struct flow *flow);

bool flow_is_late(uint64_t began_at_ns); /* FLOW_PATIENCE_S have passed */

#endif
