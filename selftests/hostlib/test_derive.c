/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* Derived groups and communicators from the view of one rank: which message it sends on which
 * connection, and how it handles each answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "hostlib/src/internal.h"
#include "selftests/fakes/controller.h"

#define LIMIT_S 120
#define REFUSED "{\"type\":\"error\",\"errno\":\"ECONNRESET\",\"message\":\"rank 1 left\"}\n"
#define REPORTED                                                                \
	"{\"type\":\"failed\",\"group\":8,\"rank\":2,\"errno\":\"ECONNRESET\"," \
	"\"message\":\"rank 2 (h3) left the group\"}\n"
#define NONE JOINED_AS("7", "0", "0")
#define DONE "{\"type\":\"D\",\"communicator\":12}\n"

/* A rank with a communicator, and the fake controllers of its two connections: that of its group,
 * and that of the derived object. */
struct rank {
	struct fake_controller controller, beside;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	char error[256];
	char log[4096];
};

static const char *const parent_answers[] = {JOINED_AS("7", "2", "4"), CONN("5", "1024", "32"),
					     STARTED, NULL};

static void keep_log(void *ctx, const char *line)
{
	struct rank *r = ctx;

	strncat(r->log, line, sizeof(r->log) - strlen(r->log) - 1);
}

/* Sets up a rank. answers: the controller's answers on the connection of the derived object. */
static void up_logging(struct rank *r, const char *const *answers, bool hang_up,
		       void (*log)(void *, const char *), void *log_ctx)
{
	INCCL_OPTS(inccl_group_opts, group, .rank = 2, .world_size = 4, .log = log,
		   .log_ctx = log_ctx);
	INCCL_OPTS(inccl_communicator_opts, comm, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .message_packets = 4,
		   .byte_order = INCCL_ORDER_NETWORK);

	memset(r, 0, sizeof(*r));
	assert_int_equal(fake_controller_join(&r->controller, parent_answers, false, &group,
					      &r->group, r->error),
			 0);
	assert_int_equal(inccl_communicator_create(r->group, &comm, &r->comm), 0);
	fake_controller_beside(&r->beside, &r->controller, answers, hang_up);
}

static void up(struct rank *r, const char *const *answers, bool hang_up)
{
	up_logging(r, answers, hang_up, keep_log, r);
}

/* Destroys the rank. After that, `received` has everything that the fake controllers received. */
static void down(struct rank *r)
{
	fake_controller_hang_up(&r->controller);
	inccl_communicator_destroy(r->comm);
	assert_int_equal(inccl_group_destroy(r->group), 0);
	fake_controller_stop(&r->controller);
	fake_controller_stop(&r->beside);
}

static int split(struct rank *r, int color, int key, struct inccl_communicator **part)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .error = r->error, .error_size = sizeof(r->error));

	return inccl_communicator_split(r->comm, color, key, &opts, part);
}

static void wrong_calls(void **state)
{
	struct inccl_communicator *part = (void *)1;
	struct inccl_group *group = (void *)1;

	assert_int_equal(inccl_communicator_split(NULL, 0, 0, NULL, &part), -EINVAL);
	assert_null(part);
	part = (void *)1;
	assert_int_equal(inccl_communicator_duplicate(NULL, NULL, &part), -EINVAL);
	assert_null(part);
	assert_int_equal(inccl_group_shrink(NULL, NULL, &group), -EINVAL);
	assert_null(group);
	group = (void *)1;
	assert_int_equal(inccl_group_grow(NULL, 2, NULL, &group), -EINVAL);
	assert_null(group);
}

/* If an argument is wrong on this rank alone, the rank reports that to the other ranks on the
 * parent's connection. It sends nothing else, but the attempt gets a number. */
