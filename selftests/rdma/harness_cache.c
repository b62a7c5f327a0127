/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
#include "selftests/rdma/harness_cache.h"

#define CHILD_S 30 /* time after which an alarm ends a child that hangs */

struct fake_domain unlimited = {.lock = PTHREAD_MUTEX_INITIALIZER};

void open_cache(struct inc_rdma_cache *cache, struct fake_domain *domain)
{
	int ret = inc_rdma_cache_open(cache, &fake_registration_ops, domain, 64 << 20);

	if (ret == -EPERM || ret == -ENOSYS) {
		print_message("# SKIP userfaultfd: %s\n", strerror(-ret));
		skip();
	}
	assert_int_equal(ret, 0);
	assert_true(cache->watched);
}

/*
 * Maps private memory at an address, or at a new one. New addresses are far from those that the
 * kernel gives to other threads (for example a sanitizer's), so that an unmapped range remains
 * unmapped. They are not adjacent to each other.
 */
uint8_t *map_at(void *at, size_t len)
{
	static _Atomic uintptr_t cursor = 0x7ea000000000;
	void *p = mmap(at ?: (void *)atomic_fetch_add(&cursor, len + PAGE), len,
		       PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		       -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

void fill(uint8_t *p, size_t len, uint64_t word)
{
	size_t i;

	for (i = 0; i < len; i += PAGE)
		memcpy(p + i, &word, sizeof(word));
}

/* The number of pages of [p, p + len) in which the device sees other data than the program. */
static unsigned int wrong_pages(const struct inc_rdma_mr *mr, const uint8_t *p, size_t len)
{
	const uint8_t *start = (const uint8_t *)mr->range.start;
	unsigned int wrong = 0;
	uint8_t buf[LEN];
	size_t i;

	fake_registration_read(mr, buf);
	for (i = 0; i < len; i += PAGE)
		wrong += !!memcmp(buf + (p - start) + i, p + i, sizeof(uint64_t));
	return wrong;
}

unsigned int use(struct inc_rdma_cache *cache, uint8_t *p, size_t len, uint64_t word)
{
	struct inc_rdma_mr *mr;
	unsigned int wrong;

	fill(p, len, word);
	assert_int_equal(inc_rdma_cache_get(cache, p, len, 0, &mr), 0);
	wrong = wrong_pages(mr, p, len);
	inc_rdma_mr_put(cache, mr);
	return wrong;
}

int in_child(int (*fn)(void *), void *arg)
{
	struct inc_rdma_cache cache;
	pid_t pid;
	int status;

	/* skips the test in the parent, because the child could not */
	open_cache(&cache, &unlimited);
	inc_rdma_cache_close(&cache);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		/* a failed assertion in the child must not jump back into the parent's tests */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		alarm(CHILD_S);
		_exit(fn(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

unsigned int watched_mappings(void)
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

/* ---- ways to lose pages ---- */

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

void by_mapping_over(uint8_t *p)
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

/* Moves the pages elsewhere, and does not unmap the old range. */
void by_moving_pages_away(uint8_t *p)
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

const struct way ways[WAYS] = {
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
