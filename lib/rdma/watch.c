/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watches registered memory. A registration pins pages. If the program unmaps them and later maps
 * other pages at the same address, the device would still read the old pages. userfaultfd reports
 * such changes. A range is registered with it in write-protect mode, but nothing is protected, so
 * no page faults are reported. It reports munmap, mremap and madvise(DONTNEED, FREE, REMOVE), and
 * the thread that calls these waits until the report has been read.
 *
 * It can watch private anonymous memory only. Files and shared memory may change without a report:
 * by a hole punched through a descriptor, or by truncation.
 *
 * There is one watch per process, because a mapping can belong to only one userfaultfd. It exists
 * while a cache has joined. The child of a fork has none: its memory is not watched, and it closes
 * the parent's descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/base/thread.h"
#include "lib/rdma/cache.h"
#include "lib/rdma/region.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define HUGE_PAGE_MAX (16ull << 30)

static struct {
	/* protects users, caches, and the start and end of the watch; the watcher's thread never
	 * takes this lock */
	pthread_mutex_t life;
	unsigned int users;
	struct inc_rdma_cache *caches;
	int stop_fd;
	pthread_t thread;

	/* protects the ranges; cache.h says what the holder of this lock must not do */
	pthread_mutex_t list;
	struct inc_rdma_range *ranges;
	uint64_t marks;
	/* descriptor of the userfaultfd, opened before the watcher's thread starts and closed by
	 * that thread */
	int fd;
	size_t page;
} watch = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.list = PTHREAD_MUTEX_INITIALIZER,
	.fd = -1,
	.stop_fd = -1,
};

static bool overlaps(const struct inc_rdma_range *range, uintptr_t start, uintptr_t end)
{
	return range->start < end && range->end > start;
}

/* Unregisters those parts of [start, end) from the userfaultfd that belong to no range of the list.
 * Errors are ignored, because they mean that the memory is no longer mapped. */
static void unwatch(uintptr_t start, uintptr_t end)
{
	struct uffdio_range piece;
	const struct inc_rdma_range *r;
	uintptr_t next;

	while (start < end) {
		for (r = watch.ranges; r; r = r->next)
			if (!r->gone && r->start <= start && r->end > start)
				break;
		if (r) {
			start = r->end;
			continue;
		}
		next = end;
		for (r = watch.ranges; r; r = r->next)
			if (!r->gone && r->start > start && r->start < next)
				next = r->start;
		piece = (struct uffdio_range){.start = start, .len = next - start};
		ioctl(watch.fd, UFFDIO_UNREGISTER, &piece);
		start = next;
	}
}

static void mark(struct inc_rdma_range *range)
{
	watch.marks += !range->stale;
	range->stale = true;
}

/* Marks all ranges stale that overlap [start, end), because the pages there have been replaced, or
 * will be now. */
static void dropped(uintptr_t start, uintptr_t end)
{
	struct inc_rdma_range *r;

	for (r = watch.ranges; r; r = r->next)
		if (overlaps(r, start, end))
			mark(r);
}

/* Handles that [start, end) was unmapped, so the kernel no longer watches it. Ranges there become
 * stale and gone. The rest of such a range is unregistered at once, while its addresses still
 * belong to it, because later another mapping may be there. */
static void unmapped(uintptr_t start, uintptr_t end)
{
	struct inc_rdma_range *r;

	for (r = watch.ranges; r; r = r->next) {
		if (r->gone || !overlaps(r, start, end))
			continue;
		mark(r);
		r->gone = true;
		if (r->start < start)
			unwatch(r->start, start);
		if (r->end > end)
			unwatch(end, r->end);
	}
}