static void fails_here(void **state)
{
	const char *const none[] = {NULL};
	struct inccl_communicator *part = (void *)1;
	struct inccl_group *group = (void *)1;
	INCCL_OPTS(inccl_communicator_opts, opts, .payload = 1000);
	INCCL_OPTS(inccl_group_opts, more, .rank = 1);
	struct {
		struct inccl_group_opts opts;
		char more[16];
	} newer = {.opts = {.sz = sizeof(newer)}, .more = {1}};
	struct rank r;

	up(&r, none, false);
	opts.error = more.error = r.error;
	opts.error_size = more.error_size = sizeof(r.error);
	assert_int_equal(inccl_communicator_split(r.comm, 1, 2, &opts, &part), -EINVAL);
	assert_null(part);
	assert_non_null(strstr(r.error, "payload 1000"));
	assert_int_equal(inccl_communicator_duplicate(r.comm, &opts, &part), -EINVAL);
	assert_int_equal(inccl_group_grow(r.group, 4, NULL, &group), -EINVAL);
	assert_null(group);
	assert_int_equal(inccl_group_grow(r.group, 1 << 20, NULL, &group), -EINVAL);
	assert_int_equal(inccl_group_shrink(r.group, &more, &group), -EINVAL);
	assert_non_null(strstr(r.error, "rank"));
	assert_int_equal(inccl_group_shrink(r.group, &newer.opts, &group), -E2BIG);
	assert_non_null(strstr(r.log, "split 0 of group 7: payload 1000"));
	down(&r);
	assert_non_null(strstr(r.controller.received,
			       "\"type\":\"failed\",\"derive\":{\"how\":\"split\",\"of\":7,"
			       "\"round\":0,\"color\":1,\"key\":2},\"errno\":\"EINVAL\","
			       "\"message\":\"payload 1000"));
	assert_non_null(
		strstr(r.controller.received, "{\"how\":\"duplicate\",\"of\":7,\"round\":1,"));
	assert_non_null(strstr(r.controller.received, "{\"how\":\"grow\",\"of\":7,\"round\":2,"));
	assert_non_null(strstr(r.controller.received, "world_size 4: want 5 to 1024"));
	assert_non_null(strstr(r.controller.received, "{\"how\":\"grow\",\"of\":7,\"round\":3,"));
	assert_non_null(strstr(r.controller.received, "{\"how\":\"shrink\",\"of\":7,\"round\":0,"));
	assert_non_null(strstr(r.controller.received, "{\"how\":\"shrink\",\"of\":7,\"round\":1,"));
	assert_string_equal(r.beside.received, "");
}

/* The new communicator has its own group, connection and ranks. Destroying it destroys all of
 * these. */
static void parts(void **state)
{
	const char *const answers[] = {JOINED_AS("8", "1", "3"), CONN("5", "1024", "8"), STARTED,
				       DONE, NULL};
	struct inccl_communicator_info info = {.sz = sizeof(info)};
	struct inccl_communicator *part;
	struct rank r;

	up(&r, answers, false);
	if (split(&r, 3, -7, &part))
		fail_msg("%s", r.error);
	assert_int_equal(inccl_communicator_info(part, &info), 0);
	assert_int_equal(info.rank, 1);
	assert_int_equal(info.world_size, 3);
	assert_int_equal(inccl_communicator_info(r.comm, &info), 0);
	assert_int_equal(info.rank, 2);
	assert_int_equal(info.world_size, 4);
	/* the rank that is blamed has its number within the derived group */
	fake_controller_send(&r.beside, REPORTED);
	assert_int_equal(inccl_barrier(part, NULL), -ECONNRESET);
	assert_int_equal(inccl_communicator_failed_rank(part), 2);
	assert_null(inccl_communicator_error(r.comm));
	assert_null(inccl_group_error(r.group));
	assert_int_equal(inccl_communicator_destroy(part), -ECONNRESET);
	down(&r);
	assert_non_null(strstr(r.beside.received, "\"job\":\"t\",\"rank\":2,\"world_size\":4,"
						  "\"addrs\":[\"127.0.0.1\"]"));
	assert_non_null(strstr(r.beside.received,
			       "\"derive\":{\"how\":\"split\",\"of\":7,\"round\":0,"
			       "\"color\":3,\"key\":-7}"));
	assert_non_null(strstr(r.beside.received, "\"type\":\"bye\""));
	assert_null(strstr(r.controller.received, "derive"));
}

static void split_into_no_part(void **state)
{
	const char *const answers[] = {NONE, NULL};
	struct inccl_communicator *part = (void *)1;
	struct rank r;

	up(&r, answers, false);
	assert_int_equal(split(&r, INCCL_UNDEFINED, 0, &part), 0);
	assert_null(part);
	down(&r);
	assert_non_null(strstr(r.beside.received,
			       "\"derive\":{\"how\":\"split\",\"of\":7,\"round\":0,\"key\":0}"));
	assert_non_null(strstr(r.beside.received, "\"type\":\"bye\""));
}

/* A duplicate without options requests the options of the original. */
static void duplicate(void **state)
{
	const char *const answers[] = {JOINED_AS("8", "2", "4"), CONN("5", "1024", "32"), STARTED,
				       DONE, NULL};
	struct inccl_communicator *twin;
	struct rank r;

	up(&r, answers, false);
	assert_int_equal(inccl_communicator_duplicate(r.comm, NULL, &twin), 0);
	assert_int_equal(inccl_communicator_destroy(twin), 0);
	down(&r);
	assert_non_null(strstr(r.beside.received, "\"how\":\"duplicate\""));
	assert_non_null(
		strstr(r.beside.received, "\"payload\":1024,\"message_packets\":4,\"window\":8,"));
	assert_non_null(strstr(r.beside.received, "\"byte_order\":\"network\""));
}

