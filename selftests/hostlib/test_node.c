// SPDX-License-Identifier: BSD-2-Clause
/*
 * Ranks of one machine, as processes without a controller: strangers at their meeting, the creation
 * of communicators, results in the order of the ranks, and ends in the middle of a collective.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "hostlib/node/meet.h"
#include "hostlib/node/shared_memory.h"
#include "hostlib/src/internal.h"

#define MOST    8
#define LIMIT_S 60

/* The memory that the processes of a test share. */
static struct shared {
	sem_t named;   /* posted for each rank when rank 0's name is there */
	sem_t intrude; /* posted before that, if strangers come first */
	bool has_strangers;
	sem_t reported; /* posted by each rank that logs for which rank it waits */
	char name[INC_CONTROL_MEETING_LEN];
} * shared;

struct rank {
	struct inccl_group *group;
	struct inccl_communicator *comm;
	int rank, ranks;
};

/* Ends a rank's process if the condition is false. */
#define check(condition) check_at(condition, #condition, __LINE__)
static void check_at(bool is_true, const char *condition, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "test_node.c:%d: %s\n", line, condition);
	_exit(1);
}

static socklen_t address(const char *name, struct sockaddr_un *at)
{
	*at = (struct sockaddr_un){.sun_family = AF_UNIX};
	return offsetof(struct sockaddr_un, sun_path) + 1 +
	       sprintf(at->sun_path + 1, "inccl-node-%.16s", name);
}

static void on_log(void *ctx, const char *line)
{
	if (strstr(line, "waiting: communicator 0 of job test has waited 5 s for rank 2") ||
	    strstr(line, "waiting: communicator 1 of job test has waited 5 s for rank 0"))
		sem_post(&shared->reported);
}

static void meet(struct rank *me)
{
	struct inccl_limit limit = inccl_limit_ms(20000);
	struct inc_msg_join msg = {.machine = ""};
	struct inccl_node *node;
	struct inccl_log *log;
	struct inc_err err = {""};

	check(!inccl_log_new(on_log, NULL, &log));
	check(!inccl_group_new("test", me->rank, me->ranks, log, &me->group));
	inccl_log_put(log);
	me->group->shares_memory = true;
	me->group->number = 7;
	node = inccl_node_offer(me->group, &msg);
	check(node && *msg.machine && *msg.meeting);
	if (!me->rank) {
		strcpy(shared->name, msg.meeting);
		for (int i = 0; i < MOST; i++)
			sem_post(shared->has_strangers ? &shared->intrude : &shared->named);
	} else {
		sem_wait(&shared->named);
	}
	check(!inccl_node_meet(me->group, node, shared->name, NULL, &limit, &err));
	check(me->group->node);
}

/* Runs fn in so many processes, each of which is a rank of a group with shared memory. strangers:
 * NULL, or what one more process does before rank 1 comes to the meeting */
static void run_among(int ranks, void (*fn)(struct rank *me), void (*strangers)(void))
{
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	sem_init(&shared->named, 1, 0);
	sem_init(&shared->intrude, 1, 0);
	sem_init(&shared->reported, 1, 0);
	shared->has_strangers = strangers;
	fflush(NULL);
	if (strangers && !fork()) {
		alarm(LIMIT_S);
		strangers();
		_exit(0);
	}
	for (int r = 0; r < ranks; r++) {
		struct rank me = {.rank = r, .ranks = ranks};

		if (fork())
			continue;
		alarm(LIMIT_S);
		meet(&me);
		fn(&me);
		check(!inccl_group_destroy(me.group));
		_exit(0);
	}
	for (int r = 0; r < ranks + !!strangers; r++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	munmap(shared, sizeof(*shared));
}

static void run(int ranks, void (*fn)(struct rank *me))
{
	run_among(ranks, fn, NULL);
}

static void create(struct rank *me)
{
	check(!inccl_communicator_create(me->group, NULL, &me->comm));
}

/* ---- results ---- */

/* Floats of which no order of additions but one gives the bits of this one. */
static float part(int rank, size_t i)
{
	return (float)((i * 2654435761u + rank * 40503u) % 1000003) / (float)(1 + (i + rank) % 7);
}

static void sums(struct rank *me)
{
	static const size_t counts[] = {0, 1, 3, 24, 25, 4099, 16384, 16385, 200003};
	float *data = calloc(200003, sizeof(*data)), want;

	create(me);
	for (int round = 0; round < 3; round++)
		for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			for (size_t i = 0; i < counts[k]; i++)
				data[i] = part(me->rank, i);
			check(!inccl_allreduce(me->comm, data, data, counts[k], INCCL_FLOAT32,
					       INCCL_SUM, NULL));
			for (size_t i = 0; i < counts[k]; i++) {
				want = part(0, i);
				for (int r = 1; r < me->ranks; r++)
					want += part(r, i);
				check(!memcmp(&want, &data[i], sizeof(want)));
			}
		}
	check(!inccl_communicator_destroy(me->comm));
	free(data);
}

