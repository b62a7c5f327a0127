/* SPDX-License-Identifier: BSD-2-Clause */
/* A service (service.c) and its clients (accept.c), for each other. The event base's thread. */
#ifndef INC_CONNECT_SERVICE_H
#define INC_CONNECT_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "hostlib/connect/context.h"

/* What anybody out there can cause. */
#define CONNECT_MAX_CLIENTS          512 /* at once; further ones wait in the kernel's queue */
#define CONNECT_MAX_CLIENTS_PER_PEER 256 /* of one address; further ones are refused */
#define CONNECT_MAX_MAKING_BYTES     (1ull << 30) /* of making_bytes */

struct sockaddr;
struct connect_accept; /* a client, from its TCP connection to its socket */
LIST_HEAD(connect_accepts, connect_accept);

struct inc_connect_service {
	struct inc_connect *ctx;
	LIST_ENTRY(inc_connect_service) entry;
	struct evconnlistener *listener;
	struct event *rest;   /* while the listener pauses, for want of descriptors */
	bool shortage_logged; /* the log has said so */
	unsigned int port;
	unsigned int accept_timeout_ms;
	void (*accepted)(void *arg, struct inc_connect_socket *socket, const char *peer);
	void *arg;
	struct connect_accepts clients;
	unsigned int n_clients;
	uint64_t making_bytes; /* of the sockets that are not accepted yet */
};

/* Takes over the connected socket. peer: the other end's address, as accept() has said it; the
 * socket cannot be asked for it once the connection is reset. */
void connect_accept_start(struct inc_connect_service *service, int fd, const struct sockaddr *peer,
			  size_t peer_size);
/* Ends a client that is not accepted, and tells it nothing. */
void connect_accept_end(struct connect_accept *client);

/* A client has left: there is room for another one. */
void connect_service_left(struct inc_connect_service *service);

#endif
