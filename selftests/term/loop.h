/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints without a wire: the table of functions of userspace/term/endpoint.h in memory, and what
 * the peers of its channels do, which the test is. Everything that the interface says of buffers is
 * checked: none is written to that is not posted, none that is being sent from changes. Any thread
 * may play peers.
 */
#ifndef TERM_LOOP_H
#define TERM_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include "userspace/term/endpoint.h"

#define LOOP_MAX_MESSAGE 256

extern const struct inc_term_endpoint_ops loop_endpoints;

/* Forgets all channels that there have been. None may be open. */
void loop_reset(void);
/* How many devices and channels are open, and how much memory is mapped. */
struct loop_open {
	uint32_t devices, channels, maps;
};
struct loop_open loop_open(void);

/* What a peer was sent. */
struct loop_message {
	uint8_t bytes[LOOP_MAX_MESSAGE];
	uint32_t length;
	bool has_imm;
	uint32_t imm;
};

/*
 * The peer at the other end of the channel with this queue pair number.
 */
/* Sends; what comes out of it is seen by the device at its next progress(). False: it has given as
 * many as receives have been posted, and would hear RNR. Before the channel is connected it has no
 * peer: an error of the test, as everything else is that there is no reason for. */
bool loop_give(uint32_t qpn, const struct loop_message *m);
/* The next message that it was sent; false: there is none yet. */
bool loop_take(uint32_t qpn, struct loop_message *out);
/* Acknowledges the oldest that it has not yet; false: it was sent nothing else. */
bool loop_acknowledge(uint32_t qpn);
/* Its connection breaks. */
void loop_lose(uint32_t qpn, enum inc_term_reason reason);
/* The next send on it breaks it: it reports REFUSED. */
void loop_refuse_sends(uint32_t qpn);

struct loop_channel_state {
	bool open, connected;
	struct inc_term_peer_addr peer;
	struct inc_term_channel_opts opts; /* what and ctx are gone */
	uint64_t posted, given, sent, acknowledged;
	uint64_t received; /* of what was given, by the engine */
	uint8_t told;      /* the syndrome it was shut with */
	uint32_t device;
};
struct loop_channel_state loop_state(uint32_t qpn);

#endif
