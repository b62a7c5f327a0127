/* SPDX-License-Identifier: BSD-2-Clause */
/* A context with its event base, a service of it, and clients that speak TCP by themselves, all in
 * one thread: the loop runs until what is waited for is there. */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include "hostlib/include/inc_connect.h"

#define LOOP_PATIENCE_MS 20000

struct event_base;

extern struct loop {
	struct event_base *base;
	struct inc_connect *ctx;
	struct inc_connect_service *service;
	char address[32]; /* its own, "127.0.0.1:PORT" */
	unsigned int accepted;
	struct inc_connect_socket *sockets[128]; /* that were accepted */
	char peer[INC_CONNECT_HOST_SIZE];        /* whose the last one was */
	void (*then)(void);                      /* called at the end of that callback */
	unsigned int lines;                      /* in the log */
	char line[512];                          /* the last one */
} loop;

/* A context with so many devices and a service, which keeps what it accepts. */
void loop_begin(unsigned int devices, unsigned int accept_timeout_ms);
/* All of it, and a check that nothing is left: no socket, no descriptor. */
void loop_end(void);

/* Runs the loop until the number there is at least n; fails the test where that takes too long. */
void loop_until(const unsigned int *there, unsigned int n);
/* Runs it for what can happen at once. */
void loop_turn(void);

/* Whether steps to RTR are under way. */
bool loop_on_the_way(void);
/* Runs the loop until none is. */
void loop_until_no_rtr(void);
/* Runs it until so many of them wait (fake_devices.h). */
void loop_until_waiting(unsigned int n);

/* Those that have come since loop_begin(). */
unsigned int loop_descriptors(void);

/* A figure of the context by its whole name, "inc_connect_accepting". */
unsigned long loop_figure(const char *name);

/* A TCP client. Its socket does not block. */
int tcp_open(void);
void tcp_send(int fd, const char *text, size_t len);
/* Runs the loop until the service has closed; what it said before, to be freed. */
char *tcp_read_to_end(int fd);
/* Runs it until the service has said a line, which is to be freed. */
char *tcp_read_line(int fd);
/* The answer to a text on a connection of its own, all of it. */
char *tcp_ask(const char *text);

#endif
