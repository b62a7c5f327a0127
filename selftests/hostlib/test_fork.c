/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A child process that was forked from a rank. The child can destroy the library's objects. Nothing
 * that it does may reach the rank, the controller or the switch. The test is built without the
 * address sanitizer, whose allocator does not support fork() beside other threads: the child waits
 * for ever for a lock that another thread held. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "selftests/hostlib/fixture_rank.h"

#define CHILD_LIMIT_S 10

/* An assertion for the child process. cmocka's assertions would run the parent's remaining tests in
 * the child. */
#define REQUIRE(condition)                                                             \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

/* Runs `act` in a child process, which must succeed. */
static void in_child(struct rank_fixture *fx, void (*act)(struct rank_fixture *fx))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		/* ends a child that waits for a thread which does not exist in the child */
		alarm(CHILD_LIMIT_S);
		act(fx);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void give_back(struct rank_fixture *fx)
{
	const int before = open_descriptors();

	REQUIRE(inccl_group_destroy(fx->group) == -EBUSY);
	REQUIRE(inccl_communicator_destroy(fx->comm) == 0);
	REQUIRE(inccl_group_destroy(fx->group) == 0);
	/* the child has closed the group's connection and eventfd, and the communicator's socket,
	 * two eventfds and timer */
	REQUIRE(open_descriptors() == before - 6);
}

/* Checks that the rank works as if there had been no child. */
static void expect_alive(struct rank_fixture *fx)
{
	struct inccl_request *req = rank_start(fx, 0);
	struct inc_roce_packet pkt;

	rank_receive(fx, &pkt, 0);
	rc_peer_mirror(&fx->peer, &pkt, 0, fx->data[0]);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	assert_null(inccl_group_error(fx->group));
	assert_null(strstr(fx->controller.received, "\"D\""));
	assert_null(strstr(fx->controller.received, "\"bye\""));
	assert_null(strstr(fx->controller.received, "\"failed\""));
}

static void child_destroys_what_it_inherited(void **state)
{
	struct rank_fixture *fx = *state;

	in_child(fx, give_back);
	expect_alive(fx);
}

/* A collective in flight belongs to the rank. The child must send and receive no packets of it. */
static void child_destroys_during_a_collective(void **state)
{
	struct rank_fixture *fx = *state;
	struct inccl_request *req = rank_start(fx, 0);
	struct inc_roce_packet pkt;

	rank_receive(fx, &pkt, 0);
	in_child(fx, give_back);
	rc_peer_mirror(&fx->peer, &pkt, 0, fx->data[0]);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	assert_null(strstr(fx->controller.received, "\"failed\""));
}

/* Another thread of the rank may have held any lock at the time of the fork. The child must not
 * wait for these locks. */
static void child_destroys_while_locks_are_held(void **state)
{
	struct rank_fixture *fx = *state;

	pthread_mutex_lock(&fx->group->lock);
	pthread_mutex_lock(&fx->comm->lock);
	pthread_mutex_lock(&fx->group->log->lock);
	in_child(fx, give_back);
	pthread_mutex_unlock(&fx->group->log->lock);
	pthread_mutex_unlock(&fx->comm->lock);
	pthread_mutex_unlock(&fx->group->lock);
	expect_alive(fx);
}

static struct inccl_request *pending;

static void call_everything(struct rank_fixture *fx)
{
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	char why[4][256] = {"", "", "", ""};
	INCCL_OPTS(inccl_group_opts, group, .error = why[0], .error_size = sizeof(why[0]));
	INCCL_OPTS(inccl_communicator_opts, create, .error = why[1], .error_size = sizeof(why[1]));
	INCCL_OPTS(inccl_communicator_opts, split, .error = why[2], .error_size = sizeof(why[2]));
	INCCL_OPTS(inccl_collective_opts, opts, .error = why[3], .error_size = sizeof(why[3]));
	struct inccl_communicator *comm;
	struct inccl_request *req;
	struct inccl_group *other;

	REQUIRE(inccl_group_rank(fx->group) == -ECHILD);
	REQUIRE(inccl_group_size(fx->group) == -ECHILD);
	REQUIRE(inccl_group_error(fx->group) != NULL);
	REQUIRE(inccl_group_shrink(fx->group, &group, &other) == -ECHILD && !other);
	REQUIRE(inccl_group_grow(fx->group, 2, &group, &other) == -ECHILD && !other);
	REQUIRE(inccl_communicator_create(fx->group, &create, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_split(fx->comm, 0, 0, &split, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_duplicate(fx->comm, &split, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_info(fx->comm, &info) == -ECHILD);
	REQUIRE(inccl_communicator_error(fx->comm) != NULL);
	REQUIRE(inccl_communicator_failed_rank(fx->comm) == -1);
	REQUIRE(inccl_barrier(fx->comm, &opts) == -ECHILD);
	REQUIRE(inccl_barrier_start(fx->comm, &opts, &req) == -ECHILD && !req);
	REQUIRE(inccl_allreduce_write(fx->comm, fx->data[1], 4, fx->data[1]) == -ECHILD);
	REQUIRE(inccl_test(pending) == -ECHILD);
	REQUIRE(inccl_wait(pending, -1) == -ECHILD);
	for (unsigned int i = 0; i < 4; i++)
		REQUIRE(strstr(why[i], "forked"));
	REQUIRE(strstr(inccl_strerror(-ECHILD), "forked"));
}

static void calls_of_a_child_are_rejected(void **state)
{
	struct rank_fixture *fx = *state;
	struct inc_roce_packet pkt;

	pending = rank_start(fx, 0);
	rank_receive(fx, &pkt, 0);
	in_child(fx, call_everything);
	rc_peer_mirror(&fx->peer, &pkt, 0, fx->data[0]);
	assert_int_equal(inccl_wait(pending, WAIT_MS), 0);
	assert_null(strstr(fx->controller.received, "\"failed\""));
}

/* the thread sanitizer does not support children with threads of their own */
#ifndef __SANITIZE_THREAD__
static void make_own(struct rank_fixture *fx)
{
	void *own;

	give_back(fx);
	REQUIRE(!rank_setup(&own));
	fx = own;
	REQUIRE(inccl_group_rank(fx->group) == 0);
	rank_teardown(&own);
}

/* A group that the child creates itself works as usual. */
static void child_makes_its_own(void **state)
{
	struct rank_fixture *fx = *state;

	in_child(fx, make_own);
	expect_alive(fx);
}
#endif

static void free_wide(struct rank_fixture *fx)
{
	REQUIRE(!inccl_communicator_destroy(fx->comm) && !inccl_group_destroy(fx->group));
}

/* A child frees all channels of its parent's communicator. */
static void child_destroys_several_channels(void **state)
{
	struct wide *w = *state;

	wide_connect(w);
	in_child(&w->fx, free_wide);
	assert_int_equal(channels_of(w->fx.comm), 2);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, rank_setup, rank_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(child_destroys_what_it_inherited),
		CASE(child_destroys_during_a_collective),
		CASE(child_destroys_while_locks_are_held),
		CASE(calls_of_a_child_are_rejected),
#ifndef __SANITIZE_THREAD__
		CASE(child_makes_its_own),
#endif
		cmocka_unit_test_setup_teardown(child_destroys_several_channels, wide_setup,
						wide_teardown),
	};

	alarm(2 * LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
