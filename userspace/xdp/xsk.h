/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One AF_XDP socket with its frames, bound to one receive queue of a port. It receives what the XDP
 * program redirects to it, and sends. It uses copy mode if the driver has no zero-copy.
 */
#ifndef INC_XSK_H
#define INC_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"

struct inc_xsk;

/* A function that receives the frames of a socket. A frame is valid during the call only. */
typedef void (*inc_xsk_rx_fn)(const uint8_t *frame, size_t len, void *arg);

/* Opens a socket on a queue. Returns -EBUSY if another process has a socket on the queue, or had
 * one until a moment ago. */
int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn rx,
		 void *arg, struct inc_xsk **out, struct inc_err *err);
void inc_xsk_close(struct inc_xsk *x);
int inc_xsk_fd(const struct inc_xsk *x);
/* Whether the socket works. Returns false if the kernel has unbound it, because its interface left
 * the namespace. Such a socket cannot be bound again. */
bool inc_xsk_lives(const struct inc_xsk *x);

/* Returns the memory of a frame that is free for sending, or NULL if all frames are being sent. */
uint8_t *inc_xsk_tx_frame(struct inc_xsk *x);
/* Queues len bytes of the frame that inc_xsk_tx_frame() returned last. If len is 0, the frame is
 * free again. */
void inc_xsk_tx_put(struct inc_xsk *x, uint8_t *frame, size_t len);
/* Makes the kernel send the queued frames. */
void inc_xsk_tx_flush(struct inc_xsk *x);

/* Returns the number of an interface's receive queues, at least 1. A VLAN device has those of the
 * interface below it. */
uint32_t inc_rx_queues(const char *ifname);

#endif
