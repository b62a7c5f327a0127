/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two devices of a switch, of any kind, with channels between them, driven by one thread. Each end
 * of a channel sends a stream of messages, whose lengths, immediates and bytes follow from a seed.
 * Each end compares what it receives byte by byte: each message must arrive once, in order and
 * intact.
 */
#ifndef SELFTESTS_TERM_HARNESS_DEVICE_PAIR_H
#define SELFTESTS_TERM_HARNESS_DEVICE_PAIR_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/channel/channel.h"

#define DEVICE_PAIR_PAYLOAD     1024
#define DEVICE_PAIR_MAX_MESSAGE 16384
#define DEVICE_PAIR_MESSAGES    8
#define DEVICE_PAIR_CHANNELS    4

struct device_pair_end {
	struct inc_channel *ch;
	struct inc_channel_own own;
	struct inc_channel_region memory; /* registered region that has both `in` and `out` */
	uint64_t seed;                    /* seed of the messages that this end sends */
	struct device_pair_end *peer;
	uint64_t n_sent, n_done, n_got;
	uint64_t total; /* number of messages that this end shall send */
	uint8_t *out;   /* DEVICE_PAIR_MESSAGES buffers for sends */
	uint8_t *in;    /* DEVICE_PAIR_MESSAGES buffers for receives */
	/* masks of receive buffers: those posted now, and those that a message has used at least
	 * once */
	uint32_t posted, used;
	bool stingy; /* this end does not post a buffer again after it was used */
	bool lost;
	enum inc_channel_reason reason;
	char text[256];
};

/* The kind and address of a device. */
struct device_pair_place {
	const struct inc_channel_ops *ops;
	const char *ifname;
	struct inc_addr ip;
	uint16_t udp_port; /* UDP port of the device; 0: any free port */
	bool everywhere;   /* the device is at all addresses, and its channels are at `ip` */
};

struct device_pair {
	struct device_pair_place place[2];
	/* buffer sizes of the two devices' channels; 0: DEVICE_PAIR_MAX_MESSAGE */
	uint32_t max_message_bytes[2];
	uint32_t payload; /* of all channels; 0: DEVICE_PAIR_PAYLOAD */
	struct inc_channel_device *dev[2];
	unsigned int n_channels;
	struct device_pair_end end[2][DEVICE_PAIR_CHANNELS];
};

/* The address of the loopback interface that device_pair_open() uses: 127.0.0.1 at first. */
extern struct inc_addr device_pair_address;

/* Opens two soft devices at that address with n channels, which are not connected yet. */
void device_pair_open(struct device_pair *p, unsigned int n_channels, uint64_t seed);
/* The same with this payload. */
void device_pair_open_with(struct device_pair *p, uint32_t payload, unsigned int n_channels,
			   uint64_t seed);
/* The two steps of device_pair_open() for given addresses: the first opens a device, and the second
 * makes channels between both devices. */
void device_pair_open_device(struct device_pair *p, unsigned int d,
			     const struct device_pair_place *place);
void device_pair_make(struct device_pair *p, unsigned int n_channels, uint64_t seed);
/* Posts receive buffer m of an end again. */
void device_pair_post(struct device_pair_end *e, unsigned int m);
void device_pair_connect(struct device_pair *p);
void device_pair_connect_end(struct device_pair *p, unsigned int d, unsigned int i,
			     const struct inc_channel_peer *peer);
/* The address of the peer of an end. */
struct inc_channel_peer device_pair_peer(const struct device_pair *p, unsigned int d,
					 unsigned int i);
void device_pair_close(struct device_pair *p);

/* Sets how many messages both ends of all channels shall send. */
void device_pair_want(struct device_pair *p, uint64_t messages);
/* Makes one turn of each device, which sends what it can and receives what has arrived. */
void device_pair_turn(struct device_pair *p);
/* Makes turns until all messages have been sent, received and acknowledged. Fails after limit_s. */
void device_pair_run(struct device_pair *p, unsigned int limit_s);
/* Makes turns until what() is true. Fails after some seconds. */
void device_pair_until(struct device_pair *p, bool (*what)(struct device_pair *p));

struct inc_channel_figures device_pair_figures(struct device_pair *p, unsigned int dev,
					       unsigned int i);
struct inc_channel_device_figures device_pair_device_figures(struct device_pair *p,
							     unsigned int dev);

#endif
