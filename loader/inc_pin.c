/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pins. Whoever opens a switch that is pinned holds its instance's lock, so pins that are there
 * before are leftovers of one that died.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <linux/magic.h>
#include "inc_xdp.skel.h"
#include "lib/base/log.h"
#include "loader/inc_loader_priv.h"

int inc_bpffs_mount(struct inc_err *err)
{
	struct statfs fs;

	if (statfs(INC_BPFFS, &fs) == 0 && (unsigned long)fs.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", INC_BPFFS, "bpf", 0, "mode=0700"))
		return inc_err_set(err, errno,
				   "no BPF file system on %s and it cannot be mounted: %s",
				   INC_BPFFS, strerror(errno));
	inc_info("mounted a BPF file system on %s", INC_BPFFS);
	return 0;
}

int inc_instance_name_check(const char *instance, struct inc_err *err)
{
	const char *p;

	if (!instance || !*instance)
		return inc_err_set(err, EINVAL, "an instance needs a name");
	if (strlen(instance) >= INC_INSTANCE_LEN)
		return inc_err_set(err, EINVAL, "instance '%.40s': at most %d characters", instance,
				   INC_INSTANCE_LEN - 1);
	for (p = instance; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
			return inc_err_set(err, EINVAL,
					   "instance '%s': letters, digits, '-' and '_' only",
					   instance);
	return 0;
}

static void pin_path(const struct inc_switch *sw, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s%s%s", INC_PIN_ROOT, sw->instance, name ? "/" : "",
		 name ?: "");
}

/* Deletes the pins. The directory holds nothing but files. */
static int empty_dir(const char *dir)
{
	char path[PATH_MAX * 2];
	struct dirent *e;
	DIR *d;

	d = opendir(dir);
	if (!d)
		return errno == ENOENT ? 0 : -errno;
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	closedir(d);
	return rmdir(dir) ? -errno : 0;
}

static int clean_leftovers(struct inc_switch *sw, struct inc_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX];
	struct stat st;
	int fd, ret;

	pin_path(sw, NULL, dir);
	if (stat(dir, &st))
		return 0;
	inc_warn("instance '%s' was not stopped properly: removing its pins in %s", sw->instance,
		 dir);
	pin_path(sw, INC_PROG_EXT, path);
	fd = bpf_obj_get(path);
	if (fd >= 0) {
		inc_dispatchers_purge(inc_prog_id(fd));
		close(fd);
	}
	ret = empty_dir(dir);
	if (ret)
		return inc_err_set(err, -ret,
				   "directory %s of a dead instance cannot be removed: %s", dir,
				   strerror(-ret));
	return 0;
}

/* The last instance that ends removes the root, perhaps between our two steps. */
static int make_pin_dir(const char *dir, struct inc_err *err)
{
	for (;;) {
		if (mkdir(INC_PIN_ROOT, 0700) && errno != EEXIST)
			return inc_err_set(err, errno, "directory %s: %s", INC_PIN_ROOT,
					   strerror(errno));
		if (!mkdir(dir, 0700))
			return 0;
		if (errno != ENOENT)
			return inc_err_set(err, errno, "directory %s: %s", dir, strerror(errno));
	}
}

int inc_instance_claim(struct inc_switch *sw, struct inc_err *err)
{
	char dir[PATH_MAX];
	int ret;

	ret = clean_leftovers(sw, err);
	if (ret)
		return ret;
	pin_path(sw, NULL, dir);
	ret = make_pin_dir(dir, err);
	if (ret)
		return ret;
	sw->pinned = true;
	return 0;
}

void inc_instance_release(struct inc_switch *sw)
{
	char path[PATH_MAX];
	int ret;

	if (sw->pinned) {
		pin_path(sw, NULL, path);
		ret = empty_dir(path);
		if (ret)
			inc_warn("directory %s cannot be removed: %s", path, strerror(-ret));
		rmdir(INC_PIN_ROOT); /* only the last instance succeeds */
		sw->pinned = false;
	}
}

int inc_pin_fd(struct inc_switch *sw, int fd, const char *name, struct inc_err *err)
{
	char path[PATH_MAX];

	pin_path(sw, name, path);
	if (bpf_obj_pin(fd, path))
		return inc_err_set(err, errno, "cannot pin %s: %s", path, strerror(errno));
	return 0;
}

void inc_unpin(struct inc_switch *sw, const char *name)
{
	char path[PATH_MAX];

	pin_path(sw, name, path);
	unlink(path);
}

int inc_pin_all(struct inc_switch *sw, struct inc_err *err)
{
	struct bpf_program *prog;
	struct bpf_map *map;
	int ret;

	bpf_object__for_each_map (map, sw->skel->obj) {
		if (bpf_map__is_internal(map))
			continue;
		ret = inc_pin_fd(sw, bpf_map__fd(map), bpf_map__name(map), err);
		if (ret)
			return ret;
	}
	bpf_object__for_each_program (prog, sw->skel->obj) {
		ret = inc_pin_fd(sw, bpf_program__fd(prog), bpf_program__name(prog), err);
		if (ret)
			return ret;
	}
	return 0;
}
