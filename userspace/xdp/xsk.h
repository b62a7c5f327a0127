/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One AF_XDP socket with its frames: bound to one receive queue of a port, it takes what
 * the XDP program hands over there, and sends. Copy mode where the driver has no
 * zero-copy.
 */
#ifndef INC_XSK_H
#define INC_XSK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include "lib/base/err.h"

struct inc_xsk;

/* frame is valid during the call only. */
typedef void (*inc_xsk_rx_fn)(const uint8_t *frame, size_t len, void *arg);

/* -EBUSY: another process has the queue's socket, or had it until a moment ago. */
int inc_xsk_open(struct event_base *base, const char *ifname, uint32_t queue, inc_xsk_rx_fn rx,
		 void *arg, struct inc_xsk **out, struct inc_err *err);
void inc_xsk_close(struct inc_xsk *x);
int inc_xsk_fd(const struct inc_xsk *x);
/* False where the kernel has unbound the socket, because its interface left the namespace. Nothing
 * brings such a socket back. */
bool inc_xsk_lives(const struct inc_xsk *x);

/* Room for one frame to send, or NULL: all are under way. */
uint8_t *inc_xsk_tx_frame(struct inc_xsk *x);
/* Queues the frame just got, len bytes of it; or gives it back with len 0. */
void inc_xsk_tx_put(struct inc_xsk *x, uint8_t *frame, size_t len);
/* Tells the kernel about what was queued. */
void inc_xsk_tx_flush(struct inc_xsk *x);

/* Receive queues of an interface, at least 1. */
uint32_t inc_rx_queues(const char *ifname);

#endif
