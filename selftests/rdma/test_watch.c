/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache of registrations and the watch over its memory, among several threads and processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "selftests/belongings.h"
#include "selftests/rdma/harness_cache.h"

#define THREADS    4
#define PER_THREAD 5000

/* ---- races ---------------------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	struct inc_rdma_cache *cache;
	const atomic_bool *enough; /* set when comer() may end */
	unsigned int number, rounds, wrong;
	unsigned int seed;
};

/* Real-time priorities, so that other processes on this machine do not delay the watcher. */
enum { WATCHER_PRIORITY = 1, PRIORITY };

/* Sets the thread's priority; 0: ordinary scheduling. Without the privilege for real time all
 * threads stay ordinary, and the race only becomes rarer. */
static void set_priority(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	pthread_setschedparam(pthread_self(), priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * Opening the first cache starts the watcher. It runs on the caller's CPU and yields to the caller.
 * So a thread that waits for a report continues as soon as the watcher has read the report, before
 * the watcher marks anything.
 */
static void open_with_slow_watcher(struct inc_rdma_cache *cache)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	open_cache(cache, &unlimited);
	assert_int_equal(move_watcher(SCHED_FIFO, WATCHER_PRIORITY), 1);
}

static void *loser(void *arg)
{
	struct worker *w = arg;
	uint8_t *p = map_at(NULL, LEN);

	set_priority(PRIORITY);
	for (; w->rounds < PER_THREAD; w->rounds++) {
		w->wrong += !!use(w->cache, p, LEN, w->rounds * THREADS + w->number);
		switch (rand_r(&w->seed) % 4) {
		case 0:
			by_mapping_over(p);
			break;
		case 1:
			by_moving_pages_away(p);
			break;
		default:
			madvise(p, LEN, MADV_DONTNEED);
			break;
		}
	}
	munmap(p, LEN);
	return NULL;
}

static int lose_pages_at_once(void *arg)
{
	unsigned int i, threads = *(unsigned int *)arg, wrong = 0;
	struct inc_rdma_cache cache[2];
	struct worker w[THREADS];

	for (i = 0; i < 2; i++)
		open_with_slow_watcher(&cache[i]);
	for (i = 0; i < threads; i++) {
		w[i] = (struct worker){.cache = &cache[i % 2], .number = i, .seed = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, loser, &w[i]), 0);
	}
	for (i = 0; i < threads; i++) {
		pthread_join(w[i].thread, NULL);
		wrong += w[i].wrong;
	}
	for (i = 0; i < 2; i++)
		inc_rdma_cache_close(&cache[i]);
	print_message("# %u threads: %u of %u operations used pages that were gone\n", threads,
		      wrong, threads * PER_THREAD);
	return !!wrong;
}

static void no_stale_hit_after_a_report(void **state)
{
	unsigned int threads = 1;

	assert_int_equal(in_child(lose_pages_at_once, &threads), 0);
}

static void no_stale_hit_while_others_unmap(void **state)
{
	unsigned int threads = THREADS;

	assert_int_equal(in_child(lose_pages_at_once, &threads), 0);
}

/* A thread that maps, uses and unmaps memory. The kernel at once gives an address that one thread
 * has unmapped to another thread. */
static void *passer(void *arg)
{
	struct worker *w = arg;
	uint8_t *p;

	for (; w->rounds < PER_THREAD; w->rounds++) {
		p = map_at(NULL, LEN);
		w->wrong += !!use(w->cache, p, LEN, w->rounds * THREADS + w->number);
		munmap(p, LEN);
	}
	return NULL;
}

static void addresses_that_change_hands(void **state)
{
	struct inc_rdma_cache cache;
	struct worker w[THREADS];
	unsigned int i;

	open_cache(&cache, &unlimited);
	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.cache = &cache, .number = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, passer, &w[i]), 0);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		assert_int_equal(w[i].wrong, 0);
	}
	inc_rdma_cache_close(&cache);
	assert_int_equal(unlimited.pinned, 0);
}

/* Opens and closes caches while other caches run out of memory and the program forks. It continues
 * until the last fork is over. Otherwise the thread sanitizer in the child would report the ended,
 * not yet joined threads as leaks. */
