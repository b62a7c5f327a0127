/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "lib/base/log.h"
#include "loader/inc_limits.h"
#include "userspace/switchd.h"

/* Whether dir is a directory that belongs to this process's user and into which no other user can
 * write. */
static bool is_own(const char *dir)
{
	struct stat st;

	return !lstat(dir, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & (S_IWGRP | S_IWOTH));
}

const char *inc_run_dir(struct inc_err *err)
{
	/* directory of a user who may not write to INC_RUN_DIR; the size leaves room in a path for
	 * names of files */
	static char own[PATH_MAX - 64];
	/* the directory that the first call has chosen, so that later calls return the same one and
	 * can delete its files */
	static const char *dir;
	const char *runtime = getenv("XDG_RUNTIME_DIR");

	if (dir)
		return dir;
	if (!mkdir(INC_RUN_DIR, 0755) || (errno == EEXIST && !access(INC_RUN_DIR, W_OK)))
		return dir = INC_RUN_DIR;
	if (!geteuid()) {
		inc_err_set(err, errno, "directory %s: %s", INC_RUN_DIR, strerror(errno));
		return NULL;
	}
	if (runtime && *runtime)
		snprintf(own, sizeof(own), "%s/inc", runtime);
	else
		snprintf(own, sizeof(own), "/tmp/inc-%u", geteuid());
	if ((mkdir(own, 0700) && errno != EEXIST) || !is_own(own)) {
		inc_err_set(err, EACCES,
			    "neither %s nor %s is a directory for files of this user's",
			    INC_RUN_DIR, own);
		return NULL;
	}
	return dir = own;
}

static int lock_path(const char *instance, char path[PATH_MAX], struct inc_err *err)
{
	const char *dir = inc_run_dir(err);

	if (!dir)
		return -EACCES;
	snprintf(path, PATH_MAX, "%s/%s.lock", dir, instance);
	return 0;
}

static int refuse(const char *instance, const char *path, int fd, struct inc_err *err)
{
	const int error = errno;
	char pid[32] = "";
	ssize_t n;

	if (error != EWOULDBLOCK)
		return inc_err_set(err, error, "lock %s: %s", path, strerror(error));
	n = read(fd, pid, sizeof(pid) - 1);
	pid[n > 0 ? n : 0] = 0;
	pid[strcspn(pid, "\n")] = 0;
	return inc_err_set(err, EBUSY,
			   "instance '%s' is in use by process %s, which holds %s: stop it or "
			   "choose another instance name",
			   instance, pid, path);
}

int inc_instance_lock(const char *instance, struct inc_err *err)
{
	char path[PATH_MAX], pid[32];
	struct stat a, b = {};
	ssize_t n;
	int fd, ret;

	ret = lock_path(instance, path, err);
	if (ret)
		return ret;
	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			return inc_err_set(err, errno, "lock %s: %s", path, strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			ret = refuse(instance, path, fd, err);
			close(fd);
			return ret;
		}
		if (fstat(fd, &a) || (stat(path, &b) && errno != ENOENT)) {
			ret = inc_err_set(err, errno, "lock %s: %s", path, strerror(errno));
			close(fd);
			return ret;
		}
		/* check that the path still names the locked file, because the last holder may have
		 * deleted it between our open() and flock() */
		if (a.st_ino == b.st_ino && a.st_dev == b.st_dev)
			break;
		close(fd);
	}
	n = snprintf(pid, sizeof(pid), "%d\n", getpid());
	if (ftruncate(fd, 0) || write(fd, pid, n) != n)
		inc_warn("lock %s: %s", path, strerror(errno));
	return fd;
}

void inc_instance_unlock(const char *instance, int fd)
{
	char path[PATH_MAX];

	if (fd < 0)
		return;
	if (!lock_path(instance, path, NULL))
		unlink(path);
	close(fd);
}
