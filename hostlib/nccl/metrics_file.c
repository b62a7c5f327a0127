/* SPDX-License-Identifier: BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "hostlib/nccl/metrics.h"
#include "lib/base/clock.h"
#include "lib/base/fd.h"
#include "lib/base/random.h"

#define ENDING ".tmp" /* the name under which a file is written; collectors read *.prom */
/* number of random hexadecimal digits before ENDING, by which no two processes share such a name */
#define RANDOM_DIGITS 16u
/* Files that were not written for so long are of processes that were killed. Each process writes at
 * least once a minute (HA_NCCL_METRICS_MS). */
#define STALE_S 600
/* how each file of figures begins */
static const char beginning[] = "# HELP inc_nccl_";

struct ha_metrics_disk ha_metrics_disk = {
	.rename = rename,
	.sweep_ns = 60 * INC_NSEC_PER_SEC,
};

static bool is_own(const struct stat *st, const struct ha_metrics_file *file)
{
	return file->fd >= 0 && st->st_dev == file->device && st->st_ino == file->inode;
}

static bool is_stale(const struct stat *st)
{
	return (int64_t)(inc_wall_ns() / INC_NSEC_PER_SEC) - (int64_t)st->st_mtim.tv_sec > STALE_S;
}

/* Opens a file of figures that a process of this user has written. part: the file may be empty, or
 * end within its beginning. Returns the descriptor, -EEXIST if the file is another one, or
 * -errno. */
static int open_figures(int directory, const char *name, bool part, struct stat *st)
{
	char text[sizeof(beginning) - 1];
	ssize_t n;
	int fd;

	if (fstatat(directory, name, st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid())
		return -EEXIST;
	/* for writing, too, because NFS locks no other files */
	fd = inc_fd_high(openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
	if (fd < 0)
		return -errno;
	n = pread(fd, text, sizeof(text), 0);
	if (!fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid() && n >= 0 &&
	    (part || n == sizeof(text)) && !memcmp(text, beginning, n))
		return fd;
	close(fd);
	return -EEXIST;
}

/* Checks that the file may be written: there is none, it is the own one, or its process has ended.
 * In the last case *old is its descriptor, whose lock others respect, and otherwise -1. Returns 0,
 * -EEXIST if it is no file of figures of this user, -EADDRINUSE if another process writes it, or
 * -errno. Where a file system has no locks, or a child by fork() has kept one, the age counts. */
static int check_place(const struct ha_metrics_file *file, int *old)
{
	struct stat st;
	int fd;

	*old = -1;
	if (lstat(file->path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (is_own(&st, file))
		return 0;
	fd = open_figures(AT_FDCWD, file->path, false, &st);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (flock(fd, LOCK_EX | LOCK_NB) && !is_stale(&st)) {
		close(fd);
		return -EADDRINUSE;
	}
	*old = fd;
	return 0;
}

/* Writes the text into a new file, and locks it. Returns 0 or -errno. The descriptor is valid in
 * either case, unless it is -1. Nothing is synced, because the figures end with the process anyway.
 * The mode of the new file follows the umask, which a library must not touch. */
static int write_new(const char *name, const char *text, size_t bytes, struct ha_metrics_file *file)
{
	struct stat st;
	ssize_t n = 0;
	int ret;

	file->fd = inc_fd_high(open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
	if (file->fd < 0)
		return -errno;
	flock(file->fd, LOCK_EX | LOCK_NB);
	for (; bytes; text += n, bytes -= n) {
		n = write(file->fd, text, bytes);
		if (n <= 0)
			break;
	}
	ret = n < 0 ? -errno : bytes ? -EIO : 0;
	/* NFS writes, and reports errors, when a descriptor is closed. The copy keeps the lock. */
	if (!ret && close(inc_fd_high_copy(file->fd)))
		ret = -errno;
	if (!ret && fstat(file->fd, &st))
		ret = -errno;
	if (!ret) {
		file->device = st.st_dev;
		file->inode = st.st_ino;
	}
	return ret;
}

static void let_go(int fd)
{
	if (fd >= 0)
		close(fd);
}

int ha_metrics_file_put(struct ha_metrics_file *file, const char *text, size_t bytes)
{
	struct ha_metrics_file next = *file;
	char *name = NULL;
	struct inc_err err;
	uint64_t random;
	int old, ret = check_place(file, &old);

	next.fd = -1;
	if (!ret)
		ret = inc_random_bytes(&random, sizeof(random), &err);
	if (!ret && asprintf(&name, "%s.%0*llx" ENDING, file->path, (int)RANDOM_DIGITS,
			     (unsigned long long)random) < 0)
		ret = -ENOMEM;
	if (!ret)
		ret = write_new(name, text, bytes, &next);
	if (!ret && ha_metrics_disk.rename(name, file->path))
		ret = -errno;
	if (ret && next.fd >= 0)
		unlink(name);
	if (!ret) {
		let_go(file->fd);
		*file = next;
	} else {
		let_go(next.fd);
	}
	let_go(old);
	free(name);
	return ret;
}

void ha_metrics_file_remove(const struct ha_metrics_file *file)
{
	struct stat st;

	if (!lstat(file->path, &st) && is_own(&st, file))
		unlink(file->path);
}

/* Whether a name is that of a file of another process: the text before its number, digits, and the
 * text behind it. *part: whether the ending of a file that is being written follows. */
static bool is_of_process(const char *name, const char *before, size_t len, const char *behind,
			  bool *part)
{
	size_t digits;

	if (strncmp(name, before, len))
		return false;
	digits = strspn(name + len, "0123456789");
	name += len + digits;
	if (!digits || strncmp(name, behind, strlen(behind)))
		return false;
	name += strlen(behind);
	*part = *name == '.' && strspn(name + 1, "0123456789abcdef") == RANDOM_DIGITS &&
		!strcmp(name + 1 + RANDOM_DIGITS, ENDING);
	return !*name || *part;
}

void ha_metrics_file_sweep(const struct ha_metrics_file *file)
{
	const char *slash = strrchr(file->path, '/'), *number = file->path + file->number_at;
	struct dirent *entry;
	char *directory;
	struct stat st;
	bool part;
	DIR *list;
	int fd;

	directory = strndup(file->path, slash - file->path + 1);
	list = directory ? opendir(directory) : NULL;
	while (list && (entry = readdir(list))) {
		if (!is_of_process(entry->d_name, slash + 1, number - slash - 1,
				   number + strspn(number, "0123456789"), &part))
			continue;
		fd = open_figures(dirfd(list), entry->d_name, part, &st);
		if (fd >= 0 && is_stale(&st) && !is_own(&st, file))
			unlinkat(dirfd(list), entry->d_name, 0);
		let_go(fd);
	}
	if (list)
		closedir(list);
	free(directory);
}
