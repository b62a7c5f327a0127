/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of interfaces and the watch for changes, in a network namespace that the test makes.
 * Interfaces change while the kernel lists them, and many change within a short time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <libmnl/libmnl.h>
#include "lib/base/clock.h"
#include "userspace/links.h"

/* number of veth pairs, for whose interfaces the kernel needs several messages */
#define PAIRS   40
#define CHANGES 100
#define TRIES   5 /* number of attempts, because a machine without a free CPU may delay the watch */

ssize_t __real_mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size);
ssize_t __wrap_mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size);
ssize_t __real_mnl_socket_sendto(const struct mnl_socket *nl, const void *req, size_t size);
ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *nl, const void *req, size_t size);

static unsigned int lists_begun, lists_to_disturb;
static bool begins; /* the next message is the first one of a list */

static void ip(const char *args)
{
	char command[256];

	snprintf(command, sizeof(command), "ip link %s", args);
	assert_int_equal(system(command), 0);
}

ssize_t __wrap_mnl_socket_sendto(const struct mnl_socket *nl, const void *req, size_t size)
{
	lists_begun++;
	begins = true;
	return __real_mnl_socket_sendto(nl, req, size);
}

/* After the first message of a list, deletes an interface and makes another one. */
ssize_t __wrap_mnl_socket_recvfrom(const struct mnl_socket *nl, void *buf, size_t size)
{
	const ssize_t n = __real_mnl_socket_recvfrom(nl, buf, size);

	if (begins && lists_begun <= lists_to_disturb) {
		ip("del moving");
		ip("add moving type veth peer name moving-peer");
	}
	begins = false;
	return n;
}

static int setup(void **state)
{
	char command[128];
	int i;

	ip("add moving type veth peer name moving-peer");
	for (i = 0; i < PAIRS; i++) {
		snprintf(command, sizeof(command), "add p%d type veth peer name x%d", i, i);
		ip(command);
	}
	return 0;
}

/* Returns inc_links_read(), and checks that a list has all interfaces, each exactly once. */
static int read_links(unsigned int disturbed)
{
	struct inc_link *list;
	char name[IF_NAMESIZE];
	int i, n;

	lists_begun = 0;
	lists_to_disturb = disturbed;
	n = inc_links_read(&list);
	if (n < 0) {
		assert_null(list);
		return n;
	}
	/* loopback and the pair that moves are in the list, too */
	assert_int_equal(n, 2 * PAIRS + 3);
	for (i = 0; i < PAIRS; i++) {
		snprintf(name, sizeof(name), "p%d", i);
		assert_non_null(inc_link_called(list, n, name));
		snprintf(name, sizeof(name), "x%d", i);
		assert_non_null(inc_link_called(list, n, name));
	}
	free(list);
	return n;
}

static void test_undisturbed(void **state)
{
	assert_true(read_links(0) > 0);
	assert_int_equal(lists_begun, 1);
}

static void test_changes_while_read(void **state)
{
	unsigned int disturbed;

	for (disturbed = 1; disturbed < INC_LINKS_TRIES; disturbed += 3) {
		assert_true(read_links(disturbed) > 0);
		assert_int_equal(lists_begun, disturbed + 1);
	}
}

/* If interfaces change all the time, the caller gets an error rather than an incomplete list. */
static void test_changes_on_and_on(void **state)
{
	assert_int_equal(read_links(INC_LINKS_TRIES), -EINTR);
	assert_int_equal(lists_begun, INC_LINKS_TRIES);
}

static void on_look(void *arg)
{
	++*(unsigned int *)arg;
}

/* Makes the kernel send one message to the watch. */
static void change(int fd, bool up)
{
	struct ifreq req = {.ifr_name = "p0", .ifr_flags = up ? IFF_UP : 0};

	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &req), 0);
}

struct watched {
	struct event_base *base;
	struct inc_links_watch *watch;
	unsigned int looks;
	uint64_t since_ms;
	int fd;
};

static void begin(struct watched *w)
{
	struct inc_err err = {};

	w->looks = 0;
	w->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(w->fd >= 0);
	w->base = event_base_new();
	assert_non_null(w->base);
	w->since_ms = inc_now_ms();
	assert_int_equal(inc_links_watch_start(w->base, on_look, &w->looks, &w->watch, &err), 0);
}

static void end(struct watched *w)
{
	inc_links_watch_stop(w->watch);
	event_base_free(w->base);
	close(w->fd);
}

/* A change is read at once, and not only by the check that is made every second. */
static void test_soon(void **state)
{
	uint64_t took_ms = UINT64_MAX;
	struct watched w;
	int i;

	for (i = 0; i < TRIES && took_ms > 500; i++) {
		begin(&w);
		change(w.fd, true);
		while (!w.looks)
			event_base_loop(w.base, EVLOOP_ONCE);
		took_ms = inc_now_ms() - w.since_ms;
		change(w.fd, false);
		end(&w);
	}
	assert_in_range(took_ms, 0, 500);
}

/* The loop runs after each change. The number of checks depends on the time, not on the number of
 * changes. Changes do not delay the check. */
static void test_many(void **state)
{
	const uint64_t least_ms = 10 * INC_LINKS_GATHER_MS;
	uint64_t took_ms = 0, most;
	struct watched w;
	unsigned int n;

	begin(&w);
	for (n = 0; n < CHANGES || took_ms < least_ms; n++) {
		change(w.fd, n % 2 == 0);
		event_base_loop(w.base, EVLOOP_NONBLOCK);
		took_ms = inc_now_ms() - w.since_ms;
	}
	most = took_ms / INC_LINKS_GATHER_MS + took_ms / 1000 + 1;
	print_message("%u changes in %llu ms, %u looks\n", n, (unsigned long long)took_ms, w.looks);
	assert_in_range(w.looks, 1, most);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_undisturbed),
		cmocka_unit_test(test_changes_while_read),
		cmocka_unit_test(test_changes_on_and_on),
		cmocka_unit_test(test_soon),
		cmocka_unit_test(test_many),
	};

	if (unshare(CLONE_NEWNET)) {
		printf("skip list of links: needs root (network namespaces)\n");
		return 0;
	}
	return cmocka_run_group_tests_name("list of links", tests, setup, NULL);
}
