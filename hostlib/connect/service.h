/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations that service.c (a service) and accept.c (its clients) share. All of these run on the
 * event base's thread. */
#ifndef INC_CONNECT_SERVICE_H
#define INC_CONNECT_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "hostlib/connect/context.h"

/* Limits on the resources that clients can use, because a service does not know who they are. */
/* most clients of a service; further ones wait in the kernel's queue */
#define CONNECT_MAX_CLIENTS 512
/* most clients of one IP address; further ones are rejected */
#define CONNECT_MAX_CLIENTS_PER_PEER 256
#define CONNECT_MAX_MAKING_BYTES     (1ull << 30) /* most bytes in making_bytes */

struct sockaddr;
struct connect_accept; /* a client from its connection until its socket has an owner */
LIST_HEAD(connect_accepts, connect_accept);

struct inc_connect_service {
	struct inc_connect *ctx;
	LIST_ENTRY(inc_connect_service) entry;
	struct evconnlistener *listener;
	/* Timer that ends a pause of the listener. A pause begins when the process has run out of
	 * descriptors. */
	struct event *pause;
	bool shortage_logged; /* the log has a line about the shortage of descriptors */
	unsigned int port;
	unsigned int accept_timeout_ms;
	void (*accepted)(void *arg, struct inc_connect_socket *socket, const char *peer);
	void *arg;
	struct connect_accepts clients;
	unsigned int n_clients;
	/* memory of the sockets that are being made, so that the service's owner does not have them
	 * yet */
	uint64_t making_bytes;
};

/* Begins to serve a new client, and owns fd, its TCP connection. peer is the client's address as
 * accept() returned it, because getpeername() fails once the connection is reset. */
void connect_accept_start(struct inc_connect_service *service, int fd, const struct sockaddr *peer,
			  size_t peer_size);
/* Ends a client that has no socket yet, or whose socket has no owner. The service's owner is not
 * called. */
void connect_accept_end(struct connect_accept *client);

/* Lets the listener accept another client, because one was freed. */
void connect_service_client_ended(struct inc_connect_service *service);

#endif
