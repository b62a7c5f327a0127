/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices and sockets (lib/rdma/inventory.h, hostlib/connect/socket.h) of this process's own, in
 * the place of the real ones: both ends of a connection are in one process, and what fails, gets
 * lost or comes is the test's to say.
 */
#ifndef FAKE_DEVICES_H
#define FAKE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/info.h"

/* What a context finds: one Ethernet port of each of so many devices, "fake0" and so on, with the
 * address 10.9.DEVICE.1. The devices' reports are told by fake_devices_changed(). */
extern struct fake_devices {
	unsigned int n;
	bool down; /* their ports are */
	bool shut; /* they cannot be had, though they are listed */
} fake_devices;

void fake_devices_reset(void);
/* All inventories' descriptors are readable: they have something to say. */
void fake_devices_changed(void);

/* Calls of hostlib/connect/socket.h, in the order of a connection. */
enum fake_call {
	FAKE_MAKE,
	FAKE_AIM,
	FAKE_ENTER_RTR,
	FAKE_POST_RECEIVES,
	FAKE_TO_RTS,
	FAKE_PROBE,
	FAKE_N_CALLS
};

extern struct fake_sockets {
	/* The n-th such call from now on (1: the next) fails so; 0: none does. */
	unsigned int fail_in[FAKE_N_CALLS];
	int error;
	bool lose_probe;        /* it gets nowhere, and nobody hears of it */
	bool hold_rtr;          /* steps to RTR begun from now on wait for fake_rtr_go_on() */
	bool lose_completion;   /* it arrives, which its sender never hears */
	unsigned int alive;     /* made, and not destroyed */
	unsigned int handed[2]; /* over, as READY and as CLOSED */
} fake_sockets;

void fake_sockets_reset(void);

struct inc_connect_socket;
/* The owner's end: its peer's hears PEER_CLOSED. */
void fake_socket_close(struct inc_connect_socket *socket);
/* How many steps to RTR wait, each a thread; and lets so many more go on, the first ones first and
 * those that come later too. */
unsigned int fake_rtr_waiting(void);
void fake_rtr_go_on(unsigned int n);
/* Something is wrong with every socket there is: they fail with fake_sockets.error. */
void fake_sockets_break(void);

#endif
