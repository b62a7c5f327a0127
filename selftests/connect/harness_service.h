/* SPDX-License-Identifier: BSD-2-Clause */
/* A harness for tests of libinc_connect: a context with its event base, a service in it, and TCP
 * clients of the test, all in one thread. The harness runs the loop until the awaited condition is
 * true. */
#ifndef SELFTESTS_CONNECT_HARNESS_SERVICE_H
#define SELFTESTS_CONNECT_HARNESS_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include "hostlib/include/inc_connect.h"

#define SERVICE_PATIENCE_MS 20000

struct event_base;

extern struct service_harness {
	struct event_base *base;
	struct inc_connect *ctx;
	struct inc_connect_service *service;
	char address[32]; /* the service's address, "127.0.0.1:PORT" */
	unsigned int accepted;
	struct inc_connect_socket *sockets[128]; /* sockets that the service has accepted */
	char peer[INC_CONNECT_HOST_SIZE]; /* address of the peer of the last accepted socket */
	void (*then)(void);               /* function to call at the end of the accept callback */
	unsigned int lines;               /* number of lines in the log */
	char line[512];                   /* the last line of the log */
} service_harness;

/* Makes a context with `devices` fake devices and a service. The service keeps the sockets that it
 * accepts. */
void service_begin(unsigned int devices, unsigned int accept_timeout_ms);
/* Frees everything, and checks that no socket and no descriptor is left. */
void service_end(void);

/* Runs the loop until *there >= n. Fails the test if this takes too long. */
void service_until(const unsigned int *there, unsigned int n);
/* Runs the events that are ready now, without waiting. */
void service_turn(void);

/* Is any step to RTR in progress? */
bool service_rtr_under_way(void);
/* Runs the loop until no step to RTR is in progress. */
void service_until_no_rtr(void);
/* Runs the loop until n steps to RTR are held (fakes/connect_socket.h). */
void service_until_waiting(unsigned int n);

/* The number of descriptors that were opened since service_begin(). */
unsigned int service_descriptors(void);

/* The value of one of the context's metrics, by its full name such as "inc_connect_accepting". */
unsigned long service_figure(const char *name);

/* Opens a TCP client with a non-blocking socket. */
int tcp_open(void);
void tcp_send(int fd, const char *text, size_t len);
/* Runs the loop until the service has closed the connection. Returns all text that the service sent
 * before. The caller frees the text. */
char *tcp_read_to_end(int fd);
/* Runs the loop until the service has sent a line, and returns that line. The caller frees it. */
char *tcp_read_line(int fd);
/* Sends a text on a new connection, and returns everything that the service answers. */
char *tcp_ask(const char *text);

#endif
