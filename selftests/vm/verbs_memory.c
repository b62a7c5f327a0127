/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is unmapped, or that is short, while a device has a registration of it. */
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "lib/channel/verbs_priv.h"
#include "selftests/rdma/harness_cache.h"
#include "selftests/vm/verbs_loop.h"

void test_cache(void **state)
{
	size_t len = 256 << 10;
	uint8_t *send = pages(NULL, len), *recv = pages(NULL, len), *moved;
	struct inc_rdma_cache *cache;
	struct loopback l;
	unsigned int i;

	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	cache = &VERBS_DEV(l.ep->dev)->cache;
	if (!cache->watched)
		/* the log states the reason; then every request registers its memory again */
		skip();
	for (i = 0; i < 5; i++)
		echo_checked(&l, INCCL_MODE_WRITE, send, recv, len, i);
	assert_int_equal(cache->misses, 2);
	assert_int_equal(cache->hits, 8);

	/* replaces the buffer's pages by others at the same address */
	munmap(send, len);
	munmap(recv, len);
	assert_int_equal(cache->entries, 2);
	assert_true(inc_rdma_watch_stale(&cache->entry[0]->range));
	assert_true(inc_rdma_watch_stale(&cache->entry[1]->range));
	assert_ptr_equal(pages(send, len), send);
	assert_ptr_equal(pages(recv, len), recv);
	echo_checked(&l, INCCL_MODE_WRITE, send, recv, len, 17);
	assert_int_equal(cache->misses, 4);

	/* drops pages in the middle of the buffer */
	echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, len, 18);
	assert_int_equal(cache->misses, 4);
	assert_int_equal(madvise(recv + 8192, 4096, MADV_DONTNEED), 0);
	echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, len, 19);
	assert_int_equal(cache->misses, 5);

	/* moves the buffer's pages away, and maps others in their place */
	moved = mremap(recv, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, pages(NULL, len));
	assert_ptr_not_equal(moved, MAP_FAILED);
	assert_ptr_equal(pages(recv, len), recv);
	echo_checked(&l, INCCL_MODE_WRITE, send, recv, len, 20);
	assert_int_equal(cache->misses, 6);

	/* maps other pages in the place of the buffer */
	assert_ptr_equal(mmap(send, len, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 send);
	echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, len, 21);
	assert_int_equal(cache->misses, 7);

	assert_int_equal(drive(&l, UINT64_MAX), 0);
	inccl_endpoint_close(l.ep);
	munmap(send, len);
	munmap(recv, len);
	munmap(moved, len);
}

struct churn {
	volatile bool stop;
	unsigned long rounds;
};

/* Unmaps and maps memory all the time, as another thread of a program might. */
static void *churner(void *arg)
{
	struct churn *c = arg;

	while (!c->stop) {
		void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		memset(p, 0x5a, 65536);
		munmap(p, 65536);
		c->rounds++;
	}
	return NULL;
}

/* Every operation uses a new buffer, while another thread unmaps and maps memory. */
void test_cache_churn(void **state)
{
	struct churn churn = {false};
	pthread_t thread;
	struct loopback l;
	unsigned int i;

	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	assert_int_equal(pthread_create(&thread, NULL, churner, &churn), 0);
	for (i = 0; i < 200; i++) {
		uint8_t *send = pages(NULL, 65536), *recv = pages(NULL, 65536);

		echo_checked(&l, i & 1 ? INCCL_MODE_WRITE : INCCL_MODE_SENDRECV, send, recv, 65536,
			     i);
		munmap(send, 65536);
		munmap(recv, 65536);
	}
	churn.stop = true;
	pthread_join(thread, NULL);
	assert_true(churn.rounds > 0);
	inccl_endpoint_close(l.ep);
}

/* The thread that watches registrations has a lower priority on the same CPU. So this thread
 * continues as soon as the watcher has read a report. */
void test_cache_slow_watcher(void **state)
{
	uint8_t *send = pages(NULL, 16384), *recv = pages(NULL, 16384);
	cpu_set_t before, one;
	struct loopback l;
	unsigned int i;

	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	loopback_open(&l, 1, 0, 0, NULL);
	assert_int_equal(move_watcher(SCHED_IDLE, 0), 1);
	loopback_connect(&l);
	for (i = 0; i < 300; i++) {
		echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, 16384, i);
		assert_int_equal(madvise(i & 1 ? send : recv, 16384, MADV_DONTNEED), 0);
	}
	inccl_endpoint_close(l.ep);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	munmap(send, 16384);
	munmap(recv, 16384);
}

/* The kernel does not report holes in shared memory. So registrations of such memory must never be
 * reused. */
