/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pins the maps and programs of a switch. A process that opens a pinned switch holds the lock of
 * its instance. So existing pins belong to a predecessor that has died, or has left them for the
 * next process. This process uses the predecessor's maps if it had pinned all of them. The map that
 * is pinned last describes the layout of the maps.
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

static void unlink_files(const char *dir)
{
	char path[PATH_MAX * 2];
	struct dirent *e;
	DIR *d = opendir(dir);

	if (!d)
		return;
	while ((e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		unlink(path);
	}
	closedir(d);
}

/* Deletes the pins in a directory, which contains only files. A second try follows, because the
 * first may have failed for lack of memory, and pins that stay would hold maps of many MB. */
static int empty_dir(const char *dir)
{
	unlink_files(dir);
	if (!rmdir(dir) || errno == ENOENT)
		return 0;
	unlink_files(dir);
	return rmdir(dir) && errno != ENOENT ? -errno : 0;
}

static int clean_leftovers(struct inc_switch *sw, struct inc_err *err)
{
	char dir[PATH_MAX];
	int fd, ret;

	pin_path(sw, NULL, dir);
	inc_warn("instance '%s': removing what its predecessor left in %s", sw->instance, dir);
	fd = inc_pinned_fd(sw, INC_MAP_PORT);
	if (fd >= 0) {
		inc_dispatchers_purge(inc_map_id(fd), NULL);
		close(fd);
	}
	ret = empty_dir(dir);
	if (ret)
		return inc_err_set(err, -ret,
				   "directory %s of a dead instance cannot be removed: %s", dir,
				   strerror(-ret));
	return 0;
}

/* Makes the instance's directory of pins, and the root above it. The last instance that ends
 * removes the root, perhaps between the two steps. */
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

bool inc_switch_left(const char *instance)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", INC_PIN_ROOT, instance);
	return !stat(path, &st);
}

int inc_pinned_fd(const struct inc_switch *sw, const char *name)
{
	char path[PATH_MAX];
	int fd;

	pin_path(sw, name, path);
	fd = bpf_obj_get(path);
	return fd < 0 ? -errno : fd;
}

/* Checks the layout of the predecessor's maps, so that this daemon's programs can use them. */
static int check_layout(const struct inc_switch *sw, int fd, struct inc_err *err)
{
	const uint32_t key = 0;
	struct inc_layout layout = {};

	if (bpf_map_lookup_elem(fd, &key, &layout))
		return inc_err_set(err, errno, "map %s of instance '%s' cannot be read: %s",
				   INC_MAP_LAYOUT, sw->instance, strerror(errno));
	if (layout.abi != INC_ABI_VERSION)
		return inc_err_set(
			err, EPROTO,
			"instance '%s' goes on with what a daemon of layout %u left, and "
			"this one has layout %u: start one of that layout, or this one "
			"with --fresh, which ends all communicators",
			sw->instance, layout.abi, INC_ABI_VERSION);
	if (layout.generic != sw->opts.generic)
		return inc_err_set(err, EPROTO,
				   "instance '%s' goes on in %s XDP mode as it was left: start it "
				   "in that mode, or with --fresh, which ends all communicators",
				   sw->instance, layout.generic ? "generic" : "native");
	return 0;
}

static int pin_layout(struct inc_switch *sw, struct inc_err *err)
{
	const struct inc_layout layout = {INC_ABI_VERSION, sw->opts.generic};
	const uint32_t key = 0;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, INC_MAP_LAYOUT, sizeof(key), sizeof(layout), 1,
				NULL),
	    ret;

	if (fd < 0 || bpf_map_update_elem(fd, &key, &layout, BPF_ANY))
		ret = inc_err_set(err, errno, "map %s cannot be made: %s", INC_MAP_LAYOUT,
				  strerror(errno));
	else
		ret = inc_pin_fd(sw, fd, INC_MAP_LAYOUT, err);
	if (fd >= 0)
		close(fd);
	return ret;
}

/* Takes over the predecessor's pins or removes them. Pins without a layout belong to a process
 * that had not finished its start or its end, so no packet used them. */