static void handle(const struct uffd_msg *msg)
{
	uint64_t len = msg->arg.remap.len;

	switch (msg->event) {
	case UFFD_EVENT_REMOVE:
		dropped(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_UNMAP:
		unmapped(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		/* The kernel's watch moves with the pages, so it ends here at the new address. The
		 * old ranges are only marked stale, because with MREMAP_DONTUNMAP the kernel still
		 * watches them. */
		dropped(msg->arg.remap.from, msg->arg.remap.from + len);
		unwatch(msg->arg.remap.to, msg->arg.remap.to + len);
		break;
	}
}

/*
 * Reads reports. A thread that unmaps memory continues as soon as its report has been read. No
 * look-up may see the range before it is marked, so the list's lock is held across reading and
 * marking. Reports are read one at a time, because the change of a later report has not happened
 * while an earlier one is handled.
 */
static void read_reports(void)
{
	struct uffd_msg msg;

	pthread_mutex_lock(&watch.list);
	while (read(watch.fd, &msg, sizeof(msg)) == sizeof(msg))
		handle(&msg);
	pthread_mutex_unlock(&watch.list);
}

/* Checks whether the kernel watches the first page of the range. Returns 0: it does. -EAGAIN: a
 * change is under way, whose report was not read yet. -ENOENT: the kernel does not watch what is
 * there now. */
static int probe(const struct inc_rdma_range *range)
{
	/* asks the kernel to remove a protection that does not exist; only the error code
	 * matters */
	struct uffdio_writeprotect wp = {
		.range = {.start = range->start, .len = range->page},
	};

	return ioctl(watch.fd, UFFDIO_WRITEPROTECT, &wp) ? -errno : 0;
}

/*
 * Ends the watch. Finally the thread closes the descriptor, which wakes threads that still wait in
 * munmap. The thread that joins this one may be about to unmap, when the C library frees cached
 * stacks. If a child process has a copy of the descriptor, the userfaultfd stays open, and only a
 * report that is read wakes its thread. So all reports are read first.
 */
static void stop(void)
{
	struct pollfd pfd = {.fd = watch.fd, .events = POLLIN};
	const struct inc_rdma_range nothing = {.page = 0};

	do {
		read_reports();
	} while (probe(&nothing) == -EAGAIN && poll(&pfd, 1, 1) >= 0);
	pthread_mutex_lock(&watch.list);
	close(watch.fd);
	watch.fd = -1;
	pthread_mutex_unlock(&watch.list);
}

static void *watcher(void *arg)
{
	struct pollfd fds[2] = {
		{.fd = watch.fd, .events = POLLIN},
		{.fd = watch.stop_fd, .events = POLLIN},
	};

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			break;
		read_reports();
	}
	stop();
	return NULL;
}

static void before_fork(void)
{
	/* hold the lock during the fork, so that no thread opens or closes the watch's descriptors
	 * meanwhile */
	pthread_mutex_lock(&watch.life);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&watch.life);
}

/* The child has neither the thread nor the watch. Its mappings are copies that are not watched,
 * and the descriptor reports the parent's memory. Another thread may have held the list's lock. */
static void in_child(void)
{
	if (watch.fd >= 0)
		close(watch.fd);
	if (watch.stop_fd >= 0)
		close(watch.stop_fd);
	watch.fd = watch.stop_fd = -1;
	watch.users = 0;
	watch.caches = NULL;
	watch.ranges = NULL;
	pthread_mutex_init(&watch.list, NULL);
	pthread_mutex_unlock(&watch.life);
}

static int fork_handlers;

static void add_fork_handlers(void)
{
	fork_handlers = -pthread_atfork(before_fork, after_fork, in_child);
}

static int start(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |
			    UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP,
	};
	int ret;

	watch.page = sysconf(_SC_PAGESIZE);
	if (access("/proc/self/maps", R_OK))
		return -errno;
	/* UFFD_USER_MODE_ONLY needs no privilege, and suffices because no page faults are to be
	 * reported */
	watch.fd =
		inc_fd_high(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
	if (watch.fd < 0)
		return -errno;
	watch.stop_fd = inc_fd_high(eventfd(0, EFD_CLOEXEC));
	if (watch.stop_fd < 0 || ioctl(watch.fd, UFFDIO_API, &api)) {
		ret = -errno;
		goto close;
	}
	ret = inc_thread_create_apart(&watch.thread, watcher, NULL);
	if (ret)
		goto close;
	return 0;

close:
	if (watch.stop_fd >= 0)
		close(watch.stop_fd);
	close(watch.fd);
	watch.fd = watch.stop_fd = -1;
	return ret;
}

