/* SPDX-License-Identifier: BSD-2-Clause */
/* SIZE: check */
/* The cache of registrations and the watch over its memory, on one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#include "selftests/rdma/harness_cache.h"

/* ---- which requests are hits ---------------------------------------------------------- */

static void hits_and_misses(void **state)
{
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache, other;
	struct inc_rdma_mr *mr, *second;

	open_cache(&cache, &unlimited);
	open_cache(&other, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(use(&cache, p, LEN, 2), 0);
	assert_int_equal(use(&cache, p + PAGE, PAGE, 3), 0);
	assert_int_equal(cache.misses, 1);
	assert_int_equal(cache.hits, 2);
	/* two users at the same time, and then one that writes, which the first registration does
	 * not allow */
	assert_int_equal(inc_rdma_cache_get(&cache, p + 5, 10, 0, &mr), 0);
	assert_int_equal(inc_rdma_cache_get(&cache, p + 5, 10, 0, &second), 0);
	assert_ptr_equal(mr, second);
	inc_rdma_mr_put(&cache, second);
	assert_int_equal(inc_rdma_cache_get(&cache, p, LEN, IBV_ACCESS_LOCAL_WRITE, &second), 0);
	assert_ptr_not_equal(mr, second);
	inc_rdma_mr_put(&cache, second);
	inc_rdma_mr_put(&cache, mr);
	assert_int_equal(cache.misses, 2);
	/* another communicator's cache; closing the first cache does not end the watch of this
	 * one */
	assert_int_equal(use(&other, p, LEN, 4), 0);
	assert_int_equal(other.misses, 1);
	inc_rdma_cache_close(&cache);
	assert_int_equal(madvise(p, LEN, MADV_DONTNEED), 0);
	assert_int_equal(use(&other, p, LEN, 5), 0);
	assert_int_equal(other.misses, 2);
	inc_rdma_cache_close(&other);
	assert_int_equal(watched_mappings(), 0);
	munmap(p, LEN);
	assert_int_equal(unlimited.pinned, 0);
}

static void serves(struct inc_rdma_cache *cache, const void *p, unsigned int access, uint64_t hits)
{
	struct inc_rdma_mr *mr;

	assert_int_equal(inc_rdma_cache_get(cache, p, LEN, access, &mr), 0);
	assert_int_equal(mr->access & access, access);
	assert_int_equal(cache->hits, hits);
	inc_rdma_mr_put(cache, mr);
}

/* A registration serves requests that need no more access than it allows. */
static void access_is_part_of_a_hit(void **state)
{
	const unsigned int write = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	uint8_t *p = map_at(NULL, LEN);
	struct inc_rdma_cache cache;

	open_cache(&cache, &unlimited);
	serves(&cache, p, write, 0);
	serves(&cache, p, IBV_ACCESS_LOCAL_WRITE, 1);
	serves(&cache, p, 0, 2);
	serves(&cache, p, IBV_ACCESS_REMOTE_READ, 2);
	serves(&cache, p, IBV_ACCESS_REMOTE_READ, 3);
	serves(&cache, p, write, 4);
	serves(&cache, p, write | IBV_ACCESS_REMOTE_READ, 4);
	/* the wider registration replaced both others */
	assert_int_equal(cache.entries, 1);
	inc_rdma_cache_close(&cache);
	munmap(p, LEN);
}

static void lost_pages_are_registered_anew(void **state)
{
	struct inc_rdma_cache cache;
	uint8_t *p;
	size_t i;

	open_cache(&cache, &unlimited);
	for (i = 0; i < WAYS; i++) {
		p = map_at(NULL, LEN);
		assert_int_equal(use(&cache, p, LEN, i), 0);
		assert_int_equal(use(&cache, p, LEN, i + 50), 0);
		assert_int_equal(cache.hits, i + 1); /* the request was a hit */
		ways[i].lose(p);
		if (use(&cache, p, LEN, i + 100))
			fail_msg("%s: the device reads pages that are gone", ways[i].name);
		assert_int_equal(cache.misses, 2 * i + 2);
		munmap(p, LEN);
		assert_int_equal(use(&cache, map_at(p, PAGE), PAGE, i), 0);
		munmap(p, PAGE);
		cache.misses--;
	}
	inc_rdma_cache_close(&cache);
	assert_int_equal(watched_mappings(), 0);
	assert_int_equal(unlimited.pinned, 0);
}

/* Pages that were moved are not watched at their new address, and neither are those next to
 * them. */
static void moved_pages_are_not_watched(void **state)
{
	struct inc_rdma_cache cache;
	uint8_t *p = map_at(NULL, LEN), *to = map_at(NULL, LEN);

	open_cache(&cache, &unlimited);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(watched_mappings(), 1);
	assert_ptr_equal(mremap(p + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	/* this use causes another report, which is read after the first one was handled */
	assert_int_equal(use(&cache, p, PAGE, 2), 0);
	munmap(p, PAGE);
	assert_int_equal(use(&cache, to + PAGE, PAGE, 3), 0);
	assert_int_equal(watched_mappings(), 1);
	inc_rdma_cache_close(&cache);
	munmap(p + 2 * PAGE, 2 * PAGE);
	munmap(to, LEN);
}

/* ---- memory shared with other processes ----------------------------------------------- */

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
	struct inc_rdma_cache cache;
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
	inc_rdma_cache_close(&cache);
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
	struct inc_rdma_cache cache;
	uint8_t *p;

	/* the pool has one page more, because a stale registration still holds its page */
	pool_before = huge_pool(4);
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
	/* huge pages are pinned whole, so another part of the same page is a hit */
	assert_int_equal(use(&cache, p, PAGE, 3), 0);
	assert_int_equal(cache.hits, 2);
	assert_int_equal(cache.bytes, huge);
	assert_int_equal(madvise(p, huge, MADV_DONTNEED), 0);
	assert_int_equal(use(&cache, p, LEN, 4), 0);
	assert_int_equal(cache.misses, 2);
	assert_int_equal(use(&cache, p, LEN, 5), 0);
	assert_int_equal(cache.hits, 3);
	inc_rdma_cache_close(&cache);
	munmap(p, len);
	assert_int_equal(watched_mappings(), 0);
}

/* ---- limits --------------------------------------------------------------------------- */

static void evicted_memory_is_let_go(void **state)
{
	size_t n = 4 * INC_RDMA_CACHE_ENTRIES, i;
	uint8_t *p = map_at(NULL, 2 * n * PAGE);
	struct inc_rdma_cache cache;
	struct inc_rdma_mr *whole;

	open_cache(&cache, &unlimited);
	for (i = 0; i < n; i++)
		assert_int_equal(use(&cache, p + 2 * i * PAGE, PAGE, i), 0);
	assert_int_equal(cache.entries, INC_RDMA_CACHE_ENTRIES);
	assert_int_equal(watched_mappings(), INC_RDMA_CACHE_ENTRIES);
	/* a registration that covers all others replaces them, and its memory is watched while it
	 * is used */
	fill(p, 2 * n * PAGE, 0);
	assert_int_equal(inc_rdma_cache_get(&cache, p, 2 * n * PAGE, 0, &whole), 0);
	assert_int_equal(watched_mappings(), 1);
	assert_int_equal(use(&cache, p, LEN, 7), 0);
	assert_int_equal(cache.entries, 1);
	inc_rdma_mr_put(&cache, whole);
	inc_rdma_cache_close(&cache);
	assert_int_equal(watched_mappings(), 0);
	munmap(p, 2 * n * PAGE);
}

/* The next operation unpins memory that was unmapped, even if the operation itself is a hit. */
static void next_operation_unpins_what_is_gone(void **state)
{
	uint8_t *p = map_at(NULL, LEN), *gone = map_at(NULL, LEN);
	struct fake_domain domain = {.lock = PTHREAD_MUTEX_INITIALIZER};
	struct inc_rdma_cache cache;

	open_cache(&cache, &domain);
	assert_int_equal(use(&cache, p, LEN, 1), 0);
	assert_int_equal(use(&cache, gone, LEN, 2), 0);
	munmap(gone, LEN);
	assert_int_equal(domain.pinned, 2 * LEN);
	assert_int_equal(use(&cache, p, LEN, 3), 0);
	assert_int_equal(cache.hits, 1);
	assert_int_equal(domain.pinned, LEN);
	inc_rdma_cache_close(&cache);
	munmap(p, LEN);
}

static void idle_memory_of_others_gives_way(void **state)
{
	struct fake_domain limited = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = 4 * LEN};
	struct inc_rdma_cache one, two, none;
	uint8_t *p = map_at(NULL, 8 * LEN);
	struct inc_rdma_mr *used, *mr;
	unsigned int i;

	open_cache(&one, &limited);
	open_cache(&two, &limited);
	assert_int_equal(inc_rdma_cache_open(&none, &fake_registration_ops, &limited, 0), 0);
	assert_int_equal(inc_rdma_cache_get(&one, p, LEN, 0, &used), 0);
	for (i = 1; i < 4; i++)
		assert_int_equal(use(&one, p + i * LEN, LEN, i), 0);
	assert_int_equal(limited.pinned, 4 * LEN);
	/* one of the four registrations is in use, the other three are idle */
	assert_int_equal(
		inc_rdma_cache_get(&two, p + 4 * LEN, 3 * LEN, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	assert_int_equal(one.entries, 1);
	inc_rdma_mr_put(&two, mr);
	/* this cache retains no registrations */
	assert_int_equal(inc_rdma_cache_get(&none, p, 3 * LEN, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	inc_rdma_mr_put(&none, mr);
	assert_int_equal(inc_rdma_cache_get(&two, p, 4 * LEN, IBV_ACCESS_LOCAL_WRITE, &mr),
			 -ENOMEM);
	inc_rdma_mr_put(&one, used);
	assert_int_equal(inc_rdma_cache_get(&two, p, 4 * LEN, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	inc_rdma_mr_put(&two, mr);
	inc_rdma_cache_close(&none);
	inc_rdma_cache_close(&one);
	inc_rdma_cache_close(&two);
	assert_int_equal(limited.pinned, 0);
	munmap(p, 8 * LEN);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hits_and_misses),
		cmocka_unit_test(access_is_part_of_a_hit),
		cmocka_unit_test(lost_pages_are_registered_anew),
		cmocka_unit_test(moved_pages_are_not_watched),
		cmocka_unit_test(shared_memory_is_never_stale),
		cmocka_unit_test_teardown(huge_pages_are_cached, restore_pool),
		cmocka_unit_test(evicted_memory_is_let_go),
		cmocka_unit_test(next_operation_unpins_what_is_gone),
		cmocka_unit_test(idle_memory_of_others_gives_way),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]); /* runs only the test with this name */
	return cmocka_run_group_tests_name("cache", tests, NULL, NULL) ? 1 : 0;
}
