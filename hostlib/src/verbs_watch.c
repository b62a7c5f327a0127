/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that goes away. A registration pins pages; when the program unmaps them and
 * later has other pages at the same address, the device would go on reading the old ones.
 * userfaultfd tells: a range registered with it (in write-protect mode, with nothing ever
 * protected, so that no page fault comes our way) reports munmap, mremap and
 * madvise(DONTNEED, REMOVE), and the call that does it waits until the report was read.
 *
 * One per process, because the kernel lets a mapping belong to one userfaultfd only. It
 * lives while a cache is joined.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "hostlib/src/internal.h"
#include "hostlib/src/verbs.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static struct {
	pthread_mutex_t life; /* start and end; the thread never takes it */
	pthread_mutex_t list; /* caches; taken before a cache's lock */
	unsigned int users;
	struct verbs_cache *caches;
	int fd, stop_fd;
	long page;
	pthread_t thread;
} watch = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.list = PTHREAD_MUTEX_INITIALIZER,
	.fd = -1,
	.stop_fd = -1,
};

static void mark(uintptr_t start, uintptr_t end)
{
	struct verbs_cache *cache;
	unsigned int i;

	for (cache = watch.caches; cache; cache = cache->next) {
		pthread_mutex_lock(&cache->lock);
		cache->changes++;
		for (i = 0; i < cache->entries; i++)
			if (cache->entry[i]->start < end && cache->entry[i]->end > start) {
				cache->stales += !cache->entry[i]->stale;
				cache->entry[i]->stale = true;
			}
		pthread_mutex_unlock(&cache->lock);
	}
}

static void handle(const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_REMOVE:
	case UFFD_EVENT_UNMAP:
		mark(msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		mark(msg->arg.remap.from, msg->arg.remap.from + msg->arg.remap.len);
		break;
	}
}

static void *watcher(void *arg)
{
	struct pollfd fds[2] = {
		{.fd = watch.fd, .events = POLLIN},
		{.fd = watch.stop_fd, .events = POLLIN},
	};
	struct uffd_msg msg[16];
	ssize_t i, n;

	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents)
			break;
		/* Whoever unmaps goes on as soon as the report is read: nobody may find a
		 * region between that and its mark. */
		pthread_mutex_lock(&watch.list);
		while ((n = read(watch.fd, msg, sizeof(msg))) > 0)
			for (i = 0; i < n / (ssize_t)sizeof(msg[0]); i++)
				handle(&msg[i]);
		pthread_mutex_unlock(&watch.list);
	}
	return NULL;
}

static void close_fds(void)
{
	if (watch.fd >= 0)
		close(watch.fd);
	if (watch.stop_fd >= 0)
		close(watch.stop_fd);
	watch.fd = watch.stop_fd = -1;
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
	/* user mode only: needs no privilege, and page faults are none of our business */
	watch.fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (watch.fd < 0)
		return -errno;
	watch.stop_fd = eventfd(0, EFD_CLOEXEC);
	if (watch.stop_fd < 0 || ioctl(watch.fd, UFFDIO_API, &api)) {
		ret = -errno;
		goto close;
	}
	ret = inccl_thread_create(&watch.thread, watcher, NULL);
	if (ret)
		goto close;
	return 0;

close:
	close_fds();
	return ret;
}

int verbs_watch_join(struct verbs_cache *cache)
{
	int ret = 0;

	pthread_mutex_lock(&watch.life);
	if (!watch.users)
		ret = start();
	if (!ret) {
		watch.users++;
		pthread_mutex_lock(&watch.list);
		cache->next = watch.caches;
		watch.caches = cache;
		pthread_mutex_unlock(&watch.list);
	}
	pthread_mutex_unlock(&watch.life);
	return ret;
}

void verbs_watch_leave(struct verbs_cache *cache)
{
	struct verbs_cache **p;

	pthread_mutex_lock(&watch.life);
	pthread_mutex_lock(&watch.list);
	for (p = &watch.caches; *p && *p != cache; p = &(*p)->next)
		;
	if (*p)
		*p = cache->next;
	pthread_mutex_unlock(&watch.list);
	if (!--watch.users) {
		inccl_signal_fd(watch.stop_fd);
		pthread_join(watch.thread, NULL);
		close_fds(); /* lets go whoever still waits in a munmap */
	}
	pthread_mutex_unlock(&watch.life);
}

int verbs_watch_add(uintptr_t start, uintptr_t end)
{
	struct uffdio_register reg = {
		.range = {.start = start, .len = end - start},
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	return ioctl(watch.fd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}

bool verbs_watch_settled(uintptr_t start)
{
	/* Takes a protection away that is not there; what counts is the refusal, EAGAIN, from the
	 * moment an unmapping begins until its report was read, and ENOENT where a mapping
	 * that we do not watch stands now. */
	struct uffdio_writeprotect wp = {
		.range = {.start = start, .len = watch.page},
	};

	return !ioctl(watch.fd, UFFDIO_WRITEPROTECT, &wp);
}
