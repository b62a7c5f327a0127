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

/* Limits on the resources that unauthenticated clients can use. */
/* most clients of a service; more wait in the kernel's queue */
#define CONNECT_MAX_CLIENTS          512
#define CONNECT_MAX_CLIENTS_PER_PEER 256 /* most clients of one address; more are rejected */
#define CONNECT_MAX_MAKING_BYTES     (1ull << 30) /* most bytes in making_bytes */

struct sockaddr;
struct connect_accept; /* a client, until its socket has an owner */
LIST_HEAD(connect_accepts, connect_accept);

struct inc_connect_service {
	struct inc_connect *ctx;
	LIST_ENTRY(inc_connect_service) entry;
	struct evconnlistener *listener;
	/* timer that ends a pause of the listener after the process ran out of descriptors */
	struct event *pause;
	bool shortage_logged; /* the log has a line about that pause */
	unsigned int port;
	unsigned int accept_timeout_ms;
	void (*accepted)(void *arg, struct inc_connect_socket *socket, const char *peer);
	void *arg;
	struct connect_accepts clients;
	unsigned int n_clients;
	uint64_t making_bytes; /* memory of sockets that the service's owner does not have yet */
};

/* Serves a new client and owns fd, its TCP connection. peer is the client's address as accept()
 * returned it, because getpeername() fails once the connection is reset. */
void connect_accept_start(struct inc_connect_service *service, int fd, const struct sockaddr *peer,
			  size_t peer_size);
/* Ends a client whose socket has no owner yet, without calling the owner of the service. */
void connect_accept_end(struct connect_accept *client);

/* A client was freed, so the listener may accept another one. */
void connect_service_client_ended(struct inc_connect_service *service);

#endif
