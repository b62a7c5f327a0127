// SPDX-License-Identifier: BSD-2-Clause
// SIZE: check
/* An allocation fails while a listener is made: it listens nevertheless, or its maker gets an
 * error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <event2/event.h>
#include "lib/net/listen.h"

#define ACCEPT_S 5
#define FDS      64 /* more than the test has */

/* number of allocations until one of them fails; 0: none fails */
static unsigned int until_failure;
static bool has_failed;

static bool fails(void)
{
	if (!until_failure || --until_failure)
		return false;
	has_failed = true;
	return true;
}

static void *allocate(size_t size)
{
	return fails() ? NULL : malloc(size);
}

static void *resize(void *at, size_t size)
{
	return fails() ? NULL : realloc(at, size);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *from, int size,
		      void *arg)
{
	*(bool *)arg = true;
	close(fd);
	event_base_loopbreak(evconnlistener_get_base(l));
}

/* Checks that a client can connect to the listener and is accepted. */
static void check_listens(struct evconnlistener *l, const bool *accepted)
{
	static const struct timeval limit = {.tv_sec = ACCEPT_S};
	struct event_base *base = evconnlistener_get_base(l);
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(getsockname(evconnlistener_get_fd(l), (struct sockaddr *)&addr, &len), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
	event_base_loopexit(base, &limit);
	event_base_dispatch(base);
	close(fd);
	assert_true(*accepted);
}

static unsigned int open_fds(void)
{
	unsigned int fd, n = 0;

	for (fd = 0; fd < FDS; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Makes a listener while the n-th allocation fails. Returns false if fewer allocations were
 * made. */
static bool make(unsigned int n)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const unsigned int fds = open_fds();
	struct event_base *base = event_base_new();
	struct evconnlistener *l;
	bool accepted = false;
	int ret;

	assert_non_null(base);
	has_failed = false;
	until_failure = n;
	ret = inc_listener_open(base, (struct sockaddr *)&addr, sizeof(addr), 8, on_accept,
				&accepted, &l);
	until_failure = 0;
	if (!ret) {
		check_listens(l, &accepted);
		evconnlistener_free(l);
	}
	event_base_free(base);
	assert_int_equal(open_fds(), fds);
	return has_failed;
}

static void each_allocation(void **state)
{
	unsigned int n = 1;

	while (make(n))
		n++;
	assert_true(n > 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation)};

	event_set_mem_functions(allocate, resize, free);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