static void are_added_in_the_order_of_ranks(void **state)
{
	for (int ranks = 2; ranks <= MOST; ranks += 3)
		run(ranks, sums);
}

static void indexes(struct rank *me)
{
	struct element {
		double value;
		int32_t index;
	} data[1000];

	create(me);
	for (int i = 0; i < 1000; i++)
		data[i] = (struct element){(i + me->rank) % me->ranks, me->rank};
	check(!inccl_allreduce(me->comm, data, data, 1000, INCCL_FLOAT64_INDEX, INCCL_MAXLOC,
			       NULL));
	for (int i = 0; i < 1000; i++) {
		check(data[i].value == me->ranks - 1);
		check((i + data[i].index) % me->ranks == me->ranks - 1);
	}
	check(!inccl_communicator_destroy(me->comm));
}

static void have_the_index_of_the_largest(void **state)
{
	run(5, indexes);
}

/* ---- the meeting ---- */

static int stranger(const char *name)
{
	struct sockaddr_un at;
	const socklen_t len = address(name, &at);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	check(!connect(fd, (struct sockaddr *)&at, len));
	return fd;
}

/* Comes to the meeting before the ranks do, and more often than there is room. It says nothing, or
 * sends garbage, or the wrong group. Or it sends what a rank sends, but without the secret, because
 * it has read the name of the socket and nothing else. */
static void intrude(void)
{
	struct inccl_node_note note = {.magic = 0x6e6f6465, .rank = 1};
	int fd[200];

	sem_wait(&shared->intrude);
	for (size_t i = 0; i < sizeof(fd) / sizeof(fd[0]); i++) {
		fd[i] = stranger(shared->name);
		note.group = i % 4 == 1 ? 8 : 7;
		snprintf(note.text, sizeof(note.text), "%.*s", i % 4 == 1 ? 32 : 16, shared->name);
		if (i % 4 == 0)
			send(fd[i], "garbage", 7, MSG_NOSIGNAL);
		else if (i % 4 < 3)
			send(fd[i], &note, sizeof(note), MSG_NOSIGNAL);
	}
	for (int i = 0; i < MOST; i++)
		sem_post(&shared->named);
}

static void strangers_do_no_harm(void **state)
{
	run_among(3, sums, intrude);
}

/* Rank 0 has no descriptor left for the others. */
static void meet_without_descriptors(void)
{
	struct inccl_limit limit = inccl_limit_ms(20000);
	struct inc_msg_join msg = {.machine = ""};
	struct rlimit most;
	struct inccl_group *group;
	struct inccl_node *node;
	struct inccl_log *log;
	struct inc_err err = {""};
	int fd;

	check(!inccl_log_new(NULL, NULL, &log));
	check(!inccl_group_new("test", 0, 2, log, &group));
	inccl_log_put(log);
	group->shares_memory = true;
	node = inccl_node_offer(group, &msg);
	check(node);
	fd = stranger(msg.meeting);
	check(!getrlimit(RLIMIT_NOFILE, &most));
	most.rlim_cur = 3; /* those that are open stay open */
	check(!setrlimit(RLIMIT_NOFILE, &most));
	check(inccl_node_meet(group, node, msg.meeting, NULL, &limit, &err) == -EMFILE);
	check(strstr(err.msg, "Too many open files"));
	close(fd);
}