static int take_leftovers(struct inc_switch *sw, struct inc_err *err)
{
	int fd, ret;

	if (!inc_switch_left(sw->instance))
		return 0;
	fd = sw->opts.fresh ? -ENOENT : inc_pinned_fd(sw, INC_MAP_LAYOUT);
	if (fd < 0)
		return clean_leftovers(sw, err);
	ret = check_layout(sw, fd, err);
	close(fd);
	sw->adopted = !ret;
	return ret;
}

int inc_instance_claim(struct inc_switch *sw, struct inc_err *err)
{
	char dir[PATH_MAX];
	int ret;

	ret = take_leftovers(sw, err);
	if (ret)
		return ret;
	if (sw->adopted) {
		inc_info("instance '%s': taking over what its predecessor left", sw->instance);
		sw->pinned = sw->leaving = true;
		return 0;
	}
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

	if (sw->pinned && !sw->leaving) {
		/* remove the pin of the layout first, because it means that all other pins exist */
		inc_unpin(sw, INC_MAP_LAYOUT);
		pin_path(sw, NULL, path);
		ret = empty_dir(path);
		if (ret)
			inc_warn("directory %s cannot be removed: %s", path, strerror(-ret));
		/* the last instance also removes the common directory; rmdir() fails as long as
		 * other instances have directories there */
		rmdir(INC_PIN_ROOT);
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

/* Makes the new object use a predecessor's map, which must have the type and sizes that are
 * requested now. */
static int reuse_map(const struct inc_switch *sw, struct bpf_map *map, int fd, struct inc_err *err)
{
	struct bpf_map_info has = {};
	__u32 len = sizeof(has);
	int ret;

	if (bpf_obj_get_info_by_fd(fd, &has, &len))
		return inc_err_set(err, errno, "map %s of instance '%s' cannot be read: %s",
				   bpf_map__name(map), sw->instance, strerror(errno));
	if (has.type != bpf_map__type(map) || has.key_size != bpf_map__key_size(map) ||
	    has.value_size != bpf_map__value_size(map) ||
	    has.max_entries != bpf_map__max_entries(map))
		return inc_err_set(err, EPROTO,
				   "instance '%s' goes on with a map %s of %u entries of %u bytes, "
				   "and %u of %u bytes are asked for: start it with the sizes that "
				   "it had, or with --fresh, which ends all communicators",
				   sw->instance, bpf_map__name(map), has.max_entries,
				   has.value_size, bpf_map__max_entries(map),
				   bpf_map__value_size(map));
	ret = bpf_map__reuse_fd(map, fd);
	return ret ? inc_err_set(err, -ret, "map %s of instance '%s' cannot be taken over: %s",
				 bpf_map__name(map), sw->instance, strerror(-ret))
		   : 0;
}

int inc_reuse_maps(struct inc_switch *sw, struct inc_err *err)
{
	struct bpf_map *map;
	int fd, ret;

	bpf_object__for_each_map (map, sw->skel->obj) {
		if (bpf_map__is_internal(map))
			continue;
		fd = inc_pinned_fd(sw, bpf_map__name(map));
		ret = fd < 0 ? inc_err_set(err, -fd, "map %s of instance '%s' is not there: %s",
					   bpf_map__name(map), sw->instance, strerror(-fd))
			     : reuse_map(sw, map, fd, err);
		if (fd >= 0)
			close(fd);
		if (ret)
			return ret;
	}
	return 0;
}

static int pin_programs(struct inc_switch *sw, struct inc_err *err)
{
	struct bpf_program *prog;
	int ret;

	bpf_object__for_each_program (prog, sw->skel->obj) {
		/* replace the pin of the predecessor's program by one of this program */
		inc_unpin(sw, bpf_program__name(prog));
		if (!bpf_program__autoload(prog))
			continue;
		ret = inc_pin_fd(sw, bpf_program__fd(prog), bpf_program__name(prog), err);
		if (ret)
			return ret;
	}
	return 0;
}

int inc_pin_all(struct inc_switch *sw, struct inc_err *err)
{
	struct bpf_map *map;
	int ret;

	if (sw->adopted)
		return pin_programs(sw, err);
	bpf_object__for_each_map (map, sw->skel->obj) {
		if (bpf_map__is_internal(map))
			continue;
		ret = inc_pin_fd(sw, bpf_map__fd(map), bpf_map__name(map), err);
		if (ret)
			return ret;
	}
	ret = pin_programs(sw, err);
	return ret ?: pin_layout(sw, err);
}
