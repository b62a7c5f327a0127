/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects to one of several addresses, some of which do not answer. The connect is a call that
 * blocks, or runs in an event loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <net/if.h>
#include <netdb.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/base/addr.h"
#include "lib/base/clock.h"
#include "lib/base/os.h"
#include "lib/net/race.h"
#include "lib/net/racing.h"

#define DEADLINE_MS 10000
/* a time that is much less than the deadline, and much more than the first address's head start */
#define SOON_MS 3000
#define MAX     4

/* An address to which the test's host name resolves. */
struct place {
	struct sockaddr_in addr;
	struct addrinfo ai;
	int listener, filler[2]; /* descriptors; -1: none */
};

static struct place place[MAX];
/* how many of them do not answer, so that a connect has to wait */
static unsigned int black_holes;

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

/* Fills the queue of pending connections, so that the kernel drops further SYNs without an
 * answer. */
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
	black_holes++;
}

/* Makes a port that refuses connections, because no socket listens there any more. */
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
	black_holes = 0;
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

static int waiting(const struct addrinfo *list, uint64_t deadline_ns)
{
	return inc_race_run(list, deadline_ns);
}

static void on_done(void *arg, int fd)
{
	*(int *)arg = fd;
}

/* Counts turns of the event loop during the connect. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	++*(unsigned int *)arg;
}

static int in_a_loop(const struct addrinfo *list, uint64_t deadline_ns)
{
	const struct timeval often = inc_timeval_of_ms(10);
	struct event_base *base = event_base_new();
	struct inc_racing *racing;
	unsigned int ticks = 0;
	struct event *tick;
	int fd = INT_MAX;

	assert_non_null(base);
	tick = event_new(base, -1, EV_PERSIST, on_tick, &ticks);
	assert_int_equal(event_add(tick, &often), 0);
	assert_int_equal(inc_racing_start(base, list, deadline_ns, on_done, &fd, &racing), 0);
	assert_int_equal(fd, INT_MAX); /* the result is reported only when the loop runs */
	while (fd == INT_MAX)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	assert_true(ticks > 0 || !black_holes);
	event_free(tick);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	event_base_free(base);
	return fd;
}

/* The variant under test: a blocking call, or a connect in an event loop. */
static int (*reach)(const struct addrinfo *list, uint64_t deadline_ns) = waiting;

/* Connects to one of the first n addresses. */
static int try(unsigned int n, unsigned int timeout_ms)
{
	unsigned int i;

	for (i = 0; i + 1 < n; i++)
		place[i].ai.ai_next = &place[i + 1].ai;
	return reach(&place[0].ai, inc_now_ns() + timeout_ms * INC_NSEC_PER_MSEC);
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
	/* the deadline is shorter than the usual head start */
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

/* An earlier address in the list is preferred to a later one. */
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
 * No socket listens at the destination port. The kernel may choose this port as the source port,
 * and does choose it. TCP then connects the socket to itself, which must count as a failure. This
 * is the last case, because it changes the namespace.
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

/* Asks a machine by more than six questions at once. Its kernel answers six of them by ICMP, and
 * the others by refusing a connection. This and the case before it run last, because they change
 * the namespace. */
static void every_question_is_answered(void **state)
{
	const struct inc_addr own = inc_addr_of_ipv4(inet_addr("10.9.0.1"));
	const struct inc_addr peer = inc_addr_of_ipv4(inet_addr("10.9.0.2"));
	const struct inc_addr without_host = inc_addr_of_ipv4(inet_addr("10.9.0.3"));
	char command[300], go[2] = "x";
	int begin[2], end[2], failed, i;
	pid_t machine;

	assert_int_equal(pipe(begin) | pipe(end), 0);
	machine = fork();
	if (!machine) {
		close(end[1]);
		failed = unshare(CLONE_NEWNET);
		_exit(failed || write(begin[1], go, 1) != 1 || read(end[0], go, 1));
	}
	close(begin[1]);
	close(end[0]);
	if (unshare(CLONE_NEWNET) || read(begin[0], go, 1) != 1) {
		print_message("skip: no network namespace\n");
		close(end[1]);
		waitpid(machine, NULL, 0);
		skip();
	}
	snprintf(command, sizeof(command),
		 "ip link add own0 type veth peer name peer0 netns %d && ip addr add 10.9.0.1/24 "
		 "dev own0 && "
		 "ip link set own0 up && nsenter --net=/proc/%d/ns/net sh -c 'ip addr add "
		 "10.9.0.2/24 "
		 "dev peer0 && ip link set peer0 up'",
		 machine, machine);
	assert_int_equal(system(command), 0);
	for (i = 0; i < 12; i++)
		if (!inc_os.udp.answers(&own, &peer, 1000))
			fail_msg("question %d has no answer", i + 1);
	assert_false(inc_os.udp.answers(&own, &without_host, 100));
	close(end[1]);
	assert_int_equal(waitpid(machine, &i, 0), machine);
	assert_int_equal(i, 0);
	close(begin[0]);
}

static unsigned int descriptors(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* The caller cancels the connect: no callback is called, and no socket and no event is left. */
static void cancelled(void **state)
{
	struct event_base *base = event_base_new();
	struct inc_racing *racing;
	unsigned int before;
	int fd = INT_MAX;

	black_hole(&place[0]);
	black_hole(&place[1]);
	place[0].ai.ai_next = &place[1].ai;
	before = descriptors();
	assert_int_equal(inc_racing_start(base, &place[0].ai,
					  inc_now_ns() + DEADLINE_MS * INC_NSEC_PER_MSEC, on_done,
					  &fd, &racing),
			 0);
	/* waits until both attempts have started */
	while (descriptors() < before + 2)
		assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
	inc_racing_cancel(racing);
	assert_int_equal(descriptors(), before);
	assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
	assert_int_equal(fd, INT_MAX);
	event_base_free(base);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static int in_loops(void **state)
{
	reach = in_a_loop;
	return 0;
}

int main(void)
{
	const struct CMUnitTest waits[] = {
		CASE(first_address_is_a_black_hole),
		CASE(several_are),
		CASE(the_first_that_answers),
		CASE(nobody_answers),
	};
	const struct CMUnitTest loops[] = {
		CASE(cancelled),
		CASE(first_address_is_a_black_hole),
		CASE(several_are),
		CASE(the_first_that_answers),
		CASE(nobody_answers),
		CASE(not_itself),
		CASE(every_question_is_answered),
	};

	return cmocka_run_group_tests(waits, NULL, NULL) ||
			       cmocka_run_group_tests(loops, in_loops, NULL)
		       ? 1
		       : 0;
}