static void a_lack_of_descriptors_ends_it(void **state)
{
	int status;

	fflush(NULL);
	if (!fork()) {
		alarm(LIMIT_S);
		meet_without_descriptors();
		_exit(0);
	}
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

/* ---- creation ---- */

static void refused(struct rank *me)
{
	char error[256] = "";
	INCCL_OPTS(inccl_communicator_opts, opts, .payload = me->rank == 1 ? 7 : 0, .error = error,
		   .error_size = sizeof(error));

	check(inccl_communicator_create(me->group, &opts, &me->comm) == -EINVAL);
	check(!me->comm && strstr(error, "payload 7"));
	check(me->rank == 1 || strstr(error, "rank 1"));
	/* the order of bytes must be the same on all ranks */
	opts = (struct inccl_communicator_opts){
		.sz = sizeof(opts), .byte_order = me->rank == 2, .error = error, .error_size = 256};
	check(inccl_communicator_create(me->group, &opts, &me->comm) == -EINVAL);
	check(strstr(error, "byte order"));
	/* rank 0 is late, and the others do not wait for ever */
	opts = (struct inccl_communicator_opts){
		.sz = sizeof(opts), .create_timeout_ms = 300, .error = error, .error_size = 256};
	if (!me->rank) {
		opts.payload = 7;
		usleep(600000);
	}
	check(inccl_communicator_create(me->group, &opts, &me->comm) ==
	      (me->rank ? -ETIMEDOUT : -EINVAL));
	sums(me);
}

static void a_refusal_is_that_of_all(void **state)
{
	run(3, refused);
}

/* ---- the end in the middle of a collective ---- */

static void leaves(struct rank *me)
{
	INCCL_OPTS(inccl_collective_opts, patient, .timeout_ms = 20000);
	static int32_t data[1 << 20];
	struct inccl_request *req;

	create(me);
	if (me->rank == 1) {
		/* it cannot have sent all, as rank 0 waits */
		check(!inccl_allreduce_start(me->comm, data, data, 1 << 20, INCCL_INT32, INCCL_SUM,
					     NULL, &req));
		check(!inccl_communicator_destroy(me->comm));
		return;
	}
	check(inccl_allreduce(me->comm, data, data, 1 << 20, INCCL_INT32, INCCL_SUM, &patient) ==
	      -ECANCELED);
	check(strstr(inccl_communicator_error(me->comm), "rank 1: destroyed in the middle"));
	check(inccl_communicator_failed_rank(me->comm) == 1);
	inccl_communicator_destroy(me->comm);
}

static void a_rank_that_leaves_is_named(void **state)
{
	run(3, leaves);
}

static void late(struct rank *me)
{
	INCCL_OPTS(inccl_collective_opts, hasty, .timeout_ms = 300);

	create(me);
	if (me->rank == 2)
		inccl_communicator_destroy(me->comm);
	else
		check(inccl_barrier(me->comm, &hasty) == -ETIMEDOUT &&
		      strstr(inccl_communicator_error(me->comm), "rank 2 did not call"));
	if (me->rank != 2)
		inccl_communicator_destroy(me->comm);
}

static void a_rank_that_does_not_come_is_named(void **state)
{
	run(3, late);
}

/* The communicators 0 and 1 each have a rank that creates them only after the two others have
 * logged that they wait for it. One of these ranks is the first of the machine. */
static void dawdles(struct rank *me)
{
	static const int late[] = {2, 0};

	for (int i = 0; i < 2; i++) {
		for (int r = 1; r < me->ranks && me->rank == late[i]; r++)
			sem_wait(&shared->reported);
		create(me);
		check(!inccl_communicator_destroy(me->comm));
	}
}

static void a_rank_that_is_late_is_named(void **state)
{
	run(3, dawdles);
}

/* A rank that has sent all it gives may go, and its results are not awaited. */
static void goes(struct rank *me)
{
	static int32_t data[64 << 10];
	struct inccl_request *req;

	for (int round = 0; round < 20; round++) {
		create(me);
		for (int i = 0; i < 64 << 10; i++)
			data[i] = 1;
		if (me->rank == 1) {
			check(!inccl_reduce_start(me->comm, data, NULL, 64 << 10, INCCL_INT32,
						  INCCL_SUM, 0, NULL, &req));
			check(!inccl_communicator_destroy(me->comm));
			continue;
		}
		check(!inccl_reduce(me->comm, data, data, 64 << 10, INCCL_INT32, INCCL_SUM, 0,
				    NULL));
		check(me->rank || data[77] == me->ranks);
		check(!inccl_communicator_destroy(me->comm));
	}
}

static void a_rank_that_has_sent_all_may_go(void **state)
{
	run(3, goes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(are_added_in_the_order_of_ranks),
		cmocka_unit_test(have_the_index_of_the_largest),
		cmocka_unit_test(strangers_do_no_harm),
		cmocka_unit_test(a_lack_of_descriptors_ends_it),
		cmocka_unit_test(a_refusal_is_that_of_all),
		cmocka_unit_test(a_rank_that_leaves_is_named),
		cmocka_unit_test(a_rank_that_does_not_come_is_named),
		cmocka_unit_test(a_rank_that_is_late_is_named),
		cmocka_unit_test(a_rank_that_has_sent_all_may_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
