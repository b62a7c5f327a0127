/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/*
 * A rank that computes under SCHED_FIFO on one CPU. The library's threads must nevertheless answer
 * the switch and the controller. They must stay on the CPUs to which the process was bound at its
 * start. The test needs root.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "lib/base/clock.h"
#include "lib/base/thread.h"
#include "selftests/hostlib/fixture_rank.h"

#define NARROW "narrow" /* argument with which this program first binds itself to one CPU */

struct rank {
	void *fixture;
	int cpu;
	bool refused; /* this machine does not allow real-time scheduling */
	bool ready, stop;
};

static cpu_set_t started_on;

static int last_cpu(void)
{
	int cpu = CPU_SETSIZE - 1;

	while (!CPU_ISSET(cpu, &started_on))
		cpu--;
	return cpu;
}

static void pin(pthread_t thread, int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(pthread_setaffinity_np(thread, sizeof(one), &one), 0);
}

/* Gives a thread ordinary scheduling. The fake controller is a thread here, but the real one is
 * another process. */
static void make_ordinary(pthread_t thread)
{
	const struct sched_param none = {0};

	assert_int_equal(pthread_setschedparam(thread, SCHED_OTHER, &none), 0);
	assert_int_equal(pthread_setaffinity_np(thread, sizeof(started_on), &started_on), 0);
}

/* Sets `ready`, and then computes without sleeping until the test stops it. */
static void *compute(void *arg)
{
	const struct sched_param first = {.sched_priority = 10};
	struct rank *rank = arg;

	pin(pthread_self(), rank->cpu);
	rank->refused = pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
	if (!rank->refused) {
		rank_setup(&rank->fixture);
		make_ordinary(((struct rank_fixture *)rank->fixture)->controller.thread);
		rank_start(rank->fixture, 0);
	}
	__atomic_store_n(&rank->ready, true, __ATOMIC_RELEASE);
	while (!rank->refused && !__atomic_load_n(&rank->stop, __ATOMIC_ACQUIRE))
		;
	return NULL;
}

/* Lets the switch receive the contribution and send the result. Returns whether the rank
 * acknowledges the result. */
static bool result_is_acknowledged(struct rank_fixture *fx)
{
	struct inc_roce_packet pkt;

	if (!rc_peer_receive(&fx->peer, &pkt, WAIT_MS))
		return false;
	rc_peer_mirror(&fx->peer, &pkt, 0, fx->data[0]);
	return rc_peer_receive(&fx->peer, &pkt, WAIT_MS) && pkt.opcode == INC_OP_ACK;
}

static bool ping_is_answered(struct rank_fixture *fx)
{
	const uint64_t end_ns = deadline_after_ms(WAIT_MS);

	/* the controller's answer after the pong must be the one for the end of the group */
	fx->answers[4] = fx->answers[3];
	fake_controller_send(&fx->controller, "{\"type\":\"ping\"}\n");
	while (!strstr(fx->controller.received, "\"pong\"") && inc_now_ns() < end_ns)
		poll(NULL, 0, 1);
	return strstr(fx->controller.received, "\"pong\"");
}

static void busy_rank_is_alive(void **state)
{
	struct rank rank = {.cpu = last_cpu()};
	bool acknowledged = false, answered = false;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, compute, &rank), 0);
	while (!__atomic_load_n(&rank.ready, __ATOMIC_ACQUIRE))
		poll(NULL, 0, 1);
	if (!rank.refused) {
		answered = ping_is_answered(rank.fixture);
		acknowledged = result_is_acknowledged(rank.fixture);
	}
	__atomic_store_n(&rank.stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	if (rank.refused)
		skip();
	rank_teardown(&rank.fixture);
	assert_true(answered);
	assert_true(acknowledged);
}

/* Checks that all threads of this process, including the library's, may run on the CPUs of `want`
 * and no others. */
static void expect_masks(const cpu_set_t *want)
{
	DIR *tasks = opendir("/proc/self/task");
	unsigned int threads = 0;
	struct dirent *task;
	cpu_set_t mask;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		if (*task->d_name == '.')
			continue;
		assert_int_equal(sched_getaffinity(atoi(task->d_name), sizeof(mask), &mask), 0);
		assert_true(CPU_EQUAL(&mask, want));
		threads++;
	}
	closedir(tasks);
	/* the threads are this one, the fake controller's, and two of the library */
	assert_true(threads >= 4);
}

/* A thread that is bound to a CPU creates a group. The library's threads must not inherit that. */
static void thread_mask_is_not_inherited(void **state)
{
	struct rank_fixture *fx;
	void *fixture;

	pin(pthread_self(), last_cpu());
	rank_setup(&fixture);
	fx = fixture;
	make_ordinary(pthread_self());
	make_ordinary(fx->controller.thread);
	expect_masks(&started_on);
	rank_teardown(&fixture);
}

/* If a process was bound to CPUs at its start, the library's threads are bound to them, too. */
static void process_mask_holds(void **state)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pin(pthread_self(), last_cpu());
		execl("/proc/self/exe", "test_realtime", NARROW, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void *measure_stack(void *bytes)
{
	pthread_attr_t attr;
	void *low;

	if (!pthread_getattr_np(pthread_self(), &attr)) {
		pthread_attr_getstack(&attr, &low, bytes);
		pthread_attr_destroy(&attr);
	}
	return NULL;
}

/* The program, or RLIMIT_STACK at its start, has made the default stack of all threads small. The
 * library's threads have their own size. */
static void stack_is_not_the_default(void **state)
{
	pthread_attr_t attr;
	pthread_t thread;
	size_t was, bytes;

	pthread_getattr_default_np(&attr);
	pthread_attr_getstacksize(&attr, &was);
	pthread_attr_setstacksize(&attr, 16 << 10);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
	assert_int_equal(inc_thread_create_apart(&thread, measure_stack, &bytes), 0);
	pthread_join(thread, NULL);
	pthread_attr_setstacksize(&attr, was);
	pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
	assert_int_equal(bytes, 1 << 20); /* this is the size that inccl.h states */
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(busy_rank_is_alive),
		cmocka_unit_test(thread_mask_is_not_inherited),
		cmocka_unit_test(process_mask_holds),
		cmocka_unit_test(stack_is_not_the_default),
	};
	const struct CMUnitTest narrow[] = {cmocka_unit_test(thread_mask_is_not_inherited)};

	alarm(LIMIT_S);
	if (sched_getaffinity(0, sizeof(started_on), &started_on))
		return 1;
	if (argc > 1 && !strcmp(argv[1], NARROW)) {
		freopen("/dev/null", "fx", stdout); /* hides the output (TAP) of the inner run */
		return cmocka_run_group_tests(narrow, NULL, NULL) || CPU_COUNT(&started_on) != 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
