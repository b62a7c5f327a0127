/* SPDX-License-Identifier: BSD-2-Clause */
/* The resolution of the controller's name, in the event loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include "userspace/addresses.h"

#define LIMIT_S 60
#define ROUNDS  20

/* number of descriptors that were removed while they were open */
static unsigned int epoll_removed;
/* number of descriptors that were closed before they were removed */
static unsigned int epoll_gone;

/* Replaces the epoll_ctl() that libevent calls. It counts events whose descriptor is closed before
 * the event is freed. The library then removes from epoll a descriptor that is closed, or that has
 * been reused, and reports no error. */
int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
	const int ret = syscall(SYS_epoll_ctl, epfd, op, fd, event);

	if (op == EPOLL_CTL_DEL && ret)
		epoll_gone++;
	else if (op == EPOLL_CTL_DEL)
		epoll_removed++;
	return ret;
}

static struct event_base *base;
static struct inc_addresses *addresses;

static int setup(void **state)
{
	struct inc_err err = {};
	const char *why;

	epoll_gone = epoll_removed = 0;
	base = event_base_new();
	assert_non_null(base);
	assert_int_equal(inc_addresses_open(base, "localhost", &addresses, &err), 0);
	while (!inc_addresses_take(addresses, &why))
		event_base_loop(base, EVLOOP_ONCE);
	return 0;
}

static int teardown(void **state)
{
	event_base_free(base);
	return 0;
}

static void test_answers(void **state)
{
	const char *why;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		inc_addresses_refresh(addresses);
		event_base_dispatch(base); /* runs until no event is left */
		assert_non_null(inc_addresses_take(addresses, &why));
		assert_string_equal(why, "");
	}
	inc_addresses_close(addresses);
	assert_in_range(epoll_removed, ROUNDS, ROUNDS + 1);
	assert_int_equal(epoll_gone, 0);
}

static bool is_alone(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n == 3; /* the three entries are ".", ".." and the current thread */
}

/* The thread that resolved the name has ended, so the owner of the lookup must close the
 * descriptor. The loop has not run, so the event still waits for the descriptor. */
static void test_given_up(void **state)
{
	inc_addresses_refresh(addresses);
	while (!is_alone())
		sched_yield();
	inc_addresses_close(addresses);
	assert_in_range(epoll_removed, 1, 2);
	assert_int_equal(epoll_gone, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
	};

	alarm(LIMIT_S);
	return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
