/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP streams between processes: bytes arrive in order, late, completely or not at all. The linker
 * replaces socket(), connect(), accept4(), send(), recv(), poll() and the like with functions of
 * tcp_calls.c, for the product and libevent. Tasks call them, and a process' address is that of its
 * machine. The seed decides how many of the requested bytes a call transfers, how late bytes
 * arrive, and when a buffer is full.
 */
#ifndef SIM_TCP_H
#define SIM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* tcp_begin() starts a run without streams. tcp_end() frees the streams after it. */
void tcp_begin(void);
void tcp_end(void);
/* Delays all segments between this machine and others until then. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine disappears for good: nothing that it sends or is sent arrives, and no peer gets a
 * reset. */
void tcp_vanish(uint32_t addr);
/* The number of open streams of this machine's processes. */
unsigned int tcp_open(uint32_t addr);

/* --- shared by tcp.c and tcp_calls.c: an end of a stream, or a listener --- */

#define TCP_BUFFER  (64 * 1024) /* approximate limit of bytes under way */
#define TCP_BACKLOG 256

enum tcp_state { TCP_NEW, TCP_LISTENING, TCP_TRYING, TCP_UP, TCP_BROKEN };
enum tcp_sign { TCP_BYTES, TCP_END, TCP_RESET };

struct tcp_end {
	struct tcp_end *next; /* list of all ends of a run */
	enum tcp_state state;
	int fd, error; /* fd -1: closed, or not accepted yet */
	bool closed;
	bool pipe;                /* a pipe within a process, without a cable */
	bool ended;               /* the peer sends no more */
	bool shut;                /* this end sends no more */
	bool at_once;             /* closed with a reset (SO_LINGER) */
	uint32_t addr, peer_addr; /* network order */
	uint16_t port, peer_port;
	struct tcp_end *peer;
	/* towards this end: the delay, and the arrival of the last segment */
	uint64_t delay_ns, last_ns;
	size_t under_way; /* bytes sent from this end */
	uint8_t *received;
	size_t n_received;
	struct tcp_end *waiting[TCP_BACKLOG]; /* connections to be accepted */
	unsigned int n_waiting;
};

struct tcp_end *tcp_new(uint32_t addr);
uint16_t tcp_free_port(void);
struct tcp_end *tcp_listener(uint32_t addr, uint16_t port);
void tcp_pair(struct tcp_end *a, struct tcp_end *b);
/* Sends to this end, as its peer. */
void tcp_send(struct tcp_end *to, enum tcp_sign sign, const void *bytes, size_t size);
/* Begins to connect to peer_addr and peer_port. */
void tcp_start_connect(struct tcp_end *end);
/* Callbacks of the end's descriptor. */
bool tcp_readable(const void *end);
bool tcp_writable(const void *end);
void tcp_closed(void *end);

#endif
