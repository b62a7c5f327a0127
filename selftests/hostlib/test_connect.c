/* SPDX-License-Identifier: BSD-2-Clause */
/* Reaching a controller whose name has several addresses, not all of which answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "hostlib/src/internal.h"

#define DEADLINE_MS 10000
#define SOON_MS     3000 /* far from the deadline, far from a first try's head start */
#define MAX         4

/* What a name resolves to. */
struct place {
	struct sockaddr_in addr;
	struct addrinfo ai;
	int listener, filler[2]; /* -1: none */
};

static struct place place[MAX];

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	return fd;
}

static void listen_at(struct place *p, int backlog)
{
	socklen_t len = sizeof(p->addr);

	p->listener = tcp();
	assert_int_equal(bind(p->listener, (struct sockaddr *)&p->addr, len), 0);
	assert_int_equal(listen(p->listener, backlog), 0);
	assert_int_equal(getsockname(p->listener, (struct sockaddr *)&p->addr, &len), 0);
}

/* Its queue of connections is full: further SYNs are dropped in silence. */
static void black_hole(struct place *p)
{
	int i;

	listen_at(p, 0);
	p->filler[0] = tcp();
	assert_int_equal(connect(p->filler[0], (struct sockaddr *)&p->addr, sizeof(p->addr)), 0);
	for (i = 1; i < 2; i++) {
		p->filler[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		connect(p->filler[i], (struct sockaddr *)&p->addr, sizeof(p->addr));
	}
}

/* A port that was free a moment ago. */
static void refuse(struct place *p)
{
	listen_at(p, 1);
	close(p->listener);
	p->listener = -1;
}

static int setup(void **state)
{
	int i;

	memset(place, 0, sizeof(place));
	for (i = 0; i < MAX; i++) {
		place[i].listener = place[i].filler[0] = place[i].filler[1] = -1;
		place[i].addr.sin_family = AF_INET;
		place[i].addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
		place[i].ai.ai_family = AF_INET;
		place[i].ai.ai_addr = (struct sockaddr *)&place[i].addr;
		place[i].ai.ai_addrlen = sizeof(place[i].addr);
	}
	return 0;
}

static int teardown(void **state)
{
	int i;

	for (i = 0; i < MAX; i++) {
		if (place[i].listener >= 0)
			close(place[i].listener);
		if (place[i].filler[0] >= 0)
			close(place[i].filler[0]);
		if (place[i].filler[1] >= 0)
			close(place[i].filler[1]);
	}
	return 0;
}

/* The first n places, in order. */
static int try(unsigned int n, unsigned int timeout_ms)
{
	unsigned int i;

	for (i = 0; i + 1 < n; i++)
		place[i].ai.ai_next = &place[i + 1].ai;
	return inccl_connect_any(&place[0].ai, deadline_after_ms(timeout_ms));
}

static void expect_peer(int fd, const struct place *want)
{
	struct sockaddr_in got;
	socklen_t len = sizeof(got);

	assert_true(fd >= 0);
	assert_int_equal(getpeername(fd, (struct sockaddr *)&got, &len), 0);
	assert_int_equal(got.sin_addr.s_addr, want->addr.sin_addr.s_addr);
	assert_int_equal(got.sin_port, want->addr.sin_port);
	close(fd);
}

static void first_address_is_a_black_hole(void **state)
{
	uint64_t begin = inc_now_ns();

	black_hole(&place[0]);
	listen_at(&place[1], 4);
	expect_peer(try(2, DEADLINE_MS), &place[1]);
	assert_true(inc_now_ns() - begin < SOON_MS * INC_NSEC_PER_MSEC);
	/* less time than a head start usually is */
	expect_peer(try(2, 200), &place[1]);
}

static void several_are(void **state)
{
	uint64_t begin = inc_now_ns();

	black_hole(&place[0]);
	refuse(&place[1]);
	black_hole(&place[2]);
	listen_at(&place[3], 4);
	expect_peer(try(4, DEADLINE_MS), &place[3]);
	assert_true(inc_now_ns() - begin < SOON_MS * INC_NSEC_PER_MSEC);
}

/* The order says which is wanted. */
static void the_first_that_answers(void **state)
{
	listen_at(&place[0], 4);
	listen_at(&place[1], 4);
	expect_peer(try(2, DEADLINE_MS), &place[0]);
}

static void nobody_answers(void **state)
{
	uint64_t begin = inc_now_ns();

	refuse(&place[0]);
	refuse(&place[1]);
	assert_int_equal(try(2, DEADLINE_MS), -ECONNREFUSED);
	assert_true(inc_now_ns() - begin < SOON_MS * INC_NSEC_PER_MSEC);
	black_hole(&place[2]);
	assert_int_equal(try(3, 400), -ETIMEDOUT);
	assert_true(inc_now_ns() - begin >= 400 * INC_NSEC_PER_MSEC);
}

/*
 * Nobody listens at a port of the range that the kernel takes source ports from, and takes this
 * very one: TCP then connects the socket to itself. The last case, for it changes the namespace.
 */
static void not_itself(void **state)
{
	static const char range[] = "52200 52201";
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int i, fd;

	if (unshare(CLONE_NEWNET)) {
		print_message("skip not_itself: no network namespace: %s\n", strerror(errno));
		skip();
	}
	fd = tcp();
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
	close(fd);
	fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
	assert_int_equal(write(fd, range, strlen(range)), strlen(range));
	close(fd);
	place[0].addr.sin_port = htons(52200);
	for (i = 0; i < 8; i++)
		assert_int_equal(try(1, DEADLINE_MS), -ECONNREFUSED);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(first_address_is_a_black_hole),
		CASE(several_are),
		CASE(the_first_that_answers),
		CASE(nobody_answers),
		CASE(not_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
