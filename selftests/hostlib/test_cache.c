/* SPDX-License-Identifier: BSD-2-Clause */
/* TIMEOUT: 120 */
/*
 * The cache of registrations and the watch over their memory, without an RDMA device. What
 * takes the device's place pins pages for real: a registration splices them into a pipe, and to
 * "read by DMA" is to look into the pipe. So a stale registration shows as other data than
 * the program has at that address.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "hostlib/src/verbs_cache.h"

#define PAGE       4096ul
#define LEN        (4 * PAGE)
#define CHILD_S    30 /* a child that hangs is ended by its alarm */
#define THREADS    4
#define PER_THREAD 5000

/* ---- a device ------------------------------------------------------------------------- */

struct pinned {
	struct ibv_mr mr; /* first */
	int in, out;      /* the pipe that holds the pages */
};

/* What a protection domain is here: a limit on pinned memory, shared by all that point to it. */
struct domain {
	pthread_mutex_t lock;
	size_t pinned, limit; /* bytes; limit 0: none */
};

static int device_reg(void *pd, struct verbs_mr *mr)
{
	struct iovec iov = {.iov_base = (void *)mr->range.start};
	size_t len = mr->range.end - mr->range.start;
	struct domain *domain = pd;
	struct pinned *pinned;
	int fds[2];
	bool over;

	pthread_mutex_lock(&domain->lock);
	over = domain->limit && domain->pinned + len > domain->limit;
	domain->pinned += over ? 0 : len;
	pthread_mutex_unlock(&domain->lock);
	if (over)
		return -ENOMEM;
	pinned = calloc(1, sizeof(*pinned));
	if (!pinned || pipe2(fds, O_NONBLOCK | O_CLOEXEC))
		abort();
	/* the tests look at the first pages only */
	iov.iov_len = len < LEN ? len : LEN;
	if (vmsplice(fds[1], &iov, 1, 0) != (ssize_t)iov.iov_len)
		abort();
	pinned->mr.pd = pd;
	pinned->mr.length = len;
	pinned->in = fds[1];
	pinned->out = fds[0];
	mr->mr = &pinned->mr;
	return 0;
}

static void device_dereg(struct verbs_mr *mr)
{
	struct pinned *pinned = (struct pinned *)mr->mr;
	struct domain *domain = (struct domain *)pinned->mr.pd;

	pthread_mutex_lock(&domain->lock);
	domain->pinned -= pinned->mr.length;
	pthread_mutex_unlock(&domain->lock);
	close(pinned->in);
	close(pinned->out);
	free(pinned);
}

static const struct verbs_cache_ops device = {.reg = device_reg, .dereg = device_dereg};

/* What the device sees of the registration's first LEN bytes. */
static void device_read(const struct verbs_mr *mr, uint8_t *buf)
{
	const struct pinned *pinned = (const struct pinned *)mr->mr;
	int fds[2];
	ssize_t n;

	if (pipe2(fds, O_NONBLOCK | O_CLOEXEC))
		abort();
	n = tee(pinned->out, fds[1], LEN, 0);
	if (n <= 0 || read(fds[0], buf, n) != n)
		abort();
	close(fds[0]);
	close(fds[1]);
}

/* ---- helpers -------------------------------------------------------------------------- */

static struct domain unlimited = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void open_cache(struct verbs_cache *cache, struct domain *domain)
{
	int ret = verbs_cache_open(cache, &device, domain, 64 << 20);

	if (ret == -EPERM || ret == -ENOSYS) {
		print_message("# SKIP userfaultfd: %s\n", strerror(-ret));
		skip();
	}
	assert_int_equal(ret, 0);
	assert_true(cache->watched);
}

/*
 * Private memory at an address, or at one of its own: far from where the kernel puts what
 * other threads (a sanitizer's, say) map, so that a hole stays one, and beside no other.
 */
