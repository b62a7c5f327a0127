/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Streams between processes, as TCP has them: in order, late, whole or not at all. The linker puts
 * what is in tcp.c in the place of socket(), connect(), accept4(), send(), recv(), poll() and their
 * like, for the product and for libevent. Called from tasks; a process' address is its machine's.
 * How much of what is asked for a call gives, how late it is there and when a buffer is full come
 * from the seed.
 */
#ifndef SIM_TCP_H
#define SIM_TCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "task.h"

/* Before a run: no stream is there. After it: what streams held is free. */
void tcp_begin(void);
void tcp_end(void);
/* Nothing gets through between this machine and others until then: it comes late. */
void tcp_cut(uint32_t addr, uint64_t until_ns);
/* The machine is gone for good: nothing of what it has, or is sent, arrives, and nobody is told. */
void tcp_vanish(uint32_t addr);
/* Streams of this machine's processes that are open. */
unsigned int tcp_open(uint32_t addr);

/* --- shared by tcp.c and tcp_calls.c: an end of a stream, or a listener --- */

#define TCP_BUFFER  (64 * 1024) /* bytes under way, about */
#define TCP_BACKLOG 256

enum tcp_state { TCP_NEW, TCP_LISTENING, TCP_TRYING, TCP_UP, TCP_BROKEN };
enum tcp_sign { TCP_BYTES, TCP_END, TCP_RESET };

struct tcp_end {
	struct tcp_end *next; /* all of a run */
	enum tcp_state state;
	int fd, error; /* fd -1: closed, or not accepted yet */
	bool closed;
	bool pipe;                /* of one process: no cable in between */
	bool ended;               /* the other end sends no more */
	bool shut;                /* this one does not */
	bool at_once;             /* closed without a good-bye (SO_LINGER) */
	uint32_t addr, peer_addr; /* network order */
	uint16_t port, peer_port;
	struct tcp_end *peer;
	uint64_t delay_ns, last_ns; /* to here: a way, and when what was sent last is there */
	size_t under_way;           /* from here */
	uint8_t *received;
	size_t n_received;
	struct tcp_end *waiting[TCP_BACKLOG]; /* to be accepted */
	unsigned int n_waiting;
};

struct tcp_end *tcp_new(uint32_t addr);
uint16_t tcp_free_port(void);
struct tcp_end *tcp_listener(uint32_t addr, uint16_t port);
void tcp_pair(struct tcp_end *a, struct tcp_end *b);
/* From the end's peer. */
void tcp_send(struct tcp_end *to, enum tcp_sign sign, const void *bytes, size_t size);
/* Begins to connect to peer_addr and peer_port. */
void tcp_knock(struct tcp_end *end);
/* Of its descriptor. */
bool tcp_readable(const void *end);
bool tcp_writable(const void *end);
void tcp_closed(void *end);

#endif