static unsigned int lines;

static void count_lines(void *ctx, const char *line)
{
	__atomic_add_fetch(&lines, 1, __ATOMIC_RELAXED);
	*(unsigned int *)ctx += *line;
}

/* A duplicate outlives the group and then has something to log. The callback's context is freed
 * with the group, which inccl.h allows. */
static void log_ends_with_the_group(void **state)
{
	const char *const answers[] = {JOINED_AS("8", "2", "4"), CONN("5", "1024", "32"), STARTED,
				       DONE, NULL};
	unsigned int *context = calloc(1, sizeof(*context)), before;
	struct inccl_communicator *twin;
	struct rank r;

	assert_non_null(context);
	up_logging(&r, answers, false, count_lines, context);
	assert_int_equal(inccl_communicator_duplicate(r.comm, NULL, &twin), 0);
	assert_true(*context);
	fake_controller_hang_up(&r.controller);
	inccl_communicator_destroy(r.comm);
	assert_int_equal(inccl_group_destroy(r.group), 0);
	free(context);
	before = lines;
	fake_controller_send(&r.beside, REPORTED);
	assert_int_equal(inccl_barrier(twin, NULL), -ECONNRESET);
	assert_int_equal(inccl_communicator_destroy(twin), -ECONNRESET);
	assert_int_equal(lines, before);
	fake_controller_stop(&r.controller);
	fake_controller_stop(&r.beside);
}

static struct {
	struct inccl_log *log;
	pid_t ender;
	bool inside, go_on, left, ended, left_before_the_end;
} slow;

