/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of a service: a client's requests, and checks of the answers. Include cmocka
 * first. */
#ifndef SELFTESTS_CONNECT_SERVICE_CLIENT_H
#define SELFTESTS_CONNECT_SERVICE_CLIENT_H

#include <stdlib.h>
#include <string.h>
#include "selftests/fakes/connect_socket.h"
#include "selftests/connect/harness_service.h"

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
