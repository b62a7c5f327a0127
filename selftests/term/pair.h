/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two devices of a switch, of any kind, with channels between them, driven by one thread. Each
 * channel end sends a stream of messages, whose lengths, immediates and bytes follow from a seed,
 * and checks what it receives, byte by byte, as it comes: in order, once, unharmed.
 */
#ifndef TERM_PAIR_H
#define TERM_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include "userspace/term/endpoint.h"

#define PAIR_PAYLOAD     1024
#define PAIR_MAX_MESSAGE 16384
#define PAIR_MESSAGES    8
#define PAIR_CHANNELS    4

struct pair_end {
	struct inc_term_channel *ch;
	struct inc_term_numbers own;
	uint64_t seed; /* of what it sends */
	struct pair_end *peer;
	uint64_t n_sent, n_done, n_got;
	uint64_t total;        /* messages to send */
	uint8_t *out;          /* PAIR_MESSAGES buffers */
	uint8_t *in;           /* likewise */
	uint32_t posted, used; /* which of them are; and ever came with a message: a bit each */
	bool stingy;           /* what comes is kept, and no receive posted again */
	bool lost;
	enum inc_term_reason reason;
	char text[200];
};

/* Where a device is. */
struct pair_place {
	const struct inc_term_endpoint_ops *ops;
	const char *ifname;
	struct in_addr ip;
	uint16_t udp_port; /* 0: any */
};

struct pair {
	struct pair_place place[2];
	uint32_t max_message_bytes[2]; /* of their channels' buffers; 0: PAIR_MAX_MESSAGE */
	struct inc_term_device *dev[2];
	unsigned int n_channels;
	struct pair_end end[2][PAIR_CHANNELS];
};

/* Opens two soft ones on 127.0.0.1, with n channels, made and not connected. */
void pair_open(struct pair *p, unsigned int n_channels, uint64_t seed);
/* The same in two places, in two steps: their devices, and channels between them. */
void pair_open_device(struct pair *p, unsigned int d, const struct pair_place *place);
void pair_make(struct pair *p, unsigned int n_channels, uint64_t seed);
/* Posts buffer m of an end again. */
void pair_post(struct pair_end *e, unsigned int m);
void pair_connect(struct pair *p);
void pair_connect_end(struct pair *p, unsigned int d, unsigned int i,
		      const struct inc_term_peer_addr *peer);
/* Where the peer of an end is. */
struct inc_term_peer_addr pair_peer(const struct pair *p, unsigned int d, unsigned int i);
void pair_close(struct pair *p);

/* Both ends of all channels are to send so many messages. */
void pair_want(struct pair *p, uint64_t messages);
/* One turn of each device: sends what it can, takes what is there. */
void pair_turn(struct pair *p);
/* Turns until all have been sent, received and acknowledged. Fails after limit_s. */
void pair_run(struct pair *p, unsigned int limit_s);
/* Turns until what() is true. Fails after some seconds. */
void pair_until(struct pair *p, bool (*what)(struct pair *p));

struct inc_term_channel_figures pair_figures(struct pair *p, unsigned int dev, unsigned int i);
struct inc_term_device_figures pair_device_figures(struct pair *p, unsigned int dev);

/* What comes out of the network (soft_net.c): chances in 1,000, of a packet. */
struct net_faults {
	unsigned int lose, repeat, delay, damage;
	unsigned int part; /* of a datagram: its packets come as datagrams of their own */
};
void net_set(const struct net_faults *faults, uint64_t seed);
/* Packets that it has lost, repeated, delayed or damaged. */
uint64_t net_done(void);

#endif