static void *comer(void *arg)
{
	struct worker *w = arg;
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache;

	for (; w->rounds < 300 || !atomic_load(w->enough); w->rounds++) {
		struct inc_rdma_mr *mr;
		int ret;

		if (inc_rdma_cache_open(&cache, &fake_registration_ops, w->cache->pd, 64 << 20))
			abort();
		ret = inc_rdma_cache_get(&cache, p, LEN, IBV_ACCESS_LOCAL_WRITE, &mr);
		if (!ret)
			inc_rdma_mr_put(&cache, mr);
		else
			w->wrong += ret != -ENOMEM;
		madvise(p, LEN, MADV_DONTNEED);
		inc_rdma_cache_close(&cache);
	}
	munmap(p, LEN);
	return NULL;
}

static int nothing(void *arg)
{
	return 0;
}

static int come_and_go(void *arg)
{
	struct fake_domain limited = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = 2 * LEN};
	struct inc_rdma_cache common = {.pd = &limited};
	atomic_bool enough = false;
	struct worker w[THREADS];
	unsigned int i, failed = 0;

	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.cache = &common, .enough = &enough, .number = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, comer, &w[i]), 0);
	}
	for (i = 0; i < 50; i++)
		failed += !!in_child(nothing, NULL);
	atomic_store(&enough, true);
	for (i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		failed += !!w[i].wrong;
	}
	return failed + !!limited.pinned;
}

static void caches_come_and_go(void **state)
{
	assert_int_equal(in_child(come_and_go, NULL), 0);
}

/* ---- the end of the watch ------------------------------------------------------------- */

struct stack_user {
	struct inc_rdma_cache *cache;
	pthread_barrier_t *all;
};

static void *use_own_stack(void *arg)
{
	struct stack_user *user = arg;
	uint8_t buf[2 * PAGE];
	struct inc_rdma_mr *mr;

	memset(buf, 7, sizeof(buf));
	if (inc_rdma_cache_get(user->cache, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE, &mr))
		abort();
	inc_rdma_mr_put(user->cache, mr);
	pthread_barrier_wait(user->all);
	return NULL;
}

#define STACKS 5

/* The buffers are on the stacks of threads that end. The C library caches 40 MB of stacks. It
 * unmaps the oldest one when another thread ends. */
static int close_last_after_threads(void *arg)
{
	pthread_t thread[STACKS];
	struct inc_rdma_cache cache;
	pthread_barrier_t all;
	struct stack_user user = {&cache, &all};
	pthread_attr_t attr;
	unsigned int i;

	open_cache(&cache, &unlimited);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 8000 << 10);
	pthread_barrier_init(&all, NULL, STACKS);
	for (i = 0; i < STACKS; i++)
		if (pthread_create(&thread[i], &attr, use_own_stack, &user))
			return 2;
	for (i = 0; i < STACKS; i++)
		pthread_join(thread[i], NULL);
	if (cache.entries != STACKS)
		return 3;
	inc_rdma_cache_close(&cache);
	return 0;
}

static void last_close_does_not_hang(void **state)
{
	assert_int_equal(in_child(close_last_after_threads, NULL), 0);
}

/* ---- fork ----------------------------------------------------------------------------- */

/* Starts a child that lives until *told is closed in the parent. Without `handlers` the child is
 * made without fork(), so no handler closes descriptors in it. */
static pid_t live_child(int *told, bool handlers)
{
	int fds[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	pid = handlers ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	assert_true(pid >= 0);
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &c, 1));
	}
	close(fds[0]);
	*told = fds[1];
	return pid;
}

static int unmap_while_child_lives(void *arg)
{
	bool handlers = *(bool *)arg;
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache;
	int told, status;
	pid_t pid;

	open_cache(&cache, &unlimited);
	if (use(&cache, p, LEN, 1))
		return 2;
	pid = live_child(&told, handlers);
	madvise(p, LEN, MADV_DONTNEED);
	if (use(&cache, p, LEN, 2))
		return 3;
	inc_rdma_cache_close(&cache);
	/* would wait for ever for a report that the child's copy of the descriptor retains */
	munmap(p, LEN);
	close(told);
	return waitpid(pid, &status, 0) == pid && !status ? 0 : 4;
}

