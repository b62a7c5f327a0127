/* SPDX-License-Identifier: BSD-2-Clause */
/* A controller that is lost and comes back while a member works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "selftests/fakes/controller.h"

#define LIMIT_S 120
#define WAIT_S  10
#define MAX_FD  256
/* an empty answer; HANG_UP, which is empty too, is recognised by its address */
#define NOTHING   ""
#define PONG      "{\"type\":\"pong\"}\n"
#define RESUMED   "{\"type\":\"resumed\",\"group\":7}\n"
#define DESTROYED "{\"type\":\"D\",\"communicator\":12}\n"
#define CONN_1                                                                            \
	"{\"type\":\"C\",\"comm\":1,\"communicator\":13,\"payload\":1024,\"slots\":8,"    \
	"\"connection\":{\"switch\":\"s0\",\"peer_ip\":\"127.0.0.1\",\"peer_port\":4791," \
	"\"peer_qp\":6,\"peer_psn\":77,\"own_ip\":\"127.0.0.1\"}}\n"
#define STARTED_1 "{\"type\":\"start\",\"communicator\":13}\n"
#define STALL     "{\"type\":\"error\",\"comm\":9,\"errno\":\"EINVAL\",\"message\":\"stall\"}\n"

struct rank {
	struct fake_controller controller;
	struct inccl_group *group;
	struct inccl_communicator *comm;
	bool back;  /* the library has reported that the controller is back */
	bool stall; /* at the answer STALL the thread stops until the controller is back */
	pthread_t thread;
	bool stalled;
};

static struct rank the_rank;
static int release_fd[2];

static void on_signal(int number)
{
	int saved = errno;
	char c;

	__atomic_store_n(&the_rank.stalled, true, __ATOMIC_RELEASE);
	while (read(release_fd[0], &c, 1) < 0 && errno == EINTR)
		;
	errno = saved;
}

static bool is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static void until(const bool *flag)
{
	double end = now_s() + WAIT_S;

	while (!is_set(flag)) {
		assert_true(now_s() < end);
		poll(NULL, 0, 1);
	}
}

/* The log callback, which runs on the control thread and so must not assert. */
static void on_line(void *arg, const char *line)
{
	struct rank *r = arg;

	if (strstr(line, "stall")) {
		pthread_kill(r->thread, SIGUSR1);
		while (!is_set(&r->stalled))
			poll(NULL, 0, 1);
	}
	if (strstr(line, "knows the running communicators")) {
		__atomic_store_n(&r->back, true, __ATOMIC_RELEASE);
		if (r->stall && write(release_fd[1], "", 1) != 1)
			abort();
	}
}

static struct inccl_communicator *add(struct rank *r, unsigned int timeout_ms)
{
	INCCL_OPTS(inccl_communicator_opts, opts, .transport = INCCL_TRANSPORT_SOFT,
		   .payload = 1024, .window = 8, .timeout_ms = timeout_ms);
	struct inccl_communicator *comm;

	assert_int_equal(inccl_communicator_create(r->group, &opts, &comm), 0);
	return comm;
}

static struct rank *begin(const char *const *answers, unsigned int timeout_ms)
{
	struct rank *r = &the_rank;
	char error[256];

	memset(r, 0, sizeof(*r));
	assert_int_equal(fake_controller_create(&r->controller, answers, false, &r->group, error,
						on_line, r),
			 0);
	r->comm = add(r, timeout_ms);
	return r;
}

static void end(struct rank *r)
{
	assert_int_equal(inccl_group_destroy(r->group), 0);
	fake_controller_stop(&r->controller);
}

/* A rank reports a failure to a controller that ends at that moment. The rank must repeat the
 * report to the next controller. */
