/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fakes of RDMA devices and of connection sockets. They replace lib/rdma/inventory.h and
 * hostlib/connect/socket.h. Both ends of a connection are in one process. The test decides what
 * calls fail, what messages are lost, and what events arrive.
 */
#ifndef FAKE_DEVICES_H
#define FAKE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>
#include "lib/rdma/info.h"

/* The devices that a context finds: `n` devices "fake0", "fake1", ..., each with one Ethernet port
 * at 10.9.DEVICE.1. After a change the test calls fake_devices_changed(), which notifies the
 * contexts. */
extern struct fake_devices {
	unsigned int n;
	bool down; /* the devices' ports are down */
	bool shut; /* the devices are listed, but cannot be opened */
} fake_devices;

void fake_devices_reset(void);
/* Makes the descriptors of all inventories readable, so that contexts refresh their lists of
 * devices. */
void fake_devices_changed(void);

/* The calls of hostlib/connect/socket.h, in the order in which a connection makes them. */
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
	/* For each kind of call: the n-th call from now on fails with `error` (1: the next call);
	 * 0: no call fails. */
	unsigned int fail_in[FAKE_N_CALLS];
	int error;
	bool lose_probe;      /* the probe is lost, and neither side gets an event */
	bool hold_rtr;        /* steps to RTR that begin from now on wait for fake_rtr_go_on() */
	bool lose_completion; /* the message arrives, but its sender gets no completion */
	unsigned int alive;   /* number of sockets that were created and not destroyed */
	/* numbers of sockets that were handed to an owner in state READY [0] and CLOSED [1] */
	unsigned int handed[2];
} fake_sockets;

void fake_sockets_reset(void);

struct inc_connect_socket;
/* Plays an owner that closes this end. The peer gets PEER_CLOSED. */
void fake_socket_close(struct inc_connect_socket *socket);
/* fake_rtr_waiting() returns the number of steps to RTR that wait, each in its own thread.
 * fake_rtr_go_on() lets n more steps continue, in the order of their arrival, also those that
 * arrive later. */
unsigned int fake_rtr_waiting(void);
void fake_rtr_go_on(unsigned int n);
/* Makes every existing socket fail with fake_sockets.error. */
void fake_sockets_break(void);

#endif
