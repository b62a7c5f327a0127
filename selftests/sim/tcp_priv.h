/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two files of the streams share: an end of a stream, or who listens. */
#ifndef SIM_TCP_PRIV_H
#define SIM_TCP_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "tcp.h"

#define TCP_BUFFER  (64 * 1024) /* bytes under way, about */
#define TCP_BACKLOG 64

enum tcp_state { TCP_NEW, TCP_LISTENING, TCP_TRYING, TCP_UP, TCP_BROKEN };
enum tcp_sign { TCP_BYTES, TCP_END, TCP_RESET };

struct tcp_end {
	struct tcp_end *next; /* all of a run */
	enum tcp_state state;
	int fd, error; /* fd -1: closed, or not accepted yet */
	bool closed;
	bool pipe;                /* of one process: no cable in between */
	bool ended;               /* the other end says no more */
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