static void own_failure(void **state)
{
	const char *const answers[] = {JOINED,  CONN("5", "1024", "8"),
				       STARTED, NOTHING,
				       HANG_UP, RESUMED,
				       NOTHING, DESTROYED,
				       NULL};
	struct rank *r = begin(answers, 50);
	const char *told;
	int32_t x = 1;

	assert_int_equal(inccl_allreduce(r->comm, &x, &x, 1, INCCL_INT32, INCCL_SUM, NULL),
			 -ETIMEDOUT);
	until(&r->back);
	assert_int_equal(inccl_communicator_destroy(r->comm), -ETIMEDOUT);
	end(r);
	told = strstr(r->controller.received, "\"type\":\"resume\"");
	assert_non_null(told);
	told = strstr(told, "\"type\":\"failed\",\"communicator\":12,\"errno\":\"ETIMEDOUT\"");
	assert_non_null(told);
	assert_null(strstr(told + 1, "\"type\":\"failed\""));
	assert_non_null(strstr(told, "\"type\":\"D\""));
}

/* The UDP port in the first message of this type that the controller received. */
static long udp_port_said(const struct rank *r, const char *type)
{
	const char *at = strstr(r->controller.received, type);

	assert_non_null(at);
	at = strstr(at, "\"own_port\":");
	assert_non_null(at);
	return strtol(strchr(at, ':') + 1, NULL, 10);
}

/* A rank destroys a communicator and is slow to notice the loss of the controller. The rank must
 * not wait for an answer that cannot come, and must not report the communicator as running. */
