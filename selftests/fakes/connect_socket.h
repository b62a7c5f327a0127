/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connection sockets without devices. They replace the functions of hostlib/connect/socket.h. Both
 * ends of a connection are in one process, which joins them by their queue pair numbers. The test
 * decides what calls fail, what messages are lost, and what events arrive. No bytes are
 * transferred.
 */
#ifndef SELFTESTS_FAKES_CONNECT_SOCKET_H
#define SELFTESTS_FAKES_CONNECT_SOCKET_H

#include <stdbool.h>

/* The calls of hostlib/connect/socket.h, in the order in which a connection makes them. */
enum fake_socket_call {
	FAKE_SOCKET_MAKE,
	FAKE_SOCKET_AIM,
	FAKE_SOCKET_ENTER_RTR,
	FAKE_SOCKET_POST_RECEIVES,
	FAKE_SOCKET_TO_RTS,
	FAKE_SOCKET_PROBE,
	FAKE_SOCKET_N_CALLS
};

extern struct fake_sockets {
	/* For each kind of call: the n-th call from now on fails with `error` (1: the next call);
	 * 0: no call fails. */
	unsigned int fail_in[FAKE_SOCKET_N_CALLS];
	int error;
	bool lose_probe; /* the probe is lost, and neither side gets an event */
	bool hold_rtr;   /* steps to RTR that begin from now on wait for fake_sockets_rtr_go_on() */
	bool lose_completion; /* the message arrives, but its sender gets no completion */
	unsigned int alive;   /* number of sockets that were created and not destroyed */
	/* numbers of sockets that were handed to an owner in state READY [0] and CLOSED [1] */
	unsigned int handed[2];
} fake_sockets;

void fake_sockets_reset(void);

struct inc_connect_socket;
/* Plays an owner that closes this end. The peer gets PEER_CLOSED. */
void fake_socket_close(struct inc_connect_socket *socket);
/* fake_sockets_rtr_waiting() returns the number of steps to RTR that wait, each in its own thread.
 * fake_sockets_rtr_go_on() lets n more steps continue, in the order of their arrival, also those
 * that arrive later. */
unsigned int fake_sockets_rtr_waiting(void);
void fake_sockets_rtr_go_on(unsigned int n);
/* Makes every existing socket fail with fake_sockets.error. */
void fake_sockets_break(void);

#endif
