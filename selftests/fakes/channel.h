/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints without a wire: an implementation of lib/channel/channel.h in memory. The test plays
 * the peers of its channels. The endpoints check two rules of the interface: the engine must not
 * write to a posted buffer, and must not change a buffer that is being sent. Any thread may play
 * peers.
 */
#ifndef SELFTESTS_FAKES_CHANNEL_H
#define SELFTESTS_FAKES_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/channel/channel.h"

#define FAKE_CHANNEL_MAX_MESSAGE 256
/* the only P_Key that a channel's settings can choose, and its index */
#define FAKE_CHANNEL_PKEY       0x8001
#define FAKE_CHANNEL_PKEY_INDEX 1

extern const struct inc_channel_ops fake_channel_ops;

/* Forgets all channels. The caller has closed them before. */
void fake_channel_reset(void);
/* How many devices and channels are open, and how many regions are mapped. */
struct fake_channels_open {
	uint32_t devices, channels, maps;
};
struct fake_channels_open fake_channels_open(void);

/* A message to a peer or from a peer. */
struct fake_channel_message {
	uint8_t bytes[FAKE_CHANNEL_MAX_MESSAGE];
	uint32_t length;
	bool has_imm;
	uint32_t imm;
	uint8_t tos; /* TOS byte of the packets of a message from a peer */
};

/*
 * Calls that play the peer at the other end of the channel with this queue pair number.
 */
/* Sends a message, which the device reports at its next progress(). Returns false if no receive is
 * posted, so that a real peer would get an RNR NAK. The test fails if the channel is not connected
 * yet, and for everything else that no real peer would do. */
bool fake_channel_give(uint32_t qpn, const struct fake_channel_message *m);
/* Receives the next message for the peer. Returns false if there is none yet. */
bool fake_channel_take(uint32_t qpn, struct fake_channel_message *out);
/* Acknowledges the engine's oldest message that was not acknowledged yet. Returns false if there is
 * none. */
bool fake_channel_acknowledge(uint32_t qpn);
/* Lets the engine's oldest message time out so often. The figures count it as sent again each time,
 * and a packet of the peer between. */
void fake_channel_time_out(uint32_t qpn, unsigned int times);
/* Breaks the peer's connection. */
void fake_channel_lose(uint32_t qpn, enum inc_channel_reason reason);
/* The next send on the channel breaks it, with the reason REFUSED. */
void fake_channel_refuse_sends(uint32_t qpn);

struct fake_channel_state {
	bool open, connected;
	struct inc_channel_peer peer;
	/* options of the channel, without the handlers' data (`what` and `ctx`) and `verbs` */
	struct inc_channel_opts opts;
	uint8_t rx_tos; /* TOS byte of the peer's last message */
	/* those of the options; traffic_class is that which the engine has set last */
	struct inc_channel_verbs_settings verbs;
	uint64_t posted, given, sent, acknowledged;
	uint64_t received; /* messages of fake_channel_give() that were reported to the engine */
	uint8_t told;      /* AETH syndrome with which the engine closed the channel */
	uint32_t device;
};
struct fake_channel_state fake_channel_state(uint32_t qpn);

#endif