static void slow_destroyer(void **state)
{
	const char *const answers[] = {
		JOINED, CONN("5", "1024", "8"), STARTED, CONN_1, STARTED_1, STALL, HANG_UP, RESUMED,
		NULL};
	struct sigaction action = {.sa_handler = on_signal};
	struct rank *r = begin(answers, 0);
	struct inccl_communicator *other = add(r, 0);
	double since = now_s();
	const char *told, *ended;

	assert_int_equal(pipe(release_fd), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	r->stall = true;
	r->thread = pthread_self();
	assert_int_equal(inccl_communicator_destroy(r->comm), 0);
	assert_true(is_set(&r->back));
	assert_true(now_s() - since < 4);
	fake_controller_hang_up(&r->controller);
	inccl_communicator_destroy(other);
	end(r);
	close(release_fd[0]);
	close(release_fd[1]);
	told = strstr(r->controller.received, "\"type\":\"resume\"");
	assert_non_null(told);
	assert_non_null(strstr(told, "\"communicators\":[{\"communicator\":13,"));
	ended = strstr(told, "\"communicator\":12");
	assert_true(!ended || ended > strchr(told, '\n'));
}

/* A member that resumes reports the same UDP port again, because a new controller has no other
 * source for it. */
static void port_is_reported_again(void **state)
{
	const char *const answers[] = {
		JOINED, CONN("5", "1024", "8"), STARTED, HANG_UP, RESUMED, DESTROYED, NULL};
	struct rank *r = begin(answers, 0);

	until(&r->back);
	assert_int_equal(inccl_communicator_destroy(r->comm), 0);
	end(r);
	assert_true(udp_port_said(r, "\"type\":\"C\"") > 0);
	assert_int_equal(udp_port_said(r, "\"type\":\"resume\""),
			 udp_port_said(r, "\"type\":\"C\""));
}

/* A controller that rejects the connection for lack of room has not processed the message "resume".
 * The member must retry. */
static void controller_without_room(void **state)
{
	const char *const answers[] = {
		JOINED,
		CONN("5", "1024", "8"),
		STARTED,
		HANG_UP,
		"{\"type\":\"error\",\"errno\":\"EMFILE\",\"message\":\"too many clients\"}\n",
		HANG_UP,
		RESUMED,
		DESTROYED,
		NULL};
	struct rank *r = begin(answers, 0);

	until(&r->back);
	assert_null(inccl_communicator_error(r->comm));
	assert_int_equal(inccl_communicator_destroy(r->comm), 0);
	end(r);
}

/* After a new controller has resumed the group, a later failure is not attributed to the loss of a
 * controller. */
static void no_orphan_after_a_resume(void **state)
{
	const char *const answers[] = {
		JOINED, CONN("5", "1024", "8"), STARTED, HANG_UP, RESUMED, NOTHING, DESTROYED,
		NULL};
	struct rank *r = begin(answers, 50);

	until(&r->back);
	assert_int_equal(inccl_barrier(r->comm, NULL), -ETIMEDOUT);
	assert_null(strstr(inccl_communicator_error(r->comm), "the controller is gone"));
	assert_int_equal(inccl_communicator_destroy(r->comm), -ETIMEDOUT);
	end(r);
}

/* Counts the sockets of this process that are connected to the port, and those of them on which the
 * option is set. */
static void count(unsigned short port, int level, int option, int *all, int *with)
{
	*all = *with = 0;
	for (int fd = 0; fd < MAX_FD; fd++) {
		struct sockaddr_in peer = {0};
		socklen_t len = sizeof(peer);
		int on = 0;

		if (getpeername(fd, (struct sockaddr *)&peer, &len) || ntohs(peer.sin_port) != port)
			continue;
		(*all)++;
		len = sizeof(on);
		*with += !getsockopt(fd, level, option, &on, &len) && on;
	}
}

/* The connection to the second controller has keepalive, too, because that controller's machine may
 * fail like the first one's. */
static void keepalive_after_a_resume(void **state)
{
	const char *const answers[] = {
		JOINED, CONN("5", "1024", "8"), STARTED, HANG_UP, RESUMED, DESTROYED, NULL};
	struct rank *r = begin(answers, 0);
	int all, with;

	until(&r->back);
	count(r->controller.port, SOL_SOCKET, SO_KEEPALIVE, &all, &with);
	assert_int_equal(all, 1);
	assert_int_equal(with, 1);
	assert_int_equal(inccl_communicator_destroy(r->comm), 0);
	end(r);
}

/* Of two controllers the first one accepts connections and does not answer. The member joins at the
 * second one. When that one hangs up and is silent, too, a third attempt finds it again. */
static void several_controllers(void **state)
{
	const char *const answers[] = {PONG,    JOINED,    CONN("5", "1024", "8"),
				       STARTED, HANG_UP,   PONG,
				       RESUMED, DESTROYED, NULL};
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .log = on_line, .log_ctx = &the_rank,
		   .job = "t", .address = "127.0.0.1", .create_timeout_ms = PATIENT_MS);
	static const char *const silence[] = {NULL};
	struct rank *r = &the_rank;
	struct fake_controller silent;
	char list[64];

	memset(r, 0, sizeof(*r));
	fake_controller_start(&silent, silence, false);
	fake_controller_start(&r->controller, answers, false);
	snprintf(list, sizeof(list), "127.0.0.1:%u,127.0.0.1:%u", silent.port, r->controller.port);
	opts.controller = list;
	assert_int_equal(inccl_group_create(&opts, &r->group), 0);
	r->comm = add(r, 0);
	until(&r->back);
	assert_int_equal(inccl_communicator_destroy(r->comm), 0);
	end(r);
	fake_controller_stop(&silent);
	assert_non_null(strstr(silent.received, "\"type\":\"ping\""));
	assert_null(strstr(silent.received, "\"type\":\"J"));
	assert_null(strstr(silent.received, "resume"));
}

/* If none of the controllers answers, the error names the last one. */
static void no_controller_of_several(void **state)
{
	char error[256] = "";
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .address = "127.0.0.1",
		   .controller = "127.0.0.1:1,127.0.0.1:2", .connect_timeout_ms = HASTY_MS,
		   .error = error, .error_size = sizeof(error));
	struct inccl_group *group;

	assert_int_equal(inccl_group_create(&opts, &group), -ECONNREFUSED);
	assert_non_null(strstr(error, "none of 2 controllers answers; the last one, 127.0.0.1:"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_failure),
		cmocka_unit_test(slow_destroyer),
		cmocka_unit_test(port_is_reported_again),
		cmocka_unit_test(controller_without_room),
		cmocka_unit_test(no_orphan_after_a_resume),
		cmocka_unit_test(keepalive_after_a_resume),
		cmocka_unit_test(several_controllers),
		cmocka_unit_test(no_controller_of_several),
	};

	alarm(LIMIT_S);
	unsetenv("INCCL_START_PSN");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