static void parent_goes_on_after_fork(void **state)
{
	bool handlers = true;

	assert_int_equal(in_child(unmap_while_child_lives, &handlers), 0);
	handlers = false;
	assert_int_equal(in_child(unmap_while_child_lives, &handlers), 0);
}

/* Gives new threads another stack size. Otherwise the C library could reuse the stack of the
 * parent's watcher in the child. The thread sanitizer still has that watcher in its list, and would
 * take both for the same thread. */
static void leave_the_parents_stack(void)
{
#ifdef __SANITIZE_THREAD__
	pthread_attr_t attr;
	size_t size;

	pthread_getattr_default_np(&attr);
	pthread_attr_getstacksize(&attr, &size);
	pthread_attr_setstacksize(&attr, 2 * size);
	assert_int_equal(pthread_setattr_default_np(&attr), 0);
#endif
}

/* Runs in the child: registers the parent's buffer in another cache with another watch. */
static int use_own_cache(void *arg)
{
	uint8_t *p = arg;
	struct inc_rdma_cache cache;
	unsigned int i, wrong = 0;

	leave_the_parents_stack();
	open_cache(&cache, &unlimited);
	for (i = 0; i < 50; i++) {
		wrong += !!use(&cache, p, LEN, 1000 + i);
		ways[i % WAYS].lose(p);
		wrong += !!use(&cache, p, LEN, 2000 + i);
	}
	if (wrong)
		print_message("# %u of 100 wrong\n", wrong);
	if (watched_mappings() != 1) {
		print_message("# %u mappings are watched\n", watched_mappings());
		wrong++;
	}
	munmap(p, LEN);
	inc_rdma_cache_close(&cache);
	return !!wrong;
}

static void child_watches_its_own_memory(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache;
	struct inc_rdma_mr *mr;

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(in_child(use_own_cache, p), 0);
	/* The parent's registration is unchanged. Its next write copies the page, because the pipe
	 * has not pinned it as a device would. So this test does not compare the contents. */
	assert_int_equal(inc_rdma_cache_get(&cache, p, LEN, 0, &mr), 0);
	inc_rdma_mr_put(&cache, mr);
	assert_int_equal(cache.hits, 1);
	madvise(p, LEN, MADV_DONTNEED);
	assert_int_equal(use(&cache, p, LEN, 3), 0);
	assert_int_equal(cache.misses, 2);
	inc_rdma_cache_close(&cache);
	munmap(p, LEN);
}

/* A child that does not use the parent's communicator can still unmap memory. */
static int unmap_in_child(void *arg)
{
	munmap(arg, LEN);
	free(malloc(64 << 20));
	return 0;
}

static void child_gives_memory_back(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache;

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(in_child(unmap_in_child, p), 0);
	inc_rdma_cache_close(&cache);
	munmap(p, LEN);
}

static int open_while_busy(void *arg)
{
	const cpu_set_t before = become_busy();
	struct inc_rdma_cache cache;
	bool inherit = false;
	unsigned int n;

	open_cache(&cache, &unlimited);
	n = become_idle(&before, &inherit);
	inc_rdma_cache_close(&cache);
	return !n || inherit;
}

/* The first cache is opened by a thread that runs under SCHED_FIFO on one CPU. The watcher must not
 * inherit that. */
static void watcher_inherits_nothing(void **state)
{
	assert_int_equal(in_child(open_while_busy, NULL), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_stale_hit_after_a_report),
		cmocka_unit_test(no_stale_hit_while_others_unmap),
		cmocka_unit_test(addresses_that_change_hands),
		cmocka_unit_test(caches_come_and_go),
		cmocka_unit_test(last_close_does_not_hang),
		cmocka_unit_test(parent_goes_on_after_fork),
		cmocka_unit_test(child_watches_its_own_memory),
		cmocka_unit_test(child_gives_memory_back),
		cmocka_unit_test(watcher_inherits_nothing),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]); /* runs only the test with this name */
	return cmocka_run_group_tests_name("watch", tests, NULL, NULL) ? 1 : 0;
}