static void slow_callback(void *ctx, const char *line)
{
	__atomic_store_n(&slow.inside, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&slow.go_on, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	__atomic_store_n(&slow.left, true, __ATOMIC_RELEASE);
}

static void *deliver_line(void *arg)
{
	inccl_log_line(slow.log, "a line");
	inccl_log_deliver(slow.log);
	return NULL;
}

static void *end_log(void *arg)
{
	__atomic_store_n(&slow.ender, gettid(), __ATOMIC_RELEASE);
	inccl_log_end(slow.log);
	slow.left_before_the_end = __atomic_load_n(&slow.left, __ATOMIC_ACQUIRE);
	__atomic_store_n(&slow.ended, true, __ATOMIC_RELEASE);
	return NULL;
}

/* Does the thread that ends the log sleep? It can sleep only in inccl_log_end(). */
static bool ender_sleeps(void)
{
	const pid_t ender = __atomic_load_n(&slow.ender, __ATOMIC_ACQUIRE);
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", ender);
	f = ender ? fopen(path, "r") : NULL;
	if (!f)
		return false;
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'S';
}

/* inccl_log_end() waits for a callback that runs on another thread. */
static void end_waits_for_the_callback(void **state)
{
	pthread_t deliverer, ender;

	assert_int_equal(inccl_log_new(slow_callback, NULL, &slow.log), 0);
	assert_int_equal(pthread_create(&deliverer, NULL, deliver_line, NULL), 0);
	while (!__atomic_load_n(&slow.inside, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	assert_int_equal(pthread_create(&ender, NULL, end_log, NULL), 0);
	while (!__atomic_load_n(&slow.ended, __ATOMIC_ACQUIRE) && !ender_sleeps())
		poll(NULL, 0, 1);
	__atomic_store_n(&slow.go_on, true, __ATOMIC_RELEASE);
	pthread_join(deliverer, NULL);
	pthread_join(ender, NULL);
	inccl_log_put(slow.log);
	assert_true(slow.left_before_the_end);
}

/* An error in the controller's answer becomes the error of the call. The call also has a time
 * limit. */
static void refused(void **state)
{
	const struct {
		const char *answer;
		bool hang_up;
		int ret;
		const char *text;
	} cases[] = {
		{REFUSED, false, -ECONNRESET, "rank 1 left"},
		{"{\"type\":\"G\",\"group\":8,\"addr\":\"127.0.0.1\"}\n", false, -EPROTO, "rank"},
		{JOINED_AS("8", "1", "4000"), false, -EPROTO, "world_size"},
		{"nonsense\n", false, -EPROTO, "protocol"},
		{HANG_UP, true, -ECONNRESET, "closed"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *const answers[] = {cases[i].answer, NULL};
		struct inccl_communicator *part = (void *)1;
		double begin = now_s();
		struct rank r;

		up(&r, answers, cases[i].hang_up);
		assert_int_equal(split(&r, 0, 0, &part), cases[i].ret);
		assert_null(part);
		assert_non_null(strstr(r.error, cases[i].text));
		assert_true(now_s() - begin < PATIENT_MS / 1000.0);
		/* the parent communicator is unchanged */
		assert_null(inccl_communicator_error(r.comm));
		down(&r);
		assert_non_null(strstr(r.controller.received, "\"type\":\"failed\",\"derive\":"));
	}
}

static void silent(void **state)
{
	const char *const none[] = {NULL};
	struct inccl_group *group = (void *)1;
	struct rank r;
	INCCL_OPTS(inccl_group_opts, opts, .create_timeout_ms = HASTY_MS, .error = r.error,
		   .error_size = sizeof(r.error));

	up(&r, none, false);
	assert_int_equal(inccl_group_shrink(r.group, &opts, &group), -ETIMEDOUT);
	assert_null(group);
	assert_non_null(strstr(r.error, "no answer"));
	down(&r);
	assert_non_null(strstr(r.controller.received, "\"errno\":\"ETIMEDOUT\""));
}

/* A group that has failed can be shrunk, but not split or grown. */
static void after_the_loss_of_a_rank(void **state)
{
	const char *const answers[] = {JOINED_AS("8", "1", "3"), NULL};
	struct inccl_communicator *part;
	struct inccl_group *rest, *more;
	struct rank r;

	up(&r, answers, false);
	fake_controller_send(&r.controller,
			     "{\"type\":\"failed\",\"group\":7,\"rank\":0,\"errno\":\"ECONNRESET\","
			     "\"message\":\"rank 0 left the group\"}\n");
	assert_int_equal(inccl_barrier(r.comm, NULL), -ECONNRESET);
	assert_int_equal(split(&r, 0, 0, &part), -ECONNRESET);
	assert_non_null(strstr(r.error, "rank 0 left"));
	assert_int_equal(inccl_group_grow(r.group, 5, NULL, &more), -ECONNRESET);
	assert_int_equal(inccl_group_shrink(r.group, NULL, &rest), 0);
	assert_int_equal(inccl_group_rank(rest), 1);
	assert_int_equal(inccl_group_size(rest), 3);
	assert_null(inccl_group_error(rest));
	assert_int_equal(inccl_group_destroy(rest), 0);
	down(&r);
	assert_non_null(strstr(r.beside.received, "\"how\":\"shrink\",\"of\":7,\"round\":0"));
}

/* A rank that has lost its controller can derive no group, not even a shrunk one. */
static void controller_gone(void **state)
{
	const char *const none[] = {NULL};
	struct inccl_group *rest;
	struct rank r;
	double begin;

	up(&r, none, false);
	fake_controller_hang_up(&r.controller);
	begin = now_s();
	while (!inccl_group_error(r.group)) {
		assert_true(now_s() - begin < PATIENT_MS / 1000.0);
		usleep(1000);
	}
	assert_int_equal(inccl_group_shrink(r.group, NULL, &rest), -ECONNRESET);
	down(&r);
	assert_null(strstr(r.beside.received, "derive"));
}

static void newcomer(void **state)
{
	const char *const answers[] = {JOINED_AS("9", "3", "4"), NULL};
	INCCL_OPTS(inccl_group_opts, opts, .rank = 3, .world_size = 4, .join = 1);
	struct inccl_group *group;
	char error[256];
	struct fake_controller f;

	assert_int_equal(fake_controller_join(&f, answers, false, &opts, &group, error), 0);
	assert_int_equal(inccl_group_rank(group), 3);
	assert_int_equal(inccl_group_destroy(group), 0);
	fake_controller_stop(&f);
	assert_non_null(strstr(f.received, "\"derive\":{\"how\":\"grow\","));
	assert_null(strstr(f.received, "\"of\""));
}

static void grows(void **state)
{
	const char *const answers[] = {JOINED_AS("8", "2", "6"), NULL};
	struct inccl_group *more;
	struct rank r;

	up(&r, answers, false);
	assert_int_equal(inccl_group_grow(r.group, 6, NULL, &more), 0);
	assert_int_equal(inccl_group_size(more), 6);
	assert_int_equal(inccl_group_size(r.group), 4);
	assert_int_equal(inccl_group_destroy(more), 0);
	down(&r);
	assert_non_null(strstr(r.beside.received, "\"rank\":2,\"world_size\":6,"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_calls),
		cmocka_unit_test(fails_here),
		cmocka_unit_test(parts),
		cmocka_unit_test(split_into_no_part),
		cmocka_unit_test(duplicate),
		cmocka_unit_test(log_ends_with_the_group),
		cmocka_unit_test(end_waits_for_the_callback),
		cmocka_unit_test(refused),
		cmocka_unit_test(silent),
		cmocka_unit_test(after_the_loss_of_a_rank),
		cmocka_unit_test(controller_gone),
		cmocka_unit_test(newcomer),
		cmocka_unit_test(grows),
	};

	signal(SIGPIPE, SIG_IGN);
	alarm(LIMIT_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
