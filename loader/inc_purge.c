/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Removes programs of a switch from libxdp's dispatchers, even programs of a predecessor. A program
 * belongs to the switch if it uses a certain map. The loader calls this on its one thread.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/if_link.h>
#include "loader/inc_loader_priv.h"

#define DISPATCHER_DIR INC_BPFFS "/xdp"

uint32_t inc_map_id(int fd)
{
	struct bpf_map_info info = {};
	__u32 len = sizeof(info);

	return bpf_obj_get_info_by_fd(fd, &info, &len) ? 0 : info.id;
}

bool inc_uses_map(int prog_fd, uint32_t map_id)
{
	/* ids of the maps that a program uses; the programs use half as many at most */
	uint32_t ids[64], i;
	struct bpf_prog_info info = {.map_ids = (uintptr_t)ids, .nr_map_ids = 64};
	__u32 len = sizeof(info);

	if (bpf_obj_get_info_by_fd(prog_fd, &info, &len))
		return false;
	for (i = 0; i < info.nr_map_ids && i < 64; i++)
		if (ids[i] == map_id)
			return true;
	return false;
}

/* Removes one program that uses the map from libxdp's dispatcher on ifindex, but not the program
 * with the id spare. Returns false if there is no such program. */
static bool purge_one(uint32_t ifindex, uint32_t map_id, uint32_t spare)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	struct xdp_program *prog = NULL, *copy;
	bool found = false;
	int fd;

	if (libxdp_get_error(mp))
		return false;
	while (!found && !xdp_multiprog__is_legacy(mp) &&
	       (prog = xdp_multiprog__next_prog(prog, mp))) {
		fd = bpf_prog_get_fd_by_id(xdp_program__id(prog));
		found = fd >= 0 && xdp_program__id(prog) != spare && inc_uses_map(fd, map_id);
		if (fd >= 0)
			close(fd);
	}
	if (found) {
		copy = xdp_program__from_id(xdp_program__id(prog));
		found = !libxdp_get_error(copy) &&
			!xdp_program__detach(copy, ifindex, xdp_multiprog__attach_mode(mp), 0);
		if (!libxdp_get_error(copy))
			xdp_program__close(copy);
	}
	xdp_multiprog__close(mp);
	return found;
}

bool inc_purge_interface(uint32_t ifindex, uint32_t map_id, uint32_t spare)
{
	bool any = false;

	while (purge_one(ifindex, map_id, spare))
		any = true;
	return any;
}

/* Calls fn for each pin in the directory of one of libxdp's dispatchers. */
static void each_pin(const char *dir, void (*fn)(const char *path, void *arg), void *arg)
{
	char path[PATH_MAX * 2];
	struct dirent *e;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		fn(path, arg);
	}
	if (d)
		closedir(d);
}

struct pinned_progs {
	uint32_t map_id;
	bool ours, others;
};

static void judge_pin(const char *path, void *arg)
{
	struct pinned_progs *progs = arg;
	int fd = strstr(strrchr(path, '/'), "-prog") ? bpf_obj_get(path) : -1;

	if (fd < 0)
		return;
	if (inc_uses_map(fd, progs->map_id))
		progs->ours = true;
	else
		progs->others = true;
	close(fd);
}

static void delete_pin(const char *path, void *arg)
{
	unlink(path);
}

/* Whether the dispatcher in this directory runs at least one program, and all its programs use the
 * map. */
static bool is_ours_alone(const char *dir, uint32_t map_id)
{
	struct pinned_progs progs = {.map_id = map_id};

	each_pin(dir, judge_pin, &progs);
	return progs.ours && !progs.others;
}

static void purge_pins(const char *dir, uint32_t map_id)
{
	if (!is_ours_alone(dir, map_id))
		return;
	each_pin(dir, delete_pin, NULL);
	rmdir(dir);
}

uint32_t inc_purge_moved(uint32_t ifindex, uint32_t xdp_id, bool generic, uint32_t map_id)
{
	DIR *d = xdp_id ? opendir(DISPATCHER_DIR) : NULL;
	uint32_t was, id, found = 0;
	char path[PATH_MAX];
	struct dirent *e;

	while (d && !found && (e = readdir(d))) {
		if (sscanf(e->d_name, "dispatch-%u-%u", &was, &id) != 2 || id != xdp_id ||
		    was == ifindex)
			continue;
		snprintf(path, sizeof(path), "%s/%s", DISPATCHER_DIR, e->d_name);
		if (!is_ours_alone(path, map_id) ||
		    bpf_xdp_detach(ifindex, generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE,
				   NULL))
			continue;
		purge_pins(path, map_id);
		found = was;
	}
	if (d)
		closedir(d);
	return found;
}

void inc_dispatchers_purge(uint32_t map_id, const struct inc_switch *spare)
{
	char path[PATH_MAX];
	struct dirent *e;
	uint32_t ifindex;
	DIR *d;

	if (!map_id)
		return;
	inc_capture_begin();
	d = opendir(DISPATCHER_DIR);
	while (d && (e = readdir(d))) {
		if (sscanf(e->d_name, "dispatch-%u-", &ifindex) != 1)
			continue;
		if (spare && inc_is_port(spare, ifindex))
			continue;
		if (inc_purge_interface(ifindex, map_id, 0))
			continue;
		snprintf(path, sizeof(path), "%s/%s", DISPATCHER_DIR, e->d_name);
		purge_pins(path, map_id);
	}
	if (d)
		closedir(d);
	inc_capture_end();
}
