/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A controller rejects a member before the member's first request. The member must report the
 * controller's reason, in whatever order its threads notice the rejection. A member that stood
 * still must read an answer that arrived meanwhile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "hostlib/include/inccl.h"
#include "selftests/fakes/controller.h"

/* how long the lookup of the member's addresses takes, before the member joins */
static unsigned int look_ms;

int getifaddrs(struct ifaddrs **list)
{
	int (*next)(struct ifaddrs **) = (int (*)(struct ifaddrs **))dlsym(RTLD_NEXT, __func__);

	usleep(look_ms * 1000);
	return next(list);
}

static unsigned int wake_ms; /* how long the member's control thread takes to wake up */

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	int (*next)(struct pollfd *, nfds_t, int) =
		(int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, __func__);
	const int ret = next(fds, n, timeout_ms);

	if (timeout_ms < 0)
		usleep(wake_ms * 1000);
	return ret;
}

/* A controller that accepts one member and then rejects it. */
struct closed_door {
	int listener;
	const char *words; /* last text that the controller sends; NULL: none */
	bool resets;
};

static void *turns_away(void *arg)
{
	const struct closed_door *door = arg;
	const struct linger at_once = {.l_onoff = 1};
	int fd = accept(door->listener, NULL, NULL);

	usleep(50 * 1000); /* lets time pass, so that the member's control thread sleeps by now */
	if (door->words)
		assert_int_equal(send(fd, door->words, strlen(door->words), 0),
				 strlen(door->words));
	if (door->resets)
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)),
				 0);
	close(fd);
	return NULL;
}

/* Opens and returns a listener, and writes its HOST:PORT into `controller`. */
static int open_door(char controller[32])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(at);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	snprintf(controller, 32, "127.0.0.1:%u", ntohs(at.sin_port));
	return listener;
}

static int turned_away(struct closed_door *door, char error[256])
{
	char controller[32];
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .controller = controller,
		   .job = "turned", .interface = "lo", .error = error, .error_size = 256);
	struct inccl_group *group;
	pthread_t thread;
	int ret;

	door->listener = open_door(controller);
	assert_int_equal(pthread_create(&thread, NULL, turns_away, door), 0);
	look_ms = 300;
	ret = inccl_group_create(&opts, &group);
	look_ms = 0;
	pthread_join(thread, NULL);
	close(door->listener);
	return ret;
}

/* The controller closes the connection without a text. That happens to a member whose certificate
 * is rejected, because in TLS 1.3 the client begins before it gets the rejection. */
static void turned_away_at_once(void **state)
{
	struct closed_door door = {};
	char error[256] = "";

	assert_int_equal(turned_away(&door, error), -ECONNRESET);
	assert_non_null(strstr(error, "closed the connection"));
}

#define FULL "{\"type\":\"error\",\"errno\":\"EMFILE\",\"message\":\"too many clients\"}\n"

/* A controller without room sends its reason before the member's first request. */
static void turned_away_with_words(void **state)
{
	struct closed_door door = {.words = FULL};
	char error[256] = "";

	assert_int_equal(turned_away(&door, error), -EMFILE);
	assert_string_equal(error, "too many clients");
}

/* The controller sends its reason and resets the connection before the member has read that
 * reason. */
static void turned_away_unread(void **state)
{
	struct closed_door door = {.words = FULL, .resets = true};
	char error[256] = "";
	int ret;

	wake_ms = 500;
	ret = turned_away(&door, error);
	wake_ms = 0;
	assert_string_equal(error, "too many clients");
	assert_int_equal(ret, -EMFILE);
}

#define LIMIT_MS 500

/* Joins with a control thread that is slower than the thread that waits. */
static int join_slowly(const char *controller, char error[256])
{
	INCCL_OPTS(inccl_group_opts, opts, .world_size = 1, .controller = controller,
		   .job = "still", .interface = "lo", .create_timeout_ms = LIMIT_MS, .error = error,
		   .error_size = 256);
	struct inccl_group *group;
	int ret;

	wake_ms = 500;
	ret = inccl_group_create(&opts, &group);
	inccl_group_destroy(group);
	return ret;
}

/* A member stands still for longer than its timeout for an answer, and the answer arrives
 * meanwhile. The member must not report that the controller is silent. */
static void stood_still(void **state)
{
	char controller[32], error[256] = "", line[4096];
	const int listener = open_door(controller);
	int fd, status;
	pid_t pid = fork();

	if (!pid) {
		if (join_slowly(controller, error))
			fprintf(stderr, "%s\n", error);
		_exit(*error != 0);
	}
	fd = accept(listener, NULL, NULL);
	assert_true(recv(fd, line, sizeof(line), 0) > 0);
	kill(pid, SIGSTOP);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	poll(NULL, 0, LIMIT_MS + 1500);
	assert_int_equal(send(fd, JOINED, strlen(JOINED), 0), strlen(JOINED));
	kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fd);
	close(listener);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turned_away_at_once),
		cmocka_unit_test(turned_away_with_words),
		cmocka_unit_test(turned_away_unread),
		cmocka_unit_test(stood_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
