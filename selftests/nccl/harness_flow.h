/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Both ends of a comm in one process, over the fake devices of selftests/fakes/verbs.h. The
 * sender's rails are "fake0" and "fake1", the receiver's are "fake2" and "fake3". With
 * HA_NCCL_TRANSPORT=soft both ends are on the loopback interface, without a standby. A flow sends
 * numbered messages, and checks that each is received once and at its place.
 *
 * Every wait has a time limit, after which the test fails.
 */
#ifndef SELFTESTS_NCCL_HARNESS_FLOW_H
#define SELFTESTS_NCCL_HARNESS_FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include "hostlib/nccl/comm.h"

#define FLOW_DEPTH      16u /* greatest number of messages in flight */
#define FLOW_MAX_BYTES  4096u
#define FLOW_TAGS       3u
#define FLOW_PATIENCE_S 20
#define FLOW_POLL_US    20 /* pause of a wait between two polls in vain */

/* ---- the process ---------------------------------------------------------------------------- */

/* The number of an end's fake device for each rail. */
#define FLOW_SENDER(rail)   (rail)
#define FLOW_RECEIVER(rail) (2 + (rail))

/* Settings of all tests. They are put into the environment before the plugin is opened. */
#define FLOW_RTO_MS       1000
#define FLOW_HEARTBEAT_MS 50

extern struct ha_plugin *flow_plugin;

/* Set-up and teardown in the form that cmocka calls; `state` is not used. flow_open() makes 4
 * devices without faults and opens the plugin. flow_close() checks that no resource is left. */
int flow_open(void **state);
int flow_close(void **state);

/* How many lines of the log since flow_open() contain this text. */
unsigned int flow_logged(const char *text);

/* ---- a comm --------------------------------------------------------------------------------- */

struct flow_message {
	struct ha_request *request; /* the receive, and then its flush */
	uint32_t number;
	bool flushing;
	int bytes; /* size that the receive has reported */
};

/* The buffers of an end. The plugin gets their addresses `at`. A GPU's memory is a memfd, which is
 * not mapped there, and as `memory` the test sees what the GPU would see. */
struct flow_buffers {
	uint8_t *memory, *at;
};

struct flow {
	struct ha_listener *listener;
	struct ha_comm *send, *receive;
	struct ha_region *out_region, *in_region;
	/* buffers of the sender and the receiver, with room for FLOW_DEPTH messages each */
	struct flow_buffers out, in;
	/* The buffers are memory of a GPU, and each receive is flushed. Set before
	 * flow_connect(). */
	bool gpu;
	bool hold_flushes;      /* receives that are complete wait before their flush */
	unsigned int n_flushes; /* number of flushes that had to wait */
	struct flow_message sending[FLOW_DEPTH], receiving[FLOW_DEPTH];
	uint32_t sent, asked, acknowledged, received; /* counts of messages */
	int send_error, receive_error;                /* first error of a send and of a receive */
	unsigned int failed;                          /* number of requests that have failed */
	bool quiet;                                   /* the flow makes no new requests */
};

/* Makes a comm and waits until it is up. Creates a listener before, unless flow->listener
 * exists. */
void flow_connect(struct flow *flow);
/* Makes a comm as flow_connect() does, but returns false if an end reports an error.
 * flow_disconnect() frees what exists then. */
bool flow_try_to_connect(struct flow *flow);
void flow_disconnect(struct flow *flow);
/* Makes all the progress that is possible now. */
void flow_step(struct flow *flow);
/* Runs the flow until n further messages have been received. */
void flow_receive(struct flow *flow, unsigned int n);
/* Runs the flow until no request is in flight. */
void flow_finish(struct flow *flow);
/* Runs a quiet flow until all messages that were asked for have landed, even if the flow holds its
 * flushes. */
void flow_until_landed(struct flow *flow);
/* Runs the flow until n lines of the plugin's log contain the text. */
void flow_until_logged(struct flow *flow, const char *text, unsigned int n);

/* Runs the flow until the sender has logged a standby on this rail for this epoch. */
void flow_until_standby(struct flow *flow, unsigned int rail, unsigned int epoch);
/* Runs the flow until each end has logged the failover to this epoch, once. */
void flow_until_failover(struct flow *flow, unsigned int epoch);
/* Runs the flow until each end and each of its requests has failed, for at most 5 times
 * HA_NCCL_RTO_MS. */
void flow_until_failed(struct flow *flow);

bool flow_is_late(uint64_t began_at_ns); /* have FLOW_PATIENCE_S passed since then? */

#endif