void test_shared_memory(void **state)
{
	size_t len = 65536;
	int fd = memfd_create("verbs_loop", MFD_CLOEXEC);
	uint8_t *send, *recv = pages(NULL, len);
	struct loopback l;
	unsigned int i;

	assert_true(fd >= 0 && !ftruncate(fd, len));
	send = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(send, MAP_FAILED);
	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	for (i = 0; i < 20; i++) {
		echo_checked(&l, INCCL_MODE_SENDRECV, send, recv, len, i);
		if (i & 1)
			assert_true(!ftruncate(fd, 0) && !ftruncate(fd, len));
		else
			assert_int_equal(
				fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, len),
				0);
	}
	inccl_endpoint_close(l.ep);
	munmap(send, len);
	munmap(recv, len);
	close(fd);
}

static void write_number(const char *path, long value)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fprintf(f, "%ld\n", value);
	fclose(f);
}

/* Uses a pool of huge pages, which affects only this virtual machine. */
void test_huge_pages(void **state)
{
	size_t huge = 2 << 20, len = 65536;
	struct inc_rdma_cache *cache;
	uint8_t *p;
	struct loopback l;
	unsigned int i;

	write_number("/proc/sys/vm/nr_hugepages", 4);
	p = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB,
		 -1, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	cache = &VERBS_DEV(l.ep->dev)->cache;
	for (i = 0; i < 5; i++)
		echo_checked(&l, INCCL_MODE_WRITE, p + 4096, p + huge + 8192, len, i);
	assert_int_equal(cache->misses, 2);
	assert_int_equal(cache->hits, 8);
	assert_int_equal(madvise(p, huge, MADV_DONTNEED), 0);
	echo_checked(&l, INCCL_MODE_WRITE, p + 4096, p + huge + 8192, len, 6);
	assert_int_equal(cache->misses, 3);
	inccl_endpoint_close(l.ep);
	munmap(p, 2 * huge);
	write_number("/proc/sys/vm/nr_hugepages", 0);
}

/* Runs fn in a child process. An alarm ends a child that hangs. */
static void in_forked_child(int (*fn)(void *), void *arg)
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		/* a failed assertion in the child must not jump back into the parent's tests */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		alarm(DEADLINE_S);
		_exit(fn(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail_msg("child: wait status 0x%x", status);
}

static void lower_locked_memory(size_t bytes)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];
	struct rlimit limit = {bytes, bytes};

	assert_int_equal(syscall(SYS_capget, &head, data), 0);
	data[0].effective &= ~(1u << CAP_IPC_LOCK);
	assert_int_equal(syscall(SYS_capset, &head, data), 0);
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
}

static int share_locked_memory(void *arg)
{
	size_t len = 256 << 10;
	uint8_t *p = pages(NULL, 4 * len);
	struct loopback one, two;

	lower_locked_memory(3 * len);
	loopback_open(&one, 1, 0, 0, NULL);
	loopback_open(&two, 1, 0, 0, NULL);
	loopback_connect(&one);
	loopback_connect(&two);
	echo_checked(&one, INCCL_MODE_SENDRECV, p, p + len, len, 1);
	echo_checked(&two, INCCL_MODE_SENDRECV, p + 2 * len, p + 3 * len, len, 2);
	echo_checked(&one, INCCL_MODE_SENDRECV, p, p + len, len, 3);
	inccl_endpoint_close(one.ep);
	inccl_endpoint_close(two.ep);
	return 0;
}

void test_locked_memory_is_shared(void **state)
{
	in_forked_child(share_locked_memory, NULL);
}

/* Runs in the child: makes another endpoint, with buffers at the same addresses as the parent's. */
static int echo_in_child(void *arg)
{
	uint8_t *send = arg, *recv = send + 65536;
	struct loopback l;
	unsigned int i;

	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	for (i = 0; i < 50; i++) {
		echo_checked(&l, INCCL_MODE_WRITE, send, recv, 65536, 100 + i);
		munmap(i & 1 ? send : recv, 65536);
		pages(i & 1 ? send : recv, 65536);
	}
	inccl_endpoint_close(l.ep);
	munmap(send, 131072);
	return 0;
}

static int close_while_child_lives(void *arg)
{
	uint8_t *p = pages(NULL, 131072);
	int fds[2], status;
	struct loopback l;
	pid_t pid;
	char c;

	loopback_open(&l, 1, 0, 0, NULL);
	loopback_connect(&l);
	echo_checked(&l, INCCL_MODE_WRITE, p, p + 65536, 65536, 1);
	in_forked_child(echo_in_child, p);
	echo_checked(&l, INCCL_MODE_WRITE, p, p + 65536, 65536, 2);
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (!pid) {
		close(fds[1]);
		_exit(read(fds[0], &c, 1));
	}
	/* after a fork, the parent shares its pages with the child until one of them writes */
	echo_checked(&l, INCCL_MODE_WRITE, p, p + 65536, 65536, 3);
	inccl_endpoint_close(l.ep);
	munmap(p, 131072);
	close(fds[1]);
	return waitpid(pid, &status, 0) == pid && !status ? 0 : 1;
}

void test_fork(void **state)
{
	in_forked_child(close_while_child_lives, NULL);
}
