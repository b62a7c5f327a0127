/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* A process that was forked from a rank: it can give the library's objects back, and do nothing
 * that the rank, the controller or the switch notices. */
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
#include "selftests/hostlib/world.h"

#define CHILD_LIMIT_S 10

/* In a child: cmocka's assertions would go on with the parent's cases. */
#define REQUIRE(condition)                                                             \
	do {                                                                           \
		if (!(condition)) {                                                    \
			fprintf(stderr, "child, line %d: %s\n", __LINE__, #condition); \
			_exit(1);                                                      \
		}                                                                      \
	} while (0)

/* The child does it, and must end well. */
static void in_child(struct world *w, void (*act)(struct world *w))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		alarm(CHILD_LIMIT_S); /* a call that waits for a thread that is not there */
		act(w);
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

static void give_back(struct world *w)
{
	const int before = open_descriptors();

	REQUIRE(inccl_group_destroy(w->group) == -EBUSY);
	REQUIRE(inccl_communicator_destroy(w->comm) == 0);
	REQUIRE(inccl_group_destroy(w->group) == 0);
	/* the group's connection and eventfd, the communicator's socket, eventfds and timer */
	REQUIRE(open_descriptors() == before - 6);
}

/* The rank goes on as if there had been no child. */
static void expect_alive(struct world *w)
{
	struct inccl_request *req = world_start(w, 0);
	struct inc_roce_packet pkt;

	world_hear(w, &pkt, 0);
	peer_mirror(&w->peer, &pkt, 0, w->data[0]);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	assert_null(inccl_group_error(w->group));
	assert_null(strstr(w->fake.heard, "\"D\""));
	assert_null(strstr(w->fake.heard, "\"bye\""));
	assert_null(strstr(w->fake.heard, "\"failed\""));
}

static void child_gives_back(void **state)
{
	struct world *w = *state;

	in_child(w, give_back);
	expect_alive(w);
}

/* What is under way is the rank's: the child neither sends, nor takes what has come. */
static void child_gives_back_in_a_collective(void **state)
{
	struct world *w = *state;
	struct inccl_request *req = world_start(w, 0);
	struct inc_roce_packet pkt;

	world_hear(w, &pkt, 0);
	in_child(w, give_back);
	peer_mirror(&w->peer, &pkt, 0, w->data[0]);
	assert_int_equal(inccl_wait(req, WAIT_MS), 0);
	assert_null(strstr(w->fake.heard, "\"failed\""));
}

/* Any of the rank's threads may have held any lock when another one forked. */
static void child_gives_back_under_locks(void **state)
{
	struct world *w = *state;

	pthread_mutex_lock(&w->group->lock);
	pthread_mutex_lock(&w->comm->lock);
	pthread_mutex_lock(&w->group->log->lock);
	in_child(w, give_back);
	pthread_mutex_unlock(&w->group->log->lock);
	pthread_mutex_unlock(&w->comm->lock);
	pthread_mutex_unlock(&w->group->lock);
	expect_alive(w);
}

static struct inccl_request *pending;

static void call_everything(struct world *w)
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

	REQUIRE(inccl_group_rank(w->group) == -ECHILD);
	REQUIRE(inccl_group_size(w->group) == -ECHILD);
	REQUIRE(inccl_group_error(w->group) != NULL);
	REQUIRE(inccl_group_shrink(w->group, &group, &other) == -ECHILD && !other);
	REQUIRE(inccl_group_grow(w->group, 2, &group, &other) == -ECHILD && !other);
	REQUIRE(inccl_communicator_create(w->group, &create, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_split(w->comm, 0, 0, &split, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_duplicate(w->comm, &split, &comm) == -ECHILD && !comm);
	REQUIRE(inccl_communicator_info(w->comm, &info) == -ECHILD);
	REQUIRE(inccl_communicator_error(w->comm) != NULL);
	REQUIRE(inccl_communicator_failed_rank(w->comm) == -1);
	REQUIRE(inccl_barrier(w->comm, &opts) == -ECHILD);
	REQUIRE(inccl_barrier_start(w->comm, &opts, &req) == -ECHILD && !req);
	REQUIRE(inccl_allreduce_write(w->comm, w->data[1], 4, w->data[1]) == -ECHILD);
	REQUIRE(inccl_test(pending) == -ECHILD);
	REQUIRE(inccl_wait(pending, -1) == -ECHILD);
	for (unsigned int i = 0; i < 4; i++)
		REQUIRE(strstr(why[i], "forked"));
	REQUIRE(strstr(inccl_strerror(-ECHILD), "forked"));
}

static void child_is_refused(void **state)
{
	struct world *w = *state;
	struct inc_roce_packet pkt;

	pending = world_start(w, 0);
	world_hear(w, &pkt, 0);
	in_child(w, call_everything);
	peer_mirror(&w->peer, &pkt, 0, w->data[0]);
	assert_int_equal(inccl_wait(pending, WAIT_MS), 0);
	assert_null(strstr(w->fake.heard, "\"failed\""));
}

#ifndef __SANITIZE_THREAD__ /* it knows no child with threads of its own */
static void make_own(struct world *w)
{
	void *own;

	give_back(w);
	REQUIRE(!world_setup(&own));
	w = own;
	REQUIRE(inccl_group_rank(w->group) == 0);
	world_teardown(&own);
}

/* What a child makes is its own. */
static void child_makes_its_own(void **state)
{
	struct world *w = *state;

	in_child(w, make_own);
	expect_alive(w);
}
#endif

#define CASE(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(child_gives_back),
		CASE(child_gives_back_in_a_collective),
		CASE(child_gives_back_under_locks),
		CASE(child_is_refused),
#ifndef __SANITIZE_THREAD__
		CASE(child_makes_its_own),
#endif
	};

	alarm(2 * LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