int inc_rdma_watch_join(struct inc_rdma_cache *cache)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int ret;

	/* add the fork handlers before the lock is taken, because a fork that waits for this lock
	 * may hold a lock of the C library */
	pthread_once(&once, add_fork_handlers);
	if (fork_handlers)
		return fork_handlers;
	pthread_mutex_lock(&watch.life);
	ret = watch.users ? 0 : start();
	if (!ret) {
		watch.users++;
		cache->next = watch.caches;
		watch.caches = cache;
	}
	pthread_mutex_unlock(&watch.life);
	return ret;
}

void inc_rdma_watch_leave(struct inc_rdma_cache *cache)
{
	struct inc_rdma_cache **p;

	pthread_mutex_lock(&watch.life);
	for (p = &watch.caches; *p && *p != cache; p = &(*p)->next)
		;
	/* in the child of a fork the list does not have the cache, because the child has none of
	 * the parent's caches */
	if (*p) {
		*p = cache->next;
		if (!--watch.users) {
			inc_signal_fd(watch.stop_fd);
			pthread_join(watch.thread, NULL);
			close(watch.stop_fd);
			watch.stop_fd = -1;
		}
	}
	pthread_mutex_unlock(&watch.life);
}

void inc_rdma_watch_each(void (*fn)(struct inc_rdma_cache *cache))
{
	struct inc_rdma_cache *cache;

	pthread_mutex_lock(&watch.life);
	for (cache = watch.caches; cache; cache = cache->next)
		fn(cache);
	pthread_mutex_unlock(&watch.life);
}

/* Registers the range with userfaultfd. huge: the range is widened to pages of the smallest size
 * that the kernel accepts. */
static int watch_range(struct inc_rdma_range *range, bool huge)
{
	struct uffdio_register reg = {.mode = UFFDIO_REGISTER_MODE_WP};
	uint64_t page, start, end;

	for (page = watch.page; page <= HUGE_PAGE_MAX; page *= 2) {
		start = range->start & ~(page - 1);
		end = (range->end + page - 1) & ~(page - 1);
		reg.range = (struct uffdio_range){.start = start, .len = end - start};
		if (!ioctl(watch.fd, UFFDIO_REGISTER, &reg)) {
			range->start = start;
			range->end = end;
			range->page = page;
			return 0;
		}
		if (!huge || errno != EINVAL)
			break;
	}
	return -errno;
}

int inc_rdma_watch_add(struct inc_rdma_range *range)
{
	enum inc_rdma_memory kind = inc_rdma_memory_kind(range->start, range->end);
	int ret;

	if (kind == INC_RDMA_MEMORY_OTHER)
		return -EOPNOTSUPP;
	pthread_mutex_lock(&watch.list);
	ret = watch_range(range, kind == INC_RDMA_MEMORY_HUGE);
	if (ret) {
		unwatch(range->start, range->end); /* undoes a partial registration */
	} else {
		range->stale = range->gone = false;
		range->next = watch.ranges;
		watch.ranges = range;
	}
	pthread_mutex_unlock(&watch.list);
	return ret;
}

void inc_rdma_watch_remove(struct inc_rdma_range *range)
{
	struct inc_rdma_range **p;

	pthread_mutex_lock(&watch.list);
	for (p = &watch.ranges; *p && *p != range; p = &(*p)->next)
		;
	if (*p) {
		*p = range->next;
		if (!range->gone)
			unwatch(range->start, range->end);
	}
	pthread_mutex_unlock(&watch.list);
}

bool inc_rdma_watch_fresh(struct inc_rdma_range *range)
{
	bool fresh;
	int ret;

	pthread_mutex_lock(&watch.list);
	ret = range->stale ? 0 : probe(range);
	if (ret == -ENOENT)
		/* another mapping is at the range's addresses now, and the kernel has not reported
		 * that */
		mark(range);
	fresh = !range->stale && !ret;
	pthread_mutex_unlock(&watch.list);
	return fresh;
}

bool inc_rdma_watch_stale(const struct inc_rdma_range *range)
{
	bool stale;

	pthread_mutex_lock(&watch.list);
	stale = range->stale;
	pthread_mutex_unlock(&watch.list);
	return stale;
}

uint64_t inc_rdma_watch_marks(void)
{
	uint64_t marks;

	pthread_mutex_lock(&watch.list);
	marks = watch.marks;
	pthread_mutex_unlock(&watch.list);
	return marks;
}
