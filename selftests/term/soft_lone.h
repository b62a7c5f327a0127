/* SPDX-License-Identifier: BSD-2-Clause */
/* A soft endpoint of a switch and its peer, which is the test: what it says is heard by turns. */
#ifndef TERM_SOFT_LONE_H
#define TERM_SOFT_LONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lib/proto/maps.h"
#include "selftests/hostlib/peer.h"
#include "userspace/term/endpoint.h"

#define PAYLOAD     256
#define MAX_MESSAGE (4 * PAYLOAD)
#define MESSAGES    4
#define PEER_PSN    0xfffffe
#define OWN_PSN     500
#define HEAR_MS     2000

struct lone {
	struct inc_term_device *dev;
	struct inc_term_channel *ch;
	struct peer peer;
	uint8_t in[MESSAGES][MAX_MESSAGE], out[MAX_MESSAGE], bytes[2 * INC_MAX_PAYLOAD];
	bool replies;             /* what comes goes back, at once */
	bool results_acknowledge; /* of the peer, when the channel is made */
	unsigned int n_got, n_sent, n_lost;
	void *last; /* message */
	uint32_t length;
	bool has_imm;
	uint32_t imm;
	enum inc_term_reason reason;
	uint32_t psn; /* the peer's next */
	/* of the next channel */
	bool se;
	enum inc_term_se peer_se;
	bool is_switch;
	uint64_t rto_max_ns; /* of the next device */
};

/* cmocka's: a device with a connected channel, all of whose receives are posted. */
int lone_setup(void **state);
int lone_teardown(void **state);
/* Another channel, for another port of the peer's. */
void lone_make(struct lone *w, bool connect, bool any_ip_id);
void lone_end(struct lone *w);
/* All of it anew. */
void lone_reopen(struct lone *w);

/* Until nothing is there that loopback has brought. */
void lone_turn(struct lone *w);
/* Lets time pass until the channel has something to say by itself; false: it has not. */
bool lone_hear(struct lone *w, struct inc_roce_packet *pkt);
/* It has nothing to say now. */
void lone_silent(struct lone *w);
/* The next thing it says is this, of the packet with that PSN. */
void lone_hears(struct lone *w, uint8_t syndrome, uint32_t psn);
/* The next things it says are ACKs, the last of which is of the packet with that PSN. */
void lone_hears_up_to(struct lone *w, uint32_t psn);
/* The peer's next packet. */
void lone_say(struct lone *w, uint8_t opcode, size_t len);

struct inc_term_device_figures lone_device(struct lone *w);
struct inc_term_channel_figures lone_figures(struct lone *w);

#endif
