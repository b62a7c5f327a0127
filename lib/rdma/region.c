/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "lib/base/fd.h"
#include "lib/rdma/region.h"

static int reg(void *pd, struct inc_rdma_mr *mr)
{
	mr->mr = ibv_reg_mr(pd, (void *)mr->range.start, mr->range.end - mr->range.start,
			    mr->access);
	return mr->mr ? 0 : -errno;
}

static void dereg(struct inc_rdma_mr *mr)
{
	ibv_dereg_mr(mr->mr);
}

static const struct inc_rdma_cache_ops device_memory = {.reg = reg, .dereg = dereg};

int inc_rdma_regions_open(struct inc_rdma_cache *cache, struct ibv_pd *pd, size_t max_bytes)
{
	return inc_rdma_cache_open(cache, &device_memory, pd, max_bytes);
}

int inc_rdma_region_error(struct inc_err *err, const char *device, size_t len, unsigned int access,
			  int error)
{
	return inc_err_set(err, -error, "%s: register %zu bytes%s: %s%s", device, len,
			   access ? "" : " to read", strerror(-error),
			   error == -ENOMEM ? " (limit on locked memory? ulimit -l)" : "");
}

/*
 * Finds the kind of memory in a range from the lines of /proc/self/maps: "START-END PERM OFFSET
 * MAJOR:MINOR INODE PATH". The file is read once for each new registration of memory, on the thread
 * that registers.
 */

struct mapping {
	uintptr_t start, end;
	bool shared;
	unsigned long inode; /* inode of the mapped file; 0: no file */
	const char *path;
};

/* The path that /proc/self/maps shows for anonymous huge pages, although there is no such file. */
static const char huge_path[] = "/anon_hugepage";

static bool parse(char *line, struct mapping *m)
{
	char *p;
	int i;

	m->start = strtoul(line, &p, 16);
	if (*p != '-')
		return false;
	m->end = strtoul(p + 1, &p, 16);
	if (strlen(p) < 6 || *p != ' ')
		return false;
	m->shared = p[4] != 'p';
	for (i = 0; i < 3; i++) { /* skips permissions, offset and device */
		p = strchr(p + 1, ' ');
		if (!p)
			return false;
	}
	m->inode = strtoul(p + 1, &p, 10);
	m->path = p + strspn(p, " ");
	return true;
}

struct question {
	/* the part of the range that is not examined yet; the memory before `at` is private */
	uintptr_t at, end;
	enum inc_rdma_memory kind;
};

/* Reads one line of /proc/self/maps, which describes one mapping. Returns true when the kind of the
 * whole range is known. */
static bool answered(struct question *q, char *line)
{
	struct mapping m;

	if (!parse(line, &m) || m.end <= q->at)
		return false;
	if (m.start > q->at || m.shared) {
		q->kind = INC_RDMA_MEMORY_OTHER;
		return true;
	}
	if (!strncmp(m.path, huge_path, sizeof(huge_path) - 1)) {
		q->kind = INC_RDMA_MEMORY_HUGE;
	} else if (m.inode) {
		q->kind = INC_RDMA_MEMORY_OTHER;
		return true;
	}
	q->at = m.end;
	return q->at >= q->end;
}

enum inc_rdma_memory inc_rdma_memory_kind(uintptr_t start, uintptr_t end)
{
	struct question q = {.at = start, .end = end, .kind = INC_RDMA_MEMORY_PRIVATE};
	/* A line of /proc/self/maps has a path of 4096 bytes at most. The buffer is on the caller's
	 * stack, which may be small. */
	char buf[6144], *line, *newline;
	size_t len = 0;
	bool done = false;
	ssize_t n = 0;
	int fd;

	fd = inc_fd_high(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return INC_RDMA_MEMORY_OTHER;
	while (!done) {
		n = read(fd, buf + len, sizeof(buf) - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += n;
		buf[len] = '\0';
		for (line = buf; !done && (newline = strchr(line, '\n')); line = newline + 1) {
			*newline = '\0';
			done = answered(&q, line);
		}
		len -= line - buf;
		memmove(buf, line, len);
	}
	close(fd);
	return done ? q.kind : INC_RDMA_MEMORY_OTHER;
}
