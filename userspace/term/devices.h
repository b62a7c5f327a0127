/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices of one worker, which its communicators share. The worker waits here only: until a
 * packet arrives, a device's timer expires, or another thread calls. Only the worker's thread calls
 * these functions.
 */
#ifndef INC_TERM_DEVICES_H
#define INC_TERM_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/base/addr.h"
#include "lib/base/err.h"
#include "lib/channel/channel.h"
#include "lib/proto/roce.h"

struct inc_term_devices;

struct inc_term_devices_opts {
	const struct inc_channel_handler *handler;
	uint64_t rto_min_ns, rto_max_ns;
	uint64_t poll_ns; /* longest time that a wait polls before it sleeps; 0: it does not */
};

/* Creates the object. wake_fd: a descriptor that is readable when another thread calls the worker.
 * The caller closes wake_fd. */
int inc_term_devices_new(const struct inc_term_devices_opts *opts, int wake_fd,
			 struct inc_term_devices **out, struct inc_err *err);
/* Frees the object, after the last inc_term_devices_put(). */
void inc_term_devices_free(struct inc_term_devices *d);

/*
 * A device that a communicator wants: its kind, port and address. If devices of the kind serve all
 * ports, channels of all ports with addresses of one family share one device. It must receive at
 * the UDP port udp_port. 0: at RoCEv2's port if that is free, else at any.
 */
struct inc_term_device_want {
	const struct inc_channel_ops *ops;
	const char *ifname;
	struct inc_addr own_ip;
	uint16_t udp_port;
};
int inc_term_devices_get(struct inc_term_devices *d, const struct inc_term_device_want *want,
			 struct inc_channel_device **out, struct inc_err *err);
/* Releases a device, once for each call of inc_term_devices_get(). The last call closes it. */
void inc_term_devices_put(struct inc_term_devices *d, struct inc_channel_device *dev);

/*
 * Waits for work of the devices, until until_ns (CLOCK_MONOTONIC) at the latest, and does this
 * work. Returns whether wake_fd is readable.
 */
bool inc_term_devices_turn(struct inc_term_devices *d, uint64_t until_ns);
/* Sends the packets that all devices have queued since the last flush. */
void inc_term_devices_flush(struct inc_term_devices *d);

/* Returns the counters of packets that belonged to no channel, summed over all devices, also those
 * that are closed now. */
struct inc_channel_device_figures inc_term_devices_figures(const struct inc_term_devices *d);

#endif
