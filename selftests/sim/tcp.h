/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP streams between processes: bytes arrive in order, but late, in pieces or not at all. The
 * linker replaces socket(), connect(), accept4(), send(), recv(), poll() and the like with
 * functions of tcp_calls.c, for the product and libevent. Tasks call them, and the address of a
 * process is that of its machine. The seed decides how many of the requested bytes a call
 * transfers, how late bytes arrive, and when a buffer is full.
 */
#ifndef SIM_TCP_H
#define SIM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* tcp_begin() starts a run without streams. tcp_end() frees all streams after the run. */
void tcp_begin(void);
void tcp_end(void);
/* Delays all segments between this machine and others until the given time. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine disappears for good: no segment from it or to it arrives, and no peer receives a
 * reset. */
void tcp_vanish(uint32_t addr);
/* The number of open streams of this machine's processes. */
unsigned int tcp_open(uint32_t addr);

/* --- shared by tcp.c and tcp_calls.c: an end of a stream, or a listener --- */

#define TCP_BUFFER  (64 * 1024) /* approximate limit of the bytes under way in one direction */
#define TCP_BACKLOG 256

enum tcp_state { TCP_NEW, TCP_LISTENING, TCP_TRYING, TCP_UP, TCP_BROKEN };
enum tcp_sign { TCP_BYTES, TCP_END, TCP_RESET };

struct tcp_end {
	struct tcp_end *next; /* next in the list of all ends of a run */
	enum tcp_state state;
	int fd, error; /* fd: descriptor; -1: the end is closed, or not accepted yet */
	bool closed;
	bool pipe;    /* the stream is a pipe within a process, which uses no cable */
	bool ended;   /* the peer has ended its direction of the stream, so it sends no more */
	bool shut;    /* this end has ended its direction of the stream, so it sends no more */
	bool at_once; /* close() sends a reset (SO_LINGER) */
	uint32_t addr, peer_addr; /* IP addresses of this end and its peer, in network order */
	uint16_t port, peer_port;
	struct tcp_end *peer;
	/* of segments towards this end: their delay, and the arrival of the last one */
	uint64_t delay_ns, last_ns;
	size_t under_way; /* number of bytes from this end that are under way */
	uint8_t *received;
	size_t n_received;
	/* connections that this listener has not accepted yet */
	struct tcp_end *waiting[TCP_BACKLOG];
	unsigned int n_waiting;
};

struct tcp_end *tcp_new(uint32_t addr);
uint16_t tcp_free_port(void);
struct tcp_end *tcp_listener(uint32_t addr, uint16_t port);
void tcp_pair(struct tcp_end *a, struct tcp_end *b);
/* Sends bytes or a signal to the end `to`, on behalf of its peer. */
void tcp_send(struct tcp_end *to, enum tcp_sign sign, const void *bytes, size_t size);
/* Begins to connect to peer_addr and peer_port. */
void tcp_start_connect(struct tcp_end *end);
/* The functions with which task.c asks or informs the end's descriptor. */
bool tcp_readable(const void *end);
bool tcp_writable(const void *end);
void tcp_closed(void *end);

#endif
