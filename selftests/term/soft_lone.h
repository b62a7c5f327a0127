/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft endpoint of a switch with a single peer. The test plays this peer: it sends packets and
 * checks the endpoint's answers. Their sockets and their clock are those of memory_os.c. */
#ifndef TERM_SOFT_LONE_H
#define TERM_SOFT_LONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/channel/channel.h"
#include "lib/proto/maps.h"
#include "selftests/fakes/memory_os.h"
#include "selftests/fakes/rc_peer.h"

#define PAYLOAD     256
#define MAX_MESSAGE (4 * PAYLOAD)
#define MESSAGES    4
#define PEER_PSN    0xfffffe
#define OWN_PSN     500
#define RECEIVE_MS  2000

struct lone {
	struct inc_channel_device *dev;
	struct inc_channel *ch;
	struct rc_peer peer;
	uint8_t in[MESSAGES][MAX_MESSAGE], out[MAX_MESSAGE], bytes[2 * INC_MAX_PAYLOAD];
	bool replies; /* the endpoint sends each message back at once */
	/* the peer's messages acknowledge results; set when the channel is made */
	bool results_acknowledge;
	unsigned int n_got, n_sent, n_lost;
	void *last; /* buffer of the last message that the endpoint has received */
	uint32_t length;
	bool has_imm;
	uint32_t imm;
	enum inc_channel_reason reason;
	/* the reason for which the channel was lost */
	char text[sizeof(((struct inc_channel_loss *)0)->text)];
	uint32_t psn; /* PSN of the peer's next packet */
	/* options of the next channel that is made */
	bool se;
	enum inc_channel_se peer_se;
	bool is_switch;
	uint64_t rto_max_ns; /* longest retransmission timeout of the next device that is opened */
};

/* Set-up for cmocka: opens a device with a connected channel, and posts all its receives.
 * lone_setup_kernel(): the kernel's sockets and clock. */
int lone_setup(void **state);
int lone_setup_kernel(void **state);
int lone_teardown(void **state);
/* Makes another channel, whose peer has another port. */
void lone_make(struct lone *w, bool connect, bool any_ip_id);
void lone_end(struct lone *w);
/* Closes the device and the channel, and opens new ones. */
void lone_reopen(struct lone *w);

/* Runs the device until it has read all that has arrived. */
void lone_turn(struct lone *w);
/* Lets time pass until the channel sends a packet by itself; false: it sends none. */
bool lone_receive(struct lone *w, struct inc_roce_packet *pkt);
/* Checks that the channel sends nothing now. */
void lone_silent(struct lone *w);
/* Checks that the next packet of the channel has this syndrome and PSN. */
void lone_expect(struct lone *w, uint8_t syndrome, uint32_t psn);
/* Sends the peer's next packet. */
void lone_send(struct lone *w, uint8_t opcode, size_t len);

struct inc_channel_device_figures lone_device(struct lone *w);
struct inc_channel_figures lone_figures(struct lone *w);

#endif
