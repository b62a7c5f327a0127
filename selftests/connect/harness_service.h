/* SPDX-License-Identifier: BSD-2-Clause */
/* A harness for tests of libinc_connect: a context with its event base, a service in it, and TCP
 * clients of the test, all in one thread. The harness runs the loop until the awaited condition is
 * true. */
#ifndef SELFTESTS_CONNECT_HARNESS_SERVICE_H
#define SELFTESTS_CONNECT_HARNESS_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include "hostlib/include/inc_connect.h"
#include "selftests/fakes/connect_socket.h"

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

/* A client's requests, and checks of the answers. Include cmocka before this header. */

/* A timeout that does not expire. */
#define LONG_MS 15000
/* A timeout that shall expire, but only after the steps before it, also on a slow machine. */
#define SHORT_MS 300

#define QUERY   "{\"type\":\"query\",\"version\":1}\n"
#define FIGURES "{\"type\":\"stats\",\"version\":1}\n"
/* Text of a connect request whose queue pair does not exist, so that its first message never
 * arrives. */
#define CONNECT_TO(dev, name, port, config)                                                     \
	"{\"type\":\"connect\",\"version\":1,\"hostname\":\"h\",\"dev\":0,\"dev_name\":\"c0\"," \
	"\"port\":1,\"mtu\":3,\"qp_num\":2,\"start_psn\":0,\"gid\":\"::ffff:10.9.9.9\","        \
	"\"target_dev\":" dev ",\"target_devname\":\"" name "\",\"target_port\":" port ","      \
	"\"config\":{" config "}}\n"
#define CONNECT CONNECT_TO("0", "fake0", "1", "")

/* Checks that no connection is being made. */
static inline void nothing_is_made(void)
{
	service_until_no_rtr();
	assert_int_equal(fake_sockets.alive, 0);
	assert_int_equal(service_figure("inc_connect_accepting"), 0);
}

/* Sends a text and checks that the answer contains `want`. If `want` is "", there must be no
 * answer. */
static inline void expect_said(const char *text, const char *want)
{
	char *said = tcp_ask(text);

	if (want[0] ? !strstr(said, want) : said[0])
		fail_msg("%.200s: '%s' is not in '%.300s'", text, want, said);
	free(said);
}

/* Opens a client, sends its request for a queue pair, and receives the answer. */
static inline int tcp_connected(const char *text)
{
	const int fd = tcp_open();
	char *said;

	tcp_send(fd, text, strlen(text));
	said = tcp_read_line(fd);
	assert_non_null(strstr(said, "\"type\":\"connected\""));
	free(said);
	return fd;
}

#endif