static uint8_t *map_at(void *at, size_t len)
{
	static _Atomic uintptr_t cursor = 0x7ea000000000;
	void *p = mmap(at ?: (void *)atomic_fetch_add(&cursor, len + PAGE), len,
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		       -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void fill(uint8_t *p, size_t len, uint64_t word)
{
	size_t i;

	for (i = 0; i < len; i += PAGE)
		memcpy(p + i, &word, sizeof(word));
}

/* Pages of [p, p + len) in which the device sees another word than the program. */
static unsigned int wrong_pages(const struct verbs_mr *mr, const uint8_t *p, size_t len)
{
	const uint8_t *start = (const uint8_t *)mr->range.start;
	unsigned int wrong = 0;
	uint8_t buf[LEN];
	size_t i;

	device_read(mr, buf);
	for (i = 0; i < len; i += PAGE)
		wrong += !!memcmp(buf + (p - start) + i, p + i, sizeof(uint64_t));
	return wrong;
}

/* One operation: what a request does with its buffer. */
static unsigned int use(struct verbs_cache *cache, uint8_t *p, size_t len, uint64_t word)
{
	struct verbs_mr *mr;
	unsigned int wrong;

	fill(p, len, word);
	assert_int_equal(verbs_cache_get(cache, p, len, false, &mr), 0);
	wrong = wrong_pages(mr, p, len);
	verbs_mr_put(cache, mr);
	return wrong;
}

/* Runs fn in a child; its exit code, or 128 + the signal that ended it. */
static int in_child(int (*fn)(void *), void *arg)
{
	struct verbs_cache cache;
	pid_t pid;
	int status;

	open_cache(&cache, &unlimited); /* skips here rather than in the child */
	verbs_cache_close(&cache);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		setenv("CMOCKA_TEST_ABORT", "1", 1); /* no jump back into the parent's tests */
		alarm(CHILD_S);
		_exit(fn(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Mappings that /proc says a userfaultfd watches for writes ("uw"). */
static unsigned int watched_mappings(void)
{
	char line[512];
	unsigned int n = 0;
	FILE *f = fopen("/proc/self/smaps", "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmFlags:", 8) && strstr(line, " uw"))
			n++;
	fclose(f);
	return n;
}

/* ---- what a hit is -------------------------------------------------------------------- */

static void hits_and_misses(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct verbs_cache cache, other;
	struct verbs_mr *mr, *second;

	open_cache(&cache, &unlimited);
	open_cache(&other, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(use(&cache, p, LEN, 2), 0);
	assert_int_equal(use(&cache, p + PAGE, PAGE, 3), 0);
	assert_int_equal(cache.misses, 1);
	assert_int_equal(cache.hits, 2);
	/* twice at once; and to write to, which the first does not allow */
	assert_int_equal(verbs_cache_get(&cache, p + 5, 10, false, &mr), 0);
	assert_int_equal(verbs_cache_get(&cache, p + 5, 10, false, &second), 0);
	assert_ptr_equal(mr, second);
	verbs_mr_put(&cache, second);
	assert_int_equal(verbs_cache_get(&cache, p, LEN, true, &second), 0);
	assert_ptr_not_equal(mr, second);
	verbs_mr_put(&cache, second);
	verbs_mr_put(&cache, mr);
	assert_int_equal(cache.misses, 2);
	/* of another communicator; the first one's end does not end its watch */
	assert_int_equal(use(&other, p, LEN, 4), 0);
	assert_int_equal(other.misses, 1);
	verbs_cache_close(&cache);
	assert_int_equal(madvise(p, LEN, MADV_DONTNEED), 0);
	assert_int_equal(use(&other, p, LEN, 5), 0);
	assert_int_equal(other.misses, 2);
	verbs_cache_close(&other);
	assert_int_equal(watched_mappings(), 0);
	munmap(p, LEN);
	assert_int_equal(unlimited.pinned, 0);
}

/* Each leaves other pages at p[0..LEN), in whole or in part. */
static void by_munmap(uint8_t *p)
{
	munmap(p, LEN);
	map_at(p, LEN);
}

static void by_munmap_of_the_middle(uint8_t *p)
{
	munmap(p + PAGE, PAGE);
	map_at(p + PAGE, PAGE);
}

static void by_mapping_over(uint8_t *p)
{
	assert_ptr_equal(mmap(p, LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
}

static void by_dontneed(uint8_t *p)
{
	assert_int_equal(madvise(p + 2 * PAGE, PAGE, MADV_DONTNEED), 0);
}

static void by_free(uint8_t *p)
{
	assert_int_equal(madvise(p, LEN, MADV_FREE), 0);
}

static void by_moving_away(uint8_t *p)
{
	uint8_t *to = map_at(NULL, LEN);

	assert_ptr_equal(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	map_at(p, LEN);
	munmap(to, LEN);
}

/* The mapping stays, its pages are gone. */
static void by_moving_pages_away(uint8_t *p)
{
	uint8_t *to = mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);

	assert_ptr_not_equal(to, MAP_FAILED);
	munmap(to, LEN);
}

static void by_moving_over(uint8_t *p)
{
	uint8_t *from = map_at(NULL, LEN);

	fill(from, LEN, 99);
	assert_ptr_equal(mremap(from, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, p), p);
}

static void by_shrinking(uint8_t *p)
{
	assert_ptr_equal(mremap(p, LEN, PAGE, 0), p);
	map_at(p + PAGE, LEN - PAGE);
}

static void by_sysv_memory_over(uint8_t *p)
{
	int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);

	assert_true(id >= 0);
	assert_ptr_equal(shmat(id, p, SHM_REMAP), p);
	shmctl(id, IPC_RMID, NULL);
	shmdt(p);
	map_at(p, LEN);
}

static const struct way {
	const char *name;
	void (*lose)(uint8_t *p);
} ways[] = {
	{"munmap", by_munmap},
	{"munmap of the middle", by_munmap_of_the_middle},
	{"mmap over it", by_mapping_over},
	{"MADV_DONTNEED", by_dontneed},
	{"MADV_FREE", by_free},
	{"mremap away", by_moving_away},
	{"MREMAP_DONTUNMAP", by_moving_pages_away},
	{"mremap over it", by_moving_over},
	{"mremap to less", by_shrinking},
	{"shmat over it", by_sysv_memory_over},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void lost_pages_are_registered_anew(void **state)
{
	struct verbs_cache cache;
	uint8_t *p;
	size_t i;

	open_cache(&cache, &unlimited);
	for (i = 0; i < WAYS; i++) {
		p = map_at(NULL, LEN);
		assert_int_equal(use(&cache, p, LEN, i), 0);
		assert_int_equal(use(&cache, p, LEN, i + 50), 0);
		assert_int_equal(cache.hits, i + 1); /* it was in the cache */
		ways[i].lose(p);
		if (use(&cache, p, LEN, i + 100))
			fail_msg("%s: the device reads pages that are gone", ways[i].name);
		assert_int_equal(cache.misses, 2 * i + 2);
		munmap(p, LEN);
		assert_int_equal(use(&cache, map_at(p, PAGE), PAGE, i), 0);
		munmap(p, PAGE);
		cache.misses--;
	}
	verbs_cache_close(&cache);
	assert_int_equal(watched_mappings(), 0);
	assert_int_equal(unlimited.pinned, 0);
}

/* What was moved is not watched where it stands now, nor what was beside it. */
static void moved_pages_are_not_watched(void **state)
{
	struct verbs_cache cache;
	uint8_t *p = map_at(NULL, LEN), *to = map_at(NULL, LEN);

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(watched_mappings(), 1);
	assert_ptr_equal(mremap(p + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	/* another report, which is read after the first was handled */
	assert_int_equal(use(&cache, p, PAGE, 2), 0);
	munmap(p, PAGE);
	assert_int_equal(use(&cache, to + PAGE, PAGE, 3), 0);
	assert_int_equal(watched_mappings(), 1);
	verbs_cache_close(&cache);
	munmap(p + 2 * PAGE, 2 * PAGE);
	munmap(to, LEN);
}

/* ---- memory that others can reach ----------------------------------------------------- */

static int memory_file(void)
{
	int fd = memfd_create("test_cache", MFD_CLOEXEC);

	assert_true(fd >= 0 && !ftruncate(fd, LEN));
	return fd;
}

static uint8_t *map_shared(int fd, int flags)
{
	void *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, flags, fd, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void shared_memory_is_never_stale(void **state)
{
	struct verbs_cache cache;
	unsigned int i, wrong[5] = {0};
	int fd = memory_file();
	uint8_t *shared = map_shared(fd, MAP_SHARED), *copied = map_shared(fd, MAP_PRIVATE),
		*anon = map_shared(-1, MAP_SHARED | MAP_ANONYMOUS), *mixed = map_at(NULL, LEN);

	assert_ptr_equal(
		mmap(mixed + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
		mixed + PAGE);
	open_cache(&cache, &unlimited);
	for (i = 1; i <= 20; i++) {
		wrong[0] += use(&cache, shared, LEN, i);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN);
		wrong[1] += use(&cache, shared, LEN, 100 + i);
		assert_true(!ftruncate(fd, 0) && !ftruncate(fd, LEN));
		wrong[2] += use(&cache, shared, LEN, 200 + i);
		wrong[3] += use(&cache, copied, LEN, 300 + i);
		assert_true(!ftruncate(fd, 0) && !ftruncate(fd, LEN));
		wrong[3] += use(&cache, copied, LEN, 400 + i);
		wrong[3] += use(&cache, mixed, LEN, 500 + i);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, LEN);
		wrong[3] += use(&cache, mixed, LEN, 600 + i);
		wrong[4] += use(&cache, anon, LEN, 700 + i);
		assert_int_equal(madvise(anon, LEN, MADV_REMOVE), 0);
		wrong[4] += use(&cache, anon, LEN, 800 + i);
	}
	if (wrong[0] || wrong[1] || wrong[2] || wrong[3] || wrong[4])
		fail_msg("wrong pages: %u before, %u punched, %u truncated, %u private or mixed, "
			 "%u anonymous",
			 wrong[0], wrong[1], wrong[2], wrong[3], wrong[4]);
	assert_int_equal(cache.hits, 0);
	assert_int_equal(unlimited.pinned, 0);
	verbs_cache_close(&cache);
	munmap(shared, LEN);
	munmap(copied, LEN);
	munmap(mixed, LEN);
	munmap(anon, LEN);
	close(fd);
}

/* ---- huge pages ----------------------------------------------------------------------- */

static const char overcommit[] = "/proc/sys/vm/nr_overcommit_hugepages";

static long huge_pool(long pages)
{
	long before = -1;
	FILE *f = fopen(overcommit, "r+");

	if (!f)
		return -1;
	if (fscanf(f, "%ld", &before) != 1)
		before = -1;
	rewind(f);
	fprintf(f, "%ld\n", pages);
	fclose(f);
	return before;
}

static long pool_before = -1;

static int restore_pool(void **state)
{
	if (pool_before >= 0)
		huge_pool(pool_before);
	return 0;
}

static void huge_pages_are_cached(void **state)
{
	size_t huge = 2 << 20, len = 2 * huge;
	struct verbs_cache cache;
	uint8_t *p;

	pool_before = huge_pool(4); /* a stale registration holds its page */
	p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_2MB | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED) {
		print_message("# SKIP huge pages: %s\n", strerror(errno));
		skip();
	}
	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(use(&cache, p, LEN, 2), 0);
	assert_int_equal(cache.hits, 1);
	/* they are pinned as a whole, so more of the same page is a hit */
	assert_int_equal(use(&cache, p, PAGE, 3), 0);
	assert_int_equal(cache.hits, 2);
	assert_int_equal(cache.bytes, huge);
	assert_int_equal(madvise(p, huge, MADV_DONTNEED), 0);
	assert_int_equal(use(&cache, p, LEN, 4), 0);
	assert_int_equal(cache.misses, 2);
	assert_int_equal(use(&cache, p, LEN, 5), 0);
	assert_int_equal(cache.hits, 3);
	verbs_cache_close(&cache);
	munmap(p, len);
	assert_int_equal(watched_mappings(), 0);
}

/* ---- limits --------------------------------------------------------------------------- */

static void evicted_memory_is_let_go(void **state)
{
	size_t n = 4 * VERBS_CACHE_ENTRIES, i;
	uint8_t *p = map_at(NULL, 2 * n * PAGE);
	struct verbs_cache cache;
	struct verbs_mr *whole;

	open_cache(&cache, &unlimited);
	for (i = 0; i < n; i++)
		assert_int_equal(use(&cache, p + 2 * i * PAGE, PAGE, i), 0);
	assert_int_equal(cache.entries, VERBS_CACHE_ENTRIES);
	assert_int_equal(watched_mappings(), VERBS_CACHE_ENTRIES);
	/* one that covers them all takes their place, and while it is used stays watched */
	fill(p, 2 * n * PAGE, 0);
	assert_int_equal(verbs_cache_get(&cache, p, 2 * n * PAGE, false, &whole), 0);
	assert_int_equal(watched_mappings(), 1);
	assert_int_equal(use(&cache, p, LEN, 7), 0);
	assert_int_equal(cache.entries, 1);
	verbs_mr_put(&cache, whole);
	verbs_cache_close(&cache);
	assert_int_equal(watched_mappings(), 0);
	munmap(p, 2 * n * PAGE);
}

/* Even one that finds what it needs in the cache. */
static void next_operation_unpins_what_is_gone(void **state)
{
	uint8_t *p = map_at(NULL, LEN), *gone = map_at(NULL, LEN);
	struct domain domain = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct verbs_cache cache;

	open_cache(&cache, &domain);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(use(&cache, gone, LEN, 2), 0);
	munmap(gone, LEN);
	assert_int_equal(domain.pinned, 2 * LEN);
	assert_int_equal(use(&cache, p, LEN, 3), 0);
	assert_int_equal(cache.hits, 1);
	assert_int_equal(domain.pinned, LEN);
	verbs_cache_close(&cache);
	munmap(p, LEN);
}

static void idle_memory_of_others_gives_way(void **state)
{
	struct domain limited = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = 4 * LEN};
	struct verbs_cache one, two, none;
	uint8_t *p = map_at(NULL, 8 * LEN);
	struct verbs_mr *used, *mr;
	unsigned int i;

	open_cache(&one, &limited);
	open_cache(&two, &limited);
	assert_int_equal(verbs_cache_open(&none, &device, &limited, 0), 0);
	assert_int_equal(verbs_cache_get(&one, p, LEN, false, &used), 0);
	for (i = 1; i < 4; i++)
		assert_int_equal(use(&one, p + i * LEN, LEN, i), 0);
	assert_int_equal(limited.pinned, 4 * LEN);
	/* three of the four are idle */
	assert_int_equal(verbs_cache_get(&two, p + 4 * LEN, 3 * LEN, true, &mr), 0);
	assert_int_equal(one.entries, 1);
	verbs_mr_put(&two, mr);
	/* one that keeps nothing itself */
	assert_int_equal(verbs_cache_get(&none, p, 3 * LEN, true, &mr), 0);
	verbs_mr_put(&none, mr);
	assert_int_equal(verbs_cache_get(&two, p, 4 * LEN, true, &mr), -ENOMEM);
	verbs_mr_put(&one, used);
	assert_int_equal(verbs_cache_get(&two, p, 4 * LEN, true, &mr), 0);
	verbs_mr_put(&two, mr);
	verbs_cache_close(&none);
	verbs_cache_close(&one);
	verbs_cache_close(&two);
	assert_int_equal(limited.pinned, 0);
	munmap(p, 8 * LEN);
}

/* ---- races ---------------------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	struct verbs_cache *cache;
	unsigned int number, rounds, wrong;
	unsigned int seed;
};

/* Real-time priorities, so that other work on this machine does not hold the watcher up. */
enum { WATCHER_PRIORITY = 1, PRIORITY };

/* 0: the ordinary one. Without the privilege all stay ordinary, and the race is only rarer. */
static void set_priority(int priority)
{
	struct sched_param param = {.sched_priority = priority};

	pthread_setschedparam(pthread_self(), priority ? SCHED_FIFO : SCHED_OTHER, &param);
}

/*
 * The watcher, which a cache's opening starts, is on our CPU and yields to us: whoever
 * waits for a report goes on the very moment it is read, before the watcher marks anything.
 */
static void open_with_slow_watcher(struct verbs_cache *cache)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
	set_priority(WATCHER_PRIORITY);
	open_cache(cache, &unlimited);
	set_priority(0);
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
	struct verbs_cache cache[2];
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
		verbs_cache_close(&cache[i]);
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

/* One thread gives memory back, others get it from the kernel at once. */
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
	struct verbs_cache cache;
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
	verbs_cache_close(&cache);
	assert_int_equal(unlimited.pinned, 0);
}

/* Communicators come and go while their neighbours lack memory and the program forks. */
static void *comer(void *arg)
{
	struct worker *w = arg;
	uint8_t *p = map_at(NULL, LEN);
	struct verbs_cache cache;

	for (; w->rounds < 300; w->rounds++) {
		struct verbs_mr *mr;
		int ret;

		if (verbs_cache_open(&cache, &device, w->cache->pd, 64 << 20))
			abort();
		ret = verbs_cache_get(&cache, p, LEN, true, &mr);
		if (!ret)
			verbs_mr_put(&cache, mr);
		else
			w->wrong += ret != -ENOMEM;
		madvise(p, LEN, MADV_DONTNEED);
		verbs_cache_close(&cache);
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
	struct domain limited = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = 2 * LEN};
	struct verbs_cache common = {.pd = &limited};
	struct worker w[THREADS];
	unsigned int i;

	for (i = 0; i < THREADS; i++) {
		w[i] = (struct worker){.cache = &common, .number = i};
		assert_int_equal(pthread_create(&w[i].thread, NULL, comer, &w[i]), 0);
	}
	for (i = 0; i < 50; i++)
		if (in_child(nothing, NULL))
			return 2;
	for (i = 0; i < THREADS; i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].wrong)
			return 3;
	}
	return limited.pinned ? 4 : 0;
}

static void caches_come_and_go(void **state)
{
	assert_int_equal(in_child(come_and_go, NULL), 0);
}

/* ---- the end of the watch ------------------------------------------------------------- */

struct stack_user {
	struct verbs_cache *cache;
	pthread_barrier_t *all;
};

static void *use_own_stack(void *arg)
{
	struct stack_user *user = arg;
	uint8_t buf[2 * PAGE];
	struct verbs_mr *mr;

	memset(buf, 7, sizeof(buf));
	if (verbs_cache_get(user->cache, buf, sizeof(buf), true, &mr))
		abort();
	verbs_mr_put(user->cache, mr);
	pthread_barrier_wait(user->all);
	return NULL;
}

#define STACKS 5

/* Threads whose buffers were on their stacks end; the C library keeps 40 MB of stacks and,
 * when it is given one more, unmaps the oldest. */
static int close_last_after_threads(void *arg)
{
	pthread_t thread[STACKS];
	struct verbs_cache cache;
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
	verbs_cache_close(&cache);
	return 0;
}

static void last_close_does_not_hang(void **state)
{
	assert_int_equal(in_child(close_last_after_threads, NULL), 0);
}

/* ---- fork ----------------------------------------------------------------------------- */

/* A child that lives until *told is closed at our end. Without `handlers` it is one of a
 * program that does not call fork(), so that nothing in the child closes descriptors. */
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
	struct verbs_cache cache;
	int told, status;
	pid_t pid;

	open_cache(&cache, &unlimited);
	if (use(&cache, p, LEN, 1))
		return 2;
	pid = live_child(&told, handlers);
	madvise(p, LEN, MADV_DONTNEED);
	if (use(&cache, p, LEN, 2))
		return 3;
	verbs_cache_close(&cache);
	munmap(p, LEN); /* would wait for a report that nobody reads */
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

/* In the child: the parent's buffer at its address, and a watch of its own. */
static int use_own_cache(void *arg)
{
	uint8_t *p = arg;
	struct verbs_cache cache;
	unsigned int i, wrong = 0;

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
	verbs_cache_close(&cache);
	return !!wrong;
}

static void child_watches_its_own_memory(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct verbs_cache cache;
	struct verbs_mr *mr;

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(in_child(use_own_cache, p), 0);
	/* And the parent's is as before. (Its next write takes a copy of the page, for the pipe
	 * has not pinned it as a device would: nothing to look at.) */
	assert_int_equal(verbs_cache_get(&cache, p, LEN, false, &mr), 0);
	verbs_mr_put(&cache, mr);
	assert_int_equal(cache.hits, 1);
	madvise(p, LEN, MADV_DONTNEED);
	assert_int_equal(use(&cache, p, LEN, 3), 0);
	assert_int_equal(cache.misses, 2);
	verbs_cache_close(&cache);
	munmap(p, LEN);
}

/* A child that leaves the parent's communicator alone may still give memory back. */
static int unmap_in_child(void *arg)
{
	munmap(arg, LEN);
	free(malloc(64 << 20));
	return 0;
}

static void child_gives_memory_back(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct verbs_cache cache;

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(in_child(unmap_in_child, p), 0);
	verbs_cache_close(&cache);
	munmap(p, LEN);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits_and_misses),
		cmocka_unit_test(lost_pages_are_registered_anew),
		cmocka_unit_test(moved_pages_are_not_watched),
		cmocka_unit_test(shared_memory_is_never_stale),
		cmocka_unit_test_teardown(huge_pages_are_cached, restore_pool),
		cmocka_unit_test(evicted_memory_is_let_go),
		cmocka_unit_test(next_operation_unpins_what_is_gone),
		cmocka_unit_test(idle_memory_of_others_gives_way),
		cmocka_unit_test(no_stale_hit_after_a_report),
		cmocka_unit_test(no_stale_hit_while_others_unmap),
		cmocka_unit_test(addresses_that_change_hands),
		cmocka_unit_test(caches_come_and_go),
		cmocka_unit_test(last_close_does_not_hang),
		cmocka_unit_test(parent_goes_on_after_fork),
		cmocka_unit_test(child_watches_its_own_memory),
		cmocka_unit_test(child_gives_memory_back),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]); /* one of them, by name */
	return cmocka_run_group_tests_name("cache", tests, NULL, NULL) ? 1 : 0;
}
